// SPDX-License-Identifier: Apache-2.0
// reader_writer_queue.hpp - moodycamel::ReaderWriterQueue between two threads, with all of its blocks made at once and
// try_enqueue, which never allocates. It has no operation for many elements.
#pragma once

#include <readerwriterqueue.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "workload/queue_own.hpp"

namespace holdfast::bench {

template <std::size_t Bytes>
class reader_writer_queue {
    using message = workload::fixed_message<Bytes>;

 public:
    static constexpr std::string_view name = "moodycamel::ReaderWriterQueue";
    static constexpr workload::far_place place = workload::far_place::thread;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return HOLDFAST_BENCH_RWQUEUE; }

    reader_writer_queue(const workload::channel_request& request, std::string_view)
        : queue_(std::make_unique<moodycamel::ReaderWriterQueue<message>>(request.ring_bytes / Bytes)) {}
    void open_sender() {}
    void open_receiver() {}

    std::size_t send(std::span<const std::byte> messages) {
        const auto* const from = reinterpret_cast<const message*>(messages.data());
        const std::size_t count = messages.size() / Bytes;
        std::size_t sent = 0;
        while (sent < count && queue_->try_enqueue(from[sent])) ++sent;
        return sent;
    }
    std::size_t receive(std::span<std::byte> out) {
        auto* const to = reinterpret_cast<message*>(out.data());
        const std::size_t count = out.size() / Bytes;
        std::size_t got = 0;
        while (got < count && queue_->try_dequeue(to[got])) ++got;
        return got;
    }
    std::size_t add_up(std::size_t most, workload::words_seen& seen) {
        std::size_t got = 0;
        for (; got < most; ++got) {
            const message* const front = queue_->peek();
            if (front == nullptr) break;
            seen.add<Bytes>(front, got == 0);
            queue_->pop();
        }
        return got;
    }

 private:
    std::unique_ptr<moodycamel::ReaderWriterQueue<message>> queue_;
};

}  // namespace holdfast::bench
