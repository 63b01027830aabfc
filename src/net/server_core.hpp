// SPDX-License-Identifier: Apache-2.0
// server_core.hpp - the state of one server loop and of its connections.
//
// A connection's phases:
//   open      reads requests, answers them; `inbound` holds a partial request or requests held back by a pause. Between
//             a head and the next one there may be a `body` that is handed over in pieces
//   last      its last response is under way: input is thrown away, then on to lingering or closed
//   lingering our side is shut; input is read and thrown away until the peer closes too. Closing at once with unread
//             input makes the kernel send a reset, which may destroy the response on its way (RFC 9112 section 9.6)
// (C1) Exactly one timer class is armed per connection, the first that applies of: linger, handshake (of TLS; nothing
//      else has begun), write (output is stuck), header or body (a request has begun, or a body comes in pieces, and
//      its client is read from), closing, body (a WebSocket's message has begun, and its client is read from) or ping,
//      idle. None while exchanges are under way and none of these but idle would apply. A WebSocket that is not read
//      from because its calls in the pool are too many is not pinged.
// (C2) Between callbacks nothing sits in the shared output buffer: the engine has it, and `unsent` says how much of it
//      has not left.
// (C3) `inbound` exists iff bytes of the connection are kept between callbacks.
// (C4) Posted tasks, timers and callbacks of channels run between the events of a turn and the next wait, never within
// an event: they may call
//      anything.
// (C5) Where many streams and WebSockets have got messages, what has come meanwhile is looked at before these are sent:
//      a send costs as much as forty messages more in it. So it is put off, by looks_max turns at most, as long as each
//      turn brings many more and no queue begins to fill.
// Files: server_core.cpp the loop, accepting, time-outs; server_tasks.cpp posted tasks and timers; server_channels.cpp
// what answers later; server_bodies.cpp bodies in pieces; server_files.cpp answers from files; server_websocket.cpp
// WebSockets; server_pool.cpp what is called in a pool; server_exchange.cpp requests in and responses out;
// server_held.cpp what is kept for connections, and who goes when it is too much.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "begun_time.hpp"
#include "body_state.hpp"
#include "channel_state.hpp"
#include "engine.hpp"
#include "exchange_queue.hpp"
#include "file_descriptor.hpp"
#include "file_places.hpp"
#include "holdfast/net/http_parser.hpp"
#include "holdfast/net/peer.hpp"
#include "holdfast/net/server.hpp"
#include "holdfast/net/websocket_handshake.hpp"
#include "mailbox.hpp"
#include "place_table.hpp"
#include "spare_buffers.hpp"
#include "timer_wheel.hpp"
#include "turn_clock.hpp"
#include "websocket_end.hpp"

namespace holdfast::net {

class connection_strand;
class pool_ledger;

struct inbound_request {
    explicit inbound_request(const message_limits& limits) : parser(limits) {}
    request_parser parser;
    std::string buffer;    // a partial request, or what a pause held back; empty while requests are whole
    std::size_t used = 0;  // bytes at its front that have been answered
    std::uint64_t first_byte_ns = 0;
    std::uint64_t held_since_ns = 0;  // when what a pause holds back had come; 0 where it holds nothing
    bool in_parts = false;            // the request being read did not come at once
    begun_time time;

