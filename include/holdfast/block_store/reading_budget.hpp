// SPDX-License-Identifier: Apache-2.0
// reading_budget.hpp - what a walk over a store's values may read altogether, whatever their sizes say.
#pragma once

#include <algorithm>
#include <cstdint>

#include "holdfast/block_store/view.hpp"

namespace holdfast::detail {

/// Bounds what a pass over all values reads. Sound ones lie apart and are no longer than the store together; damaged
/// ones may overlap, and each be as long as the store.
class block_reading_budget {
 public:
    /// As much as `turns` through the store.
    explicit block_reading_budget(const block_view<const std::byte>& store, std::uint64_t turns = 2) noexcept
        : store_(store), left_(store.bytes_of(turns * store.units())) {}
    /// Before what lies under a handle is read. Returns: whether it may be.
    [[nodiscard]] bool spend(std::uint64_t handle) noexcept {
        // Of what does not stand nothing will be read, and what lies in its place is no size.
        if (!store_.is_handle(handle) || store_.word(store_.index_of(handle)) != handle) return true;
        // Input: no more of it is ever read than the store has.
        const auto said = shared_load<std::uint64_t>(store_.unit(store_.index_of(handle)));
        if (!store_.still(handle)) return true;  // replaced meanwhile
        const std::uint64_t bytes = std::min(said, store_.geometry().value_bytes_max());
        if (bytes > left_) return false;
        left_ -= bytes;
        return true;
    }

 private:
    block_view<const std::byte> store_;
    std::uint64_t left_;
};

/// Turns of a scan beside a writer: what it stores anew behind the scan is met once more, and no sooner than it is
/// stored.
inline constexpr std::uint64_t scan_turns_max = 64;

}  // namespace holdfast::detail
