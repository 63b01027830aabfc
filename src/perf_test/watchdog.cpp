// SPDX-License-Identifier: Apache-2.0
// watchdog.cpp - ends a process whose test never returns.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/session.hpp"

namespace holdfast::perf_test {
namespace {

using holdfast::detail::printable;

constexpr int status_hanging = 3;

// What the handler says: made beforehand, because a handler may hardly do more than write. Only read while armed.
char message[512];
std::size_t message_bytes = 0;
struct sigaction before;

// Real-time signals are taken by nobody unless he asks; the C library keeps the first ones.
int own_signal() noexcept { return SIGRTMAX - 3; }

void end_process(int /*signal*/) {
    const char* from = message;
    for (std::size_t left = message_bytes; left > 0;) {
        const ssize_t written = ::write(STDERR_FILENO, from, left);
        if (written <= 0) break;
        from += written;
        left -= static_cast<std::size_t>(written);
    }
    ::_exit(status_hanging);
}

}  // namespace

watchdog::watchdog(const std::string& test, double seconds) {
    if (!(seconds > 0)) return;
    const int length =
        std::snprintf(message, sizeof message,
                      "\nperf_test: %.300s hangs: it has not ended within %g s, the program ends here with "
                      "status %d. A longer limit: -timeout=MILLISECONDS (0: none)\n",
                      printable(test).c_str(), seconds, status_hanging);
    message_bytes = std::min(static_cast<std::size_t>(length > 0 ? length : 0), sizeof message - 1);

    struct sigaction action{};
    action.sa_handler = end_process;
    ::sigemptyset(&action.sa_mask);
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = own_signal();
    timer_t timer{};
    if (::sigaction(own_signal(), &action, &before) != 0 || ::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) {
        throw std::system_error(errno, std::generic_category(),
                                "no timer against hanging tests; -timeout=0 does without");
    }
    itimerspec limit{};
    limit.it_value.tv_sec = static_cast<time_t>(seconds);
    limit.it_value.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
    ::timer_settime(timer, 0, &limit, nullptr);
    timer_ = timer;
    armed_ = true;
}

watchdog::~watchdog() {
    if (!armed_) return;
    ::timer_delete(timer_);
    ::sigaction(own_signal(), &before, nullptr);
}

}  // namespace holdfast::perf_test
