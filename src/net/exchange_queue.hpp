// SPDX-License-Identifier: Apache-2.0
// exchange_queue.hpp - the exchanges of one connection that are under way, in the order of their requests. It exists
// only while a channel or a file is among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "channel_state.hpp"
#include "file_answer.hpp"
#include "holdfast/net/limits.hpp"
#include "holdfast/net/request.hpp"

namespace holdfast::net {

struct exchange {
    std::shared_ptr<channel_state> channel;  // none: `bytes` are ready to go, and then the file
    std::unique_ptr<file_sender> file;       // with a channel: of its answer, which waits for those before it
    std::string bytes;                       // of a stream: its head, until that has gone
    std::uint64_t first_byte_ns = 0;
    std::uint64_t request_bytes = 0;
    net::method method = net::method::get;
    std::uint8_t minor_version = 1;
    bool keep_alive = true;
    bool bodiless = false;  // of a stream: its head is all
};

// Each file keeps a descriptor while it waits: who pipelines requests for files shall not have them all.
inline constexpr std::size_t files_of_connection_max = 4;

struct exchange_queue {
    std::deque<exchange> waiting;
    std::size_t files = 0;         // of these, those with a file
    std::size_t bytes = 0;         // of heads, of what is ready, and of late answers that wait for those before them
    std::size_t queued_bytes = 0;  // of the messages of streams and WebSockets, which stop no reading

    /// What they keep beside that: channel, place, and what a handler has bound to it, about. Of more than one: what a
    /// connection may have at once is bounded by how many connections there may be.
    [[nodiscard]] std::size_t kept_beside() const noexcept {
        constexpr std::size_t of_one = 1024;
        return waiting.size() > 1 ? (waiting.size() - 1) * of_one : 0;
    }
    /// Where the next answer goes that is ready behind these.
    [[nodiscard]] std::string& behind() {
        if (waiting.empty() || waiting.back().channel || waiting.back().file) waiting.emplace_back();
        return waiting.back().bytes;
    }
    /// What the channel of one of these holds from now on: its answer, or its messages.
    void count(channel_state& state, std::size_t held) noexcept {
        (state.kind == channel_kind::answer ? bytes : queued_bytes) += held - state.held_bytes;
        state.held_bytes = held;
    }
    [[nodiscard]] bool is_full(const limits& l) const noexcept {
        return waiting.size() >= l.pipeline_max || bytes >= l.output_bytes_max || files >= files_of_connection_max;
    }
    [[nodiscard]] bool has_room_again(const limits& l) const noexcept {
        return waiting.size() <= l.pipeline_max / 2 && bytes <= l.output_bytes_max / 2 &&
               files <= files_of_connection_max / 2;
    }
};

}  // namespace holdfast::net
