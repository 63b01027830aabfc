// SPDX-License-Identifier: Apache-2.0
// read.hpp - reading elements while the writer works, from a read-only mapping, without locks or stores.
//
// A narrow element is one load. A wide one is read under the version of its group, a sequence lock:
//   R1 load version | copy the element | version still the same: accept, else once more
// An odd version says: ask the journal. Its writer is in a store, or was killed in one:
//   R1 version | R2 sequence | odd and the record holds the element: copy its image; else copy the element
//   | sequence and version still the same: accept
// So nobody waits for the dead, and all elements of a record change at once, by the sequence (J2 in write.hpp).
//
// Bytes are not trusted: addresses come from the checked geometry, the record's elements are compared and bounded, and
// every loop is bounded. What does not come to rest is `contended`: that is no damage, and the next read may succeed.
//
// Threads: everything here may run at any time, in any number of threads and processes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "holdfast/array/copy.hpp"
#include "holdfast/array/view.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast::detail {

// An honest writer leaves a reader a fair chance at each attempt; large elements under unceasing stores may take
// several. So many take some milliseconds.
inline constexpr std::uint32_t array_attempts_max = 1U << 16;

template <class Element, copy_by By = copy_by::best, std::uint32_t Attempts = array_attempts_max>
class array_loader {
 public:
    using view = array_view<const std::byte, Element>;

    array_loader() = default;
    explicit array_loader(const view& v) noexcept : view_(v), direct_(known_to_compiler(v) ? v.size : 0) {}

    /// Copies the element at `index` to `out`, element.bytes() of them. Returns: ok, out_of_range or contended (`out`
    /// is then undefined).
    [[nodiscard, gnu::always_inline]] outcome load(std::uint64_t index, std::byte* out) const noexcept {
        if constexpr (Element::fixed) {
            if (index < direct_) [[likely]] {
                constexpr layout::array_geometry g = layout::plan_array(1, Element::bytes());
                const std::byte* const from = view_.elements + index * g.stride;
                if constexpr (!g.wide()) {
                    load_narrow(from, g.stride, out);
                    return outcome::ok;
                } else {
                    const std::byte* const version = view_.version_of(index / g.group_elements);
                    const std::uint64_t seen = load_acquire<std::uint64_t>(version);  // R1, pairs with U1, U3
                    if (seen % 2 == 0) [[likely]] {
                        copy_cells<By>(out, from, Element::bytes());
                        if (still(version, seen)) [[likely]]
                            return outcome::ok;
                    }
                }
            }
        }
        return load_slowly(index, out);
    }

    /// Runs look(cells) on a wide element in place, for who needs only a part of it: by loads that are acquire.
    /// Returns: whether the look was at a whole element; if not, what it saw means nothing, and load() tells.
    template <class Look>
    [[nodiscard, gnu::always_inline]] bool glance(std::uint64_t index, Look&& look) const noexcept {
        static_assert(Element::fixed);
        constexpr layout::array_geometry g = layout::plan_array(1, Element::bytes());
        static_assert(g.wide());
        if (index >= direct_) [[unlikely]]
            return false;
        const std::byte* const version = view_.version_of(index / g.group_elements);
        const std::uint64_t seen = load_acquire<std::uint64_t>(version);  // R1, pairs with U1, U3
        if (seen % 2 != 0) [[unlikely]]
            return false;
        look(static_cast<const std::byte*>(view_.elements + index * g.stride));
        return still(version, seen);
    }

    /// Copies elements [first, first + count), one after the other without gaps. Wide: all as of one moment; narrow:
    /// each by itself. Returns: ok, out_of_range, too_large (more than range_max) or contended.
    [[nodiscard]] outcome load_range(std::uint64_t first, std::uint64_t count, std::byte* out) const noexcept {
        if (first > view_.size || count > view_.size - first) return outcome::out_of_range;
        if (count > view_.range_max) return outcome::too_large;
        if (count == 0) return outcome::ok;
        if (view_.versions != nullptr) return load_again({first, count}, out);
        const std::size_t bytes = view_.element.bytes();
        for (std::uint64_t i = 0; i < count; ++i)
            load_narrow(view_.element_at(first + i), view_.cell_bytes, out + i * bytes);
        return outcome::ok;
    }

    [[nodiscard]] const view& bytes() const noexcept { return view_; }

