// SPDX-License-Identifier: Apache-2.0
// snapshot_own.hpp - the adapters that need no package: ours with both kinds of readers, and what the standard library
// offers between threads of one process.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/detail/shared_bytes.hpp"
#include "holdfast/snapshot.hpp"
#include "workload/instruction_set.hpp"
#include "workload/snapshot_subject.hpp"

namespace holdfast::workload {

[[nodiscard]] inline snapshot_writer make_snapshot(std::size_t words) {
    snapshot_options options;
    options.slot_bytes = words * sizeof(std::uint64_t);
    options.pinned_readers = 1;
    return snapshot_writer::create("memfd:", options);
}

/// Ours, in shared memory (a memfd), read by somebody who registers nowhere: a copy or a visit, checked afterwards.
class own_snapshot {
 public:
    static constexpr std::string_view name = "holdfast";
    static std::string version() { return own_version(); }
    explicit own_snapshot(std::size_t words) : writer_(make_snapshot(words)), reader_(writer_.make_reader()) {}

    bool read(std::span<std::uint64_t> out) {
        return again([&] { return reader_.read(std::as_writable_bytes(out)); });
    }
    bool look(std::uint64_t& sum) {
        return again([&] {
            return reader_.visit([&](std::span<const std::byte> object, std::uint64_t) noexcept {
                sum = 0;
                for (std::size_t at = 0; at < object.size(); at += sizeof(std::uint64_t))
                    sum += holdfast::detail::shared_load<std::uint64_t>(object.data() + at);
            });
        });
    }
    bool publish(std::span<const std::uint64_t> object) {
        return static_cast<bool>(writer_.publish(std::as_bytes(object)));
    }

 private:
    /// A reader that was overrun at all its attempts, because its core was taken away each time, starts over.
    template <class Read>
    static bool again(Read&& attempt) {
        for (int tries = 0; tries < 1000; ++tries)
            if (const snapshot_read_result got = attempt(); got.status != outcome::contended) return bool(got);
        return false;
    }
    snapshot_writer writer_;
    snapshot_reader reader_;
};

/// Ours, read by a registered reader, which holds the version it works on.
class own_pinned_snapshot {
 public:
    static constexpr std::string_view name = "holdfast, pinned reader";
    static std::string version() { return own_version(); }
    explicit own_pinned_snapshot(std::size_t words)
        : writer_(make_snapshot(words)), reader_(writer_.make_pinned_reader()) {}

    bool read(std::span<std::uint64_t> out) {
        const snapshot_view view = reader_.pin();
        if (view.bytes().size() != out.size_bytes()) return false;
        std::memcpy(out.data(), view.bytes().data(), out.size_bytes());
        return true;
    }
    bool look(std::uint64_t& sum) {
        const snapshot_view view = reader_.pin();
        if (!view) return false;
        const auto* const words = reinterpret_cast<const std::uint64_t*>(view.bytes().data());
        sum = std::accumulate(words, words + view.bytes().size() / sizeof(std::uint64_t), std::uint64_t{0});
        return true;
    }
    bool publish(std::span<const std::uint64_t> object) {
        return static_cast<bool>(writer_.publish(std::as_bytes(object)));
    }

 private:
    snapshot_writer writer_;
    snapshot_pinned_reader reader_;
};

/// std::atomic<std::shared_ptr>: a fresh object for each version; readers share it. One process.
class shared_pointer_snapshot {
 public:
    static constexpr std::string_view name = "std::atomic<std::shared_ptr>";
    static std::string version() { return standard_library_version(); }
    explicit shared_pointer_snapshot(std::size_t words) : words_(words) {}

    bool read(std::span<std::uint64_t> out) {
        const std::shared_ptr<const std::uint64_t[]> object = current_.load();
        if (!object) return false;
        std::memcpy(out.data(), object.get(), out.size_bytes());
        return true;
    }
    bool look(std::uint64_t& sum) {
        const std::shared_ptr<const std::uint64_t[]> object = current_.load();
        if (!object) return false;
        sum = std::accumulate(object.get(), object.get() + words_, std::uint64_t{0});
        return true;
    }
    bool publish(std::span<const std::uint64_t> object) {
        auto next = std::make_shared_for_overwrite<std::uint64_t[]>(words_);
        std::memcpy(next.get(), object.data(), object.size_bytes());
        current_.store(std::move(next));
        return true;
    }

 private:
    std::size_t words_;
    std::atomic<std::shared_ptr<const std::uint64_t[]>> current_;
};

/// One object under a std::shared_mutex. One process.
class locked_snapshot {
 public:
    static constexpr std::string_view name = "std::shared_mutex and a copy";
    static std::string version() { return standard_library_version(); }
    explicit locked_snapshot(std::size_t words) : object_(words) {}

    bool read(std::span<std::uint64_t> out) {
        const std::shared_lock hold(mutex_);
        std::memcpy(out.data(), object_.data(), out.size_bytes());
        return true;
    }
    bool look(std::uint64_t& sum) {
        const std::shared_lock hold(mutex_);
        sum = std::accumulate(object_.begin(), object_.end(), std::uint64_t{0});
        return true;
    }
    bool publish(std::span<const std::uint64_t> object) {
        const std::unique_lock hold(mutex_);
        std::memcpy(object_.data(), object.data(), object.size_bytes());
        return true;
    }

 private:
    std::shared_mutex mutex_;
    word_buffer object_;
};

}  // namespace holdfast::workload
