// SPDX-License-Identifier: Apache-2.0
// server_websocket.cpp - connections that have become WebSockets: they stand as the last exchange of their connection.
//
// The application's side closes by its channel: behind the messages queued goes a close frame, and the client's ends
// it, or websocket_close_ms. The client's side closes by its frame, or by breaking a rule: it is answered, and that
// ends it. What was told so may be on its way still, so the connection lingers as behind a last response.
#include <algorithm>
#include <utility>

#include "buffer_room.hpp"
#include "holdfast/net/websocket_handshake.hpp"
#include "server_core.hpp"

namespace holdfast::net {

// Room for `needed` bytes, and at once for the `whole` frame that they belong to, as far as the factor goes: who only
// announces much gets no memory.
void server_core::make_room(std::string& buffer, std::size_t needed, std::size_t whole) {
    if (needed <= buffer.capacity()) return;
    const std::size_t most = room_factor * needed;
    const std::size_t wanted = std::max(std::clamp(whole, needed, most), 2 * buffer.capacity());
    std::string larger = spare_.take(wanted, most);
    larger.reserve(wanted);
    larger.append(buffer);
    buffer.swap(larger);
    spare_.give_back(larger);
}

// What is left of `buffer` is `kept`, a part of it.
void server_core::keep_in_place(std::string& buffer, std::span<const char> kept) {
    if (has_room_to_spare(buffer, kept.size())) {
        std::string smaller(kept.data(), kept.size());
        buffer.swap(smaller);
        return spare_.give_back(smaller);
    }
    buffer.erase(0, static_cast<std::size_t>(kept.data() - buffer.data()));
    buffer.resize(kept.size());
}

channel server_core::begin_websocket(const request& asked, const websocket_upgrade& judged, channel_options options,
                                     const websocket_options& chosen) {
    if (chosen.permessage_deflate && !deflater_) deflater_ = std::make_unique<websocket_deflater>();
    channel made = begin_channel(channel_kind::websocket, std::move(options));
    begun_->protocol = judged.protocol;
    begun_socket_.clear();
    append_websocket_accept(begun_socket_, asked, judged);
    socket_limits_ = chosen.limits;
    socket_deflate_ = {};
    if (judged.window_bits != 0)
        socket_deflate_ = {
            .deflater = deflater_.get(), .bytes_min = chosen.deflate_bytes_min, .window_bits = judged.window_bits};
    return made;
}

void server_core::enter_websocket(index_type index, exchange& entered, channel_state& state) {
    connection& c = connections_[index];
    entered.bytes = begun_socket_;
    c.pending->bytes += entered.bytes.size();
    c.socket = std::make_unique<websocket_end>(socket_limits_, socket_deflate_, entered.channel);
    report({.route = response_.route(),
            .status = 101,
            .method = entered.method,
            .request_bytes = entered.request_bytes,
            .response_bytes = entered.bytes.size()},
           entered.first_byte_ns);
    if (draining_) state.end_from_loop(channel_end::drained);
}

// Takes the frames off what came, and off what was held back before it.
void server_core::read_socket(index_type index, std::span<char> bytes) {
    connection& c = connections_[index];
    websocket_end& end = *c.socket;
    if (!bytes.empty()) {
        end.heard = true;
        end.pinged = false;
    }
    const bool from_buffer = !end.buffer.empty();
    if (from_buffer) {
        make_room(end.buffer, end.buffer.size() + bytes.size(), end.buffer.size() + end.session.awaited());
        end.buffer.append(bytes.data(), bytes.size());
        bytes = end.buffer;
    }
    if (bytes.empty()) return;
    while (end.begun && !c.paused && !socket_is_full(index)) {
        switch (end.session.next(bytes, out_)) {
            case websocket_session::event::need_more: {
                const std::span<char> kept = end.session.kept(bytes);
                if (kept.empty()) {
                    end.buffer.clear();
                    if (end.buffer.capacity() > idle_bytes_max) spare_.give_back(end.buffer);
                } else if (from_buffer) {
                    keep_in_place(end.buffer, kept);
                } else {
                    make_room(end.buffer, kept.size(), kept.size() + end.session.awaited());
                    end.buffer.assign(kept.data(), kept.size());
                }
                return;
            }
            case websocket_session::event::message:
                end.whole = true;
                hand_over(*end.channel, end.session, bytes);
                go_on_websocket(c, c.pending->waiting.front());  // answers leave before what is answered next
                break;
            case websocket_session::event::close:
                return end_websocket(index, end.ending.value_or(channel_end::client_closed),
                                     end.session.payload(bytes));
            case websocket_session::event::refused:
                ++counters_.websockets_refused;
                return end_websocket(index, channel_end::cut, {});
            default:  // the session has answered pings
                end.whole |= !end.session.is_within_message();
                break;
        }
    }
    if (c.phase != phase::open) return;
    if (!from_buffer) end.buffer.assign(bytes.data(), bytes.size());
    if (!c.paused) pause(index);
}

// Who sends faster than it reads is not read from while its answers wait: else an echo would have to be refused.
bool server_core::socket_is_full(index_type index) {
    connection& c = connections_[index];
    if (c.socket->has_room()) return output_is_full(index);
    ++counters_.read_pauses;
    pause(index);
    return true;
}

void server_core::hand_over(channel_state& state, const websocket_session& session, std::span<const char> bytes) {
    if (!state.options.on_receive || !state.is_open()) return;
    if (state.strand)
        return hand_over_to_strand(state, session.payload(bytes),
                                   session.is_text() ? message_kind::text : message_kind::binary);
    bool returned = false;
    guarded([&] {
        state.options.on_receive(
            channel(state.shared_from_this()),
            {.payload = session.payload(bytes), .kind = session.is_text() ? message_kind::text : message_kind::binary});
        returned = true;
    });
    if (!returned) (void)state.close(websocket_code::internal_error, {});
}

// The head first; then messages as the kernel has room, as of a stream. Ends in read_socket(), or with the connection.
void server_core::go_on_websocket(connection& c, exchange& upgraded) {
    websocket_end& end = *c.socket;
    if (!std::exchange(end.begun, true)) {
        out_.append(upgraded.bytes);
        c.pending->bytes -= upgraded.bytes.size();
        std::string().swap(upgraded.bytes);
    }
    if (end.ending || c.waiting != 0 || c.unsent + out_.size() >= options_.limits.output_bytes_max) return;
    const channel_state::taken moved = end.channel->take_messages();
    counters_.messages_dropped += moved.dropped;
    if (moved.end == channel_end::overflow) return;  // channel_moved() follows, and cuts
    for (const queued_message& message : moved.messages.all())
        (void)end.session.send(out_, message.kind == message_kind::text, *message.bytes, true, message.shared);
    if (moved.drained && end.channel->options.on_drain) drained_.push_back(end.channel);
    if (!moved.end) return;
    (void)end.session.close(out_, moved.code, moved.reason);
    end.ending = moved.end;
}

// Both sides have said what they had to say.
void server_core::end_websocket(index_type index, channel_end why, std::string_view reason) {
    connection& c = connections_[index];
    c.socket->channel->note_close(c.socket->session.code(), reason);
    end_channel(c.socket->channel, why);
    c.pending.reset();
    c.socket.reset();
    c.phase = phase::last;
    c.discarding = true;
    if (std::exchange(c.paused, false)) engine_->resume(token_of(index));
}

// The connection goes without a close frame of the client's.
void server_core::lose_websocket(connection& c) {
    if (!c.socket) return;
    c.socket->session.lost();
    c.socket->channel->note_close(c.socket->session.code(), {});
    c.socket.reset();
}

// A message has begun, and its end does not come: who holds memory so is not waited for.
void server_core::expire_message(index_type index) {
    (void)connections_[index].socket->session.refuse(out_, websocket_code::policy_violation,
                                                     "the message did not arrive in time");
    end_websocket(index, channel_end::cut, {});
    settle(index);
}

// Nothing has come for long: once it is asked for, then the client is away.
void server_core::expire_websocket(index_type index) {
    connection& c = connections_[index];
    if (c.socket->ending) return close(index, true, *c.socket->ending);
    if (std::exchange(c.socket->pinged, true)) {
        ++counters_.idle_timeouts;
        return close(index, true, channel_end::client_away);
    }
    (void)c.socket->session.ping(out_);
    settle(index);
}

}  // namespace holdfast::net
