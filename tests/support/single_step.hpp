// SPDX-License-Identifier: Apache-2.0
// single_step.hpp - runs an operation one machine instruction at a time and shows every state that a death could leave.
//
// A SIGKILL between two instructions leaves in plain shared memory exactly the stores retired so far. So the image
// after each instruction of one run is the set of everything that a kill at any instruction of that run could leave
// behind, found with O(n) work instead of O(n^2) (design 4.2). What lives in the kernel (locks, names, half-made files)
// is covered by kill_at_every_system_call() and by the kill rig.
//
//   shared_image      pages that the tracer and the traced child both map (MAP_SHARED, inherited by fork)
//   step_through      the bare stepper: calls on_stop() after every instruction between the two markers
//   single_step       compares the image after every instruction; each *changed* image is copied and handed to check()
//   kill_at_every_image         once more for each distinct image: a fresh child, really killed with that image there
//   kill_at_every_system_call   stops before and after each system call of an operation and really kills there
//
// Markers: the child stores phase 1 right before and phase 2 right after the operation into a page that both map, so
// the tracer tells the operation's instructions from the harness's without a system call. Tracer and child are pinned
// to one core: each step is two switches, 18 us instead of 67 us apart.
// The child has the release binary's own instructions, no instrumentation. Requires Linux with ptrace.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/told_numbers.hpp"

namespace holdfast::test {

/// Page-aligned, zeroed bytes that a forked child shares with its parent.
class shared_image {
 public:
    explicit shared_image(std::size_t bytes) : size_(bytes) {
        void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
        data_ = static_cast<std::byte*>(at);
    }
    shared_image(const shared_image&) = delete;
    shared_image& operator=(const shared_image&) = delete;
    ~shared_image() { ::munmap(data_, size_); }

    [[nodiscard]] std::span<std::byte> bytes() noexcept { return {data_, size_}; }
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// Requires: as many bytes as this image has.
    void assign(std::span<const std::byte> from) noexcept { std::memcpy(data_, from.data(), size_); }

 private:
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

/// Keeps the calling thread, and every child forked meanwhile, on the core it runs on.
class one_core {
 public:
    one_core() {
        known_ = ::sched_getaffinity(0, sizeof former_, &former_) == 0;
        const int core = ::sched_getcpu();
        if (!known_ || core < 0) return;
        cpu_set_t here;
        CPU_ZERO(&here);
        CPU_SET(static_cast<std::size_t>(core), &here);
        ::sched_setaffinity(0, sizeof here, &here);
    }
    one_core(const one_core&) = delete;
    one_core& operator=(const one_core&) = delete;
    ~one_core() {
        if (known_) ::sched_setaffinity(0, sizeof former_, &former_);
    }

 private:
    cpu_set_t former_{};
    bool known_ = false;
};

/// What a stepped run amounted to. An empty failure means that it ran to its end and every check passed.
struct step_report {
    std::uint64_t steps = 0;   // instructions of the operation
    std::uint64_t images = 0;  // distinct consecutive images, the one before the operation included
    double seconds = 0;
    std::string failure;

    [[nodiscard]] bool passed() const noexcept { return failure.empty(); }
    step_report& operator+=(const step_report& other) {
        steps += other.steps;
        images += other.images;
        seconds += other.seconds;
        if (failure.empty()) failure = other.failure;
        return *this;
    }
};

namespace rig {

enum class step_phase : std::uint32_t { before, inside, after, threw };

struct step_control {
    std::atomic<step_phase> phase{step_phase::before};
    int result = 0;       // what the operation returned, where it returns an int
    char what[512] = {};  // of the exception that left the operation
};
static_assert(std::atomic<step_phase>::is_always_lock_free);

// A child stopped before its first marker, traced by this process. Where operate() returns something to call, that is
// the operation, and operate() itself is what goes before it, untraced: to attach, say.
class traced_child {
 public:
    template <class Operate>
    traced_child(shared_image& control_page, Operate&& operate)
        : control_(new(control_page.bytes().data()) step_control) {
        pid_ = ::fork();
        if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
        if (pid_ == 0) run(std::forward<Operate>(operate));
        const bool waited = wait();
        if (phase() == step_phase::threw) throw std::runtime_error(std::string("before the operation: ") + what());
        if (!waited || !WIFSTOPPED(status_) ||
            ::ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD) != 0)
            throw std::system_error(EPERM, std::generic_category(), "ptrace");
    }
    traced_child(const traced_child&) = delete;
    traced_child& operator=(const traced_child&) = delete;
    ~traced_child() { kill(); }

