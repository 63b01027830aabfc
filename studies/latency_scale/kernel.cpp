// SPDX-License-Identifier: Apache-2.0
// kernel.cpp - what the kernel does for a program on one machine: calls, switches, wake-ups, pages, threads, processes.
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "holdfast/perf_test/do_not_optimize.hpp"
#include "partner.hpp"
#include "published.hpp"
#include "scale.hpp"

namespace study {
namespace {

namespace perf = holdfast::perf_test;

void time_calls(scale& all) {
    all.time({"clock read", "clock_gettime(CLOCK_MONOTONIC), in the process where the kernel allows it", {}},
             [](std::uint64_t n) {
                 timespec now{};
                 for (; n > 0; --n) {
                     ::clock_gettime(CLOCK_MONOTONIC, &now);
                     perf::do_not_optimize(now);
                 }
             });
    all.time({"system call", "getppid", {sigoure(105)}}, [](std::uint64_t n) {
        for (; n > 0; --n) ::syscall(SYS_getppid);
    });
}

/// Hand-overs by a futex, half a round trip each. `cpu`: the partner's.
void time_turns(scale& all, step what, const two_cpus& cpus, unsigned cpu, bool process) {
    try {
        futex_turns turns;
        const auto answer = [&turns] {
            while (turns.wait_for(1)) turns.hand_to(0);
        };
        const perf::cpu_pin tied(cpus.here);
        const operations run = [&turns](std::uint64_t n) {
            for (; n > 0; --n) {
                turns.hand_to(1);
                turns.wait_for(0);
            }
        };
        if (process) {
            const process_partner partner(cpu, answer);
            return all.time(std::move(what), run, 2);
        }
        const thread_partner partner(cpu, answer, [&] { turns.hand_to(2); });
        all.time(std::move(what), run, 2);
    } catch (const std::exception& wrong) {
        all.miss(std::move(what), wrong.what());
    }
}

void time_switches(scale& all, const two_cpus& cpus) {
    time_turns(all, {"switch between threads", "hand-over by a futex on one CPU, its two system calls included", {}},
               cpus, cpus.here, false);
    time_turns(all, {"switch between processes", "likewise, between two processes", {sigoure(4300)}}, cpus, cpus.here,
               true);
    step wake{"wake-up on another core", "hand-over by a futex to a thread that sleeps on another CPU", {}};
    if (cpus.apart)
        time_turns(all, std::move(wake), cpus, cpus.there, false);
    else
        all.miss(std::move(wake), "needs two CPUs");
}

/// First touches of pages that the kernel has to find, clear and map.
void time_faults(scale& all) {
    constexpr std::size_t page = 4096, pages = 2048;
    void* const room = ::mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    step what{"page fault", "first touch of 4 KiB of memory, which the kernel clears", {}};
    if (room == MAP_FAILED) return all.miss(std::move(what), "no memory");
    ::madvise(room, pages * page, MADV_NOHUGEPAGE);
    auto* const bytes = static_cast<char*>(room);
    all.time(
        std::move(what),
        [bytes](std::uint64_t n) {
            for (std::uint64_t i = 0; i < n; ++i) {
                bytes[i % pages * page] = 1;
                perf::clobber_memory();
            }
        },
        1, [room] { ::madvise(room, pages * page, MADV_DONTNEED); }, pages);
    ::munmap(room, pages * page);
}

void wait_for(pid_t child) {
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
    if (status != 0) throw std::runtime_error("the child failed");
}

void time_children(scale& all) {
    all.time({"thread started and joined", "std::thread that does nothing", {}}, [](std::uint64_t n) {
        for (; n > 0; --n) std::thread([] {}).join();
    });
    all.time({"process forked and ended", "fork, _exit and waitpid", {}}, [](std::uint64_t n) {
        for (; n > 0; --n) {
            const pid_t child = ::fork();
            if (child == 0) ::_exit(0);
            wait_for(child);
        }
    });
    all.time({"program started and ended", "posix_spawn of /bin/true and waitpid", {}}, [](std::uint64_t n) {
        for (; n > 0; --n) {
            pid_t child = -1;
            char name[] = "true";
            char* const arguments[] = {name, nullptr};
            char* const environment[] = {nullptr};
            const int failed = ::posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environment);
            if (failed != 0) throw std::system_error(failed, std::generic_category(), "/bin/true");
            wait_for(child);
        }
    });
}

void time_sleep(scale& all) {
    all.time({"shortest sleep", "nanosleep of 1 ns, with the slack of timers as found", {}}, [](std::uint64_t n) {
        const timespec least{.tv_sec = 0, .tv_nsec = 1};
        for (; n > 0; --n) ::nanosleep(&least, nullptr);
    });
}

}  // namespace

void time_kernel(scale& all) {
    const two_cpus cpus = two_cpus::of_this_machine();
    time_switches(all, cpus);
    const perf::cpu_pin tied(cpus.here);
    time_calls(all);
    time_faults(all);
    time_children(all);
    time_sleep(all);
}

}  // namespace study
