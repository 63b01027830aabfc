// SPDX-License-Identifier: Apache-2.0
// verify.hpp - a full check of a small table: of the array that it is, and of what makes a table of the array.
//
// Beside a working writer it reports no false damage: what depends on the set of keys is looked at while the generation
// stands still; if it does not, `busy` says so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "holdfast/array/verify.hpp"
#include "holdfast/small_table/find.hpp"

namespace holdfast {

enum class small_table_damage : std::uint8_t {
    element,  ///< of the array: small_table_finding::element says what
    twice,    ///< another entry has the same key
    state,    ///< neither an entry nor free
    remains,  ///< free, but not all zero
};

[[nodiscard]] constexpr std::string_view describe(small_table_damage what) noexcept {
    switch (what) {
        case small_table_damage::element: return "an element of the array is damaged";
        case small_table_damage::twice: return "another entry has the same key";
        case small_table_damage::state: return "the state is neither that of an entry nor of a free place";
        case small_table_damage::remains: return "the place is free and not empty";
    }
    return "unknown damage";
}

struct small_table_finding {
    small_table_damage what{};
    std::uint64_t place = 0;  ///< element of the array
    array_finding element{};  ///< where `what` is element
};

struct small_table_verification {
    array_verification array{};
    std::uint64_t entries = 0;
    std::uint64_t findings = 0;  ///< those of the array included
    bool change_open = false;    ///< no damage: the set of keys is being changed, or its writer was killed meanwhile
    bool busy = false;           ///< the set of keys was changed whenever it was looked at
    bool stopped = false;        ///< the callback wanted no more

    [[nodiscard]] bool intact() const noexcept { return findings == 0; }
};

namespace detail {

/// on_finding(const small_table_finding&) -> bool: false stops the check. Throws: bad_alloc, what on_finding throws.
template <record_key K, record V, class OnFinding>
small_table_verification verify(const small_table_finder<K, V>& finder, OnFinding&& on_finding) {
    using entry = small_table_entry<K, V>;
    small_table_verification done;
    const auto report = [&](small_table_finding found) {
        ++done.findings;
        if (!on_finding(static_cast<const small_table_finding&>(found))) done.stopped = true;
        return !done.stopped;
    };
    const auto& elements = finder.elements();
    done.array = verify(elements.bytes(), [&](const array_finding& found) {
        return report({small_table_damage::element, found.first, found});
    });
    constexpr int looks_max = 64;
    std::vector<small_table_finding> found;
    std::vector<placed_word> keys;
    done.busy = true;
    for (int look = 0; look < looks_max && done.busy && !done.stopped; ++look) {
        found.clear();
        keys.clear();
        const std::uint64_t generation = finder.generation();
        raw_record<entry> copy;
        for (std::uint64_t place = 1; place < elements.bytes().size; ++place) {
            if (elements.load(place, copy.data()) != outcome::ok) continue;
            const entry now = copy.get();
            if (now.state == small_table_used)
                keys.push_back({word_of_key(now.key), static_cast<std::uint16_t>(place)});
            else if (now.state != small_table_free)
                found.push_back({small_table_damage::state, place, {}});
            else if (std::any_of(copy.bytes.begin(), copy.bytes.end(), [](std::byte b) { return b != std::byte{0}; }))
                found.push_back({small_table_damage::remains, place, {}});
        }
        // Behind the entries' loads, which are acquire. An odd generation that stands still is that of a killed writer,
        // or of one that is at work: in the middle of one change no key is there twice, nor is anything in between.
        done.change_open = is_changing(generation);
        done.busy = finder.generation() != generation;
    }
    if (done.busy || done.stopped) return done;
    done.entries = keys.size();
    std::sort(keys.begin(), keys.end(), [](const placed_word& a, const placed_word& b) {
        return a.word != b.word ? a.word < b.word : a.place < b.place;
    });
    for (std::size_t i = 1; i < keys.size(); ++i)
        if (keys[i].word == keys[i - 1].word) found.push_back({small_table_damage::twice, keys[i].place, {}});
    for (const small_table_finding& each : found)
        if (!report(each)) break;
    return done;
}

}  // namespace detail
}  // namespace holdfast
