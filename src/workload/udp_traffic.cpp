// SPDX-License-Identifier: Apache-2.0
#include "workload/udp_traffic.hpp"

#include <linux/sock_diag.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

#include "holdfast/memory/descriptor.hpp"
#include "holdfast/net/listener.hpp"
#include "holdfast/net/udp_receiver.hpp"
#include "holdfast/net/udp_sender.hpp"
#include "holdfast/perf_test/environment.hpp"

namespace holdfast::workload {

namespace {

using number_type = std::uint32_t;
constexpr std::chrono::milliseconds silence{20};  // after which nothing is under way any more
constexpr std::chrono::seconds longest_wait{10};
constexpr std::uint64_t send_order = far_side::own_orders, stop_order = send_order + 1;

[[noreturn]] void fail(int code, const char* what) { throw std::system_error(code, std::generic_category(), what); }

void within(const veth_pair* cable, std::size_t end, const std::function<void()>& act) {
    if (cable == nullptr) return act();
    cable->within(end, act);
}

[[nodiscard]] std::uint32_t drops_of(int socket) {
    std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
    socklen_t size = sizeof memory;
    if (::getsockopt(socket, SOL_SOCKET, SO_MEMINFO, memory.data(), &size) != 0) fail(errno, "getsockopt(SO_MEMINFO)");
    return memory[SK_MEMINFO_DROPS];
}

/// What a sender's process does: datagrams of one size, numbered from 0, until it is told to stop.
class source {
 public:
    source(const std::string& to, const udp_way& way, const udp_course& course)
        : sending_(way.sending), bytes_(course.datagram_bytes) {
        segments_ = std::clamp<std::size_t>(net::udp_sender::datagram_bytes_max / bytes_, 1,
                                            net::udp_sender::train_segments_max);
        buffer_.assign(segments_ * bytes_, 'x');
        for (std::size_t i = 0; i < course.flows; ++i) {
            sockets_.emplace_back(net::connect_udp(to));
            senders_.emplace_back(sockets_.back().get());
        }
    }

    void run(far_side& me) {
        number_type number = 0;
        for (std::size_t flow = 0; !me.interrupted(); flow = (flow + 1) % sockets_.size())
            number += sending_ == udp_sending::by_train ? train(flow, number) : one(flow, number);
        me.progress().store(number);
    }

 private:
    [[nodiscard]] number_type one(std::size_t flow, number_type number) {
        std::memcpy(buffer_.data(), &number, sizeof number);
        if (::sendto(sockets_[flow].get(), buffer_.data(), bytes_, 0, nullptr, 0) >= 0) return 1;
        return refused(errno);
    }
    [[nodiscard]] number_type train(std::size_t flow, number_type number) {
        for (std::size_t i = 0; i < segments_; ++i, ++number)
            std::memcpy(buffer_.data() + i * bytes_, &number, sizeof number);
        const net::udp_sent sent = senders_[flow].send_train({buffer_.data(), buffer_.size()}, bytes_);
        return static_cast<number_type>(sent.datagrams) + refused(sent.error);
    }
    /// Returns: 0 for what passes.
    static number_type refused(int code) {
        if (code != 0 && code != EINTR && code != ENOBUFS) fail(code, "sending a datagram");
        return 0;
    }

    udp_sending sending_;
    std::size_t bytes_, segments_ = 1;
    std::vector<char> buffer_;
    std::vector<memory::descriptor> sockets_;
    std::vector<net::udp_sender> senders_;
};

enum class phase : std::uint8_t { running, draining, abandoned };

constexpr net::udp_receiver_options ring_options{.carrier = net::udp_carrier::io_uring};

}  // namespace

/// One receiving thread of a turn.
struct udp_traffic::receiver {
    receiver(int fd, const udp_way& way, const udp_course& course, unsigned runs_on)
        : cpu(runs_on), bytes(course.datagram_bytes), is_numbered(course.flows == 1 && course.sender_cpus.size() == 1) {
        if (way.receiving == udp_receiving::by_train) {
            trains.emplace(fd);
            return;
        }
        plain = memory::descriptor(fd);
        if (way.receiving == udp_receiving::by_ring) {  // a ring is one thread's, and each turn has its own
            by_ring = true;
            return;
        }
        buffer.resize(65'536);
        const timeval until{.tv_sec = 0, .tv_usec = std::chrono::microseconds(silence).count()};
        if (::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &until, sizeof until) != 0) fail(errno, "setsockopt");
    }

    [[nodiscard]] int socket() const noexcept { return plain ? plain.get() : trains->socket(); }

    void start() {
        now.store(phase::running);
        taken.store(0);
        number = -1;
        drops_before = drops_of(socket());
        thread = std::thread([this] {
            try {
                const perf_test::cpu_pin pin(cpu);
                if (by_ring) trains.emplace(::dup(plain.get()), ring_options);
                trains ? serve([this] { return take_trains(); }) : serve([this] { return take_one(); });
                if (by_ring) trains.reset();
            } catch (...) {
                failure = std::current_exception();
            }
        });
    }

    void end(phase how) {
        if (!thread.joinable()) return;
        now.store(how);
        thread.join();
    }

    template <class Take>
    void serve(Take&& take) {
        std::uint64_t count = 0;
        // Relaxed: `now` guards nothing, and `taken` is a number for the other side to read now and then.
        for (phase at = phase::running; at != phase::abandoned; at = now.load(std::memory_order_relaxed)) {
            const std::size_t came = take();
            count += came;
            taken.store(count, std::memory_order_relaxed);
            if (came == 0 && at == phase::draining) return;
        }
    }

