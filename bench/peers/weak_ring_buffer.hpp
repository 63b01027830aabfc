// SPDX-License-Identifier: Apache-2.0
// weak_ring_buffer.hpp - cds::container::WeakRingBuffer of libcds between two threads, with its operations for many
// elements, which move all of them or none: a receiver waits for a whole batch, as senders send it. A power of two of
// places, for which it needs no division.
#pragma once

// Its assertions, which only builds without optimisation have, take a full ring for a broken one (2.3.3).
#ifdef NDEBUG
#include <cds/container/weak_ringbuffer.h>
#else
#define NDEBUG
#include <cds/container/weak_ringbuffer.h>
#undef NDEBUG
#include <cassert>
#endif

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "workload/queue_own.hpp"

namespace holdfast::bench {

template <std::size_t Bytes>
class weak_ring_buffer {
    using message = workload::fixed_message<Bytes>;
    using ring = cds::container::WeakRingBuffer<message>;

 public:
    static constexpr std::string_view name = "cds::container::WeakRingBuffer";
    static constexpr workload::far_place place = workload::far_place::thread;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return HOLDFAST_BENCH_LIBCDS; }

    weak_ring_buffer(const workload::channel_request& request, std::string_view)
        : ring_(std::make_unique<ring>(std::bit_ceil(request.ring_bytes / Bytes))) {}
    void open_sender() {}
    void open_receiver() {}

    std::size_t send(std::span<const std::byte> messages) {
        const auto* const from = reinterpret_cast<const message*>(messages.data());
        const std::size_t count = messages.size() / Bytes;
        return ring_->push(from, count) ? count : 0;
    }
    std::size_t receive(std::span<std::byte> out) {
        auto* const to = reinterpret_cast<message*>(out.data());
        const std::size_t count = out.size() / Bytes;
        return ring_->pop(to, count) ? count : 0;
    }
    std::size_t add_up(std::size_t most, workload::words_seen& seen) {
        std::size_t got = 0;
        for (; got < most; ++got) {
            const message* const front = ring_->front();
            if (front == nullptr) break;
            seen.add<Bytes>(front, got == 0);
            (void)ring_->pop_front();
        }
        return got;
    }

 private:
    std::unique_ptr<ring> ring_;
};

}  // namespace holdfast::bench
