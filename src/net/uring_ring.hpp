// SPDX-License-Identifier: Apache-2.0
// uring_ring.hpp - one io_uring by its three system calls: the queues, their maps, their heads and tails.
//
// Submissions are written into next() and go to the kernel with the next enter(); completions are taken by complete().
// (U1) The ring is made disabled, and belongs to the thread that enables it: what lies in the submission queue by then
//      goes with that thread's first enter().
// (U2) Only the enabling thread touches a queue after that, so ours are the tail of submissions and the head of
//      completions; the other two words are the kernel's. No word is written by two.
// (U3) What the kernel writes into its words steers no index: they are only compared, and masked before use.
// Crash: the kernel cancels what is under way when the process ends; nothing outlives it.
// Source: io_uring_setup(2), io_uring_enter(2), io_uring_register(2).
#pragma once

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "file_descriptor.hpp"
#include "holdfast/error.hpp"

namespace holdfast::net {

/// A range of memory shared with the kernel.
class uring_map {
 public:
    uring_map() noexcept = default;
    uring_map(int ring, std::size_t bytes, std::uint64_t what) noexcept
        : base_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
                       static_cast<off_t>(what))),
          bytes_(bytes) {
        if (base_ == MAP_FAILED) base_ = nullptr;
    }
    uring_map(uring_map&& other) noexcept
        : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    uring_map& operator=(uring_map&& other) noexcept {
        std::swap(base_, other.base_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~uring_map() {
        if (base_ != nullptr) ::munmap(base_, bytes_);
    }
    explicit operator bool() const noexcept { return base_ != nullptr; }

    template <class T>
    [[nodiscard]] T* at(std::uint32_t offset) const noexcept {
        return reinterpret_cast<T*>(static_cast<std::byte*>(base_) + offset);
    }

 private:
    void* base_ = nullptr;
    std::size_t bytes_ = 0;
};

/// One completion, as complete() hands it out.
struct uring_completion {
    std::uint64_t user_data = 0;
    std::int32_t result = 0;  // or a negative errno
    std::uint32_t flags = 0;
};
// The kernel's struct ends in an array without a length, so it is read as bytes.
static_assert(sizeof(uring_completion) == 16 && sizeof(io_uring_cqe) == 16 && sizeof(io_uring_sqe) == 64);
static_assert(offsetof(io_uring_cqe, res) == offsetof(uring_completion, result) &&
              offsetof(io_uring_cqe, flags) == offsetof(uring_completion, flags));

class uring_ring {
 public:
    /// Queues of at least that many entries; the kernel rounds up to powers of two. The ring is for one thread, and
    /// runs its deferred work when that enters. Throws: error(unsupported) that says in words why there is none.
    uring_ring(unsigned submissions, unsigned completions) {
        io_uring_params made{};
        // Kernel 6.1 knows all of them, and with them every operation that the engine uses.
        made.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL |
                     IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | IORING_SETUP_R_DISABLED;
        made.cq_entries = completions;
        ring_ = file_descriptor(static_cast<int>(::syscall(__NR_io_uring_setup, submissions, &made)));
        if (!ring_) throw error(errc::unsupported, "io_uring", reason(errno));
        constexpr std::uint32_t needed = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
        if ((made.features & needed) != needed) fail("io_uring_setup: an old kernel", EOPNOTSUPP);

        const std::size_t submission_bytes = made.sq_off.array + made.sq_entries * sizeof(std::uint32_t);
        const std::size_t completion_bytes = made.cq_off.cqes + made.cq_entries * sizeof(io_uring_cqe);
        queues_ = uring_map(ring_.get(), std::max(submission_bytes, completion_bytes), IORING_OFF_SQ_RING);
        entries_map_ = uring_map(ring_.get(), made.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
        if (!queues_ || !entries_map_) fail("mmap of an io_uring", errno);

        submission_head_ = queues_.at<std::uint32_t>(made.sq_off.head);
        submission_tail_ = queues_.at<std::uint32_t>(made.sq_off.tail);
        submission_flags_ = queues_.at<std::uint32_t>(made.sq_off.flags);
        submission_mask_ = made.sq_entries - 1;
        completion_head_ = queues_.at<std::uint32_t>(made.cq_off.head);
        completion_tail_ = queues_.at<std::uint32_t>(made.cq_off.tail);
        completion_mask_ = made.cq_entries - 1;
        entries_ = entries_map_.at<io_uring_sqe>(0);
        completions_ = queues_.at<std::byte>(made.cq_off.cqes);
        // Entry i is always entry i: the indirection of the kernel's array is not used.
        auto* const order = queues_.at<std::uint32_t>(made.sq_off.array);
        for (std::uint32_t i = 0; i < made.sq_entries; ++i) order[i] = i;
    }

    uring_ring(const uring_ring&) = delete;
    uring_ring& operator=(const uring_ring&) = delete;

    [[nodiscard]] int fd() const noexcept { return ring_.get(); }

    /// Makes the calling thread the ring's (U1). Returns: an errno, 0 for success.
    [[nodiscard]] int enable() const noexcept {
        const int code = configure(IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
        return code < 0 ? -code : 0;
    }

    /// An empty entry to fill in; nullptr when the queue is full: enter(0, ...), then ask again.
    [[nodiscard]] io_uring_sqe* next() noexcept {
        if (submitted_to_ - kernel_has_taken() > submission_mask_) return nullptr;
        io_uring_sqe* const entry = &entries_[submitted_to_++ & submission_mask_];
        std::memset(entry, 0, sizeof *entry);
        return entry;
    }

    /// Submits what was written, runs deferred work, and waits for `wanted` completions or the time (timeout_ms; -1:
    /// for ever). Returns: an errno, 0 for success; ETIME and EINTR are no failures, EBUSY asks to complete() first.
    [[nodiscard]] int enter(unsigned wanted, int timeout_ms) noexcept {
        // Release: the kernel reads the entries below the tail that it sees. Weaker could show it the tail first.
        std::atomic_ref(*submission_tail_).store(submitted_to_, std::memory_order_release);
        const std::uint32_t waiting = submitted_to_ - kernel_has_taken();
        __kernel_timespec time{};
        io_uring_getevents_arg argument{};
        if (wanted != 0 && timeout_ms >= 0) {
            time.tv_sec = timeout_ms / 1000;
            time.tv_nsec = static_cast<long long>(timeout_ms % 1000) * 1'000'000;
            argument.ts = reinterpret_cast<std::uint64_t>(&time);
        }
        constexpr unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
        const long taken =
            ::syscall(__NR_io_uring_enter, ring_.get(), waiting, wanted, flags, &argument, sizeof argument);
        return taken < 0 ? errno : 0;
    }

    /// Takes the oldest completion, a copy: its place is the kernel's again at once. Returns false when there is none.
    [[nodiscard]] bool complete(uring_completion& one) noexcept {
        // Acquire, pairs with the kernel's release: completions below the tail are written. Weaker could show old ones.
        const std::uint32_t tail = std::atomic_ref(*completion_tail_).load(std::memory_order_acquire);
        if (completed_to_ == tail) return false;
        std::memcpy(&one, completions_ + std::size_t{completed_to_ & completion_mask_} * sizeof one, sizeof one);
        // Release: the kernel may write over the place as soon as it sees this, and we have read it by then.
        std::atomic_ref(*completion_head_).store(++completed_to_, std::memory_order_release);
        return true;
    }
    /// How many there are to be taken.
    [[nodiscard]] std::uint32_t completions() const noexcept {
        // Relaxed: only a count; complete() looks with acquire.
        return std::atomic_ref(*completion_tail_).load(std::memory_order_relaxed) - completed_to_;
    }

    /// There were more completions than the queue holds; the kernel keeps them, and hands them over by the next
    /// enter().
    [[nodiscard]] bool overflown() const noexcept {
        // Relaxed: only a sign.
        return (std::atomic_ref(*submission_flags_).load(std::memory_order_relaxed) & IORING_SQ_CQ_OVERFLOW) != 0;
    }

    /// Why there is none, in words: what an errno of making one, or of what belongs to it, means.
    [[nodiscard]] static std::string reason(int code) {
        switch (code) {
            case ENOSYS: return "this kernel has none";
            case EPERM: return "forbidden, by a seccomp filter (containers have one) or by kernel.io_uring_disabled";
            case EINVAL: return "this kernel's is too old; 6.1 is needed";
            case ENOMEM: return "no memory for it, or not enough that may be locked (ulimit -l)";
            default: return std::strerror(code);
        }
    }

    /// io_uring_register. Returns: what the kernel says, or a negative errno.
    int configure(unsigned operation, void* argument, unsigned count) const noexcept {
        const long said = ::syscall(__NR_io_uring_register, ring_.get(), operation, argument, count);
        return said < 0 ? -errno : static_cast<int>(said);
    }

 private:
    [[noreturn]] static void fail(const char* what, int code) {
        throw error(errc::unsupported, "io_uring", std::string(what).append(": ").append(std::strerror(code)));
    }

    [[nodiscard]] std::uint32_t kernel_has_taken() const noexcept {
        // Acquire, pairs with the kernel's release: it has read the entries below. Weaker could let us write over one
        // that it still reads.
        return std::atomic_ref(*submission_head_).load(std::memory_order_acquire);
    }

    file_descriptor ring_;
    uring_map queues_;
    uring_map entries_map_;
    std::uint32_t* submission_head_ = nullptr;
    std::uint32_t* submission_tail_ = nullptr;
    std::uint32_t* submission_flags_ = nullptr;
    std::uint32_t* completion_head_ = nullptr;
    std::uint32_t* completion_tail_ = nullptr;
    io_uring_sqe* entries_ = nullptr;
    const std::byte* completions_ = nullptr;
    std::uint32_t submission_mask_ = 0;
    std::uint32_t completion_mask_ = 0;
    std::uint32_t submitted_to_ = 0;  // our copies of the two words that are ours
    std::uint32_t completed_to_ = 0;
};

}  // namespace holdfast::net
