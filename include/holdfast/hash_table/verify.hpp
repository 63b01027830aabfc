// SPDX-License-Identifier: Apache-2.0
// verify.hpp - a full check of a table, for the program's `verify` and for tests.
//
// Any bytes may be checked: nothing crashes, loops or reads outside, memory is bounded (recover.hpp:
// counted_buckets_max), and the work by the number of slots.
//
// Beside a working writer
//   What looks like damage is looked at again until the intent word (W4) was the same before and after and no operation
//   was open: then nothing changed meanwhile, and it is damage. The intent of a writer that does not move on is that of
//   one that was killed: then base and journal say what to expect, and the slot it names is left out of every count, so
//   that nothing is wrong even if the writer was only stopped and goes on. What finds no quiet moment is counted in
//   `busy` and is no finding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
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
    checksum,         ///< keys and values of these slots, or which of them are there, are not what the writer stored
    journal_slot,     ///< the armed journal or the intent names a slot that does not exist
    journal_key,      ///< the armed journal holds another key than the slot it names, or no update of it is open
    journal_value,    ///< the armed journal holds another value than its writer put there
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
        case hash_table_damage::checksum: return "the checksum does not match the keys and values";
        case hash_table_damage::journal_slot: return "the journal names a slot that does not exist";
        case hash_table_damage::journal_key: return "the journal does not fit the slot that it names";
        case hash_table_damage::journal_value: return "the checksum does not match the value in the journal";
        case hash_table_damage::size_wrong: return "the stored size is wrong";
    }
    return "unknown damage";
}

struct hash_table_finding {
    hash_table_damage what{};
    std::uint64_t bucket = 0;
    std::uint64_t slot = 0;   ///< of the entry; for findings about a bucket or a region its first slot
    std::uint64_t slots = 1;  ///< how many, from there on, the finding is about
};

struct hash_table_verification {
    std::uint64_t entries = 0;
    std::uint64_t findings = 0;
    std::uint64_t counters_too_high = 0;  ///< no damage: a crash left them, recount() makes them exact
    bool update_armed = false;    ///< no damage: the writer was killed in a wide update; readers use the journal
    bool operation_open = false;  ///< no damage: the writer was killed in an operation; its slot is settled at attach
    std::uint64_t busy = 0;       ///< parts that a working writer changed whenever they were looked at
    bool stopped = false;         ///< the callback wanted no more

    [[nodiscard]] bool intact() const noexcept { return findings == 0; }
};

namespace detail {

template <class Node, class OnFinding>
class hash_table_verifier {
 public:
    hash_table_verifier(const table_view<const std::byte, Node>& view, OnFinding& on_finding) noexcept
        : view_(view), finder_(view), on_finding_(on_finding) {}

    hash_table_verification run(std::uint64_t buckets_at_a_time) {
        begun_ = wait_for_rest();
        if (begun_.is_open() && begun_ == at_rest_) {
            report_.operation_open = true;
            report_.update_armed = sequence() % 2 != 0;
        }
        settle({}, layout::line_bytes, [&](hash_table_intent intent) { return journal_damage(intent); });
        for (std::uint64_t first = 0; first < view_.buckets && !report_.stopped; first += buckets_at_a_time)
            check_strip(first, std::min(buckets_at_a_time, view_.buckets - first));
        for (std::uint64_t region = 0; region < view_.regions() && !report_.stopped; ++region) check_region(region);
        check_size();
        return report_;
    }

 private:
    using found = std::optional<hash_table_damage>;
    // Looks at one place, until a writer that works without pause has left it a quiet moment; fewer where a look takes
    // long, and a bound for all places together, some tenths of a second.
    static constexpr std::uint64_t looks_max = 1U << 12;
    static constexpr std::uint64_t bytes_looked_at_max = 1U << 26;
    static constexpr std::uint64_t extra_looks_max = 1U << 17;
    // An operation takes less than a microsecond.
    static constexpr unsigned rest_pauses = 1U << 10;

    [[nodiscard]] std::uint64_t journal_word(std::size_t offset) const noexcept {
        // R4, pairs with W4 for the intent; all words of the journal are loaded alike. Weaker could show stores of an
        // operation behind the intent that was closed before it.
        return load_acquire<std::uint64_t>(view_.journal + offset);
    }
    [[nodiscard]] hash_table_intent intent_now() const noexcept {
        return {journal_word(layout::journal_intent_offset)};
    }
    [[nodiscard]] std::uint64_t sequence() const noexcept { return journal_word(layout::journal_sequence_offset); }

    /// Whether no store was made between two looks at the intent, one before and one after.
    [[nodiscard]] bool nothing_moved(hash_table_intent before, hash_table_intent after) const noexcept {
        return before == after && (!after.is_open() || after == at_rest_);
    }

