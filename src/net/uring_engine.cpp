// SPDX-License-Identifier: Apache-2.0
// uring_engine.cpp - connections by multishot receives into shared buffers, sends that complete later, one system call
// a turn.
//
// (R1) A slot is a connection's as long as one of its operations is under way: the socket and the bytes of a send stay
//      until then. remove() cuts the way from the server's index to the slot, so nothing is reported any more, cancels
//      what is under way, and the last completion closes the socket.
// (R2) One receive and one send at most are under way for each slot. What is sent meanwhile gathers behind.
// (R3) What comes of a paused connection is copied out, so that it holds no buffer of the ring; a cancel ends it.
// (R4) A completion without F_MORE ends a multishot operation. Who still wants it arms it again.
// (R5) `held` of a connection that is not paused: it stands in resumed_, whose turn comes before new bytes.
// (R6) Of a unix socket each receive is its own: Linux from 6.17 on can forget the end of input in a multishot receive
//      that finds bytes before it. The next receive finds the end by itself.
// (R7) A slot's socket is a descriptor, or a place of the ring's table (uring_files.hpp). What would be a system call
//      on a descriptor is an operation there, which nobody waits for but (R1).
// (R8) What is large goes by calls of its own: it is sent at once, and of a connection that fills buffer after buffer
//      the ring only tells that there is something. So each message is received, looked at and answered while it is in
//      the cache; by operations all of a turn are received first and sent last. The saving of an operation is not seen
//      beside 64 KiB that are copied. Not of a place of the ring's table, which has no calls.
// (R9) No receive meets the break of a paused connection, nor one behind the end of input. So from the first pause, or
//      from that end, a multishot poll waits for it, in pauses and between them: to cancel it would cost more than it
//      does. A poll for no event tells of errors, of hang-ups, and, in io_uring, of the end of input; only POLLERR is a
//      break.
// (R10) A multishot receive takes buffer after buffer as long as bytes wait. So who found none, and then one that it
//      fills, receives one by one until it has caught up: else some would take all buffers of a turn, each time anew.
// Accepted sockets block: of others, what the kernel hands to a thread of its own answers EAGAIN. Nobody calls them.
// Source: io_uring_enter(2), io_uring_multishot(7).
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine.hpp"
#include "holdfast/error.hpp"
#include "holdfast/net/server.hpp"
#include "place_table.hpp"
#include "send_now.hpp"
#include "uring_buffers.hpp"
#include "uring_files.hpp"
#include "uring_listeners.hpp"
#include "uring_output.hpp"
#include "uring_probe.hpp"
#include "uring_queue.hpp"
#include "uring_watches.hpp"
#include "wake_event.hpp"

namespace holdfast::net {

namespace {

constexpr std::uint32_t none = ~std::uint32_t{0};
class uring_engine final : public engine {
 public:
    uring_engine(engine_sink& sink, const uring_sizes& sizes)
        : sink_(sink),
          queue_(sizes.submissions, sizes.completions),
          listeners_(sink, queue_),
          watches_(sink, queue_),
          files_(sizes.direct, sizes.direct_from) {
        if (!*wake_ || !listeners_.arrivals().open_reserve())
            throw error(errc::io, "server", std::string("no descriptor to spare: ") + std::strerror(errno));
        buffers_.emplace(queue_.ring(), group, sizes.buffers, sizes.buffer_bytes);
    }

    ~uring_engine() override {
        for (std::size_t i = 0; i < slots_.size(); ++i)
            if (slots_[i].fd >= 0 && !slots_[i].direct) ::close(slots_[i].fd);
        for (uring_completion one; queue_.next(one);)  // accepted, and never reported
            if (uring_subject::of(one).what == uring_operation::accept && one.result >= 0) ::close(one.result);
    }

    [[nodiscard]] std::string_view name() const noexcept override { return "io_uring"; }
    [[nodiscard]] engine_shortages shortages() const noexcept override { return shortages_; }

