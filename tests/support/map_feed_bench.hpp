// SPDX-License-Identifier: Apache-2.0
// map_feed_bench.hpp - the change feed of a hash map on plain bytes, and the map that it tells when it is replayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hash_map/feed.hpp"
#include "support/broadcast_bench.hpp"
#include "support/map_bench.hpp"

namespace holdfast::test {

/// Keys and values as a feed tells them.
using feed_contents = std::map<std::string, std::vector<std::byte>>;

[[nodiscard]] inline std::string key_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Applies one message. Returns what is wrong with it.
inline std::string replay(feed_contents& seen, std::uint64_t& number, std::span<const std::byte> message,
                          std::uint16_t type) {
    const auto event = hash_map_event::parse(message, type);
    if (!event) return "a message that is no change";
    if (event->number != number + 1)
        return "change " + std::to_string(event->number) + " behind " + std::to_string(number);
    number = event->number;
    const std::string key = key_text(event->key);
    const bool was = seen.contains(key);
    if (event->what == entry_change::inserted || event->what == entry_change::updated) {
        if (!event->value) return "a value is missing";
        if (was != (event->what == entry_change::updated)) return "inserted and updated are mixed up";
        seen[key].assign(event->value->begin(), event->value->end());
    } else {
        if (!was) return "what goes was never there";
        seen.erase(key);
    }
    return {};
}

[[nodiscard]] inline feed_contents contents_of(const map_reader& reader) {
    feed_contents all;
    hash_map_entry entry;
    std::uint64_t cursor = 0;
    while (reader.next_entry(cursor, entry) == outcome::ok) all[key_text(entry.key)] = entry.value;
    return all;
}

struct no_slots {
    [[nodiscard]] static constexpr std::uint32_t size() noexcept { return 0; }
    [[nodiscard]] static layout::broadcast_slot& slot(std::uint32_t) noexcept {
        static layout::broadcast_slot none;
        return none;
    }
    [[nodiscard]] static constexpr bool seize(std::uint32_t) noexcept { return false; }
    static constexpr void give_back(std::uint32_t) noexcept {}
};
/// A ring on plain bytes as a map's sink.
class plain_sink final : public holdfast::detail::map_sink {
 public:
    plain_sink(std::span<std::byte> body, const layout::broadcast_geometry& geometry)
        : body_(body), geometry_(geometry), ring_(body, geometry, bench_clock::clocks(), "bench") {}
    std::uint64_t last_told() noexcept override {
        layout::broadcast_read_core reader(body_, geometry_);
        if (ring_.published() == 0) return 0;
        (void)reader.join(broadcast_start::sequence(ring_.published()));
        std::byte out[1024];
        const broadcast_read got = reader.read(out);
        const auto event = hash_map_event::parse(std::span(out).first(static_cast<std::size_t>(got.count)), got.type);
        return got && event ? event->number : 0;
    }
    bool tell(const holdfast::detail::map_told_change& change, const map_reader& reader) noexcept override {
        no_slots none;
        return holdfast::detail::tell_change(
            change, reader, true, [&](std::uint64_t bytes) { return ring_.claim(bytes, none); },
            [&](std::uint64_t bytes, std::uint16_t type) {
                (void)ring_.stage(bytes, type);
                return ring_.commit();
            });
    }

 private:
    std::span<std::byte> body_;
    layout::broadcast_geometry geometry_;
    layout::broadcast_write_core ring_;
};

/// Applies what a reader has not read yet, to the end.
inline std::string replay_rest(layout::broadcast_read_core& reader, feed_contents& seen, std::uint64_t& number) {
    std::byte out[1024];
    for (;;) {
        const broadcast_read got = reader.read(out);
        if (got.status == outcome::empty) return {};
        if (!got) return "the ring answers " + std::string(outcome_name(got.status));
        if (std::string text =
                replay(seen, number, std::span(out).first(static_cast<std::size_t>(got.count)), got.type);
            !text.empty())
            return text;
    }
}

/// Everything that a ring holds, from its oldest message on.
inline std::string replay_all(std::span<const std::byte> ring, const layout::broadcast_geometry& geometry,
                              feed_contents& seen, std::uint64_t& number) {
    layout::broadcast_read_core reader(ring, geometry);
    (void)reader.join(broadcast_start::oldest());
    return replay_rest(reader, seen, number);
}

}  // namespace holdfast::test