    [[nodiscard]] std::size_t take_one() {
        net::udp_address from;
        socklen_t size = net::udp_address::size_max;
        const ssize_t came = ::recvfrom(plain.get(), buffer.data(), buffer.size(), 0, from.data(), &size);
        if (came < 0) {
            if (errno != EAGAIN && errno != EINTR) fail(errno, "recvfrom");
            return 0;
        }
        look_at({buffer.data(), static_cast<std::size_t>(came)});
        return 1;
    }

    [[nodiscard]] std::size_t take_trains() {
        const net::udp_arrivals arrivals = trains->wait_receive(silence);
        if (arrivals.error != 0) fail(arrivals.error, "receiving trains");
        std::size_t count = 0;
        for (const net::datagram_train& train : arrivals.trains) {
            for (std::size_t i = 0; i < train.count; ++i) look_at(train[i]);
            count += train.count;
        }
        return count;
    }

    void look_at(std::string_view datagram) {
        number_type its = 0;
        if (datagram.size() != bytes)
            throw std::runtime_error("a datagram came with another size than it was sent with");
        std::memcpy(&its, datagram.data(), sizeof its);
        if (is_numbered && std::int64_t{its} <= number)
            throw std::runtime_error("datagram " + std::to_string(its) + " came after number " +
                                     std::to_string(number));
        number = its;
    }

    [[nodiscard]] double cpu_ns() {
        clockid_t clock{};
        timespec time{};
        if (::pthread_getcpuclockid(thread.native_handle(), &clock) != 0 || ::clock_gettime(clock, &time) != 0)
            return 0;
        return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
    }

    unsigned cpu;
    std::size_t bytes;
    bool is_numbered;
    bool by_ring = false;
    std::optional<net::udp_receiver> trains;  // by a ring: while its thread runs, and of that alone
    memory::descriptor plain;                 // without trains, and by a ring
    std::vector<char> buffer;
    std::int64_t number = -1;  // the last one seen
    std::uint32_t drops_before = 0;
    std::exception_ptr failure;
    std::thread thread;
    alignas(128) std::atomic<std::uint64_t> taken{0};
    alignas(128) std::atomic<phase> now{phase::running};
};

udp_traffic::udp_traffic(const udp_way& way, const udp_course& course) : way_(way), course_(course) {
    std::string to;
    within(course.cable, 0, [&] {
        const std::string any = (course.cable != nullptr ? std::string(veth_pair::addresses[0]) : "127.0.0.1") + ":0";
        const net::udp_bind_options room{.receive_buffer_bytes = course.buffer_bytes};
        const std::vector<int> sockets = course.cpus.size() == 1
                                             ? std::vector<int>{net::bind_udp(any, room)}
                                             : net::bind_udp_group(any, course.cpus.size(), way.spread, room);
        for (std::size_t i = 0; i < sockets.size(); ++i)
            receivers_.push_back(std::make_unique<receiver>(sockets[i], way, course, course.cpus[i]));
        to = any.substr(0, any.size() - 1) + std::to_string(net::bound_port(sockets[0]));
        buffer_bytes_ = net::receive_buffer_bytes(sockets[0]);
    });
    for (const unsigned cpu : course.sender_cpus)
        within(course.cable, 1, [&] {
            const auto from = std::make_shared<source>(to, way, course);
            senders_.push_back(
                std::make_unique<far_side>(far_place::process, cpu, [from](far_side& me, const far_order& order) {
                    if (order.what == send_order) from->run(me);
                }));
        });
}

udp_traffic::~udp_traffic() {
    for (const auto& each : receivers_) each->end(phase::abandoned);
}

udp_turn udp_traffic::run(std::chrono::nanoseconds duration) {
    using clock = std::chrono::steady_clock;
    struct sight {
        clock::time_point at = clock::now();
        std::uint64_t taken = 0;
        double cpu_ns = 0;
    };
    const auto look = [this] {
        sight s;
        for (const auto& each : receivers_) {
            s.taken += each->taken.load(std::memory_order_relaxed);  // relaxed: as in serve()
            s.cpu_ns += each->cpu_ns();
        }
        return s;
    };
    for (const auto& each : receivers_) each->start();
    for (const auto& each : senders_) each->begin({send_order, 0});
    const auto watched = [&](const sight& since, std::chrono::nanoseconds step) {
        for (const auto until = clock::now() + longest_wait;;) {
            std::this_thread::sleep_for(step);
            const sight now = look();
            if (now.taken > since.taken && now.cpu_ns > since.cpu_ns) return now;
            for (const auto& each : senders_) each->require_other();
            if (clock::now() > until) throw std::runtime_error("no datagram came for ten seconds");
        }
    };
    const sight first = watched(watched({}, std::chrono::milliseconds(1)), duration / 10);
    const sight last = watched(first, duration);

    udp_turn turn;
    for (const auto& each : senders_) {
        each->carry_out({stop_order, 0});
        turn.sent += each->progress().load();
        each->rest();
    }
    for (const auto& each : receivers_) each->end(phase::draining);
    for (const auto& each : receivers_) {
        if (each->failure) std::rethrow_exception(each->failure);
        turn.received += each->taken.load();
        turn.dropped += drops_of(each->socket()) - each->drops_before;
    }
    if (turn.received > turn.sent) throw std::runtime_error("more datagrams came than were sent");
    const auto count = static_cast<double>(last.taken - first.taken);
    turn.rate_hz = count / std::chrono::duration<double>(last.at - first.at).count();
    turn.receiver_cpu_ns = (last.cpu_ns - first.cpu_ns) / count;
    return turn;
}

}  // namespace holdfast::workload
