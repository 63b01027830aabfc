// SPDX-License-Identifier: Apache-2.0
// take_over.hpp - what a supervisor and its successor say to each other: docs/design/0037-hot-restart.md.
//
//   successor                              predecessor
//   connects to the door of the address
//   take_over                        --->
//                                    <---  accepted, then the listeners (net::send_listeners)
//   starts its workers; once they answer
//   ready                            --->
//                                    <---  yours: its workers accept no more
// At any time the predecessor may say `stopping`: it was told to end, and the successor is not to go on; or `refused`:
// the same, and the predecessor goes on. Whoever closes without a word was killed, or is a successor that gave up.
//
// The door is a unix socket of packets under an abstract name made of the address: like the address it belongs to the
// network namespace, nothing is left of it when its holders are gone, and it is handed over as the listeners are.
// A message is 24 bytes: "HFSERVE\0", the version, the word, a number, 0; little-endian. These never change, so that
// each version can say that it is another one.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/memory/descriptor.hpp"

namespace holdfast::serve {

enum class take_over_word : std::uint32_t {
    take_over = 1,  ///< "I am to succeed you"
    accepted = 2,   ///< listeners follow; the number: of the process
    busy = 3,       ///< another one is about to, or it is not the time for it
    ready = 4,      ///< "my workers answer"; the number: whether the unix socket is taken, too
    yours = 5,
    stopping = 6,
    refused = 7,  ///< "not you": it did not make sense, or is of another version, and this tells ours
};

struct take_over_message {
    static constexpr std::uint32_t version_now = 1;
    static constexpr std::size_t bytes = 24;

    std::uint32_t version = version_now;
    take_over_word word = take_over_word::refused;
    std::uint32_t number = 0;

    [[nodiscard]] std::array<char, bytes> encode() const noexcept;
    /// Returns: nothing for what is no such message. The word is any number of a version that is not ours.
    [[nodiscard]] static std::optional<take_over_message> decode(std::string_view text) noexcept;
};

/// A connection between the two.
class take_over_link {
 public:
    take_over_link() = default;
    explicit take_over_link(memory::descriptor socket) : socket_(std::move(socket)) {}

    /// Connects to the server at an address, as net::bound_address writes it. Throws: error(not_found) where none hands
    /// over there; error(no_permission) where it is another user's.
    [[nodiscard]] static take_over_link to(const std::string& address);

    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(socket_); }
    [[nodiscard]] int fd() const noexcept { return socket_.get(); }
    void close() noexcept { socket_.reset(); }

    /// Returns: false where the other one is away.
    bool say(take_over_word word, std::uint32_t number = 0) const noexcept;

    enum class state : std::uint8_t {
        silent,     ///< nothing is there
        said,       ///< `into` holds it
        away,       ///< it closed, or was killed
        nonsense,   ///< what came is no message
        otherwise,  ///< a message of another version, `into`
    };
    [[nodiscard]] state hear(take_over_message& into) const noexcept;
    /// The same, waiting for at most `patience`; silent then.
    [[nodiscard]] state hear(take_over_message& into, std::chrono::milliseconds patience) const noexcept;
    /// Whether the other one has not closed yet. Nothing that it said is taken.
    [[nodiscard]] bool alive() const noexcept;

 private:
    memory::descriptor socket_;
};

/// One side, as the other one sees it.
struct caller {
    take_over_link link;
    std::uint64_t process = 0;
};

/// Asks the server at `address` for its listeners; afterwards receive_listeners() brings them. Throws: error that says
/// why not.
[[nodiscard]] caller ask_to_take_over(const std::string& address);

/// The door: a listening socket that does not block. Throws: error(already_exists) where another one stands.
[[nodiscard]] memory::descriptor open_door(const std::string& address);
/// Whether a listener is a door, not one for clients.
[[nodiscard]] bool is_door(int listener) noexcept;

/// Who stands before the door. Returns: nothing, with errno EAGAIN where nobody does, EACCES where it was another
/// user's process, which is sent away, and otherwise why one that stands there goes on standing there.
[[nodiscard]] std::optional<caller> answer_door(int door) noexcept;

/// Tell a successor that its predecessor started whom to succeed: the address, and which process.
inline constexpr const char* take_over_variable = "HOLDFAST_TAKE_OVER";
inline constexpr const char* take_over_from_variable = "HOLDFAST_TAKE_OVER_FROM";

}  // namespace holdfast::serve
