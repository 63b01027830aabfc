// SPDX-License-Identifier: Apache-2.0
// entry.hpp - what a small table is in memory: an array whose first element is the head and whose others are entries.
//
//   element        key  state                                               value
//   0, the head    0    the generation: counts changes of the set of keys   zero
//                       (0 in a new table, else 3 and more)
//   1 to capacity  K    1: an entry; 0: free, and all zero then             V
//
// (I1) The generation is odd from before the first store of a change of the set of keys until behind its last one, and
//      counts up: equal even generations have the same keys.
// (I2) An entry never moves while its key lives, and no two entries have one key.
// (I3) A key comes, changes its value and goes by one store of the array each: all of what a kill can leave is a whole
//      entry or none, and an odd generation, which the next writer makes even.
// Each element is wider than a word, so it is read whole under the version of its group (array/read.hpp). The value is
// the last member: a record that got more fields at its end can still be read by programs that know the first ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "holdfast/detail/words.hpp"
#include "holdfast/record/concepts.hpp"

namespace holdfast {

template <record_key K, record V>
struct small_table_entry {
    K key;
    std::uint64_t state;
    V value;
};

namespace detail {

inline constexpr std::uint64_t small_table_free = 0, small_table_used = 1;

[[nodiscard]] constexpr bool is_changing(std::uint64_t generation) noexcept { return generation % 2 != 0; }
/// The odd generation behind a generation: never 1, so that the head is no entry.
[[nodiscard]] constexpr std::uint64_t changing_after(std::uint64_t generation) noexcept {
    return generation < 2 ? 3 : generation | 1U;
}

/// The word of a key: its bytes, and zeros behind them. Keys differ when their words do.
template <class K>
[[nodiscard]] std::uint64_t word_of_key(const K& key) noexcept {
    static_assert(sizeof(K) <= 8);
    std::uint64_t word = 0;
    std::memcpy(&word, &key, sizeof key);
    return word;
}

}  // namespace detail
}  // namespace holdfast
