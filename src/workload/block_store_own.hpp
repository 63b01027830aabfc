// SPDX-License-Identifier: Apache-2.0
// block_store_own.hpp - the stores that need no package: ours, memory copied with nothing checked, and strings of the
// standard library under a lock.
#pragma once

#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/block_store.hpp"
#include "workload/block_store_subject.hpp"
#include "workload/queue_own.hpp"
#include "workload/shared_pages.hpp"

namespace holdfast::workload {

/// Ours, shared by name and read by another process than its writer's, through a mapping for reading only.
class own_block_store {
 public:
    static constexpr std::string_view name = "holdfast";
    static constexpr far_place place = far_place::process;
    static constexpr bool beside_writer = true;
    static constexpr bool tells_stale = true;
    static std::string version() { return own_version(); }

    explicit own_block_store(const block_store_request& request) : name_({.name = request.name}, "store") {
        options_.value_bytes = request.value_bytes;
        // A value more than there are, for its head and the rest of its last unit as much again for small ones.
        options_.bytes = (request.values + 1) * (request.value_bytes + request.value_bytes / 8 + 128);
    }
    void open_writer() { store_.emplace(block_store::create(name_.uri(), options_)); }
    void open_reader() { reader_.emplace(block_store_reader::attach(name_.uri())); }
    std::uint64_t allocate(std::span<const std::byte> value) { return store_->allocate(value).handle; }
    bool free(std::uint64_t handle) { return store_->free(handle) == outcome::ok; }
    [[gnu::always_inline]] std::size_t read(std::uint64_t handle, std::span<std::byte> out) const {
        const result got = reader_->read(handle, out);
        return got ? static_cast<std::size_t>(got.count) : 0;
    }
    bool look(std::uint64_t handle, std::uint64_t& sum) const {
        return static_cast<bool>(
            reader_->visit(handle, [&](std::span<const std::byte> piece, std::uint64_t, std::uint64_t) noexcept {
                for (std::size_t at = 0; at + 8 <= piece.size(); at += 8)
                    sum += holdfast::detail::shared_load<std::uint64_t>(piece.data() + at);
            }));
    }
    void begin_reads() const {}
    void end_reads() const {}
    void begin_writes() const {}
    void end_writes() const {}

 private:
    channel_name name_;
    block_store_options options_;
    std::optional<block_store> store_;
    std::optional<block_store_reader> reader_;
};

/// Slots of one size in shared memory, a list of free ones, and memcpy: nobody could read beside a writer, nor after it
/// was killed. What a read costs at least.
class bare_slots {
 public:
    static constexpr std::string_view name = "memcpy, nothing checked";
    static constexpr far_place place = far_place::process;
    static constexpr bool beside_writer = false;
    static constexpr bool tells_stale = false;
    static std::string version() { return standard_library_version(); }

    explicit bare_slots(const block_store_request& request)
        : bytes_(request.value_bytes), stride_((bytes_ + 63) / 64 * 64), pages_((request.values + 1) * stride_) {
        for (std::uint64_t slot = request.values + 1; slot > 0; --slot) free_.push_back(slot);
    }
    void open_writer() const {}
    void open_reader() const {}
    std::uint64_t allocate(std::span<const std::byte> value) {
        if (free_.empty()) return 0;
        const std::uint64_t slot = free_.back();
        free_.pop_back();
        std::memcpy(at(slot), value.data(), value.size());
        return slot;
    }
    bool free(std::uint64_t handle) {
        free_.push_back(handle);
        return true;
    }
    std::size_t read(std::uint64_t handle, std::span<std::byte> out) const {
        std::memcpy(out.data(), at(handle), bytes_);
        return bytes_;
    }
    bool look(std::uint64_t handle, std::uint64_t& sum) const {
        sum = sum_of_words(at(handle), bytes_);
        return true;
    }
    void begin_reads() const {}
    void end_reads() const {}
    void begin_writes() const {}
    void end_writes() const {}

 private:
    [[nodiscard]] std::byte* at(std::uint64_t slot) const { return pages_.bytes().data() + (slot - 1) * stride_; }

    std::size_t bytes_, stride_;
    shared_pages pages_;
    std::vector<std::uint64_t> free_;
};

/// A std::string each under one lock. One process.
class locked_strings {
 public:
    static constexpr std::string_view name = "std::shared_mutex and std::string";
    static constexpr far_place place = far_place::thread;
    static constexpr bool beside_writer = true;
    static constexpr bool tells_stale = false;
    static std::string version() { return standard_library_version(); }

    explicit locked_strings(const block_store_request& request) : strings_(request.values + 1) {
        for (std::uint64_t slot = request.values + 1; slot > 0; --slot) free_.push_back(slot);
    }
    void open_writer() const {}
    void open_reader() const {}
    std::uint64_t allocate(std::span<const std::byte> value) {
        const std::unique_lock hold(mutex_);
        if (free_.empty()) return 0;
        const std::uint64_t slot = free_.back();
        free_.pop_back();
        strings_[slot - 1] = std::string(reinterpret_cast<const char*>(value.data()), value.size());
        return slot;
    }
    bool free(std::uint64_t handle) {
        const std::unique_lock hold(mutex_);
        strings_[handle - 1] = std::string();
        free_.push_back(handle);
        return true;
    }
    std::size_t read(std::uint64_t handle, std::span<std::byte> out) const {
        const std::shared_lock hold(mutex_);
        const std::string& value = strings_[handle - 1];
        std::memcpy(out.data(), value.data(), value.size());
        return value.size();
    }
    bool look(std::uint64_t handle, std::uint64_t& sum) const {
        const std::shared_lock hold(mutex_);
        const std::string& value = strings_[handle - 1];
        sum = sum_of_words(value.data(), value.size());
        return true;
    }
    void begin_reads() const {}
    void end_reads() const {}
    void begin_writes() const {}
    void end_writes() const {}

 private:
    mutable std::shared_mutex mutex_;
    std::vector<std::string> strings_;
    std::vector<std::uint64_t> free_;
};

}  // namespace holdfast::workload