 private:
    // A store of a small element is over sooner than the journal's cache line has come over: wait that long before
    // going there.
    static constexpr std::uint32_t patient_attempts = 8;

    using version_list = std::array<std::uint64_t, layout::array_next_max>;

    /// Whether stride and groups are those of an array of just these elements: then they are constants.
    [[nodiscard]] static bool known_to_compiler(const view& v) noexcept {
        if constexpr (!Element::fixed) return false;
        const layout::array_geometry g = layout::plan_array(1, v.element.bytes());
        return v.stride == g.stride && (v.versions != nullptr) == g.wide() && v.range_max == g.range_max &&
               std::uint64_t{1} << v.group_shift == g.group_elements;
    }

    void load_narrow(const std::byte* from, std::size_t cell_bytes, std::byte* out) const noexcept {
        const std::uint64_t cell = load_cell(from, cell_bytes);
        std::memcpy(out, &cell, std::min<std::size_t>(view_.element.bytes(), 8));
    }

    /// What load() does not do in a few instructions: elements of run-time types, with more fields than T, and those
    /// whose group is being written.
    [[nodiscard, gnu::noinline]] outcome load_slowly(std::uint64_t index, std::byte* out) const noexcept {
        if (index >= view_.size) return outcome::out_of_range;
        if (view_.versions != nullptr) return load_again({index, 1}, out);
        load_narrow(view_.element_at(index), view_.cell_bytes, out);
        return outcome::ok;
    }

    /// Relaxed: the copy before it ended in acquire loads or an acquire fence, so this load stays behind it, and a copy
    /// that holds a word of a later store brings along that store's version and sequence.
    [[nodiscard]] static bool still(const std::byte* word, std::uint64_t seen) noexcept {
        return load_relaxed<std::uint64_t>(word) == seen;
    }

    /// Wide elements in groups that may be written meanwhile. Requires: as many groups as array_next_max at most.
    [[nodiscard]] outcome load_again(element_range wanted, std::byte* out) const noexcept {
        const std::uint64_t first_group = view_.group_of(wanted.first);
        const std::uint64_t groups = view_.group_of(wanted.first + wanted.count - 1) - first_group + 1;
        version_list seen;
        for (std::uint32_t attempt = 0; attempt < Attempts; ++attempt) {
            std::uint64_t all = 0;
            for (std::uint64_t i = 0; i < groups; ++i) {
                seen[i] = load_acquire<std::uint64_t>(view_.version_of(first_group + i));  // R1, pairs with U1, U3
                all |= seen[i];
            }
            const bool odd = all % 2 != 0;
            if ((!odd || attempt >= patient_attempts) && copy_range(wanted, odd, out)) {
                std::uint64_t i = 0;
                while (i < groups && still(view_.version_of(first_group + i), seen[i])) ++i;
                if (i == groups) return outcome::ok;
            }
            pause();
        }
        return outcome::contended;
    }

    /// Returns: whether the journal, where it was asked, stayed the same meanwhile.
    [[nodiscard]] bool copy_range(element_range wanted, bool ask, std::byte* out) const noexcept {
        const std::byte* const journal = view_.journal + layout::array_sequence_offset;
        // R2, pairs with J2 and J3: behind an odd version comes the even sequence before its record, in which case no
        // word changes until the sequence does; or that record's odd one; or a later one, and then the version changed.
        // Weaker could show the image of an earlier record.
        const std::uint64_t sequence = ask ? load_acquire<std::uint64_t>(journal) : 0;
        element_range pending;
        if (sequence % 2 != 0) {
            pending = element_range::of_word(load_acquire<std::uint64_t>(view_.journal + layout::array_where_offset));
            if (!view_.is_record(pending)) pending = {};
        }
        const std::size_t bytes = view_.element.bytes();
        for (std::uint64_t i = 0; i < wanted.count; ++i) {
            const std::uint64_t index = wanted.first + i;
            const std::byte* const from =
                pending.holds(index) ? view_.image_at(index - pending.first) : view_.element_at(index);
            copy_cells<By>(out + i * bytes, from, bytes);
        }
        return !ask || still(journal, sequence);
    }

    view view_;
    std::uint64_t direct_ = 0;  // elements that load() may read by constants: all, or none
};

}  // namespace holdfast::detail
