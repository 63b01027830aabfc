// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/disturbance.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace holdfast::perf_test {

namespace {

std::uint64_t involuntary_switches() noexcept {
    rusage use{};
    return ::getrusage(RUSAGE_THREAD, &use) == 0 ? static_cast<std::uint64_t>(use.ru_nivcsw) : 0;
}

}  // namespace

std::uint64_t parse_steal(const char* text) noexcept {
    if (std::strncmp(text, "cpu ", 4) != 0) return 0;
    const char* at = text + 4;
    std::uint64_t value = 0;
    for (int field = 0; field < 8; ++field) {  // user nice system idle iowait irq softirq steal
        while (*at == ' ') ++at;
        if (*at < '0' || *at > '9') return 0;
        char* end = nullptr;
        value = std::strtoull(at, &end, 10);
        at = end;
    }
    return value;
}

disturbance_meter::disturbance_meter() noexcept : stat_(::open("/proc/stat", O_RDONLY | O_CLOEXEC)) {
    if (const long ticks = ::sysconf(_SC_CLK_TCK); ticks > 0) tick_seconds_ = 1.0 / static_cast<double>(ticks);
    (void)since_last();
}

disturbance_meter::~disturbance_meter() {
    if (stat_ >= 0) ::close(stat_);
}

std::uint64_t disturbance_meter::steal_ticks() noexcept {
    if (stat_ < 0) return steal_;
    char text[256];
    const ssize_t got = ::pread(stat_, text, sizeof text - 1, 0);
    if (got <= 0) return steal_;
    text[got] = '\0';
    return parse_steal(text);
}

disturbance disturbance_meter::since_last() noexcept {
    const std::uint64_t switches = involuntary_switches(), steal = steal_ticks();
    disturbance out;
    if (switches > switches_) out.involuntary_switches = switches - switches_;
    if (steal > steal_) out.steal_seconds = static_cast<double>(steal - steal_) * tick_seconds_;
    switches_ = switches;
    steal_ = steal;
    return out;
}

}  // namespace holdfast::perf_test
