// SPDX-License-Identifier: Apache-2.0
// array_own.hpp - the arrays that need no package: ours, memory copied with nothing checked, and a std::vector under a
// std::shared_mutex.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/array.hpp"
#include "workload/array_subject.hpp"

namespace holdfast::workload {

/// Ours, shared by name and read by a process that registers nowhere.
template <std::size_t Bytes>
class own_array {
 public:
    using element = fixed_message<Bytes>;
    static constexpr std::string_view name = "holdfast";
    static constexpr far_place place = far_place::process;
    static constexpr bool beside_writer = true;
    static std::string version() { return own_version(); }

    explicit own_array(const array_request& request) : name_({.name = request.name}, "array"), size_(request.size) {}
    void open_writer() { writer_.emplace(array<element>::create(name_.uri(), {.size = size_})); }
    void open_reader() { reader_.emplace(array_reader<element>::attach(name_.uri())); }
    bool load(std::uint64_t index, element& out) const { return reader_->load(index, out) == outcome::ok; }
    void store(std::uint64_t index, const element& e) { writer_->store(index, e); }

 private:
    channel_name name_;
    std::uint64_t size_;
    std::optional<array<element>> writer_;
    std::optional<array_reader<element>> reader_;
};

/// Shared memory and memcpy: what reading costs where nobody ever writes. Beside a writer it is torn.
template <std::size_t Bytes>
class bare_array {
 public:
    using element = fixed_message<Bytes>;
    static constexpr std::string_view name = "memcpy, nothing checked";
    static constexpr far_place place = far_place::process;
    static constexpr bool beside_writer = false;
    static std::string version() { return standard_library_version(); }

    explicit bare_array(const array_request& request)
        : pages_(std::make_unique<shared_pages>(request.size * Bytes)), data_(pages_->bytes().data()) {}
    void open_writer() {}
    void open_reader() {}
    bool load(std::uint64_t index, element& out) const {
        std::memcpy(&out, data_ + index * Bytes, Bytes);
        return true;
    }
    void store(std::uint64_t index, const element& e) { std::memcpy(data_ + index * Bytes, &e, Bytes); }

 private:
    std::unique_ptr<shared_pages> pages_;
    std::byte* data_;
};

/// One lock for all elements, between two threads.
template <std::size_t Bytes>
class locked_array {
 public:
    using element = fixed_message<Bytes>;
    static constexpr std::string_view name = "std::shared_mutex and std::vector";
    static constexpr far_place place = far_place::thread;
    static constexpr bool beside_writer = true;
    static std::string version() { return standard_library_version(); }

    explicit locked_array(const array_request& request) : shared_(std::make_unique<shared>()) {
        shared_->elements.resize(request.size);
    }
    void open_writer() {}
    void open_reader() {}
    bool load(std::uint64_t index, element& out) const {
        const std::shared_lock hold(shared_->mutex);
        out = shared_->elements[index];
        return true;
    }
    void store(std::uint64_t index, const element& e) {
        const std::unique_lock hold(shared_->mutex);
        shared_->elements[index] = e;
    }

 private:
    struct shared {
        std::shared_mutex mutex;
        std::vector<element> elements;
    };
    std::unique_ptr<shared> shared_;
};

}  // namespace holdfast::workload