    void listen(int listener) override { listeners_.listen(listener); }
    void unlisten(int listener) noexcept override { listeners_.unlisten(listener); }
    void drain(int listener) override { listeners_.drain(listener); }
    void leave(int listener) override { listeners_.leave(listener); }

    void watch(int fd) override {
        if (::fcntl(fd, F_GETFD) < 0) fail("not a descriptor to watch", errno);
        watches_.watch(fd);
    }
    void unwatch(int fd) noexcept override { watches_.unwatch(fd); }

    [[nodiscard]] const std::shared_ptr<const wake_event>& waker() const noexcept override { return wake_; }

    [[nodiscard]] peer peer_of(const accepted& arrival) const override { return listeners_.arrivals().who(arrival); }

    [[nodiscard]] int take(const accepted& arrival, connection_token connection) override {
        if (const int code = listeners_.arrivals().check(arrival); code != 0) return code;
        slot_of_.grow(connection.index + std::size_t{1});
        if (free_slots_.empty()) make_slots();
        const std::uint32_t number = free_slots_.back();
        slot& s = slots_[number];
        to_receive_.push_back({number, s.use});  // behind those that found no buffer: who is new would always be first
        free_slots_.pop_back();
        s.fd = listeners_.arrivals().release();
        s.token = connection;
        s.multishot = !is_unix(s.fd);
        if (files_.wants(s.fd)) make_direct(s);
        s.taken = true;
        slot_of_[connection.index].number = number;
        return 0;
    }

    void refuse(const accepted& arrival, std::string_view reply) noexcept override {
        listeners_.arrivals().refuse(arrival, reply);
    }

    void remove(connection_token connection, bool reset) noexcept override {
        const std::uint32_t number = find(connection);
        if (number == none) return;
        slot& s = slots_[number];
        if (reset) dissolve(number);
        slot_of_[connection.index] = {};
        s.taken = false;
        s.held.reset();
        ++closing_;
        if (s.under_way == 0)
            free(number);
        else
            stop_all(number);
    }

    void shutdown_send(connection_token connection) noexcept override {
        const std::uint32_t number = find(connection);
        if (number == none) return;
        if (slots_[number].direct)
            operate(IORING_OP_SHUTDOWN, number, uring_operation::aside).len = SHUT_WR;
        else
            (void)::shutdown(slots_[number].fd, SHUT_WR);
    }

    void pause(connection_token connection) override {
        const std::uint32_t number = find(connection);
        if (number == none) return;
        slot& s = slots_[number];
        s.paused = true;
        stop_receive(number);
        if (s.failed) resumed_.push_back({number, s.use});  // nothing tells of it again
        if (!s.awaits_break) await_break(number);
    }

    void resume(connection_token connection) override {
        const std::uint32_t number = find(connection);
        if (number == none || !slots_[number].paused) return;
        slots_[number].paused = false;
        resumed_.push_back({number, slots_[number].use});
    }

    [[nodiscard]] std::size_t held(connection_token connection) const noexcept override {
        const std::uint32_t number = find(connection);
        return number != none && slots_[number].held ? slots_[number].held->bytes.size() : 0;
    }

    [[nodiscard]] sent send(connection_token connection, std::string& bytes) override {
        const std::uint32_t number = find(connection);
        if (number == none || slots_[number].broken) {
            const std::size_t lost =
                bytes.size() + (number != none && slots_[number].out ? slots_[number].out->unsent() : 0);
            bytes.clear();
            return {lost, 0, EBADF};
        }
        slot& s = slots_[number];
        if (s.out) {
            s.out->append(bytes);
        } else if (bytes.size() >= at_once_bytes && !s.direct) {
            return send_at_once(number, bytes);
        } else if (!bytes.empty()) {
            s.out = outputs_.take();
            s.out->begin(bytes);
            push(number);
        }
        bytes.clear();
        const std::size_t unsent = s.out ? s.out->unsent() : 0;
        return {unsent, s.out && s.out->waits() ? unsent : 0, 0};
    }

