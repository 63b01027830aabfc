// SPDX-License-Identifier: Apache-2.0
// spa_ring_buffer.hpp - PipeWire's spa_ringbuffer between two threads: two positions, side by side, over bytes of its
// user's, of which whole messages only are moved here, many in one call. A power of two of bytes, so a message of a
// power of two never lies across the end and can be read in place.
#pragma once

#include <spa/utils/ringbuffer.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "workload/queue_own.hpp"

namespace holdfast::bench {

template <std::size_t Bytes>
class spa_ring_buffer {
    static_assert(std::has_single_bit(Bytes));

 public:
    static constexpr std::string_view name = "spa_ringbuffer";
    static constexpr workload::far_place place = workload::far_place::thread;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return HOLDFAST_BENCH_SPA; }

    spa_ring_buffer(const workload::channel_request& request, std::string_view)
        : mask_(static_cast<std::uint32_t>(std::bit_ceil(request.ring_bytes)) - 1),
          bytes_(std::make_unique<std::byte[]>(mask_ + std::size_t{1})) {}
    void open_sender() {}
    void open_receiver() {}

    std::size_t send(std::span<const std::byte> messages) {
        std::uint32_t at = 0;
        const std::uint32_t room = mask_ + 1 - static_cast<std::uint32_t>(spa_ringbuffer_get_write_index(&ring_, &at));
        const std::uint32_t bytes = whole(room, messages.size());
        spa_ringbuffer_write_data(&ring_, bytes_.get(), mask_ + 1, at & mask_, messages.data(), bytes);
        spa_ringbuffer_write_update(&ring_, static_cast<std::int32_t>(at + bytes));
        return bytes / Bytes;
    }
    std::size_t receive(std::span<std::byte> out) {
        std::uint32_t at = 0;
        const std::uint32_t bytes = whole(filled(at), out.size());
        spa_ringbuffer_read_data(&ring_, bytes_.get(), mask_ + 1, at & mask_, out.data(), bytes);
        spa_ringbuffer_read_update(&ring_, static_cast<std::int32_t>(at + bytes));
        return bytes / Bytes;
    }
    std::size_t add_up(std::size_t most, workload::words_seen& seen) {
        std::uint32_t at = 0;
        const std::size_t got = std::min<std::size_t>(filled(at) / Bytes, most);
        for (std::size_t i = 0; i < got; ++i, at += Bytes)
            seen.add<Bytes>(reinterpret_cast<const workload::fixed_message<Bytes>*>(bytes_.get() + (at & mask_)),
                            i == 0);
        spa_ringbuffer_read_update(&ring_, static_cast<std::int32_t>(at));
        return got;
    }

 private:
    /// Bytes that wait, and where they begin.
    std::uint32_t filled(std::uint32_t& at) {
        return static_cast<std::uint32_t>(spa_ringbuffer_get_read_index(&ring_, &at));
    }
    static std::uint32_t whole(std::uint32_t there, std::size_t asked) noexcept {
        return static_cast<std::uint32_t>(std::min<std::size_t>(there, asked) / Bytes * Bytes);
    }

    std::uint32_t mask_;  // one less than the bytes
    std::unique_ptr<std::byte[]> bytes_;
    alignas(64) spa_ringbuffer ring_{};
};

}  // namespace holdfast::bench
