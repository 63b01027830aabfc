// SPDX-License-Identifier: Apache-2.0
// qb_ring_buffer.hpp - libqb's qb_rb between two processes: a ring of chunks in two files of shared memory, the chunks'
// mapped twice in a row, so that each chunk lies in one piece. It has no operation for many chunks. Without its
// semaphore, which each chunk would be counted by on both sides: who finds nothing looks again. What tells a chunk from
// whatever else lies there is then a magic number of 32 bits in its header.
#pragma once

#include <qb/qbrb.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "holdfast/detail/concat.hpp"
#include "workload/queue_own.hpp"
#include "workload/run_names.hpp"

namespace holdfast::bench {

template <std::size_t Bytes>
class qb_ring_buffer {
 public:
    static constexpr std::string_view name = "qb_rb";
    static constexpr workload::far_place place = workload::far_place::process;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return HOLDFAST_BENCH_QB; }

    qb_ring_buffer(const workload::channel_request& request, std::string_view way)
        // Of an absolute path it makes PATH-header and PATH-data; of any other name it would make qb-NAME-header, which
        // nobody takes away after a run that was killed.
        : path_(workload::run_names::shared_folder() / holdfast::detail::concat(request.name, "-", way, "-qb")),
          ring_bytes_(request.ring_bytes) {}
    void open_sender() { open(QB_RB_FLAG_CREATE); }
    /// Nobody else will open it: the files go, and what is mapped stays.
    void open_receiver() {
        open(0);
        for (const char* const part : {"-header", "-data"}) (void)::unlink((path_.string() + part).c_str());
    }

    std::size_t send(std::span<const std::byte> messages) {
        std::size_t at = 0;
        for (; at < messages.size(); at += Bytes) {
            void* const chunk = qb_rb_chunk_alloc(ring_.get(), Bytes);
            if (chunk == nullptr) break;  // full
            std::memcpy(chunk, messages.data() + at, Bytes);
            (void)qb_rb_chunk_commit(ring_.get(), Bytes);
        }
        return at / Bytes;
    }
    std::size_t receive(std::span<std::byte> out) {
        std::size_t at = 0;
        for (; at < out.size(); at += Bytes) {
            const void* const chunk = front();
            if (chunk == nullptr) break;
            std::memcpy(out.data() + at, chunk, Bytes);
            qb_rb_chunk_reclaim(ring_.get());
        }
        return at / Bytes;
    }
    std::size_t add_up(std::size_t most, workload::words_seen& seen) {
        std::size_t got = 0;
        for (; got < most; ++got) {
            const void* const chunk = front();
            if (chunk == nullptr) break;
            seen.add<Bytes>(chunk, got == 0);
            qb_rb_chunk_reclaim(ring_.get());
        }
        return got;
    }

 private:
    void open(std::uint32_t how) {
        ring_.reset(
            qb_rb_open(path_.c_str(), ring_bytes_, how | QB_RB_FLAG_SHARED_PROCESS | QB_RB_FLAG_NO_SEMAPHORE, 0));
        if (!ring_) throw std::system_error(errno, std::generic_category(), path_.string());
    }
    /// The oldest chunk; nothing where there is none.
    const void* front() {
        void* chunk = nullptr;
        return qb_rb_chunk_peek(ring_.get(), &chunk, 0) == ssize_t{Bytes} ? chunk : nullptr;
    }

    std::filesystem::path path_;
    std::uint64_t ring_bytes_;
    std::unique_ptr<qb_ringbuffer_t, void (*)(qb_ringbuffer_t*)> ring_{nullptr, &qb_rb_close};
};

}  // namespace holdfast::bench
