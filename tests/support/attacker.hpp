// SPDX-License-Identifier: Apache-2.0
// attacker.hpp - a process that scribbles on a live mapping of a segment, and readers that must stand it.
//
// The attacker may write everything: header, body and peers file. Most of the time it damages a few words of a sound
// image and soon puts the image right again, so that readers get past the checks of attaching and meet damage in the
// middle of what they do; now and then it lets the damage pile up.
#pragma once

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "support/image_corruption.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/single_step.hpp"

namespace holdfast::test {

/// A file mapped for writing behind everybody's back.
class open_wound {
 public:
    explicit open_wound(const std::string& path) {
        const rig::descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
        struct stat status{};
        if (file.get() < 0 || ::fstat(file.get(), &status) != 0)
            throw std::system_error(errno, std::generic_category(), path);
        size_ = static_cast<std::size_t>(status.st_size);
        void* const at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
        if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), path);
        data_ = static_cast<std::byte*>(at);
        sound_.assign(data_, data_ + size_);
    }
    open_wound(const open_wound&) = delete;
    open_wound& operator=(const open_wound&) = delete;
    ~open_wound() { ::munmap(data_, size_); }

    void heal() noexcept { std::memcpy(data_, sound_.data(), size_); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// Requires: at + width <= size(), and width at most 8.
    void put(std::size_t at, std::uint64_t value, std::size_t width) noexcept {
        std::memcpy(data_ + at, &value, width);
    }
    /// A word anywhere behind `from`; half of the time near the front, where counts and positions lie.
    template <class Random>
    void hurt(std::size_t from, Random&& below) noexcept {
        const std::size_t width = std::size_t{1} << below(4);
        if (size_ < from + width) return;
        std::size_t room = size_ - from - width + 1;
        if (below(2) == 0) room = std::min<std::size_t>(room, 1024);
        const std::size_t at = (from + below(room)) / width * width;
        if (at < from) return;
        if (below(8) == 0) {  // somebody else's words, in one piece
            const std::size_t bytes = std::min<std::size_t>(64, size_ - at);
            std::memmove(data_ + at, data_ + from + below(size_ - from - bytes + 1), bytes);
            return;
        }
        const auto values = rig::hostile_words(rig::get_word({data_, size_}, at, width), width, size_);
        const std::uint64_t value = below(3) == 0 ? below(~std::uint64_t{0}) : values[below(values.size())];
        put(at, value, width);
    }

 private:
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::vector<std::byte> sound_;
};

/// Attacks the files until it is killed. Whoever may replace them waits for begun(): they are open then.
[[noreturn]] inline void scribble(
    const std::vector<std::string>& paths, std::size_t header_bytes, std::uint64_t seed,
    const std::function<void()>& begun = [] {}) {
    std::vector<std::unique_ptr<open_wound>> wounds;
    for (const std::string& path : paths) wounds.push_back(std::make_unique<open_wound>(path));
    begun();
    std::uint64_t state = seed;
    const auto below = [&](std::uint64_t bound) { return (state = random_at(state, 1, 2)) % bound; };
    for (;;) {
        if (below(16) != 0)
            for (auto& wound : wounds) wound->heal();
        open_wound& one = *wounds[below(4) == 0 ? wounds.size() - 1 : 0];
        // The header is checked at every attach; most of the time the attack is on what lies behind it.
        const std::size_t from = below(8) == 0 ? 0 : header_bytes;
        for (std::uint64_t words = 1 + below(12); words > 0; --words) one.hurt(from, below);
        for (std::uint64_t spins = below(40'000); spins > 0; --spins)
            std::atomic_signal_fence(std::memory_order_seq_cst);
    }
}

/// What a reader allocates, all together and at most at one time. The program's operator new counts here.
struct allocation_count {
    std::atomic<std::uint64_t> now{0}, most{0};
    void took(void* at) noexcept {
        const std::uint64_t bytes = ::malloc_usable_size(at),
                            sum = now.fetch_add(bytes, std::memory_order_relaxed) + bytes;
        std::uint64_t seen = most.load(std::memory_order_relaxed);
        while (seen < sum && !most.compare_exchange_weak(seen, sum, std::memory_order_relaxed)) {
        }
    }
    void gave(void* at) noexcept {
        if (at != nullptr) now.fetch_sub(::malloc_usable_size(at), std::memory_order_relaxed);
    }
};
inline allocation_count allocations;

/// What a victim tells its parent, on a page that both map. A turn's time is the processor's, so that others on the
/// machine do not count.
struct victim_state {
    std::atomic<std::uint64_t> turns{0}, refused{0}, allocated_most{0}, slowest_ns{0};
    std::atomic<std::uint64_t> held{0};  // turns of a reader that was attached in an earlier one
};

/// No turn under attack may take longer; the slowest take some milliseconds. The sanitizers multiply what a turn costs.
inline constexpr std::uint64_t turn_ns_max = 100'000'000;

/// Runs turn() over and over for as long as it is let live, and ends by itself after `milliseconds`. An error that the
/// turn throws is an answer; running out of memory, or any other exception, is not.
template <class Turn>
[[nodiscard]] std::string stand(victim_state& told, std::uint64_t milliseconds, std::uint64_t allocation_max,
                                Turn&& turn) {
    const auto now = [](clockid_t clock) {
        struct timespec t{};
        ::clock_gettime(clock, &t);
        return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
    };
    const std::uint64_t end = now(CLOCK_MONOTONIC) + milliseconds * 1'000'000;
    while (now(CLOCK_MONOTONIC) < end) {
        const std::uint64_t begun = now(CLOCK_PROCESS_CPUTIME_ID), held = allocations.now;
        ::alarm(30);  // a hang
        allocations.most = held;
        try {
            turn();
        } catch (const std::runtime_error&) {  // errors of the library are of this kind
            told.refused.fetch_add(1, std::memory_order_relaxed);
        } catch (const std::bad_alloc&) {
            return "ran out of memory";
        } catch (const std::exception& e) {
            return std::string("an exception that is no answer: ") + e.what();
        }
        ::alarm(0);
        told.turns.fetch_add(1, std::memory_order_relaxed);
        const std::uint64_t ran_ns = now(CLOCK_PROCESS_CPUTIME_ID) - begun;
        told.slowest_ns = std::max(told.slowest_ns.load(), ran_ns);
        if (!sanitized && ran_ns > turn_ns_max) return "one turn ran for " + std::to_string(ran_ns / 1'000'000) + " ms";
        const std::uint64_t took = allocations.most - held;
        told.allocated_most = std::max(told.allocated_most.load(), took);
        if (!sanitized && took > allocation_max)
            return "allocated " + std::to_string(took) + " bytes, where " + std::to_string(allocation_max) +
                   " are enough";
    }
    return {};
}

}  // namespace holdfast::test
