// SPDX-License-Identifier: Apache-2.0
// view.hpp - bounded access to the bytes of a hash map: its table, its store, and the record of the last operation.
//
// Words of the control page are loaded with acquire and stored with release, plain moves on x86-64; what each pair
// orders stands in write.hpp. Geometry comes from the private, checked copy alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "holdfast/block_store/read.hpp"
#include "holdfast/detail/checksum.hpp"
#include "holdfast/detail/words.hpp"
#include "holdfast/hash_map/digest.hpp"
#include "holdfast/hash_table/find.hpp"
#include "holdfast/layout/hash_map_layout.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast {

namespace detail {

/// An entry of the table: a digest, which tells its own hash (digest.hpp, I1), and a handle.
struct map_node : fixed_node<map_digest, std::uint64_t> {
    static constexpr bool never_grows = true;  // table and store of a map lie in one body

    [[nodiscard]] static std::uint64_t hash(const std::byte* key, std::uint64_t start) noexcept {
        map_digest digest;
        std::memcpy(digest.word, key, sizeof digest.word);
        return hash_of_digest(digest, start);
    }
};

// The table commits a change of a handle by one store, which its recovery neither repeats nor takes back. So the rule
// of many writers' maps (many_recover.hpp) finds under a digest the same before and behind the recovery of the table.
// Of a wider value a journal may hold one that is committed and not in its place yet.
static_assert(map_node::value_bytes() == 8 && map_node::value_follows_key);

/// What one operation does, as its record says.
struct map_record {
    enum field : unsigned { kind, digest, digest_high, add, take, change, zero, sum };

    std::uint64_t word[layout::map_record_words] = {};

    [[nodiscard]] constexpr map_digest key() const noexcept { return {{word[digest], word[digest_high]}}; }
    [[nodiscard]] constexpr entry_change what() const noexcept { return static_cast<entry_change>(word[kind]); }
    [[nodiscard]] constexpr bool is_blank() const noexcept {
        for (const std::uint64_t w : word)
            if (w != 0) return false;
        return true;
    }
    /// A change of any one word, or of the operation's number, changes it.
    [[nodiscard]] constexpr std::uint64_t sum_as(std::uint64_t operation) const noexcept {
        std::uint64_t x = checksum_step(2, operation);
        for (unsigned i = 0; i < sum; ++i) x = checksum_step(x, word[i]);
        return x ^ (x >> 32);
    }
    [[nodiscard]] constexpr bool names(std::uint64_t handle) const noexcept {
        return handle != 0 && (word[add] == handle || word[take] == handle);
    }
};

/// The last operation.
struct map_state {
    std::uint64_t selector = 0;
    map_record record;
    bool sound = true;        // the record is what its writer stored
    bool undisturbed = true;  // the writer stored no selector meanwhile

    [[nodiscard]] constexpr std::uint64_t operation() const noexcept { return selector / 2; }
    [[nodiscard]] constexpr bool is_open() const noexcept { return selector != 0 && selector % 2 == 0; }
};

/// Byte is std::byte for the writer and const std::byte for readers.
template <class Byte>
class map_view {
 public:
    map_view() = default;
    /// Requires: `geometry` validated against body.size(); body aligned to 4096 bytes, in tests to 64.
    map_view(std::span<Byte> body, const layout::hash_map_geometry& geometry) noexcept
        : table(body.first(static_cast<std::size_t>(geometry.table.body_bytes())), geometry.table, {}),
          store(body.subspan(static_cast<std::size_t>(geometry.store_offset())), geometry.store),
          control_(body.data() + geometry.control_offset()),
          geometry_(geometry),
          secrets_(geometry.table.seed),
          body_(body) {}

    [[nodiscard]] map_view<const std::byte> as_const() const noexcept { return {body_, geometry_}; }
    [[nodiscard]] const layout::hash_map_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] std::uint64_t seed() const noexcept { return geometry_.table.seed; }
    [[nodiscard]] const map_secrets& secrets() const noexcept { return secrets_; }
    [[nodiscard]] map_digest digest(std::span<const std::byte> key) const noexcept { return digest_of(key, secrets_); }
    /// What the table makes of the key's digest. Cost: of a long key, half of a digest.
    [[nodiscard, gnu::always_inline]] hash_parts hash(std::span<const std::byte> key) const noexcept {
        if (key.size() > short_key_bytes_max) return {map_hash(key, secrets_.hash[0])};
        return {hash_of_digest(digest_of(key, secrets_), table.hash_state)};
    }
    [[nodiscard]] Byte* control(std::size_t offset) const noexcept { return control_ + offset; }
    [[nodiscard]] std::span<Byte> body() const noexcept { return body_; }

    [[nodiscard]] std::uint64_t selector() const noexcept {
        // R1, pairs with W1. Weaker could show a selector before the record it selects, or before the table's and the
        // store's words that it calls complete.
        return load_acquire<std::uint64_t>(control_ + layout::map_selector_offset);
    }
    [[nodiscard]] Byte* record_at(std::uint64_t operation) const noexcept {
        return control_ + layout::map_records_offset + operation % 2 * layout::map_record_bytes;
    }
    [[nodiscard]] map_record record_of(std::uint64_t operation) const noexcept {
        map_record record;
        const Byte* at = record_at(operation);
        // R1 again: a word of a record that is written next is seen only together with a later selector.
        for (std::size_t i = 0; i < layout::map_record_words; ++i)
            record.word[i] = load_acquire<std::uint64_t>(at + 8 * i);
        return record;
    }
    /// One look at the last operation; undisturbed says whether it counts.
    [[nodiscard]] map_state look() const noexcept {
        map_state s;
        s.selector = selector();
        s.record = record_of(s.operation());
        // Record 0 stays blank until operation 2, so a selector of 0 beside it is an empty map.
        s.sound = s.selector == 0 ? s.record.is_blank() : is_sound(s.record, s.operation());
        // The next operation does nothing before the selector names it: if it did, the selector went back.
        const map_record next = record_of(s.operation() + 1);
        if (is_sound(next, s.operation() + 1) && has_begun(next)) s.sound = false;
        s.undisturbed = selector() == s.selector;
        return s;
    }

    /// Whether this is what a writer stored for that operation.
    [[nodiscard]] bool is_sound(const map_record& r, std::uint64_t operation) const noexcept {
        const auto none_or_handle = [&](std::uint64_t word) { return word == 0 || store.is_handle(word); };
        return operation != 0 && r.word[map_record::sum] == r.sum_as(operation) &&
               r.word[map_record::kind] <= entry_change_max && none_or_handle(r.word[map_record::add]) &&
               none_or_handle(r.word[map_record::take]);
    }

    table_view<Byte, map_node> table;
    block_view<Byte> store;

 private:
    /// Whether the store shows a trace of what a record announces. Requires: is_sound.
    [[nodiscard]] bool has_begun(const map_record& r) const noexcept {
        const auto stands = [&](std::uint64_t handle) { return store.word(store.index_of(handle)) == handle; };
        const std::uint64_t add = r.word[map_record::add], take = r.word[map_record::take];
        return (add != 0 && stands(add)) || (take != 0 && !stands(take));
    }

    Byte* control_ = nullptr;
    layout::hash_map_geometry geometry_{};
    map_secrets secrets_;
    std::span<Byte> body_;
};

}  // namespace detail
}  // namespace holdfast
