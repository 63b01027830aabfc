// SPDX-License-Identifier: Apache-2.0
// map_bench.hpp - a hash map on plain bytes, a model of it, and the questions every image after a crash is asked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/hash_map/verify.hpp"
#include "holdfast/hash_map/write.hpp"
#include "support/block_bench.hpp"
#include "support/single_step.hpp"
#include "support/snapshot_bench.hpp"

namespace holdfast::test {

using map_writer = holdfast::detail::map_writer_core;
using map_reader = holdfast::detail::map_reader_core;
using writable_map = holdfast::detail::map_view<std::byte>;
using readable_map = holdfast::detail::map_view<const std::byte>;

/// A clock that a test sets; children take it along.
inline std::uint64_t fake_boot_seconds = 0;
inline std::uint64_t fake_zone = 1;
[[nodiscard]] inline hash_map_clock fake_clock() {
    return {[]() noexcept { return fake_boot_seconds; }, []() noexcept { return fake_zone; }};
}

/// What lies under a key: whole_object(seed, bytes), with so much added to its first word.
struct map_content {
    std::uint64_t seed = 0;
    std::size_t bytes = 0;
    std::uint64_t added = 0;
    friend bool operator==(const map_content&, const map_content&) = default;
};
using map_model = std::map<std::string, map_content>;

/// Keys of a word, of several, and of more than a unit, each its own.
[[nodiscard]] inline std::string map_key(std::uint64_t i) {
    std::string key = std::to_string(i);
    if (i % 3 == 1) key += std::string(9 + i % 11, 'k');
    if (i % 3 == 2 && i % 2 == 0) key += std::string(70, 'l');
    return key;
}
[[nodiscard]] inline std::span<const std::byte> as_key(std::string_view key) {
    return std::as_bytes(std::span(key.data(), key.size()));
}

struct map_shape {
    std::uint64_t units = 48;
    std::uint64_t capacity = 70;
    std::uint64_t unit_bytes = 64;
    bool evicting = false;
};

/// A body of pages, shared with forked children.
class map_bench {
 public:
    explicit map_bench(const map_shape& shape)
        : geometry_(layout::plan_hash_map({.capacity = shape.capacity,
                                           .bytes = shape.units * shape.unit_bytes,
                                           .entry_bytes = 0,
                                           .unit_bytes = shape.unit_bytes,
                                           .evicting = shape.evicting,
                                           .seed = 42})),
          image_(static_cast<std::size_t>(geometry_.body_bytes())) {}

    [[nodiscard]] const layout::hash_map_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] shared_image& image() noexcept { return image_; }
    [[nodiscard]] std::span<std::byte> body() noexcept { return image_.bytes(); }
    [[nodiscard]] writable_map view() noexcept { return {body(), geometry_}; }
    [[nodiscard]] map_writer writer(holdfast::detail::map_sink* sink = nullptr) {
        return map_writer(view(), fake_clock(), sink);
    }
    [[nodiscard]] map_reader reader() noexcept {
        return map_reader({body(), geometry_}, holdfast::detail::map_time(fake_clock()));
    }

 private:
    layout::hash_map_geometry geometry_;
    shared_image image_;
};
[[nodiscard]] inline map_reader reader_of(const readable_map& view) {
    return map_reader(view, holdfast::detail::map_time(fake_clock()));
}

inline hash_map_result put(map_writer& writer, std::string_view key, map_content what,
                           const hash_map_entry_options& how = {}) {
    return writer.set(as_key(key), whole_object(what.seed, what.bytes), how);
}

/// The first thing that verify finds, or nothing.
inline std::string damage_of(const readable_map& view, hash_map_verification* report = nullptr) {
    std::string text;
    const hash_map_verification found = detail::verify_map(view, [&](const hash_map_finding& f) {
        if (!text.empty()) return true;
        text = std::string("verify: ").append(describe(f.what));
        if (f.what == hash_map_damage::table) text.append(": ").append(describe(f.table.what));
        if (f.what == hash_map_damage::store) text.append(": ").append(describe(f.store.what));
        return true;
    });
    if (report != nullptr) *report = found;
    return text.empty() && found.busy != 0 ? "verify: busy" : text;
}

