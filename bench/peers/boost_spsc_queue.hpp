// SPDX-License-Identifier: Apache-2.0
// boost_spsc_queue.hpp - boost::lockfree::spsc_queue with its operations for many elements, in pages that two processes
// share. Its size is chosen at run time; its pointer to the elements is good in both, since the pages are mapped before
// the second one is forked.
#pragma once

#include <boost/lockfree/spsc_queue.hpp>
#include <boost/version.hpp>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "workload/queue_own.hpp"

namespace holdfast::bench {

/// Gives one block of shared pages once.
template <class T>
class one_block_allocator {
 public:
    using value_type = T;
    explicit one_block_allocator(std::byte* block) noexcept : block_(block) {}
    template <class U>
    one_block_allocator(const one_block_allocator<U>& other) noexcept
        : block_(other.block()) {}  // NOLINT: they convert
    [[nodiscard]] T* allocate(std::size_t) { return reinterpret_cast<T*>(block_); }
    void deallocate(T*, std::size_t) noexcept {}
    [[nodiscard]] std::byte* block() const noexcept { return block_; }
    template <class U>
    friend bool operator==(const one_block_allocator& a, const one_block_allocator<U>& b) noexcept {
        return a.block() == b.block();
    }

 private:
    std::byte* block_;
};

template <std::size_t Bytes>
class boost_spsc_queue {
    using message = workload::fixed_message<Bytes>;
    using queue = boost::lockfree::spsc_queue<message, boost::lockfree::allocator<one_block_allocator<message>>>;
    static constexpr std::size_t head_bytes = 4096;
    static_assert(sizeof(queue) <= head_bytes);

 public:
    static constexpr std::string_view name = "boost::lockfree::spsc_queue";
    static constexpr workload::far_place place = workload::far_place::process;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() {
        return "Boost " + std::to_string(BOOST_VERSION / 100000) + "." + std::to_string(BOOST_VERSION / 100 % 1000);
    }

    boost_spsc_queue(const workload::channel_request& request, std::string_view)
        : pages_(std::make_unique<workload::shared_pages>(head_bytes + request.ring_bytes + 64 * Bytes)),
          queue_(::new(pages_->bytes().data()) queue(
              request.ring_bytes / Bytes, one_block_allocator<message>(pages_->bytes().data() + head_bytes))) {}
    void open_sender() {}
    void open_receiver() {}

    std::size_t send(std::span<const std::byte> messages) {
        const auto* const from = reinterpret_cast<const message*>(messages.data());
        return messages.size() == Bytes ? (queue_->push(*from) ? 1U : 0U) : queue_->push(from, messages.size() / Bytes);
    }
    std::size_t receive(std::span<std::byte> out) {
        auto* const to = reinterpret_cast<message*>(out.data());
        return out.size() == Bytes ? (queue_->pop(*to) ? 1U : 0U) : queue_->pop(to, out.size() / Bytes);
    }
    /// For more than one there is consume_all() alone, which releases once for all that are there.
    std::size_t add_up(std::size_t most, workload::words_seen& seen) {
        bool first = true;
        const auto look = [&](const message& m) { seen.add<Bytes>(&m, std::exchange(first, false)); };
        return most == 1 ? (queue_->consume_one(look) ? 1U : 0U) : queue_->consume_all(look);
    }

 private:
    std::unique_ptr<workload::shared_pages> pages_;
    queue* queue_;  // never destroyed: its elements need it not, and the other process may be looking
};

}  // namespace holdfast::bench
