// SPDX-License-Identifier: Apache-2.0
// small_table_model.hpp - a small table over plain bytes, without a segment, and what it should hold: a number for each
// of a few keys, 0 for one that is not there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/small_table/find.hpp"
#include "holdfast/small_table/verify.hpp"
#include "holdfast/small_table/write.hpp"

namespace holdfast::test {

/// A value of several words that tells by itself whether it is whole, and whose it is.
struct small_value {
    std::uint64_t number;
    std::uint64_t key;
    std::uint64_t check;
    friend bool operator==(const small_value&, const small_value&) = default;
};
[[nodiscard]] constexpr small_value small_value_of(std::uint64_t key, std::uint64_t number) noexcept {
    return {number, key, ~(number * 3 + key)};
}

/// Numbers of keys 0, 1, ...; 0 is a key like any other. 0: not there.
template <std::size_t Keys>
using small_numbers = std::array<std::uint64_t, Keys>;

/// The next writer of the table in these bytes, and finders of it.
class small_image {
 public:
    using finder = holdfast::detail::small_table_finder<std::uint64_t, small_value>;
    using mutator = holdfast::detail::small_table_mutator<std::uint64_t, small_value>;

    [[nodiscard]] static layout::array_geometry plan(std::uint64_t capacity) {
        return layout::plan_array(capacity + 1, sizeof(mutator::entry));
    }
    /// Recovers the table, as the next writer does.
    small_image(std::span<std::byte> body, const layout::array_geometry& g) : body_(body), geometry_(g) {
        const mutator::view view(body_, geometry_, {});
        array_ = holdfast::detail::recover(view);
        writer_ = mutator(view);
    }

    [[nodiscard]] mutator& writer() noexcept { return writer_; }
    [[nodiscard]] const array_recovery& array() const noexcept { return array_; }
    [[nodiscard]] finder reader(std::uint64_t seed = 1) const { return reader_of(body_, geometry_, seed); }
    [[nodiscard]] static finder reader_of(std::span<std::byte> body, const layout::array_geometry& g,
                                          std::uint64_t seed = 1) {
        return {finder::loader(finder::loader::view(body, g, {})), seed};
    }

    /// The key's number, 0 if it is not there; nothing for a value that is torn, another key's, or cannot be read.
    [[nodiscard]] static std::optional<std::uint64_t> number_of(finder& in, std::uint64_t key) {
        small_value value{};
        auto* const to = reinterpret_cast<std::byte*>(&value);
        const outcome got = in.find_at_rest(key, to);
        switch (got == outcome::contended ? in.find(key, to) : got) {
            case outcome::ok:
                return value == small_value_of(key, value.number) ? std::optional(value.number) : std::nullopt;
            case outcome::not_found: return 0;
            default: return std::nullopt;
        }
    }
    /// Findings of the full check as text; empty when the table is intact. Requires: nothing writes meanwhile.
    [[nodiscard]] static std::string damage_of(const finder& in) {
        std::string text;
        const small_table_verification done = holdfast::detail::verify(in, [&](const small_table_finding& found) {
            text += std::string(describe(found.what)) + " (element " + std::to_string(found.place) + "); ";
            return text.size() < 1000;
        });
        if (done.busy || done.array.busy != 0) text += "busy, though nothing writes; ";
        return text;
    }

 private:
    std::span<std::byte> body_;
    layout::array_geometry geometry_;
    array_recovery array_;
    mutator writer_;
};

/// What a reader finds under each key. Returns: "", or which of them it cannot tell.
template <std::size_t Keys>
[[nodiscard]] std::string look_up_all(small_image::finder& in, small_numbers<Keys>& found) {
    for (std::uint64_t key = 0; key < Keys; ++key) {
        const auto number = small_image::number_of(in, key);
        if (!number) return "key " + std::to_string(key) + " is torn, another's, or cannot be read";
        found[key] = *number;
    }
    return {};
}

/// Entries among the numbers.
template <std::size_t Keys>
[[nodiscard]] std::uint64_t count_of(const small_numbers<Keys>& numbers) {
    std::uint64_t count = 0;
    for (const std::uint64_t number : numbers) count += number != 0 ? 1 : 0;
    return count;
}

/// Empties the table and fills it. Returns: "" where it takes its capacity and no more, `reader` finds all of that, and
/// it is intact. Requires: more keys than there is room for.
template <std::size_t Keys>
[[nodiscard]] std::string empty_and_fill(small_image& table, small_image::finder reader, std::uint64_t capacity) {
    for (std::uint64_t key = 0; key < Keys; ++key) (void)table.writer().erase(key);
    for (std::uint64_t key = 0; key < Keys; ++key)
        if (table.writer().try_insert(key, small_value_of(key, 7)) != (key < capacity ? outcome::ok : outcome::full))
            return "the next writer: no room, or too much";
    for (std::uint64_t key = 0; key < Keys; ++key)
        if (small_image::number_of(reader, key) != (key < capacity ? 7U : 0U)) return "the next insert is not read";
    return small_image::damage_of(reader);
}

}  // namespace holdfast::test
