// SPDX-License-Identifier: Apache-2.0
// event_source.hpp - a waiting handle behind a file descriptor, for those who sleep in epoll or poll: readable when
// there is something to read, or nobody lives who could write it.
//
//   memory::event_source source(queue_consumer::attach("orders"));
//   epoll_ctl(epoll, EPOLL_CTL_ADD, source.fd(), ...);
//   for (;;) {
//       while (const auto message = source.handle().front()) { use(message); source.handle().pop(); }
//       source.arm();                                     // from here on the handle is the thread's
//       epoll_wait(epoll, ...);                           // beside all the other descriptors
//       if (source.take() == outcome::writer_gone) break; // ours again
//   }
//
// An eventfd lies in no shared memory, and a sender that knew its receiver's would have to be given it by a process
// that may be dead. So a thread of the receiver does what it would have done: it sleeps in the handle's own wait(),
// which knows the bell, the lost wake of a killed sender and the sender's lock, and then writes to an eventfd of this
// process. The sender and the layout know nothing of it.
//
// (I1) The handle belongs to the caller while idle and after take(), to the thread from arm() until it has fired. The
//      mutex hands it over, so it is used by one thread at a time.
// (I2) The descriptor is readable exactly while the source has fired and take() has not been called.
// Crash: of the sender: as the handle's wait() says, writer_gone after 0.1 s at most. Of this process: nothing is left.
// Fork:  a child has neither the thread nor the handle's rights: take() answers read_only there. Destroying its copy
//        closes what it inherited, so that it does not keep the parent's place once the parent is dead.
// Cost:  a thread for each source; a message on an idle source costs two wakes instead of one (about 10 us more).
#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "holdfast/memory/descriptor.hpp"
#include "holdfast/memory/fork_guard.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast::memory {

/// Waits as most handles do.
struct wait_of_handle {
    template <class Handle>
    [[nodiscard]] result operator()(Handle& handle, std::chrono::nanoseconds span) const noexcept {
        return handle.wait(span);
    }
};

/// A handle and a descriptor that tells when it has something to say. Wait: result(Handle&, nanoseconds), noexcept:
/// timed_out when nothing happened, else what did. For a producer that waits for room:
/// event_source(std::move(producer), [](auto& p, auto span) noexcept { return p.wait_room(bytes, span); }).
/// Move-only. Threads: one at a time.
template <class Handle, class Wait = wait_of_handle>
class event_source {
 public:
    /// Throws: io when the system gives no descriptor or thread; what a fork_guard throws.
    explicit event_source(Handle handle, Wait wait = {})
        : state_(std::make_unique<state>(std::move(handle), std::move(wait))) {
        const faults_only for_the_worker;
        try {
            state_->worker = std::thread([of = state_.get()] { of->run(); });
        } catch (const std::system_error& failure) {
            throw error(errc::io, "event_source",
                        failure.what() + std::string("; raise the limit on threads (ulimit -u)"));
        }
    }

    event_source(event_source&&) noexcept = default;
    event_source& operator=(event_source&&) = delete;
    ~event_source() {
        if (state_ != nullptr && !state_->guard.same_process()) abandon(*state_.release());
    }

    /// For epoll and poll: level-triggered, EPOLLIN. Nobody may read or close it.
    [[nodiscard]] int fd() const noexcept { return state_->event.get(); }

    /// The handle. Requires: not armed, that is, take() was called since the last arm().
    [[nodiscard]] Handle& handle() noexcept { return state_->handle; }
    [[nodiscard]] const Handle& handle() const noexcept { return state_->handle; }

    /// Lends the handle to the thread, which waits. Does nothing where it is lent already, and in a forked child.
    void arm() noexcept { state_->arm(); }

    /// Takes the handle back, whether or not something has happened.
    /// Returns: ok (look at the handle) and whatever else its wait() said, such as writer_gone; empty when nothing had
    /// happened yet, or it was not armed; read_only in a forked child. Blocks for at most 50 ms, and not at all once
    /// the descriptor was readable.
    outcome take() noexcept { return state_->take(); }

 private:
    struct state;
    /// Signals are for the threads that expect them; but a fault is the worker's own, and the truncation guard's.
    class faults_only {
     public:
        faults_only() noexcept {
            sigset_t all{};
            ::sigfillset(&all);
            for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) ::sigdelset(&all, fault);
            ::pthread_sigmask(SIG_SETMASK, &all, &before_);
        }
        faults_only(const faults_only&) = delete;
        faults_only& operator=(const faults_only&) = delete;
        ~faults_only() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

     private:
        sigset_t before_{};
    };
    /// In a forked child: there is no such thread, and the mutex may be as that thread left it, so the memory stays.
    /// The descriptors are those that no wait changes.
    static void abandon(state& of) noexcept {
        of.event.reset();
        [[maybe_unused]] const Handle copy(std::move(of.handle));
    }

    struct state {
        Handle handle;
        Wait wait;
        descriptor event;
        fork_guard guard = fork_guard::make("event_source");
        std::mutex lock;
        std::condition_variable changed;
        enum class phase : std::uint8_t { idle, armed, fired, ending } now = phase::idle;
        outcome answer = outcome::empty;
        std::atomic<bool> wanted_back{false};
        std::thread worker;

        state(Handle h, Wait w)
            : handle(std::move(h)), wait(std::move(w)), event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
            if (!event) throw_errno(errno, "event_source", "eventfd", "raise the limit on open files (ulimit -n)");
        }
        state(const state&) = delete;
        state& operator=(const state&) = delete;
        ~state() {
            if (!worker.joinable()) return;
            (void)take();
            {
                const std::lock_guard<std::mutex> held(lock);
                now = phase::ending;
            }
            changed.notify_all();
            worker.join();
        }

        void arm() noexcept {
            if (!guard.same_process()) return;
            {
                const std::lock_guard<std::mutex> held(lock);
                if (now != phase::idle) return;
                now = phase::armed;
            }
            changed.notify_all();
        }
        outcome take() noexcept {
            if (!guard.same_process()) return outcome::read_only;
            std::unique_lock<std::mutex> held(lock);
            if (now == phase::idle) return outcome::empty;
            wanted_back.store(true, std::memory_order_relaxed);  // relaxed: a hint; the mutex hands over
            changed.wait(held, [&] { return now == phase::fired; });
            wanted_back.store(false, std::memory_order_relaxed);  // as above
            now = phase::idle;
            std::uint64_t count = 0;
            while (::read(event.get(), &count, sizeof count) < 0 && errno == EINTR) {
            }
            return answer;
        }

        void run() noexcept {
            for (;;) {
                {
                    std::unique_lock<std::mutex> held(lock);
                    changed.wait(held, [&] { return now == phase::armed || now == phase::ending; });
                    if (now == phase::ending) return;
                }
                // One slice: the time for which take() may have to wait.
                constexpr std::chrono::milliseconds slice{50};
                result got{outcome::timed_out, 0};
                while (got.status == outcome::timed_out &&
                       !wanted_back.load(std::memory_order_relaxed))  // relaxed: a hint
                    got = wait(handle, slice);
                {
                    const std::lock_guard<std::mutex> held(lock);
                    answer = got.status == outcome::timed_out ? outcome::empty : got.status;
                    now = phase::fired;
                    const std::uint64_t one = 1;
                    while (::write(event.get(), &one, sizeof one) < 0 && errno == EINTR) {
                    }
                }
                changed.notify_all();
            }
        }
    };

    std::unique_ptr<state> state_;  // at one address: the thread knows it
};

}  // namespace holdfast::memory
