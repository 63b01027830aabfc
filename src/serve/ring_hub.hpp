// SPDX-License-Identifier: Apache-2.0
// ring_hub.hpp - one broadcast ring read once for all who follow it in this worker.
//
// The hub reads what is new, writes it down as JSON once, and hands the same bytes to every subscriber. What it read
// lately it keeps (the window): a subscriber that was slow for a moment goes on from there. One that was slow for
// longer reads the ring itself, bit by bit as its connection takes it, until it is in the window again.
//
//   the ring     |oldest ................................... head|   (numbers)
//   the window                              |front ......... head|
//   subscribers        ^ reads by itself         ^ slow     ^ ^ ^ next == head
//
// (I1) A subscriber's `next` is the number of what it is told next. All below it was told it, as messages or as losses,
//      each number once and in order, whatever it took to get there.
// (I2) Nobody waits for a subscriber: one whose connection does not take what it was given is passed over.
// (I3) One turn is bounded: one batch of the ring, so many subscribers that are sent anything, and so many batches of
//      those who read by themselves. The others are first in the next, before anything new is read.
// (I4) A subscriber holds no more than queue_bytes_max of its own; the window holds window_bytes_max and one batch.
// Threads: one. Nothing here waits or knows a clock: who owns it calls turn() again when pace says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/broadcast/reader.hpp"
#include "holdfast/net/channel.hpp"
#include "holdfast/net/peer.hpp"
#include "serve/ring_source.hpp"

namespace holdfast::serve {

/// How a subscriber is told: server-sent events, or a JSON text a message.
enum class ring_form : std::uint8_t { events, frames };

/// Why a subscription ends from this side.
enum class ring_end : std::uint8_t {
    not_served,  ///< removed, or not to be shown to this client any more: which of them nobody is told
    damaged,
    moved,  ///< a successor serves from now on: come back, there is nothing lost
};

/// Where what a subscriber is told goes: a channel, or what a test has in its place.
class ring_outlet {
 public:
    ring_outlet() = default;
    ring_outlet(const ring_outlet&) = delete;
    ring_outlet& operator=(const ring_outlet&) = delete;
    virtual ~ring_outlet() = default;

    /// What was sent and is not on its way yet.
    [[nodiscard]] virtual std::size_t queued_bytes() const = 0;
    /// Returns: false where the client is away.
    virtual bool send(const net::shared_bytes& text) = 0;
    virtual void close(ring_end why) = 0;
};

/// Something to tell one subscriber that is no message.
struct ring_note {
    std::string_view event;  ///< its name, a literal
    std::string id;          ///< names the last number that was told: ring_id()
    std::string json;
};

/// What Last-Event-ID says of a ring and the last number that was told, and with the next number a cursor.
[[nodiscard]] std::string ring_id(const ring_source& of, std::uint64_t number);

struct ring_subscriber {
    ring_form form = ring_form::events;
    std::unique_ptr<ring_outlet> out;
    std::optional<net::peer> who;  ///< of a unix socket
    bool gone = false;             ///< its client is away, or it was ended

    // The hub's.
    std::uint64_t next = 1;          // (I1)
    std::vector<ring_note> notes;    // before it
    std::optional<ring_reader> own;  // at `next`, while that is older than the window
};

/// A request that waits for a message.
struct ring_waiter {
    std::uint64_t next = 1;            ///< the number it waits for
    std::uint64_t deadline_ns = 0;     ///< of the clock that expire() is told
    std::shared_ptr<const bool> gone;  ///< true once its client is away
    std::function<void()> answer;
};

/// What the hubs of a worker count.
struct ring_counts {
    std::uint64_t read = 0;       ///< messages taken from rings for all
    std::uint64_t delivered = 0;  ///< messages handed to subscribers
    std::uint64_t lost = 0;       ///< messages that subscribers were told they lost
};

class ring_hub {
 public:
    /// Throws: what joining a ring throws. `counts` must outlive this.
    ring_hub(std::shared_ptr<ring_source> from, ring_counts& counts);

    /// Begins with telling where the subscriber stands (the event "joined", with `opening` in front). Throws: failure;
    /// the subscriber is then not in.
    void add(const std::shared_ptr<ring_subscriber>& who, const broadcast_start& start,
             std::vector<ring_note> opening = {});
    void wait(ring_waiter who);
    /// Takes a subscriber of this hub back that take_subscribers() gave.
    void put_back(const std::shared_ptr<ring_subscriber>& who) { subscribers_.push_back(who); }

