// SPDX-License-Identifier: Apache-2.0
#include "serve/api.hpp"

#include <time.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <optional>

#include "holdfast/error.hpp"
#include "holdfast/memory/uri.hpp"
#include "serve/answering.hpp"
#include "serve/dashboard.hpp"
#include "serve/exposition.hpp"
#include "serve/failure.hpp"
#include "serve/report.hpp"

namespace holdfast::serve {

namespace {

constexpr std::string_view batch_suffix = ":batchGet";
constexpr std::string_view increment_suffix = ":increment";

/// Whether the method is one of these; else answers 405 with what is allowed.
bool allows(const net::request& from, net::response& to, std::initializer_list<net::method> methods) {
    if (std::ranges::find(methods, from.method()) != methods.end()) return true;
    std::string allowed;
    for (const net::method each : methods) allowed.append(allowed.empty() ? "" : ", ").append(net::method_name(each));
    to.problem(405, std::string(net::method_name(from.method())) + " is not possible here; use " + allowed);
    to.header("Allow", allowed);
    return false;
}

bool allows_get(const net::request& from, net::response& to) {
    return allows(from, to, {net::method::get, net::method::head});
}

/// Refuses what a page of another site makes a browser send, unless it can change nothing and is not shown to that
/// page.
void check_origin(const net::request& from, bool tls) {
    if (from.method() == net::method::get || from.method() == net::method::head || is_of_own_page(from, tls)) return;
    throw failure{403, "a page of another site may not ask this of the server; only its own pages may"};
}

}  // namespace

bool is_of_own_page(const net::request& from, bool tls) {
    const std::size_t count = from.header_count("Origin");
    // By TCP all requests come by TLS, or none. Where there is a unix socket, too, each peer is known.
    const bool by_tls = tls && (from.peer() == nullptr || from.peer()->way != net::peer_way::unix_socket);
    return count == 0 || (count == 1 && is_own_origin(*from.header("Origin"), from.host(), by_tls));
}

std::string_view media_type_of(const net::request& from) {
    const std::string_view type = from.header("Content-Type").value_or("");
    const std::string_view plain = type.substr(0, type.find(';'));
    const std::string_view trimmed = plain.substr(0, plain.find_last_not_of(" \t") + 1);
    // curl -d says so of anything. A form of a page is kept out by its Origin.
    return net::equal_ignoring_case(trimmed, "application/x-www-form-urlencoded") ? std::string_view() : trimmed;
}

int status_of(errc code) noexcept {
    switch (code) {
        case errc::not_found:
        case errc::kind_mismatch: return 404;
        case errc::invalid_name:
        case errc::invalid_argument: return 400;
        case errc::unsafe_file:  // of another user than the server's
        case errc::no_permission: return 403;
        case errc::not_ready:
        case errc::truncated:  // until somebody loads it anew
        case errc::contended:
        case errc::io:  // out of descriptors, say: nothing can be told about the segment now
        case errc::no_space: return 503;
        default: return 500;  // damaged or foreign: the segment's fault, and nothing the client can change
    }
}

bool answer_or_refuse(net::response& to, const std::function<void()>& work) {
    bool done = false;
    try {
        work();
        done = true;
    } catch (const failure& e) {
        to.problem(e.status, e.detail);
        if (e.status == 401) to.header("WWW-Authenticate", "Bearer realm=\"holdfast\"");
        if (e.retry_after_s != 0) to.header("Retry-After", std::to_string(e.retry_after_s));
    } catch (const error& e) {
        to.problem(status_of(e.reason()), e.what());
    }
    // What is not here now may be at any time, by any process: caches would keep a 404 for as long as they like.
    if (to.status() >= 400) to.header("Cache-Control", "no-store");
    return done;
}

void require_whole_content(const net::request& from) {
    if (from.header_count("Content-Range") != 0)
        throw failure{400, "what is written is written as a whole; leave Content-Range out"};
    for (std::size_t i = 0; i < from.headers_size(); ++i) {
        const net::header_field each = from.header_at(i);
        if (net::equal_ignoring_case(each.name, "Content-Encoding") && !each.value.empty() &&
            !net::equal_ignoring_case(each.value, "identity"))
            throw failure{415, "content is taken as it is; send it without a Content-Encoding"};
    }
}

void answer_json(net::response& to, std::string&& text) {
    to.header("Content-Type", json_type);
    to.header("Cache-Control", "no-store");
    to.body(std::move(text));
}

std::uint64_t number_of(const net::query_parameters& query, std::string_view name, std::uint64_t otherwise) {
    const auto text = query.get(name);
    if (!text) return otherwise;
    std::uint64_t value = 0;
    const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (code != std::errc{} || end != text->data() + text->size() || text->empty())
        throw failure{400, std::string(name) + " is not a number"};
    return value;
}

void check_lookup(lookup result, const std::string& segment) {
    switch (result) {
        case lookup::found:
        case lookup::absent:
        case lookup::bad_key: return;  // told as such by who reads the key
        case lookup::empty: throw failure{404, segment + " has no version yet; publish one first"};
        case lookup::contended: throw failure{503, segment + " changed faster than it could be read; ask again"};
        case lookup::damaged: throw failure{500, segment + " is damaged; holdfast verify says where"};
        case lookup::cut_off: throw failure{503, segment + " is damaged: truncated while it was served; load it anew"};
    }
}

void check_parameters(const net::query_parameters& query, std::initializer_list<std::string_view> known) {
    for (const auto& [name, value] : query.items()) {
        if (std::ranges::find(known, name) != known.end()) continue;
        std::string list;
        for (const std::string_view each : known) list.append(list.empty() ? "" : ", ").append(each);
        throw failure{400, "no parameter " + name + " here" + (list.empty() ? "" : "; there are " + list)};
    }
}

api::api(const serve_options& options, unsigned worker, const shared_counts& counts)
    : counts_(counts),
      requests_(counts.counters, worker),
      hosts_(options.allowed_hosts),
      catalog_(options.segments, options.private_too),
      tls_(!options.tls_certificate.empty()),
      rings_(catalog_, tls_, [this](route which, int status) { requests_.count(which, status); }),
      write_(options.write),
      rates_(options.rate_of_one, options.rate_of_all),
      count_by_(options.counts) {
    if (!options.token_file.empty()) token_.emplace(options.token_file);
    if (!options.audit_log.empty()) audit_.emplace(options.audit_log, worker);
    for (count_by& each : count_by_) each.segment = catalog::name_of(memory::uri::parse(each.segment).text());
}

void api::answer(const net::request& from, net::response& to) {
    exchange it{from, to, {from.peer()}, path_};
    const bool answered = answer_or_refuse(to, [&] { dispatch(it); });
    if (!answered && to.status() >= 500) catalog_.refresh();  // what is damaged is attached anew by the next request
    to.route(static_cast<int>(it.which));
    if (const int status = answered ? it.counted.value_or(to.status()) : to.status(); status != 0)
        requests_.count(it.which, status);
    // Strings keep their room for the next request; of paths that no route has nothing is kept.
    if (path_.size() > path_segments_kept) std::vector<std::string>().swap(path_);
}

// Whoever watches over this server asks /healthz, and has to learn of an overload, not to be part of it.
void api::require_rate(const exchange& it) {
    if (!rates_.any() || it.from.path() == "/healthz") return;
    struct timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const std::uint64_t wait_ns = rates_.admit(
        it.who.peer, static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec));
    if (wait_ns == 0) return;
    throw failure{429, "more requests a second than this server answers; ask again later",
                  static_cast<unsigned>(wait_ns / 1'000'000'000 + 1)};
}

void api::dispatch(exchange& it) {
    require_rate(it);
    if (!hosts_.accepts(it.from.host()) && !(it.from.host().empty() && it.from.minor_version() == 0))
        throw failure{421,
                      "this server is not known by that name; call it by its address, or start it with --allow-host"};
    check_origin(it.from, tls_);
    if (it.from.target() == "*") {  // OPTIONS alone may ask this, of the server as a whole: RFC 9110 section 9.3.7
        it.to.status(204);
        it.to.header("Allow", write_ ? "GET, HEAD, POST, PUT, DELETE" : "GET, HEAD, POST");
        return;
    }
    if (!net::split_path(it.from.path(), it.path)) throw failure{400, "the path is not well formed"};
    if (!it.from.query().empty()) {
        auto query = net::query_parameters::parse(it.from.query());
        if (!query) throw failure{400, "the query is not well formed, or names a parameter twice"};
        it.query = std::move(*query);
    }
    const auto& parts = it.path;
    if (parts[0] == "v1") return dispatch_v1(it);
    if (parts.size() != 1) throw failure{404, "nothing is here; the routes begin with /v1/"};
    if (parts[0].empty()) {
        it.which = route::dashboard;
        if (!allows_get(it.from, it.to)) return;
        it.to.header("Content-Type", "text/html; charset=utf-8");
        it.to.header("Cache-Control", "no-cache");
        it.to.header("Content-Security-Policy",
                     "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
                     "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
        it.to.header("X-Content-Type-Options", "nosniff");
        it.to.header("Referrer-Policy", "no-referrer");
        it.to.body(dashboard_html());
    } else if (parts[0] == "healthz") {
        it.which = route::health;
        if (!allows_get(it.from, it.to)) return;
        it.to.header("Content-Type", "text/plain; charset=utf-8");
        it.to.header("Cache-Control", "no-store");
        it.to.body(std::string_view("ok\n"));
    } else if (parts[0] == "metrics") {
        it.which = route::metrics;
        if (!allows_get(it.from, it.to)) return;
        const exposition_format format = choose_exposition(it.from.header("Accept").value_or(""));
        answer_with_report(it, [this, format](net::response& to, const survey& seen, viewer who) {
            to.header("Content-Type", content_type(format));
            to.header("Cache-Control", "no-store");
            to.header("Vary", "Accept");
            to.body(render_metrics(counts_, catalog_, seen, format, who));
        });
    } else {
        throw failure{404, "nothing is here; the routes begin with /v1/"};
    }
}

void api::dispatch_v1(exchange& it) {
    const auto& parts = it.path;
    const std::string& what = parts.size() > 1 ? parts[1] : parts[0];
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (parts.size() > 2 && std::ranges::any_of(parts[2], control))
        throw failure{400, "a segment's name holds no control characters; GET /v1/segments lists the names"};
    if (std::ranges::any_of(it.from.query(), control) || std::ranges::any_of(it.query.items(), [&](const auto& item) {
            return std::ranges::any_of(item.second, control);
        }))
        throw failure{400, "a parameter holds no control characters"};
    if (parts.size() == 2 && what == "segments") {
        it.which = route::segments;
        check_parameters(it.query, {});
        if (allows_get(it.from, it.to))
            answer_with_report(
                it, [](net::response& to, const survey& seen, viewer) { answer_json(to, render_segments(seen)); });
    } else if (parts.size() == 2 && what == "stats") {
        it.which = route::stats;
        check_parameters(it.query, {});
        if (allows_get(it.from, it.to)) answer_json(it.to, render_stats(counts_, catalog_, it.who));
    } else if (parts.size() == 4 && what == "indexes") {
        it.which = route::index_get;
        if (allows_get(it.from, it.to)) get_index(it, parts[2], parts[3]);
    } else if (parts.size() == 4 && what == "tables") {
        entry(it, parts[2], parts[3]);
    } else if (parts.size() == 3 && what == "tables" && parts[2].ends_with(batch_suffix)) {
        it.which = route::table_batch;
        const std::string segment = parts[2].substr(0, parts[2].size() - batch_suffix.size());
        if (allows(it.from, it.to, {net::method::post})) batch_get(it, segment);
    } else if (parts.size() == 3 && what == "tables") {
        it.which = route::table_scan;
        if (allows_get(it.from, it.to)) scan_table(it, parts[2]);
    } else if (parts.size() == 3 && what == "rings") {
        ring(it, parts[2]);
    } else if (parts.size() == 3 && what == "snapshots") {
        snapshot(it, parts[2]);
    } else {
        throw failure{
            404,
            "no such route; there are /v1/segments, /v1/stats, /v1/indexes/{segment}/{key}, /v1/tables/{segment}, "
            "/v1/tables/{segment}/{key}, /v1/tables/{segment}/{key}:increment, /v1/tables/{segment}:batchGet, "
            "/v1/rings/{segment} and /v1/snapshots/{segment}"};
    }
}

void api::ring(exchange& it, const std::string& segment) {
    using net::method;
    it.which = route::ring_read;
    if (write_ && it.from.method() == method::post) {
        it.which = route::ring_publish;
        return publish(it, segment);
    }
    const bool allowed =
        write_ ? allows(it.from, it.to, {method::get, method::head, method::post}) : allows_get(it.from, it.to);
    if (allowed) it.counted = rings_.get({it.from, it.to, it.who, it.query, it.which}, segment);
}

void api::snapshot(exchange& it, const std::string& segment) {
    using net::method;
    it.which = route::snapshot_get;
    if (write_ && it.from.method() == method::put) {
        it.which = route::snapshot_put;
        return put_snapshot(it, segment);
    }
    const bool allowed =
        write_ ? allows(it.from, it.to, {method::get, method::head, method::put}) : allows_get(it.from, it.to);
    if (allowed) get_snapshot(it, segment);
}

void api::entry(exchange& it, const std::string& segment, const std::string& key) {
    using net::method;
    it.which = route::table_get;
    if (!write_) {
        if (allows_get(it.from, it.to)) get_entry(it, segment, key);
        return;
    }
    if (it.from.method() == method::post && key.ends_with(increment_suffix)) {
        it.which = route::table_increment;
        return change_entry(it, segment, key.substr(0, key.size() - increment_suffix.size()), change::increment);
    }
    if (!allows(it.from, it.to, {method::get, method::head, method::put, method::delete_})) return;
    if (it.from.method() == method::put) {
        it.which = route::table_put;
        return change_entry(it, segment, key, change::put);
    }
    if (it.from.method() == method::delete_) {
        it.which = route::table_delete;
        return change_entry(it, segment, key, change::erase);
    }
    get_entry(it, segment, key);
}

}  // namespace holdfast::serve