    /// Waits for the end of the operation that is under way. One that does not end is that of a killed writer.
    hash_table_intent wait_for_rest() noexcept {
        const hash_table_intent begun = intent_now();
        if (!begun.is_open() || begun == at_rest_) return begun;
        for (unsigned i = 0; i < rest_pauses; ++i) {
            pause();
            const hash_table_intent now = intent_now();
            if (now != begun) return now;  // it lives
        }
        at_rest_ = begun;
        return begun;
    }

    void report(hash_table_finding finding, hash_table_damage what) {
        finding.what = what;
        ++report_.findings;
        report_.stopped = !on_finding_(finding);
    }

    /// Reports what look(intent), which reads some `bytes`, finds as soon as it cannot be the doing of a working
    /// writer.
    template <class Look>
    void settle(const hash_table_finding& where, std::uint64_t bytes, Look&& look) {
        if (report_.stopped) return;
        const std::uint64_t looks = std::clamp<std::uint64_t>(bytes_looked_at_max / bytes, 16, looks_max);
        for (std::uint64_t i = 0; i < looks; ++i) {
            const hash_table_intent before = intent_now();
            const found what = look(before);
            if (!what) return;
            if (nothing_moved(before, intent_now())) return report(where, *what);
            (void)wait_for_rest();
            if (++extra_looks_ > extra_looks_max) break;
        }
        ++report_.busy;
    }

    [[nodiscard]] static hash_table_finding at_bucket(std::uint64_t bucket) noexcept {
        return {.what = {}, .bucket = bucket, .slot = bucket * layout::tags_per_line, .slots = layout::tags_per_line};
    }
    [[nodiscard]] static hash_table_finding at_slot(std::uint64_t slot) noexcept {
        return {.what = {}, .bucket = slot / layout::tags_per_line, .slot = slot, .slots = 1};
    }

    [[nodiscard]] found journal_damage(hash_table_intent intent) {
        const std::uint64_t slots = view_.slots();
        if (intent.is_open() && intent.slot() >= slots) return hash_table_damage::journal_slot;
        if (sequence() % 2 == 0) return std::nullopt;
        const std::uint64_t slot = journal_word(layout::journal_slot_offset);
        if (slot >= slots) return hash_table_damage::journal_slot;
        const std::uint64_t bucket = slot / layout::tags_per_line;
        const unsigned place = static_cast<unsigned>(slot % layout::tags_per_line);
        const std::byte* image = view_.journal + layout::journal_image_offset;
        copy_from_words(key_, image, 0, view_.node.key_bytes());
        if (intent.what() != hash_table_intent::update || intent.slot() != slot ||
            !is_key_tag(tag_at(view_.line(bucket), place)) ||
            !equal_words(view_.node_at(bucket, place), key_, view_.node.key_bytes()))
            return hash_table_damage::journal_key;
        const std::uint64_t expected = journal_word(layout::journal_next_offset);
        const std::uint64_t base = journal_word(layout::journal_base_offset);
        if (base + digest_value(view_, view_.node_at(bucket, place), image) != expected)
            return hash_table_damage::journal_value;
        return std::nullopt;
    }

    /// Buckets [first, first + count): lines, counters, and where their entries lie.
    void check_strip(std::uint64_t first, std::uint64_t count) {
        const hash_table_intent before = wait_for_rest();
        const std::vector<std::uint8_t> exact = exact_counters(view_, first, count, open_slot(before));
        bool compared = true;
        for (std::uint64_t i = 0; i < count && !report_.stopped; ++i) {
            const std::uint64_t bucket = first + i;
            settle(at_bucket(bucket), layout::line_bytes, [&](hash_table_intent) { return version_damage(bucket); });
            for (unsigned group = 0; group < 16 && !report_.stopped; ++group) {
                const std::uint8_t stored = counter_of(view_.line(bucket), group), counted = exact[i * 16 + group];
                if (stored > counted) ++report_.counters_too_high;
                if (stored >= counted) continue;
                if (nothing_moved(before, intent_now()))
                    report(at_bucket(bucket), hash_table_damage::counter_too_low);
                else
                    compared = false;  // entries came or went since they were counted
            }
            for (unsigned place = 0; place < layout::tags_per_line; ++place) check_slot(bucket, place);
        }
        if (!compared) ++report_.busy;
    }

    /// The slot that may or may not have an entry while that intent is open.
    [[nodiscard]] std::uint64_t open_slot(hash_table_intent intent) const noexcept {
        return intent.is_open() && intent.what() != hash_table_intent::update && intent.slot() < view_.slots()
                   ? intent.slot()
                   : no_slot;
    }

