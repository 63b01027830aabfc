// SPDX-License-Identifier: Apache-2.0
// salvage_blocks.hpp - the values of a block store whose checksums hold, by themselves and below a hash map.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/block_store.hpp"
#include "holdfast/block_store/many_view.hpp"
#include "inspect/salvage_log.hpp"

namespace holdfast::inspect {

/// Makes a copy of a damaged store sound, in place. Only the unit words, the counts and single words that a checksum
/// tells are stored to: a value stays in its units, under its handle.
class block_mender {
 public:
    /// Requires: nobody else has the bytes.
    block_mender(const detail::block_view<std::byte>& view, salvage_log& log);

    /// Finishes what a killed writer left, and takes out every value that no checksum vouches for.
    void run();
    [[nodiscard]] std::vector<std::uint64_t> handles() const;
    void retire(std::uint64_t handle) { detail::retire(view_, handle); }
    /// Makes words and counts fit the values that stand. Nothing is retired afterwards.
    void finish();

 private:
    enum class found : std::uint8_t { sound, mended, damaged };
    struct writer_state {
        std::uint64_t last_serial = 0;  // that it gave out; 0: none
        /// Its journal names none: damaged, or zeros, which beside words of that writer are damage too. Otherwise words
        /// have no say in it: serials go round, so one that stands since the round before has a greater one.
        bool told_by_words = false;
    };
    void settle_one();
    void settle_many();
    void ask_words();
    /// Whether a writer of this store can have given the handle out.
    [[nodiscard]] bool is_ours(std::uint64_t handle) const {
        return view_.is_handle(handle) && slots_.slot_of(handle) < writers_.size();
    }
    /// Requires: is_ours(handle).
    [[nodiscard]] writer_state& writer_of(std::uint64_t handle) {
        return writers_[static_cast<std::size_t>(slots_.slot_of(handle))];
    }
    /// Whether the handle's serial is not one that is still to come. Requires: is_ours(handle).
    [[nodiscard]] bool was_given_out(std::uint64_t handle) {
        const std::uint64_t last = slots_.number_of(writer_of(handle).last_serial);
        return slots_.later(slots_.number_of(view_.serial_of(handle)), last) == last;
    }
    [[nodiscard]] bool is_head(std::uint64_t unit) const {
        const std::uint64_t word = view_.word(unit);
        return view_.is_handle(word) && view_.index_of(word) == unit;
    }
    [[nodiscard]] bool sum_holds(std::uint64_t handle);
    [[nodiscard]] found check(std::uint64_t handle);
    bool find_handle(std::uint64_t unit);
    /// Runs visit(unit) over the units of a value. Requires: its checksum holds.
    template <class Visit>
    void for_each_unit(std::uint64_t handle, Visit&& visit) const {
        (void)view_.for_each_run(view_.index_of(handle), [&](const detail::block_run<std::byte>& run) {
            for (std::uint64_t i = run.first; i < run.first + run.units; ++i) visit(i);
        });
    }

    detail::block_view<std::byte> view_;
    detail::block_slots<std::byte> slots_;
    salvage_log& log_;
    std::vector<writer_state> writers_;  // of one writer one
    std::uint64_t values_ = 0;           // that the counts say there are
    bool counted_ = false;
    std::uint64_t budget_;  // units that runs of damaged values may still lead over
};

}  // namespace holdfast::inspect
