// SPDX-License-Identifier: Apache-2.0
// takeover_waits.hpp - how long writers at work are held up by one that was killed, measured while they are killed at
// random.
//
// Who is killed within a wait tells nothing of it, and those that are killed at random do not live as long as a wait
// may take. So in some rounds one writer outlives the others, and dies by itself between two operations.
//
// It lies in pages that all writers of a test map. A writer reads the clock around each operation and notes the time of
// one in which it took over from a dead one. What somebody else had the processor in is marked: by the writer, by its
// involuntary context switches; by the parent, by the time that the machine gave to others in a round. Half of all have
// to be short, and each that is not marked; with too few of those a test goes on for a while, and is skipped in the
// end.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
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
    /// So many must be undisturbed for the longest of them to tell something; an idle machine has 150 and more.
    static constexpr std::uint64_t enough = 5;
    /// Whether another round is wanted behind those that are done: until so many are, or, while too few waits were
    /// undisturbed, four times as many.
    [[nodiscard]] bool another(std::uint64_t done, std::uint64_t rounds) const {
        return done < rounds || (done < 4 * rounds && waits(false).size() < enough);
    }
    /// Prints and records what was undisturbed, and expects none of it to be too long, nor half of all. Skips the test,
    /// whose last statement it has to be, where that was not enough.
    void judge() const {
        const std::vector<std::uint64_t> all = waits(true), undisturbed = waits(false);
        if (!all.empty()) {
            EXPECT_LE(all[all.size() / 2], ns_max * slowness) << "half of all waits are longer";
        }
        if (!undisturbed.empty()) {
            std::printf("%zu of %zu waits for a dead one undisturbed: p50 %llu us, p90 %llu us, most %llu us\n",
                        undisturbed.size(), all.size(),
                        static_cast<unsigned long long>(undisturbed[undisturbed.size() / 2] / 1000),
                        static_cast<unsigned long long>(undisturbed[undisturbed.size() * 9 / 10] / 1000),
                        static_cast<unsigned long long>(undisturbed.back() / 1000));
            ::testing::Test::RecordProperty("longest_wait_us", std::to_string(undisturbed.back() / 1000));
            EXPECT_LE(undisturbed.back(), ns_max * slowness);
        }
        if (undisturbed.size() < enough)
            GTEST_SKIP() << "needs: a machine that gives its processors to nobody else; undisturbed were "
                         << undisturbed.size() << " of " << all.size() << " waits for a dead one, not " << enough;
    }

 private:
    static constexpr std::uint64_t waits_max = 4096;

    [[nodiscard]] std::uint64_t count() const noexcept {
        return std::min(waits_.load(std::memory_order_relaxed), waits_max);
    }
    // Sorted; all of them, or the undisturbed.
    [[nodiscard]] std::vector<std::uint64_t> waits(bool disturbed_too) const {
        std::vector<std::uint64_t> found;
        for (std::uint64_t at = 0; at < count(); ++at)
            if (const std::uint64_t ns = ns_[at].load(std::memory_order_relaxed);
                ns != 0 && (disturbed_too || ns % 2 == 0))
                found.push_back(ns);
        std::sort(found.begin(), found.end());
        return found;
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
    /// Whether this writer is not to be killed in this round: it lives twice as long as the others may.
    [[nodiscard]] static bool outlives(std::uint64_t round, std::uint64_t writer) noexcept {
        return round % 8 == 7 && writer == 0;
    }
    takeover_watch(takeover_waits& told, bool outlives)
        : told_(told), dies_ns_(outlives ? now_ns() + 20'000'000 * slowness : ~std::uint64_t{0}) {}
    void begin() {
        if (operations_++ % 64 == 0) switches_ = involuntary_switches();
        begun_ = now_ns();
        if (begun_ > dies_ns_) (void)::raise(SIGKILL);
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
    std::uint64_t dies_ns_, operations_ = 0, takeovers_ = 0, switches_ = 0, begun_ = 0;
};

}  // namespace holdfast::test
