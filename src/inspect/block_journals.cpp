// SPDX-License-Identifier: Apache-2.0
#include "inspect/block_journals.hpp"

#include <algorithm>
#include <cstddef>

#include "holdfast/block_store/many_recover.hpp"

namespace holdfast::inspect {

namespace {

constexpr std::uint64_t operation = 1;

void write_one(const detail::block_view<std::byte>& view, detail::block_record record) {
    std::fill_n(view.record_at(0), 2 * layout::block_record_bytes, std::byte{});
    detail::store_release<std::uint64_t>(view.selector_at(), 0);
    if (record.is_blank()) return;
    record.word[detail::block_record::sum] = record.sum_as(operation);
    for (std::size_t i = 0; i < layout::block_record_words; ++i)
        detail::store_release<std::uint64_t>(view.record_at(operation) + 8 * i, record.word[i]);
    detail::complete(view, operation);
}

void write_slot(const detail::block_slots<std::byte>& slots, std::uint64_t slot, const detail::block_record& record) {
    std::fill_n(slots.selector_at(slot), layout::block_journal_bytes, std::byte{});
    if (record.is_blank()) return;
    detail::begin_operation(slots, slot, operation, record);
    detail::complete_operation(slots, slot, operation);
}

}  // namespace

void write_journals(const detail::block_view<std::byte>& view, std::span<const std::uint64_t> serials) {
    const detail::block_totals all = detail::count_words(view);
    const detail::block_slots slots(view);
    for (std::uint64_t writer = 0; writer < serials.size(); ++writer) {
        const bool first = writer == 0;
        const detail::block_record record{
            {0, 0, first ? all.units : 0, first ? all.values : 0, 0, serials[writer], 0, 0}};
        if (slots.slots() == 0)
            write_one(view, record);
        else
            write_slot(slots, writer, record);
    }
}

}  // namespace holdfast::inspect
