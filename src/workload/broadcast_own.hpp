// SPDX-License-Identifier: Apache-2.0
// broadcast_own.hpp - rings whose writer never waits: ours, and a ring of messages under a std::shared_mutex.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "workload/queue_own.hpp"

namespace holdfast::workload {

/// Ours. A batch is a transaction; the reader of the other process registers nowhere.
template <std::size_t Bytes, taking How>
class own_broadcast {
 public:
    static constexpr std::string_view name = How == taking::in_place ? "holdfast, read in place" : "holdfast";
    static constexpr far_place place = far_place::process;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return own_version(); }

    own_broadcast(const channel_request& request, std::string_view way)
        : name_(request, way), ring_bytes_(request.ring_bytes) {}
    void open_sender() {
        broadcast_options options;
        options.capacity_bytes = ring_bytes_;
        writer_.emplace(broadcast_writer::create(name_.uri(), options));
    }
    void open_receiver() { reader_.emplace(broadcast_reader::attach(name_.uri(), broadcast_start::latest())); }

    std::size_t send(std::span<const std::byte> messages) {
        if (messages.size() == Bytes) return writer_->publish(messages) ? 1 : 0;
        std::size_t at = 0;
        while (at < messages.size() && writer_->append(messages.subspan(at, Bytes))) at += Bytes;
        return writer_->commit() ? at / Bytes : 0;
    }
    std::size_t receive(std::span<std::byte> out) {
        std::size_t count = 0;
        for (; count < out.size() / Bytes; ++count) {
            const broadcast_read got = read(out.subspan(count * Bytes, Bytes));
            if (got) continue;
            if (got.status == outcome::lapped) lost_ += got.count;
            break;
        }
        return count;
    }
    [[nodiscard]] std::uint64_t lost() const { return lost_; }
    [[nodiscard]] std::uint64_t sum() const
        requires(How == taking::in_place)
    {
        return sum_;
    }

 private:
    broadcast_read read(std::span<std::byte> out) {
        if constexpr (How == taking::copied) return reader_->read(out);
        std::uint64_t sum = 0, first = 0;
        const broadcast_read got = reader_->visit([&](std::span<const std::byte> message, std::uint16_t) noexcept {
            if (message.size() != Bytes) return;
            first = holdfast::detail::shared_load<std::uint64_t>(message.data());
            for (std::size_t at = 0; at < Bytes; at += 8)
                sum += holdfast::detail::shared_load<std::uint64_t>(message.data() + at);
        });
        if (got) {
            sum_ += sum;
            std::memcpy(out.data(), &first, 8);
        }
        return got;
    }

    channel_name name_;
    std::uint64_t ring_bytes_;
    std::optional<broadcast_writer> writer_;
    std::optional<broadcast_reader> reader_;
    std::uint64_t lost_ = 0, sum_ = 0;
};

/// Numbered messages in a std::vector under a std::shared_mutex, between two threads.
template <std::size_t Bytes>
class locked_ring {
    using message = fixed_message<Bytes>;
    struct shared {
        std::shared_mutex mutex;
        std::vector<message> messages;
        std::uint64_t end = 0;  // number of the next message
    };

 public:
    static constexpr std::string_view name = "std::shared_mutex and a ring of std::vector";
    static constexpr far_place place = far_place::thread;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return standard_library_version(); }

    locked_ring(const channel_request& request, std::string_view) : shared_(std::make_unique<shared>()) {
        shared_->messages.resize(request.ring_bytes / Bytes);
    }
    void open_sender() {}
    void open_receiver() {}

    std::size_t send(std::span<const std::byte> messages) {
        const std::unique_lock hold(shared_->mutex);
        for (std::size_t at = 0; at < messages.size(); at += Bytes)
            std::memcpy(&shared_->messages[shared_->end++ % shared_->messages.size()], messages.data() + at, Bytes);
        return messages.size() / Bytes;
    }
    std::size_t receive(std::span<std::byte> out) {
        const std::shared_lock hold(shared_->mutex);
        const std::uint64_t size = shared_->messages.size();
        if (shared_->end - at_ > size) {
            lost_ += shared_->end - at_ - size;
            at_ = shared_->end - size;
        }
        const std::size_t count = static_cast<std::size_t>(std::min(shared_->end - at_, out.size() / Bytes));
        for (std::size_t i = 0; i < count; ++i)
            std::memcpy(out.data() + i * Bytes, &shared_->messages[at_++ % size], Bytes);
        return count;
    }
    [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
    std::unique_ptr<shared> shared_;
    std::uint64_t at_ = 0, lost_ = 0;  // of the reader
};

}  // namespace holdfast::workload
