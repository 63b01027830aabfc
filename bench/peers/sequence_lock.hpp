// SPDX-License-Identifier: Apache-2.0
// sequence_lock.hpp - the textbook sequence lock: one object, a version that is odd while it is written, readers that
// copy and look at the version again. Written for this comparison; Boehm, Can Seqlocks Get Along with Programming
// Language Memory Models, MSPC 2012, doi:10.1145/2247684.2247688. Readers wait for the writer, for ever if it dies
// while writing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>

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
          pages_(std::make_unique<workload::shared_pages>((1 + words_) * sizeof(word))),
          sequence_(*::new(pages_->bytes().data()) word(0)),
          object_(&sequence_ + 1) {
        for (std::size_t i = 0; i < words_; ++i) ::new (object_ + i) word(0);
    }
    void open_writer() {}
    void open_reader() {}

    bool read(std::span<std::uint64_t> out) {
        for (;;) {
            // Acquire: pairs with the release store that ends publish(); the words read below are that version's or
            // newer.
            const std::uint64_t before = sequence_.load(std::memory_order_acquire);
            if (before % 2 != 0) continue;
            // Relaxed words; the fence keeps the second look at the version behind them.
            for (std::size_t i = 0; i < words_; ++i) out[i] = object_[i].load(std::memory_order_relaxed);
            std::atomic_thread_fence(std::memory_order_acquire);
            if (sequence_.load(std::memory_order_relaxed) == before) return true;
        }
    }
    bool publish(std::span<const std::uint64_t> object) {
        // Relaxed: this thread alone writes it. The fence keeps the words behind the odd version.
        const std::uint64_t before = sequence_.load(std::memory_order_relaxed);
        sequence_.store(before + 1, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        for (std::size_t i = 0; i < words_; ++i) object_[i].store(object[i], std::memory_order_relaxed);
        // Release: whoever sees the even version sees its words.
        sequence_.store(before + 2, std::memory_order_release);
        return true;
    }

 private:
    using word = std::atomic<std::uint64_t>;
    std::size_t words_;
    std::unique_ptr<workload::shared_pages> pages_;
    word& sequence_;
    word* object_;  // right behind it: a small object lies in the same line
};

}  // namespace holdfast::bench
