// SPDX-License-Identifier: Apache-2.0
// mutations.hpp - what a writer of a block store can be asked to change, of one writer and of many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "holdfast/block_store/result.hpp"

namespace holdfast::detail {

/// Operations over core_for_mutations(), which Self provides, as well as writable().
template <class Self>
class block_store_mutations {
 public:
    /// Stores a copy of `value`. Returns: ok and its handle; full, too_large, read_only, no_memory, corrupt.
    /// Drops what was prepared. Cost: the copy and its checksum, 8 bytes stored a unit, and the search for free units.
    /// Many writers: each unit is swapped in; `full` is what a pass over the words found, not at one instant.
    block_result allocate(std::span<const std::byte> value) noexcept { return replace_or_allocate(0, value); }

    /// Stores a copy of `value` and frees the one under `handle`, which answers `stale` from then on. Both need room at
    /// once. A reader may meet both for a moment, never neither; so may those who look after a kill, until the next
    /// attach. Returns: ok and the new handle; stale, and as allocate(); of many writers also contended. Of several who
    /// replace one value, one succeeds; the others' values are withdrawn.
    block_result replace(std::uint64_t handle, std::span<const std::byte> value) noexcept {
        if (!self().writable()) return {outcome::read_only, 0};
        if (!core().reader().contains(handle)) return {outcome::stale, 0};
        return replace_or_allocate(handle, value);
    }

    /// Frees a value. Returns: ok; stale for a handle that names none (freed twice, for instance); read_only; corrupt,
    /// where its units cannot be told for damage: it then stays; contended, where it was found by enumeration before
    /// another writer's commit() of it has returned, and that one is stopped. Cost: a look at its units' words.
    outcome free(std::uint64_t handle) noexcept { return self().writable() ? core().free(handle) : outcome::read_only; }

    /// Claims room for a value of `bytes`, to be filled in place; drops an earlier claim. A claim that is never
    /// committed is free again when it is discarded, when the next is made, and when the writer is gone.
    outcome prepare(std::uint64_t bytes) noexcept {
        return self().writable() ? core().prepare(bytes) : outcome::read_only;
    }
    /// Copies `from` to byte `at` of the prepared ones. Returns: ok, not_claimed (also beyond them), read_only.
    outcome write(std::uint64_t at, std::span<const std::byte> from) noexcept {
        return self().writable() ? core().write(at, from) : outcome::read_only;
    }
    /// Runs fill(std::span<std::byte> piece, std::uint64_t offset) over the prepared bytes, in order; a claim in one
    /// run is one piece. Plain stores into them are fine.
    template <class Fill>
    outcome fill(Fill&& fill) {
        return self().writable() ? core().fill(std::forward<Fill>(fill)) : outcome::read_only;
    }
    /// The handle that commit() will give to what is prepared, whatever is freed before that; 0 without a claim. It
    /// names nothing until then: who keeps handles elsewhere can note it before the value is there, and tells after a
    /// kill by contains() whether it came. The next claim may get the number of one that was discarded or dropped: the
    /// note must go with the claim.
    [[nodiscard]] std::uint64_t pending() const noexcept { return core().pending(); }
    /// Makes what was prepared a value; with `replaced`, in the place of that one, as replace(). Bytes that nobody
    /// wrote hold whatever lay there. Returns: ok and the handle; not_claimed, stale (the claim stays, unless another
    /// writer took `replaced` just then), contended (of many writers), read_only, corrupt.
    block_result commit(std::uint64_t replaced = 0) noexcept {
        return self().writable() ? core().commit(replaced) : block_result{outcome::read_only, 0};
    }
    /// Drops what was prepared.
    void discard() noexcept {
        if (self().writable()) core().discard();
    }

 private:
    [[nodiscard]] Self& self() noexcept { return static_cast<Self&>(*this); }
    [[nodiscard]] const Self& self() const noexcept { return static_cast<const Self&>(*this); }
    [[nodiscard]] auto& core() noexcept { return self().core_for_mutations(); }
    [[nodiscard]] const auto& core() const noexcept { return self().core_for_mutations(); }

    block_result replace_or_allocate(std::uint64_t replaced, std::span<const std::byte> value) noexcept {
        if (!self().writable()) return {outcome::read_only, 0};
        const outcome status = core().prepare(value.size());
        if (status != outcome::ok) return {status, 0};
        (void)core().write(0, value);
        const block_result result = core().commit(replaced);
        if (!result) core().discard();
        return result;
    }
};

}  // namespace holdfast::detail
