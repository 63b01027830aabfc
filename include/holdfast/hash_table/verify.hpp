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
//
// Beside many writers
//   The same, bucket by bucket: a stripe's owner and count, and if it has an owner, that one's intent, were the same
//   before and after. An entry is watched by its own stripe and its key's home stripe. Counters and the size, to which
//   all contribute, are compared while the intents of all writers were the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "holdfast/hash_table/recover.hpp"
#include "holdfast/hash_table/stripe_growth.hpp"

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
    stripe_owner,     ///< many writers: a part of the table is held by a writer that does not exist, or does not know
    stripe_growth,    ///< many writers: a part of the table asks for a growth, of which there is none
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
        case hash_table_damage::stripe_owner: return "a stripe names an owner that does not hold it";
        case hash_table_damage::stripe_growth: return "a stripe asks for a growth, and the table never grows";
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

/// What tells whether a part of the table was changed meanwhile: by one writer its intent; by many the stripe, and the
/// intent of its owner.
struct hash_table_watch {
    std::uint32_t owner = 0;
    std::uint32_t count = 0;
    hash_table_intent intent;

    [[nodiscard]] bool may_move() const noexcept { return owner != 0 || intent.is_open(); }
    friend bool operator==(const hash_table_watch&, const hash_table_watch&) = default;
};
/// Of the bucket of an entry and of the home of its key.
struct hash_table_watches {
    hash_table_watch bucket, home;

    [[nodiscard]] bool may_move() const noexcept { return bucket.may_move() || home.may_move(); }
    friend bool operator==(const hash_table_watches&, const hash_table_watches&) = default;
};
/// Of the whole table: the intents of all its writers.
struct hash_table_watch_of_all {
    std::vector<hash_table_intent> intents;

    [[nodiscard]] bool may_move() const noexcept {
        return std::any_of(intents.begin(), intents.end(), [](hash_table_intent i) { return i.is_open(); });
    }
    friend bool operator==(const hash_table_watch_of_all&, const hash_table_watch_of_all&) = default;
};

template <class Node, class OnFinding>
class hash_table_verifier {
 public:
    hash_table_verifier(const table_view<const std::byte, Node>& view, OnFinding& on_finding) noexcept
        : view_(view), finder_(view), on_finding_(on_finding) {}

