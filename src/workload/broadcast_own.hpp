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
template <std::size_t Bytes>
class own_broadcast {
 public:
    static constexpr std::string_view name = "holdfast";
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
        if (out.size() == Bytes) return read_some(1, [&](std::size_t) { return reader_->read(out); });
        std::size_t count = 0;
        const broadcast_read got =
            reader_->read_batch(out, [&](std::span<const std::byte>, std::uint16_t) { ++count; });
        if (got.status == outcome::lapped) lost_ += got.count;
        return count;
    }
    std::size_t add_up(std::size_t most, words_seen& seen) {
        return read_some(most, [&](std::size_t i) {
            std::uint64_t sum = 0, first = 0;
            const broadcast_read got = reader_->visit([&](std::span<const std::byte> message, std::uint16_t) noexcept {
                sum = 0;
                if (message.size() != Bytes) return;
                first = holdfast::detail::shared_load<std::uint64_t>(message.data());
                for (std::size_t at = 0; at < Bytes; at += 8)
                    sum += holdfast::detail::shared_load<std::uint64_t>(message.data() + at);
            });
            if (!got) return got;
            seen.sum += sum;
            seen.last = first;
            if (i == 0) seen.first = first;
            return got;
        });
    }
    [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
    template <class Read>
    std::size_t read_some(std::size_t most, Read&& read) {
        std::size_t count = 0;
        for (; count < most; ++count) {
            const broadcast_read got = read(count);
            if (got) continue;
            if (got.status == outcome::lapped) lost_ += got.count;
            break;
        }
        return count;
    }

    channel_name name_;
    std::uint64_t ring_bytes_;
    std::optional<broadcast_writer> writer_;
    std::optional<broadcast_reader> reader_;
    std::uint64_t lost_ = 0;
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
        return take_some(out.size() / Bytes,
                         [&](std::size_t i, const message& m) { std::memcpy(out.data() + i * Bytes, &m, Bytes); });
    }
    std::size_t add_up(std::size_t most, words_seen& seen) {
        return take_some(most, [&](std::size_t i, const message& m) { seen.add<Bytes>(&m, i == 0); });
    }
    [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
    template <class Use>
    std::size_t take_some(std::size_t most, Use&& use) {
        const std::shared_lock hold(shared_->mutex);
        const std::uint64_t size = shared_->messages.size();
        if (shared_->end - at_ > size) {
            lost_ += shared_->end - at_ - size;
            at_ = shared_->end - size;
        }
        const std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(shared_->end - at_, most));
        for (std::size_t i = 0; i < count; ++i) use(i, shared_->messages[at_++ % size]);
        return count;
    }

    std::unique_ptr<shared> shared_;
    std::uint64_t at_ = 0, lost_ = 0;  // of the reader
};

}  // namespace holdfast::workload
