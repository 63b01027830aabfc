// SPDX-License-Identifier: Apache-2.0
// connection_run.hpp - one number of connections on one server: opened, held, measured, closed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "workload/connections/connection_client.hpp"
#include "workload/connections/connection_subject.hpp"
#include "workload/connections/machine_limits.hpp"
#include "workload/connections/memory_use.hpp"
#include "workload/network_namespace.hpp"

namespace holdfast::workload::connections {

struct run_plan {
    process_plan spread{};
    idle_times idle{};
    std::chrono::milliseconds settle{20'000};  ///< from the last one opened to the first interval
    std::chrono::milliseconds interval{10'000};
    std::size_t intervals = 6;  ///< at most intervals_max
    std::uint64_t busy_requests = 100'000;
};

inline constexpr unsigned busy_connections = 10;

/// Requests of a few connections, one after the other on each, while all the others are held.
struct busy_found {
    std::uint64_t answers = 0;
    double seconds = 0;
    std::string failure;     ///< of the first one that failed; empty: none did
    std::uint64_t lost = 0;  ///< of the connections that are held, meanwhile

    [[nodiscard]] bool none_failed(std::uint64_t wanted) const noexcept {
        return failure.empty() && lost == 0 && answers >= wanted;
    }
};

/// What one interval found; all of it but the times is of its end.
struct interval_found {
    double seconds = 0;
    std::uint64_t answers = 0, body_bytes = 0;
    double server_us = 0, client_us = 0;  ///< processor time an answer
    double p50_us = 0, p99_us = 0, p999_us = 0;
    double user_bytes = 0;         ///< that the server's processes have grown by, a connection held
    double user_bytes_in_all = 0;  ///< that they take, a connection held
    double kernel_bytes = 0;       ///< that the kernel has grown by, a connection held, both ends
};

struct run_found {
    double opening_seconds = 0;
    std::uint64_t opened = 0, refused = 0, lost = 0, timed_out = 0;
    std::string refusal;  ///< why, of the last one refused
    std::vector<interval_found> intervals;
    busy_found busy;
    std::string kernel_objects;  ///< the largest kinds, bytes a connection; empty where they cannot be seen

    [[nodiscard]] std::uint64_t held() const noexcept {
        const std::uint64_t gone = lost + timed_out;
        return opened > gone ? opened - gone : 0;
    }
};

/// Where the sockets are made: `act` is called there.
using somewhere = std::function<void(const std::function<void()>& act)>;

/// Throws: unavailable and what else the subject's start throws; std::runtime_error when a process of the run fails, a
/// wrong answer comes, nothing can be opened, or opening stands still; http::interrupted.
[[nodiscard]] run_found run_connections(const subject& which, const run_plan& plan, const somewhere& there,
                                        const std::function<void(std::string_view)>& progress);

}  // namespace holdfast::workload::connections