    [[nodiscard]] std::span<char> unread() noexcept { return std::span<char>(buffer).subspan(used); }
};

enum class phase : std::uint8_t { free, open, last, lingering };

/// `lost`: it has gone in the middle of an exchange, and is counted in server_counters::lost.
enum class peer_side : std::uint8_t { open, shut, lost };

/// What few connections have.
struct connection_aside {
    std::optional<net::peer> peer;              // where server_options::identify_peers asks for it
    std::shared_ptr<connection_strand> strand;  // once something of it was called in server_options::pool
};

struct connection {
    std::uint32_t generation = 0;
    net::phase phase = net::phase::free;
    timer_class timer = timer_class::none;
    net::peer_side peer_side = net::peer_side::open;
    bool paused = false;         // input is paused until output has left
    bool yields = false;         // it is for others' sake alone, and goes on once these have been served
    bool discarding = false;     // input may still come in the phase `last`: linger instead of closing
    bool continue_sent = false;  // 100 Continue went out for the request being read
    bool broken = false;         // a send failed: settle() closes it
    bool touched = false;        // in server_core::touched_
    bool progressed = false;     // some output left since the write timer was armed
    bool securing = false;       // a TLS handshake has to be made first
    bool given_up = false;       // for what it holds, which keep_accounts() sees to
    std::size_t unsent = 0;      // bytes of output that the engine has and the kernel has not
    std::size_t waiting = 0;     // of these, what the kernel had no room for: all or nothing
    std::size_t held_bytes = 0;  // of it, in both directions, as counted in server_core::held_bytes_
    std::size_t lingered_bytes = 0;
    std::unique_ptr<connection_aside> aside;
    std::unique_ptr<inbound_request> inbound;
    std::unique_ptr<exchange_queue> pending;  // while a channel or a file is among the exchanges
    std::unique_ptr<inbound_body> body;       // what comes is this, up to its end
    std::unique_ptr<websocket_end> socket;    // while the last of them is a WebSocket; nothing is a request then
};
// Of the 256 bytes that an idle connection may take; the rest are the timers', the engine's and the places'.
static_assert(sizeof(connection) <= 88);

class server_core final : public engine_sink {
 public:
    server_core(std::vector<int> listeners, server_options options, handler answer);
    ~server_core();
    server_core(const server_core&) = delete;
    server_core& operator=(const server_core&) = delete;

    void run();
    void request_stop() noexcept;
    void request_drain(bool others_accept) noexcept;
    void watch(int fd, std::function<void()> readable);
    void unwatch(int fd);
    bool post(std::function<void()> task);
    timer_id after(std::chrono::nanoseconds delay, std::function<void()> task);
    bool cancel(timer_id timer) { return timers_.erase(timer) != 0; }
    channel begin_channel(channel_kind kind, channel_options options);
    channel begin_websocket(const request& asked, const websocket_upgrade& judged, channel_options options,
                            const websocket_options& chosen);
    void channel_moved(channel_state& state, const channel_state::news& there);
    void strand_moved(const connection_strand& strand);
    body_reader begin_body(body_options options);
    void body_moved(body_state& state);
    /// Runs it; what it throws is counted.
    template <class Task>
    void guarded(Task&& task) noexcept {
        try {
            std::forward<Task>(task)();
        } catch (...) {
            ++counters_.handler_exceptions;
        }
    }
    [[nodiscard]] const server_counters& counters() const noexcept { return counters_; }
    [[nodiscard]] std::string_view engine_name() const noexcept { return engine_->name(); }

    void on_wake() override;
    void on_accept(accepted arrival) override;
    void on_accept_paused() override;
    void on_drained(int listener) override;
    void on_bytes(connection_token token, std::span<char> bytes) override;
    void on_end(connection_token token, int error) override;
    void on_sent(connection_token token, std::size_t unsent) override;
    void on_watched(int fd) override;
    void on_held(connection_token token) override;
    void on_tls(connection_token token, tls_event what) override;

 private:
    using index_type = std::uint32_t;

    // server_core.cpp
    void check_options() const;
    void begin_drain();
    [[nodiscard]] int next_timeout_ms() const;
    void run_timers();
    void notice_pause(index_type index);
    void expire(index_type index);
    void tick();
    [[nodiscard]] index_type take_place();
    void close(index_type index, bool reset = false, channel_end why = channel_end::cut);
    void end_everything();
    void rearm(index_type index);
    [[nodiscard]] std::uint64_t timeout_of(timer_class timer) const noexcept;
    [[nodiscard]] static bool waits_for_continue(const connection& c) noexcept;
    [[nodiscard]] std::uint64_t due_of(connection& c, timer_class timer, bool renewed) const noexcept;
    [[nodiscard]] connection_token token_of(index_type index) const noexcept {
        return {index, connections_[index].generation};
    }

    // server_tasks.cpp
    void open_letters();
    void run_due_timers();

