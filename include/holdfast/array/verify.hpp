// SPDX-License-Identifier: Apache-2.0
// verify.hpp - a full check of an array, for the program's `verify` and for tests.
//
// Any bytes may be checked: nothing crashes, loops or reads outside, no memory is taken, and the work is bounded by the
// size of the array.
//
// Beside a working writer
//   What looks like damage is looked at again until the sequence (R4) was even and the same before and after: then no
//   cell and no digest changed meanwhile, and it is damage. An odd sequence that does not move on is that of a writer
//   that was killed, or stopped: then the record says what to expect. What finds no quiet moment is counted in `busy`
//   and is no finding. The sequence has 64 bits: it does not come round.
// Not seen: flips in words that mean nothing at rest (the record of a finished store, all bits of a version but the
// lowest), and an odd version of a group that the last record named. None of them changes what anybody reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "holdfast/array/write.hpp"

namespace holdfast {

enum class array_damage : std::uint8_t {
    checksum,     ///< these elements, or their checksum, are not what the writer stored
    journal,      ///< a store is committed whose record no writer wrote
    version_odd,  ///< these elements look as if being stored, but no record names them
};

[[nodiscard]] constexpr std::string_view describe(array_damage what) noexcept {
    switch (what) {
        case array_damage::checksum: return "the checksum does not match the elements";
        case array_damage::journal: return "the journal holds a store that no writer wrote";
        case array_damage::version_odd: return "the version is odd but no store is in the journal";
    }
    return "unknown damage";
}

struct array_finding {
    array_damage what{};
    std::uint64_t first = 0;  ///< element
    std::uint64_t count = 0;  ///< elements from there on that the finding is about; 0: about the journal
};

struct array_verification {
    std::uint64_t elements = 0;  ///< that were looked at
    std::uint64_t findings = 0;
    bool store_open = false;  ///< no damage: the writer was killed in a committed store; the next one carries it out
    std::uint64_t busy = 0;   ///< groups that a working writer changed whenever they were looked at
    bool stopped = false;     ///< the callback wanted no more

    [[nodiscard]] bool intact() const noexcept { return findings == 0; }
};

namespace detail {

template <class Element, class OnFinding>
class array_verifier {
 public:
    array_verifier(const array_view<const std::byte, Element>& view, OnFinding& on_finding) noexcept
        : view_(view), on_finding_(on_finding) {}

    array_verification run() {
        const std::uint64_t begun = wait_for_rest();
        report_.store_open = begun % 2 != 0 && begun == at_rest_ && committed(begun);
        settle({}, 64, [&](std::uint64_t sequence) -> found {
            return sequence % 2 == 0 || committed(sequence) ? std::nullopt : found(array_damage::journal);
        });
        const std::uint64_t group_bytes = view_.stride << view_.group_shift;
        for (std::uint64_t group = 0; group < view_.groups() && !report_.stopped; ++group) {
            const element_range all = view_.elements_of(group);
            const array_finding where{{}, all.first, all.count};
            settle(where, group_bytes, [&](std::uint64_t sequence) { return sum_damage(group, sequence); });
            if (view_.versions != nullptr) settle(where, 64, [&](std::uint64_t) { return version_damage(group); });
            report_.elements += all.count;
        }
        return report_;
    }

 private:
    using found = std::optional<array_damage>;
    // Looks at one place, until a writer that works without pause has left it a quiet moment; fewer where a look takes
    // long, and a bound for all places together, some tenths of a second.
    static constexpr std::uint64_t looks_max = 1U << 12;
    static constexpr std::uint64_t bytes_looked_at_max = 1U << 22;
    static constexpr std::uint64_t extra_looks_max = 1U << 17;
    // A store takes some microseconds at most, unless its element has many KiB; one that takes longer, of a writer that
    // lives, is taken for a killed one's, and its record tells what to expect all the same.
    static constexpr unsigned rest_pauses = 1U << 10;

