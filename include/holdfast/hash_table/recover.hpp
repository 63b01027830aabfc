// SPDX-License-Identifier: Apache-2.0
// recover.hpp - what the next writer does before its first operation: finish what the last one was killed in.
//
// Cost of recover(): one journal, whatever the capacity. Every step may be killed and is then done again: a replay
// stores the same words, the size is mended only while its lowest bit says that it was not, and the digest becomes
// next, which nobody changes meanwhile, or stays.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "holdfast/hash_table/mutate.hpp"

namespace holdfast {

/// What the next writer found and finished.
struct hash_table_recovery {
    bool update_replayed = false;    ///< a wide update was armed; its value is in place now
    bool operation_settled = false;  ///< an insert, erase or update was running; size and checksum are right now
    bool journal_rejected =
        false;  ///< the journal contradicts the table: damage, not a crash. It was disarmed and changed no value
    bool stripes_given_back = false;  ///< many writers: one was killed while others had to keep off a part of the table

    /// What was found in several writer slots.
    hash_table_recovery& operator+=(const hash_table_recovery& more) noexcept {
        update_replayed |= more.update_replayed;
        operation_settled |= more.operation_settled;
        journal_rejected |= more.journal_rejected;
        stripes_given_back |= more.stripes_given_back;
        return *this;
    }
};

namespace detail {

/// Finishes the armed update, if there is one: U1, U2, U3, J3 once more. A journal that is armed without an intent for
/// the same slot was armed by damage: what it holds is an older value, not the newest.
template <class Node>
void replay_update(const table_view<std::byte, Node>& view, hash_table_recovery& done) noexcept {
    std::byte* journal = view.journal;
    // Relaxed, all loads here: there is no other writer, and the lease that was taken orders us behind the last one.
    const std::uint64_t sequence = load_relaxed<std::uint64_t>(journal + layout::journal_sequence_offset);
    if (sequence % 2 == 0) return;
    const hash_table_intent intent{load_relaxed<std::uint64_t>(journal + layout::journal_intent_offset)};
    const std::uint64_t slot = load_relaxed<std::uint64_t>(journal + layout::journal_slot_offset);
    if (slot < view.slots()) {
        const std::uint64_t bucket = slot / layout::tags_per_line;
        const unsigned place = static_cast<unsigned>(slot % layout::tags_per_line);
        std::byte* line = view.line(bucket);
        std::byte* node = view.node_at(bucket, place);
        const std::byte* image = journal + layout::journal_image_offset;
        std::byte key[layout::key_bytes_max];
        copy_from_words(key, image, 0, view.node.key_bytes());
        const std::uint32_t version = load_relaxed<std::uint32_t>(line + layout::line_version_offset);
        const bool meant = intent.what() == hash_table_intent::update && intent.slot() == slot;
        if (meant && is_key_tag(tag_at(line, place)) && equal_words(node, key, view.node.key_bytes())) {
            store_release<std::uint32_t>(line + layout::line_version_offset, version | 1U);  // U1, W2
            copy_value_words(view, node, image);                                             // U2
            done.update_replayed = true;
        } else {
            done.journal_rejected = true;
        }
        if (done.update_replayed || version % 2 != 0)
            store_release<std::uint32_t>(line + layout::line_version_offset, (version | 1U) + 1U);  // U3, W2
    } else {
        done.journal_rejected = true;
    }
    store_release<std::uint64_t>(journal + layout::journal_sequence_offset, sequence + 1);  // J3, pairs with R3
}

/// Whether the operation happened that was running. An update did if the value in its slot gives the sum it promised;
/// one that gives another is the old value, or damage: the digest stays, and tells which.
template <class Node>
[[nodiscard]] bool is_committed(const table_view<std::byte, Node>& view, hash_table_intent intent, bool has_entry,
                                const std::byte* node, std::uint64_t next) noexcept {
    if (intent.what() != hash_table_intent::update) return has_entry == (intent.what() == hash_table_intent::insert);
    const std::uint64_t base =
        load_relaxed<std::uint64_t>(view.journal + layout::journal_base_offset);  // relaxed: above
    return has_entry && base + digest_value(view, node, node) == next;
}

/// Settles the running operation, if there is one: digest and size for what its slot holds now.
template <class Node>
void settle_intent(const table_view<std::byte, Node>& view, hash_table_recovery& done) noexcept {
    std::byte* journal = view.journal;
    // Relaxed: as above.
    const hash_table_intent intent{load_relaxed<std::uint64_t>(journal + layout::journal_intent_offset)};
    if (!intent.is_open()) return;
    const std::uint64_t slot = intent.slot();
    if (slot < view.slots()) {
        const std::uint64_t bucket = slot / layout::tags_per_line;
        const unsigned place = static_cast<unsigned>(slot % layout::tags_per_line);
        const bool has_entry = is_key_tag(tag_at(view.line(bucket), place));
        const std::uint64_t next = load_relaxed<std::uint64_t>(journal + layout::journal_next_offset);
        if (is_committed(view, intent, has_entry, view.node_at(bucket, place), next))
            store_release<std::uint64_t>(view.digest_of(bucket), next);  // D2
        const std::uint64_t size = load_relaxed<std::uint64_t>(journal + layout::journal_size_offset);
        // One of many writers counts modulo 2^64: it may have erased more than it inserted.
        const std::uint64_t right = view.has_many_writers() && intent.what() != hash_table_intent::update
                                        ? intent.size_elsewhere(size) + (has_entry ? 1 : 0)
                                        : intent.mend(size, has_entry);
        store_release<std::uint64_t>(journal + layout::journal_size_offset, right);  // S1
        done.operation_settled = true;
    } else {
        done.journal_rejected = true;
    }
    store_release<std::uint64_t>(journal + layout::journal_intent_offset, intent.closed().word);  // S2
}

/// Makes the table whole after any crash of its writer. Requires: the caller holds the lease. Idempotent.
template <class Node>
hash_table_recovery recover(const table_view<std::byte, Node>& view) noexcept {
    hash_table_recovery done;
    replay_update(view, done);
    settle_intent(view, done);
    return done;
}

/// Where on the probe sequence of `h` a bucket lies: 0 = home, i = in the i-th pair, -1 = nowhere.
template <class Byte, class Node>
[[nodiscard]] int position_on_path(const table_view<Byte, Node>& view, hash_parts h, std::uint64_t bucket) noexcept {
    const std::uint64_t home = h.home(view.buckets);
    if (bucket == home) return 0;
    probe_pairs pair(home, h, view.buckets);
    for (std::uint32_t i = 1; i <= view.pairs_max; ++i) {
        pair.next();
        if (pair.first() == bucket || pair.second() == bucket) return static_cast<int>(i);
    }
    return -1;
}

/// Buckets whose exact counters are counted at a time: 16 bytes for each, 256 MiB at most, whatever the table's size.
/// A larger table takes one scan for each 436 million slots.
inline constexpr std::uint64_t counted_buckets_max = 1U << 24;

/// For each class and bucket [first, first + count), how many entries went past: 16 bytes a bucket. Entries that are
/// not on their own path count nowhere, nor does what is in the slots `except`. Throws: std::bad_alloc. Cost: one scan
/// over all entries.
template <class Byte, class Node>
[[nodiscard]] std::vector<std::uint8_t> exact_counters(const table_view<Byte, Node>& view, std::uint64_t first,
                                                       std::uint64_t count,
                                                       const std::vector<std::uint64_t>& except = {}) {
    std::vector<std::uint8_t> counts(count * 16);
    const auto add = [&](std::uint64_t bucket, unsigned group) {
        if (bucket - first >= count) return;  // below first, it wraps
        std::uint8_t& n = counts[(bucket - first) * 16 + group];
        if (n < layout::counter_max) ++n;
    };
    std::byte key[layout::key_bytes_max];
    for (std::uint64_t bucket = 0; bucket < view.buckets; ++bucket) {
        for (unsigned place = 0; place < layout::tags_per_line; ++place) {
            if (!is_key_tag(tag_at(view.line(bucket), place))) continue;
            if (!except.empty() &&
                std::find(except.begin(), except.end(), bucket * layout::tags_per_line + place) != except.end())
                continue;
            copy_from_words(key, view.node_at(bucket, place), 0, view.node.key_bytes());
            const hash_parts h = view.hash(key);
            const int position = position_on_path(view, h, bucket);
            if (position <= 0) continue;
            const std::uint64_t home = h.home(view.buckets);
            add(home, h.group());
            probe_pairs pair(home, h, view.buckets);
            for (int i = 1; i < position; ++i) {
                pair.next();
                add(pair.first(), h.group());
                add(pair.second(), h.group());
            }
        }
    }
    return counts;
}

/// Makes all overflow counters exact, those included that got stuck at 15 or were left too high by crashes. Readers may
/// go on. Requires: the caller is the writer. Returns: how many were changed. Throws: std::bad_alloc (16 bytes a
/// bucket, 256 MiB at most). Cost: one scan over all entries for each 436 million slots.
template <class Node>
std::uint64_t recount(const table_view<std::byte, Node>& view, std::uint64_t at_a_time = counted_buckets_max) {
    std::uint64_t changed = 0;
    for (std::uint64_t first = 0; first < view.buckets; first += at_a_time) {
        const std::uint64_t count = std::min(at_a_time, view.buckets - first);
        const std::vector<std::uint8_t> exact = exact_counters(view, first, count);
        for (std::uint64_t i = 0; i < count * 16; ++i) {
            std::byte* line = view.line(first + i / 16);
            const unsigned group = static_cast<unsigned>(i % 16);
            if (counter_of(line, group) == exact[i]) continue;
            set_counter(line, group, exact[i]);
            ++changed;
        }
    }
    return changed;
}

}  // namespace detail
}  // namespace holdfast
