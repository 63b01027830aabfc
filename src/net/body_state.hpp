// SPDX-License-Identifier: Apache-2.0
// body_state.hpp - what the handles of one body share with the loop, and what a connection knows of the body it reads.
//
// (I1) A resume() leaves the state in the mailbox, unless it is in there. It keeps itself alive while it is.
// (I2) The lock is held for a few stores, never while a callback or the mailbox runs.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "begun_time.hpp"
#include "channel_state.hpp"
#include "holdfast/net/body_reader.hpp"
#include "holdfast/net/chunked_decoder.hpp"
#include "mailbox.hpp"

namespace holdfast::net {

class body_state final : public letter, public std::enable_shared_from_this<body_state> {
 public:
    body_state(std::shared_ptr<mailbox> mail, body_options chosen)
        : options(std::move(chosen)), mail_(std::move(mail)), paused_(options.paused) {}

    // Any thread.
    void pause() noexcept;
    void resume();
    [[nodiscard]] bool is_open() const noexcept;

    // The loop.
    void open(server_core& loop) override;
    void discard() noexcept override;
    [[nodiscard]] bool wants_pause() const noexcept;
    /// Returns: false when it had ended.
    bool shut() noexcept;

    body_options options;
    bool attached = false;  // a connection reads it
    std::uint32_t connection = 0;
    std::uint64_t bytes = 0;
    std::string trailers;  // as they came, one line each

 private:
    const std::shared_ptr<mailbox> mail_;
    mutable std::mutex lock_;
    bool paused_;
    bool ended_ = false;
    bool posted_ = false;
    std::shared_ptr<body_state> self_;  // while posted_
};

/// The body that a connection reads between a head and the next one.
struct inbound_body {
    explicit inbound_body(const message_limits& limits) : chunks(limits) {}

    std::shared_ptr<body_state> reader;     // none: nobody wants it; it is read over
    std::shared_ptr<channel_state> answer;  // its exchange, the last of the connection, while that has a channel
    chunked_decoder chunks;
    std::uint64_t left = 0;         // of one with a length
    std::uint64_t since_timer = 0;  // bytes since the time-out began
    begun_time time;
    bool chunked = false;
    bool awaits_continue = false;  // its client waits, and has not been told
    bool continue_waits = false;   // it will be, behind the answers to earlier requests
    bool closes = false;           // the connection ends with this exchange
    bool progressed = false;       // since the answer's time-out began

    [[nodiscard]] bool is_paused() const noexcept { return reader && reader->wants_pause(); }
};

}  // namespace holdfast::net
