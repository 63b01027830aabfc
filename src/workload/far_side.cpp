// SPDX-License-Identifier: Apache-2.0
#include "workload/far_side.hpp"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "holdfast/memory/futex.hpp"
#include "holdfast/perf_test/environment.hpp"
#include "workload/processors.hpp"

namespace holdfast::workload {

namespace {

enum order : std::uint64_t { stop, sleep, probe, probe_two };

constexpr std::uint64_t longest_wait_ns = 60'000'000'000;

/// Kills it; its number is free afterwards.
void end_process(pid_t child, const memory::descriptor& handle) noexcept {
    // Without a handle it was born just now, and nobody can have its number before it is reaped here.
    if (handle)
        ::syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0);
    else
        ::kill(child, SIGKILL);
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

[[nodiscard]] std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace

// All orders and answers go through release stores and acquire loads of numbers that only one side stores; what is said
// beside a number is plain and belongs to it. Weaker orders would show a number before what it is about.
struct far_side::board {
    alignas(128) std::atomic<std::uint64_t> given{0};  // near: number of the newest order
    far_order order{};
    alignas(128) std::atomic<std::uint64_t> done{0};  // far: number of the last order carried out
    std::atomic<std::uint64_t> taken{0};              // far: number of the last order copied from here
    std::uint64_t switches = 0;
    bool failed = false;
    std::array<char, 400> complaint{};
    alignas(128) std::atomic<std::uint32_t> asleep{0};     // far: 1 while it sleeps or is about to
    std::atomic<std::uint32_t> bell{0};                    // near: counted up to wake it
    alignas(128) std::atomic<std::uint64_t> line{0};       // both, in turn; of two, the near side's
    alignas(128) std::atomic<std::uint64_t> line_back{0};  // the far side's
    alignas(128) std::atomic<std::uint64_t> progress{0};
};

far_side::far_side(far_place place, unsigned cpu, job carry_out)
    : pages_(8192), place_(place), cpu_(cpu), job_(std::move(carry_out)) {
    static_assert(sizeof(board) <= 8192);
    ::new (pages_.bytes().data()) board;
    if (place_ == far_place::thread) {
        thread_ = std::thread([this] { serve(); });
        return;
    }
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ < 0) throw std::system_error(errno, std::generic_category(), "forking the other side");
    if (child_ != 0) {
        child_handle_ = memory::descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child_, 0)));
        if (child_handle_) return;
        const int why = errno;
        end_process(child_, child_handle_);
        throw std::system_error(why, std::generic_category(), "pidfd_open (kernels before 5.3 lack it)");
    }
    is_far_process_ = true;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing of a bench outlives it
    if (::getppid() == parent) serve();
    ::_exit(0);
}

far_side::~far_side() {
    if (is_far_process_) return;
    if (thread_.joinable()) {
        begin({stop, 0});
        thread_.join();
        return;
    }
    end_process(child_, child_handle_);
}

far_side::board& far_side::on() const noexcept { return *reinterpret_cast<board*>(pages_.bytes().data()); }

void far_side::begin(const far_order& order) {
    board& b = on();
    // Acquire, pairs with the store in serve(): the order before, if it is to be interrupted, has been copied.
    for (patience wait(*this); b.taken.load(std::memory_order_acquire) != given_;) wait();
    b.order = order;
    // Sequentially consistent, as the far side's asleep: either it sees the order or we see it asleep.
    b.given.store(++given_);
    if (b.asleep.load() == 0) return;
    b.bell.fetch_add(1);
    memory::futex_wake(b.bell, 1);
}

void far_side::finish() {
    board& b = on();
    patience wait(*this);
    while (b.done.load(std::memory_order_acquire) != given_) wait();  // pairs with the release in serve()
    require_other();
}

void far_side::rest() { carry_out({sleep, 0}); }

