// SPDX-License-Identifier: Apache-2.0
// salvage_array.cpp - elements by their groups: the checksum of a group vouches for all of its elements, or for all but
// one word that it tells. What no checksum vouches for becomes zero, as in a new array.
#include <algorithm>
#include <cstring>

#include "holdfast/array/dynamic.hpp"
#include "holdfast/array/recover.hpp"
#include "holdfast/detail/concat.hpp"
#include "inspect/one_word.hpp"
#include "inspect/salvage.hpp"

namespace holdfast::inspect {

namespace {

using array_bytes = detail::array_view<std::byte, detail::runtime_element>;

/// Puts the one cell right whose change the checksum tells of. Returns: whether there is just one.
[[nodiscard]] bool mend_group(const array_bytes& view, std::uint64_t group, std::uint64_t sum, std::uint64_t expected) {
    const detail::element_range all = view.elements_of(group);
    const std::uint64_t cells = view.stride / view.cell_bytes;
    const std::uint64_t cell_max =
        view.cell_bytes == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * view.cell_bytes) - 1;
    std::byte* found = nullptr;
    std::uint64_t word = 0;
    for (std::uint64_t index = all.first; index < all.first + all.count; ++index)
        for (std::uint64_t cell = 0; cell < cells; ++cell) {
            std::byte* const at = view.element_at(index) + cell * view.cell_bytes;
            const std::uint64_t present = detail::load_cell(at, view.cell_bytes);
            const std::uint64_t multiplier = detail::digest_multiplier(8 * (index * cells + cell));
            const std::uint64_t needed =
                word_of_term(detail::digest_term(present, multiplier) + expected - sum, multiplier);
            if (needed > cell_max || !differ_little(present, needed)) continue;
            if (found != nullptr) return false;
            found = at;
            word = needed;
        }
    if (found == nullptr) return false;
    detail::store_cell(found, view.cell_bytes, word);
    return true;
}

/// How many elements of a group go over: its first. `present`: of how many elements the memory has all bytes.
[[nodiscard]] std::uint64_t keep_group(const array_bytes& view, std::uint64_t group, std::uint64_t present,
                                       salvage_log& log) {
    const detail::element_range all = view.elements_of(group);
    const auto place = [&](std::uint64_t from = 0) {
        return detail::concat("elements ", all.first + from, "..", all.first + all.count - 1);
    };
    const std::uint64_t sum = detail::digest_group(view, group, {});
    const auto stored = detail::load_acquire<std::uint64_t>(view.digest_of(group));
    if (sum == stored) return all.count;
    if (differ_little(sum, stored)) {
        log.mend("a checksum was damaged, not what it covers", place(), 0);
        return all.count;
    }
    if (mend_group(view, group, sum, stored)) {
        log.mend("one word was put right by a checksum", place());
        return all.count;
    }
    const std::uint64_t there = std::clamp(present, all.first, all.first + all.count) - all.first;
    if (there != all.count) log.lose("their bytes were cut off", place(there), all.count - there);
    if (there == 0) return 0;
    return log.doubt("the checksum of their group does not hold", place(), there) ? there : 0;
}

}  // namespace

void salvage_array(const damaged_segment& from, std::span<std::byte> to, salvage_log& log) {
    layout::array_geometry g;
    require_geometry(from, layout::read_array_geometry(from.spec().geometry, to.size(), g));
    const array_bytes old(from.body(), g, {static_cast<std::size_t>(g.element_bytes)});
    const array_bytes made(to, g, old.element);
    count_cut(from, g.elements_offset, log);  // the checksums; behind them each speaks for its elements
    if (detail::recover(old).journal_rejected) log.lose("the store under way was none of a writer's", "journal", 0);
    const std::uint64_t bytes = from.present().size();
    const std::uint64_t present = bytes < g.elements_offset ? 0 : (bytes - g.elements_offset) / old.stride;
    for (std::uint64_t group = 0; group < old.groups(); ++group) {
        const std::uint64_t kept = keep_group(old, group, present, log);
        if (kept == 0) continue;
        const std::uint64_t first = old.elements_of(group).first;
        std::memcpy(made.element_at(first), old.element_at(first), static_cast<std::size_t>(kept * old.stride));
        detail::store_release<std::uint64_t>(made.digest_of(group), detail::digest_group(made, group, {}));
        log.keep(kept);
    }
}

}  // namespace holdfast::inspect
