// SPDX-License-Identifier: Apache-2.0
// metrics_model.hpp - names of counters that a death may leave half written, what a reader of a counter set finds, and
// latencies that take every way into a histogram.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/metrics/counter_slots.hpp"
#include "holdfast/metrics/histogram_counts.hpp"
#include "holdfast/metrics/latency_shards.hpp"

namespace holdfast::test {

struct counter_text {
    std::string_view family, labels;
};
/// The first is of all 24 words; the next two have lengths, hash and the first 24 bytes in common, so that a prefix of
/// four words belongs to both.
inline constexpr std::array<counter_text, 5> counter_texts{{
    {"of_24_words_total",
     "path=\"/aaaaaaa/bbbbbbbb/cccccccc/dddddddd/eeeeeeee/ffffffff/gggggggg/hhhhhhhh/iiiiiiii/jjjjjjjj/kkkkkkkk"
     "/llllllll/mmmmmmmm/nnnnnnnn/oooooooo/pppppppp/qqqqqqqq/rrrrrrr\""},
    {"requests_served_total", "worker=\"kqhmcRRi\""},
    {"requests_served_total", "worker=\"xM5NgBmq\""},
    {"up", ""},
    {"errors_total", "zone=\"1\""},
}};
inline constexpr std::size_t counter_names = counter_texts.size();
inline constexpr std::size_t long_name = 0, twin_name = 1, other_twin = 2, short_name = 3, last_name = 4;
inline constexpr std::size_t twin_words = 4;  // of the one that are the other's

static_assert(counter_texts[long_name].family.size() + counter_texts[long_name].labels.size() ==
              layout::counter_text_bytes_max);
static_assert(layout::counter_name_hash("requests_served_totalworker=\"kqhmcRRi\"") ==
              layout::counter_name_hash("requests_served_totalworker=\"xM5NgBmq\""));

[[nodiscard]] inline const layout::counter_name_words& words_of_name(std::size_t name) {
    static const auto all = [] {
        std::array<layout::counter_name_words, counter_names> words{};
        for (std::size_t i = 0; i < counter_names; ++i)
            words[i] = *layout::encode_counter_name(counter_texts[i].family, counter_texts[i].labels);
        return words;
    }();
    return all[name];
}
[[nodiscard]] inline std::size_t length_of(const layout::counter_name_words& words) {
    return static_cast<std::size_t>(std::find(words.begin(), words.end(), 0U) - words.begin());
}
/// What is asked for by one that dies behind `length` words.
[[nodiscard]] inline layout::counter_name_words prefix_of(layout::counter_name_words words, std::size_t length) {
    std::fill(words.begin() + static_cast<std::ptrdiff_t>(length), words.end(), 0U);
    return words;
}

/// Values by name; nothing for one that is not there.
using counter_values = std::array<std::optional<std::uint64_t>, counter_names>;

/// A walk over a set.
struct counters_found {
    counter_values values{};
    std::size_t unfinished = 0;
    std::string wrong;
};
[[nodiscard]] inline counters_found counters_in(const holdfast::detail::counter_slots& set) {
    counters_found found;
    const counter_walk walk = set.for_each([&](std::string_view family, std::string_view labels, std::uint64_t value) {
        std::size_t name = 0;
        while (name < counter_names && (counter_texts[name].family != family || counter_texts[name].labels != labels))
            ++name;
        if (name == counter_names) {
            found.wrong = "a name that nobody asked for";
        } else if (found.values[name]) {
            found.wrong = "a name is there twice";
        } else {
            found.values[name] = value;
        }
    });
    if (walk.damaged != 0) found.wrong = "a name is damaged";
    found.unfinished = walk.unfinished;
    return found;
}
/// The same by name, while nobody writes: a name that is found has the value that the walk showed.
[[nodiscard]] inline std::string differs_by_name(const holdfast::detail::counter_slots& set,
                                                 const counter_values& walked) {
    for (std::size_t name = 0; name < counter_names; ++name) {
        const layout::counter_slot* const slot = set.find(words_of_name(name));
        if ((slot != nullptr) != walked[name].has_value()) return "a walk and a find disagree";
        if (slot != nullptr && counter(const_cast<layout::counter_slot*>(slot)->value).value() != *walked[name])
            return "a find leads to another's value";
    }
    return {};
}
/// Whether every slot belongs to another name, so that this one has to be refused.
[[nodiscard]] inline bool has_no_room(std::span<layout::counter_slot> slots, const layout::counter_name_words& words) {
    return std::all_of(slots.begin(), slots.end(), [&](layout::counter_slot& slot) {
        for (std::size_t i = 0; i < layout::counter_words && words[i] != 0; ++i) {
            const std::uint64_t seen = slot.words[i].load(std::memory_order_relaxed);  // settles once
            if (seen != 0 && seen != words[i]) return true;
            if (seen == 0) return false;
        }
        return false;
    });
}
[[nodiscard]] inline std::span<layout::counter_slot> slots_in(std::span<std::byte> bytes) {
    return {reinterpret_cast<layout::counter_slot*>(bytes.data()), bytes.size() / sizeof(layout::counter_slot)};
}

/// Latencies: the least, two of one bucket, one of another octave, the last below the overflow, and two beyond it.
inline constexpr std::array<std::uint64_t, 7> some_latencies{0,
                                                             5000,
                                                             5001,
                                                             1U << 20U,
                                                             log_linear::overflow_from - 1,
                                                             log_linear::overflow_from,
                                                             std::numeric_limits<std::uint64_t>::max()};

}  // namespace holdfast::test