    void wait(int timeout_ms) override {
        if (!enabled_) {
            if (const int code = queue_.ring().enable(); code != 0) fail("io_uring cannot be enabled", code);
            enabled_ = true;
        }
        arm();
        offer();
        const int limit = !resumed_.empty() || queue_.size() != 0 ? 0 : listeners_.bounded(timeout_ms);
        const int code = queue_.ring().enter(limit == 0 ? 0 : 1, limit);
        if (undecided_ == 0) undecided_ = queue_.size();
        if (queue_.ring().overflown()) ++shortages_.completions;
        if (code != 0 && code != ETIME && code != EINTR && code != EBUSY && code != EAGAIN)
            fail("io_uring_enter (a loop is one thread's)", code);
        sink_.on_wake();
        listeners_.take_up();
        take_up_resumed();
        uring_completion one;
        for (int i = 0; i < turn_max && queue_.next(one); ++i) {
            if (undecided_ != 0) --undecided_;
            dispatch(one);
        }
        if (undecided_ == 0) report_waiting();
    }

    void finish() noexcept override {
        while (closing_ != 0) {
            queue_.absorb([this](const uring_completion& one) {
                if (!is_of_removed(one)) return false;
                dispatch(one);
                return true;
            });
        }
    }

 private:
    static constexpr std::uint16_t group = 0;
    static constexpr int turn_max = 1024;  // completions; the timers and the rest wait for no more
    static constexpr std::size_t send_bytes_max = 1U << 30U;
    static constexpr std::size_t at_once_bytes = 16U << 10U;  // (R8)
    static constexpr std::size_t much_bytes = 128U << 10U;
    static constexpr std::uint8_t much_after = 4;     // full buffers
    static constexpr std::uint8_t little_after = 16;  // receives that would not have filled one

    struct input {
        std::string bytes;
        bool ended = false;
    };
    struct slot {
        connection_token token;
        int fd = -1;  // or a place (R7)
        std::uint32_t use = 0;
        std::uint8_t under_way = 0;  // operations whose last completion has not come (R1)
        bool taken = false;          // the server knows it
        bool direct = false;         // (R7)
        bool multishot = false;      // (R6)
        bool much = false;           // (R8) to be read by calls
        std::uint8_t streak = 0;     // receives in a row that speak for the other way
        bool starved = false;        // (R10)
        bool receiving = false;
        bool polling = false;   // the receive under way only tells that there is something
        bool stopping = false;  // a cancel of the receive is under way
        bool paused = false;
        bool ended = false;                 // end of input has been reported
        bool broken = false;                // nothing more is to be reported (I1)
        bool awaits_break = false;          // (R9)
        bool failed = false;                // it has told of a break, which a receive was to meet
        std::unique_ptr<uring_output> out;  // iff a send is under way
        std::unique_ptr<input> held;        // came while paused
    };
    struct slot_number {
        std::uint32_t number = none;
    };
    struct slot_use {
        std::uint32_t number;
        std::uint32_t use;
    };

    [[noreturn]] static void fail(const char* what, int code) {
        throw error(errc::io, "server", std::string(what).append(": ").append(std::strerror(code)));
    }

    static bool is_unix(int fd) noexcept {
        int domain = 0;
        socklen_t size = sizeof domain;
        return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
    }

    std::uint32_t find(connection_token connection) const noexcept {
        if (connection.index >= slot_of_.size()) return none;
        const std::uint32_t number = slot_of_[connection.index].number;
        return number != none && slots_[number].token.generation == connection.generation ? number : none;
    }
    [[nodiscard]] bool lives(slot_use which) const noexcept {
        return slots_[which.number].use == which.use && slots_[which.number].taken;
    }

    // --- operations

    /// An operation on the slot's socket, to be filled in.
    io_uring_sqe& operate(std::uint8_t code, std::uint32_t number, uring_operation what) noexcept {
        slot& s = slots_[number];
        io_uring_sqe& e = queue_.entry(code, s.fd, {what, s.use, number});
        if (s.direct) e.flags = IOSQE_FIXED_FILE;
        ++s.under_way;
        return e;
    }

