// SPDX-License-Identifier: Apache-2.0
// channel_state.hpp - what the handles of one channel share with the loop.
//
//   open -> ending   answered, closed, overflown, drained: nothing more is taken in; the loop has to act
//        -> closed   the loop has ended it: nothing is kept, nothing is acted upon
// (I1) Whoever leaves something for the loop puts the state into the mailbox, unless it is in there (posted_). It keeps
//      itself alive while it is. The loop takes posted_ back before it looks, so nothing is overlooked.
// (I2) The lock is held for a few stores, never while a callback, the mailbox or a destructor of a callback runs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/net/channel.hpp"
#include "holdfast/net/response.hpp"
#include "holdfast/net/server.hpp"
#include "mailbox.hpp"
#include "message_queue.hpp"

namespace holdfast::net {

enum class channel_kind : std::uint8_t { answer, stream, websocket };

class connection_strand;

class channel_state final : public letter, public std::enable_shared_from_this<channel_state> {
 public:
    channel_state(std::shared_ptr<mailbox> mail, channel_kind what, channel_options chosen)
        : kind(what), options(std::move(chosen)), mail_(std::move(mail)) {}

    // Any thread.
    channel_status answer(response&& late);
    channel_status send(queued_message message);
    channel_status close();
    channel_status close(std::uint16_t code, std::string_view reason);
    [[nodiscard]] std::uint16_t close_code() const;
    [[nodiscard]] std::string close_reason() const;
    // Without the lock, so as of a moment ago, as behind one. Acquire, relaxed: pairs with enter(); a number by itself.
    [[nodiscard]] bool is_open() const noexcept { return phase_.load(std::memory_order_acquire) == phase::open; }
    [[nodiscard]] std::size_t queued_bytes() const noexcept { return queued_bytes_.load(std::memory_order_relaxed); }
    /// What these keep, about: the bytes, and what each message has beside them.
    [[nodiscard]] std::size_t queued_memory() const noexcept {
        return queued_bytes() + queued_messages_.load(std::memory_order_relaxed) * queued_message_bytes;
    }
    [[nodiscard]] std::uint64_t dropped() const;

    // The loop.
    struct news {
        bool any = false;  // something is left for the loop, or may be
        bool overflown = false;
        std::size_t queued_bytes = 0, queued_memory = 0;
    };
    void open(server_core& loop) override;
    void discard() noexcept override;

    [[nodiscard]] std::optional<response> take_answer();
    /// The answer, until it is taken: the loop may change it, as nobody else does any more. None: there is none yet.
    [[nodiscard]] response* waiting_answer();

    struct taken {
        message_queue messages;
        std::optional<channel_end> end;  // behind them
        std::uint16_t code = 0;          // of a WebSocket that ends: what its client is told
        std::string reason;
        std::uint64_t dropped = 0;  // since this was asked the last time
        bool drained = false;       // somebody was told `full`, and now there is room
    };
    [[nodiscard]] taken take_messages();
    /// Whether messages are still handed over that came before its end: this side has not closed it. Any thread.
    [[nodiscard]] bool takes_messages() const;
    /// Ends it in order, for the reason; without effect when it is ending already.
    void end_from_loop(channel_end why);
    /// Ends it now. What it kept is dropped. Returns: what take_messages().dropped would.
    std::uint64_t shut();
    /// How a WebSocket ended.
    void note_close(std::uint16_t code, std::string_view reason);

    const channel_kind kind;
    channel_options options;  // the callbacks are the loop's, or the strand's
    std::string protocol;     // of a WebSocket; set before anybody has a handle

    // The loop's alone.
    bool attached = false;  // an exchange of a connection waits for it
    std::uint32_t connection = 0;
    // Of an answer that waits for those before it, or of the messages queued, as counted in its exchange_queue.
    std::size_t held_bytes = 0;
    timer_id timeout;
    std::shared_ptr<connection_strand> strand;  // of channel_options::on_pool; until on_close has been handed to it

 private:
    enum class phase : std::uint8_t { open, ending, closed };
    static constexpr std::size_t queued_message_bytes = 96;  // a shared string, its place in the queue

    // Under the lock.
    [[nodiscard]] bool to_be_posted();
    [[nodiscard]] bool is_ending() const noexcept { return phase_.load(std::memory_order_relaxed) == phase::ending; }
    /// Release: who sees it ended sees what was left for it.
    void enter(phase to) noexcept { phase_.store(to, std::memory_order_release); }
    // Relaxed: numbers by themselves, as of a moment ago.
    void count_queued(std::size_t bytes) noexcept {
        queued_bytes_.store(bytes, std::memory_order_relaxed);
        queued_messages_.store(queue_.size(), std::memory_order_relaxed);
    }

    void post();

    const std::shared_ptr<mailbox> mail_;
    mutable std::mutex lock_;
    // Stored to under the lock, and asked for without it.
    std::atomic<phase> phase_ = phase::open;
    std::atomic<std::size_t> queued_bytes_ = 0, queued_messages_ = 0;
    std::atomic<bool> moved_ = false;          // take_messages() has something to tell
    channel_end end_ = channel_end::finished;  // what an orderly end is called
    bool told_full_ = false;
    bool posted_ = false;
    std::shared_ptr<channel_state> self_;  // while posted_
    std::optional<response> late_;
    message_queue queue_;
    std::uint16_t code_ = 0;  // of a WebSocket: until it has ended what we tell, then what came of it
    std::string reason_;
    bool ended_ = false;
    bool closed_here_ = false;  // a WebSocket: by close()
    std::uint64_t dropped_ = 0;
    std::uint64_t dropped_told_ = 0;  // of these, to the loop
};

}  // namespace holdfast::net