    [[nodiscard]] step_phase phase() const noexcept {
        // Acquire, pairs with the child's stores: what it wrote before the marker is seen with it.
        return control_->phase.load(std::memory_order_acquire);
    }
    [[nodiscard]] const char* what() const noexcept { return control_->what; }
    [[nodiscard]] int result() const noexcept { return control_->result; }
    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    [[nodiscard]] int status() const noexcept { return status_; }
    [[nodiscard]] bool alive() const noexcept { return alive_; }

    /// Lets the child go on to the next stop of the kind asked for. Returns: false when it ended instead.
    template <class Request>
    bool resume(Request request) {
        // A stop for a signal other than our own traps is passed on, so that the operation behaves as untraced.
        const int pending = WIFSTOPPED(status_) && (WSTOPSIG(status_) & 0x7F) != SIGTRAP && WSTOPSIG(status_) != SIGSTOP
                                ? WSTOPSIG(status_)
                                : 0;
        if (::ptrace(request, pid_, nullptr, static_cast<long>(pending)) != 0) return false;
        return wait() && WIFSTOPPED(status_);
    }
    void kill() noexcept {
        if (!alive_) return;
        ::kill(pid_, SIGKILL);
        while (wait() && alive_) {
        }
    }

 private:
    bool wait() noexcept {
        pid_t got;
        while ((got = ::waitpid(pid_, &status_, __WALL)) < 0 && errno == EINTR) {
        }
        if (got != pid_ || WIFEXITED(status_) || WIFSIGNALED(status_)) alive_ = false;
        return got == pid_;
    }

    template <class Operate>
    [[noreturn]] void run(Operate&& operate) {
        if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
        try {
            if constexpr (std::is_invocable_v<std::invoke_result_t<Operate>>)
                between_markers(std::forward<Operate>(operate)());
            else
                between_markers(std::forward<Operate>(operate));
        } catch (const std::exception& e) {
            std::strncpy(control_->what, e.what(), sizeof control_->what - 1);
            control_->phase.store(step_phase::threw, std::memory_order_seq_cst);
        }
        ::_exit(0);
    }
    template <class Operation>
    void between_markers(Operation&& operation) {
        ::raise(SIGSTOP);
        // Sequentially consistent marker stores: neither compiler nor processor moves the operation across them.
        control_->phase.store(step_phase::inside, std::memory_order_seq_cst);
        if constexpr (std::is_same_v<std::invoke_result_t<Operation>, int>)
            control_->result = std::forward<Operation>(operation)();
        else
            std::forward<Operation>(operation)();
        control_->phase.store(step_phase::after, std::memory_order_seq_cst);
        ::_exit(0);  // before anything that the operation stands on lets go
    }

