// SPDX-License-Identifier: Apache-2.0
// file_places.hpp - how many files the answers of one server have open, and how many they may (files_max).
//
// (P1) An answer's file has a place from when it is known to be an answer of the server until it is closed, whatever
//      waits before it and whoever opens it: the loop, or a handler in the pool.
// Threads: any. Memory orders: relaxed, since the counts stand alone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace holdfast::net {

class file_places {
 public:
    explicit file_places(std::size_t most) noexcept : most_(most) {}

    [[nodiscard]] bool take() noexcept {
        std::size_t now = taken_.load(std::memory_order_relaxed);
        do {
            if (now >= most_) return false;
        } while (!taken_.compare_exchange_weak(now, now + 1, std::memory_order_relaxed));
        return true;
    }
    void give_back() noexcept { taken_.fetch_sub(1, std::memory_order_relaxed); }

    /// An answer had no descriptor or no place.
    void lack() noexcept { lacks_.fetch_add(1, std::memory_order_relaxed); }
    /// How often, since this was asked the last time.
    [[nodiscard]] std::uint64_t take_lacks() noexcept {
        // A look alone in the rule: the loop asks at each turn.
        return lacks_.load(std::memory_order_relaxed) == 0 ? 0 : lacks_.exchange(0, std::memory_order_relaxed);
    }

 private:
    const std::size_t most_;
    std::atomic<std::size_t> taken_{0};
    std::atomic<std::uint64_t> lacks_{0};
};

/// One place, or none. It outlives the server, as an answer may.
class file_place {
 public:
    file_place() noexcept = default;
    explicit file_place(const std::shared_ptr<file_places>& of) noexcept : of_(of->take() ? of : nullptr) {}
    file_place(file_place&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    file_place& operator=(file_place&& other) noexcept { return std::swap(of_, other.of_), *this; }
    ~file_place() {
        if (of_) of_->give_back();
    }
    explicit operator bool() const noexcept { return of_ != nullptr; }

 private:
    std::shared_ptr<file_places> of_;
};

}  // namespace holdfast::net
