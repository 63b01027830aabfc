// SPDX-License-Identifier: Apache-2.0
// udp_receiver.hpp - datagrams by the train: many for one system call, and many for one walk through the kernel.
//
// A train is a run of datagrams of one sender that the kernel kept together (UDP_GRO): same size, the last one perhaps
// shorter, one behind the other in one buffer. Senders make them (udp_sender.hpp), and network cards join what arrives
// close together. Whatever was not joined is a train of one; so is everything on a kernel before 5.0.
// (I1) Each datagram that reaches the socket is handed over or counted as dropped: see dropped() for the unit.
// (I2) Within a flow, datagrams are handed over in the order in which they reached the socket.
// (I3) Memory is fixed at construction, whatever arrives: trains_max buffers of train_bytes_max.
// Threads: one at a time, by io_uring always the same; several sockets of one port (bind_udp_group) are for several
// threads. After a crash: nothing outlives the socket. Source: udp(7), recvmmsg(2), socket(7); UDP_GRO: Linux 5.0,
// net/ipv4/udp.c.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "holdfast/net/udp.hpp"

namespace holdfast::net {

/// Some datagrams of one sender. What it points to is valid until the receiver's next call.
struct datagram_train {
    std::string_view bytes;             ///< one datagram behind the other
    std::size_t segment_bytes = 0;      ///< of each but the last, which may be shorter
    std::size_t count = 1;              ///< datagrams as they came; one without bytes is a train of one
    std::size_t cut_bytes = 0;          ///< at the end, for which the buffer had no room
    const udp_address* from = nullptr;  ///< never null
    std::uint64_t received_ns = 0;      ///< since 1970, as the kernel took it; 0 unless receive_times
    std::uint64_t dropped_before = 0;   ///< lost between the train before and this one, in the unit of dropped()

    /// Datagram number i; what is there of it, if it was cut. Requires: i < count.
    [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept {
        const std::size_t begin = i * segment_bytes;
        return begin < bytes.size() ? bytes.substr(begin, segment_bytes) : std::string_view();
    }
    /// Whether all bytes of datagram number i are there. Requires: i < count.
    [[nodiscard]] bool whole(std::size_t i) const noexcept {
        return cut_bytes == 0 || (i + 1) * segment_bytes <= bytes.size();
    }
};

/// How the kernel is asked for trains. Receivers behave alike on each.
enum class udp_carrier : std::uint8_t {
    calls,     ///< recvmmsg: on every kernel, and by any thread
    io_uring,  ///< one receive that goes on by itself, into buffers of a ring; Linux 6.1 and later
};

struct udp_receiver_options {
    std::size_t trains_max = 16;  ///< of one call, 1 to 1024
    /// Buffer of each, 1 to 65,536 bytes. Below 65,535 a longer train is cut, and told.
    std::size_t train_bytes_max = 65'536;
    bool join = true;            ///< UDP_GRO; false: each train is one datagram
    bool receive_times = false;  ///< about 30 ns for each packet of the machine
    /// By io_uring the first call that receives decides which thread may receive, and its ring takes twice the buffers.
    udp_carrier carrier = udp_carrier::calls;
};

/// What one call brought.
struct udp_arrivals {
    std::span<const datagram_train> trains;
    /// 0, or the errno of a failure that was waiting at the socket: ECONNREFUSED on a connected one when nobody listens
    /// there. Nothing is lost by it; call again.
    int error = 0;
};

/// Since construction. Plain numbers, of the receiver's thread.
struct udp_receiver_counters {
    std::uint64_t calls = 0;  ///< of the system, also those that brought nothing
    std::uint64_t trains = 0;
    std::uint64_t datagrams = 0;
    std::uint64_t bytes = 0;  ///< handed over
    std::uint64_t cut = 0;    ///< trains whose end found no room
};

class udp_receiver {
 public:
    /// Takes the socket and closes it in the end, also when it throws. It is made blocking; try_receive never waits all
    /// the same. Throws: error(invalid_argument) for options outside their range or what is no datagram socket;
    /// error(unsupported) that says why there is no io_uring; std::bad_alloc.
    explicit udp_receiver(int socket, const udp_receiver_options& options = {});
    udp_receiver(udp_receiver&&) noexcept;
    udp_receiver& operator=(udp_receiver&&) noexcept;
    ~udp_receiver();

    /// What is there now, trains_max at most; nothing if nothing is. Cost: one system call.
    [[nodiscard]] udp_arrivals try_receive() noexcept;
    /// The same, but waits for a first train: until `timeout` is over or a signal came. Cost: one system call, and one
    /// more when the time-out is another than before.
    [[nodiscard]] udp_arrivals wait_receive(std::chrono::milliseconds timeout) noexcept;

    /// What the kernel has dropped at this socket since construction, exactly: because its queue was full, or the
    /// checksum wrong. The kernel counts what stands in the queue: a datagram that came alone is one, a train that came
    /// joined is one too, however many it held. Where all arrives as single datagrams, what was sent to the socket is
    /// datagrams + dropped(). Wraps are followed as long as this or a receive is called within 2^31 drops.
    /// Cost: one system call. Kernels before 4.12 tell only what was dropped before the newest train.
    [[nodiscard]] std::uint64_t dropped() noexcept;

    /// Whether the kernel joins trains.
    [[nodiscard]] bool joins() const noexcept;
    [[nodiscard]] const udp_receiver_counters& counters() const noexcept;
    [[nodiscard]] udp_carrier carrier() const noexcept;
    /// For an event loop (not by io_uring, which takes from the socket before it is asked), or a udp_sender that
    /// answers. It stays ours.
    [[nodiscard]] int socket() const noexcept;

 private:
    struct state;
    std::unique_ptr<state> state_;
};

}  // namespace holdfast::net
