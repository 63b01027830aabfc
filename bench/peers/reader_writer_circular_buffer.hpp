// SPDX-License-Identifier: Apache-2.0
// reader_writer_circular_buffer.hpp - moodycamel::BlockingReaderWriterCircularBuffer between two threads, by the
// operations that never wait. It counts its free and its filled places in two semaphores, and has no operation for many
// elements and none that shows an element where it lies.
#pragma once

#include <readerwritercircularbuffer.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "workload/queue_own.hpp"

namespace holdfast::bench {

template <std::size_t Bytes>
class reader_writer_circular_buffer {
    using message = workload::fixed_message<Bytes>;

 public:
    static constexpr std::string_view name = "moodycamel::BlockingReaderWriterCircularBuffer";
    static constexpr workload::far_place place = workload::far_place::thread;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return HOLDFAST_BENCH_RWCIRCULAR; }

    reader_writer_circular_buffer(const workload::channel_request& request, std::string_view)
        : buffer_(
              std::make_unique<moodycamel::BlockingReaderWriterCircularBuffer<message>>(request.ring_bytes / Bytes)) {}
    void open_sender() {}
    void open_receiver() {}

    std::size_t send(std::span<const std::byte> messages) {
        const auto* const from = reinterpret_cast<const message*>(messages.data());
        const std::size_t count = messages.size() / Bytes;
        std::size_t sent = 0;
        while (sent < count && buffer_->try_enqueue(from[sent])) ++sent;
        return sent;
    }
    std::size_t receive(std::span<std::byte> out) {
        auto* const to = reinterpret_cast<message*>(out.data());
        const std::size_t count = out.size() / Bytes;
        std::size_t got = 0;
        while (got < count && buffer_->try_dequeue(to[got])) ++got;
        return got;
    }

 private:
    std::unique_ptr<moodycamel::BlockingReaderWriterCircularBuffer<message>> buffer_;
};

}  // namespace holdfast::bench
