// SPDX-License-Identifier: Apache-2.0
// verify.hpp - a full check of a table at rest, for the program's `verify` and for tests.
//
// Any bytes may be checked: nothing crashes, loops or reads outside, and the work is bounded by the number of slots.
// While a writer is at work the check may report what is only half done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "holdfast/hash_table/recover.hpp"

namespace holdfast {

enum class hash_table_damage : std::uint8_t {
    tag_reserved,     ///< the tag is none that a key can have
    tag_wrong,        ///< the tag does not belong to the key in the slot
    off_path,         ///< the slot's bucket is not on the probe sequence of its key
    unreachable,      ///< a lookup of the slot's key finds nothing
    duplicate,        ///< a lookup of the slot's key finds another slot
    counter_too_low,  ///< entries went past the bucket that it does not count
    version_odd,      ///< the bucket looks as if under update, but no journal is armed for it
    journal_slot,     ///< the armed journal or the intent names a slot that does not exist
    journal_key,      ///< the armed journal holds another key than the slot it names
    size_wrong,       ///< the stored size is not the number of entries
};

[[nodiscard]] constexpr std::string_view describe(hash_table_damage what) noexcept {
    switch (what) {
        case hash_table_damage::tag_reserved: return "the tag is a reserved value";
        case hash_table_damage::tag_wrong: return "the tag does not belong to the key";
        case hash_table_damage::off_path: return "the key does not belong into this bucket";
        case hash_table_damage::unreachable: return "a lookup of the key does not find it";
        case hash_table_damage::duplicate: return "the key is also in another slot";
        case hash_table_damage::counter_too_low: return "an overflow counter is too low";
        case hash_table_damage::version_odd: return "the version is odd but no update is in the journal";
        case hash_table_damage::journal_slot: return "the journal names a slot that does not exist";
        case hash_table_damage::journal_key: return "the journal does not fit the slot that it names";
        case hash_table_damage::size_wrong: return "the stored size is wrong";
    }
    return "unknown damage";
}

struct hash_table_finding {
    hash_table_damage what;
    std::uint64_t bucket = 0;
    std::uint64_t slot = 0;  ///< of the entry; for findings about a bucket its first slot
};

struct hash_table_verification {
    std::uint64_t entries = 0;
    std::uint64_t findings = 0;
    std::uint64_t counters_too_high = 0;  ///< no damage: a crash left them, recount() makes them exact
    bool update_armed = false;  ///< no damage: the writer was killed (or is) in a wide update; readers use the journal
    bool operation_open = false;  ///< no damage: the writer was killed (or is) in an insert or erase
    bool stopped = false;         ///< the callback wanted no more

    [[nodiscard]] bool intact() const noexcept { return findings == 0; }
};

namespace detail {

template <class Node, class OnFinding>
class hash_table_verifier {
 public:
    hash_table_verifier(const table_view<const std::byte, Node>& view, OnFinding& on_finding) noexcept
        : view_(view), finder_(view), on_finding_(on_finding) {}

    hash_table_verification run() {
        check_journal();
        const std::vector<std::uint8_t> exact = exact_counters(view_);
        for (std::uint64_t bucket = 0; bucket < view_.buckets && !report_.stopped; ++bucket)
            check_bucket(bucket, exact);
        check_size();
        return report_;
    }

 private:
    void add(hash_table_damage what, std::uint64_t slot) {
        if (report_.stopped) return;
        ++report_.findings;
        report_.stopped = !on_finding_(hash_table_finding{what, slot / layout::tags_per_line, slot});
    }

