// SPDX-License-Identifier: Apache-2.0
// queries.hpp - what a reader and the writer of a block store can both be asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/block_store/read.hpp"
#include "holdfast/block_store/reading_budget.hpp"
#include "holdfast/block_store/verify.hpp"
#include "holdfast/error.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

namespace detail {

/// The checked geometry of an attached store. Throws: kind_mismatch, version_mismatch, geometry_mismatch.
[[nodiscard]] inline layout::block_store_geometry block_store_geometry_of(const segment& s) {
    const std::uint32_t stored = s.info().container_version;
    s.require(container_kind::block_store,
              stored == layout::block_store_many_version ? stored : layout::block_store_version);
    layout::block_store_geometry g;
    if (const char* why = layout::read_block_store_geometry(s.info().geometry, s.bytes().size(), g))
        throw error(errc::geometry_mismatch, s.uri(),
                    std::string(why) + "; the header is damaged: restore the segment or make it anew");
    const bool many = g.writer_slots != 0;
    if (many != (s.info().policy == writers::many) || many != (stored == layout::block_store_many_version))
        throw error(
            errc::geometry_mismatch, s.uri(),
            "policy, version and writer slots contradict each other; the header is damaged: restore the segment "
            "or make it anew");
    return g;
}

/// The values of a store, as an input range of copies. What cannot be read is left out: it was freed meanwhile, or is
/// damaged, and then the reader's fault() says so. Damaged values may overlap: what is 64 times as long as the store
/// ends the range, and is corrupt.
class block_values {
 public:
    class iterator {
     public:
        using iterator_concept = std::input_iterator_tag;
        using value_type = block_value;
        using difference_type = std::ptrdiff_t;

        iterator() = default;
        explicit iterator(const block_reader_core& core)
            : core_(&core), budget_(std::in_place, core.bytes(), detail::scan_turns_max) {
            ++*this;
        }
        [[nodiscard]] const block_value& operator*() const noexcept { return value_; }
        [[nodiscard]] const block_value* operator->() const noexcept { return &value_; }
        iterator& operator++() {
            do {
                value_.handle = core_->next_value(cursor_);
                if (value_.handle != 0 && !budget_->spend(value_.handle)) {
                    core_->latch(errc::corrupt);
                    value_.handle = 0;
                }
                if (value_.handle == 0) return *this;
                cursor_ = core_->bytes().index_of(value_.handle) + 1;
            } while (!read());
            return *this;
        }
        void operator++(int) { ++*this; }
        friend bool operator==(const iterator& at, std::default_sentinel_t) noexcept { return at.value_.handle == 0; }

     private:
        [[nodiscard]] bool read() {
            const result size = core_->size_of(value_.handle);
            if (!size) return false;
            value_.bytes.resize(static_cast<std::size_t>(size.count));
            return static_cast<bool>(core_->read(value_.handle, value_.bytes));
        }

        const block_reader_core* core_ = nullptr;
        std::optional<block_reading_budget> budget_;
        std::uint64_t cursor_ = 0;
        block_value value_;
    };

    explicit block_values(const block_reader_core& core) noexcept : core_(&core) {}
    [[nodiscard]] iterator begin() const { return iterator(*core_); }
    [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }

 private:
    const block_reader_core* core_;
};

/// Queries over core(), which Self provides, as well as segment().
template <class Self>
class block_store_queries {
 public:
    /// Copies a value to the front of `out`.
    /// Returns: ok with its size; stale, too_small with the size needed, corrupt. What `out` holds counts only with ok.
    /// Threads: any number, beside the writer. After a crash of the writer: as before.
    /// Cost: two cache lines fetched together, and the copy at the speed of memcpy; a line more for each further run.
    [[nodiscard, gnu::always_inline]] result read(std::uint64_t handle, std::span<std::byte> out) const noexcept {
        return core().read(handle, out);
    }
    /// Copies a value into `out`, whose size becomes the value's. Allocates never more than the store has, and nothing
    /// for a value that is gone. Throws: std::bad_alloc.
    result read(std::uint64_t handle, std::vector<std::byte>& out) const {
        const result size = core().size_of(handle);
        if (!size) return size;
        out.resize(static_cast<std::size_t>(size.count));
        return core().read(handle, out);
    }
    /// Runs look(std::span<const std::byte> piece, std::uint64_t offset, std::uint64_t bytes) over a value where it
    /// lies, piece by piece from offset 0 on; a value of one run is one piece.
    ///
    /// `look` may meet bytes of other values before the answer says so: it must neither trust what it finds nor act
    /// outside its own results, and those count only with ok.
    template <class Look>
    result visit(std::uint64_t handle, Look&& look) const {
        return core().visit(handle, std::forward<Look>(look));
    }
    /// Whether the handle names a value. Cost: one load.
    [[nodiscard]] bool contains(std::uint64_t handle) const noexcept { return core().contains(handle); }
    /// The size of a value.
    [[nodiscard]] result size_of(std::uint64_t handle) const noexcept { return core().size_of(handle); }

    /// How full the store is; exact after any kill. Cost: two cache lines, and the two words they name.
    [[nodiscard]] block_store_usage usage() const noexcept { return core().usage(); }
    /// The handle of a value at or behind unit `cursor`, and the cursor for the next call; nothing at the end. What is
    /// there all the while is met exactly once; a value that comes or goes meanwhile may be met or not.
    /// Cost: 8 bytes for each unit passed.
    [[nodiscard]] std::optional<std::uint64_t> next_value(std::uint64_t& cursor) const noexcept {
        const std::uint64_t handle = core().next_value(cursor);
        if (handle == 0) {
            cursor = core().bytes().units();
            return std::nullopt;
        }
        cursor = core().bytes().index_of(handle) + 1;
        return handle;
    }
    /// Copies of all values, as an input range; it meets what next_value() meets. Allocates never more than the store
    /// has. Throws: std::bad_alloc.
    [[nodiscard]] block_values values() const noexcept { return block_values(core()); }
    /// Checks everything; on_finding(const block_finding&) returns whether to go on. See block_store/verify.hpp.
    /// Cost: one pass over words and values.
    template <class OnFinding>
    block_store_verification verify(OnFinding&& on_finding) const {
        return verify_blocks(core().bytes(), std::forward<OnFinding>(on_finding));
    }

    /// errc::corrupt once an operation met damage, errc::truncated if the file was cut under us.
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        const std::optional<errc> own = core().fault().get();
        return own ? own : self().segment().fault();
    }
    [[nodiscard]] const layout::block_store_geometry& geometry() const noexcept { return core().bytes().geometry(); }

 private:
    [[nodiscard]] const Self& self() const noexcept { return static_cast<const Self&>(*this); }
    [[nodiscard]] const block_reader_core& core() const noexcept { return self().core_for_queries(); }
};

}  // namespace detail
}  // namespace holdfast
