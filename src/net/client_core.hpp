// SPDX-License-Identifier: Apache-2.0
// client_core.hpp - the state of one client: exchanges, connections, and the origins that keep both apart.
//
//   exchange    one request until its on_done: waiting in its origin's queue, or `on` a connection, or `ready` to end
//   connection  one socket: connecting or busy for one exchange, or idle in its origin's list
//   origin      scheme, host and port (or a unix socket), and with https the trust: its connections, who waits for
//               them, the addresses of its name, what its servers gave for shorter handshakes
// (E1) An exchange is in exactly one place: waiting, on a connection, or ended.
// (E2) An exchange ends inside a turn alone, by end_exchange(), which no code goes on behind with that exchange or its
//      connection. Calls from outside a turn leave a mark (`cancelled`, `wrong`, `touched`) and wake the loop.
// (E3) A callback may call anything but the destructor: behind each, marks are looked at again.
// (E4) A connection that is not sure to be in order is closed, never kept.
// (E5) What is due is in one epoll: sockets, a timerfd, an eventfd. So the client is one descriptor for others.
// Files: client_core.cpp the loop, calls from outside, time-outs; client_pool.cpp origins, names, connections that are
// kept; client_connect.cpp how these are made; client_exchange.cpp a request out and an answer in.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client_resolver.hpp"
#include "client_transport.hpp"
#include "client_url.hpp"
#include "file_descriptor.hpp"
#include "holdfast/net/client.hpp"
#include "response_reader.hpp"
#include "timer_wheel.hpp"
#include "tls_session.hpp"
#include "wake_event.hpp"

namespace holdfast::net {

struct client_connection;
struct client_origin;

struct client_exchange {
    std::uint64_t number = 0;
    std::uint32_t place = 0;  // in the wheel
    client_request asked;
    client_callbacks calls;
    client_url url;
    std::string head;  // of the request, as sent
    client_origin* origin = nullptr;
    client_connection* on = nullptr;
    client_stage stage = client_stage::waiting;

    std::uint64_t whole_ms = 0;  // deadlines; 0: none
    std::uint64_t phase_ms = 0;
    client_error phase_error = client_error::none;  // that phase_ms ends with

    std::size_t head_sent = 0, body_sent = 0;
    std::string piece;           // of an upload, as sent
    std::uint64_t uploaded = 0;  // bytes the source gave
    bool upload_waits = false;   // the source said `wait`
    bool upload_done = false;    // the source said `end`
    bool all_sent = false;       // all of the request has left
    bool sent = false;           // some of it has
    bool answered = false;       // a byte of the answer has come on this connection
    bool head_told = false;      // on_head was called, or would have been
    bool paused = false;
    bool cancelled = false;
    bool touched = false;  // in client_core::touched_
    bool queued = false;   // in its origin's queue
    bool fresh = false;    // wants a connection of its own making: its first one had served before
    bool reused = false;
    unsigned attempts = 0;
    std::string wrong;  // an invalid request: why
    client_error wrong_error = client_error::none;
    client_response response;

    [[nodiscard]] bool to_head() const noexcept { return asked.method == "HEAD"; }
};

struct client_connection {
    enum class step : std::uint8_t { connecting, beginning, busy, idle };

    std::uint32_t place = 0;
    std::uint32_t generation = 0;
    client_origin* origin = nullptr;
    client_exchange* carries = nullptr;
    file_descriptor fd;
    std::unique_ptr<client_transport> transport;
    response_reader reader;
    step at = step::connecting;
    std::uint32_t events = 0;               // epoll is asked for; 0: it does not know the socket
    std::vector<file_descriptor> attempts;  // while connecting: sockets on their way, each to another address
    std::size_t next_address = 0;           // to be tried
    int last_error = 0;                     // of the addresses tried
    int send_error = 0;    // nothing can be sent any more; what was sent to us before may still be read
    bool blocked = false;  // wants to be told when it can send
    bool refused = false;  // the rest of the request is not wanted
    bool served = false;   // an answer has come in whole
    bool ended = false;    // the other side has said its last
    std::list<client_connection*>::iterator idle_at{};  // in client_core::idle_

    explicit client_connection(const message_limits& answer) : reader(answer) {}
};

struct client_origin {
    std::string key;
    std::string label;  // the key as people read it
    std::string host;
    std::uint16_t port = 0;
    std::string unix_socket;
    std::optional<tls_trust> trust;      // https; connections of one trust are never another's
    std::shared_ptr<tls_memory> memory;  // of its servers, for shorter handshakes

    std::size_t connections = 0;
    std::vector<client_connection*> idle;  // the last is taken first
    std::deque<client_exchange*> waiting;
    std::vector<socket_address> addresses;
    std::uint64_t addresses_ms = 0;  // known until then
    std::uint64_t ticket = 0;        // of the look-up under way; 0: none
    bool looked_up = false;          // some that wait may be in the stage `resolving`
    bool crowded = false;            // in client_core::crowded_
};

/// What other threads leave for a client. It may outlive it: resolvers hold it.
struct client_inbox {
    std::mutex lock;
    std::vector<std::function<void()>> tasks;  // under the lock
    bool closed = false;                       // under the lock
    wake_event wake;

    bool post(std::function<void()> task) {
        const std::lock_guard guard(lock);
        if (closed) return false;
        tasks.push_back(std::move(task));
        if (tasks.size() == 1) wake.signal();
        return true;
    }
};

class client_core {
 public:
    explicit client_core(client_options options);
    ~client_core();
    client_core(const client_core&) = delete;
    client_core& operator=(const client_core&) = delete;

