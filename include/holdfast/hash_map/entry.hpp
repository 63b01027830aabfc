// SPDX-License-Identifier: Apache-2.0
// entry.hpp - what the writers of a hash map have in common, of one and of many: what lies under a key, on what
// condition it is changed, and how a claim of the store becomes an entry.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/hash_map/read.hpp"
#include "holdfast/hash_map/result.hpp"

namespace holdfast::detail {

/// On what condition a value is stored.
struct map_condition {
    enum kind : std::uint8_t { always, absent, present, same };
    kind when = always;
    std::uint64_t handle = 0;  // same: what the key must have; 0 = nothing
};

/// What the table has under a key: nothing, an entry, or what cannot be taken for either.
struct map_place {
    outcome status = outcome::ok;  // collision, corrupt
    std::uint64_t handle = 0;      // as the table holds it, which may be damaged
    std::uint64_t entry = 0;       // the same if an entry of the key's own stands there: what goes with the key
};

/// What a handle means that the table holds under the digest of `key`. A word under which nothing stands, or for a
/// short key, which cannot collide, the entry of another, is damage that a set or an erase of the key may mend: it
/// counts as the key's, and no entry goes with it. Requires: handle != 0, and nobody frees what the table leads to.
[[nodiscard]] inline map_place place_under(const map_reader_core& reader, std::uint64_t handle,
                                           std::span<const std::byte> key) noexcept {
    switch (reader.compare_key(handle, key)) {
        case outcome::not_found:
            return {key.size() > short_key_bytes_max ? outcome::collision : outcome::ok, handle, 0};
        case outcome::stale: return {outcome::ok, handle, 0};
        default: return {outcome::ok, handle, handle};
    }
}

/// Why what is there must not be changed; else ok.
[[nodiscard]] inline hash_map_result refusal(const map_place& at, const map_condition& when) noexcept {
    if (at.status != outcome::ok) return {at.status, at.handle};
    switch (when.when) {
        case map_condition::always: break;
        case map_condition::absent:
            if (at.handle != 0) return {outcome::exists, at.handle};
            break;
        case map_condition::present:
            if (at.handle == 0) return {outcome::not_found};
            break;
        case map_condition::same:
            if (at.handle != when.handle) return {outcome::stale, at.handle};
            break;
    }
    return {outcome::ok};
}

/// Whether key and value are no larger than an entry can be.
[[nodiscard]] inline bool fits_an_entry(const layout::hash_map_geometry& g, std::span<const std::byte> key,
                                        std::span<const std::byte> value) noexcept {
    if (key.size() > layout::map_key_bytes_max) return false;
    const std::uint64_t value_at = layout::map_value_offset(key.size()), most = g.store.value_bytes_max();
    return value_at <= most && value.size() <= most - value_at;
}

/// Writes head and key into what the store has claimed.
template <class Store>
void write_entry_head(Store& store, std::span<const std::byte> key, std::uint64_t expires,
                      std::uint32_t flags) noexcept {
    const std::uint64_t words[2] = {expires, key.size() | std::uint64_t{flags} << 32};
    (void)store.write(0, std::as_bytes(std::span(words)));
    const std::size_t whole = key.size() / 8 * 8;
    (void)store.write(layout::map_entry_head_bytes, key.first(whole));
    if (whole == key.size()) return;
    const std::uint64_t last = word_of_bytes(key.data() + whole, key.size() - whole);  // padded by zero
    (void)store.write(layout::map_entry_head_bytes + whole, std::as_bytes(std::span(&last, 1)));
}

/// Copies an entry into what the store has claimed. Returns: whether it was whole. Requires: nobody frees it, and as
/// many bytes are claimed.
template <class Store>
[[nodiscard]] bool copy_into_claim(const map_reader_core& reader, std::uint64_t entry, Store& store) noexcept {
    const result whole =
        reader.blocks().visit(entry, [&](std::span<const std::byte> piece, std::uint64_t from, std::uint64_t) noexcept {
            for_each_private_part(piece, [&](std::span<const std::byte> part, std::size_t begin) {
                (void)store.write(from + begin, part);
            });
        });
    return static_cast<bool>(whole);
}

/// Bytes of an entry from `from` on, wherever they lie. Returns: whether it was whole.
[[nodiscard]] inline bool copy_out_of_entry(const map_reader_core& reader, std::uint64_t entry, std::uint64_t from,
                                            std::span<std::byte> to) noexcept {
    const result whole =
        reader.blocks().visit(entry, [&](std::span<const std::byte> piece, std::uint64_t at, std::uint64_t) noexcept {
            const std::uint64_t begin = std::max(at, from), end = std::min(at + piece.size(), from + to.size());
            if (begin < end)
                copy_from_shared(to.data() + (begin - from), piece.data() + (begin - at),
                                 static_cast<std::size_t>(end - begin));
        });
    return static_cast<bool>(whole);
}

template <class T>
[[nodiscard]] constexpr T wrapping_sum(T a, T b) noexcept {
    if constexpr (std::is_integral_v<T>) {
        using wrapping = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<wrapping>(static_cast<wrapping>(a) + static_cast<wrapping>(b)));
    } else {
        return a + b;
    }
}

/// Whether the value of an entry of so many bytes has a T at byte `offset`.
template <class T>
[[nodiscard]] constexpr bool has_at(const map_entry_head& head, std::uint64_t bytes, std::uint64_t offset) noexcept {
    const std::uint64_t room = bytes - head.value_at();
    return offset <= room && sizeof(T) <= room - offset;
}

/// Puts into a claim that is a copy of `entry` the sum of `addend` and the T at byte `offset` of its value, which goes
/// to `before`. Returns: ok, out_of_range, corrupt.
template <class T, class Store>
[[nodiscard]] outcome add_in_claim(const map_reader_core& reader, std::uint64_t entry, const map_entry_head& head,
                                   std::uint64_t bytes, Store& store, std::uint64_t offset, T addend,
                                   T& before) noexcept {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    if (!has_at<T>(head, bytes, offset)) return outcome::out_of_range;
    const std::uint64_t from = head.value_at() + offset;
    std::byte raw[sizeof(T)] = {};
    if (!copy_out_of_entry(reader, entry, from, raw)) return reader.broken();
    std::memcpy(&before, raw, sizeof(T));
    const T sum = wrapping_sum(before, addend);
    std::memcpy(raw, &sum, sizeof(T));
    return store.write(from, raw);
}

}  // namespace holdfast::detail
