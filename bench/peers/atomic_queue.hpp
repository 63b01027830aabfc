// SPDX-License-Identifier: Apache-2.0
// atomic_queue.hpp - atomic_queue in its form for one producer and one consumer, between two threads: AtomicQueueB for
// words (an element is its own flag), AtomicQueueB2 for the rest, both for throughput. It has no operation for many
// elements, and its place for an element must be free before the next is tried.
#pragma once

#include <atomic_queue/atomic_queue.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "workload/queue_own.hpp"

namespace holdfast::bench {

template <std::size_t Bytes>
class atomic_queue_channel {
    // Words of the pattern are never 0, which is what it takes for "nothing here".
    using element = std::conditional_t<Bytes == 8, std::uint64_t, workload::fixed_message<Bytes>>;
    template <class T>
    using words = ::atomic_queue::AtomicQueueB<T, std::allocator<T>, T{}, true, false, true>;
    template <class T>
    using structs = ::atomic_queue::AtomicQueueB2<T, std::allocator<T>, true, false, true>;
    template <std::size_t B, class T>
    struct chosen {
        using type = structs<T>;
    };
    template <class T>
    struct chosen<8, T> {
        using type = words<T>;
    };
    using queue = typename chosen<Bytes, element>::type;

 public:
    static constexpr std::string_view name = "atomic_queue";
    static constexpr workload::far_place place = workload::far_place::thread;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return HOLDFAST_BENCH_ATOMIC_QUEUE; }

    atomic_queue_channel(const workload::channel_request& request, std::string_view)
        : queue_(std::make_unique<queue>(static_cast<unsigned>(request.ring_bytes / Bytes))) {}
    void open_sender() {}
    void open_receiver() {}

    std::size_t send(std::span<const std::byte> messages) {
        const auto* const from = reinterpret_cast<const element*>(messages.data());
        const std::size_t count = messages.size() / Bytes;
        std::size_t sent = 0;
        while (sent < count && queue_->try_push(from[sent])) ++sent;
        return sent;
    }
    std::size_t receive(std::span<std::byte> out) {
        auto* const to = reinterpret_cast<element*>(out.data());
        const std::size_t count = out.size() / Bytes;
        std::size_t got = 0;
        while (got < count && queue_->try_pop(to[got])) ++got;
        return got;
    }

 private:
    std::unique_ptr<queue> queue_;
};

}  // namespace holdfast::bench
