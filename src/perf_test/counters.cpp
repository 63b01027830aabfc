// SPDX-License-Identifier: Apache-2.0
// counters.cpp - perf events, getrusage and the totals of the allocation hook.
#include "holdfast/perf_test/counters.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace holdfast::perf_test {

namespace {

struct kind {
    const char* name;
    std::uint32_t type;
    std::uint64_t config;
};

constexpr std::uint64_t data_tlb_misses =
    PERF_COUNT_HW_CACHE_DTLB | (PERF_COUNT_HW_CACHE_OP_READ << 8U) | (PERF_COUNT_HW_CACHE_RESULT_MISS << 16U);

constexpr std::array kinds{
    kind{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    kind{"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    kind{"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    kind{"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    kind{"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    kind{"dtlb-misses", PERF_TYPE_HW_CACHE, data_tlb_misses},
};

int open_event(const kind& k) noexcept {
    perf_event_attr what{};
    what.size = sizeof what;
    what.type = k.type;
    what.config = k.config;
    what.disabled = 1;
    what.exclude_kernel = 1;
    what.exclude_hv = 1;
    what.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return static_cast<int>(::syscall(SYS_perf_event_open, &what, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

std::string reason_of(int number) {
    int paranoid = 0;
    std::ifstream setting("/proc/sys/kernel/perf_event_paranoid");
    const bool known = static_cast<bool>(setting >> paranoid);
    switch (number) {
        case EACCES:
        case EPERM:
            return std::string("the kernel or the container forbids perf_event_open") +
                   (known && paranoid > 2
                        ? " (kernel.perf_event_paranoid is " + std::to_string(paranoid) +
                              "): sysctl kernel.perf_event_paranoid=2"
                        : ": allow the system call in the container's seccomp profile, or run with CAP_PERFMON") +
                   "; instruction counts without it: -count=callgrind";
        case ENOENT:
        case ENODEV:
        case EOPNOTSUPP:
            return "this CPU shows no counters, as in most virtual machines; instruction counts without them: "
                   "-count=callgrind";
        case ENOSYS: return "this kernel has no perf_event_open; instruction counts without it: -count=callgrind";
        default: break;
    }
    return std::string("perf_event_open failed: ") + std::strerror(number);
}

double over(std::uint64_t count, std::uint64_t operations) noexcept {
    return operations > 0 ? static_cast<double>(count) / static_cast<double>(operations) : 0;
}

constexpr std::array usage_names{"voluntary-switches", "involuntary-switches", "minor-faults", "major-faults"};

void read_usage(std::uint64_t (&out)[4]) noexcept {
    rusage use{};
    if (::getrusage(RUSAGE_THREAD, &use) != 0) return;
    const long values[] = {use.ru_nvcsw, use.ru_nivcsw, use.ru_minflt, use.ru_majflt};
    for (std::size_t i = 0; i < 4; ++i) out[i] = static_cast<std::uint64_t>(values[i]);
}

thread_local allocation_totals totals;
std::atomic<bool> hook{false};

}  // namespace

event_counters::event_counters() {
    int first_failure = 0;
    for (const kind& k : kinds) {
        const int descriptor = open_event(k);
        if (descriptor >= 0)
            events_.push_back({k.name, descriptor});
        else if (first_failure == 0)
            first_failure = errno;
    }
    if (events_.empty()) reason_ = reason_of(first_failure);
}

event_counters::~event_counters() {
    for (const event& e : events_) ::close(e.descriptor);
}

void event_counters::start() noexcept {
    for (const event& e : events_) ::ioctl(e.descriptor, PERF_EVENT_IOC_RESET, 0);
    for (const event& e : events_) ::ioctl(e.descriptor, PERF_EVENT_IOC_ENABLE, 0);
}

std::vector<counter> event_counters::stop(std::uint64_t operations) {
    for (const event& e : events_) ::ioctl(e.descriptor, PERF_EVENT_IOC_DISABLE, 0);
    std::vector<counter> out;
    for (const event& e : events_) {
        std::uint64_t value[3]{};  // count, time enabled, time running
        if (::read(e.descriptor, value, sizeof value) != static_cast<ssize_t>(sizeof value) || value[2] == 0) continue;
        const double share = static_cast<double>(value[1]) / static_cast<double>(value[2]);
        out.push_back({e.name, over(value[0], operations) * share, "perf_event"});
    }
    return out;
}

void usage_counters::start() noexcept { read_usage(before_); }

std::vector<counter> usage_counters::stop(std::uint64_t operations) const {
    std::uint64_t now[4]{};
    read_usage(now);
    std::vector<counter> out;
    for (std::size_t i = 0; i < 4; ++i)
        out.push_back({usage_names[i], over(now[i] > before_[i] ? now[i] - before_[i] : 0, operations), "rusage"});
    return out;
}

allocation_totals allocations_of_this_thread() noexcept { return totals; }

// Relaxed: a flag that says nothing about other memory.
bool allocations_are_counted() noexcept { return hook.load(std::memory_order_relaxed); }
void announce_allocation_hook() noexcept { hook.store(true, std::memory_order_relaxed); }  // relaxed: as above

void note_allocation(std::uint64_t bytes) noexcept {
    ++totals.calls;
    totals.bytes += bytes;
}

std::vector<counter> allocations_since(const allocation_totals& before, std::uint64_t operations) {
    if (!allocations_are_counted()) return {};
    const allocation_totals now = totals;  // before anything here allocates
    return {{"allocations", over(now.calls - before.calls, operations), "allocator"},
            {"allocated-bytes", over(now.bytes - before.bytes, operations), "allocator"}};
}

}  // namespace holdfast::perf_test
