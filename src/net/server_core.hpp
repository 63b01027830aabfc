// SPDX-License-Identifier: Apache-2.0
// server_core.hpp - the state of one server loop and of its connections.
//
// A connection's phases:
//   open      reads requests, answers them; `inbound` holds a partial request or requests held back by a pause
//   last      its last response is under way: input is thrown away, then on to lingering or closed
//   lingering our side is shut; input is read and thrown away until the peer closes too. Closing at once with unread
//             input makes the kernel send a reset, which may destroy the response on its way (RFC 9112 section 9.6)
// (C1) Exactly one timer class is armed per connection, the first that applies of: linger, write (output is stuck),
//      header or body (a request has begun), idle.
// (C2) `outbound` exists iff output is stuck in the server; between callbacks nothing sits in the shared output buffer.
// (C3) `inbound` exists iff bytes of the connection are kept between callbacks.
// Files: server_core.cpp the loop, accepting, timers; server_exchange.cpp requests in and responses out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine.hpp"
#include "file_descriptor.hpp"
#include "holdfast/net/http_parser.hpp"
#include "holdfast/net/server.hpp"
#include "timer_wheel.hpp"

namespace holdfast::net {

struct inbound_request {
    explicit inbound_request(const message_limits& limits) : parser(limits) {}
    request_parser parser;
    std::string buffer;  // a partial request, or what a pause held back; empty while requests are whole
    std::uint64_t first_byte_ns = 0;
};

struct outbound_bytes {
    std::string bytes;
    std::size_t sent = 0;
};

enum class phase : std::uint8_t { free, open, last, lingering };
enum class timer_class : std::uint8_t { none, idle, header, body, write, linger };

struct connection {
    std::uint32_t generation = 0;
    net::phase phase = net::phase::free;
    timer_class timer = timer_class::none;
    bool paused = false;         // input is paused until output has left
    bool peer_done = false;      // the peer has shut its side
    bool discarding = false;     // input may still come in the phase `last`: linger instead of closing
    bool continue_sent = false;  // 100 Continue went out for the request being read
    bool blocked = false;        // the socket takes no more until on_sendable
    bool progressed = false;     // it took something since the write timer was armed
    std::size_t held_bytes = 0;  // of inbound and outbound, as counted in server_core::held_bytes_
    std::size_t lingered_bytes = 0;
    std::unique_ptr<inbound_request> inbound;
    std::unique_ptr<outbound_bytes> outbound;
};

class server_core final : public engine_sink {
 public:
    server_core(std::vector<int> listeners, server_options options, handler answer);
    ~server_core();
    server_core(const server_core&) = delete;
    server_core& operator=(const server_core&) = delete;

    void run();
    void request_stop() noexcept;
    void request_drain() noexcept;
    void watch(int fd, std::function<void()> readable);
    void unwatch(int fd);
    [[nodiscard]] const server_counters& counters() const noexcept { return counters_; }

    void on_wake() override;
    void on_accept(int fd) override;
    void on_accept_failed(int listener, int error) override;
    void on_bytes(connection_token token, std::span<char> bytes) override;
    void on_end(connection_token token, int error) override;
    void on_sendable(connection_token token) override;
    void on_watched(int fd) override;

 private:
    using index_type = std::uint32_t;
    enum class flushed : std::uint8_t { all, blocked, broken };

    // server_core.cpp
    void check_options() const;
    void begin_drain();
    [[nodiscard]] int next_timeout_ms() const;
    void run_timers();
    void expire(index_type index);
    void tick();
    void pause_accepting();
    void resume_accepting();
    void turn_away(int fd) const noexcept;
    [[nodiscard]] index_type take_place();
    void close(index_type index, bool reset = false);
    void rearm(index_type index);
    [[nodiscard]] std::uint64_t timeout_of(timer_class timer) const noexcept;
    [[nodiscard]] connection_token token_of(index_type index) const noexcept {
        return {index, connections_[index].generation};
    }

    // server_exchange.cpp
    struct served {
        std::size_t used = 0;  // bytes from the front that are done with
        std::size_t kept = 0;  // bytes behind them that must be kept for later
    };
    void serve(index_type index, std::unique_ptr<inbound_request> in, std::span<char> bytes);
    [[nodiscard]] served serve_requests(index_type index, inbound_request& in, std::span<char> bytes);
    [[nodiscard]] bool output_is_full(index_type index);
    void answer_request(index_type index, const inbound_request& in, bool more_follows);
    void refuse(index_type index, int status, std::string_view reason, std::uint64_t first_byte_ns, std::size_t bytes);
    void send_continue(index_type index, const inbound_request& in);
    void call_handler(const request& message);
    [[nodiscard]] std::size_t append_response(std::string& out, bool without_body, bool closing, bool persistent_1_0);
    void append_date(std::string& out);
    void report(response_event event, std::uint64_t first_byte_ns);
    void settle(index_type index);
    void finish(index_type index);
    [[nodiscard]] flushed flush(index_type index);
    [[nodiscard]] bool keep_accounts(index_type index);
    [[nodiscard]] std::size_t unsent(index_type index) const noexcept;
    [[nodiscard]] std::string& output_of(index_type index) noexcept;
    [[nodiscard]] std::unique_ptr<inbound_request> take_inbound();
    void give_back(std::unique_ptr<inbound_request> in) noexcept;

    server_options options_;
    handler answer_;
    server_counters counters_;
    std::vector<file_descriptor> listeners_;
    std::unique_ptr<engine> engine_;
    file_descriptor wake_;     // eventfd: stop() and drain()
    file_descriptor reserve_;  // given up for a moment when the process is out of descriptors
    std::atomic<bool> stop_requested_{false};
    std::atomic<bool> drain_requested_{false};

    std::vector<connection> connections_;
    std::vector<index_type> free_;
    std::vector<std::unique_ptr<inbound_request>> spare_inbound_;
    std::map<int, std::function<void()>> watches_;
    timer_wheel wheel_;
    response response_;
    std::string out_;             // output of the connection being served
    std::size_t held_bytes_ = 0;  // of all connections' inbound and outbound, as of their last settle()

    std::uint64_t now_ms_ = 0;
    std::uint64_t arrival_ns_ = 0;  // when the loop last woke: the bytes being served had come by then
    std::uint64_t next_tick_ms_ = 0;
    std::uint64_t accept_again_ms_ = 0;  // accepting is paused until then; 0: it is not
    std::uint64_t drain_deadline_ms_ = 0;
    std::int64_t date_second_ = -1;
    std::string date_;           // "Date: ...\r\n"
    bool date_checked_ = false;  // since the last wake-up
    bool draining_ = false;
    bool running_ = false;
};

/// CLOCK_MONOTONIC.
[[nodiscard]] std::uint64_t monotonic_ns() noexcept;

}  // namespace holdfast::net
