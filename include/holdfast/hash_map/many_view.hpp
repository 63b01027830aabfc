// SPDX-License-Identifier: Apache-2.0
// many_view.hpp - what a hash map of many writers has beside table and store: a journal for each writer slot, with the
// selector and the two records that a map of one writer has in its control page. And what they tell of an entry to
// which the table does not lead.
//
// The synchronisation is that of view.hpp: W1 selector -> R1.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "holdfast/block_store/many_view.hpp"
#include "holdfast/hash_map/read.hpp"
#include "holdfast/hash_map/view.hpp"

namespace holdfast::detail {

/// Whether an entry of the store is lost to all.
enum class map_stray : std::uint8_t {
    no,     ///< a key leads to it, or a writer has it in hand, or it is gone
    yes,    ///< it will never go by itself: damage
    busy,   ///< a writer's record was changed at each look
    hidden  ///< no look can tell before a damaged record is mended, which may name it
};

/// The writer slots of a map. Requires: the view's geometry has some.
template <class Byte>
class map_slots {
 public:
    map_slots() = default;
    explicit map_slots(const map_view<Byte>& v) noexcept
        : view_(v), store_(v.store), journals_(v.control(layout::map_control_bytes)) {}

    [[nodiscard]] const map_view<Byte>& view() const noexcept { return view_; }
    [[nodiscard]] std::uint64_t slots() const noexcept { return view_.geometry().writer_slots(); }
    /// Whose claim an entry was. It may be above all slots where somebody made the handle up.
    [[nodiscard]] std::uint64_t slot_of(std::uint64_t handle) const noexcept { return store_.slot_of(handle); }

    // ---- journals. Requires: slot < slots()
    [[nodiscard]] Byte* selector_at(std::uint64_t slot) const noexcept {
        return journals_ + slot * layout::map_journal_bytes;
    }
    [[nodiscard]] Byte* record_at(std::uint64_t slot, std::uint64_t operation) const noexcept {
        return selector_at(slot) + layout::map_journal_records_offset + operation % 2 * layout::map_record_bytes;
    }
    /// R1: acquire, pairs with W1.
    [[nodiscard]] std::uint64_t selector(std::uint64_t slot) const noexcept {
        return load_acquire<std::uint64_t>(selector_at(slot));
    }
    [[nodiscard]] map_record record_of(std::uint64_t slot, std::uint64_t operation) const noexcept {
        map_record record;
        const Byte* at = record_at(slot, operation);
        // R1 again: a word of a record that is written next is seen only together with a later selector.
        for (std::size_t i = 0; i < layout::map_record_words; ++i)
            record.word[i] = load_acquire<std::uint64_t>(at + 8 * i);
        return record;
    }
    /// A number that changes with each operation that anybody begins or ends.
    [[nodiscard]] std::uint64_t progress() const noexcept {
        std::uint64_t sum = 0;
        for (std::uint64_t slot = 0; slot < slots(); ++slot) sum += selector(slot);
        return sum;
    }
    /// One look at a slot's last operation; undisturbed says whether it counts.
    [[nodiscard]] map_state look(std::uint64_t slot) const noexcept {
        map_state s;
        s.selector = selector(slot);
        s.record = record_of(slot, s.operation());
        s.sound = s.selector == 0 ? s.record.is_blank() : is_sound(s.record, slot, s.operation());
        // As in map_view::look: the next operation brings nothing before the selector names it. What it takes tells
        // nothing: another writer may have taken it from a dead one.
        const map_record next = record_of(slot, s.operation() + 1);
        if (is_sound(next, slot, s.operation() + 1) && brings(next)) s.sound = false;
        s.undisturbed = selector(slot) == s.selector;
        return s;
    }
    /// The same, looked at until the slot's writer left it alone for a moment; else undisturbed is false.
    [[nodiscard]] map_state state(std::uint64_t slot) const noexcept {
        map_state s = look(slot);
        for (unsigned attempt = 1; !s.undisturbed && attempt < looks_max; ++attempt) {
            pause();
            s = look(slot);
        }
        return s;
    }
    /// Whether a dead writer of the slot would have left something to do.
    [[nodiscard]] bool left_something(std::uint64_t slot) const noexcept {
        const map_state s = look(slot);
        return !s.sound || s.is_open();
    }

