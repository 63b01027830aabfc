// SPDX-License-Identifier: Apache-2.0
// recover.hpp - what the next writer does before its first operation: finish what the last one was killed in.
//
// Cost of recover(): one journal, whatever the capacity. Every step may be killed and is then done again: a replay
// stores the same words, and the size is mended only while its lowest bit says that it was not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "holdfast/hash_table/mutate.hpp"

namespace holdfast {

/// What the next writer found and finished.
struct hash_table_recovery {
    bool update_replayed = false;    ///< a wide update was armed; its value is in place now
    bool operation_settled = false;  ///< an insert or erase was running; the size is right now
    bool journal_rejected =
        false;  ///< the journal contradicts the table: damage, not a crash. It was disarmed and changed no value
};

namespace detail {

/// Finishes the armed update, if there is one: U1, U2, U3, J3 once more.
template <class Node>
void replay_update(const table_view<std::byte, Node>& view, hash_table_recovery& done) noexcept {
    std::byte* journal = view.journal;
    // Relaxed, all loads here: there is no other writer, and the lease that was taken orders us behind the last one.
    const std::uint64_t sequence = load_relaxed<std::uint64_t>(journal + layout::journal_sequence_offset);
    if (sequence % 2 == 0) return;
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
        if (is_key_tag(tag_at(line, place)) && equal_words(node, key, view.node.key_bytes())) {
            store_release<std::uint32_t>(line + layout::line_version_offset, version | 1U);  // U1, W2
            for (std::size_t at = view.value_offset / 8 * 8; at < view.value_offset + view.node.value_bytes(); at += 8)
                store_release<std::uint64_t>(
                    node + at, load_relaxed<std::uint64_t>(image + at));  // U2; a shared word has the same key
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

/// Settles the running insert or erase, if there is one.
template <class Node>
void settle_intent(const table_view<std::byte, Node>& view, hash_table_recovery& done) noexcept {
    std::byte* journal = view.journal;
    // Relaxed: as above.
    const std::uint64_t intent = load_relaxed<std::uint64_t>(journal + layout::journal_intent_offset);
    if (intent == 0) return;
    const std::uint64_t slot = hash_table_intent::slot(intent);
    if (slot < view.slots()) {
        const std::byte* line = view.line(slot / layout::tags_per_line);
        const bool has_entry = tag_at(line, static_cast<unsigned>(slot % layout::tags_per_line)) != layout::tag_free;
        const std::uint64_t size = load_relaxed<std::uint64_t>(journal + layout::journal_size_offset);
        store_release<std::uint64_t>(journal + layout::journal_size_offset,
                                     hash_table_intent::mend(intent, size, has_entry));  // S1
        done.operation_settled = true;
    } else {
        done.journal_rejected = true;
    }
    store_release<std::uint64_t>(journal + layout::journal_intent_offset, 0);  // S2
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

/// For every bucket and class, how many entries went past: 16 bytes a bucket. Entries that are not on their own path
/// count nowhere. Throws: std::bad_alloc.
template <class Byte, class Node>
[[nodiscard]] std::vector<std::uint8_t> exact_counters(const table_view<Byte, Node>& view) {
    std::vector<std::uint8_t> counts(view.buckets * 16);
    const auto add = [&](std::uint64_t bucket, unsigned group) {
        std::uint8_t& n = counts[bucket * 16 + group];
        if (n < layout::counter_max) ++n;
    };
    std::byte key[layout::key_bytes_max];
    for (std::uint64_t bucket = 0; bucket < view.buckets; ++bucket) {
        for (unsigned place = 0; place < layout::tags_per_line; ++place) {
            if (!is_key_tag(tag_at(view.line(bucket), place))) continue;
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
/// go on. Requires: the caller is the writer. Returns: how many were changed. Throws: std::bad_alloc. Cost: one scan
/// over all entries.
template <class Node>
std::uint64_t recount(const table_view<std::byte, Node>& view) {
    const std::vector<std::uint8_t> exact = exact_counters(view);
    std::uint64_t changed = 0;
    for (std::uint64_t bucket = 0; bucket < view.buckets; ++bucket) {
        std::byte* line = view.line(bucket);
        for (unsigned group = 0; group < 16; ++group) {
            if (counter_of(line, group) == exact[bucket * 16 + group]) continue;
            set_counter(line, group, exact[bucket * 16 + group]);
            ++changed;
        }
    }
    return changed;
}

}  // namespace detail
}  // namespace holdfast
