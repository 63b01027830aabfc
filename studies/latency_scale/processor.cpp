// SPDX-License-Identifier: Apache-2.0
// processor.cpp - what needs no kernel: a cycle, a branch that was guessed wrong, caches, memory, other cores.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <system_error>

#include "holdfast/perf_test/do_not_optimize.hpp"
#include "partner.hpp"
#include "published.hpp"
#include "scale.hpp"

namespace study {
namespace {

namespace perf = holdfast::perf_test;

constexpr std::size_t line_bytes = 64, kib = 1024, mib = 1024 * kib;

struct alignas(line_bytes) line {
    line* next;
};

/// Bytes of a level of cache for data, as the kernel tells; 0 if it does not. Level 4 and up count as none.
std::size_t cache_bytes(int level) {
    for (int index = 0; index < 8; ++index) {
        const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
        int found = 0;
        std::string type, size;
        std::ifstream(folder + "level") >> found;
        std::ifstream(folder + "type") >> type;
        std::ifstream(folder + "size") >> size;
        if (found != level || type == "Instruction" || size.empty()) continue;
        const std::size_t number = std::strtoull(size.c_str(), nullptr, 10);
        return size.back() == 'M' ? number * mib : number * kib;
    }
    return 0;
}

/// What the machine could give without swapping, bytes; 0 if it does not say.
std::size_t memory_available() {
    std::ifstream file("/proc/meminfo");
    for (std::string text; std::getline(file, text);)
        if (text.rfind("MemAvailable:", 0) == 0) return std::strtoull(text.c_str() + 13, nullptr, 10) * kib;
    return 0;
}

/// Memory of one's own, all of it touched, with huge pages or without any.
class memory {
 public:
    memory(std::size_t bytes, bool huge) : bytes_((bytes + huge_page - 1) / huge_page * huge_page) {
        void* const all =
            ::mmap(nullptr, bytes_ + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
        all_ = static_cast<std::byte*>(all);
        const auto at = reinterpret_cast<std::uintptr_t>(all_);
        data_ = all_ + (huge_page - at % huge_page) % huge_page;
        ::madvise(all_, bytes_ + huge_page, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        for (std::size_t i = 0; i < bytes_; i += 4096) data_[i] = std::byte{1};
    }
    ~memory() { ::munmap(all_, bytes_ + huge_page); }
    memory(const memory&) = delete;
    memory& operator=(const memory&) = delete;

    [[nodiscard]] std::byte* data() const noexcept { return data_; }

    /// The part of it that lies under huge pages, as the kernel tells.
    [[nodiscard]] double huge_part() const {
        std::ifstream file("/proc/self/smaps");
        const auto wanted = reinterpret_cast<std::uintptr_t>(data_);
        bool inside = false;
        for (std::string text; std::getline(file, text);) {
            std::uintptr_t low = 0, high = 0;
            if (std::sscanf(text.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &low, &high) == 2)
                inside = low <= wanted && wanted < high;
            else if (inside && text.rfind("AnonHugePages:", 0) == 0)
                return static_cast<double>(std::strtoull(text.c_str() + 14, nullptr, 10) * kib) /
                       static_cast<double>(bytes_);
        }
        return 0;
    }

 private:
    static constexpr std::size_t huge_page = 2 * mib;
    std::size_t bytes_;
    std::byte *all_, *data_;
};

/// A walk through all lines of the memory in random order, each of which holds where the next is: Sattolo's cycle.
class walk {
 public:
    walk(const memory& room, std::size_t bytes) {
        line* const lines = reinterpret_cast<line*>(room.data());
        const std::size_t count = std::max<std::size_t>(2, bytes / line_bytes);
        for (std::size_t i = 0; i < count; ++i) lines[i].next = &lines[i];
        std::mt19937_64 random(1);
        for (std::size_t i = count - 1; i > 0; --i) std::swap(lines[i].next, lines[random() % i].next);
        at_ = lines;
    }
    void go(std::uint64_t steps) {
        line* at = at_;
        for (; steps > 0; --steps) at = at->next;
        perf::do_not_optimize(at);
        at_ = at;
    }

 private:
    line* at_;
};

std::string size_text(std::size_t bytes) {
    return bytes >= mib ? std::to_string(bytes / mib) + " MiB" : std::to_string(bytes / kib) + " KiB";
}

void time_walk(scale& all, step what, std::size_t bytes, bool huge, std::size_t last_cache) {
    try {
        const memory room(bytes, huge);
        walk reads(room, bytes);
        what.how = "dependent reads, one in each of the lines of " + size_text(bytes) + " in random order" +
                   (huge ? "" : ", 4 KiB pages");
        if (huge && room.huge_part() < 0.9) what.remarks.emplace_back("no huge pages were to be had");
        if (last_cache != 0 && bytes < 2 * last_cache)
            what.remarks.push_back("part of it lies in the last cache, which has " + size_text(last_cache));
        all.time(std::move(what), [&](std::uint64_t n) { reads.go(n); });
    } catch (const std::exception& wrong) {
        all.miss(std::move(what), wrong.what());
    }
}

void time_memory(scale& all) {
    const std::size_t l1 = cache_bytes(1) != 0 ? cache_bytes(1) : 32 * kib;
    const std::size_t l2 = cache_bytes(2) != 0 ? cache_bytes(2) : 512 * kib;
    const std::size_t l3 = cache_bytes(3);
    std::size_t most = std::min(all.options().memory_max, memory_available() / 3);
    if (all.options().quick) most = std::min(most, 64 * mib);
    const std::size_t beyond = std::min(most, std::max(4 * std::max(l2, l3), 256 * mib));
    time_walk(all, {"L1 cache read", "", {gregg(0.9), norvig(0.5)}}, l1 / 2, true, 0);
    time_walk(all, {"L2 cache read", "", {gregg(2.8), norvig(7)}}, std::max(2 * l1, l2 / 2), true, 0);
    step third{"L3 cache read", "", {gregg(12.9)}};
    if (l3 == 0)
        all.miss(std::move(third), "the kernel tells of no third level of cache");
    else
        time_walk(all, std::move(third), std::clamp(l3 / 2, 2 * l2, std::max(2 * l2, 32 * mib)), true, 0);
    time_walk(all, {"memory read", "", {gregg(120), norvig(100)}}, beyond, true, std::max(l2, l3));
    time_walk(all, {"memory read, 4 KiB pages", "", {}}, beyond, false, std::max(l2, l3));

    const memory room(beyond, true);
    run_options brief = all.options();
    brief.seconds /= 10;
    scale curve(brief);
    for (double bytes = 4 * kib; bytes <= static_cast<double>(beyond) * 1.01;
         bytes *= all.options().quick ? 4 : 1.4142) {
        walk reads(room, static_cast<std::size_t>(bytes));
        curve.time({"a set of " + size_text(static_cast<std::size_t>(bytes)), "", {}},
                   [&](std::uint64_t n) { reads.go(n); });
        if (curve.steps().back().measured()) all.add_stair({bytes, curve.steps().back().time.median});
    }

    const std::size_t words = beyond / 8;
    const auto* const data = reinterpret_cast<const std::uint64_t*>(room.data());
    std::size_t from = 0;
    all.time({"1 MiB read in a row from memory", "a sum over the next MiB of " + size_text(beyond), {norvig(250 * us)}},
             [&](std::uint64_t n) {
                 std::uint64_t sum = 0;
                 for (; n > 0; --n) {
                     for (std::size_t i = 0; i < mib / 8; ++i) sum += data[from + i];
                     from = from + 2 * (mib / 8) <= words ? from + mib / 8 : 0;
                 }
                 perf::do_not_optimize(sum);
             });
}

/// One addition behind the other. Of two registers: additions of constants are folded by new processors.
void time_cycle(scale& all) {
    all.time(
        {"processor cycle", "dependent additions of two registers", {gregg(0.3)}},
        [](std::uint64_t n) {
            std::uint64_t x = n, y = n | 1;
            for (; n > 0; --n)
                for (int i = 0; i < 64; ++i) {
                    x += y;
                    asm volatile("" : "+r"(x), "+r"(y));  // keeps each addition, and its order
                }
        },
        64);
}

void branch_on(const std::vector<std::uint8_t>& bits, std::uint64_t n) {
    std::uint64_t ones = 0, zeros = 0;
    for (std::size_t i = 0; n > 0; --n, i = i + 1 < bits.size() ? i + 1 : 0) {
        if (bits[i] != 0) {
            asm volatile("" : "+r"(ones));  // neither side can become a conditional move
            ++ones;
        } else {
            asm volatile("" : "+r"(zeros));
            zeros += 2;
        }
    }
    perf::do_not_optimize(ones);
    perf::do_not_optimize(zeros);
}

void time_branch(scale& all) {
    std::mt19937 random(1);
    std::vector<std::uint8_t> known(1U << 20), unknown(known.size());
    for (std::size_t i = 0; i < known.size(); ++i) {
        known[i] = i % 2 == 0 ? 1 : 0;
        unknown[i] = static_cast<std::uint8_t>(random() % 2);
    }
    all.time_difference(
        {"branch guessed wrong",
         "a branch on random bits less one on alternating bits, twice: half of the guesses are wrong",
         {norvig(5)}},
        [&](std::uint64_t n) { branch_on(known, n); }, [&](std::uint64_t n) { branch_on(unknown, n); }, 0.5);
}

void time_locks(scale& all) {
    std::atomic<std::uint64_t> word{0};
    all.time({"atomic addition, nobody else there", "fetch_add on a line of one's own", {}}, [&](std::uint64_t n) {
        for (; n > 0; --n) word.fetch_add(1, std::memory_order_relaxed);  // a count that orders nothing
    });
    // While a process has one thread, the C library locks without an atomic operation: let there be another, asleep.
    futex_turns turns;
    const thread_partner sleeper(0, [&turns] { turns.wait_for(1); }, [&turns] { turns.hand_to(2); });
    std::mutex lock;
    all.time({"mutex locked and unlocked, nobody else there", "std::mutex, in a process of two threads", {norvig(25)}},
             [&](std::uint64_t n) {
                 for (; n > 0; --n) {
                     const std::lock_guard guard(lock);
                     perf::clobber_memory();
                 }
             });
}

/// A line that goes to and fro between two cores: each side waits for the other's store.
void time_transfer(scale& all, const two_cpus& cpus) {
    step what{"line from core to core",
              "half a round trip of stores and loads, CPUs " + std::to_string(cpus.here) + " and " +
                  std::to_string(cpus.there),
              {}};
    if (!cpus.apart) return all.miss(std::move(what), "needs two CPUs");
    std::string siblings;
    std::ifstream("/sys/devices/system/cpu/cpu" + std::to_string(cpus.here) + "/topology/thread_siblings_list") >>
        siblings;
    std::replace(siblings.begin(), siblings.end(), ',', ' ');
    std::istringstream list(siblings);
    for (unsigned cpu = 0; list >> cpu;)
        if (cpu == cpus.there) what.remarks.emplace_back("the two CPUs are threads of one core");
    struct alignas(128) {
        std::atomic<std::uint64_t> word{0};
    } shared;
    constexpr std::uint64_t the_end = ~std::uint64_t{0};
    // Release and acquire on both sides, as a hand-over of data would need; they pair with each other.
    const auto answer = [&shared] {
        for (;;) {
            const std::uint64_t seen = shared.word.load(std::memory_order_acquire);
            if (seen == the_end) return;
            if (seen % 2 == 1) shared.word.store(seen + 1, std::memory_order_release);
        }
    };
    const perf::cpu_pin tied(cpus.here);
    const thread_partner partner(cpus.there, answer, [&] { shared.word.store(the_end, std::memory_order_release); });
    std::uint64_t turn = 0;
    all.time(
        std::move(what),
        [&](std::uint64_t n) {
            for (; n > 0; --n) {
                shared.word.store(turn + 1, std::memory_order_release);
                turn += 2;
                while (shared.word.load(std::memory_order_acquire) != turn) {
                }
            }
        },
        2);
}

}  // namespace

void time_processor(scale& all) {
    const two_cpus cpus = two_cpus::of_this_machine();
    {
        const perf::cpu_pin tied(cpus.here);
        time_cycle(all);
        time_branch(all);
        time_memory(all);
        time_locks(all);
    }
    time_transfer(all, cpus);
}

}  // namespace study
