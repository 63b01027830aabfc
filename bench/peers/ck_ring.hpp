// SPDX-License-Identifier: Apache-2.0
// ck_ring.hpp - Concurrency Kit's ck_ring for one producer and one consumer, between two threads. It has no operation
// for many elements, nor one that looks at an element in place.
#pragma once

#include <bit>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "bench/peers/ck_ring.h"
#include "workload/queue_own.hpp"

namespace holdfast::bench {

template <std::size_t Bytes>
class ck_ring_queue {
 public:
    static constexpr std::string_view name = "ck_ring";
    static constexpr workload::far_place place = workload::far_place::thread;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return HOLDFAST_BENCH_CK; }

    ck_ring_queue(const workload::channel_request& request, std::string_view)
        : ring_(holdfast_bench_ck_make(static_cast<unsigned>(std::bit_ceil(request.ring_bytes / Bytes)), Bytes),
                &holdfast_bench_ck_free) {
        if (!ring_) throw std::bad_alloc();
    }
    void open_sender() {}
    void open_receiver() {}

    std::size_t send(std::span<const std::byte> messages) {
        return holdfast_bench_ck_send(ring_.get(), messages.data(), messages.size() / Bytes);
    }
    std::size_t receive(std::span<std::byte> out) {
        return holdfast_bench_ck_receive(ring_.get(), out.data(), out.size() / Bytes);
    }

 private:
    std::unique_ptr<holdfast_bench_ck_ring, void (*)(holdfast_bench_ck_ring*)> ring_;
};

}  // namespace holdfast::bench
