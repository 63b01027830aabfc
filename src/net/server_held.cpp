// SPDX-License-Identifier: Apache-2.0
// server_held.cpp - what is kept for connections between callbacks, and who goes when it is too much: those that hold
// most. Who comes with little finds room so, however many keep what they hold for as long as they are let.
#include <bit>
#include <utility>

#include "connection_strand.hpp"
#include "server_core.hpp"

namespace holdfast::net {

void server_core::account(connection& c, std::size_t held) noexcept {
    if (held == c.held_bytes) return;
    --holders_[static_cast<std::size_t>(std::bit_width(c.held_bytes))];
    ++holders_[static_cast<std::size_t>(std::bit_width(held))];
    held_bytes_ += held - c.held_bytes;
    c.held_bytes = held;
}

// (I3 of server.hpp) Output that is on its way to the kernel is nobody's fault yet: it counts once it waits. What is
// left in queues does, a message to many in each of them: readers that stop one after another keep other messages each,
// and what they keep is copied for each when it becomes output. Returns false when the connection had to be given up.
bool server_core::keep_accounts(index_type index) {
    connection& c = connections_[index];
    const std::size_t unread = c.paused ? engine_->held(token_of(index)) : 0;
    const std::size_t held = (c.inbound ? c.inbound->buffer.size() : 0) + unread + c.waiting +
                             (c.pending ? c.pending->bytes + c.pending->queued_bytes + c.pending->kept_beside() : 0) +
                             (c.socket ? c.socket->buffer.size() : 0);
    account(c, held);
    const connection_strand* const strand = strand_of(c);
    const std::size_t called = strand != nullptr ? strand->bytes() : 0;  // counted by itself: it outlives connections
    const bool chosen = std::exchange(c.given_up, false);
    if (held + called == 0) return true;
    const std::size_t in_pool = ledger_ ? ledger_->bytes.load(std::memory_order_relaxed) : 0;
    const bool more_waits = unread + called != 0;
    if (chosen) return give_up(index, more_waits), false;
    while (held_bytes_ + in_pool > options_.limits.held_bytes_max) {
        const auto other = holder_of_more(held + called);
        if (!other) return give_up(index, more_waits), false;
        connections_[*other].given_up = true;
        account(connections_[*other], 0);  // from now on: it goes in the end of this turn, unless it is done by then
        touch(*other);
    }
    return true;
}

// One of those that hold most, to a factor of two, where that is more than `bytes`. Cost: a look at each place at most;
// whoever it finds goes, so a search is paid for with a connection.
std::optional<server_core::index_type> server_core::holder_of_more(std::size_t bytes) noexcept {
    const auto own = static_cast<std::size_t>(std::bit_width(bytes));
    std::size_t most = holders_.size() - 1;
    while (most > own && holders_[most] == 0) --most;
    if (most <= own) return std::nullopt;
    for (std::size_t looked = 0; looked < connections_.size(); ++looked) {
        last_holder_ = last_holder_ + 1U < connections_.size() ? last_holder_ + 1U : 0U;
        if (static_cast<std::size_t>(std::bit_width(connections_[last_holder_].held_bytes)) == most)
            return last_holder_;
    }
    return std::nullopt;
}

// Tells it so where that is possible: a request that is not whole, and behind it nothing that waits. `more_waits`: in
// the engine or in the pool.
void server_core::give_up(index_type index, bool more_waits) {
    connection& c = connections_[index];
    ++counters_.over_held_bytes;
    if (c.phase != phase::open || !c.inbound || c.body || c.waiting != 0 || more_waits) return close(index, true);
    refuse(index, *c.inbound, 503, "the server holds too many unfinished requests", c.inbound->unread().size());
    settle(index);
}

}  // namespace holdfast::net
