// SPDX-License-Identifier: Apache-2.0
// feed.hpp - the changes of a hash map as messages of a broadcast ring: each once, in order, also across kills.
//
// Message, layout v1 (little-endian)             Its type: entry_change, + 256 if the value is there
//    0  8  number of the change, from 1
//    8  8  handle of the entry that came, or of the one that went
//   16  4  bytes of the key
//   20  4  flags of the entry
//   24     key, zero bytes up to a multiple of 8
//          value, up to the end of the message: of what was inserted or updated, where the feed has values
//
// A change is told behind its commit and before the record of its operation is closed. So a writer that finds an open
// record looks at the number in the ring's last message and tells what is missing (recover.hpp). A message that cannot
// be published, because a registered reader is in the way or the ring is too small for the key, is left out: the next
// number tells. A value that does not fit is left out of its message. Numbers go on while a map has no feed.
// Threads: the feed belongs to the map's writer while that lives. After a crash: attach the ring, then the map with it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "holdfast/broadcast/writer.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/hash_map/sink.hpp"

namespace holdfast {

/// One change, as a message tells it. The spans are parts of the message.
struct hash_map_event {
    static constexpr std::size_t head_bytes = 24;
    static constexpr std::uint16_t with_value = 256;  ///< in the type of the message

    std::uint64_t number = 0;  ///< counts the changes of the map; a gap: some were not told, look at the map itself
    entry_change what = entry_change::none;
    std::uint64_t handle = 0;
    std::uint32_t flags = 0;
    std::span<const std::byte> key;
    std::optional<std::span<const std::byte>> value;

    /// Reads a message that is in private memory, as broadcast_reader::read gives it. Returns: nothing for one that is
    /// no change of a map.
    [[nodiscard]] static std::optional<hash_map_event> parse(std::span<const std::byte> message,
                                                             std::uint16_t type) noexcept {
        hash_map_event event;
        const std::uint64_t what = type & ~std::uint64_t{with_value};
        if (message.size() < head_bytes || what == 0 || what > entry_change_max) return std::nullopt;
        std::uint32_t key_bytes = 0;
        std::memcpy(&event.number, message.data(), 8);
        std::memcpy(&event.handle, message.data() + 8, 8);
        std::memcpy(&key_bytes, message.data() + 16, 4);
        std::memcpy(&event.flags, message.data() + 20, 4);
        const std::uint64_t value_at = head_bytes + layout::round_up(key_bytes, 8);
        if (value_at > message.size()) return std::nullopt;
        event.what = static_cast<entry_change>(what);
        event.key = message.subspan(head_bytes, key_bytes);
        if ((type & with_value) != 0) event.value = message.subspan(static_cast<std::size_t>(value_at));
        return event;
    }
};

namespace detail {

/// Puts a change into a ring: claim(bytes) -> broadcast_claim, then commit(bytes, type) -> result.
/// Returns: whether it is told.
template <class Claim, class Commit>
bool tell_change(const map_told_change& change, const map_reader_core& reader, bool values, Claim&& claim,
                 Commit&& commit) {
    map_entry_head head;
    std::uint64_t entry_bytes = 0;
    if (reader.head_of(change.handle, head, entry_bytes) != outcome::ok) return false;
    bool with_value = values && (change.what == entry_change::inserted || change.what == entry_change::updated);
    const std::uint64_t key_part = hash_map_event::head_bytes + layout::round_up(head.key_bytes, 8);
    const std::uint64_t value_bytes = entry_bytes - head.value_at();
    broadcast_claim room = claim(with_value ? key_part + value_bytes : key_part);
    if (room.status == outcome::too_large && with_value) {
        with_value = false;
        room = claim(key_part);
    }
    if (!room) return false;
    const std::uint64_t words[3] = {change.number, change.handle, head.key_bytes | std::uint64_t{head.flags} << 32};
    copy_to_shared(room.bytes.data(), reinterpret_cast<const std::byte*>(words), sizeof words);
    const auto put = [&](std::span<const std::byte> piece, std::uint64_t at) {
        if (at >= room.bytes.size()) return true;
        const std::span<std::byte> to = room.bytes.subspan(static_cast<std::size_t>(at));
        for_each_private_part(piece.first(std::min(piece.size(), to.size())),
                              [&](std::span<const std::byte> part, std::size_t from) {
                                  copy_to_shared(to.data() + from, part.data(), part.size());
                              });
        return true;
    };
    const outcome whole = reader.walk(
        change.handle, [](const map_entry_head&, std::uint64_t) { return true; },
        [&](std::span<const std::byte> piece, std::uint64_t at) { return put(piece, hash_map_event::head_bytes + at); },
        [&](std::span<const std::byte> piece, std::uint64_t at, std::uint64_t) {
            return with_value && put(piece, key_part + at);
        });
    if (whole != outcome::ok) return false;
    const auto type = static_cast<std::uint16_t>(static_cast<std::uint16_t>(change.what) +
                                                 (with_value ? hash_map_event::with_value : 0));
    return static_cast<bool>(commit(room.bytes.size(), type));
}

}  // namespace detail

/// How a feed tells.
struct hash_map_feed_options {
    bool values = true;  ///< the value of what was inserted or updated goes along
};

/// Tells a map's changes to a broadcast ring, whose writer it is. Must outlive the map that it is given to, and is told
/// of one map only.
class hash_map_feed final : public detail::map_sink {
 public:
    explicit hash_map_feed(broadcast_writer ring, const hash_map_feed_options& options = {})
        : ring_(std::move(ring)), options_(options) {}
    hash_map_feed(const hash_map_feed&) = delete;
    hash_map_feed& operator=(const hash_map_feed&) = delete;
    ~hash_map_feed() = default;

    [[nodiscard]] const broadcast_writer& ring() const noexcept { return ring_; }
    /// Changes that could not be told since this feed was made.
    [[nodiscard]] std::uint64_t untold() const noexcept { return untold_; }

    std::uint64_t last_told() noexcept override try {
        if (ring_.sequence() == 0) return 0;
        broadcast_reader last = ring_.make_reader(broadcast_start::sequence(ring_.sequence()));
        std::vector<std::byte> message;
        const broadcast_read got = last.read(message);
        const auto event = got ? hash_map_event::parse(message, got.type) : std::nullopt;
        return event ? event->number : 0;
    } catch (const std::exception&) {
        return 0;  // no memory, or a ring that cannot be read: told twice is better than not at all
    }
    bool tell(const detail::map_told_change& change, const detail::map_reader_core& reader) noexcept override try {
        const bool told = detail::tell_change(
            change, reader, options_.values, [&](std::uint64_t bytes) { return ring_.claim(bytes); },
            [&](std::uint64_t bytes, std::uint16_t type) { return ring_.commit(bytes, type); });
        untold_ += told ? 0U : 1U;
        return told;
    } catch (const std::exception&) {
        ++untold_;
        return false;
    }

 private:
    broadcast_writer ring_;
    hash_map_feed_options options_;
    std::uint64_t untold_ = 0;
};

}  // namespace holdfast
