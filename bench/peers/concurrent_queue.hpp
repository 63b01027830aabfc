// SPDX-License-Identifier: Apache-2.0
// concurrent_queue.hpp - moodycamel::ConcurrentQueue between two threads: made for many of each, here with one producer
// that has a token, a consumer that takes from that producer alone, all blocks made at once, and its operations for
// many elements, which never allocate. The index of its blocks, which only operations that allocate could enlarge, has
// room for those of the suites' largest ring from the start: with the 32 that it has else it would hold 1024 messages.
#pragma once

#include <concurrentqueue/concurrentqueue.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "workload/queue_own.hpp"

namespace holdfast::bench {

template <std::size_t Bytes>
class concurrent_queue {
    using message = workload::fixed_message<Bytes>;
    struct traits : moodycamel::ConcurrentQueueDefaultTraits {
        static const std::size_t EXPLICIT_INITIAL_INDEX_SIZE =
            std::bit_ceil(2 * (std::size_t{4} << 20) / Bytes / ConcurrentQueueDefaultTraits::BLOCK_SIZE);
    };
    struct shared {
        explicit shared(std::size_t capacity) : queue(capacity, 1, 0), token(queue) {}
        moodycamel::ConcurrentQueue<message, traits> queue;
        moodycamel::ProducerToken token;
    };

 public:
    static constexpr std::string_view name = "moodycamel::ConcurrentQueue";
    static constexpr workload::far_place place = workload::far_place::thread;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return HOLDFAST_BENCH_CONCURRENTQUEUE; }

    concurrent_queue(const workload::channel_request& request, std::string_view)
        : shared_(std::make_unique<shared>(request.ring_bytes / Bytes)) {}
    void open_sender() {}
    void open_receiver() {}

    std::size_t send(std::span<const std::byte> messages) {
        const auto* const from = reinterpret_cast<const message*>(messages.data());
        const std::size_t count = messages.size() / Bytes;
        if (count == 1) return shared_->queue.try_enqueue(shared_->token, *from) ? 1 : 0;
        return shared_->queue.try_enqueue_bulk(shared_->token, from, count) ? count : 0;
    }
    std::size_t receive(std::span<std::byte> out) {
        auto* const to = reinterpret_cast<message*>(out.data());
        const std::size_t count = out.size() / Bytes;
        if (count == 1) return shared_->queue.try_dequeue_from_producer(shared_->token, *to) ? 1 : 0;
        return shared_->queue.try_dequeue_bulk_from_producer(shared_->token, to, count);
    }

 private:
    std::unique_ptr<shared> shared_;
};

}  // namespace holdfast::bench
