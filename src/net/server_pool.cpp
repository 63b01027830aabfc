// SPDX-License-Identifier: Apache-2.0
// server_pool.cpp - what is not called on the loop but in server_options::pool, on a strand of its connection: handlers
// of requests, messages of WebSockets, on_drain and on_close.
#include <utility>

#include "connection_strand.hpp"
#include "holdfast/error.hpp"
#include "holdfast/executor/thread_pool.hpp"
#include "holdfast/net/websocket_handshake.hpp"
#include "request_copy.hpp"
#include "server_core.hpp"

namespace holdfast::net {

void server_core::check_pool() {
    if (options_.pool == nullptr) {
        if (options_.handle_on_pool)
            throw error(errc::invalid_argument, "handle_on_pool", "there is no pool; set server_options::pool, too");
        return;
    }
    if (options_.pool->workers() == 0 || options_.strand_waiting_max == 0)
        throw error(errc::invalid_argument, "pool",
                    "it has no workers, or strand_waiting_max is 0; give each at least 1");
    ledger_ = std::make_shared<pool_ledger>();
}

// Within a task of the pool the end would wait for itself.
void server_core::check_where_it_runs() const {
    if (options_.pool && options_.pool->runs_here())
        throw error(errc::invalid_argument, "server", "run() was called in its own pool; call it in another thread");
}

connection_strand* server_core::strand_of(const connection& c) noexcept {
    return c.aside ? c.aside->strand.get() : nullptr;
}

// Not read from until its calls have become fewer; strand_moved() follows then.
bool server_core::waits_for_strand(const connection& c) {
    connection_strand* const strand = strand_of(c);
    return c.paused && strand != nullptr && !c.body && !strand->has_room();
}

const std::shared_ptr<connection_strand>& server_core::make_strand(index_type index) {
    if (options_.pool == nullptr)
        throw error(errc::invalid_argument, "on_pool", "this server has no pool; set server_options::pool");
    connection& c = connections_[index];
    if (!c.aside) c.aside = std::make_unique<connection_aside>();
    if (!c.aside->strand)
        c.aside->strand = std::make_shared<connection_strand>(
            mail_, ledger_, *options_.pool, token_of(index),
            connection_strand::bounds{options_.strand_waiting_max, options_.limits.output_bytes_max});
    return c.aside->strand;
}

// Room again: settle() takes up what was paused.
void server_core::strand_moved(const connection_strand& strand) {
    const auto [index, generation] = strand.connection;
    if (connections_[index].generation == generation && connections_[index].phase != phase::free) touch(index);
}

bool server_core::goes_to_pool(const request& message) noexcept {
    if (!options_.handle_on_pool || message.body_follows()) return false;
    bool wanted = false;
    guarded([&] { wanted = options_.handle_on_pool(message); });
    return wanted;
}

// As a handler that defers its answer, whose work is done by the strand.
void server_core::call_on_pool(index_type index, const request_parser& parsed) {
    response_.reset();
    try {
        const auto& strand = make_strand(index);
        auto state =
            std::make_shared<channel_state>(mail_, channel_kind::answer, channel_options{.answers_half_closed = true});
        auto asked = std::make_shared<const request_copy>(parsed.message(), parsed.consumed());
        strand->add({.run =
                         [this, state, asked] {
                             response late;
                             late.loop_.files = files_;
                             try {
                                 answer_(asked->view(), late);
                             } catch (...) {
                                 (void)state->answer(std::move(response().problem(500, failed_to_answer)));
                                 throw;  // it is counted
                             }
                             (void)state->answer(std::move(late));
                         },
                     .refused =
                         [state] {
                             (void)state->answer(std::move(
                                 response().problem(503, "the server takes no more work").header("Retry-After", "1")));
                         },
                     .whose = state.get(),
                     .bytes = parsed.consumed()});
        state->strand = strand;
        begun_ = std::move(state);
    } catch (...) {
        ++counters_.handler_exceptions;
        response_.problem(500, failed_to_answer);
    }
}

void server_core::hand_over_to_strand(channel_state& state, std::string_view payload, message_kind kind) {
    bool added = false;
    guarded([&] {
        auto whose = state.shared_from_this();
        state.strand->add({.run =
                               [whose, message = std::string(payload), kind] {
                                   if (!whose->takes_messages()) return;
                                   try {
                                       whose->options.on_receive(channel(whose), {.payload = message, .kind = kind});
                                   } catch (...) {
                                       (void)whose->close(websocket_code::internal_error, {});
                                       throw;  // it is counted
                                   }
                               },
                           .refused = [whose] { (void)whose->close(websocket_code::going_away, {}); },
                           .whose = &state,
                           .bytes = payload.size()});
        added = true;
    });
    if (!added) (void)state.close(websocket_code::internal_error, {});
}

void server_core::drain_by_strand(const std::shared_ptr<channel_state>& state) {
    guarded([&] {
        state->strand->add({.run =
                                [state] {
                                    if (state->is_open()) state->options.on_drain(channel(state));
                                },
                            .whose = state.get()});
    });
}

// Behind all else of the channel; from here on its callbacks are the strand's alone.
void server_core::close_by_strand(const std::shared_ptr<channel_state>& state, channel_end why) {
    const auto strand = std::exchange(state->strand, nullptr);
    const channel_options& told = state->options;
    if (!told.on_close && !told.on_drain && !told.on_receive) return;
    guarded([&] {
        strand->add({.run =
                         [state, why] {
                             // Taken out: what they hold, perhaps this channel's own handle, goes with them.
                             const channel_options done = std::exchange(state->options, {});
                             if (done.on_close) done.on_close(why);
                         },
                     .must_run = true});
    });
}

void server_core::count_exceptions_of_pool() noexcept {
    // Relaxed: a count that stands alone.
    counters_.handler_exceptions += ledger_->exceptions.exchange(0, std::memory_order_relaxed);
}

}  // namespace holdfast::net
