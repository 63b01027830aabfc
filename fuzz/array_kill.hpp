// SPDX-License-Identifier: Apache-2.0
// array_kill.hpp - an array as a writer leaves it that is killed right behind the commit of a store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "holdfast/array/view.hpp"
#include "holdfast/array/write.hpp"

namespace holdfast::fuzz {

/// store() stores [first, first + count) and nothing else. The next writer is another one.
template <class View, class Store>
void kill_behind_commit(const View& v, std::span<std::byte> body, const layout::array_geometry& g, std::uint64_t first,
                        std::uint64_t count, Store&& store) {
    const auto journal_end = static_cast<std::size_t>(g.journal_offset + g.journal_bytes());
    const std::vector<std::byte> before(body.begin(), body.end());
    std::forward<Store>(store)();
    std::memcpy(body.data() + journal_end, before.data() + journal_end, before.size() - journal_end);
    holdfast::detail::versions_odd(v, {first, count});
    holdfast::detail::set_sequence(v, holdfast::detail::load_relaxed<std::uint64_t>(v.journal) - 1);
}

}  // namespace holdfast::fuzz
