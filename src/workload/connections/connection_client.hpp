// SPDX-License-Identifier: Apache-2.0
// connection_client.hpp - one process that holds many connections: each asks, reads, idles, and asks again.
//
// Each connection asks for 1 to 4096 random bytes as soon as it is there, reads the answer, idles for a time drawn anew
// (5 to 45 s), and asks again on the same connection, until the end. Each answer is compared, every byte of it.
// (I1) A request's latency begins when it is due, not when this process came to send it. Due times lie in slots of 4
// ms,
//      those of the processes beside one another, so that neither one process nor all of them ask in one burst.
// (I2) A connection that is refused, lost or given up is counted and not made anew: what is held is what was opened
// less
//      these.
// (I3) The first wrong answer ends the process with what came.
// Source: the workload of "600k concurrent HTTP connections" (http-kit).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "net/socket_address.hpp"
#include "workload/connections/connection_board.hpp"

namespace holdfast::workload::connections {

/// How long a connection idles between two requests: any time between the two, all alike likely.
struct idle_times {
    std::chrono::milliseconds least{5'000};
    std::chrono::milliseconds most{45'000};

    [[nodiscard]] double mean_s() const { return static_cast<double>((least + most).count()) / 2000.0; }
};

struct client_plan {
    net::socket_address server{};
    std::size_t connections = 0;  ///< of this process
    std::size_t first = 0;        ///< of all of them, the number of its first one: decides from where it connects
    std::size_t number = 0;       ///< of this process
    std::size_t processes = 1;
    idle_times idle{};
    std::chrono::seconds patience{30};  ///< without an answer
};

/// Opens and holds them until it is told to stop. Throws: wrong_answer; std::system_error when this process lacks
/// something, as descriptors.
void run_client(const client_plan& plan, board& told);

}  // namespace holdfast::workload::connections