    void receive(std::uint32_t number) noexcept {
        slot& s = slots_[number];
        s.receiving = true;
        s.polling = s.much;
        if (s.polling) {
            operate(IORING_OP_POLL_ADD, number, uring_operation::receive).poll32_events = POLLIN | POLLRDHUP;
            return;
        }
        io_uring_sqe& e = operate(IORING_OP_RECV, number, uring_operation::receive);
        if (s.multishot && !s.starved) e.ioprio = IORING_RECV_MULTISHOT;
        e.flags |= IOSQE_BUFFER_SELECT;
        e.buf_group = group;
    }

    void stop_receive(std::uint32_t number) noexcept {
        slot& s = slots_[number];
        if (!s.receiving || s.stopping) return;
        s.stopping = true;
        ++s.under_way;
        queue_.cancel({uring_operation::receive, s.use, number}, uring_operation::stop_receive);
    }

    // (R9)
    void await_break(std::uint32_t number) noexcept {
        slots_[number].awaits_break = true;
        operate(IORING_OP_POLL_ADD, number, uring_operation::await_break).len = IORING_POLL_ADD_MULTI;
    }

    void stop_all(std::uint32_t number) noexcept {
        io_uring_sqe& e = operate(IORING_OP_ASYNC_CANCEL, number, uring_operation::stop_all);
        e.flags = 0;  // the socket is what it looks for, not what it works on
        e.cancel_flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL;
        if (slots_[number].direct) e.cancel_flags |= IORING_ASYNC_CANCEL_FD_FIXED;
    }

