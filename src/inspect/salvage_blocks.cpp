// SPDX-License-Identifier: Apache-2.0
// salvage_blocks.cpp - a value's checksum covers its handle, size, runs and bytes. So it tells a sound value whatever
// the words of its units say, and which units are its own.
#include "inspect/salvage_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <ranges>

#include "holdfast/block_store/many_recover.hpp"
#include "holdfast/detail/concat.hpp"
#include "inspect/block_journals.hpp"
#include "inspect/one_word.hpp"
#include "inspect/salvage.hpp"

namespace holdfast::inspect {

namespace {

[[nodiscard]] std::string unit_text(std::uint64_t unit) { return detail::concat("unit ", unit); }
[[nodiscard]] std::string handle_text(std::uint64_t handle) { return detail::concat("handle ", handle); }

}  // namespace

block_mender::block_mender(const detail::block_view<std::byte>& view, salvage_log& log)
    : view_(view), slots_(view), log_(log), budget_(64 * view.units()) {}

void block_mender::settle_one() {
    const detail::block_state state = view_.look();
    block_store_recovery done;
    const detail::block_counts counts = detail::recover(view_, done);
    counted_ = detail::is_plausible(view_, state) && state.record.word[detail::block_record::flags] == 0;
    values_ = counts.values;
    writers_ = {{counts.serial, done.counts_rebuilt || counts.serial == 0}};
    if (done.counts_rebuilt) log_.mend("the counts were taken anew from the units", "counts", 0);
}

/// As whoever takes over all slots would: no claim is left that a journal names.
void block_mender::settle_many() {
    counted_ = true;
    detail::slot_set all, told, damaged;
    for (std::uint64_t slot = 0; slot < slots_.slots(); ++slot) {
        const detail::block_state state = slots_.look(slot);
        all.set(slot);
        damaged.set(slot, !state.sound);
        told.set(slot, state.sound || detail::last_number_left(slots_, slot, state.operation()) != 0);
    }
    writers_.resize(slots_.slots());
    block_store_recovery done;
    detail::recover_slots(slots_, all, done, [&](std::uint64_t slot, const detail::block_counts& counts) {
        counted_ = counted_ && counts.flags == 0;
        values_ += counts.values;
        const bool none = slots_.number_of(counts.serial) == 0;
        writers_[slot] = {none ? 0 : counts.serial, none || !told[slot]};
    });
    for (std::uint64_t slot = 0; slot < slots_.slots(); ++slot)
        if (damaged[slot])
            log_.mend("the counts were taken anew from the units", detail::concat("writer slot ", slot), 0);
    counted_ = counted_ && values_ <= view_.units();
}

void block_mender::run() {
    if (slots_.slots() == 0)
        settle_one();
    else
        settle_many();
    for (std::uint64_t unit = 0; unit < view_.units(); ++unit)
        if (!view_.in_use(unit)) find_handle(unit);
    for (std::uint64_t unit = 0; unit < view_.units(); ++unit) {
        if (!is_head(unit)) continue;
        const std::uint64_t handle = view_.word(unit);
        if (!is_ours(handle)) {
            log_.lose("its handle names no writer slot", handle_text(handle));
            retire(handle);
            continue;
        }
        const found what = check(handle);
        if (what == found::mended) log_.mend("one word was put right by a checksum", handle_text(handle));
        if (what != found::damaged || find_handle(unit)) continue;
        log_.lose("the checksum of the value does not hold", handle_text(handle));
        retire(handle);
    }
    // A unit of two values, each of which has a checksum that holds: the first in the store keeps it.
    std::vector<bool> taken(static_cast<std::size_t>(view_.units()));
    std::uint64_t values = 0;
    for (const std::uint64_t handle : handles()) {
        bool free = true;
        for_each_unit(handle, [&](std::uint64_t unit) { free = free && !taken[unit]; });
        if (!free) {
            log_.lose("another value has its units", handle_text(handle));
            retire(handle);
            continue;
        }
        for_each_unit(handle, [&](std::uint64_t unit) { taken[unit] = true; });
        ++values;
    }
    const std::uint64_t known = values + log_.items(fate::lost);
    if (counted_ && values_ > known) log_.lose("the unit's word no longer names a value", "", values_ - known);
}

std::vector<std::uint64_t> block_mender::handles() const {
    std::vector<std::uint64_t> all;
    for (std::uint64_t unit = 0; unit < view_.units(); ++unit)
        if (is_head(unit)) all.push_back(view_.word(unit));
    return all;
}

/// Whether the bytes at the handle's unit are the value of that handle, be the words of its units as they may.
bool block_mender::sum_holds(std::uint64_t handle) {
    const std::uint64_t head = view_.index_of(handle);
    const auto bytes = detail::shared_load<std::uint64_t>(view_.unit(head));
    std::uint64_t sum = detail::block_sum_begin(handle, bytes), units = 0;
    const bool whole = view_.for_each_run(head, [&](const detail::block_run<std::byte>& run) {
        units += run.units;
        if (units > budget_) return false;
        sum = detail::block_sum_run(sum, run);
        return true;
    });
    budget_ -= std::min(units, budget_);  // sound ones lie apart, unless somebody has made them so that they do not
    return whole && sum == detail::shared_load<std::uint64_t>(view_.unit(head) + layout::block_head_checksum_offset);
}

block_mender::found block_mender::check(std::uint64_t handle) {
    if (sum_holds(handle)) return found::sound;
    const std::uint64_t head = view_.index_of(handle);
    std::byte* const unit = view_.unit(head);
    const auto bytes = detail::shared_load<std::uint64_t>(unit);
    const auto run_word = detail::shared_load<std::uint64_t>(unit + layout::block_head_run_offset);
    const auto stored = detail::shared_load<std::uint64_t>(unit + layout::block_head_checksum_offset);
    if (!view_.is_one_run(head, bytes, run_word)) return found::damaged;
    if (layout::block_run_units(run_word) > budget_) return found::damaged;
    const std::span<std::byte> payload(unit + layout::block_head_bytes, static_cast<std::size_t>(bytes));
    const std::uint64_t basis = detail::checksum_step(detail::block_sum_begin(handle, bytes), run_word);
    const std::uint64_t sum = detail::checksum(payload, basis);
    if (differ_little(sum, stored)) {
        detail::shared_store<std::uint64_t>(unit + layout::block_head_checksum_offset, sum);
        return found::mended;
    }
    const auto change = changed_word(payload, basis, stored);
    if (!change) return found::damaged;
    std::memcpy(payload.data() + change->offset, &change->word, change->bytes);
    return found::mended;
}

/// A unit may be the first of a value whose handle was damaged a little there. A value that was freed is none: its
/// word says so. Returns: whether there is one.
bool block_mender::find_handle(std::uint64_t unit) {
    const std::uint64_t word = view_.word(unit);
    if ((word & layout::block_live_bit) == 0) return false;
    // The checksum, undone run by run, ends at the handle that it was begun with.
    const auto bytes = detail::shared_load<std::uint64_t>(view_.unit(unit));
    std::vector<detail::block_run<std::byte>> runs;
    std::uint64_t units = 0;
    const bool whole = view_.for_each_run(unit, [&](const detail::block_run<std::byte>& run) {
        units += run.units;
        if (units > budget_) return false;
        runs.push_back(run);
        return true;
    });
    budget_ -= std::min(units, budget_);
    if (!whole) return false;
    auto sum = detail::shared_load<std::uint64_t>(view_.unit(unit) + layout::block_head_checksum_offset);
    for (const auto& run : std::views::reverse(runs)) sum = undo_checksum_step(basis_of(run.payload, sum)) ^ run.word;
    const std::uint64_t handle = undo_checksum_step(sum) ^ bytes;
    if (!differ_little(handle, word) || handle >> 56U != word >> 56U || !is_ours(handle) ||
        view_.index_of(handle) != unit)
        return false;
    detail::store_release<std::uint64_t>(view_.word_at(unit), handle);
    log_.mend("the handle in a unit's word was put right by a checksum", handle_text(handle));
    return true;
}

/// For writers whose journals name no serial: the highest that a word carries, be it of a value, of a freed one or of a
/// claim. None of them is given out again.
void block_mender::ask_words() {
    for (std::uint64_t unit = 0; unit < view_.units(); ++unit) {
        const std::uint64_t handle = slots_.dropped(view_.word(unit)) | layout::block_live_bit;
        if (view_.index_of(handle) != unit || !is_ours(handle)) continue;
        writer_state& writer = writer_of(handle);
        if (writer.told_by_words) writer.last_serial = std::max(writer.last_serial, view_.serial_of(handle));
    }
}

void block_mender::finish() {
    ask_words();
    std::vector<bool> taken(static_cast<std::size_t>(view_.units()));
    for (const std::uint64_t handle : handles()) {
        for_each_unit(handle, [&](std::uint64_t unit) {
            if (view_.word(unit) != handle && unit != view_.index_of(handle))
                log_.mend("a unit's word did not name its value", unit_text(unit), 0);
            detail::store_release<std::uint64_t>(view_.word_at(unit), handle);
            taken[unit] = true;
        });
    }
    // What is left names no value that stands, and no writer's word is worth keeping but that of a freed handle.
    for (std::uint64_t unit = 0; unit < view_.units(); ++unit) {
        const std::uint64_t word = view_.word(unit), handle = word | layout::block_live_bit;
        const bool freed = view_.index_of(word) == unit && word != handle && is_ours(handle) && was_given_out(handle);
        if (!taken[unit] && !freed) detail::store_release<std::uint64_t>(view_.word_at(unit), 0);
    }
    std::vector<std::uint64_t> serials;
    for (const writer_state& writer : writers_) serials.push_back(writer.last_serial);
    write_journals(view_, serials);
}

void salvage_blocks(const damaged_segment& from, std::span<std::byte> to, salvage_log& log) {
    layout::block_store_geometry g;
    require_geometry(from, layout::read_block_store_geometry(from.spec().geometry, to.size(), g));
    const bool many = g.writer_slots != 0;
    if (many != (from.spec().policy == writers::many) ||
        many != (from.spec().container_version == layout::block_store_many_version))
        require_geometry(from, "policy, version and writer slots contradict each other");
    count_cut(from, g.units_offset(), log);  // words and journals; behind them checksums speak for values
    std::ranges::copy(from.body(), to.begin());
    block_mender store(detail::block_view<std::byte>(to, g), log);
    store.run();
    log.keep(store.handles().size());
    store.finish();
}

}  // namespace holdfast::inspect