/// Whether the key has exactly this content.
[[nodiscard]] inline bool holds(const map_reader& reader, std::string_view key, map_content what) {
    std::vector<std::byte> out(what.bytes + 8);
    const hash_map_found got = reader.find(as_key(key), std::span(out));
    if (!got || got.count != what.bytes) return false;
    out.resize(what.bytes);
    if (what.added != 0) {
        std::uint64_t word = 0;
        std::memcpy(&word, out.data(), sizeof word);
        word -= what.added;
        std::memcpy(out.data(), &word, sizeof word);
    }
    return is_whole(out, what.seed);
}
[[nodiscard]] inline bool is_there(const map_reader& reader, std::string_view key) {
    std::vector<std::byte> none;
    return reader.find(as_key(key), std::span(none)).status != outcome::not_found;
}

/// The keys that a scan meets, each as often as it is met.
[[nodiscard]] inline std::vector<std::string> keys_of(const map_reader& reader) {
    std::vector<std::string> keys;
    hash_map_entry entry;
    std::uint64_t cursor = 0;
    while (reader.next_entry(cursor, entry) == outcome::ok)
        keys.emplace_back(reinterpret_cast<const char*>(entry.key.data()), entry.key.size());
    return keys;
}

/// How what is stored differs from the model, or nothing.
[[nodiscard]] inline std::string difference(const map_reader& reader, const map_model& model) {
    for (const auto& [key, what] : model)
        if (!holds(reader, key, what)) return "key " + key.substr(0, 12) + " does not have its value";
    const std::vector<std::string> keys = keys_of(reader);
    if (keys.size() != model.size())
        return std::to_string(keys.size()) + " keys in a scan where " + std::to_string(model.size()) + " should be";
    for (const std::string& key : keys)
        if (!model.contains(key)) return "key " + key.substr(0, 12) + " should not be there";
    return reader.fault() ? "the reader latched a fault" : "";
}

/// The keys of all entries of the store, also of those whose time is over.
[[nodiscard]] inline std::vector<std::string> stored_keys(const map_reader& reader) {
    std::vector<std::string> keys;
    for (const std::uint64_t handle : handles_of(reader.blocks())) {
        std::string key;
        (void)reader.walk(
            handle,
            [&](const holdfast::detail::map_entry_head& head, std::uint64_t) {
                key.resize(static_cast<std::size_t>(head.key_bytes));
                return true;
            },
            [&](std::span<const std::byte> piece, std::uint64_t at) {
                const std::size_t bytes =
                    std::min<std::size_t>(piece.size(), key.size() - static_cast<std::size_t>(at));
                std::memcpy(key.data() + at, piece.data(), bytes);
                return true;
            },
            [](std::span<const std::byte>, std::uint64_t, std::uint64_t) { return true; });
        keys.push_back(std::move(key));
    }
    return keys;
}

/// The next writer goes on: each entry can be erased, nothing is left over, and then one value fills the map. The image
/// is used up by that.
[[nodiscard]] inline std::string leaks(const writable_map& view) {
    map_writer writer(view, fake_clock(), nullptr);
    for (const std::string& key : stored_keys(writer.reader()))
        if (const outcome done = writer.erase(as_key(key)).status; done != outcome::ok && done != outcome::not_found)
            return "an entry could not be erased";
    const hash_map_usage usage = writer.reader().usage();
    if (!usage || usage.units_used != 0 || usage.entries != 0) return "an emptied map is not empty";
    if (std::string text = damage_of(view.as_const()); !text.empty()) return "emptied: " + text;
    const map_content all{
        7, static_cast<std::size_t>(view.geometry().store.value_bytes_max() - layout::map_value_offset(3))};
    if (!put(writer, "all", all) || !holds(writer.reader(), "all", all)) return "one value cannot fill the map";
    return damage_of(view.as_const());
}

}  // namespace holdfast::test
