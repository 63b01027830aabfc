// SPDX-License-Identifier: Apache-2.0
// hash_map_own.hpp - the maps of text that need no package: ours, and the standard library's in private memory, alone
// and under a lock.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "holdfast/hash_map.hpp"
#include "workload/hash_map_subject.hpp"
#include "workload/queue_own.hpp"

namespace holdfast::workload {

/// Ours, shared by name and read by another process than its writer's, through a mapping for reading only.
class own_hash_map {
 public:
    static constexpr std::string_view name = "holdfast";
    static constexpr far_place place = far_place::process;
    static constexpr bool beside_writer = true;
    static std::string version() { return own_version(); }

    explicit own_hash_map(const hash_map_request& request) : name_({.name = request.name}, "map") {
        options_.capacity = request.entries + request.entries / 10 + 16;
        options_.entry_bytes = request.value_bytes + 17;
    }
    void open_writer() { map_.emplace(hash_map<std::string_view>::create(name_.uri(), options_)); }
    void open_reader() { reader_.emplace(hash_map_reader<std::string_view>::attach(name_.uri())); }
    bool set(std::string_view key, std::span<const std::byte> value) {
        return static_cast<bool>(map_->set(key, value));
    }
    std::size_t find(std::string_view key, std::span<std::byte> out) const {
        const hash_map_found got = reader_->find(key, out);
        return got ? static_cast<std::size_t>(got.count) : 0;
    }
    bool look(std::string_view key, std::uint64_t& sum) const {
        return static_cast<bool>(
            reader_->visit(key, [&](std::span<const std::byte> piece, std::uint64_t from, std::uint64_t) noexcept {
                if (from == 0) sum = 0;  // begun anew where the value was replaced meanwhile
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
    hash_map_options options_;
    std::optional<hash_map<std::string_view>> map_;
    std::optional<hash_map_reader<std::string_view>> reader_;
};

/// Looks a std::string up by a view, without making one. The standard library's function (Murmur) mixes well enough
/// that a table of Boost's need not mix once more, which it does unless it is told. On keys as here that was the
/// fastest of four: 8.7 ns a hit among 1000 in Boost's map, against 9.9 mixed once more, 10.6 with absl::Hash and 13.2
/// with boost::hash (Boost 1.81).
struct text_hash : std::hash<std::string_view> {
    using is_transparent = void;
    using is_avalanching = void;
};

/// A map of std::string to std::string that is one process's own, and has no lock: nobody could write beside a reader.
template <class Map, class Traits>
class private_string_map {
 public:
    static constexpr std::string_view name = Traits::name;
    static constexpr far_place place = far_place::thread;
    static constexpr bool beside_writer = false;
    static std::string version() { return Traits::version(); }

    explicit private_string_map(const hash_map_request& request) { map_.reserve(request.entries); }
    void open_writer() const {}
    void open_reader() const {}
    bool set(std::string_view key, std::span<const std::byte> value) {
        const std::string_view text(reinterpret_cast<const char*>(value.data()), value.size());
        if (const auto found = map_.find(looked_for(key)); found != map_.end())
            found->second.assign(text);
        else
            map_.emplace(std::string(key), std::string(text));
        return true;
    }
    std::size_t find(std::string_view key, std::span<std::byte> out) const {
        const auto found = map_.find(looked_for(key));
        if (found == map_.end()) return 0;
        std::memcpy(out.data(), found->second.data(), found->second.size());
        return found->second.size();
    }
    bool look(std::string_view key, std::uint64_t& sum) const {
        const auto found = map_.find(looked_for(key));
        if (found == map_.end()) return false;
        sum = sum_of_words(found->second.data(), found->second.size());
        return true;
    }
    void begin_reads() const {}
    void end_reads() const {}
    void begin_writes() const {}
    void end_writes() const {}

 private:
    /// Some maps have a view of their own.
    [[nodiscard]] static auto looked_for(std::string_view key) {
        if constexpr (requires { typename Traits::view; })
            return typename Traits::view(key.data(), key.size());
        else
            return key;
    }
    Map map_;
};

struct standard_map_traits {
    static constexpr std::string_view name = "std::unordered_map<std::string, std::string>";
    static std::string version() { return standard_library_version(); }
};
using standard_string_map =
    private_string_map<std::unordered_map<std::string, std::string, text_hash, std::equal_to<>>, standard_map_traits>;

/// The standard library's under one lock: what threads of one process would share.
class locked_string_map {
 public:
    static constexpr std::string_view name = "std::shared_mutex and std::unordered_map";
    static constexpr far_place place = far_place::thread;
    static constexpr bool beside_writer = true;
    static std::string version() { return standard_library_version(); }

    explicit locked_string_map(const hash_map_request& request) : map_(request) {}
    void open_writer() const {}
    void open_reader() const {}
    bool set(std::string_view key, std::span<const std::byte> value) {
        const std::unique_lock hold(mutex_);
        return map_.set(key, value);
    }
    std::size_t find(std::string_view key, std::span<std::byte> out) const {
        const std::shared_lock hold(mutex_);
        return map_.find(key, out);
    }
    bool look(std::string_view key, std::uint64_t& sum) const {
        const std::shared_lock hold(mutex_);
        return map_.look(key, sum);
    }
    void begin_reads() const {}
    void end_reads() const {}
    void begin_writes() const {}
    void end_writes() const {}

 private:
    mutable std::shared_mutex mutex_;
    standard_string_map map_;
};

}  // namespace holdfast::workload