double far_side::round_trip(std::uint64_t trips, bool two_lines) {
    board& b = on();
    std::atomic<std::uint64_t>& answer = two_lines ? b.line_back : b.line;
    b.line.store(0, std::memory_order_relaxed);       // relaxed: published by the order
    b.line_back.store(0, std::memory_order_relaxed);  // likewise
    begin({two_lines ? probe_two : probe, trips});
    patience wait(*this);
    std::chrono::steady_clock::time_point start{};
    for (std::uint64_t i = 1; i <= 2 * trips; i += 2) {
        if (i == 3) start = std::chrono::steady_clock::now();  // the first one waits for the order to arrive
        // Release and acquire, as a message would: the other side's next store comes behind ours.
        b.line.store(i, std::memory_order_release);
        while (answer.load(std::memory_order_acquire) != i + 1) wait();  // pairs with the store in echo_line()
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    finish();
    return took.count() / static_cast<double>(trips - 1);
}

std::uint64_t far_side::involuntary_switches() const noexcept { return on().switches; }

std::atomic<std::uint64_t>& far_side::progress() noexcept { return on().progress; }

bool far_side::interrupted() const noexcept {
    // Relaxed both: the order itself is read where it is taken up; at_ is of this thread.
    return on().given.load(std::memory_order_relaxed) != at_.load(std::memory_order_relaxed);
}

void far_side::require_other() const {
    const bool far = is_far_process_ || (thread_.joinable() && thread_.get_id() == std::this_thread::get_id());
    if (far) {
        if (interrupted()) throw std::runtime_error("the near side has given up");
        return;
    }
    const board& b = on();
    // Acquire, pairs with the release in serve(): the complaint belongs to this number.
    if (b.done.load(std::memory_order_acquire) == given_ && b.failed)
        throw std::runtime_error(std::string(b.complaint.data()));
    struct pollfd child{child_handle_.get(), POLLIN, 0};
    if (child_handle_ && ::poll(&child, 1, 0) > 0) throw std::runtime_error("the process of the other side has died");
}

void far_side::serve() {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu_, &only);
    (void)::sched_setaffinity(0, sizeof only, &only);
    board& b = on();
    bool resting = true;
    for (std::uint64_t seen = 0;;) {
        std::uint64_t given = 0;
        while ((given = b.given.load(std::memory_order_acquire)) == seen) {  // pairs with the store in begin()
            if (!resting) continue;
            const std::uint32_t bell = b.bell.load();
            b.asleep.store(1);
            if (b.given.load() == seen) memory::futex_wait(b.bell, bell, 1'000'000'000);
            b.asleep.store(0);
        }
        seen = given;
        at_.store(given, std::memory_order_relaxed);  // relaxed: of this thread
        const far_order order = b.order;
        b.taken.store(given, std::memory_order_release);  // pairs with the load in begin()
        resting = order.what == sleep;
        carry_out_here(order);
        struct rusage use{};
        if (::getrusage(RUSAGE_THREAD, &use) == 0) b.switches = static_cast<std::uint64_t>(use.ru_nivcsw);
        // Release, pairs with finish(): what the job did and said comes before.
        b.done.store(given, std::memory_order_release);
        if (order.what == stop) return;
    }
}

void far_side::carry_out_here(const far_order& order) noexcept {
    board& b = on();
    b.failed = false;
    try {
        if (order.what == probe || order.what == probe_two) return echo_line(order.count, order.what == probe_two);
        if (order.what >= own_orders) job_(*this, order);
    } catch (const std::exception& failure) {
        b.failed = true;
        std::strncpy(b.complaint.data(), failure.what(), b.complaint.size() - 1);
    }
}

void far_side::echo_line(std::uint64_t trips, bool two_lines) {
    board& b = on();
    std::atomic<std::uint64_t>& answer = two_lines ? b.line_back : b.line;
    patience wait(*this);
    for (std::uint64_t i = 1; i <= 2 * trips; i += 2) {
        while (b.line.load(std::memory_order_acquire) != i) wait();  // pairs with the store in round_trip()
        answer.store(i + 1, std::memory_order_release);              // likewise
    }
}

void patience::rest() {
#if defined(__x86_64__)
    for (int i = 0; i < 16; ++i) __builtin_ia32_pause();
#endif
    (*this)();
}

void patience::ask() {
    between_->require_other();
    const std::uint64_t now = now_ns();
    if (until_ns_ == 0) until_ns_ = now + longest_wait_ns;
    if (now > until_ns_) throw std::runtime_error("nothing came from the other side for a minute");
}

two_cores pick_two_cores() {
    const std::vector<unsigned> usable = perf_test::usable_cpus();
    if (usable.size() < 2) return {};
    const std::vector<unsigned> siblings = core_siblings(usable.front());
    for (const unsigned cpu : usable)
        if (cpu != usable.front() && std::ranges::find(siblings, cpu) == siblings.end())
            return {usable.front(), cpu, true};
    return {usable.front(), usable[1], true};
}

}  // namespace holdfast::workload
