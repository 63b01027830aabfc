// SPDX-License-Identifier: Apache-2.0
#include "hooks/sleepers.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdarg>

namespace {

constinit holdfast::test::futex_listener* kernel = nullptr;

}  // namespace

namespace holdfast::test {

futex_watch::futex_watch(futex_listener& listener) noexcept { kernel = &listener; }
futex_watch::~futex_watch() { kernel = nullptr; }

}  // namespace holdfast::test

// NOLINTBEGIN
extern "C" {

long __real_syscall(long number, ...);

long __wrap_syscall(long number, ...) {
    long given[6];
    va_list arguments;
    va_start(arguments, number);
    for (long& each : given) each = va_arg(arguments, long);
    va_end(arguments);
    const int operation = static_cast<int>(given[1]);
    if (kernel == nullptr || number != SYS_futex || (operation != FUTEX_WAIT && operation != FUTEX_WAKE))
        return __real_syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
    const auto* word = reinterpret_cast<const std::uint32_t*>(given[0]);
    if (operation == FUTEX_WAKE) {
        kernel->wake(word);
        return 0;
    }
    const int answer = kernel->sleep(word, static_cast<std::uint32_t>(given[2]));
    if (answer == 0) return 0;
    errno = answer;
    return -1;
}

}  // extern "C"
// NOLINTEND
