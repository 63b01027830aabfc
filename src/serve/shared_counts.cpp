// SPDX-License-Identifier: Apache-2.0
#include "serve/shared_counts.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "holdfast/error.hpp"

namespace holdfast::serve {

namespace {

/// Joins what is there or makes it; another process may do either at the same moment.
template <class Container, class Options>
Container attach_or_create(const std::string& name, const Options& options) {
    for (int tries = 0;; ++tries) {
        try {
            return Container::attach(name);
        } catch (const error& e) {
            if (e.reason() != errc::not_found || tries == 10) throw;
        }
        try {
            return Container::create(name, options);
        } catch (const error& e) {
            if (e.reason() != errc::already_exists) throw;
        }
    }
}

/// A number that a loop counts, as it stands in the set: family{label="value",worker="N"}.
struct loop_count {
    std::string_view family;
    std::string_view label;
    std::string_view value;
    std::uint64_t net::server_counters::* member;
};

using loop = net::server_counters;
constexpr loop_count loop_counts[] = {
    {accepted_family, "", "", &loop::accepted},
    {turned_away_family, "reason", "connections", &loop::over_connections_max},
    {turned_away_family, "reason", "descriptors", &loop::over_descriptors},
    {turned_away_family, "reason", "held_bytes", &loop::over_held_bytes},
    {lost_family, "", "", &loop::lost},
    {pauses_family, "of", "accept", &loop::accept_pauses},
    {pauses_family, "of", "read", &loop::read_pauses},
    {shortages_family, "of", "buffers", &loop::out_of_buffers},
    {shortages_family, "of", "completions", &loop::out_of_completions},
    {timeouts_family, "waiting_for", "head", &loop::header_timeouts},
    {timeouts_family, "waiting_for", "body", &loop::body_timeouts},
    {timeouts_family, "waiting_for", "request", &loop::idle_timeouts},
    {timeouts_family, "waiting_for", "reader", &loop::write_timeouts},
    {timeouts_family, "waiting_for", "answer", &loop::answer_timeouts},
    {half_closed_family, "", "", &loop::half_closed},
    {partial_family, "", "", &loop::partial_requests},
    {overflows_family, "", "", &loop::channel_overflows},
    {dropped_family, "", "", &loop::messages_dropped},
    {websockets_refused_family, "", "", &loop::websockets_refused},
    {files_cut_family, "", "", &loop::files_cut},
    {tls_family, "event", "secured", &loop::tls_handshakes},
    {tls_family, "event", "resumed", &loop::tls_resumed},
    {tls_family, "event", "failed", &loop::tls_failures},
    {tls_family, "event", "timed_out", &loop::tls_timeouts},
    {tls_family, "event", "without_tls", &loop::tls_plain},
    {tls_family, "event", "truncated", &loop::tls_truncated},
    {malformed_family, "", "", &loop::refused},
    {exceptions_family, "", "", &loop::handler_exceptions},
    {received_family, "", "", &loop::bytes_received},
    {sent_family, "", "", &loop::bytes_sent},
};

}  // namespace

std::string_view route_text(route which) noexcept {
    switch (which) {
        case route::dashboard: return "/";
        case route::health: return "/healthz";
        case route::metrics: return "/metrics";
        case route::segments: return "/v1/segments";
        case route::stats: return "/v1/stats";
        case route::table_get: return "/v1/tables/{segment}/{key}";
        case route::table_scan: return "/v1/tables/{segment}";
        case route::table_batch: return "/v1/tables/{segment}:batchGet";
        case route::table_put: return "PUT /v1/tables/{segment}/{key}";
        case route::table_delete: return "DELETE /v1/tables/{segment}/{key}";
        case route::table_increment: return "/v1/tables/{segment}/{key}:increment";
        case route::ring_publish: return "POST /v1/rings/{segment}";
        case route::snapshot_get: return "/v1/snapshots/{segment}";
        case route::snapshot_put: return "PUT /v1/snapshots/{segment}";
        case route::ring_read: return "/v1/rings/{segment}";
        case route::ring_events: return "/v1/rings/{segment} events";
        case route::ring_socket: return "/v1/rings/{segment} WebSocket";
        case route::index_get: return "/v1/indexes/{segment}/{key}";
        case route::none: return "none";
    }
    return "none";
}

shared_counts shared_counts::open_or_create(const std::string& name, unsigned workers) {
    counter_set_options counters;
    counters.capacity = 8192;
    latency_histogram_options latency;
    latency.shards = std::max(64U, workers * 2);
    return {attach_or_create<counter_set>(name, counters),
            attach_or_create<latency_histogram>(latency_name(name), latency)};
}

shared_counts shared_counts::attach(const std::string& name) {
    return {counter_set::attach(name), latency_histogram::attach(latency_name(name))};
}

request_counters::request_counters(const counter_set& counters, unsigned worker)
    : counters_(counters), worker_(std::to_string(worker)) {}

void request_counters::count(route which, int status) {
    const std::size_t status_class = status >= 100 && status < 600 ? static_cast<std::size_t>(status / 100) : 0;
    counter& mine = by_route_[static_cast<std::size_t>(which)][status_class];
    if (!mine) {
        std::string labels;
        append_metric_label(labels, "route", route_text(which));
        append_metric_label(labels, "status", std::to_string(status_class) + "xx");
        append_metric_label(labels, "worker", worker_);
        const std::optional<counter> found = counters_.try_get(requests_family, labels);
        if (!found) return;  // the set is full of other names: serving goes on uncounted
        mine = *found;
    }
    mine.add();
}

loop_counters::loop_counters(const counter_set& counters, unsigned worker) {
    static_assert(std::size(loop_counts) == places);
    const std::string number = std::to_string(worker);
    for (std::size_t i = 0; i < places; ++i) {
        const loop_count& one = loop_counts[i];
        std::string labels;
        if (!one.label.empty()) append_metric_label(labels, one.label, one.value);
        append_metric_label(labels, "worker", number);
        counters_[i] = counters.try_get(one.family, labels).value_or(counter());  // full: serving goes on uncounted
    }
    open_ = counters.try_get(open_family, metric_label("worker", number)).value_or(counter());
}

void loop_counters::publish(const net::server_counters& now, bool gauges) noexcept {
    for (std::size_t i = 0; i < places; ++i) {
        const std::uint64_t counted = now.*loop_counts[i].member;
        const std::uint64_t fresh = counted - std::exchange(published_[i], counted);
        if (fresh != 0 && counters_[i]) counters_[i].add(fresh);
    }
    if (gauges && open_) open_.set(now.open);
}

ring_counters::ring_counters(const counter_set& counters, unsigned worker) {
    const std::string number = std::to_string(worker);
    const auto messages = [&](std::string_view of) {
        std::string labels;
        append_metric_label(labels, "of", of);
        append_metric_label(labels, "worker", number);
        return counters.try_get(ring_messages_family, labels).value_or(counter());
    };
    subscribers_ = counters.try_get(subscribers_family, metric_label("worker", number)).value_or(counter());
    read_ = messages("read");
    delivered_ = messages("delivered");
    lost_ = messages("lost");
}

void ring_counters::publish(const ring_numbers& now, bool gauges) noexcept {
    if (gauges && subscribers_) subscribers_.set(now.subscribers);
    const auto add = [](const counter& to, std::uint64_t fresh) {
        if (to && fresh != 0) to.add(fresh);
    };
    add(read_, now.read - published_.read);
    add(delivered_, now.delivered - published_.delivered);
    add(lost_, now.lost - published_.lost);
    published_ = now;
}

lookup_counters::lookup_counters(const counter_set& counters, std::string segment, std::string field)
    : counters_(counters), segment_(std::move(segment)), field_(std::move(field)) {
    const auto result = [&](std::string_view text) {
        std::string list = metric_label("segment", segment_);
        append_metric_label(list, "result", text);
        return counters_.try_get(lookups_family, list).value_or(counter());
    };
    hits_ = result("hit");
    misses_ = result("miss");
    if (!field_.empty()) other_ = counters_.try_get(values_family, labels("(other)")).value_or(counter());
}

std::string lookup_counters::labels(std::string_view value) const {
    std::string list = metric_label("segment", segment_);
    append_metric_label(list, "field", field_);
    append_metric_label(list, "value", value);
    return list;
}

void lookup_counters::value(std::string_view text) {
    if (field_.empty()) return;
    auto at = values_.find(text);
    if (at == values_.end()) {
        std::optional<counter> fresh;
        // A value too long for a label is rare and only makes the counting coarser.
        if (values_.size() < values_max && text.size() <= 64) fresh = counters_.try_get(values_family, labels(text));
        if (values_.size() >= values_max) return add(other_);
        at = values_.emplace(std::string(text), fresh.value_or(other_)).first;
    }
    add(at->second);
}

}  // namespace holdfast::serve
