// SPDX-License-Identifier: Apache-2.0
#include "serve/report.hpp"

#include <time.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "holdfast/version.hpp"
#include "inspect/attach.hpp"
#include "inspect/description.hpp"
#include "inspect/json_out.hpp"
#include "inspect/metrics_reader.hpp"

namespace holdfast::serve {

namespace {

using inspect::json_out;

struct series {
    std::string labels;
    std::uint64_t value;
};
using families = std::map<std::string, std::vector<series>, std::less<>>;

/// What this client may be told: a series that counts for a segment names it.
families families_of(const counter_set& counters, const catalog& segments, viewer who) {
    families found;
    std::map<std::string, bool> told;  // by segment, which may have a thousand series
    counters.for_each([&](std::string_view family, std::string_view labels, std::uint64_t value) {
        if (const auto segment = metric_label_value(labels, "segment")) {
            const auto [at, is_first] = told.try_emplace(*segment);
            if (is_first) at->second = segments.may_name(*segment, who);
            if (!at->second) return;
        }
        found[std::string(family)].push_back({std::string(labels), value});
    });
    return found;
}

std::string_view help_of(std::string_view family) noexcept {
    if (family == requests_family) return "Requests answered, by route, class of status and worker.";
    if (family == lookups_family) return "Lookups in indexes, by whether a record held the key.";
    if (family == values_family) return "Lookups in indexes that found a record, by the value of one of its fields.";
    if (family == restarts_family) return "Times a worker process died and was started again.";
    if (family == pid_family) return "Process of a worker, 0 while there is none.";
    if (family == started_family) return "When a worker was started, in seconds since the Unix epoch.";
    if (family == accepted_family) return "Connections taken, by worker.";
    if (family == open_family) return "Connections that are open now, by worker.";
    if (family == turned_away_family) return "Connections told 503 or cut, by the limit that they met.";
    if (family == lost_family) return "Connections that the client left in the middle of an exchange.";
    if (family == pauses_family) return "Times a worker stopped accepting, or reading from a connection, for a while.";
    if (family == timeouts_family)
        return "What was waited for and did not come in time: the connection was ended, or a late answer was a 504.";
    if (family == tls_family)
        return "What became of connections that were to speak TLS; resumed ones are secured, too.";
    if (family == half_closed_family)
        return "Clients that ended their sending in the middle of a request, or before they had their answers.";
    if (family == partial_family) return "Requests that came in more than one piece.";
    if (family == overflows_family) return "Streams and WebSockets cut because their reader was too slow.";
    if (family == dropped_family) return "Messages of streams and WebSockets dropped for slow readers.";
    if (family == websockets_refused_family) return "WebSockets closed because their client broke a rule.";
    if (family == files_cut_family) return "Answers reset because their file became shorter meanwhile.";
    if (family == malformed_family) return "Requests refused as malformed, ambiguous or beyond a limit.";
    if (family == exceptions_family) return "Requests that ended in an unexpected exception, answered 500.";
    if (family == received_family) return "Bytes received from clients.";
    if (family == sent_family) return "Bytes sent to clients.";
    if (family == subscribers_family) return "Subscriptions of rings that are open now, by worker.";
    if (family == ring_messages_family)
        return "Messages of rings: read from them, delivered to subscribers, and lost to subscribers.";
    if (family == shortages_family)
        return "Turns of a worker's io_uring that brought more than it has room for, which costs time, by what it "
               "lacked.";
    if (family == engine_family) return "1 for what carries a worker's connections: epoll or io_uring.";
    return "A count that a program keeps in this set.";
}

void render_counts(exposition& out, const families& counted) {
    for (const auto& [family, all] : counted) {
        if (family.ends_with("_total"))
            out.counters(family, help_of(family));
        else
            out.gauges(family, help_of(family), family.ends_with("_seconds") ? "seconds" : "");
        for (const series& one : all) out.series(one.labels, one.value);
    }
}

void render_latency(exposition& out, const latency_histogram& latency) {
    out.histograms(latency_family,
                   "Time from the first byte of a request for data (tables, indexes) to its answer being ready.");
    out.series({}, latency.merged());
}

/// Latencies that programs record in segments of their own.
void render_recorded(exposition& out, const std::vector<survey::sight>& all) {
    std::vector<std::pair<std::string, const histogram_counts*>> recorded;
    for (const auto& [one, counts] : all)
        if (counts) recorded.emplace_back(metric_label("segment", catalog::name_of(one.uri)), &*counts);
    if (recorded.empty()) return;
    out.histograms("holdfast_segment_latency_seconds", "What is recorded in a latency histogram.");
    for (const auto& [labels, counts] : recorded) out.series(labels, *counts);
    out.summaries("holdfast_segment_latency_quantiles_seconds",
                  "Quantiles since a latency histogram was made, for readers that cannot take them from its buckets.");
    for (const auto& [labels, counts] : recorded) out.series(labels, *counts);
}

void render_gauges(exposition& out, const std::vector<survey::sight>& all) {
    const auto labels = [](const inspect::description& one) {
        std::string list = metric_label("segment", catalog::name_of(one.uri));
        append_metric_label(list, "kind", one.info ? kind_name(one.info->kind) : "unknown");
        return list;
    };
    out.gauges("holdfast_segment_up", "Whether a served segment can be read.");
    for (const auto& [one, _] : all) out.series(labels(one), std::uint64_t{one.problem ? 0U : 1U});
    out.gauges("holdfast_segment_bytes", "Bytes of a segment, header included.", "bytes");
    for (const auto& [one, _] : all)
        if (one.info) out.series(labels(one), one.info->total_bytes);
    const auto optional_gauge = [&](const char* name, const char* help, auto member) {
        out.gauges(name, help);
        for (const auto& [one, _] : all)
            if (one.contents.*member) out.series(labels(one), *(one.contents.*member));
    };
    optional_gauge("holdfast_segment_entries", "Entries, records or counters in a segment.", &inspect::contents::size);
    optional_gauge("holdfast_segment_entries_limit", "How many of them fit.", &inspect::contents::capacity);
    optional_gauge("holdfast_segment_version", "Version that a segment publishes.", &inspect::contents::version);
}

std::uint64_t now_ms() noexcept {
    struct timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

std::string label(std::string_view labels, std::string_view name) {
    return metric_label_value(labels, name).value_or("");
}

void append_workers(json_out& json, const families& all) {
    struct worker {
        std::uint64_t pid = 0, started = 0, restarts = 0, requests = 0;
    };
    std::map<unsigned long, worker> workers;
    const auto collect = [&](std::string_view family, std::uint64_t worker::* member) {
        const auto found = all.find(family);
        if (found == all.end()) return;
        for (const series& one : found->second) {
            const std::string index = label(one.labels, "worker");
            if (!index.empty()) workers[std::strtoul(index.c_str(), nullptr, 10)].*member += one.value;
        }
    };
    collect(pid_family, &worker::pid);
    collect(started_family, &worker::started);
    collect(restarts_family, &worker::restarts);
    collect(requests_family, &worker::requests);
    json.key("workers").begin_array();
    for (const auto& [index, one] : workers) {
        if (one.pid == 0 && one.started == 0) continue;
        json.begin_object().member("index", index).member("pid", one.pid).member("started_s", one.started);
        json.member("restarts", one.restarts).member("requests", one.requests).end_object();
    }
    json.end_array();
}

/// [{LABEL: ..., "count": n}, ...] of a family; series that differ in other labels only are summed.
void append_family(json_out& json, const families& all, std::string_view family, std::string_view key,
                   std::initializer_list<std::string_view> names) {
    json.key(key).begin_array();
    std::map<std::vector<std::string>, std::uint64_t> sums;
    if (const auto found = all.find(family); found != all.end()) {
        for (const series& one : found->second) {
            std::vector<std::string> values;
            for (const std::string_view name : names) values.push_back(label(one.labels, name));
            sums[values] += one.value;
        }
    }
    for (const auto& [values, count] : sums) {
        json.begin_object();
        std::size_t i = 0;
        for (const std::string_view name : names) json.member(name, values[i++]);
        json.member("count", count).end_object();
    }
    json.end_array();
}

void append_latency(json_out& json, const histogram_counts& merged) {
    json.key("latency").begin_object().member("count", merged.total()).member("sum_ns", merged.sum());
    for (const auto& [name, q] :
         {std::pair{"p50", 0.5}, std::pair{"p90", 0.9}, std::pair{"p99", 0.99}, std::pair{"p999", 0.999}}) {
        const auto answer = merged.quantile(q);
        if (!answer) continue;
        json.key(name).begin_object().member("estimate_ns", answer->estimate).member("lower_ns", answer->lower);
        json.member("upper_ns", answer->upper).member("confidence", answer->confidence);
        json.member("bounded", answer->bounded).end_object();
    }
    inspect::append_buckets(json, merged);
    json.end_object();
}

/// Nothing where it is gone or damaged since it was described: holdfast_segment_up tells of that.
std::optional<histogram_counts> recorded_in(const inspect::description& one) {
    if (one.problem || !one.info || one.info->kind != container_kind::latency_histogram) return std::nullopt;
    try {
        const auto from = inspect::attach_to_look(one.uri);
        histogram_counts counts = inspect::latencies_of(*from);
        inspect::require_whole(*from);
        return counts;
    } catch (const error&) {
        return std::nullopt;
    }
}

}  // namespace

bool survey::go_on(std::chrono::nanoseconds budget) {
    const auto until = std::chrono::steady_clock::now() + budget;
    while (next_ < uris_.size()) {
        look_at(uris_[next_]);
        ++next_;
        if (std::chrono::steady_clock::now() >= until) break;
    }
    return next_ == uris_.size();
}

void survey::look_at(const std::string& uri) {
    inspect::description one = inspect::describe(uri);
    if (one.problem && one.problem->code == errc::not_found) return;
    std::optional<histogram_counts> recorded = recorded_in(one);
    found_.push_back({std::move(one), std::move(recorded)});
}

std::string render_metrics(const shared_counts& counts, const catalog& segments, const survey& seen,
                           exposition_format format, viewer who) {
    const std::unique_ptr<exposition> writer = make_exposition(format);
    exposition& out = *writer;
    out.info("holdfast_build_info", "Version of the server.", metric_label("version", version_text));
    render_counts(out, families_of(counts.counters, segments, who));
    render_latency(out, counts.latency);
    render_gauges(out, seen.found());
    render_recorded(out, seen.found());
    return out.finish();
}

std::string render_segments(const survey& seen) {
    std::string text;
    json_out json(text);
    json.begin_object().key("segments").begin_array();
    for (const auto& [one, _] : seen.found()) {
        std::string object;
        json_out inner(object);
        inspect::append_json(inner, one);
        // The name that URLs use goes first.
        std::string name;
        json_out(name).begin_object().member("name", catalog::name_of(one.uri));
        json.raw(name + "," + object.substr(1));
    }
    json.end_array().end_object();
    return text;
}

std::string render_stats(const shared_counts& counts, const catalog& segments, viewer who) {
    const families all = families_of(counts.counters, segments, who);
    std::string text;
    json_out json(text);
    json.begin_object().member("version", version_text).member("now_ms", now_ms());
    append_workers(json, all);
    append_family(json, all, requests_family, "requests", {"route", "status"});
    append_family(json, all, lookups_family, "lookups", {"segment", "result"});
    append_family(json, all, values_family, "values", {"segment", "field", "value"});
    append_latency(json, counts.latency.merged());
    json.end_object();
    return text;
}

}  // namespace holdfast::serve