    /// Threads: any.
    [[nodiscard]] std::uint64_t take_number() noexcept;
    void start(std::uint64_t number, client_request asked, client_callbacks calls);
    [[nodiscard]] bool is_ending() const noexcept { return ending_; }
    bool cancel(request_id request);
    bool pause(request_id request);
    bool resume(request_id request);
    bool continue_upload(request_id request);
    timer_id after(std::chrono::nanoseconds delay, std::function<void()> task);
    bool cancel(timer_id timer) { return timers_.erase(timer) != 0; }
    [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
    void turn(int timeout_ms = 0);
    void run();
    void stop() noexcept;
    bool post(std::function<void()> task) { return inbox_->post(std::move(task)); }
    void end_everything();
    [[nodiscard]] const client_counters& counters() const noexcept { return counters_; }

 private:
    using step = client_connection::step;

    // client_core.cpp
    [[nodiscard]] client_exchange* find(request_id request);
    void touch(client_exchange& x);
    void wake();
    void read_clock() noexcept;
    void handle(std::uint64_t tag, std::uint32_t events);
    void run_posted();
    void run_due_timers();
    void settle();
    void go_on(client_exchange& x);
    void set_phase(client_exchange& x, std::chrono::milliseconds wait, client_error error);
    void arm(client_exchange& x);
    void renew_phase(client_exchange& x);
    void expire(std::uint32_t place);
    void arm_timer();
    [[nodiscard]] std::chrono::milliseconds wait_of(const client_exchange& x,
                                                    std::chrono::milliseconds client_timeouts::* which) const noexcept;
    template <class Call, class... Given>
    void call(const Call& callback, Given&&... given) noexcept {
        if constexpr (std::is_constructible_v<bool, const Call&>)
            if (!callback) return;
        try {
            callback(std::forward<Given>(given)...);
        } catch (...) {
            ++counters_.callback_exceptions;
        }
    }

    // client_pool.cpp, client_connect.cpp
    [[nodiscard]] bool find_trust(client_exchange& x);
    [[nodiscard]] client_origin& origin_of(const client_exchange& x);
    void queue(client_exchange& x, bool in_front);
    void dispatch();
    void dispatch(client_origin& o);
    [[nodiscard]] client_connection* take_idle(client_origin& o);
    [[nodiscard]] bool may_have_room(const client_origin& o) const noexcept;
    [[nodiscard]] bool have_room(client_origin& o);
    void look_up(client_origin& o);
    void take_addresses(std::uint64_t ticket, const std::string& key, const resolved_name& found);
    void end_look_up(client_origin& o) noexcept;
    void fail_waiting(client_origin& o, client_error error, const std::string& detail);
    void connect(client_exchange& x);
    void connect_next(client_connection& c);
    void arm_next_address(client_connection& c, std::size_t left);
    [[nodiscard]] int try_address(client_connection& c, const socket_address& where);
    void handle_connecting(client_connection& c);
    void take_attempt(client_connection& c, std::size_t which);
    void expire_connection(std::uint32_t place);
    void end_connecting(client_connection& c, int code);
    void end_securing(client_connection& c, int code);
    void begin_transport(client_connection& c);
    void carry(client_connection& c, client_exchange& x);
    void keep(client_connection& c);
    void close(client_connection& c);
    void watch(client_connection& c, std::uint32_t events);
    void tell_epoll(const client_connection& c, int fd, int operation, std::uint32_t events);
    void leave_queue(client_exchange& x);
    void give_up(client_connection& c);

    // client_exchange.cpp
    void handle_busy(client_connection& c, std::uint32_t events);
    [[nodiscard]] bool send(client_connection& c);
    [[nodiscard]] bool fill(client_exchange& x);
    [[nodiscard]] bool receive(client_connection& c);
    [[nodiscard]] bool take_answer(client_connection& c);
    void lose(client_connection& c, int code);
    void finish(client_connection& c);
    void watch_busy(client_connection& c);
    void end_exchange(client_exchange& x, client_error error, std::string detail);

    client_options options_;
    client_counters counters_;
    file_descriptor epoll_;
    file_descriptor timer_;
    std::shared_ptr<client_inbox> inbox_;
    std::atomic<bool> stop_requested_{false};
    std::atomic<std::uint64_t> numbers_{0};

    std::unordered_map<std::uint64_t, std::unique_ptr<client_exchange>> exchanges_;
    std::vector<client_exchange*> by_place_;
    std::vector<std::uint32_t> free_places_;
    std::vector<std::uint64_t> touched_;  // numbers, to be looked at in this turn's end
    std::size_t waiting_ = 0;

    std::vector<std::unique_ptr<client_connection>> connections_;
    std::vector<std::uint32_t> generations_;
    std::vector<std::uint32_t> free_connections_;
    std::list<client_connection*> idle_;  // of all origins, the longest unused first
    std::unordered_map<std::string, std::unique_ptr<client_origin>> origins_;
    std::list<client_origin*> crowded_;  // with somebody waiting; each once
    std::size_t sweep_at_ = 64;          // so many origins are looked through for those nobody needs
    std::uint64_t tickets_ = 0;
    std::size_t looking_up_ = 0;  // origins with a ticket
    std::unique_ptr<client_resolver> resolver_;
    std::optional<tls_trust> system_trust_;  // made with the first request that needs it

    std::map<timer_id, std::function<void()>> timers_;
    std::uint64_t timers_made_ = 0;
    timer_wheel exchange_wheel_;
    timer_wheel connection_wheel_;
    std::uint64_t now_ms_ = 0;
    std::uint64_t armed_ms_ = 0;  // what the timerfd is set to; 0: nothing
    bool in_turn_ = false;
    bool woken_ = false;
    bool dispatch_due_ = false;
    bool ending_ = false;
    bool ran_ = false;
    std::unique_ptr<std::array<char, 65536>> scratch_;
};

}  // namespace holdfast::net
