// SPDX-License-Identifier: Apache-2.0
// udp_traffic.hpp - datagrams from senders in processes of their own to receivers in threads of this one.
//
// Each datagram begins with its number among those of its sender. A receiver looks at each number: one that does not
// grow ends the run, and what is lost is what was sent less what was taken, to the last datagram.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/net/udp.hpp"
#include "workload/far_side.hpp"
#include "workload/veth_pair.hpp"

namespace holdfast::workload {

enum class udp_sending : std::uint8_t { by_sendto, by_train };
enum class udp_receiving : std::uint8_t { by_recvfrom, by_train, by_ring };  ///< by_ring: trains by io_uring

/// One of the things compared: who receives, and how what it receives was sent.
struct udp_way {
    std::string name;
    udp_receiving receiving;
    udp_sending sending;
    net::udp_spread spread = net::udp_spread::by_cpu;  ///< with more than one receiver
};

/// Where the datagrams travel: over loopback, or from end 1 of a cable to end 0.
struct udp_course {
    const veth_pair* cable = nullptr;
    std::size_t datagram_bytes = 512;
    std::vector<unsigned> cpus;         ///< a receiver's thread on each, in the order of their numbers in the group
    std::vector<unsigned> sender_cpus;  ///< a sender's process on each
    std::size_t flows = 1;              ///< of each sender: sockets that it sends from in turn
    std::size_t buffer_bytes = std::size_t{4} << 20U;
};

/// What came of one turn.
struct udp_turn {
    double rate_hz = 0;          ///< datagrams taken a second, by all receivers
    double receiver_cpu_ns = 0;  ///< processor time of the receivers for each of them
    std::uint64_t sent = 0, received = 0;
    std::uint64_t dropped = 0;  ///< as the kernel counts: a train that was joined is one
};

/// One way on one course. Sockets, threads and processes end with it.
class udp_traffic {
 public:
    /// Throws: holdfast::error, std::system_error.
    udp_traffic(const udp_way& way, const udp_course& course);
    ~udp_traffic();
    udp_traffic(const udp_traffic&) = delete;
    udp_traffic& operator=(const udp_traffic&) = delete;

    /// Throws: std::runtime_error when a datagram came twice, in the wrong order or of the wrong size, when nothing
    /// comes for ten seconds, and what a sender or a receiver throws.
    [[nodiscard]] udp_turn run(std::chrono::nanoseconds duration);
    [[nodiscard]] std::size_t buffer_bytes() const noexcept { return buffer_bytes_; }

 private:
    struct receiver;
    udp_way way_;
    udp_course course_;
    std::size_t buffer_bytes_ = 0;
    std::vector<std::unique_ptr<receiver>> receivers_;
    std::vector<std::unique_ptr<far_side>> senders_;
};

}  // namespace holdfast::workload
