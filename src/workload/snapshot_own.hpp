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
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/detail/shared_bytes.hpp"
#include "holdfast/snapshot.hpp"
#include "workload/instruction_set.hpp"
#include "workload/queue_own.hpp"
#include "workload/snapshot_subject.hpp"

namespace holdfast::workload {

/// Ours, shared by name. The writer's process makes it.
class named_snapshot {
 public:
    static constexpr far_place place = far_place::process;
    static std::string version() { return own_version(); }
    explicit named_snapshot(const snapshot_request& request)
        : name_({.name = request.name}, "snapshot"), bytes_(request.words * sizeof(std::uint64_t)) {}
    void open_writer() {
        snapshot_options options;
        options.slot_bytes = bytes_;
        options.pinned_readers = 1;
        writer_.emplace(snapshot_writer::create(name_.uri(), options));
    }
    bool publish(std::span<const std::uint64_t> object) {
        return static_cast<bool>(writer_->publish(std::as_bytes(object)));
    }

 protected:
    [[nodiscard]] const std::string& uri() const noexcept { return name_.uri(); }

 private:
    channel_name name_;
    std::uint64_t bytes_;
    std::optional<snapshot_writer> writer_;
};

/// A reader that was overrun at all its attempts, because its core was taken away each time, starts over. As a user's
/// code would ask: whether it got one first, and only then what came in the way.
inline constexpr int overrun_tries = 1000;
template <class Read>
[[nodiscard, gnu::noinline, gnu::cold]] bool read_overrun(const Read& attempt) {
    for (int tries = 0; tries < overrun_tries; ++tries)
        if (const snapshot_read_result got = attempt(); got.status != outcome::contended) return bool(got);
    return false;
}
template <class Read>
[[nodiscard, gnu::always_inline]] inline bool read_again(const Read& attempt) {
    if (attempt()) [[likely]]
        return true;
    return read_overrun(attempt);
}

/// Read by somebody who registers nowhere: a copy or a visit, checked afterwards.
class own_snapshot : public named_snapshot {
 public:
    static constexpr std::string_view name = "holdfast";
    using named_snapshot::named_snapshot;
    void open_reader() { reader_.emplace(snapshot_reader::attach(uri())); }
    bool read(std::span<std::uint64_t> out) {
        return read_again([&] { return reader_->read(std::as_writable_bytes(out)); });
    }
    bool look(std::uint64_t& sum) {
        return read_again([&] {
            return reader_->visit([&](std::span<const std::byte> object, std::uint64_t) noexcept {
                sum = 0;
                for (std::size_t at = 0; at < object.size(); at += sizeof(std::uint64_t))
                    sum += holdfast::detail::shared_load<std::uint64_t>(object.data() + at);
            });
        });
    }

 private:
    std::optional<snapshot_reader> reader_;
};

/// The same past the copy beside `current`: what that copy is worth.
class own_snapshot_slots : public named_snapshot {
 public:
    static constexpr std::string_view name = "holdfast, out of the slot";
    static bool has(std::size_t words) { return words * sizeof(std::uint64_t) <= layout::snapshot_front_bytes; }
    using named_snapshot::named_snapshot;
    void open_reader() { reader_.emplace(snapshot_reader::attach(uri())); }
    bool read(std::span<std::uint64_t> out) {
        return read_again([&] { return reader_->core().read_slot(std::as_writable_bytes(out)); });
    }

 private:
    std::optional<snapshot_reader> reader_;
};

/// The same as a record, whose size is known where it is read.
class own_snapshot_record {
    using object = fixed_message<16>;

 public:
    static constexpr std::string_view name = "holdfast, snapshot<T>";
    static constexpr far_place place = far_place::process;
    static bool has(std::size_t words) { return words * sizeof(std::uint64_t) == sizeof(object); }
    static std::string version() { return own_version(); }
    explicit own_snapshot_record(const snapshot_request& request) : name_({.name = request.name}, "record") {}
    void open_writer() { writer_.emplace(snapshot<object>::create(name_.uri())); }
    void open_reader() { reader_.emplace(snapshot<object>::reader::attach(name_.uri())); }
    bool read(std::span<std::uint64_t> out) {
        for (int tries = 0; tries < overrun_tries; ++tries) {
            const auto got = reader_->read();
            if (got.status == outcome::contended) continue;
            out[0] = got.value.words[0];
            out[1] = got.value.words[1];
            return static_cast<bool>(got);
        }
        return false;
    }
    bool publish(std::span<const std::uint64_t> words) {
        return static_cast<bool>(writer_->publish(object{{words[0], words[1]}}));
    }

 private:
    channel_name name_;
    std::optional<snapshot<object>> writer_;
    std::optional<snapshot<object>::reader> reader_;
};

/// Read by a registered reader, which holds the version it works on.
class own_pinned_snapshot : public named_snapshot {
 public:
    static constexpr std::string_view name = "holdfast, pinned reader";
    using named_snapshot::named_snapshot;
    void open_reader() { reader_.emplace(snapshot_pinned_reader::attach(uri())); }
    bool read(std::span<std::uint64_t> out) {
        const snapshot_view view = pin();
        if (view.bytes().size() != out.size_bytes()) return false;
        std::memcpy(out.data(), view.bytes().data(), out.size_bytes());
        return true;
    }
    bool look(std::uint64_t& sum) {
        const snapshot_view view = pin();
        if (!view) return false;
        const auto* const words = reinterpret_cast<const std::uint64_t*>(view.bytes().data());
        sum = std::accumulate(words, words + view.bytes().size() / sizeof(std::uint64_t), std::uint64_t{0});
        return true;
    }

 private:
    [[nodiscard, gnu::always_inline]] snapshot_view pin() {
        snapshot_view view = reader_->pin();
        for (int tries = 0; !view && view.status() == outcome::contended && tries < overrun_tries; ++tries)
            view = reader_->pin();  // as read_overrun
        return view;
    }

    std::optional<snapshot_pinned_reader> reader_;
};

/// std::atomic<std::shared_ptr>: a fresh object for each version; readers share it. One process.
class shared_pointer_snapshot {
 public:
    static constexpr std::string_view name = "std::atomic<std::shared_ptr>";
    static std::string version() { return standard_library_version(); }
    static constexpr far_place place = far_place::thread;
    explicit shared_pointer_snapshot(const snapshot_request& request) : words_(request.words) {}
    void open_writer() {}
    void open_reader() {}

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
    static constexpr far_place place = far_place::thread;
    explicit locked_snapshot(const snapshot_request& request) : object_(request.words) {}
    void open_writer() {}
    void open_reader() {}

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