    // server_channels.cpp
    void arm_answer(const std::shared_ptr<channel_state>& state);
    void count_answer(channel_state& state);
    void enter_exchange(index_type index, const inbound_request& in, bool more_follows);
    void touch(index_type index);
    [[nodiscard]] bool looks_again() noexcept;
    void settle_touched();
    [[nodiscard]] bool advance(index_type index);
    [[nodiscard]] bool go_on_answer(index_type index, exchange& asked);
    [[nodiscard]] bool go_on_stream(connection& c, exchange& stream);
    void append_late(std::string& out, const response& late, const exchange& asked, bool closing);
    void end_channel(const std::shared_ptr<channel_state>& state, channel_end why);
    void drop_last(connection& c, channel_end why);
    void drop_pending(connection& c, channel_end why);
    void leave_half_closed(connection& c);
    void expire_answer(const std::shared_ptr<channel_state>& state);
    void drain_streams(index_type index);
    void call_back();

    // server_bodies.cpp
    [[nodiscard]] bool wants_pieces(const request& message) noexcept;
    void take_up_body(index_type index, const request& message, bool more_follows);
    void begin_reading(index_type index);
    void continue_body(index_type index);
    [[nodiscard]] bool body_waits(index_type index);
    [[nodiscard]] std::size_t read_body(index_type index, std::span<char> bytes);
    [[nodiscard]] bool hand_over(body_state& reader, std::span<const char> piece);
    void end_body(const std::shared_ptr<body_state>& state, body_end why);
    void lose_body(connection& c, body_end why);
    void lose_body(connection& c, channel_end why);
    void finish_body(index_type index);
    [[nodiscard]] bool leave_body(connection& c);
    void end_requests(index_type index);
    void break_body(index_type index, int status, std::string_view reason, body_end why);
    void call_back_bodies();

    // server_pool.cpp
    void check_pool();
    void check_where_it_runs() const;
    [[nodiscard]] static connection_strand* strand_of(const connection& c) noexcept;
    [[nodiscard]] static bool waits_for_strand(const connection& c);
    [[nodiscard]] const std::shared_ptr<connection_strand>& make_strand(index_type index);
    [[nodiscard]] bool goes_to_pool(const request& message) noexcept;
    void call_on_pool(index_type index, const request_parser& parsed);
    void hand_over_to_strand(channel_state& state, std::string_view payload, message_kind kind);
    void drain_by_strand(const std::shared_ptr<channel_state>& state);
    void close_by_strand(const std::shared_ptr<channel_state>& state, channel_end why);
    void count_exceptions_of_pool() noexcept;

    // server_files.cpp
    [[nodiscard]] static bool sends_file(const response& answer, method asked) noexcept;
    void enter_file(connection& c, const response& answer, file_place place);
    [[nodiscard]] file_place place_for_file(response& answer);
    void count_file(exchange_queue& pending, exchange& asked, response& late);
    enum class file_progress : std::uint8_t { waits, done, broken };
    [[nodiscard]] file_progress go_on_file(index_type index, file_sender& file);

    // server_websocket.cpp
    void enter_websocket(index_type index, exchange& entered, channel_state& state);
    void make_room(std::string& buffer, std::size_t needed, std::size_t whole);
    void keep_in_place(std::string& buffer, std::span<const char> kept);
    void read_socket(index_type index, std::span<char> bytes);
    [[nodiscard]] bool socket_is_full(index_type index);
    void hand_over(channel_state& state, const websocket_session& session, std::span<const char> bytes);
    void go_on_websocket(connection& c, exchange& upgraded);
    void end_websocket(index_type index, channel_end why, std::string_view reason);
    void lose_websocket(connection& c);
    void expire_websocket(index_type index);
    void expire_message(index_type index);

    // server_held.cpp
    [[nodiscard]] bool keep_accounts(index_type index);
    void account(connection& c, std::size_t held) noexcept;
    [[nodiscard]] std::optional<index_type> holder_of_more(std::size_t bytes) noexcept;
    void give_up(index_type index, bool more_waits);

