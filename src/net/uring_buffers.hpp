// SPDX-License-Identifier: Apache-2.0
// uring_buffers.hpp - buffers that the kernel takes for what it receives, and a ring by which they come back to it.
//
// Layout (the kernel's): entries of 16 bytes {address u64, bytes u32, buffer u16, reserved u16}; the last two bytes of
// the first one are the tail. The header's own struct has it elsewhere in C++, where an empty struct takes a byte.
// (B1) A buffer is in the ring, or it is the kernel's and then ours with a completion; give_back() ends that.
// (B2) Only we write the ring, and only the kernel reads it: entries, then the tail.
// Source: io_uring_register(2), IORING_REGISTER_PBUF_RING.
#pragma once

#include <linux/io_uring.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "holdfast/error.hpp"
#include "uring_ring.hpp"

namespace holdfast::net {

class uring_buffers {
 public:
    /// `count` buffers (a power of two) of `bytes` each. The kernel has a page only once something was received into
    /// it. Throws: error(unsupported).
    uring_buffers(const uring_ring& ring, std::uint16_t group, std::uint16_t count, std::uint32_t bytes)
        : bytes_(bytes), mask_(static_cast<std::uint16_t>(count - 1)) {
        entries_bytes_ = std::size_t{count} * sizeof(entry);
        all_bytes_ = entries_bytes_ + std::size_t{count} * bytes;
        void* const memory = ::mmap(nullptr, all_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) fail("no memory for its buffers", errno);
        base_ = static_cast<char*>(memory);
        io_uring_buf_reg wanted{};
        wanted.ring_addr = reinterpret_cast<std::uint64_t>(base_);
        wanted.ring_entries = count;
        wanted.bgid = group;
        if (const int code = ring.configure(IORING_REGISTER_PBUF_RING, &wanted, 1); code < 0) {
            ::munmap(base_, all_bytes_);
            fail("no ring of buffers", -code);
        }
        for (std::uint16_t i = 0; i < count; ++i) give_back(i);
    }
    uring_buffers(const uring_buffers&) = delete;
    uring_buffers& operator=(const uring_buffers&) = delete;
    /// The ring has to be gone by then: the kernel writes here as long as it is there.
    ~uring_buffers() { ::munmap(base_, all_bytes_); }

    /// What was received into a buffer. Empty for numbers that are none of ours.
    [[nodiscard]] std::span<char> of(std::uint16_t buffer, std::size_t received) const noexcept {
        if (buffer > mask_ || received > bytes_) return {};
        return {base_ + entries_bytes_ + std::size_t{buffer} * bytes_, received};
    }

    [[nodiscard]] std::uint32_t buffer_bytes() const noexcept { return bytes_; }

    void give_back(std::uint16_t buffer) noexcept {
        if (buffer > mask_) return;
        char* const at = base_ + std::size_t{static_cast<std::uint16_t>(tail_ & mask_)} * sizeof(entry);
        const entry one{.address = reinterpret_cast<std::uint64_t>(of(buffer, bytes_).data()),
                        .bytes = bytes_,
                        .buffer = buffer,
                        .tail = 0};
        std::memcpy(at, &one, offsetof(entry, tail));  // not the tail, which lies in the first one
        // Release: the kernel reads the entries below the tail that it sees. Weaker could show it the tail first.
        std::atomic_ref(*reinterpret_cast<std::uint16_t*>(base_ + offsetof(entry, tail)))
            .store(++tail_, std::memory_order_release);
    }

 private:
    struct entry {
        std::uint64_t address;
        std::uint32_t bytes;
        std::uint16_t buffer;
        std::uint16_t tail;
    };
    static_assert(sizeof(entry) == 16 && offsetof(entry, buffer) == 12 && offsetof(entry, tail) == 14);
    static_assert(sizeof(io_uring_buf) == sizeof(entry));

    [[noreturn]] static void fail(const char* what, int code) {
        throw error(errc::unsupported, "io_uring", std::string(what).append(": ").append(uring_ring::reason(code)));
    }

    char* base_ = nullptr;
    std::size_t entries_bytes_ = 0;
    std::size_t all_bytes_ = 0;
    std::uint32_t bytes_;
    std::uint16_t mask_;
    std::uint16_t tail_ = 0;
};

}  // namespace holdfast::net
