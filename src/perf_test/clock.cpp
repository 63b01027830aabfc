// SPDX-License-Identifier: Apache-2.0
// clock.cpp - which counter may be trusted, and its rate, grain and cost.
#include "holdfast/perf_test/clock.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <utility>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace holdfast::perf_test {

namespace {

constexpr std::uint64_t calibration_ns = 20'000'000;

// Empty if the counter may be read and runs evenly; else why not.
std::string counter_objection() {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(0x80000001U, &a, &b, &c, &d) == 0 || (d & (1U << 27)) == 0) return "this CPU has no rdtscp";
    if (__get_cpuid(0x80000007U, &a, &b, &c, &d) == 0 || (d & (1U << 8)) == 0)
        return "the CPU does not promise a time-stamp counter of constant rate";
    int mode = PR_TSC_ENABLE;
    if (::prctl(PR_GET_TSC, &mode) == 0 && mode != PR_TSC_ENABLE) return "reading the counter is forbidden (prctl)";
    // The kernel takes "tsc" off this list once it has seen CPUs disagree.
    std::ifstream list("/sys/devices/system/clocksource/clocksource0/available_clocksource");
    std::string name;
    bool any = false;
    while (list >> name) {
        if (name == "tsc") return {};
        any = true;
    }
    return any ? "the kernel found the time-stamp counter unfit as a clock" : std::string();
#elif defined(__aarch64__)
    return {};
#else
    return "this architecture's counter is not known here";
#endif
}

constexpr tick_source native_source() {
#if defined(__aarch64__)
    return tick_source::cntvct;
#else
    return tick_source::tsc;
#endif
}

// One moment on both clocks: the tightest of several attempts.
struct moment {
    std::uint64_t ticks = 0, ns = 0, width = ~std::uint64_t{0};
};

moment now_on_both(const tick_clock& clock) {
    moment best;
    for (int i = 0; i < 32; ++i) {
        const std::uint64_t before = monotonic_ns(), ticks = clock.start(), after = monotonic_ns();
        if (after - before < best.width) best = {ticks, before + (after - before) / 2, after - before};
    }
    return best;
}

}  // namespace

const char* to_string(tick_source source) noexcept {
    switch (source) {
        case tick_source::tsc: return "tsc";
        case tick_source::cntvct: return "cntvct";
        case tick_source::monotonic: break;
    }
    return "monotonic";
}

tick_clock::tick_clock(tick_source source, std::string reason) : source_(source), reason_(std::move(reason)) {
    if (source_ != tick_source::monotonic) find_rate();
    find_grain();
}

void tick_clock::find_rate() {
    const moment first = now_on_both(*this);
    while (monotonic_ns() - first.ns < calibration_ns) {
    }
    const moment last = now_on_both(*this);
    const auto ticks = static_cast<double>(last.ticks - first.ticks), ns = static_cast<double>(last.ns - first.ns);
    // 1 MHz to 100 GHz; a counter that stands still or leaps is none.
    if (last.ticks > first.ticks && ns / ticks > 1e-2 && ns / ticks < 1e3) {
        ns_a_tick_ = ns / ticks;
    } else {
        source_ = tick_source::monotonic;
        reason_ = "the CPU's counter did not advance evenly beside the kernel's clock";
    }
}

// The grain is the least difference between two spans of time that differ: the cost of reading drops out of it.
void tick_clock::find_grain() {
    std::array<double, 2001> costs{};
    for (double& cost : costs) {
        const std::uint64_t from = start(), to = stop();
        cost = ns(from, to);
    }
    std::sort(costs.begin(), costs.end());
    double grain = costs.front();
    for (std::size_t i = 1; i < costs.size(); ++i) {
        const double step = costs[i] - costs[i - 1];
        if (step > ns_a_tick_ / 2 && (grain == 0 || step < grain)) grain = step;
    }
    if (grain == 0) {  // coarser than all these reads together: wait for its next step
        const std::uint64_t from = start(), give_up = monotonic_ns() + 10 * calibration_ns;
        while (grain == 0 && monotonic_ns() < give_up) grain = ns(from, stop());
    }
    read_cost_ns_ = costs[costs.size() / 2];
    granularity_ns_ = grain > 0 ? grain : 1e7;
}

const tick_clock& tick_clock::get() {
    static const tick_clock clock = [] {
        std::string objection = counter_objection();
        const tick_source source = objection.empty() ? native_source() : tick_source::monotonic;
        return tick_clock(source, std::move(objection));
    }();
    return clock;
}

const tick_clock& tick_clock::kernel() {
    static const tick_clock clock(tick_source::monotonic, "the kernel's clock was asked for");
    return clock;
}

}  // namespace holdfast::perf_test