    /// Leaves of `handles` those of entries that are lost to all, beside writers at work. An entry stands for its whole
    /// life under the record of who brings it, or under the table's word, or under the record of who takes it, in this
    /// order and without a gap (write.hpp, I2). So it may be missed by one look at the table and all records behind it,
    /// as it goes from the first to the second meanwhile; but not by two.
    /// Returns: no where none is left; yes; busy or hidden, with those that it cannot tell of. Cost: two lookups for
    /// each entry; where one is led to by no key, two looks at each slot for all of them together.
    [[nodiscard]] map_stray keep_strays(const map_reader_core& reader, std::span<std::uint64_t>& handles) const {
        named_set named;
        for (unsigned round = 0; round < 2; ++round) {
            leave_out(handles, [&](std::uint64_t handle) { return is_led_to(reader, handle); });
            if (handles.empty()) return map_stray::no;
            const map_stray told = gather_named(named);
            leave_out(handles, [&](std::uint64_t h) { return named.has(h) || !reader.blocks().contains(h); });
            if (handles.empty()) return map_stray::no;
            if (told != map_stray::yes) return told;
        }
        return map_stray::yes;
    }
    /// Whether a key leads to the entry, or it is gone.
    [[nodiscard]] static bool is_led_to(const map_reader_core& reader, std::uint64_t handle) {
        map_digest digest;
        const outcome got = reader.digest_under(handle, digest);
        return got == outcome::stale || (got == outcome::ok && reader.handle_under(digest) == handle);
    }

 private:
    static constexpr unsigned looks_max = 64;

    /// What the records of open operations name.
    struct named_set {
        void add(std::uint64_t handle) noexcept { handles[size++] = handle; }
        void sort() noexcept { std::ranges::sort(std::span(handles).first(size)); }
        [[nodiscard]] bool has(std::uint64_t handle) const noexcept {
            return std::ranges::binary_search(std::span(handles).first(size), handle);
        }
        std::array<std::uint64_t, 2 * layout::writer_slots_max> handles;
        std::size_t size = 0;
    };

    template <class Test>
    static void leave_out(std::span<std::uint64_t>& handles, Test&& test) {
        const auto end = std::remove_if(handles.begin(), handles.end(), test);
        handles = handles.first(static_cast<std::size_t>(end - handles.begin()));
    }
    /// Returns: yes; busy or hidden where not all records told.
    [[nodiscard]] map_stray gather_named(named_set& named) const noexcept {
        map_stray told = map_stray::yes;
        named.size = 0;
        for (std::uint64_t slot = 0; slot < slots(); ++slot) {
            const map_state s = state(slot);
            if (!s.undisturbed)
                told = map_stray::busy;
            else if (!s.sound && told == map_stray::yes)
                told = map_stray::hidden;
            if (!s.undisturbed || !s.sound || !s.is_open()) continue;
            for (const map_record::field each : {map_record::add, map_record::take})
                if (s.record.word[each] != 0) named.add(s.record.word[each]);
        }
        named.sort();
        return told;
    }

    [[nodiscard]] bool is_sound(const map_record& r, std::uint64_t slot, std::uint64_t operation) const noexcept {
        const std::uint64_t add = r.word[map_record::add];
        return view_.is_sound(r, operation) && (add == 0 || slot_of(add) == slot);
    }
    [[nodiscard]] bool brings(const map_record& r) const noexcept {
        const std::uint64_t add = r.word[map_record::add];
        return add != 0 && view_.store.word(view_.store.index_of(add)) == add;
    }

    map_view<Byte> view_;
    block_slots<Byte> store_;
    Byte* journals_ = nullptr;
};
template <class Byte>
map_slots(const map_view<Byte>&) -> map_slots<Byte>;

}  // namespace holdfast::detail
