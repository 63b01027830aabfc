// SPDX-License-Identifier: Apache-2.0
// ways.hpp - ways to read a small object beside its snapshot, each as an adapter of workload/snapshot_subject.hpp. All
// publish into a slot as well, which is what a reader takes when its way fails, and what a killed writer leaves.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>

#include "holdfast/detail/shared_copy.hpp"
#include "workload/shared_pages.hpp"
#include "workload/snapshot_own.hpp"

namespace study {

namespace layout = holdfast::layout;
namespace workload = holdfast::workload;

inline constexpr std::size_t object_bytes_max = 512;

/// Out of the slot, as larger objects are.
class by_slot : public workload::named_snapshot {
 public:
    static constexpr std::string_view name = "slot";
    using named_snapshot::named_snapshot;
    void open_reader() { reader_.emplace(holdfast::snapshot_reader::attach(uri())); }
    bool read(std::span<std::uint64_t> out) {
        return workload::read_again([&] { return reader_->core().read_slot(std::as_writable_bytes(out)); });
    }

 private:
    std::optional<holdfast::snapshot_reader> reader_;
};

/// What snapshot does: a copy in the cache line of `current`, under the value of `current` it belongs to.
class beside_current : public by_slot {
 public:
    static constexpr std::string_view name = "copy in the line of current";
    static bool has(std::size_t words) { return words * 8 <= layout::snapshot_front_bytes; }
    using by_slot::by_slot;
    void open_reader() { reader_.emplace(holdfast::snapshot_reader::attach(uri())); }
    bool read(std::span<std::uint64_t> out) {
        return workload::read_again([&] { return reader_->read(std::as_writable_bytes(out)); });
    }

 private:
    std::optional<holdfast::snapshot_reader> reader_;
};

/// The same copy with room for 512 bytes, in lines of its own.
class in_lines_of_its_own : public workload::named_snapshot {
    struct front {
        std::atomic<std::uint64_t> word, bytes;
        std::byte data[object_bytes_max];
    };

 public:
    static constexpr std::string_view name = "copy in lines of its own";
    explicit in_lines_of_its_own(const workload::snapshot_request& request)
        : named_snapshot(request),
          pages_(std::make_unique<workload::shared_pages>(sizeof(front))),
          front_(::new(pages_->bytes().data()) front{}) {}
    void open_writer() {
        named_snapshot::open_writer();
        open_reader();
    }
    void open_reader() { reader_.emplace(holdfast::snapshot_reader::attach(uri())); }
    bool publish(std::span<const std::uint64_t> object) {
        if (!named_snapshot::publish(object)) return false;
        // As snapshot_write_core::fill_front.
        front_->word.store(0, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        front_->bytes.store(object.size_bytes(), std::memory_order_relaxed);
        holdfast::detail::copy_to_shared(front_->data, reinterpret_cast<const std::byte*>(object.data()),
                                         object.size_bytes());
        front_->word.store(reader_->core().current(), std::memory_order_release);
        return true;
    }
    bool read(std::span<std::uint64_t> out) {
        const std::uint64_t word = reader_->core().current();
        // As snapshot_read_core::read.
        if (front_->word.load(std::memory_order_acquire) == word) [[likely]] {
            const std::uint64_t bytes = front_->bytes.load(std::memory_order_relaxed);
            if (bytes <= out.size_bytes() && bytes <= object_bytes_max) {
                holdfast::detail::copy_from_shared(reinterpret_cast<std::byte*>(out.data()), front_->data,
                                                   static_cast<std::size_t>(bytes));
                std::atomic_thread_fence(std::memory_order_acquire);
                if (front_->word.load(std::memory_order_relaxed) == word) [[likely]]
                    return true;
            }
        }
        return workload::read_again([&] { return reader_->core().read_slot(std::as_writable_bytes(out)); });
    }

 private:
    std::unique_ptr<workload::shared_pages> pages_;
    front* front_;
    std::optional<holdfast::snapshot_reader> reader_;
};

/// Each word carries half of one of data and 32 bits of the version; two copies, filled in turn before the commit. No
/// look again is needed. A reader that stands still for exactly 2^32 publishes, or a multiple, gets a mix unnoticed.
class a_sequence_a_word : public workload::named_snapshot {
    struct copies {
        std::array<std::atomic<std::uint64_t>, object_bytes_max / 4> of[2];
    };

 public:
    static constexpr std::string_view name = "a sequence in each word, two copies";
    explicit a_sequence_a_word(const workload::snapshot_request& request)
        : named_snapshot(request),
          halves_(2 * request.words),
          pages_(std::make_unique<workload::shared_pages>(sizeof(copies))),
          copies_(::new(pages_->bytes().data()) copies{}) {}
    void open_reader() { reader_.emplace(holdfast::snapshot_reader::attach(uri())); }
    bool publish(std::span<const std::uint64_t> object) {
        const std::uint64_t next = ++version_;
        auto& copy = copies_->of[next & 1];
        for (std::size_t i = 0; i < halves_; ++i)
            copy[i].store((object[i / 2] >> 32 * (i % 2) & 0xFFFF'FFFFU) | next << 32, std::memory_order_relaxed);
        return named_snapshot::publish(object);  // its commit orders the words above
    }
    bool read(std::span<std::uint64_t> out) {
        const std::uint64_t version = reader_->version();
        const auto& copy = copies_->of[version & 1];
        std::uint64_t other = 0;
        for (std::size_t i = 0; i < halves_; i += 2) {
            const std::uint64_t low = copy[i].load(std::memory_order_relaxed);
            const std::uint64_t high = copy[i + 1].load(std::memory_order_relaxed);
            other |= (low ^ version << 32) >> 32 | (high ^ version << 32) >> 32;
            out[i / 2] = (low & 0xFFFF'FFFFU) | high << 32;
        }
        if (other == 0) [[likely]]
            return true;
        return workload::read_again([&] { return reader_->core().read_slot(std::as_writable_bytes(out)); });
    }

 private:
    std::size_t halves_;
    std::unique_ptr<workload::shared_pages> pages_;
    copies* copies_;
    std::uint64_t version_ = 0;
    std::optional<holdfast::snapshot_reader> reader_;
};

}  // namespace study
