// SPDX-License-Identifier: Apache-2.0
// prefetch_count.hpp - how many instructions an operation runs, and how many of them ask for a line: this thread traps
// at each instruction and looks at the next one. x86-64 only; not under thread sanitizer, which keeps signals for
// later.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>

namespace holdfast::test {

#if defined(__x86_64__)

inline std::atomic<std::uint64_t> instructions_seen{0}, prefetches_seen{0};

/// Runs the operation, counting both.
template <class Operation>
void step_through(Operation&& operation) {
    constexpr std::uint64_t trap_flag = 0x100;
    struct sigaction former{};
    struct sigaction ours{};
    ours.sa_flags = SA_SIGINFO;
    ours.sa_sigaction = [](int, siginfo_t*, void* context) {
        const auto* at =
            reinterpret_cast<const unsigned char*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
        ++instructions_seen;
        if (*at >= 0x40 && *at <= 0x4f) ++at;  // REX
        if (at[0] == 0x0f && at[1] == 0x18) ++prefetches_seen;
    };
    ::sigaction(SIGTRAP, &ours, &former);
    instructions_seen = prefetches_seen = 0;
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | trap_flag);
    operation();
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~trap_flag);
    ::sigaction(SIGTRAP, &former, nullptr);
}

/// Runs the operation. Returns: how often the processor came to one of `prefetchh m8` (0f 18 /r).
template <class Operation>
[[nodiscard]] std::uint64_t count_prefetches(Operation&& operation) {
    step_through(operation);
    return prefetches_seen;
}

/// Runs the operation. Returns: the instructions it took, with a few around it.
template <class Operation>
[[nodiscard]] std::uint64_t count_instructions(Operation&& operation) {
    step_through(operation);
    return instructions_seen;
}

#endif

}  // namespace holdfast::test
