// SPDX-License-Identifier: Apache-2.0
// hand_over.hpp - listening sockets from one process to its successor, without closing them for a moment.
//
// A listener that is closed resets whoever waits in its queue, and one that is bound anew has another queue, also with
// SO_REUSEPORT. So the descriptors themselves travel, over a unix socket, and both processes then have the same queues:
//
//   predecessor                                   successor
//   send_listeners(socket, listeners)  -------->  receive_listeners(socket)
//   goes on serving                               makes servers of them and serves, too
//   server::hand_over()                <--------  says in its own words that it does
//
// (I1) A queue of which no process holds a descriptor any more is lost. Who receives more listeners than it has servers
//      gives several to one server; it closes none.
// (I2) What is received is input: a message is checked in full, each descriptor is a listening socket of streams, or
//      a unix one of packets, and what a refused message brought is closed.
//
// A message, of a socket of type SOCK_SEQPACKET; numbers little-endian, descriptors by SCM_RIGHTS:
//   offset  bytes  field
//        0      8  "HFLISTEN"
//        8      4  version: 1
//       12      4  part: 0, 1, ...
//       16      4  parts
//       20      4  listeners in all parts
//       24      4  listeners in this part, as many as descriptors: listeners_a_part, the rest in the last
//       28      4  bytes of the note; 0 in other parts than the first
//       32      n  the note
// Threads: any, one at a time on a socket. Source: unix(7), SCM_RIGHTS and SO_PEERCRED.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::net {

/// What receive_listeners() got; closes what nobody took.
class listener_parcel {
 public:
    listener_parcel() = default;
    listener_parcel(listener_parcel&& other) noexcept;
    listener_parcel& operator=(listener_parcel&& other) noexcept;
    ~listener_parcel();

    /// In the order in which they were sent; close-on-exec.
    [[nodiscard]] std::span<const int> listeners() const noexcept { return listeners_; }
    [[nodiscard]] const std::string& note() const noexcept { return note_; }
    /// The descriptors, from now on the caller's.
    [[nodiscard]] std::vector<int> take() noexcept;

 private:
    friend listener_parcel receive_listeners(int socket, std::chrono::milliseconds patience);
    std::vector<int> listeners_;
    std::string note_;
};

inline constexpr std::size_t handed_listeners_max = 2048;
inline constexpr std::size_t handed_note_bytes_max = 16384;

/// Sends listeners, which stay open here, and a note of the caller's own to the process at the other end of a connected
/// SOCK_SEQPACKET socket. Waits for at most `patience` where the socket has no room.
///
/// Throws: error(no_permission) where that process is another user's; error(invalid_argument) for more than
/// handed_listeners_max or a longer note; error(io) where it went away or takes nothing.
void send_listeners(int socket, std::span<const int> listeners, std::string_view note = {},
                    std::chrono::milliseconds patience = std::chrono::seconds(1));

/// Takes what send_listeners() sent, waiting for it for at most `patience`.
///
/// Throws: error(no_permission) where the sender is another user's; error(version_mismatch) for another version of the
/// message; error(corrupt) for one that breaks a rule or brings what is no listener; error(no_space) where this process
/// may open no more descriptors; error(not_found) where the sender went away before the end; error(io) else.
[[nodiscard]] listener_parcel receive_listeners(int socket,
                                                std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace holdfast::net
