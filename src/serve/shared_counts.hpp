// SPDX-License-Identifier: Apache-2.0
// shared_counts.hpp - what is counted about serving, in two segments that all workers write at once and that outlive
// them.
//
//   NAME           counter_set        requests by route, status class and worker; lookups by result and by a field's
//   value;
//                                     connections, time-outs and refusals; restarts, pids and start times of workers
//   NAME-latency   latency_histogram  how long requests for data took, a shard a worker
// A request is counted before its answer leaves, so that whoever has an answer finds it counted, whatever is killed
// next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/metrics/latency_histogram.hpp"
#include "holdfast/net/server.hpp"

namespace holdfast::serve {

inline constexpr std::string_view requests_family = "holdfast_http_requests_total";
inline constexpr std::string_view lookups_family = "holdfast_index_lookups_total";
inline constexpr std::string_view values_family = "holdfast_index_lookups_by_value_total";
inline constexpr std::string_view restarts_family = "holdfast_worker_restarts_total";
inline constexpr std::string_view pid_family = "holdfast_worker_pid";
inline constexpr std::string_view started_family = "holdfast_worker_start_time_seconds";
inline constexpr std::string_view accepted_family = "holdfast_connections_accepted_total";
inline constexpr std::string_view open_family = "holdfast_connections_open";
inline constexpr std::string_view turned_away_family = "holdfast_connections_refused_total";
inline constexpr std::string_view lost_family = "holdfast_connections_lost_total";
inline constexpr std::string_view pauses_family = "holdfast_connections_pauses_total";
inline constexpr std::string_view timeouts_family = "holdfast_http_timeouts_total";
inline constexpr std::string_view half_closed_family = "holdfast_connections_half_closed_total";
inline constexpr std::string_view partial_family = "holdfast_http_partial_requests_total";
inline constexpr std::string_view overflows_family = "holdfast_channel_overflows_total";
inline constexpr std::string_view dropped_family = "holdfast_channel_messages_dropped_total";
inline constexpr std::string_view websockets_refused_family = "holdfast_websockets_refused_total";
inline constexpr std::string_view files_cut_family = "holdfast_http_files_cut_total";
inline constexpr std::string_view malformed_family = "holdfast_http_malformed_requests_total";
inline constexpr std::string_view exceptions_family = "holdfast_http_handler_exceptions_total";
inline constexpr std::string_view received_family = "holdfast_http_received_bytes_total";
inline constexpr std::string_view sent_family = "holdfast_http_sent_bytes_total";
inline constexpr std::string_view shortages_family = "holdfast_io_uring_shortages_total";
inline constexpr std::string_view subscribers_family = "holdfast_ring_subscribers";
inline constexpr std::string_view ring_messages_family = "holdfast_ring_messages_total";
inline constexpr std::string_view tls_family = "holdfast_tls_connections_total";
inline constexpr std::string_view engine_family = "holdfast_worker_engine";
inline constexpr std::string_view latency_family = "holdfast_http_request_duration_seconds";

/// The routes, as they are counted.
enum class route : std::uint8_t {
    dashboard,
    health,
    metrics,
    segments,
    stats,
    table_get,
    table_scan,
    table_batch,
    table_put,
    table_delete,
    table_increment,
    ring_publish,
    snapshot_get,
    snapshot_put,
    index_get,
    ring_read,  // from here on: what may wait or go on, whose time says nothing of the server
    ring_events,
    ring_socket,
    none
};
inline constexpr std::size_t route_count = static_cast<std::size_t>(route::none) + 1;

/// The route's label: its path with the variable parts named.
[[nodiscard]] std::string_view route_text(route which) noexcept;

/// The two segments, made at the first start and joined ever after.
struct shared_counts {
    counter_set counters;
    latency_histogram latency;

    /// Throws: what creating and attaching throws, with the cure for segments of another version.
    [[nodiscard]] static shared_counts open_or_create(const std::string& name, unsigned workers);
    /// Throws: what attaching throws.
    [[nodiscard]] static shared_counts attach(const std::string& name);

    [[nodiscard]] static std::string latency_name(const std::string& name) { return name + "-latency"; }
};

/// One worker's counters of requests, registered as they are first needed.
class request_counters {
 public:
    request_counters(const counter_set& counters, unsigned worker);
    void count(route which, int status);

 private:
    const counter_set& counters_;
    std::string worker_;
    std::array<std::array<counter, 6>, route_count> by_route_{};
};

/// What one worker's loop counts by itself: connections, time-outs, refusals. All are there from the start, as zeros:
/// an alarm needs a series to compare with.
class loop_counters {
 public:
    loop_counters(const counter_set& counters, unsigned worker);
    /// Adds what is new since the last call. A worker that is killed loses what it counted since then.
    /// Without `gauges`, what is now is left to another worker of this number.
    void publish(const net::server_counters& now, bool gauges = true) noexcept;

 private:
    static constexpr std::size_t places = 30;
    counter open_;
    std::array<counter, places> counters_{};
    std::array<std::uint64_t, places> published_{};
};

/// What one worker's subscriptions count.
struct ring_numbers {
    std::uint64_t subscribers = 0;  ///< now
    std::uint64_t read = 0, delivered = 0, lost = 0;
};
class ring_counters {
 public:
    ring_counters(const counter_set& counters, unsigned worker);
    /// As loop_counters::publish.
    void publish(const ring_numbers& now, bool gauges = true) noexcept;

 private:
    counter subscribers_, read_, delivered_, lost_;
    ring_numbers published_;
};

/// Counters of the lookups in one index, one for each value of a field that turns up.
class lookup_counters {
 public:
    /// `field` is empty where lookups are not counted by value.
    lookup_counters(const counter_set& counters, std::string segment, std::string field);

    void hit() const noexcept { add(hits_); }
    void miss() const noexcept { add(misses_); }
    [[nodiscard]] const std::string& field() const noexcept { return field_; }
    /// Counts a value of the field. Beyond value_max values, and when the set is full, values are counted as "(other)".
    void value(std::string_view text);

    static constexpr std::size_t values_max = 1024;

 private:
    [[nodiscard]] std::string labels(std::string_view value) const;
    /// A set that is full of other names costs counts, never answers.
    static void add(const counter& one) noexcept {
        if (one) one.add();
    }

    const counter_set& counters_;
    std::string segment_;
    std::string field_;
    counter hits_;
    counter misses_;
    counter other_;
    std::map<std::string, counter, std::less<>> values_;
};

}  // namespace holdfast::serve
