// SPDX-License-Identifier: Apache-2.0
// read.hpp - reading values out of plain bytes. Needs nothing but a read-only mapping, registers nowhere, never waits.
//
// A handle names one value: the bytes under it never change while it stands, and once it has fallen it does not come
// back within 2^30 to 2^61 allocations, as many as there are serials (docs/design/0017). So a read is
// load the word, copy, look at the word again; there is no second attempt that could end otherwise.
//   word == handle before and after   the bytes are the value's, whole
//   word != handle after              the value was freed meanwhile: stale, whatever was copied
//   nonsense, and word == handle      damage: corrupt. A writer at work cannot be the cause.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "holdfast/block_store/many_view.hpp"
#include "holdfast/block_store/result.hpp"
#include "holdfast/detail/fault_latch.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/error.hpp"

namespace holdfast::detail {

/// Reads over bytes. Holds no state but where the bytes are and a latch: copies are free.
class block_reader_core {
 public:
    using view = block_view<const std::byte>;

    block_reader_core() = default;
    explicit block_reader_core(const view& v) noexcept : view_(v) {}

    [[nodiscard]] const view& bytes() const noexcept { return view_; }

    [[nodiscard]] bool contains(std::uint64_t handle) const noexcept {
        return view_.is_handle(handle) && view_.word(view_.index_of(handle)) == handle;
    }

    /// Runs look(piece, offset, bytes) over the pieces of a value, from offset 0 on.
    template <class Look>
    [[nodiscard]] result visit(std::uint64_t handle, Look&& look) const {
        if (!view_.is_handle(handle)) return {outcome::stale, 0};
        const std::uint64_t head = view_.index_of(handle);
        view_.prefetch(head);  // word and unit are then on their way together
        if (view_.word(head) != handle) return {outcome::stale, 0};
        const auto bytes = shared_load<std::uint64_t>(view_.unit(head));
        const auto run = shared_load<std::uint64_t>(view_.unit(head) + layout::block_head_run_offset);
        const bool whole = view_.for_each_run(
            head, bytes, run, [&](const block_run<const std::byte>& r) { look(r.payload, r.payload_from, bytes); });
        return end(handle, whole, bytes);
    }

    /// Copies a value to the front of `out`.
    [[nodiscard, gnu::always_inline]] result read(std::uint64_t handle, std::span<std::byte> out) const noexcept {
        // The usual case, a value of one run that fits, in few instructions, so that reads out of memory that is far
        // away overlap, and in place: a call is a tenth of what a small value costs.
        const std::uint64_t head = view_.place_of(handle);
        if (head >= view_.units()) [[unlikely]]
            return {outcome::stale, 0};
        const std::byte* const word = view_.word_at(head);
        const std::byte* const unit = view_.unit(head);
        if (view_.word(head) != handle) [[unlikely]]
            return {outcome::stale, 0};
        const auto bytes = shared_load<std::uint64_t>(unit);
        const auto run = shared_load<std::uint64_t>(unit + layout::block_head_run_offset);
        // The caller's room is less than 2^62, as any object is.
        if (bytes > out.size() || !view_.is_one_short_run(head, bytes, run)) [[unlikely]]
            return read_runs(handle, out);
        copy_from_shared_here(out.data(), unit + layout::block_head_bytes, static_cast<std::size_t>(bytes));
        return view::still(word, handle) ? result{outcome::ok, bytes} : result{outcome::stale, 0};
    }

    /// The size of a value that stands, checked against its first run: nobody allocates by a number of a value that
    /// has gone.
    [[nodiscard]] result size_of(std::uint64_t handle) const noexcept {
        return visit(handle, [](std::span<const std::byte>, std::uint64_t, std::uint64_t) noexcept {});
    }

    [[nodiscard]] block_store_usage usage() const noexcept {
        block_totals all = totals_of(view_);
        // Of many writers some are always at work: then each is counted at a moment of its own.
        const bool many = view_.geometry().writer_slots != 0, rebuilt = many && all.sound && all.rebuilt;
        if (rebuilt) all = count_words(view_);
        const bool told =
            all.undisturbed || (many && !all.torn && all.units <= view_.units() && all.values <= all.units);
        block_store_usage u{outcome::ok, view_.units(), 0, 0, view_.geometry().unit_bytes};
        if (!told) {
            u.status = outcome::contended;
        } else if (!all.sound || all.units > view_.units() || all.values > all.units) {
            fault_.set(errc::corrupt);
            u.status = outcome::corrupt;
        } else {
            u.units_used = all.units;
            u.values = all.values;
        }
        return u;
    }

    /// The handle of the first value that starts at unit `from` or behind it; 0 = none. Cost: 8 bytes a unit passed.
    [[nodiscard]] std::uint64_t next_value(std::uint64_t from) const noexcept {
        for (; from < view_.units(); ++from) {
            const std::uint64_t word = view_.word(from);
            if (view_.is_handle(word) && view_.index_of(word) == from) return word;
        }
        return 0;
    }

    [[nodiscard]] const fault_latch& fault() const noexcept { return fault_; }
    void latch(errc code) const noexcept { fault_.set(code); }

 private:
    /// The same for any value, or none.
    [[nodiscard, gnu::noinline]] result read_runs(std::uint64_t handle, std::span<std::byte> out) const noexcept {
        bool fits = true;
        result got =
            visit(handle, [&](std::span<const std::byte> piece, std::uint64_t from, std::uint64_t bytes) noexcept {
                fits = bytes <= out.size();
                if (fits) copy_from_shared(out.data() + from, piece.data(), piece.size());
            });
        if (got && !fits) got.status = outcome::too_small;
        return got;
    }

    [[nodiscard]] result end(std::uint64_t handle, bool whole, std::uint64_t bytes) const noexcept {
        if (!view_.still(handle)) return {outcome::stale, 0};
        if (whole) return {outcome::ok, bytes};
        fault_.set(errc::corrupt);
        return {outcome::corrupt, 0};
    }

    view view_;
    mutable fault_latch fault_;
};

}  // namespace holdfast::detail
