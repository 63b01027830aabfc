// SPDX-License-Identifier: Apache-2.0
// queue_own.hpp - the queues that need no package: ours in their forms, and what the system and the standard library
// have for the same purpose.
//
// Ours are shared by name (tmpfs) and attached by the other process. Peers cannot sleep, so ours stand first without
// their bell; with it they are a subject of their own.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "holdfast/detail/concat.hpp"
#include "holdfast/memory/descriptor.hpp"
#include "holdfast/queue.hpp"
#include "workload/channel_subject.hpp"
#include "workload/instruction_set.hpp"

namespace holdfast::workload {

/// A message as a type: for queues of elements.
template <std::size_t Bytes>
struct fixed_message {
    std::array<std::uint64_t, Bytes / 8> words;
};

/// The name of what an adapter makes in shared memory; takes it away at last. Requires: whoever holds the lease in this
/// process is gone before, and the other process too.
class channel_name {
 public:
    channel_name(const channel_request& request, std::string_view way)
        : uri_(holdfast::detail::concat("posix:/", request.name, "-", way)) {}
    channel_name(const channel_name&) = delete;
    channel_name& operator=(const channel_name&) = delete;
    ~channel_name() {
        try {
            segment::remove(uri_);
        } catch (const std::exception&) {  // it was never made, or the run's names are taken away in another way
        }
    }
    [[nodiscard]] const std::string& uri() const noexcept { return uri_; }

 private:
    std::string uri_;
};

/// Ours: the ring by index.
template <std::size_t Bytes, bool Rings>
class own_typed_queue {
    using message = fixed_message<Bytes>;

 public:
    static constexpr std::string_view name = Rings ? "holdfast, queue<T> that wakes sleepers" : "holdfast, queue<T>";
    static constexpr far_place place = far_place::process;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return own_version(); }

    own_typed_queue(const channel_request& request, std::string_view way)
        : name_(request, way), capacity_(request.ring_bytes / Bytes) {}
    void open_sender() {
        producer_.emplace(queue<message>::producer::create(name_.uri(), {.capacity = capacity_, .rings = Rings}));
    }
    void open_receiver() { consumer_.emplace(queue<message>::consumer::attach(name_.uri())); }

    std::size_t send(std::span<const std::byte> messages) {
        const std::span from(reinterpret_cast<const message*>(messages.data()), messages.size() / Bytes);
        return static_cast<std::size_t>(producer_->try_push(from).status == outcome::ok ? from.size() : 0);
    }
    std::size_t receive(std::span<std::byte> out) {
        const std::span to(reinterpret_cast<message*>(out.data()), out.size() / Bytes);
        const result got = consumer_->try_pop(to);
        return got ? static_cast<std::size_t>(got.count) : 0;
    }
    std::size_t add_up(std::size_t most, words_seen& seen) {
        const auto block = consumer_->front_block(most);
        for (const message& each : block.values) seen.add<Bytes>(&each, &each == block.values.data());
        consumer_->pop(block.values.size());
        return block.values.size();
    }

 private:
    channel_name name_;
    std::uint64_t capacity_;
    std::optional<typename queue<message>::producer> producer_;
    std::optional<typename queue<message>::consumer> consumer_;
};

/// Ours: the ring of records. A batch is a transaction; what of it does not fit goes with the next.
template <std::size_t Bytes, bool Rings>
class own_byte_queue {
 public:
    static constexpr std::string_view name = Rings ? "holdfast, queue that wakes sleepers" : "holdfast";
    static constexpr far_place place = far_place::process;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return own_version(); }

    own_byte_queue(const channel_request& request, std::string_view way)
        : name_(request, way), ring_bytes_(request.ring_bytes) {}
    void open_sender() {
        producer_.emplace(queue_producer::create(name_.uri(), {.capacity_bytes = ring_bytes_, .rings = Rings}));
    }
    void open_receiver() { consumer_.emplace(queue_consumer::attach(name_.uri())); }

    std::size_t send(std::span<const std::byte> messages) {
        if (messages.size() == Bytes) return producer_->try_push(messages) ? 1 : 0;
        producer_->begin_batch();
        std::size_t at = 0;
        while (at < messages.size() && producer_->try_push(messages.subspan(at, Bytes))) at += Bytes;
        producer_->commit_batch();
        return at / Bytes;
    }
    std::size_t receive(std::span<std::byte> out) {
        if (out.size() == Bytes) return consumer_->try_pop(out) ? 1 : 0;
        const result got = consumer_->drain(out.size() / Bytes, [&](const queue_message& message) {
            std::memcpy(out.data(), message.bytes.data(), Bytes);
            out = out.subspan(Bytes);
        });
        return static_cast<std::size_t>(got.count);
    }
    std::size_t add_up(std::size_t most, words_seen& seen) {
        bool first = true;
        const result got = consumer_->drain(most, [&](const queue_message& message) {
            seen.add<Bytes>(message.bytes.data(), std::exchange(first, false));
        });
        return static_cast<std::size_t>(got.count);
    }

 private:
    channel_name name_;
    std::uint64_t ring_bytes_;
    std::optional<queue_producer> producer_;
    std::optional<queue_consumer> consumer_;
};

