// SPDX-License-Identifier: Apache-2.0
// iceoryx_fifo.hpp - iox::concurrent::FiFo of iceoryx, in pages that two processes share: it holds no pointers. It has
// no operation for many elements, nor one that looks at an element in place, and its places are part of its type.
// A place is given back by a relaxed store: where the compiler, or a processor other than x86-64, moves that before the
// copy, messages may come torn, which would end the run.
#pragma once

#include <iceoryx_hoofs/internal/concurrent/fifo.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "workload/queue_own.hpp"

namespace holdfast::bench {

template <std::size_t Bytes>
class iceoryx_fifo {
    using message = workload::fixed_message<Bytes>;
    template <std::uint64_t RingBytes>
    using fifo = iox::concurrent::FiFo<message, RingBytes / Bytes>;
    using test_fifo = fifo<64 << 10>;
    using small_fifo = fifo<256 << 10>;
    using large_fifo = fifo<4 << 20>;

 public:
    static constexpr std::string_view name = "iox::concurrent::FiFo";
    static constexpr workload::far_place place = workload::far_place::process;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return HOLDFAST_BENCH_ICEORYX; }

    iceoryx_fifo(const workload::channel_request& request, std::string_view)
        : pages_(std::make_unique<workload::shared_pages>(request.ring_bytes + sizeof(large_fifo) -
                                                          large_fifo::capacity() * Bytes)),
          fifo_(made(request.ring_bytes)) {}
    void open_sender() {}
    void open_receiver() {}

    std::size_t send(std::span<const std::byte> messages) {
        const auto* const from = reinterpret_cast<const message*>(messages.data());
        const std::size_t count = messages.size() / Bytes;
        return std::visit(
            [&](auto* to) {
                std::size_t done = 0;
                while (done < count && to->push(from[done])) ++done;
                return done;
            },
            fifo_);
    }
    std::size_t receive(std::span<std::byte> out) {
        auto* const to = reinterpret_cast<message*>(out.data());
        const std::size_t count = out.size() / Bytes;
        return std::visit(
            [&](auto* from) {
                std::size_t done = 0;
                for (; done < count; ++done) {
                    const auto taken = from->pop();
                    if (!taken) break;
                    to[done] = *taken;
                }
                return done;
            },
            fifo_);
    }

 private:
    // Never destroyed: its elements need it not, and the other process may be looking.
    using any_fifo = std::variant<test_fifo*, small_fifo*, large_fifo*>;

    [[nodiscard]] any_fifo made(std::uint64_t ring_bytes) {
        void* const at = pages_->bytes().data();
        switch (ring_bytes / Bytes) {
            case test_fifo::capacity(): return ::new (at) test_fifo;
            case small_fifo::capacity(): return ::new (at) small_fifo;
            case large_fifo::capacity(): return ::new (at) large_fifo;
            default: throw std::invalid_argument(std::string(name) + ": no type for a ring of this size");
        }
    }

    std::unique_ptr<workload::shared_pages> pages_;
    any_fifo fifo_;
};

}  // namespace holdfast::bench