    // server_exchange.cpp
    struct served {
        std::size_t used = 0;  // bytes from the front that are done with
        std::size_t kept = 0;  // bytes behind them that must be kept for later
    };
    void serve(index_type index, std::unique_ptr<inbound_request> in, std::span<char> bytes);
    [[nodiscard]] served serve_requests(index_type index, inbound_request& in, std::span<char> bytes);
    [[nodiscard]] bool output_is_full(index_type index, bool has_had_its_time = false);
    void pause(index_type index, bool for_others = false);
    [[nodiscard]] bool can_go_on(const connection& c);
    void count_lost(connection& c) noexcept;
    void answer_request(index_type index, const inbound_request& in, bool more_follows);
    void refuse(index_type index, const inbound_request& in, int status, std::string_view reason, std::size_t bytes);
    void send_continue(index_type index, const inbound_request& in);
    void call_handler(const request& message);
    [[nodiscard]] std::size_t append_response(std::string& out, const response& answer, bool without_body, bool closing,
                                              bool persistent_1_0);
    [[nodiscard]] std::size_t append_stream_head(std::string& out, const response& answer, bool closing, bool chunked);
    /// What most responses begin with, one run of bytes: made once a second, looked at once a millisecond.
    [[nodiscard]] std::string_view ok_begin() {
        if (now_ms_ != date_looked_ms_) look_at_date();
        return ok_begin_;
    }
    void look_at_date();
    void report(response_event event, std::uint64_t first_byte_ns);
    void settle(index_type index);
    void finish(index_type index);
    [[nodiscard]] bool flush(index_type index);
    [[nodiscard]] std::unique_ptr<inbound_request> take_inbound();
    void give_back(std::unique_ptr<inbound_request> in) noexcept;

    server_options options_;
    handler answer_;
    server_counters counters_;
    std::vector<file_descriptor> listeners_;
    std::shared_ptr<pool_ledger> ledger_;  // where there is a pool
    std::unique_ptr<engine> engine_;
    std::atomic<bool> stop_requested_{false};
    std::atomic<bool> drain_requested_{false};
    std::atomic<bool> others_accept_{false};  // of a drain: see server::hand_over()

    const std::shared_ptr<file_places> files_;
    place_table<connection> connections_;
    std::vector<index_type> free_;
    std::vector<std::unique_ptr<inbound_request>> spare_inbound_;
    spare_buffers spare_;  // of messages under way
    std::map<int, std::function<void()>> watches_;
    std::shared_ptr<mailbox> mail_;
    std::map<timer_id, std::function<void()>> timers_;
    std::uint64_t timers_made_ = 0;
    timer_wheel wheel_;
    response response_;
    std::shared_ptr<channel_state> begun_;          // by the handler that runs, or has just returned
    std::shared_ptr<body_state> begun_body_;        // likewise
    const request* asked_ = nullptr;                // what the running handler was called with
    index_type answering_ = 0;                      // and the connection that brought it
    std::string begun_socket_;                      // where that is a WebSocket: its 101,
    websocket_limits socket_limits_;                // what its client may send,
    websocket_deflate socket_deflate_;              // and what was agreed on
    std::unique_ptr<websocket_deflater> deflater_;  // once one may be asked for
    std::vector<connection_token> touched_;         // to be settled in the end of this turn,
    std::vector<connection_token> settling_;        // which is being done
    std::size_t moved_ = 0;                         // (C5) channels that have got messages since the last look,
    unsigned looks_ = 0;                            // how many looks there were,
    bool filling_ = false;                          // and whether some queue has begun to fill
    std::vector<std::shared_ptr<channel_state>> drained_;
    std::vector<std::pair<std::shared_ptr<channel_state>, channel_end>> ended_;   // on_close is due
    std::vector<std::pair<std::shared_ptr<body_state>, body_end>> bodies_ended_;  // on_end is due
    const std::string busy_;                   // what is said to a client that there is no room for
    std::string out_;                          // output of the connection being served
    std::size_t held_bytes_ = 0;               // of all connections, as of their last settle()
    std::array<std::uint32_t, 65> holders_{};  // how many hold bytes of so many bits; those of none are not counted
    index_type last_holder_ = 0;               // where the search for one that holds much goes on

    std::uint64_t now_ms_ = 0;
    std::uint64_t arrival_ns_ = 0;  // when the loop last woke: the bytes being served had come by then
    turn_clock taken_;
    std::uint64_t next_tick_ms_ = 0;
    std::uint64_t drain_deadline_ms_ = 0;
    std::int64_t date_second_ = -1;
    std::uint64_t date_looked_ms_ = 0;
    std::string ok_begin_;  // "HTTP/1.1 200 OK\r\nDate: ...\r\n"
    bool draining_ = false;
    std::uint32_t drain_idle_ms_ = 0;  // once draining
    bool running_ = false;
};

/// What a client is told when a handler throws.
inline constexpr std::string_view failed_to_answer = "the server failed to answer this request";

}  // namespace holdfast::net