[[nodiscard]] inline std::string kernel_version() {
    struct utsname system{};
    return ::uname(&system) == 0 ? "Linux " + std::string(system.release) : "Linux";
}

/// A pipe of the largest buffer, or a pair of stream sockets; neither end sleeps, which is faster with a core each.
template <std::size_t Bytes, bool Socket>
class kernel_stream {
 public:
    static constexpr std::string_view name = Socket ? "unix socket" : "pipe";
    static constexpr far_place place = far_place::process;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return kernel_version(); }

    kernel_stream(const channel_request& request, std::string_view) {
        int ends[2];
        const int made = Socket ? ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends)
                                : ::pipe2(ends, O_NONBLOCK | O_CLOEXEC);
        if (made != 0) throw std::system_error(errno, std::generic_category(), std::string(name));
        read_ = memory::descriptor(ends[0]);
        write_ = memory::descriptor(ends[1]);
        const int room = static_cast<int>(std::min<std::uint64_t>(request.ring_bytes, 1 << 20));
        if (Socket) {  // a wish; the system has a limit for both
            (void)::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
        } else {
            (void)::fcntl(ends[1], F_SETPIPE_SZ, room);
        }
    }
    void open_sender() {}
    void open_receiver() {}

    // A message is never left half sent or half taken: the rest of it is waited for.
    std::size_t send(std::span<const std::byte> messages) {
        return whole(messages, [this](auto part) { return ::write(write_.get(), part.data(), part.size()); });
    }
    std::size_t receive(std::span<std::byte> out) {
        return whole(out, [this](auto part) { return ::read(read_.get(), part.data(), part.size()); });
    }

 private:
    template <class Part, class Move>
    static std::size_t whole(Part bytes, Move&& move) {
        std::size_t done = 0;
        do {
            const ssize_t moved = move(bytes.subspan(done));
            if (moved > 0)
                done += static_cast<std::size_t>(moved);
            else if (moved == 0 || (errno != EAGAIN && errno != EINTR))
                throw std::system_error(errno, std::generic_category(), std::string(name));
        } while (done % Bytes != 0);
        return done / Bytes;
    }
    memory::descriptor read_, write_;
};

/// A std::deque under a std::mutex, between two threads.
template <std::size_t Bytes>
class locked_deque {
    using message = fixed_message<Bytes>;
    struct shared {
        std::mutex mutex;
        std::deque<message> messages;
    };

 public:
    static constexpr std::string_view name = "std::mutex and std::deque";
    static constexpr far_place place = far_place::thread;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return standard_library_version(); }

    locked_deque(const channel_request& request, std::string_view)
        : shared_(std::make_unique<shared>()), capacity_(request.ring_bytes / Bytes) {}
    void open_sender() {}
    void open_receiver() {}

    std::size_t send(std::span<const std::byte> messages) {
        const auto* const from = reinterpret_cast<const message*>(messages.data());
        const std::lock_guard hold(shared_->mutex);
        const std::size_t room = capacity_ - std::min(capacity_, shared_->messages.size());
        const std::size_t count = std::min(room, messages.size() / Bytes);
        shared_->messages.insert(shared_->messages.end(), from, from + count);
        return count;
    }
    std::size_t receive(std::span<std::byte> out) {
        auto* const to = reinterpret_cast<message*>(out.data());
        const std::lock_guard hold(shared_->mutex);
        const std::size_t count = std::min(shared_->messages.size(), out.size() / Bytes);
        const auto end = shared_->messages.begin() + static_cast<std::ptrdiff_t>(count);
        std::copy(shared_->messages.begin(), end, to);
        shared_->messages.erase(shared_->messages.begin(), end);
        return count;
    }
    std::size_t add_up(std::size_t most, words_seen& seen) {
        const std::lock_guard hold(shared_->mutex);
        const std::size_t count = std::min(shared_->messages.size(), most);
        for (std::size_t i = 0; i < count; ++i) seen.add<Bytes>(&shared_->messages[i], i == 0);
        shared_->messages.erase(shared_->messages.begin(),
                                shared_->messages.begin() + static_cast<std::ptrdiff_t>(count));
        return count;
    }

 private:
    std::unique_ptr<shared> shared_;
    std::size_t capacity_;
};

}  // namespace holdfast::workload
