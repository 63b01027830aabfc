// SPDX-License-Identifier: Apache-2.0
// api.hpp - the routes of a worker: what each path and method answers.
//
//   GET  /v1/segments                        what is served, with kind, schema and occupancy
//   GET  /v1/stats                           counts, latency and workers, for the dashboard
//   GET  /v1/indexes/{segment}/{key}         sorted index: the record whose key or range holds the key; ETag, ?fields=
//   GET  /v1/tables/{segment}/{key}          hash table: one entry; ETag, ?fields=
//   PUT, DELETE                              the same, where the server may write; If-Match, If-None-Match: *
//   POST /v1/tables/{segment}/{key}:increment  {"field": NAME, "by": NUMBER}; If-Match
//   GET  /v1/tables/{segment}                a page of entries; ?limit=, ?cursor=, ?fields=
//   POST /v1/tables/{segment}:batchGet       {"keys": [...]}, up to 1000, and 16 MiB of entries; ?fields=
//   GET  /v1/rings/{segment}                 broadcast: a page, a long poll, events or a WebSocket (api_rings.hpp)
//   POST /v1/rings/{segment}                 publishes the body, where the server may write; ?type=
//   GET  /v1/snapshots/{segment}             the current object: JSON of a record, else its bytes; ETag, Range
//   PUT  /v1/snapshots/{segment}             publishes the body as the next, where the server may write; If-Match
//   GET  /metrics, /healthz, /
// HEAD is answered as GET. Every failure is a problem (RFC 9457) that says what to do. A request that calls us by a
// foreign name, or is made by a foreign page and no GET or HEAD, is refused before anything else (host_check.hpp). Who
// asks over a unix socket is shown what it may read itself (rights.hpp). Each answer is counted before it leaves
// (shared_counts.hpp). What tells of all segments is answered once they have been looked at, some in each turn of the
// loop, and others are answered in between.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "holdfast/net/request.hpp"
#include "holdfast/net/response.hpp"
#include "holdfast/net/uri.hpp"
#include "serve/api_rings.hpp"
#include "serve/audit_log.hpp"
#include "serve/catalog.hpp"
#include "serve/host_check.hpp"
#include "serve/owner_desk.hpp"
#include "serve/rate_limits.hpp"
#include "serve/report.hpp"
#include "serve/serve.hpp"
#include "serve/shared_counts.hpp"
#include "serve/table_writer.hpp"
#include "serve/write_token.hpp"

namespace holdfast::serve {

class api {
 public:
    /// `counts` must outlive this.
    api(const serve_options& options, unsigned worker, const shared_counts& counts);

    /// Answers and counts one request. Throws nothing but std::bad_alloc.
    void answer(const net::request& from, net::response& to);

    /// Call it some times a second: lets go of what was replaced or is not needed, and looks at rights anew.
    void refresh();

    /// Says on whose turns reports go on, and whose timers subscriptions use: before the first request, and it must
    /// outlive the last.
    void run_on(net::server& loop) noexcept {
        loop_ = &loop;
        rings_.run_on(loop);
        owners_.run_on(loop);
    }
    /// Lets nobody wait any more. Call it before the server's drain(), or hand_over() where there is a successor.
    void drain(bool successor) { rings_.drain(successor); }
    [[nodiscard]] const ring_routes& rings() const noexcept { return rings_; }

    static constexpr std::size_t batch_keys_max = 1000;
    static constexpr std::size_t batch_bytes_max = std::size_t{16} << 20U;  // of what they are answered with
    static constexpr std::size_t page_default = 100;
    static constexpr std::size_t page_max = 1000;

 private:
    /// One request under way.
    struct exchange {
        const net::request& from;
        net::response& to;
        viewer who{};
        std::vector<std::string>& path;  // decoded segments
        net::query_parameters query{};
        route which = route::none;
        std::optional<int> counted{};  // instead of the response's status; 0: when it is answered
    };

    enum class change { put, erase, increment };
    /// A writer of a table of many, kept while writes come.
    struct kept_writer {
        table_writer writer;
        unsigned idle_ticks = 0;
    };
    static constexpr unsigned idle_ticks_max = 20;  // of refresh(), a second

