// SPDX-License-Identifier: Apache-2.0
// prepare.hpp - what a writer of a block store does with units that are its own: it looks for them, lays a value out in
// them, copies into it and seals it. What makes them its own, and a value, is write.hpp's, or many_write.hpp's.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "holdfast/block_store/free_map.hpp"
#include "holdfast/block_store/read.hpp"
#include "holdfast/layout/segment_header.hpp"

namespace holdfast::detail {

/// The value in preparation, in private memory, and the units that are free as far as its writer knows.
template <writers Policy>
class block_preparation {
 public:
    using view = block_view<std::byte>;

    block_preparation() = default;
    /// Throws: std::bad_alloc (one bit a unit).
    explicit block_preparation(const view& v) : view_(v), reader_(v.as_const()), free_(v.as_const()) {
        runs_.reserve(runs_reserved);
    }

    [[nodiscard]] const block_reader_core& reader() const noexcept { return reader_; }

    /// Runs fill(piece, offset) over the claimed bytes, in order. Plain stores into them are fine.
    template <class Fill>
    outcome fill(Fill&& fill) {
        if (runs_.empty()) return outcome::not_claimed;
        for_each_claimed([&](const run& r) { fill(r.payload, r.payload_from); });
        return outcome::ok;
    }

    /// Copies `from` to byte `at` of the claimed ones. Cost: the runs passed since the last write, so that writes from
    /// front to back walk the runs once; one that goes back begins at the first.
    outcome write(std::uint64_t at, std::span<const std::byte> from) noexcept {
        if (runs_.empty() || at > bytes_ || from.size() > bytes_ - at) return outcome::not_claimed;
        const std::uint64_t end = at + from.size();
        if (at < written_.from) written_ = {};
        for (;;) {
            const run r = claimed(written_.run, written_.from);
            const std::uint64_t run_end = r.payload_from + r.payload.size();
            const std::uint64_t first = std::max(at, r.payload_from), last = std::min(end, run_end);
            if (first < last)
                copy_to_shared(r.payload.data() + (first - r.payload_from), from.data() + (first - at),
                               static_cast<std::size_t>(last - first));
            if (end <= run_end || written_.run + 1 == runs_.size()) return outcome::ok;
            written_ = {written_.run + 1, run_end};
        }
    }

 protected:
    using run = block_run<std::byte>;
    struct piece {
        std::uint32_t first = 0;
        std::uint32_t units = 0;
    };
    static constexpr std::size_t runs_reserved = 1024;  // 8 KiB: values in fewer runs cost no allocation
    // How many free runs are looked at for one that is long enough: so many for each unit wanted, but no more than that
    // for one run, and for all runs of a value; then it takes what comes. More would make the search in a nearly full
    // store dearer than reading a value of a few more runs.
    static constexpr std::uint64_t looks_per_unit = 16;
    static constexpr std::uint64_t looks_per_run_max = 256;
    static constexpr std::uint64_t looks_per_value_max = 1024;

    [[nodiscard]] std::uint64_t run_word(std::size_t i) const noexcept {
        const bool last = i + 1 == runs_.size();
        return layout::block_run_word(runs_[i].units, last ? layout::block_no_run : runs_[i + 1].first);
    }
    [[nodiscard]] static constexpr std::uint64_t header_of(std::size_t i) noexcept {
        return i == 0 ? layout::block_head_bytes : layout::block_run_bytes;
    }
    [[nodiscard]] std::uint64_t units_of(std::uint64_t bytes) const noexcept {
        const std::uint64_t unit = view_.geometry().unit_bytes;
        return (bytes + unit - 1) / unit;
    }

    [[nodiscard]] std::uint64_t claimed_units() const noexcept {
        std::uint64_t units = 0;
        for (const piece& p : runs_) units += p.units;
        return units;
    }

