// SPDX-License-Identifier: Apache-2.0
// sequence_lock.hpp - the textbook sequence lock: one object, a version that is odd while it is written, readers that
// copy and look at the version again. Written for this comparison, with the copies of our own containers, as fast as
// memcpy; Boehm, Can Seqlocks Get Along with Programming Language Memory Models, MSPC 2012,
// doi:10.1145/2247684.2247688. Readers wait for the writer, for ever if it dies while writing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/detail/shared_copy.hpp"
#include "workload/shared_pages.hpp"
#include "workload/snapshot_subject.hpp"

namespace holdfast::bench {

class sequence_lock {
 public:
    static constexpr std::string_view name = "sequence lock";
    static constexpr workload::far_place place = workload::far_place::process;
    static std::string version() { return "written for this comparison"; }
    explicit sequence_lock(const workload::snapshot_request& request)
        : words_(request.words),
          pages_(std::make_unique<workload::shared_pages>(line + bytes())),
          sequence_(*::new(pages_->bytes().data()) word(0)),
          object_(pages_->bytes().data() + (sizeof(word) + bytes() <= line ? sizeof(word) : line)) {}
    void open_writer() {}
    void open_reader() {}

    bool read(std::span<std::uint64_t> out) {
        for (;;) {
            // Acquire: pairs with the release store that ends publish(); what is read below is that version's or newer.
            const std::uint64_t before = sequence_.load(std::memory_order_acquire);
            if (before % 2 != 0) continue;
            detail::copy_from_shared_here(reinterpret_cast<std::byte*>(out.data()), object_, bytes());
            // The fence keeps the second look at the version behind the copy.
            std::atomic_thread_fence(std::memory_order_acquire);
            if (sequence_.load(std::memory_order_relaxed) == before) return true;
        }
    }
    bool publish(std::span<const std::uint64_t> object) {
        // Relaxed: this thread alone writes it. The fence keeps the copy behind the odd version.
        const std::uint64_t before = sequence_.load(std::memory_order_relaxed);
        sequence_.store(before + 1, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        detail::copy_to_shared(object_, reinterpret_cast<const std::byte*>(object.data()), bytes());
        // Release: whoever sees the even version sees its object.
        sequence_.store(before + 2, std::memory_order_release);
        return true;
    }

 private:
    using word = std::atomic<std::uint64_t>;
    static constexpr std::size_t line = 64;
    [[nodiscard]] std::size_t bytes() const noexcept { return words_ * sizeof(std::uint64_t); }

    std::size_t words_;
    std::unique_ptr<workload::shared_pages> pages_;
    word& sequence_;
    std::byte* object_;  // a small one right behind it, in the same line; a larger one begins with the next
};

}  // namespace holdfast::bench
