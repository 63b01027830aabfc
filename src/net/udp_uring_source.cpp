// SPDX-License-Identifier: Apache-2.0
// udp_uring_source.cpp - trains by one multishot recvmsg into buffers of a ring.
//
// A buffer that was received into (the kernel's layout): io_uring_recvmsg_out, then the room for a name and for control
// bytes that the header of the receive asked for, then the payload.
// (V1) A buffer is the ring's until a completion names it; then ours, until the receive() behind the one that handed it
//      over gives it back. So there are twice as many as are handed over at once, and a ring without one costs a turn.
// (V2) A completion without F_MORE ends the receive: behind an error, a datagram without bytes, or the last buffer. The
//      next receive() begins it anew. What it finds no buffer for waits in the socket's queue, and is counted there.
// (V3) Nothing is taken from the socket but within receive(): completions are made by its own system call.
// Source: io_uring_multishot(7), io_uring_prep_recvmsg_multishot(3).
#include <linux/io_uring.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "udp_source.hpp"
#include "uring_buffers.hpp"
#include "uring_ring.hpp"

namespace holdfast::net {

namespace {

class uring_source final : public udp_source {
 public:
    uring_source(int socket, const udp_receiver_options& options)
        : socket_(socket),
          buffer_bytes_(static_cast<std::uint32_t>(udp_stride(payload_at + options.train_bytes_max))),
          ring_(8, std::bit_ceil(static_cast<unsigned>(4 * options.trains_max))),
          trains_(options.trains_max),
          senders_(options.trains_max) {
        buffers_.emplace(ring_, group, static_cast<std::uint16_t>(std::bit_ceil(2 * options.trains_max)),
                         buffer_bytes_);
        asked_.msg_namelen = name_room;
        asked_.msg_controllen = udp_control_bytes;
    }
    uring_source(const uring_source&) = delete;
    uring_source& operator=(const uring_source&) = delete;

    // The socket is held by the receive until that has ended: its port would not be free when we are gone.
    ~uring_source() override {
        if (!armed_ || !enabled_) return;
        if (io_uring_sqe* const cancel = ring_.next(); cancel != nullptr) {
            cancel->opcode = IORING_OP_ASYNC_CANCEL;
            cancel->addr = receive_mark;
            cancel->user_data = cancel_mark;
        }
        for (int tries = 0; armed_ && tries < cancel_tries; ++tries) {
            const int code = ring_.enter(1, cancel_wait_ms);
            if (code != 0 && code != ETIME && code != EINTR && code != EBUSY) return;  // another thread's ring
            for (uring_completion one; ring_.complete(one);)
                if (one.user_data == receive_mark && (one.flags & IORING_CQE_F_MORE) == 0) armed_ = false;
        }
    }

    [[nodiscard]] taken receive(std::chrono::milliseconds wait) noexcept override {
        for (std::size_t i = 0; i < used_; ++i) buffers_->give_back(trains_[i].buffer);
        used_ = 0;
        if (!enabled_) {
            if (const int code = ring_.enable(); code != 0) return {0, code};
            enabled_ = true;
        }
        int error = std::exchange(error_, 0);
        if (error != 0) return {0, error};
        // What has come by itself is handed over without a call; else one asks, and perhaps waits.
        collect();
        if (used_ == 0 && error_ == 0) {
            arm();
            ++calls_;
            const auto limit = std::min<std::int64_t>(wait.count(), wait_max_ms);
            const int code = ring_.enter(limit > 0 ? 1 : 0, static_cast<int>(std::max<std::int64_t>(limit, 0)));
            if (code != 0 && code != ETIME && code != EINTR && code != EBUSY && code != EAGAIN) return {0, code};
            collect();
        }
        if (used_ == 0) error = std::exchange(error_, 0);
        return {used_, error};
    }

    [[nodiscard]] udp_message at(std::size_t i) noexcept override {
        const train& one = trains_[i];
        const char* const base = buffers_->of(one.buffer, 0).data();
        io_uring_recvmsg_out said{};
        std::memcpy(&said, base, sizeof said);
        udp_address& from = senders_[i];
        from = udp_address();
        std::memcpy(from.data(), base + sizeof said,
                    std::min<std::size_t>({said.namelen, name_room, std::size_t{udp_address::size_max}}));
        msghdr header{};
        header.msg_control = const_cast<char*>(base) + sizeof said + name_room;
        header.msg_controllen = std::min<std::size_t>(said.controllen, udp_control_bytes);
        return {base + payload_at, said.payloadlen, read_udp_control(header), &from};
    }

 private:
    static constexpr std::uint16_t group = 0;
    static constexpr std::uint64_t receive_mark = 1, cancel_mark = 2;
    static constexpr std::size_t name_room = 32;  // of an address; so control bytes are aligned
    static constexpr std::size_t payload_at = sizeof(io_uring_recvmsg_out) + name_room + udp_control_bytes;
    static constexpr std::int64_t wait_max_ms = 1 << 30;
    static constexpr int cancel_tries = 20, cancel_wait_ms = 100;
    static_assert(sizeof(io_uring_recvmsg_out) == 16 && name_room >= udp_address::size_max);

    struct train {
        std::uint16_t buffer = 0;
    };

    void arm() noexcept {
        if (armed_) return;
        io_uring_sqe* const entry = ring_.next();
        if (entry == nullptr) return;  // with the next call
        entry->opcode = IORING_OP_RECVMSG;
        entry->fd = socket_;
        entry->addr = reinterpret_cast<std::uint64_t>(&asked_);
        entry->len = 1;
        entry->msg_flags = MSG_TRUNC;  // lengths are those of what came
        entry->ioprio = IORING_RECV_MULTISHOT;
        entry->flags = IOSQE_BUFFER_SELECT;
        entry->buf_group = group;
        entry->user_data = receive_mark;
        armed_ = true;
    }

    // As much as may be handed over at once; an error behind it waits for the next call.
    void collect() noexcept {
        for (uring_completion one; used_ < trains_.size() && error_ == 0 && ring_.complete(one);) {
            if (one.user_data != receive_mark) continue;
            if ((one.flags & IORING_CQE_F_MORE) == 0) armed_ = false;
            const bool there = (one.flags & IORING_CQE_F_BUFFER) != 0;
            const auto buffer = static_cast<std::uint16_t>(one.flags >> IORING_CQE_BUFFER_SHIFT);
            if (one.result >= static_cast<int>(payload_at) && there) {
                trains_[used_++].buffer = buffer;
                continue;
            }
            if (there) buffers_->give_back(buffer);
            const bool passes = one.result >= 0 || one.result == -ENOBUFS || one.result == -EINTR ||
                                one.result == -EAGAIN || one.result == -ECANCELED;
            if (!passes) error_ = -one.result;
        }
    }

    int socket_;
    std::uint32_t buffer_bytes_;
    std::optional<uring_buffers> buffers_;  // gone after the ring, which the kernel writes by
    uring_ring ring_;
    msghdr asked_{};
    std::vector<train> trains_;  // handed over
    std::vector<udp_address> senders_;
    std::size_t used_ = 0;
    int error_ = 0;  // came behind what was handed over
    bool enabled_ = false;
    bool armed_ = false;
};

}  // namespace

std::unique_ptr<udp_source> make_uring_source(int socket, const udp_receiver_options& options) {
    return std::make_unique<uring_source>(socket, options);
}

}  // namespace holdfast::net