    // What closes the socket from now on resets the connection, or has done so.
    void dissolve(std::uint32_t number) noexcept {
        static const sockaddr nowhere{};  // AF_UNSPEC: connect(2) dissolves the association, with a reset
        const linger at_once{.l_onoff = 1, .l_linger = 0};
        if (!slots_[number].direct) {
            (void)::setsockopt(slots_[number].fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            return;
        }
        io_uring_sqe& e = operate(IORING_OP_CONNECT, number, uring_operation::aside);
        e.addr = reinterpret_cast<std::uint64_t>(&nowhere);
        e.off = sizeof nowhere;
    }

    void make_slots() {
        const std::size_t before = slots_.size(), after = before + place_table<slot>::step;
        if (free_slots_.capacity() < after) free_slots_.reserve(2 * after);  // so that giving one back cannot fail
        slots_.grow(after);
        for (std::size_t i = after; i > before; --i) free_slots_.push_back(static_cast<std::uint32_t>(i - 1));
    }

    void make_direct(slot& s) noexcept {
        if (!enabled_) return;
        const int place = files_.adopt(queue_.ring(), s.fd);
        if (place < 0) return;
        s.fd = place;
        s.direct = true;
    }

    // (R8)
    sent send_at_once(std::uint32_t number, std::string& bytes) {
        slot& s = slots_[number];
        const sent_now now = send_now(s.fd, bytes);
        const std::size_t unsent = bytes.size() - now.taken;
        s.broken = now.code != 0;
        if (!s.broken && unsent != 0) {
            std::string rest(bytes, now.taken);
            s.out = outputs_.take();
            s.out->begin(rest);
            s.out->wait();
            push(number);
        }
        bytes.clear();
        return {unsent, unsent, now.code};
    }

    void push(std::uint32_t number) {
        slot& s = slots_[number];
        s.out->offered = false;
        to_offer_.push_back({number, s.use});
        const std::string_view bytes = s.out->to_send().substr(0, send_bytes_max);
        io_uring_sqe& e = operate(IORING_OP_SEND, number, uring_operation::send);
        e.addr = reinterpret_cast<std::uint64_t>(bytes.data());
        e.len = static_cast<std::uint32_t>(bytes.size());
        e.msg_flags = MSG_NOSIGNAL;
    }

    // --- a turn

    void arm() {
        if (!std::exchange(wake_armed_, true)) queue_.poll(wake_->fd(), {uring_operation::wake, 0, 0});
        watches_.arm();
        listeners_.arm();
        // Those that found no buffer, and those that are new, in their order: the last turn has given some back.
        turn_.swap(to_receive_);
        for (const slot_use which : turn_) receive_again(which);
        turn_.clear();
    }

    // (I5) The kernel tries each send as it takes it; whose completion is not among those that are there then waits for
    // room.
    void offer() {
        if (undecided_ != 0) return;
        for (const slot_use which : to_offer_) {
            if (!lives(which) || !slots_[which.number].out) continue;
            uring_output& o = *slots_[which.number].out;
            if (!o.waits() && !std::exchange(o.offered, true)) offered_.push_back(which);
        }
        to_offer_.clear();
    }
    void report_waiting() {
        while (!offered_.empty()) {
            const slot_use which = offered_.back();
            offered_.pop_back();
            if (!lives(which)) continue;
            const slot& s = slots_[which.number];
            if (s.broken || !s.out || !s.out->offered || s.out->waits()) continue;
            s.out->wait();
            sink_.on_sent(s.token, s.out->unsent());
        }
    }

    void dispatch(const uring_completion& one) {
        const uring_subject about = uring_subject::of(one);
        switch (about.what) {
            case uring_operation::receive: return on_receive(about, one);
            case uring_operation::send: return on_send(about, one);
            case uring_operation::stop_receive:
            case uring_operation::stop_all: return on_stopped(about, one);
            case uring_operation::aside: return on_aside(about);
            case uring_operation::await_break: return on_break(about, one);
            case uring_operation::accept:
            case uring_operation::poll_accept:
            case uring_operation::stop_accept: return listeners_.on_completion(one);
            case uring_operation::watch: return watches_.on_completion(one);
            case uring_operation::wake: wake_armed_ = false; return wake_->clear();
            case uring_operation::stop_watch:
            case uring_operation::nothing: return;
        }
    }

    // Nobody is told of it.
    [[nodiscard]] bool is_of_removed(const uring_completion& one) const noexcept {
        const uring_subject about = uring_subject::of(one);
        switch (about.what) {
            case uring_operation::receive:
            case uring_operation::send:
            case uring_operation::stop_receive:
            case uring_operation::stop_all:
            case uring_operation::aside:
            case uring_operation::await_break:
                return !slots_[about.place].taken || !about.is_of(slots_[about.place].use);
            default: return false;
        }
    }

    // --- connections

    void on_receive(uring_subject about, const uring_completion& one) {
        const struct returning {
            uring_buffers& buffers;
            bool there;
            std::uint16_t number;
            ~returning() {
                if (there) buffers.give_back(number);
            }
        } buffer{*buffers_, (one.flags & IORING_CQE_F_BUFFER) != 0,
                 static_cast<std::uint16_t>(one.flags >> IORING_CQE_BUFFER_SHIFT)};
        if (!about.is_of(slots_[about.place].use)) return;
        slot& s = slots_[about.place];
        const slot_use which{about.place, s.use};
        const bool over = is_last(one);  // (R4)
        if (over) {
            s.receiving = s.stopping = false;
            --s.under_way;
        }
        if (!s.taken) return free(about.place);
        if (s.broken) return;
        if (s.polling) return on_readable(which, one.result);
        if (one.result > 0 && buffer.there) {
            const std::span<char> bytes = buffers_->of(buffer.number, static_cast<std::size_t>(one.result));
            if (bytes.size() < buffers_->buffer_bytes()) s.starved = false;
            look_for_much(s, about.place, bytes.size());
            report(s, bytes);
        } else if (one.result == 0) {
            return report_end(which);
        } else if (one.result == -ENOBUFS) {
            ++shortages_.buffers;
            s.starved = true;
            to_receive_.push_back(which);
            return;
        } else if (one.result != -ECANCELED && one.result != -EINTR) {
            return end(s, one.result < 0 ? -one.result : EIO);
        }
        if (over) receive_again(which);
    }

    void report(slot& s, std::span<char> bytes) {
        if (!s.paused && !s.held) return sink_.on_bytes(s.token, bytes);
        hold(s).bytes.append(bytes.data(), bytes.size());
        if (s.paused) sink_.on_held(s.token);
    }

    void report_end(slot_use which) {
        slot& s = slots_[which.number];
        if (s.paused || s.held)
            hold(s).ended = true;
        else
            end_input(which);
    }

    // (R8) After some full buffers in a row more is taken at a time; after some small receives it is as before.
    void look_for_much(slot& s, std::uint32_t number, std::size_t came) noexcept {
        const bool full = came >= buffers_->buffer_bytes();
        s.streak = full == s.much || s.direct ? std::uint8_t{0} : static_cast<std::uint8_t>(s.streak + 1);
        if (s.streak < (s.much ? little_after : much_after)) return;
        s.much = !s.much;
        s.streak = 0;
        if (s.much) stop_receive(number);
    }

    // Something is there, or the end, or a break.
    void on_readable(slot_use which, std::int32_t result) {
        slot& s = slots_[which.number];
        if (result >= 0 && !s.paused) {
            const ssize_t n = ::recv(s.fd, much_.get(), much_bytes, MSG_DONTWAIT);
            if (n == 0) return report_end(which);
            if (n < 0 && errno != EAGAIN && errno != EINTR) return end(s, errno);
            if (n > 0) {
                look_for_much(s, which.number, static_cast<std::size_t>(n));
                report(s, {much_.get(), static_cast<std::size_t>(n)});
            }
        } else if (result < 0 && result != -ECANCELED && result != -EINTR) {
            return end(s, -result);
        }
        receive_again(which);
    }

    static input& hold(slot& s) {
        if (!s.held) s.held = std::make_unique<input>();
        return *s.held;
    }

    void receive_again(slot_use which) noexcept {
        if (!lives(which)) return;
        const slot& s = slots_[which.number];
        if (!s.receiving && !s.paused && !s.held && !s.ended && !s.broken) receive(which.number);
    }

    void end(slot& s, int code) {
        s.ended = true;
        s.broken = code != 0;
        sink_.on_end(s.token, code);
    }

    // Most are removed within the report: only who stays is waited for (R9).
    void end_input(slot_use which) {
        slot& s = slots_[which.number];
        end(s, 0);
        if (!lives(which) || s.broken) return;
        if (s.failed) return end(s, ECONNRESET);  // nothing tells of it again
        if (!s.awaits_break) await_break(which.number);
    }

    void on_send(uring_subject about, const uring_completion& one) {
        if (!about.is_of(slots_[about.place].use)) return;
        slot& s = slots_[about.place];
        --s.under_way;
        if (!s.taken) return free(about.place);
        const bool again = one.result == -EINTR;
        if (s.broken || (one.result <= 0 && !again)) {
            outputs_.give_back(std::move(s.out));
            if (!s.broken) end(s, one.result < 0 ? -one.result : EPIPE);
            return;
        }
        if (again) return push(about.place);
        s.out->took(static_cast<std::size_t>(one.result));
        const std::size_t unsent = s.out->unsent();
        const bool tell = s.out->waits() || unsent == 0;  // else the rest is on its way, and the next turn tells
        if (unsent == 0)
            outputs_.give_back(std::move(s.out));
        else
            push(about.place);
        if (tell) sink_.on_sent(s.token, unsent);
    }

    // A cancel has ended. Where it found nothing, the operation had ended or ends by itself; one that goes on all the
    // same is cancelled again.
    void on_stopped(uring_subject about, const uring_completion& one) noexcept {
        if (!about.is_of(slots_[about.place].use)) return;
        slot& s = slots_[about.place];
        --s.under_way;
        if (!s.taken) {
            if (s.under_way != 0 && one.result < 0 && about.what == uring_operation::stop_all)
                return stop_all(about.place);
            return free(about.place);
        }
        if (one.result >= 0) return;
        s.stopping = false;
        if (s.paused || (s.much && !s.polling)) stop_receive(about.place);
    }

    void on_aside(uring_subject about) noexcept {
        slot& s = slots_[about.place];
        if (!about.is_of(s.use)) return;
        --s.under_way;
        if (!s.taken) free(about.place);
    }

    // (R9) Armed again where it has ended early (R4), unless both sides are shut: nothing breaks then.
    void on_break(uring_subject about, const uring_completion& one) {
        slot& s = slots_[about.place];
        if (!about.is_of(s.use)) return;
        const bool over = is_last(one);
        if (over) {
            s.awaits_break = false;
            --s.under_way;
        }
        if (!s.taken) return free(about.place);
        if (s.broken || one.result < 0) return;
        if ((one.result & POLLERR) != 0) {
            s.failed = true;
            if (s.paused || s.ended) end(s, ECONNRESET);
        } else if (over && (s.paused || s.ended) && (one.result & POLLHUP) == 0) {
            await_break(about.place);
        }
    }

    // (R1) Frees the slot of a removed connection once nothing of it is under way.
    void free(std::uint32_t number) noexcept {
        slot& s = slots_[number];
        if (s.under_way != 0) return;
        if (s.direct)
            files_.remove(queue_.ring(), s.fd);
        else
            ::close(s.fd);
        if (s.out) outputs_.give_back(std::move(s.out));
        s = slot{};
        s.use = next_use_++ & uring_subject::use_mask;
        free_slots_.push_back(number);
        --closing_;
    }

    void take_up_resumed() {
        turn_.swap(resumed_);
        for (const slot_use which : turn_)
            if (lives(which)) take_up(which);
        turn_.clear();
    }

    void take_up(slot_use which) {
        slot* s = &slots_[which.number];
        if (s->paused) {
            if (s->failed && !s->broken) end(*s, ECONNRESET);
            return;
        }
        if (const std::unique_ptr<input> held = std::move(s->held)) {
            if (!held->bytes.empty() && !s->broken) sink_.on_bytes(s->token, held->bytes);
            if (!lives(which)) return;
            s = &slots_[which.number];
            if (held->ended && s->paused) hold(*s).ended = true;
            if (held->ended && !s->paused && !s->broken) end_input(which);
        }
        receive_again(which);
    }

    engine_sink& sink_;
    const std::shared_ptr<const wake_event> wake_ = std::make_shared<wake_event>();
    std::optional<uring_buffers> buffers_;
    const std::unique_ptr<char[]> much_ = std::make_unique_for_overwrite<char[]>(much_bytes);  // (R8)
    place_table<slot> slots_;  // their sends point into memory of `out`
    uring_queue queue_;        // its ring is closed before what it points to
    uring_listeners listeners_;
    uring_watches watches_;
    uring_files files_;
    uring_outputs outputs_;
    place_table<slot_number> slot_of_;  // by connection index
    std::vector<std::uint32_t> free_slots_;
    std::vector<slot_use> resumed_;     // to be told of what was held, and armed, in the next turn
    std::vector<slot_use> to_receive_;  // found no buffer, or are new
    std::vector<slot_use> to_offer_;    // a send of theirs goes to the kernel with the next turn
    std::vector<slot_use> offered_;     // one went, and has not been seen to end
    std::vector<slot_use> turn_;
    engine_shortages shortages_;
    std::size_t undecided_ = 0;  // completions that were there when offered_ had been offered, and are to be looked at
    std::size_t closing_ = 0;    // removed, and not closed
    std::uint32_t next_use_ = 1;
    bool enabled_ = false;
    bool wake_armed_ = false;
};

}  // namespace

std::string io_uring_lack() {
    try {
        check_multishot({});  // of the size that an engine has: memory that may be locked can suffice for less
        return {};
    } catch (const std::exception& e) {
        return e.what();
    }
}

std::string direct_lack() {
    try {
        check_direct();
        return {};
    } catch (const std::exception& e) {
        return e.what();
    }
}

std::unique_ptr<engine> make_uring_engine(engine_sink& sink, const uring_sizes& sizes) {
    check_multishot({.submissions = 4, .completions = 8, .buffers = 2, .buffer_bytes = 64});
    return std::make_unique<uring_engine>(sink, sizes);
}

}  // namespace holdfast::net
