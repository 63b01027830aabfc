// SPDX-License-Identifier: Apache-2.0
// queries.hpp - what a reader and the writer of a hash map can both be asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/hash_map/attach.hpp"
#include "holdfast/hash_map/read.hpp"
#include "holdfast/hash_map/verify.hpp"

namespace holdfast::detail {

/// Queries over core(), which Self provides, as well as segment() and used().
template <class Self, class K>
class hash_map_queries {
 public:
    using key_type = K;
    class iterator;

    /// Copies the key's value to the front of `out`. No allocation, no waiting.
    /// Returns: ok with its bytes and handle; not_found (also where its time is over); too_small with the bytes needed;
    /// contended, where the key was updated 16 times meanwhile; corrupt, see fault(). What `out` holds counts only with
    /// ok. Threads: any number, beside the writer. After a crash of the writer: as before.
    /// Cost: tag line, node, then the store's word and the entry together: three steps of memory; and the copy. One of
    /// 100 bytes by a text of 17 takes some 273 instructions with its loop, a miss 152; fewer where the compiler knows
    /// the length.
    [[nodiscard]] hash_map_found find(const K& key, std::span<std::byte> out) const noexcept {
        const hash_map_found got = core().find(map_key_bytes(key), out);
        self().used(got);
        return got;
    }
    /// Copies the key's value into `out`, whose size becomes the value's. Allocates never more than the store has, and
    /// nothing for an entry that is gone. Throws: std::bad_alloc.
    hash_map_found find(const K& key, std::vector<std::byte>& out) const { return find_growing(key, out); }
    hash_map_found find(const K& key, std::string& out) const { return find_growing(key, out); }
    /// Runs look(std::span<const std::byte> piece, std::uint64_t offset, std::uint64_t bytes) over the key's value
    /// where it lies, piece by piece from offset 0 on; an entry of one run is one piece, an empty value an empty piece.
    ///
    /// `look` may meet bytes of other entries, and may be begun anew at offset 0, before the answer says ok: it must
    /// neither trust what it finds nor act outside its own results, and those count only with ok.
    template <class Look>
    hash_map_found visit(const K& key, Look&& look) const {
        const hash_map_found got = core().find(map_key_bytes(key), look);
        self().used(got);
        return got;
    }
    /// Whether the key is there. As find() without the copy.
    [[nodiscard]] bool contains(const K& key) const noexcept { return static_cast<bool>(about(key)); }
    /// What find() would say of the key: bytes, handle, seconds left, flags.
    [[nodiscard]] hash_map_found about(const K& key) const noexcept {
        return visit(key, [](std::span<const std::byte>, std::uint64_t, std::uint64_t) noexcept {});
    }

    /// Copies the next entry at slot `cursor` or behind it, in no order of the keys, and moves the cursor on; begin
    /// with 0. What is there from the first call to the last is met exactly once, whatever the writer does; what comes
    /// or goes meanwhile may be met or not. Returns: ok; empty at the end; contended, where the entry at the cursor was
    /// updated all the while; corrupt, with the cursor behind what cannot be read. Throws: std::bad_alloc.
    /// Cost: 2.5 bytes for each slot passed, and the entry.
    outcome next_entry(std::uint64_t& cursor, hash_map_entry& out) const { return core().next_entry(cursor, out); }
    /// An input range over copies of all entries, as next_entry() gives them. What cannot be read, be it damaged or
    /// updated all the while, is left out, and fault() says so. Damaged entries may overlap: what is 64 times as long
    /// as the store ends the range, and is corrupt.
    [[nodiscard]] iterator begin() const { return iterator(core()); }
    [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

    /// Number of entries, those included whose time is over and that no writer met since. Exact when no operation is
    /// under way; off by one while one is, and behind a kill in one until the next attach.
    [[nodiscard]] std::uint64_t size() const noexcept { return core().table().size(); }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    [[nodiscard]] std::uint64_t capacity() const noexcept { return geometry().table.capacity; }
    /// How full the map is. Cost: some cache lines.
    [[nodiscard]] hash_map_usage usage() const noexcept { return core().usage(); }

    /// Checks everything; on_finding(const hash_map_finding&) returns whether to go on. See hash_map/verify.hpp.
    template <class OnFinding>
    hash_map_verification verify(OnFinding&& on_finding) const {
        return verify_map(core().bytes(), std::forward<OnFinding>(on_finding));
    }

    /// errc::corrupt once an operation met damage, errc::truncated if the file was cut under us, errc::contended after
    /// a scan met an entry that was written all the while.
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        return first_damage({self().own_fault(), self().segment().fault()});
    }
    [[nodiscard]] const layout::hash_map_geometry& geometry() const noexcept { return core().bytes().geometry(); }

 private:
    [[nodiscard]] const Self& self() const noexcept { return static_cast<const Self&>(*this); }
    [[nodiscard]] const map_reader_core& core() const noexcept { return self().core_for_queries(); }

    template <class Bytes>
    hash_map_found find_growing(const K& key, Bytes& out) const {
        hash_map_found got;
        for (unsigned attempt = 0; attempt < 16; ++attempt) {
            got = find(key, std::as_writable_bytes(std::span(out.data(), out.size())));
            if (got.status != outcome::too_small && !got) return got;
            const bool whole = static_cast<bool>(got);
            out.resize(static_cast<std::size_t>(got.count));
            if (whole) return got;
        }
        got.status = outcome::contended;  // it grew each time
        return got;
    }
};

template <class Self, class K>
class hash_map_queries<Self, K>::iterator {
 public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = hash_map_entry;
    using difference_type = std::ptrdiff_t;

    iterator() = default;
    explicit iterator(const map_reader_core& core)
        : core_(&core), budget_(std::in_place, core.blocks().bytes(), scan_turns_max) {
        ++*this;
    }
    [[nodiscard]] const hash_map_entry& operator*() const noexcept { return entry_; }
    [[nodiscard]] const hash_map_entry* operator->() const noexcept { return &entry_; }
    iterator& operator++() {
        outcome got = next();
        for (; got != outcome::ok && got != outcome::empty; got = next())
            if (got == outcome::contended) leave_out();
        at_end_ = got == outcome::empty;
        return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& i, std::default_sentinel_t) noexcept { return i.at_end_; }

 private:
    [[nodiscard]] outcome next() { return core_->next_entry(cursor_, entry_, &*budget_); }
    /// An entry that is updated all the while: who updates it may go on for as long as it likes.
    void leave_out() noexcept {
        core_->latch(errc::contended);
        ++cursor_;
    }

    const map_reader_core* core_ = nullptr;
    std::optional<block_reading_budget> budget_;
    std::uint64_t cursor_ = 0;
    hash_map_entry entry_;
    bool at_end_ = true;
};

}  // namespace holdfast::detail