    step_control* control_;
    pid_t pid_ = -1;
    int status_ = 0;
    bool alive_ = true;
};

#if defined(__x86_64__)
inline constexpr long at_rip = offsetof(struct user, regs) + offsetof(struct user_regs_struct, rip);
/// Where the instruction lies that a stopped child executes next.
[[nodiscard]] inline std::uint64_t next_instruction(pid_t child) {
    return static_cast<std::uint64_t>(::ptrace(PTRACE_PEEKUSER, child, at_rip, nullptr));
}
/// Its first eight bytes, lowest first.
[[nodiscard]] inline std::uint64_t next_code(pid_t child) {
    return static_cast<std::uint64_t>(::ptrace(PTRACE_PEEKTEXT, child, next_instruction(child), nullptr));
}
#endif

inline std::string ending_text(const traced_child& child, std::uint64_t steps) {
    if (child.phase() == step_phase::threw) return std::string("the operation threw: ") + child.what();
    if (child.phase() == step_phase::after) return {};
    const int status = child.status();
    return "the operation ended the process at step " + std::to_string(steps) +
           (WIFSIGNALED(status) ? " by signal " + std::to_string(WTERMSIG(status)) : std::string());
}

}  // namespace rig

/// Runs operate() in a child, one instruction at a time; on_stop(steps) follows each and returns a failure text or
/// nothing (an empty string). before(pid) comes before each. The child stays stopped while either runs; a failure ends
/// it.
template <class Operate, class OnStop, class Before>
[[nodiscard]] step_report step_through(Operate&& operate, OnStop&& on_stop, Before&& before) {
    const auto start = std::chrono::steady_clock::now();
    const one_core pinned;
    shared_image control(4096);
    rig::traced_child child(control, std::forward<Operate>(operate));
    step_report report;
    while (child.phase() <= rig::step_phase::inside && report.failure.empty()) {
        if (child.phase() == rig::step_phase::inside) before(child.pid());
        if (!child.resume(PTRACE_SINGLESTEP)) break;
        if (child.phase() != rig::step_phase::inside) continue;
        ++report.steps;
        report.failure = on_stop(report.steps);
    }
    if (report.failure.empty()) report.failure = rig::ending_text(child, report.steps);
    child.kill();
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
}
template <class Operate, class OnStop>
[[nodiscard]] step_report step_through(Operate&& operate, OnStop&& on_stop) {
    return step_through(std::forward<Operate>(operate), std::forward<OnStop>(on_stop), [](pid_t) {});
}

/// Steps operate() over `image` and hands a copy of every changed image to check(copy), the first (unchanged) and the
/// last included. The copy is page-aligned and check may write to it (attach, recover, go on with it); it returns a
/// failure text, empty when all is well.
///
/// The copy is the same memory each time, so that check may keep a core attached to it.
template <class Operate, class Check>
[[nodiscard]] step_report single_step(shared_image& image, Operate&& operate, Check&& check) {
    shared_image last(image.size()), copy(image.size());
    last.assign(image.bytes());
    std::uint64_t images = 0;
    const auto look = [&](std::uint64_t step) -> std::string {
        ++images;
        copy.assign(last.bytes());
        std::string failure;
        try {
            failure = check(copy.bytes());
        } catch (const std::exception& e) {
            failure = std::string("the check threw: ") + e.what();
        }
        if (failure.empty()) return failure;
        return "image " + std::to_string(images) + ", after instruction " + std::to_string(step) + ": " + failure;
    };
    std::string first = look(0);
    if (!first.empty()) return {.steps = 0, .images = images, .seconds = 0, .failure = std::move(first)};
    step_report report = step_through(std::forward<Operate>(operate), [&](std::uint64_t step) -> std::string {
        if (std::memcmp(last.bytes().data(), image.bytes().data(), image.size()) == 0) return {};
        last.assign(image.bytes());
        return look(step);
    });
    report.images = images;
    return report;
}

/// How the children come to the image that they die with: stepped, or run to the store that makes it, which is then
/// stepped. The first child, from which the images are learned, is stepped in any case. A run costs some milliseconds.
enum class on_the_way : std::uint8_t { stepped, runs };

/// What a run of kills at images amounted to.
struct image_kill_report {
    std::uint64_t images = 0;  // distinct consecutive images of the operation, the one before it included
    std::uint64_t kills = 0;   // of children that had one of them before them
    std::uint64_t steps = 0;   // instructions of all these children
    double seconds = 0;
    std::string failure;