    void require_rate(const exchange& it);
    void dispatch(exchange& it);
    void dispatch_v1(exchange& it);
    // api_reports.cpp
    /// Writes an answer about what was found.
    using report_writer = std::function<void(net::response& to, const survey& seen, viewer who)>;
    struct report;
    void answer_with_report(exchange& it, report_writer write);
    void schedule_reports();
    void go_on_with_reports();
    void finish_report(report& one);
    // api_read.cpp
    void read_key(const record_schema& schema, const std::string& text);  // into key_
    void get_index(exchange& it, const std::string& segment, const std::string& key);
    void entry(exchange& it, const std::string& segment, const std::string& key);
    void get_entry(exchange& it, const std::string& segment, const std::string& key);
    void scan_table(exchange& it, const std::string& segment);
    void batch_get(exchange& it, const std::string& segment);
    void ring(exchange& it, const std::string& segment);
    void snapshot(exchange& it, const std::string& segment);
    // api_snapshots.cpp
    void get_snapshot(exchange& it, const std::string& name);
    void put_snapshot(exchange& it, const std::string& name);
    // api_write.cpp
    void change_entry(exchange& it, const std::string& segment, const std::string& key, change what);
    void make_change(exchange& it, table_writer& writer, const std::string& key, change what, const conditions& asked);
    [[nodiscard]] static std::string_view name_of(change what) noexcept;
    void publish(exchange& it, const std::string& segment);
    /// Makes a change that the log has been told of. Throws: what `change_it` throws, which has then changed nothing.
    void logged(const exchange& it, std::string_view action, std::string_view uri, std::string_view key,
                const std::function<void()>& change_it);
    /// The second line, where `change_it` throws. Throws: that.
    void refusals_logged(std::uint64_t number, const std::function<void()>& change_it);
    /// The line ahead of a change. Returns: its number. Throws: failure 507.
    std::uint64_t logged_ahead(const exchange& it, std::string_view action, std::string_view uri, std::string_view key);
    void log_refusal(std::uint64_t number, int status) noexcept;
    void require_may_write(const exchange& it, const segment& memory) const;
    // api_owner.cpp
    struct owned_change {
        const std::string& uri;
        const std::string& key;
        change what;
    };
    struct asked_owner;
    /// Throws: failure for whatever is no success, as a writer of our own would (table_writer.cpp).
    static void require_done(const owner_reply& got, const asked_owner& asked);
    /// Has the table's owner make a change, and answers when that has. Returns: false, with nothing done, where its
    /// inbox is gone. Throws: failure, error; nothing is changed.
    [[nodiscard]] bool ask_owner(exchange& it, const std::shared_ptr<owner_desk::table>& owner,
                                 const owned_change& asked, const conditions& demanded);
    /// The command that a request means. Throws: failure 400.
    [[nodiscard]] static inbox_command command_of(const exchange& it, entry_text& text, const owned_change& asked,
                                                  const conditions& demanded);
    /// A writer of one for this request, or a kept one of many. Throws: as table_writer.
    [[nodiscard]] table_writer& writer_of(const std::string& uri, std::optional<table_writer>& for_now);
    [[nodiscard]] lookup_counters& counters_of(const std::string& segment);

    const shared_counts& counts_;
    request_counters requests_;
    host_check hosts_;
    catalog catalog_;
    bool tls_;
    ring_routes rings_;
    bool write_;
    std::optional<write_token> token_;
    std::optional<audit_log> audit_;
    owner_desk owners_;
    net::server* loop_ = nullptr;
    std::deque<std::shared_ptr<report>> reports_;  // under way: the first is gone on with
    bool reports_scheduled_ = false;
    rate_limits rates_;
    std::unordered_map<std::string, kept_writer> writers_;  // by URI
    std::vector<count_by> count_by_;
    std::unordered_map<std::string, lookup_counters> lookups_;
    std::vector<std::byte> key_;  // this and what follows: reused from request to request
    std::string text_;
    std::vector<std::string> path_;
    static constexpr std::size_t path_segments_kept = 8;
};

}  // namespace holdfast::serve
