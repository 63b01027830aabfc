// SPDX-License-Identifier: Apache-2.0
// stripe_growth.hpp - the word in which a stripe of a table of many writers says what a growth asks of its owners.
//
//   bits  0-1  phase
//         2-63 tag of the next generation that it is about; never 0 in a word that is not 0
//
//   none     nothing
//   mirrors  every change of a key at home here is done in the next generation, too, before the stripe is given back
//   closed   nobody changes anything here any more: the next generation is about to take the name, or has it
//   spoiled  a change could not be done in the next generation: that one must not take the name
// Only the stripe's owner stores to it. Who gives all stripes a word, one after the other, has met every operation that
// began before it. docs/design/0022-growth.md argues it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "holdfast/detail/words.hpp"
#include "holdfast/layout/hash_table_layout.hpp"

namespace holdfast::detail {

struct stripe_growth {
    enum phase : unsigned { none = 0, mirrors = 1, closed = 2, spoiled = 3 };
    std::uint64_t word = 0;

    /// Of a tag only 62 bits are kept.
    [[nodiscard]] static constexpr stripe_growth of(std::uint64_t tag, phase what) noexcept {
        return {tag << 2 | what};
    }
    [[nodiscard]] constexpr phase what() const noexcept { return static_cast<phase>(word & 3); }
    [[nodiscard]] constexpr std::uint64_t tag() const noexcept { return word >> 2; }
    friend constexpr bool operator==(stripe_growth, stripe_growth) = default;
};

/// Whether a table of these nodes never grows, since it is a part of something larger: its nodes say so. In such a
/// table a word that is not 0 is damage, which the next owner of the stripe takes away.
template <class Node>
inline constexpr bool has_no_growth = requires { requires Node::never_grows; };

/// Requires: the caller owns the stripe, or holds the slot of the dead one that does.
[[nodiscard]] inline stripe_growth growth_of(const std::byte* stripe) noexcept {
    // Relaxed: stored by owners only, and we are behind the last one.
    return {load_relaxed<std::uint64_t>(stripe + layout::stripe_growth_offset)};
}
inline void set_growth_of(std::byte* stripe, stripe_growth to) noexcept {
    // Release, as all that is stored under a stripe; the next owner is behind it by W5 and R5 (many_mutate.hpp).
    store_release<std::uint64_t>(stripe + layout::stripe_growth_offset, to.word);
}

}  // namespace holdfast::detail