    /// A run of the claim, whose payload begins at byte `from` of it, as the writer knows it privately: what a peer
    /// scribbles over run headers meanwhile does not count.
    [[nodiscard]] run claimed(std::size_t i, std::uint64_t from) const noexcept {
        const std::uint64_t take = std::min(bytes_ - from, view_.bytes_of(runs_[i].units) - header_of(i));
        return {runs_[i].first, runs_[i].units, run_word(i),
                std::span(view_.unit(runs_[i].first) + header_of(i), static_cast<std::size_t>(take)), from};
    }
    template <class Use>
    void for_each_claimed(Use&& use) {
        std::uint64_t from = 0;
        for (std::size_t i = 0; i < runs_.size(); ++i) {
            const run r = claimed(i, from);
            use(r);
            from += r.payload.size();
        }
    }

    /// P0, P1: lays out what is claimed for a value of `bytes`.
    void begin_value(std::uint64_t bytes) noexcept {
        // P0, pairs with the fence of R2: all words through which readers could still be looking at these units have
        // changed (W2) before a byte here does. Weaker: a reader could mix in new bytes and find the old handle.
        std::atomic_thread_fence(std::memory_order_release);
        for (std::size_t i = 0; i < runs_.size(); ++i)
            shared_store<std::uint64_t>(
                view_.unit(runs_[i].first) + (i == 0 ? layout::block_head_run_offset : std::size_t{0}), run_word(i));
        bytes_ = bytes;
        written_ = {};
    }

    /// The next free run of so many units, or the longest of those looked at; no units when nothing is free. Next fit:
    /// units just freed are used again last, which gives readers the longest grace, and neighbours in time become
    /// neighbours in place.
    piece next_run(std::uint64_t wanted, std::uint64_t& looks) noexcept {
        piece best;
        std::uint64_t left = std::clamp<std::uint64_t>(looks, 1, std::min(looks_per_unit * wanted, looks_per_run_max));
        for (const auto& [from, to] : arcs()) {
            for (std::uint64_t at = free_.next_free(from, to); at < to; at = free_.next_free(at, to)) {
                const std::uint64_t length = free_.run_length(at, wanted);
                if (length > best.units) best = {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(length)};
                if (looks != 0) --looks;
                if (length == wanted || --left == 0) return best;
                at += length;
            }
        }
        return best;
    }

    struct arc {
        std::uint64_t from, to;
    };
    /// From the cursor to the end, then from the start to the cursor.
    [[nodiscard]] std::array<arc, 2> arcs() const noexcept { return {arc{cursor_, view_.units()}, arc{0, cursor_}}; }

    /// Whether each unit that a value's runs lead to carries its handle, and there are `most` of them at most. `units`:
    /// how many were met.
    [[nodiscard]] bool owns_its_runs(std::uint64_t handle, std::uint64_t most, std::uint64_t& units) const noexcept {
        units = 0;
        return view_.for_each_run(view_.index_of(handle), [&](const run& r) {
            for (std::uint64_t i = r.first; i < r.first + r.units; ++i)
                if (view_.word(i) != handle) return false;
            units += r.units;
            return units <= most;
        });
    }

    void seal(std::uint64_t handle) noexcept {
        std::byte* head = view_.unit(runs_.front().first);
        std::uint64_t sum = block_sum_begin(handle, bytes_);
        for_each_claimed([&](const run& r) { sum = block_sum_run(sum, r); });
        shared_store<std::uint64_t>(head, bytes_);
        shared_store<std::uint64_t>(head + layout::block_head_checksum_offset, sum);
    }

    view view_;
    block_reader_core reader_;
    block_free_map<Policy> free_;
    std::vector<piece> runs_;  // of the claim in preparation; empty = none
    std::uint64_t bytes_ = 0;  // of it
    struct {
        std::size_t run = 0;
        std::uint64_t from = 0;  // of its payload in the claim
    } written_;                  // the run in which the last write ended
    std::uint64_t cursor_ = 0;   // where the last claim ended
};

}  // namespace holdfast::detail
