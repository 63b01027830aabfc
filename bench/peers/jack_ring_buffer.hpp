// SPDX-License-Identifier: Apache-2.0
// jack_ring_buffer.hpp - the ring buffer of the JACK audio library between two threads: bytes, of which whole messages
// only are moved here, many in one call. A power of two of bytes, one of them never used, so a message of a power of
// two never lies across the end and can be read in place.
#pragma once

#include <jack/ringbuffer.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "workload/queue_own.hpp"

namespace holdfast::bench {

template <std::size_t Bytes>
class jack_ring_buffer {
    static_assert(std::has_single_bit(Bytes));

 public:
    static constexpr std::string_view name = "jack_ringbuffer";
    static constexpr workload::far_place place = workload::far_place::thread;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return HOLDFAST_BENCH_JACK; }

    jack_ring_buffer(const workload::channel_request& request, std::string_view)
        : ring_(jack_ringbuffer_create(std::bit_ceil(request.ring_bytes)), &jack_ringbuffer_free) {
        if (!ring_) throw std::bad_alloc();
    }
    void open_sender() {}
    void open_receiver() {}

    std::size_t send(std::span<const std::byte> messages) {
        const std::size_t room = jack_ringbuffer_write_space(ring_.get()) / Bytes * Bytes;
        const std::size_t bytes = std::min(room, messages.size());
        return jack_ringbuffer_write(ring_.get(), reinterpret_cast<const char*>(messages.data()), bytes) / Bytes;
    }
    std::size_t receive(std::span<std::byte> out) {
        // All that is there was written as whole messages; `out` has room for whole ones.
        return jack_ringbuffer_read(ring_.get(), reinterpret_cast<char*>(out.data()), out.size()) / Bytes;
    }
    std::size_t add_up(std::size_t most, workload::words_seen& seen) {
        std::array<jack_ringbuffer_data_t, 2> parts{};
        jack_ringbuffer_get_read_vector(ring_.get(), parts.data());
        std::size_t got = 0;
        for (const jack_ringbuffer_data_t& part : parts)
            for (std::size_t at = 0; at + Bytes <= part.len && got < most; at += Bytes, ++got)
                seen.add<Bytes>(reinterpret_cast<const workload::fixed_message<Bytes>*>(part.buf + at), got == 0);
        jack_ringbuffer_read_advance(ring_.get(), got * Bytes);
        return got;
    }

 private:
    std::unique_ptr<jack_ringbuffer_t, void (*)(jack_ringbuffer_t*)> ring_;
};

}  // namespace holdfast::bench