    /// When turn() is to be called next.
    enum class pace : std::uint8_t {
        at_once,  ///< there is more
        soon,     ///< something moved
        idle,     ///< nothing did
    };
    /// Reads what is new and hands it out. Throws: std::bad_alloc.
    pace turn();
    /// Tells one subscriber what there is for it, for as long as it takes it at once.
    void greet(ring_subscriber& who);

    /// Nobody is there.
    [[nodiscard]] bool empty() const noexcept { return subscribers_.empty() && waiters_.empty(); }
    [[nodiscard]] const std::shared_ptr<ring_source>& source() const noexcept { return source_; }
    [[nodiscard]] std::uint64_t head() const noexcept { return reader_->sequence(); }
    [[nodiscard]] const std::vector<std::shared_ptr<ring_subscriber>>& subscribers() const noexcept {
        return subscribers_;
    }

    /// Lets go of those who are away.
    void sweep();
    /// Answers those who waited long enough.
    void expire(std::uint64_t now_ns);
    /// Answers all who wait.
    void release_waiters();
    /// A sign of life for who was told nothing.
    void comment();
    static void end(ring_subscriber& who, ring_end why);
    /// Ends all subscriptions, and answers all who wait.
    void end_all(ring_end why);
    /// Takes the subscribers out, those who are behind with a note of what they lost.
    [[nodiscard]] std::vector<std::shared_ptr<ring_subscriber>> take_subscribers();

    static constexpr std::size_t batch_items_max = 256;
    static constexpr std::size_t batch_bytes_max = std::size_t{32} << 10U;   // the item that reaches it is the last
    static constexpr std::size_t queued_bytes_max = std::size_t{64} << 10U;  // a larger batch waits for an empty queue
    static constexpr std::size_t window_bytes_max = std::size_t{256} << 10U;
    static constexpr unsigned own_batches_max = 64;  // a turn, of all who read by themselves
    static constexpr unsigned served_max = 2048;     // a turn; a system call each, when the turn ends
    static constexpr std::size_t answered_max = 32;  // a turn, of who waits: a page each, which is sent behind it
    /// No outlet needs more room than this: (I4).
    static constexpr std::size_t queue_bytes_max = ring_source::text_bytes_max + queued_bytes_max * 2;

 private:
    /// A batch as it is sent; each form is made when the first one wants it.
    struct told {
        ring_batch batch;
        net::shared_bytes events;
        std::vector<net::shared_bytes> frames;
    };
    [[nodiscard]] static ring_source::bounds batch_bounds(std::uint64_t end = ~std::uint64_t{0}) {
        return {.items = batch_items_max, .text_bytes = batch_bytes_max, .end = end, .up_to_a_loss = false};
    }
    /// Tells one subscriber what there is. Returns: whether anything was sent.
    bool advance(ring_subscriber& who, unsigned& own_batches);
    static bool tell_notes(ring_subscriber& who);
    void tell(ring_subscriber& who, told& what);
    void tell_rest(ring_subscriber& who, const ring_batch& from);
    bool read_own(ring_subscriber& who);
    [[nodiscard]] told* in_window(std::uint64_t number);
    [[nodiscard]] std::uint64_t window_behind(std::uint64_t number) const;
    void append_item(std::string& out, const ring_batch::item& what, std::string_view json) const;
    [[nodiscard]] ring_note lost_note(std::uint64_t count, std::uint64_t next);
    /// Those that are due, so many at most. Returns: whether some are left.
    bool answer_waiters(const std::function<bool(const ring_waiter&)>& is_due,
                        std::size_t most = std::numeric_limits<std::size_t>::max());
    void trim_window();

    std::shared_ptr<ring_source> source_;
    ring_counts& counts_;
    std::optional<ring_reader> reader_;
    std::deque<told> window_;
    std::size_t window_bytes_ = 0;
    std::vector<std::shared_ptr<ring_subscriber>> subscribers_;
    std::vector<ring_waiter> waiters_;
    std::size_t first_ = 0;    // whose turn it is to be served first
    bool unserved_ = false;    // the last turn did not come to the end of them
    bool unanswered_ = false;  // nor of those who wait
    bool overtaken_ = false;   // somebody waits for what was read before
    bool told_since_ = false;  // since the last comment()
};

}  // namespace holdfast::serve
