// SPDX-License-Identifier: Apache-2.0
// http_targets.hpp - what is asked of our servers beside the floor and their peers, as the lines `target: ...` of the
// suite.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/rounds.hpp"
#include "workload/suite.hpp"
#include "workload/targets.hpp"

namespace holdfast::bench::http {

inline constexpr const char* net_epoll_name = "holdfast::net, epoll";
inline constexpr const char* net_io_uring_name = "holdfast::net, io_uring";
inline constexpr const char* serve_epoll_name = "holdfast serve, epoll";
inline constexpr const char* serve_io_uring_name = "holdfast serve, io_uring";
inline constexpr const char* floor_name = "bare epoll loop";

[[nodiscard]] bool is_ours(std::string_view name);

/// The load client as a subject, beside the server that it asks.
[[nodiscard]] inline std::string client_of(const std::string& server) { return "load client of " + server; }

/// Server time a request of one workload, for each of its subjects: [subject][round], in microseconds.
struct server_times {
    std::vector<std::string> names;
    samples us;
};

/// The targets of one small JSON reply over connections that are kept. Each sentence is computed from the samples of
/// the table above it; nothing is said of subjects that were not timed.
void note_reply_targets(const std::string& workload, const server_times& found, workload::recorder& to);
/// Of the same with 16 requests under way.
void note_pipeline_targets(const std::string& workload, const server_times& found, workload::recorder& to);
/// Of the load client, which is to cost less than each server of ours that it asks.
void note_client_targets(const std::string& workload, const server_times& found, workload::recorder& to);
/// Of two workers beside one, for each of `subjects`; in `found` they have the names of with_workers (two_workers.hpp).
void note_worker_targets(const std::string& workload, const std::vector<std::string>& subjects,
                         const server_times& found, workload::recorder& to);

}  // namespace holdfast::bench::http
