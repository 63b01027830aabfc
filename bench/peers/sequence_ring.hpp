// SPDX-License-Identifier: Apache-2.0
// sequence_ring.hpp - a ring of sequence locks, written for the comparison: the least that readers without torn
// messages and with exact losses can do where messages have one size. Each slot has a word in front of the message: 2 n
// + 1 while message n is being written there, 2 n + 2 once it is. Nothing in it survives a killed writer, tells a
// reader where the oldest message is, or takes messages of several sizes. In pages that two processes share. All
// orders: the word is stored with release behind and in front of the message's relaxed words (and a fence between the
// first and them), and loaded with acquire in front of them and relaxed behind a fence; the usual sequence lock.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/detail/shared_copy.hpp"
#include "workload/queue_own.hpp"

namespace holdfast::bench {

template <std::size_t Bytes>
class sequence_ring {
    struct slot {
        std::atomic<std::uint64_t> sequence;
        std::byte message[Bytes];
    };

 public:
    static constexpr std::string_view name = "ring of sequence locks";
    static constexpr workload::far_place place = workload::far_place::process;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return workload::own_version(); }

    sequence_ring(const workload::channel_request& request, std::string_view)
        : slots_count_(std::bit_floor(request.ring_bytes / sizeof(slot))),
          pages_(std::make_unique<workload::shared_pages>(slots_count_ * sizeof(slot))),
          slots_(reinterpret_cast<slot*>(pages_->bytes().data())) {}
    void open_sender() {}
    void open_receiver() {}

    std::size_t send(std::span<const std::byte> messages) {
        for (std::size_t at = 0; at < messages.size(); at += Bytes, ++next_) {
            slot& s = slots_[next_ & (slots_count_ - 1)];
            // Relaxed: kept in front of the message by the fence, which pairs with the one in receive().
            s.sequence.store(2 * next_ + 1, std::memory_order_relaxed);
            std::atomic_thread_fence(std::memory_order_release);
            detail::copy_to_shared(s.message, messages.data() + at, Bytes);
            s.sequence.store(2 * next_ + 2, std::memory_order_release);  // pairs with the acquire in receive()
        }
        return messages.size() / Bytes;
    }
    std::size_t receive(std::span<std::byte> out) {
        std::size_t got = 0;
        while (got < out.size() / Bytes) {
            const slot& s = slots_[wanted_ & (slots_count_ - 1)];
            const std::uint64_t before =
                s.sequence.load(std::memory_order_acquire);  // pairs with the release in send()
            if (before < 2 * wanted_ + 2) break;
            detail::copy_from_shared(out.data() + got * Bytes, s.message, Bytes);
            std::atomic_thread_fence(std::memory_order_acquire);                  // pairs with the fence in send()
            if (s.sequence.load(std::memory_order_relaxed) == 2 * wanted_ + 2) {  // relaxed: behind the fence
                ++wanted_;
                ++got;
                continue;
            }
            // Overrun: a quarter of the ring ahead of the slowest message that may still be there.
            const std::uint64_t number = (before - 1) / 2, next = number - slots_count_ + slots_count_ / 4 + 1;
            if (number >= slots_count_ && next > wanted_) {
                lost_ += next - wanted_;
                wanted_ = next;
            }
        }
        return got;
    }
    [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
    std::uint64_t slots_count_;
    std::unique_ptr<workload::shared_pages> pages_;
    slot* slots_;
    std::uint64_t next_ = 0;               // writer
    std::uint64_t wanted_ = 0, lost_ = 0;  // reader
};

}  // namespace holdfast::bench
