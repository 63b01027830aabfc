// SPDX-License-Identifier: Apache-2.0
// far_side.hpp - the second process (or thread) of an experiment that takes two, on a core of its own.
//
// The near side gives an order and goes on with its own part; the far side carries it out and says so. Between two
// orders it looks for the next one without sleeping, so that an order begins within one transfer of a cache line;
// rest() sends it to sleep, so that it takes no core from the other subjects. Any order wakes it.
//
// What lies on the board is in shared pages, each of its words alone in two lines. The near side waits at most a
// minute for anything: a far side that failed or died ends the experiment with its own words, never with a hang.
// A far side in a process of its own dies with the near one. It is known by its pidfd, and reaped only at the end: a
// number whose process died and was reaped may be somebody else's by then.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>

#include <sys/types.h>

#include "holdfast/memory/descriptor.hpp"
#include "workload/shared_pages.hpp"

namespace holdfast::workload {

/// Where the far side runs.
enum class far_place : std::uint8_t {
    process,  ///< forked, with what it is given opened in there
    thread,   ///< of this process: for what cannot leave it
};

/// What the far side is told. Numbers from far_side::own_orders on are the user's.
struct far_order {
    std::uint64_t what = 0;
    std::uint64_t count = 0;
};

class far_side {
 public:
    static constexpr std::uint64_t own_orders = 16;
    /// Carries out one order on the far side. What it throws is thrown by finish() on the near one.
    using job = std::function<void(far_side&, const far_order&)>;

    /// Starts it on that CPU, resting. Throws: std::system_error, also on kernels before 5.3, which have no pidfd.
    far_side(far_place place, unsigned cpu, job carry_out);
    far_side(const far_side&) = delete;
    far_side& operator=(const far_side&) = delete;
    ~far_side();

    // ---- the near side
    /// Gives an order. Requires: the one before is finished, unless its job ends by interrupted().
    void begin(const far_order& order);
    /// Waits until it is carried out. Throws: std::runtime_error with what its job threw; when it died or hangs.
    void finish();
    void carry_out(const far_order& order) {
        begin(order);
        finish();
    }
    void rest();
    /// Nanoseconds of a round trip between the two cores, over so many, with nothing around it: of one cache line that
    /// both store to in turn; or there on a line that the near side stores to, and back on another that the far side
    /// does, as any two channels of one direction each. Some processors hand a line that is stored to right after it
    /// was read over at once, and take twice as long for two.
    double line_round_trip(std::uint64_t trips) { return round_trip(trips, false); }
    double two_lines_round_trip(std::uint64_t trips) { return round_trip(trips, true); }
    /// How often the kernel has taken the far side's core away from it.
    [[nodiscard]] std::uint64_t involuntary_switches() const noexcept;

    // ---- both
    /// A word of its own line: what the far side's job has done so far, for a near side that must not run ahead.
    [[nodiscard]] std::atomic<std::uint64_t>& progress() noexcept;
    /// Whether the order being carried out has been replaced by another: its job should return.
    [[nodiscard]] bool interrupted() const noexcept;
    /// Throws on the near side when the far one failed or died, on the far side when it is interrupted.
    void require_other() const;

 private:
    struct board;
    [[nodiscard]] board& on() const noexcept;
    void serve();
    void carry_out_here(const far_order& order) noexcept;
    double round_trip(std::uint64_t trips, bool two_lines);
    void echo_line(std::uint64_t trips, bool two_lines);

    shared_pages pages_;
    far_place place_;
    unsigned cpu_;
    job job_;
    bool is_far_process_ = false;
    std::uint64_t given_ = 0;           // by the near side
    std::atomic<std::uint64_t> at_{0};  // the order that the far side is at; read by itself
    pid_t child_ = -1;
    memory::descriptor child_handle_;  // readable once the child has ended
    std::thread thread_;
};

/// The waiting part of a loop that looks until the other side has done something. Each call is one look in vain.
class patience {
 public:
    explicit patience(const far_side& between) noexcept : between_(&between) {}
    /// Throws: std::runtime_error when there is nothing to wait for any more, or a minute is over.
    void operator()() {
        if (++looks_ % looks_between == 0) [[unlikely]]
            ask();
    }
    /// The same with a rest of half a microsecond, for loops where that costs nothing: who looks at once, again and
    /// again, takes the other side's lines away from it while it writes them.
    void rest();

 private:
    static constexpr std::uint64_t looks_between = 1 << 14;
    void ask();
    const far_side* between_;
    std::uint64_t looks_ = 0;
    std::uint64_t until_ns_ = 0;
};

/// Two CPUs that this process may use, not two threads of one core where that can be told.
struct two_cores {
    unsigned near = 0, far = 0;
    bool there = false;
};
[[nodiscard]] two_cores pick_two_cores();

}  // namespace holdfast::workload