    [[nodiscard]] found version_damage(std::uint64_t bucket) const noexcept {
        const std::uint32_t version = version_of(view_.line(bucket));
        if (version % 2 == 0) return std::nullopt;
        const std::uint64_t slot = journal_word(layout::journal_slot_offset);
        if (sequence() % 2 != 0 && slot / layout::tags_per_line == bucket) return std::nullopt;
        return version_is_still(view_.line(bucket), version) ? found(hash_table_damage::version_odd) : std::nullopt;
    }

    void check_slot(std::uint64_t bucket, unsigned place) {
        const std::uint16_t tag = tag_at(view_.line(bucket), place);
        if (tag == layout::tag_free) return;
        const std::uint64_t slot = bucket * layout::tags_per_line + place;
        if (is_key_tag(tag)) {
            ++report_.entries;
            if (slot == open_slot(begun_)) open_slot_entries_ = 1;
        }
        settle(at_slot(slot), view_.node_bytes, [&](hash_table_intent intent) {
            return slot == open_slot(intent) ? std::nullopt : slot_damage(bucket, place);
        });
    }

    [[nodiscard]] found slot_damage(std::uint64_t bucket, unsigned place) {
        const std::uint16_t tag = tag_at(view_.line(bucket), place);
        if (tag == layout::tag_free) return std::nullopt;
        if (!is_key_tag(tag)) return hash_table_damage::tag_reserved;
        copy_from_words(key_, view_.node_at(bucket, place), 0, view_.node.key_bytes());
        const hash_parts h = view_.hash(key_);
        if (h.tag() != tag) return hash_table_damage::tag_wrong;
        if (position_on_path(view_, h, bucket) < 0) return hash_table_damage::off_path;
        const std::uint64_t slot = finder_.find_hashed(h, h.home(view_.buckets), key_, nullptr);
        if (slot == no_slot) return hash_table_damage::unreachable;
        if (slot != bucket * layout::tags_per_line + place) return hash_table_damage::duplicate;
        return std::nullopt;
    }

    void check_region(std::uint64_t region) {
        const std::uint64_t bucket = region * layout::buckets_per_region;
        hash_table_finding where = at_bucket(bucket);
        where.slots = std::min(layout::buckets_per_region, view_.buckets - bucket) * layout::tags_per_line;
        settle(where, where.slots * view_.node_bytes,
               [&](hash_table_intent intent) { return region_damage(region, intent); });
    }

    [[nodiscard]] found region_damage(std::uint64_t region, hash_table_intent intent) const noexcept {
        const std::uint64_t first = region * layout::buckets_per_region;
        const std::uint64_t slot = intent.slot();
        const bool open = intent.is_open() && slot < view_.slots() &&
                          slot / layout::tags_per_line / layout::buckets_per_region == region;
        const std::uint64_t expected = open ? journal_word(layout::journal_base_offset)
                                            : load_acquire<std::uint64_t>(view_.digest_of(first));  // R4
        const std::uint64_t sum = digest_region(view_, region, intent);
        return sum == expected ? std::nullopt : found(hash_table_damage::checksum);
    }

    /// The entries were counted on the way; the size is comparable if nothing moved since.
    void check_size() {
        if (report_.stopped) return;
        const std::uint64_t size = journal_word(layout::journal_size_offset);
        const bool open = open_slot(begun_) != no_slot;
        if ((open ? begun_.size_elsewhere(size) : size) == report_.entries - open_slot_entries_) return;
        if (nothing_moved(begun_, intent_now()))
            report({}, hash_table_damage::size_wrong);
        else
            ++report_.busy;
    }

    table_view<const std::byte, Node> view_;
    hash_table_finder<Node> finder_;
    OnFinding& on_finding_;
    hash_table_verification report_;
    hash_table_intent begun_{};
    hash_table_intent at_rest_{};  // closed, or that of a writer which does not move on
    std::uint64_t open_slot_entries_ = 0;
    std::uint64_t extra_looks_ = 0;
    std::byte key_[layout::key_bytes_max];
};

/// Checks every byte that has a meaning. on_finding(const hash_table_finding&) -> bool: false stops the check.
/// Throws: std::bad_alloc (16 bytes a bucket, 256 MiB at most), and what on_finding throws.
template <class Node, class OnFinding>
hash_table_verification verify(const table_view<const std::byte, Node>& view, OnFinding&& on_finding,
                               std::uint64_t buckets_at_a_time = counted_buckets_max) {
    return hash_table_verifier<Node, OnFinding>(view, on_finding).run(buckets_at_a_time);
}

}  // namespace detail
}  // namespace holdfast