    void check_journal() {
        // Relaxed: a table at rest.
        const std::uint64_t sequence = load_relaxed<std::uint64_t>(view_.journal + layout::journal_sequence_offset);
        intent_ = load_relaxed<std::uint64_t>(view_.journal + layout::journal_intent_offset);
        report_.operation_open = intent_ != 0;
        if (intent_ != 0 && hash_table_intent::slot(intent_) >= view_.slots()) add(hash_table_damage::journal_slot, 0);
        if (sequence % 2 == 0) return;
        report_.update_armed = true;
        armed_slot_ = load_relaxed<std::uint64_t>(view_.journal + layout::journal_slot_offset);
        if (armed_slot_ >= view_.slots()) return add(hash_table_damage::journal_slot, 0);
        const std::uint64_t bucket = armed_slot_ / layout::tags_per_line;
        const unsigned place = static_cast<unsigned>(armed_slot_ % layout::tags_per_line);
        copy_from_words(key_, view_.journal + layout::journal_image_offset, 0, view_.node.key_bytes());
        if (!is_key_tag(tag_at(view_.line(bucket), place)) ||
            !equal_words(view_.node_at(bucket, place), key_, view_.node.key_bytes()))
            add(hash_table_damage::journal_key, armed_slot_);
    }

    void check_bucket(std::uint64_t bucket, const std::vector<std::uint8_t>& exact) {
        const std::byte* line = view_.line(bucket);
        const std::uint64_t first = bucket * layout::tags_per_line;
        const bool armed_here = report_.update_armed && armed_slot_ / layout::tags_per_line == bucket;
        if (version_of(line) % 2 != 0 && !armed_here) add(hash_table_damage::version_odd, first);
        for (unsigned group = 0; group < 16; ++group) {
            const std::uint8_t stored = counter_of(line, group), counted = exact[bucket * 16 + group];
            if (stored < counted) add(hash_table_damage::counter_too_low, first);
            if (stored > counted) ++report_.counters_too_high;
        }
        for (unsigned place = 0; place < layout::tags_per_line; ++place) check_slot(bucket, place, tag_at(line, place));
    }

    void check_slot(std::uint64_t bucket, unsigned place, std::uint16_t tag) {
        const std::uint64_t slot = bucket * layout::tags_per_line + place;
        if (tag == layout::tag_free) return;
        if (!is_key_tag(tag)) return add(hash_table_damage::tag_reserved, slot);
        ++report_.entries;
        copy_from_words(key_, view_.node_at(bucket, place), 0, view_.node.key_bytes());
        const hash_parts h = view_.hash(key_);
        if (h.tag() != tag) return add(hash_table_damage::tag_wrong, slot);
        if (position_on_path(view_, h, bucket) < 0) return add(hash_table_damage::off_path, slot);
        const std::uint64_t found = finder_.find_hashed(h, h.home(view_.buckets), key_, nullptr);
        if (found == no_slot) return add(hash_table_damage::unreachable, slot);
        if (found != slot) add(hash_table_damage::duplicate, slot);
    }

    void check_size() {
        // Relaxed: a table at rest.
        std::uint64_t size = load_relaxed<std::uint64_t>(view_.journal + layout::journal_size_offset);
        const std::uint64_t slot = hash_table_intent::slot(intent_);
        if (intent_ != 0 && slot < view_.slots()) {
            const unsigned place = static_cast<unsigned>(slot % layout::tags_per_line);
            const bool has_entry = tag_at(view_.line(slot / layout::tags_per_line), place) != layout::tag_free;
            size = hash_table_intent::mend(intent_, size, has_entry);
        }
        if (!report_.stopped && size != report_.entries) add(hash_table_damage::size_wrong, 0);
    }

    table_view<const std::byte, Node> view_;
    hash_table_finder<Node> finder_;
    OnFinding& on_finding_;
    hash_table_verification report_;
    std::uint64_t intent_ = 0;
    std::uint64_t armed_slot_ = 0;
    std::byte key_[layout::key_bytes_max];
};

/// Checks every byte that has a meaning. on_finding(const hash_table_finding&) -> bool: false stops the check.
/// Throws: std::bad_alloc (16 bytes a bucket), and what on_finding throws.
template <class Node, class OnFinding>
hash_table_verification verify(const table_view<const std::byte, Node>& view, OnFinding&& on_finding) {
    return hash_table_verifier<Node, OnFinding>(view, on_finding).run();
}

}  // namespace detail
}  // namespace holdfast