    [[nodiscard]] std::uint64_t journal_word(std::size_t offset) const noexcept {
        // R4, pairs with J2 and J3 for the sequence. Weaker could show stores of a record behind an earlier sequence.
        return load_acquire<std::uint64_t>(view_.journal + offset);
    }
    [[nodiscard]] std::uint64_t sequence() const noexcept { return journal_word(layout::array_sequence_offset); }
    /// The elements that `where` names; nothing if there are none such. Read once: it may change under us.
    [[nodiscard]] std::optional<element_range> record() const noexcept {
        const element_range range = element_range::of_word(journal_word(layout::array_where_offset));
        return view_.is_record(range) ? std::optional(range) : std::nullopt;
    }
    /// Those of the committed record of that sequence; nothing if there is none, or none that a writer wrote.
    [[nodiscard]] std::optional<element_range> committed(std::uint64_t sequence) const noexcept {
        if (sequence % 2 == 0) return std::nullopt;
        const std::optional<element_range> range = record();
        const bool signed_by_writer =
            range && journal_word(layout::array_check_offset) == record_check(sequence, range->word());
        return signed_by_writer ? range : std::nullopt;
    }

    /// Waits for the end of the store that is under way. One that does not end is that of a killed writer.
    std::uint64_t wait_for_rest() noexcept {
        const std::uint64_t begun = sequence();
        if (begun % 2 == 0 || begun == at_rest_) return begun;
        for (unsigned i = 0; i < rest_pauses; ++i) {
            pause();
            const std::uint64_t now = sequence();
            if (now != begun) return now;  // it lives
        }
        at_rest_ = begun;
        return begun;
    }

    /// Reports what look(sequence), which reads some `bytes`, finds as soon as it cannot be the doing of a working
    /// writer.
    template <class Look>
    void settle(array_finding where, std::uint64_t bytes, Look&& look) {
        if (report_.stopped) return;
        const std::uint64_t looks = std::clamp<std::uint64_t>(bytes_looked_at_max / bytes, 16, looks_max);
        for (std::uint64_t i = 0; i < looks; ++i) {
            const std::uint64_t before = sequence();
            const found what = look(before);
            if (!what) return;
            if (before == sequence() && (before % 2 == 0 || before == at_rest_)) {
                where.what = *what;
                ++report_.findings;
                report_.stopped = !on_finding_(static_cast<const array_finding&>(where));
                return;
            }
            (void)wait_for_rest();
            if (++extra_looks_ > extra_looks_max) break;
        }
        ++report_.busy;
    }

    [[nodiscard]] found sum_damage(std::uint64_t group, std::uint64_t sequence) const noexcept {
        const std::optional<element_range> open = committed(sequence);
        const bool pending = open && view_.touches(*open, group);
        // Acquire, as R4: a digest of a later record brings along its sequence.
        const std::uint64_t expected = load_acquire<std::uint64_t>(
            pending ? view_.next_at(group - view_.group_of(open->first)) : view_.digest_of(group));
        const std::uint64_t sum = digest_group(view_, group, pending ? *open : element_range{});
        return sum == expected ? std::nullopt : found(array_damage::checksum);
    }

    [[nodiscard]] found version_damage(std::uint64_t group) const noexcept {
        // Acquire, as R1: behind an odd version comes the record that made it so, or a later one.
        if (load_acquire<std::uint64_t>(view_.version_of(group)) % 2 == 0) return std::nullopt;
        const std::optional<element_range> named = record();
        return named && view_.touches(*named, group) ? std::nullopt : found(array_damage::version_odd);
    }

    array_view<const std::byte, Element> view_;
    OnFinding& on_finding_;
    array_verification report_;
    std::uint64_t at_rest_ = 0;  // an odd sequence that does not move on
    std::uint64_t extra_looks_ = 0;
};

/// Checks every byte that has a meaning. on_finding(const array_finding&) -> bool: false stops the check.
/// Throws: what on_finding throws.
template <class Element, class OnFinding>
array_verification verify(const array_view<const std::byte, Element>& view, OnFinding&& on_finding) {
    return array_verifier<Element, std::remove_reference_t<OnFinding>>(view, on_finding).run();
}

}  // namespace detail
}  // namespace holdfast
