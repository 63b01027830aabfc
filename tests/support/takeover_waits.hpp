// SPDX-License-Identifier: Apache-2.0
// takeover_waits.hpp - how long writers at work are held up by one that was killed, measured while they are killed at
// random.
//
// It lies in pages that all writers of a test map. A writer reads the clock around each operation and notes the time of
// one in which it took over from a dead one. What somebody else had the processor in is marked and not judged: by the
// writer, by its involuntary context switches; by the parent, by the time that the machine gave to others in a round.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "support/kill_rig.hpp"

namespace holdfast::test {

class takeover_waits {
 public:
    /// How long who is at work may be held up by one that was killed: until the kernel has torn that one down, the 1 ms
    /// at most that it sleeps between two looks, and one repair. So much more is for machines that have more to do.
    static constexpr std::uint64_t ns_max = 50'000'000;

    // Writer. Relaxed: read when all writers have ended.
    void note(std::uint64_t takeovers, std::uint64_t ns, bool disturbed) noexcept {
        takeovers_.fetch_add(takeovers, std::memory_order_relaxed);
        const std::uint64_t at = waits_.fetch_add(1, std::memory_order_relaxed);
        if (at < waits_max) ns_[at].store((ns | 1U) - (disturbed ? 0 : 1), std::memory_order_relaxed);
    }

    // Parent.
    [[nodiscard]] std::uint64_t takeovers() const noexcept { return takeovers_.load(std::memory_order_relaxed); }
    /// Of one round: whatever was noted while the object lived is disturbed if the machine gave time to others.
    class round {
     public:
        explicit round(takeover_waits& told) : told_(told), from_(told.count()), stolen_(stolen()) {}
        round(const round&) = delete;
        round& operator=(const round&) = delete;
        ~round() {
            if (stolen() == stolen_) return;
            for (std::uint64_t at = from_; at < told_.count(); ++at)
                told_.ns_[at].fetch_or(1, std::memory_order_relaxed);
        }

     private:
        takeover_waits& told_;
        std::uint64_t from_, stolen_;
    };
    /// Prints and records what was undisturbed, and expects none of it to be too long.
    void judge() const {
        std::vector<std::uint64_t> waits;
        for (std::uint64_t at = 0; at < count(); ++at)
            if (const std::uint64_t ns = ns_[at].load(std::memory_order_relaxed); ns != 0 && ns % 2 == 0)
                waits.push_back(ns);
        if (waits.empty()) return;
        std::sort(waits.begin(), waits.end());
        std::printf("%zu of %llu waits for a dead one undisturbed: p50 %llu us, p90 %llu us, most %llu us\n",
                    waits.size(), static_cast<unsigned long long>(count()),
                    static_cast<unsigned long long>(waits[waits.size() / 2] / 1000),
                    static_cast<unsigned long long>(waits[waits.size() * 9 / 10] / 1000),
                    static_cast<unsigned long long>(waits.back() / 1000));
        ::testing::Test::RecordProperty("longest_wait_us", std::to_string(waits.back() / 1000));
        EXPECT_LE(waits.back(), ns_max * slowness);
    }

 private:
    static constexpr std::uint64_t waits_max = 4096;

    [[nodiscard]] std::uint64_t count() const noexcept {
        return std::min(waits_.load(std::memory_order_relaxed), waits_max);
    }
    // Of all processors, since the system began: time that the machine gave to others.
    [[nodiscard]] static std::uint64_t stolen() {
        std::ifstream stat("/proc/stat");
        std::string word;
        std::uint64_t steal = 0;
        stat >> word;
        for (int column = 0; column < 8; ++column) stat >> steal;  // user nice system idle iowait irq softirq steal
        return steal;
    }

    std::atomic<std::uint64_t> takeovers_{0}, waits_{0};
    std::array<std::atomic<std::uint64_t>, waits_max> ns_{};  // the lowest bit: somebody else had the processor
};

/// Of one writer: begin() before each operation, end() behind it with the takeovers that its handle has done so far.
class takeover_watch {
 public:
    explicit takeover_watch(takeover_waits& told) : told_(told) {}
    void begin() {
        if (operations_++ % 64 == 0) switches_ = involuntary_switches();
        begun_ = now_ns();
    }
    void end(std::uint64_t takeovers) {
        if (takeovers == takeovers_) return;
        const std::uint64_t ns = now_ns() - begun_;
        told_.note(takeovers - takeovers_, ns, involuntary_switches() != switches_);
        takeovers_ = takeovers;
    }

 private:
    [[nodiscard]] static std::uint64_t now_ns() {
        return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                          std::chrono::nanoseconds(1));
    }
    [[nodiscard]] static std::uint64_t involuntary_switches() {
        struct rusage used{};
        ::getrusage(RUSAGE_SELF, &used);
        return static_cast<std::uint64_t>(used.ru_nivcsw);
    }

    takeover_waits& told_;
    std::uint64_t operations_ = 0, takeovers_ = 0, switches_ = 0, begun_ = 0;
};

}  // namespace holdfast::test