    hash_table_verification run(std::uint64_t buckets_at_a_time) {
        begun_ = wait_for_rest([&] { return watch_all(); });
        begun_open_ = open_slots(begun_);
        if (begun_.may_move() && rests(begun_)) {
            report_.operation_open = true;
            for (std::uint32_t writer = 0; writer < journals(); ++writer)
                report_.update_armed = report_.update_armed || sequence(journal_at(writer)) % 2 != 0;
        }
        for (std::uint32_t writer = 0; writer < journals(); ++writer) check_journal(writer);
        if (view_.has_many_writers())
            for (std::uint64_t stripe = 0; stripe <= view_.stripe_mask; ++stripe) check_stripe(stripe);
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

    [[nodiscard]] std::uint32_t journals() const noexcept { return view_.has_many_writers() ? view_.writers : 1; }
    [[nodiscard]] const std::byte* journal_at(std::uint32_t writer) const noexcept {
        return view_.has_many_writers() ? view_.journal_at(writer) : view_.journal;
    }
    [[nodiscard]] static std::uint64_t word_at(const std::byte* journal, std::size_t offset) noexcept {
        // R4, pairs with W4 for the intent; all words of the journal are loaded alike. Weaker could show stores of an
        // operation behind the intent that was closed before it.
        return load_acquire<std::uint64_t>(journal + offset);
    }
    [[nodiscard]] static hash_table_intent intent_in(const std::byte* journal) noexcept {
        return {word_at(journal, layout::journal_intent_offset)};
    }
    [[nodiscard]] static std::uint64_t sequence(const std::byte* journal) noexcept {
        return word_at(journal, layout::journal_sequence_offset);
    }

    /// Owner before count, as R5 wants it: a stripe found free has the count of what was stored under it.
    [[nodiscard]] hash_table_watch watch(std::uint64_t bucket) const noexcept {
        if (!view_.has_many_writers()) return {0, 0, intent_in(view_.journal)};
        const std::byte* stripe = view_.stripe(view_.stripe_of(bucket));
        hash_table_watch seen;
        seen.owner = stripe_owner(stripe);
        seen.count = load_acquire<std::uint32_t>(stripe + layout::stripe_count_offset);  // R5
        if (seen.owner - 1 < view_.writers) seen.intent = intent_in(view_.journal_at(seen.owner - 1));
        return seen;
    }
    [[nodiscard]] hash_table_watches watch_entry(std::uint64_t bucket, unsigned place) {
        hash_table_watches seen;
        seen.bucket = watch(bucket);
        if (!view_.has_many_writers()) return seen;
        copy_from_words(key_, view_.node_at(bucket, place), 0, view_.node.key_bytes());
        seen.home = watch(view_.hash(key_).home(view_.buckets));
        return seen;
    }
    [[nodiscard]] hash_table_watch_of_all watch_all() const {
        hash_table_watch_of_all seen;
        seen.intents.reserve(journals());
        for (std::uint32_t writer = 0; writer < journals(); ++writer)
            seen.intents.push_back(intent_in(journal_at(writer)));
        return seen;
    }

    /// Whether no store was made between two watches, one before and one after.
    template <class Watch>
    [[nodiscard]] bool nothing_moved(const Watch& before, const Watch& after) const noexcept {
        return before == after && rests(after);
    }

    /// Waits for the end of the operation that is under way. One that does not end is that of a killed writer.
    template <class Look>
    auto wait_for_rest(Look&& look) {
        auto begun = look();
        if (rests(begun)) return begun;
        for (unsigned i = 0; i < rest_pauses; ++i) {
            pause();
            auto now = look();
            if (now != begun) return now;  // it lives
        }
        note_rest(begun);
        return begun;
    }

    // What has been seen not to move on: of one writer the last; of many a stripe's owner each, and there are as many
    // stripes at most.
    [[nodiscard]] bool rests(const hash_table_watch& seen) const noexcept {
        return !seen.may_move() || std::find(resting_.begin(), resting_.end(), seen) != resting_.end();
    }
    [[nodiscard]] bool rests(const hash_table_watches& seen) const noexcept {
        return rests(seen.bucket) && rests(seen.home);
    }
    [[nodiscard]] bool rests(const hash_table_watch_of_all& seen) const noexcept {
        return !seen.may_move() || seen == resting_all_;
    }
    void note_rest(const hash_table_watch& seen) {
        if (rests(seen)) return;
        if (resting_.size() > (view_.has_many_writers() ? view_.stripe_mask + view_.writers : 0)) resting_.clear();
        resting_.push_back(seen);
    }
    void note_rest(const hash_table_watches& seen) {
        note_rest(seen.bucket);
        note_rest(seen.home);
    }
    void note_rest(const hash_table_watch_of_all& seen) {
        resting_all_ = seen;
        if (!view_.has_many_writers()) note_rest(hash_table_watch{0, 0, seen.intents[0]});
    }

    void report(hash_table_finding finding, hash_table_damage what) {
        finding.what = what;
        ++report_.findings;
        report_.stopped = !on_finding_(finding);
    }

    /// Reports what look(watch), which reads some `bytes`, finds as soon as it cannot be the doing of a working writer.
    template <class WatchIt, class Look>
    void settle(const hash_table_finding& where, std::uint64_t bytes, WatchIt&& watch_it, Look&& look) {
        if (report_.stopped) return;
        const std::uint64_t looks = std::clamp<std::uint64_t>(bytes_looked_at_max / bytes, 16, looks_max);
        for (std::uint64_t i = 0; i < looks; ++i) {
            const auto before = watch_it();
            const found what = look(before);
            if (!what) return;
            if (nothing_moved(before, watch_it())) return report(where, *what);
            (void)wait_for_rest(watch_it);
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

    void check_journal(std::uint32_t writer) {
        const std::byte* journal = journal_at(writer);
        settle(
            {}, layout::line_bytes, [&] { return hash_table_watch{0, 0, intent_in(journal)}; },
            [&](const hash_table_watch& seen) { return journal_damage(journal, writer, seen.intent); });
    }

    [[nodiscard]] found journal_damage(const std::byte* journal, std::uint32_t writer, hash_table_intent intent) {
        const std::uint64_t slots = view_.slots();
        if (intent.is_open() && intent.slot() >= slots) return hash_table_damage::journal_slot;
        if (intent.is_open() && view_.has_many_writers() &&
            stripe_owner(view_.stripe(view_.stripe_of(intent.slot() / layout::tags_per_line))) != writer + 1)
            return hash_table_damage::stripe_owner;  // M5
        if (sequence(journal) % 2 == 0) return std::nullopt;
        const std::uint64_t slot = word_at(journal, layout::journal_slot_offset);
        if (slot >= slots) return hash_table_damage::journal_slot;
        const std::uint64_t bucket = slot / layout::tags_per_line;
        const unsigned place = static_cast<unsigned>(slot % layout::tags_per_line);
        const std::byte* image = journal + layout::journal_image_offset;
        copy_from_words(key_, image, 0, view_.node.key_bytes());
        if (intent.what() != hash_table_intent::update || intent.slot() != slot ||
            !is_key_tag(tag_at(view_.line(bucket), place)) ||
            !equal_words(view_.node_at(bucket, place), key_, view_.node.key_bytes()))
            return hash_table_damage::journal_key;
        const std::uint64_t expected = word_at(journal, layout::journal_next_offset);
        const std::uint64_t base = word_at(journal, layout::journal_base_offset);
        if (base + digest_value(view_, view_.node_at(bucket, place), image) != expected)
            return hash_table_damage::journal_value;
        return std::nullopt;
    }

    /// Whether the stripe's owner knows that it owns it (M4), and what the stripe asks for can be.
    void check_stripe(std::uint64_t number) {
        const std::uint64_t bucket = number * layout::buckets_per_region;  // the first of its buckets, if it has any
        settle(
            at_bucket(bucket), layout::line_bytes, [&] { return watch(bucket); },
            [&](const hash_table_watch& seen) -> found {
                // Acquire: seen with what the stripe's owners stored.
                if (has_no_growth<Node> &&
                    load_acquire<std::uint64_t>(view_.stripe(number) + layout::stripe_growth_offset) != 0)
                    return hash_table_damage::stripe_growth;
                if (seen.owner == 0) return std::nullopt;
                if (seen.owner > view_.writers) return hash_table_damage::stripe_owner;
                const std::uint64_t held = word_at(view_.journal_at(seen.owner - 1), layout::journal_held_offset);
                const bool named = (held & 0xffff'ffffU) == number + 1 || held >> 32 == number + 1;
                return named ? std::nullopt : found(hash_table_damage::stripe_owner);
            });
    }

    /// Buckets [first, first + count): lines, counters, and where their entries lie.
    void check_strip(std::uint64_t first, std::uint64_t count) {
        const auto look = [&] { return watch_all(); };
        const hash_table_watch_of_all before = wait_for_rest(look);
        const std::vector<std::uint8_t> exact = exact_counters(view_, first, count, open_slots(before));
        bool compared = true;
        for (std::uint64_t i = 0; i < count && !report_.stopped; ++i) {
            const std::uint64_t bucket = first + i;
            settle(
                at_bucket(bucket), layout::line_bytes, [&] { return watch(bucket); },
                [&](const hash_table_watch&) { return version_damage(bucket); });
            for (unsigned group = 0; group < 16 && !report_.stopped; ++group) {
                const std::uint8_t stored = counter_of(view_.line(bucket), group), counted = exact[i * 16 + group];
                if (stored > counted) ++report_.counters_too_high;
                if (stored >= counted) continue;
                if (nothing_moved(before, look()))
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
    [[nodiscard]] std::vector<std::uint64_t> open_slots(const hash_table_watch_of_all& seen) const {
        std::vector<std::uint64_t> slots;
        for (const hash_table_intent intent : seen.intents)
            if (open_slot(intent) != no_slot) slots.push_back(open_slot(intent));
        return slots;
    }

    [[nodiscard]] found version_damage(std::uint64_t bucket) const noexcept {
        const std::uint32_t version = version_of(view_.line(bucket));
        if (version % 2 == 0) return std::nullopt;
        const std::byte* journal = view_.journal_for(bucket);
        const std::uint64_t slot = word_at(journal, layout::journal_slot_offset);
        if (sequence(journal) % 2 != 0 && slot / layout::tags_per_line == bucket) return std::nullopt;
        return version_is_still(view_.line(bucket), version) ? found(hash_table_damage::version_odd) : std::nullopt;
    }

    void check_slot(std::uint64_t bucket, unsigned place) {
        const std::uint16_t tag = tag_at(view_.line(bucket), place);
        if (tag == layout::tag_free) return;
        const std::uint64_t slot = bucket * layout::tags_per_line + place;
        if (is_key_tag(tag)) {
            ++report_.entries;
            if (std::find(begun_open_.begin(), begun_open_.end(), slot) != begun_open_.end()) ++open_slot_entries_;
        }
        if (view_.has_many_writers() && !slot_damage(bucket, place)) return;  // without the cost of a watch
        settle(
            at_slot(slot), view_.node_bytes, [&] { return watch_entry(bucket, place); },
            [&](const hash_table_watches& seen) {
                return slot == open_slot(seen.bucket.intent) ? std::nullopt : slot_damage(bucket, place);
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
        const auto home = finder_.bucket_at(h.home(view_.buckets));
        const std::uint64_t slot = finder_.find_from(finder_.look(home, h), h, home, key_, nullptr);
        if (slot == no_slot) return hash_table_damage::unreachable;
        if (slot != bucket * layout::tags_per_line + place) return hash_table_damage::duplicate;
        return std::nullopt;
    }

    void check_region(std::uint64_t region) {
        const std::uint64_t bucket = region * layout::buckets_per_region;
        hash_table_finding where = at_bucket(bucket);
        where.slots = std::min(layout::buckets_per_region, view_.buckets - bucket) * layout::tags_per_line;
        settle(
            where, where.slots * view_.node_bytes, [&] { return watch(bucket); },
            [&](const hash_table_watch& seen) { return region_damage(region, seen); });
    }

    [[nodiscard]] found region_damage(std::uint64_t region, const hash_table_watch& seen) const noexcept {
        const std::uint64_t first = region * layout::buckets_per_region;
        const std::uint64_t slot = seen.intent.slot();
        const bool open = seen.intent.is_open() && slot < view_.slots() &&
                          slot / layout::tags_per_line / layout::buckets_per_region == region;
        const std::byte* journal = seen.owner == 0 ? view_.journal : view_.journal_at(seen.owner - 1);
        const std::uint64_t expected = open ? word_at(journal, layout::journal_base_offset)
                                            : load_acquire<std::uint64_t>(view_.digest_of(first));  // R4
        const std::uint64_t sum = digest_region(view_, region, seen.intent);
        return sum == expected ? std::nullopt : found(hash_table_damage::checksum);
    }

    /// The entries were counted on the way; the size is comparable if nothing moved since.
    void check_size() {
        if (report_.stopped) return;
        std::uint64_t size = 0;  // without the open slots
        for (std::uint32_t writer = 0; writer < journals(); ++writer) {
            const std::uint64_t counted = word_at(journal_at(writer), layout::journal_size_offset);
            const hash_table_intent intent = begun_.intents[writer];
            size += open_slot(intent) == no_slot ? counted : intent.size_elsewhere(counted);
        }
        if (size == report_.entries - open_slot_entries_) return;
        if (nothing_moved(begun_, watch_all()))
            report({}, hash_table_damage::size_wrong);
        else
            ++report_.busy;
    }

    table_view<const std::byte, Node> view_;
    hash_table_finder<Node> finder_;
    OnFinding& on_finding_;
    hash_table_verification report_;
    hash_table_watch_of_all begun_;
    hash_table_watch_of_all resting_all_;
    std::vector<hash_table_watch> resting_;
    std::vector<std::uint64_t> begun_open_;
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