    [[nodiscard]] bool passed() const noexcept { return failure.empty() && kills == images && kills > 0; }
};

namespace rig {

/// The instruction that makes an image, and for the how-manieth time it comes by then; 0: not known.
struct place_of_change {
    std::uint64_t address = 0, times = 0;
};

// A fresh child that is stepped from one distinct image to the next.
template <class Start, class Shared>
class image_walk {
 public:
    /// Runs until just before `to`, where that is known.
    image_walk(Start& start, Shared& shared, const place_of_change& to = {})
        : shared_(shared), child_(control_, start), image_(shared()) {
        if (to.times == 0) return;
        run_to(to);
        (void)(touched() && renew());
    }

    /// Steps on until the bytes differ. False when the operation has ended before.
    bool next() {
        while (child_.phase() <= step_phase::inside && child_.resume(PTRACE_SINGLESTEP))
            if (has_changed()) return true;
        return false;
    }
    /// The same, each time from the first image on; says where that was.
    bool next(place_of_change& found) {
        while (child_.phase() <= step_phase::inside) {
            const std::uint64_t address = instruction();
            ++times_[address];
            if (!child_.resume(PTRACE_SINGLESTEP)) return false;
            if (!has_changed()) continue;
            found = {address, times_[address]};
            return true;
        }
        return false;
    }
    [[nodiscard]] const std::vector<std::byte>& image() const noexcept { return image_; }
    [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
    [[nodiscard]] std::string ending() const { return ending_text(child_, steps_); }
    /// False when the child did not die of it.
    bool kill() {
        child_.kill();
        return WIFSIGNALED(child_.status()) && WTERMSIG(child_.status()) == SIGKILL;
    }

 private:
    bool has_changed() {
        if (child_.phase() != step_phase::inside) return false;
        ++steps_;
        return touched() && renew();
    }
    [[nodiscard]] bool touched() {
        if constexpr (requires { shared_.touched(); })
            return shared_.touched();
        else
            return true;
    }
    bool renew() {
        std::vector<std::byte> now = shared_();
        if (now == image_) return false;
        image_ = std::move(now);
        return true;
    }
#if defined(__x86_64__)
    [[nodiscard]] std::uint64_t instruction() const { return next_instruction(child_.pid()); }
    // By a breakpoint in the child's own copy of the code. Whoever does not come by there is run to its end.
    void run_to(const place_of_change& to) {
        const long word = ::ptrace(PTRACE_PEEKTEXT, child_.pid(), to.address, nullptr);
        const long trap = (word & ~0xFFL) | 0xCC;
        for (std::uint64_t i = 0; i < to.times; ++i) {
            if (i != 0 && !child_.resume(PTRACE_SINGLESTEP)) return;
            (void)::ptrace(PTRACE_POKETEXT, child_.pid(), to.address, trap);
            if (!child_.resume(PTRACE_CONT)) return;
            (void)::ptrace(PTRACE_POKETEXT, child_.pid(), to.address, word);
            if (instruction() != to.address + 1) return;
            (void)::ptrace(PTRACE_POKEUSER, child_.pid(), at_rip, to.address);
        }
    }
#else
    [[nodiscard]] static std::uint64_t instruction() { return 0; }
    static void run_to(const place_of_change&) {}
#endif

    Shared& shared_;
    shared_image control_{4096};
    traced_child child_;
    std::vector<std::byte> image_;
    std::map<std::uint64_t, std::uint64_t> times_;  // that each instruction has come by
    std::uint64_t steps_ = 0;
};

}  // namespace rig

/// Steps an operation once to learn its distinct images, then once more for each of them: a fresh child is stepped
/// until that image is there, and killed for real. The bytes it leaves must be that image, and dead(k) judges the rest:
/// names, locks and whatever else the kernel keeps are as a death at that instruction leaves them.
///
///   prepare()  in the parent, before each child: the state before the operation
///   start()    in the child, not stepped: attaches, and returns the operation to call
///   shared()   in the parent: the bytes that both share, as a vector; what differs from one process to another is 0.
///              If it has touched(), that says whether any byte differs from when either was called last
///   dead(k)    after the death at image k: a failure text, empty when all is well
template <class Prepare, class Start, class Shared, class Dead>
[[nodiscard]] image_kill_report kill_at_every_image(Prepare&& prepare, Start&& start, Shared&& shared, Dead&& dead,
                                                    on_the_way how = on_the_way::stepped) {
    const auto begun = std::chrono::steady_clock::now();
    const one_core pinned;
    image_kill_report report;
    using walk_of = decltype(rig::image_walk(start, shared));
    std::unique_ptr<walk_of> walk;
    const auto begin = [&](const rig::place_of_change& to) {
        walk.reset();
        prepare();
        walk = std::make_unique<walk_of>(start, shared, to);
    };
    std::vector<std::vector<std::byte>> images;
    std::vector<rig::place_of_change> places(1);  // of each image the one that makes it; of the first none
    begin({});
    images.push_back(walk->image());
    for (rig::place_of_change at; how == on_the_way::runs ? walk->next(at) : walk->next(); places.push_back(at))
        images.push_back(walk->image());
    report.failure = walk->ending();
    report.steps = walk->steps();
    const auto die_at = [&](std::uint64_t k) -> std::string {
        begin(places[k]);
        std::uint64_t done = 0;
        if (places[k].times != 0 && walk->image() == images[k - 1])
            done = k - 1;
        else if (places[k].times != 0)
            begin({});  // it did not come by there
        for (std::uint64_t i = done; i < k; ++i)
            if (!walk->next()) return "the operation ended earlier than before: " + walk->ending();
        report.steps += walk->steps();
        if (walk->image() != images[k]) return "the operation leaves other bytes than before";
        if (!walk->kill()) return "the child did not die of SIGKILL";
        ++report.kills;
        if (shared() != images[k]) return "the dead left other bytes than the living had";
        return dead(k);
    };
    for (std::uint64_t k = 0; k < images.size() && report.failure.empty(); ++k) {
        ++report.images;
        report.failure = die_at(k);
        if (!report.failure.empty()) report.failure = "killed at image " + std::to_string(k) + ": " + report.failure;
    }
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    return report;
}

/// Stops operate() before and after each of its system calls, n of them in all, once per stop in a fresh child: there
/// alive() is asked with the child stopped, the child is killed for real, and dead() is asked. Both return a failure
/// text, empty when all is well. The last round lets the operation run to its end.
///
/// prepare() runs in the parent before each round. Returns: steps = the stops tried.
template <class Prepare, class Operate, class Alive, class Dead>
[[nodiscard]] step_report kill_at_every_system_call(Prepare&& prepare, Operate&& operate, Alive&& alive, Dead&& dead) {
    const auto start = std::chrono::steady_clock::now();
    step_report report;
    for (std::uint64_t target = 1; report.failure.empty(); ++target) {
        prepare();
        shared_image control(4096);
        rig::traced_child child(control, operate);
        std::uint64_t stops = 0;
        while (stops < target && child.phase() <= rig::step_phase::inside && child.resume(PTRACE_SYSCALL))
            if (child.phase() == rig::step_phase::inside) ++stops;
        const bool reached = stops == target && child.phase() == rig::step_phase::inside;
        if (!reached && child.phase() != rig::step_phase::after) {
            report.failure = rig::ending_text(child, stops);
            break;
        }
        report.failure = alive();
        child.kill();
        if (report.failure.empty()) report.failure = dead();
        if (!report.failure.empty())
            report.failure = "system call stop " + std::to_string(stops) + ": " + report.failure;
        if (!reached) break;
        ++report.steps;
    }
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report;
}

}  // namespace holdfast::test
