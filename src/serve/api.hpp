// SPDX-License-Identifier: Apache-2.0
// api.hpp - the routes of a worker: what each path and method answers.
//
//   GET  /v1/segments                        what is served, with kind, schema and occupancy
//   GET  /v1/stats                           counts, latency and workers, for the dashboard
//   GET  /v1/indexes/{segment}/{key}         sorted index: the record whose key or range holds the key; ETag, ?fields=
//   GET  /v1/tables/{segment}/{key}          hash table: one entry; ?fields=
//   GET  /v1/tables/{segment}                a page of entries; ?limit=, ?cursor=, ?fields=
//   POST /v1/tables/{segment}:batchGet       {"keys": [...]}, up to 1000; ?fields=
//   GET  /metrics, /healthz, /
// HEAD is answered as GET. Every failure is a problem (RFC 9457) that says what to do. A request that calls us by a
// foreign name is refused before anything else (host_check.hpp). Each answer is counted before it leaves
// (shared_counts.hpp).
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "holdfast/net/request.hpp"
#include "holdfast/net/response.hpp"
#include "holdfast/net/uri.hpp"
#include "serve/catalog.hpp"
#include "serve/host_check.hpp"
#include "serve/serve.hpp"
#include "serve/shared_counts.hpp"

namespace holdfast::serve {

class api {
 public:
    /// `counts` must outlive this.
    api(const serve_options& options, unsigned worker, const shared_counts& counts);

    /// Answers and counts one request. Throws nothing but std::bad_alloc.
    void answer(const net::request& from, net::response& to);

    /// Call it some times a second: see catalog::refresh.
    void refresh() { catalog_.refresh(); }

    static constexpr std::size_t batch_keys_max = 1000;
    static constexpr std::size_t page_default = 100;
    static constexpr std::size_t page_max = 1000;

 private:
    /// One request under way.
    struct exchange {
        const net::request& from;
        net::response& to;
        std::vector<std::string> path{};  // decoded segments
        net::query_parameters query{};
        route which = route::none;
    };

    void dispatch(exchange& it);
    void dispatch_v1(exchange& it);
    void read_key(const record_schema& schema, const std::string& text);  // into key_
    void get_index(exchange& it, const std::string& segment, const std::string& key);
    void get_entry(exchange& it, const std::string& segment, const std::string& key);
    void scan_table(exchange& it, const std::string& segment);
    void batch_get(exchange& it, const std::string& segment);
    [[nodiscard]] lookup_counters& counters_of(const std::string& segment);

    const shared_counts& counts_;
    request_counters requests_;
    host_check hosts_;
    catalog catalog_;
    std::vector<count_by> count_by_;
    std::unordered_map<std::string, lookup_counters> lookups_;
    std::vector<std::byte> key_;  // reused from request to request
    std::string text_;
};

}  // namespace holdfast::serve
