// SPDX-License-Identifier: Apache-2.0
// read.hpp - finding entries of a hash map in plain bytes: from a read-only mapping, registered nowhere, without
// waiting.
//
// A look asks the table for the handle of the key's digest, then the store for what lies under the handle: key
// compared, expiry looked at, value copied, the handle's word looked at again. `stale` means that the key was updated
// or erased meanwhile: the table is asked again, 16 times at most; each round proves a new commit to this very key. So
// it is where an entry's time is over: only if the table still leads to it was the key not there when the clock said
// so. The value goes only after the table has let go of it (write.hpp), so a table that still holds a handle which the
// store denies is damaged.
//
// Bytes are not trusted: sizes of key and value are bounded by the entry's, the entry's by its runs (block_store/).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "holdfast/block_store/read.hpp"
#include "holdfast/block_store/reading_budget.hpp"
#include "holdfast/detail/prefetch.hpp"
#include "holdfast/detail/spans.hpp"
#include "holdfast/hash_map/clock.hpp"
#include "holdfast/hash_map/result.hpp"
#include "holdfast/hash_map/view.hpp"
#include "holdfast/hash_table/scan.hpp"

namespace holdfast::detail {

/// The first 16 bytes of an entry.
struct map_entry_head {
    std::uint64_t expires = 0;
    std::uint64_t key_bytes = 0;
    std::uint32_t flags = 0;

    [[nodiscard]] static map_entry_head load(const std::byte* at) noexcept {
        const auto word = shared_load<std::uint64_t>(at + layout::map_entry_key_offset);
        return {shared_load<std::uint64_t>(at), word & layout::map_key_bytes_max,
                static_cast<std::uint32_t>(word >> 32)};
    }
    [[nodiscard]] std::uint64_t value_at() const noexcept { return layout::map_value_offset(key_bytes); }
    /// Whether key and value lie inside an entry of so many bytes.
    [[nodiscard]] bool fits(std::uint64_t entry_bytes) const noexcept { return value_at() <= entry_bytes; }
};

/// The first of them that is damage; else `contended`, which passes, if one is.
[[nodiscard]] constexpr std::optional<errc> first_damage(std::initializer_list<std::optional<errc>> faults) noexcept {
    std::optional<errc> first;
    for (const std::optional<errc>& each : faults)
        if (each && (!first || first == errc::contended)) first = each;
    return first;
}

/// Reads over bytes. Copies are free.
class map_reader_core {
 public:
    using view = map_view<const std::byte>;
    using finder = hash_table_finder<map_node>;

    map_reader_core() = default;
    map_reader_core(const view& v, const map_time& time) noexcept
        : view_(v), finder_(v.table), blocks_(v.store), time_(time) {}

    [[nodiscard]] const view& bytes() const noexcept { return view_; }
    [[nodiscard]] const finder& table() const noexcept { return finder_; }
    [[nodiscard]] const block_reader_core& blocks() const noexcept { return blocks_; }
    [[nodiscard]] const map_time& time() const noexcept { return time_; }

    /// The handle that the table has under a digest; 0 = none.
    [[nodiscard]] std::uint64_t handle_under(const map_digest& digest) const noexcept {
        std::uint64_t handle = 0;
        return finder_.find(digest.bytes(), reinterpret_cast<std::byte*>(&handle)) == no_slot ? 0 : handle;
    }

    /// The same where a miss has to be sure. Returns: ok, not_found, or corrupt where the table cannot tell.
    [[nodiscard]] outcome look_under(const map_digest& digest, std::uint64_t& handle) const noexcept {
        handle = handle_under(digest);
        if (handle != 0) return outcome::ok;
        if (!finder_.fault()) [[likely]]
            return outcome::not_found;
        // Damage was met, here or elsewhere: a finder of its own tells which.
        const finder own(view_.table);
        if (own.find(digest.bytes(), reinterpret_cast<std::byte*>(&handle)) != no_slot) return outcome::ok;
        return own.fault() ? outcome::corrupt : outcome::not_found;
    }

    /// Runs look(piece, offset, bytes) over the pieces of the key's value, from offset 0 on.
    template <class Look>
    [[nodiscard]] hash_map_found find(std::span<const std::byte> key, Look&& look) const {
        entry_seen seen;
        const outcome told = find_at_home(key, look, value_bytes_max, seen);
        if (told == outcome::ok) return answer(seen);
        if (told == outcome::stale) [[unlikely]]
            return find_everywhere(key, look);
        return {told};
    }

    /// Copies the key's value to the front of `out`.
    [[nodiscard, gnu::always_inline]] hash_map_found find(std::span<const std::byte> key,
                                                          std::span<std::byte> out) const noexcept {
        const auto copy = [out](std::span<const std::byte> piece, std::uint64_t, std::uint64_t) noexcept {
            copy_from_shared_here(out.data(), piece.data(), piece.size());
        };
        entry_seen seen;
        const outcome told = find_at_home(key, copy, out.size(), seen);
        if (told == outcome::ok) [[likely]]
            return answer(seen);
        if (told == outcome::stale || told == outcome::too_small) return find_again(key, out, told);
        return {told};
    }

    /// Runs on_head(head, entry bytes), then on_key(piece, offset) and on_value(piece, offset, bytes) over the pieces
    /// of the entry under a handle. Each returns whether to go on. Pieces of a key hold whole words, padded by zero
    /// bytes, and cover the padding. Returns: ok, stale, or corrupt (also for an entry that is no map's); what was
    /// shown counts only with ok.
    template <class OnHead, class OnKey, class OnValue>
    [[nodiscard]] outcome walk(std::uint64_t handle, OnHead&& on_head, OnKey&& on_key, OnValue&& on_value) const {
        map_entry_head head;
        bool sound = true, going = true;
        const result got =
            blocks_.visit(handle, [&](std::span<const std::byte> piece, std::uint64_t from, std::uint64_t bytes) {
                if (from == 0) {
                    sound = bytes >= layout::map_entry_head_bytes && piece.size() >= layout::map_entry_head_bytes;
                    if (sound) head = map_entry_head::load(piece.data());
                    sound = sound && head.fits(bytes);
                    going = sound && on_head(head, bytes);
                }
                if (!going) return;
                const auto part = [&](std::uint64_t begin, std::uint64_t end) {
                    begin = std::max(begin, from), end = std::min(end, from + piece.size());
                    return begin < end ? piece.subspan(static_cast<std::size_t>(begin - from),
                                                       static_cast<std::size_t>(end - begin))
                                       : std::span<const std::byte>();
                };
                constexpr std::uint64_t key_at = layout::map_entry_head_bytes;
                const std::uint64_t value_at = head.value_at();
                if (const auto key = part(key_at, value_at); !key.empty())
                    going = on_key(key, std::max(from, key_at) - key_at);
                const auto value = part(value_at, bytes);
                // An empty value is shown, too: with the last piece.
                if (going && (!value.empty() || (value_at == bytes && from + piece.size() == bytes)))
                    going = on_value(value, std::max(from, value_at) - value_at, bytes - value_at);
            });
        if (got.status != outcome::ok) return got.status;
        return sound ? outcome::ok : broken();
    }

    /// The head of an entry, and how long it is. Returns: ok, stale, corrupt.
    [[nodiscard]] outcome head_of(std::uint64_t handle, map_entry_head& head, std::uint64_t& entry_bytes) const {
        return walk(
            handle,
            [&](const map_entry_head& h, std::uint64_t bytes) {
                head = h, entry_bytes = bytes;
                return false;
            },
            [](std::span<const std::byte>, std::uint64_t) { return false; },
            [](std::span<const std::byte>, std::uint64_t, std::uint64_t) { return false; });
    }

    /// The digest of the key that lies under a handle. Returns: ok, stale, corrupt.
    [[nodiscard]] outcome digest_under(std::uint64_t handle, map_digest& digest) const {
        map_digester digester(view_.secrets(), 0);
        const outcome got = walk(
            handle,
            [&](const map_entry_head& head, std::uint64_t) {
                digester = map_digester(view_.secrets(), head.key_bytes);
                return true;
            },
            [&](std::span<const std::byte> piece, std::uint64_t) {
                for (std::size_t at = 0; at + 8 <= piece.size(); at += 8)
                    digester.add(shared_load<std::uint64_t>(piece.data() + at));
                return true;
            },
            [](std::span<const std::byte>, std::uint64_t, std::uint64_t) { return false; });
        digest = digester.digest();
        return got;
    }

    /// Whether an entry's key is this one. Returns: ok, not_found, stale, corrupt.
    [[nodiscard]] outcome compare_key(std::uint64_t handle, std::span<const std::byte> key) const {
        bool same = true;
        const outcome got = walk(
            handle, [&](const map_entry_head& head, std::uint64_t) { return same = head.key_bytes == key.size(); },
            [&](std::span<const std::byte> piece, std::uint64_t at) { return same = is_piece_of(key, piece, at); },
            [](std::span<const std::byte>, std::uint64_t, std::uint64_t) { return false; });
        return got == outcome::ok && !same ? outcome::not_found : got;
    }

    /// Copies the next entry at slot `cursor` or behind it, and moves the cursor behind it. Returns: ok, empty at the
    /// end, corrupt (the cursor is behind the entry that could not be read), contended (it stands before one that was
    /// updated all the while). Throws: std::bad_alloc.
    /// With a budget, also corrupt, with the cursor at the end, once that is spent.
    outcome next_entry(std::uint64_t& cursor, hash_map_entry& out, block_reading_budget* budget = nullptr) const {
        for (;;) {
            map_digest digest;
            std::uint64_t handle = 0;
            hash_table_scanner<map_node> scanner(finder_, cursor);
            const std::uint64_t slot = scanner.next(reinterpret_cast<std::byte*>(&digest), bytes_of_word(handle));
            if (slot == no_slot) {
                cursor = view_.table.slots();
                return outcome::empty;
            }
            if (budget != nullptr && !budget->spend(handle)) {
                cursor = view_.table.slots();
                return broken();
            }
            cursor = slot + 1;
            const outcome got = copy_slot(slot, digest, handle, out);
            if (got == outcome::contended) cursor = slot;
            if (got != outcome::not_found) return got;
        }
    }

    [[nodiscard]] hash_map_usage usage() const noexcept {
        const block_store_usage blocks = blocks_.usage();
        // Relaxed, both counters: for people.
        return {blocks.status,
                finder_.size(),
                view_.geometry().table.capacity,
                blocks.units,
                blocks.units_used,
                blocks.unit_bytes,
                load_relaxed<std::uint64_t>(view_.control(layout::map_evicted_offset)),
                load_relaxed<std::uint64_t>(view_.control(layout::map_expired_offset))};
    }

    /// The first damage that an operation met in any of the parts.
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        return first_damage({fault_.get(), finder_.fault(), blocks_.fault().get()});
    }
    void latch(errc code) const noexcept { fault_.set(code); }
    outcome broken() const noexcept {
        latch(errc::corrupt);
        return outcome::corrupt;
    }

 private:
    static constexpr unsigned attempts_max = 16;
    static constexpr std::uint64_t value_bytes_max = std::uint64_t{1} << 61;  // no value has so many
    static constexpr unsigned copies_max = 4096;                              // a scan may not leave out what is there

    [[nodiscard]] static std::byte* bytes_of_word(std::uint64_t& word) noexcept {
        return reinterpret_cast<std::byte*>(&word);
    }

    /// Whether a piece of an entry's key, padding included, is that of `key` from `at` on. Requires: they are equally
    /// long.
    [[nodiscard]] static bool is_piece_of(std::span<const std::byte> key, std::span<const std::byte> piece,
                                          std::uint64_t at) noexcept {
        const std::span<const std::byte> rest = key.subspan(static_cast<std::size_t>(at));
        return equal_words(piece.data(), rest.data(), std::min(piece.size(), rest.size()));
    }

    /// What a miss in the table means.
    [[nodiscard, gnu::always_inline]] outcome miss() const noexcept {
        const auto fault = finder_.fault();
        if (!fault) [[likely]]
            return outcome::not_found;
        // A table that is damaged cannot say that a key is not there.
        return finder_.clear_contended() ? outcome::contended : outcome::corrupt;
    }

    /// An entry that stood. Kept in registers on the way to the answer, which is made in one go where the caller wants
    /// it: one that is copied there waits until its parts have left for the cache.
    struct entry_seen {
        std::uint64_t handle;
        map_entry_head head;
        std::uint64_t value_bytes;
        std::uint64_t left;  // seconds; 0: it does not expire
    };
    [[nodiscard, gnu::always_inline]] static hash_map_found answer(const entry_seen& seen) noexcept {
        return {outcome::ok, seen.value_bytes, seen.handle, span_of<std::chrono::seconds>(seen.left), seen.head.flags};
    }
    /// Whether an entry's time is not over, and how much of it is left.
    [[nodiscard, gnu::always_inline]] bool is_in_time(const map_entry_head& head, std::uint64_t& left) const noexcept {
        left = 0;
        if (head.expires == 0) [[likely]]
            return true;
        const map_moment now = time_.now(view_);
        if (is_over(head.expires, now.seconds)) return false;
        left = now.left_until(head.expires);
        return true;
    }

    /// The rest of a find that copies: of an entry that is not where nearly all are, or is too large.
    [[nodiscard, gnu::noinline]] hash_map_found find_again(std::span<const std::byte> key, std::span<std::byte> out,
                                                           outcome told) const noexcept {
        hash_map_found got;
        if (told == outcome::too_small) {
            const auto nothing = [](std::span<const std::byte>, std::uint64_t, std::uint64_t) noexcept {};
            entry_seen seen;
            if (find_at_home(key, nothing, value_bytes_max, seen) == outcome::ok) got = answer(seen);
        }
        // It may have become another meanwhile, which fits.
        if (!got || got.count <= out.size()) {
            const auto copy = [out](std::span<const std::byte> piece, std::uint64_t from,
                                    std::uint64_t bytes) noexcept {
                if (bytes <= out.size()) copy_from_shared(out.data() + from, piece.data(), piece.size());
            };
            got = find_everywhere(key, copy);
        }
        if (got && got.count > out.size()) got.status = outcome::too_small;
        return got;
    }

    /// Finds what nearly always is: the first tag in the home bucket is the key's, or there is none, and the entry is
    /// one run. Returns: ok, not_found or what else a miss means; stale: find_everywhere() tells; too_small: it may
    /// have more than `room` bytes.
    template <class Look>
    [[nodiscard, gnu::always_inline]] outcome find_at_home(std::span<const std::byte> key, Look& look,
                                                           std::uint64_t room, entry_seen& seen) const {
        const hash_parts h = view_.hash(key);
        view_.table.prefetch_preferred(h);
        seen.handle = finder_.guess(h);
        const std::uint64_t head = view_.store.place_of(seen.handle);
        if (head < view_.store.units()) [[likely]]
            return read_one_run(head, key, look, room, seen);
        return seen.handle == 0 ? miss() : outcome::stale;
    }

    /// Finds the key wherever it is.
    template <class Look>
    [[nodiscard, gnu::noinline]] hash_map_found find_everywhere(std::span<const std::byte> key, Look& look) const {
        const map_digest digest = view_.digest(key);
        std::uint64_t handle = 0, before = 0;
        for (unsigned attempt = 0; attempt < attempts_max; ++attempt, before = handle) {
            handle = handle_under(digest);
            if (handle == 0) return {miss()};
            if (handle == before) return {broken()};
            const hash_map_found got = read(handle, key, look);
            if (got.status == outcome::not_found) {
                // Its time is over, unless the key had got another entry before the clock was read.
                const std::uint64_t next = handle_under(digest);
                if (next == handle) return got;
                if (next == 0) return {miss()};
                continue;
            }
            if (got.status != outcome::stale) return got;
            // Acquire, pairs with the store's W2 (block_store/write.hpp): the table's next answer is newer than the end
            // of this handle.
            (void)blocks_.contains(handle);
        }
        return {outcome::contended};
    }

    /// The value under a handle if the key is `key` and its time is not over. Returns: also stale.
    template <class Look>
    [[nodiscard]] hash_map_found read(std::uint64_t handle, std::span<const std::byte> key, Look& look) const {
        if (!view_.store.is_handle(handle)) return {broken()};
        entry_seen seen{handle, {}, 0, 0};
        const outcome told = read_one_run(view_.store.index_of(handle), key, look, value_bytes_max, seen);
        return told == outcome::ok ? answer(seen) : read_runs(handle, key, look);
    }

    /// The usual case, an entry of one run under seen.handle, in few instructions. Returns: ok; stale: read_runs()
    /// tells why not; too_small: its value seems to have more than `room` bytes, and none was shown. Requires: head is
    /// the handle's unit, below units(); room <= value_bytes_max.
    ///
    /// One look at the handle's word, at the end, is enough: the table led to the handle, so it stood; what stands no
    /// more never comes back. If it stands at the end it stood all the while.
    template <class Look>
    [[nodiscard, gnu::always_inline]] outcome read_one_run(std::uint64_t head, std::span<const std::byte> key,
                                                           Look& look, std::uint64_t room, entry_seen& seen) const {
        const auto& store = view_.store;
        const std::byte* const unit = store.unit(head);
        // What lies behind the first line is then on its way with it.
        if (view_.table.prefetches) {
            prefetch(unit + 64);
            prefetch(unit + 128);
        }
        const auto bytes = shared_load<std::uint64_t>(unit);
        const auto run = shared_load<std::uint64_t>(unit + layout::block_head_run_offset);
        // The head lies in the first unit, whatever size and run say.
        const std::byte* const entry = unit + layout::block_head_bytes;
        seen.head = map_entry_head::load(entry);
        const std::uint64_t value_at = layout::map_value_offset(key.size());
        seen.value_bytes = bytes - value_at;  // of an entry too short for its key more than any room
        if (seen.value_bytes > room) [[unlikely]]
            return seen.value_bytes > value_bytes_max ? outcome::stale : outcome::too_small;
        if (!store.is_one_short_run(head, bytes, run) || seen.head.key_bytes != key.size() ||
            !is_key(entry + layout::map_entry_head_bytes, key)) [[unlikely]]
            return outcome::stale;
        if (!is_in_time(seen.head, seen.left)) return outcome::stale;
        look(std::span(entry + value_at, static_cast<std::size_t>(seen.value_bytes)), std::uint64_t{0},
             seen.value_bytes);
        return store.still(store.word_at(head), seen.handle) ? outcome::ok : outcome::stale;
    }

    /// Whether `key` lies at the words at `stored`. Requires: so many do.
    [[nodiscard, gnu::always_inline]] static bool is_key(const std::byte* stored,
                                                         std::span<const std::byte> key) noexcept {
        const std::size_t whole = key.size() / 8 * 8, rest = key.size() % 8;
        if (!equal_words(stored, key.data(), whole)) return false;
        if (rest == 0) return true;
        // The last 8 bytes, without those that were compared; of a short key, its bytes.
        const std::uint64_t last = whole == 0 ? word_of_bytes(key.data(), rest)
                                              : word_of_bytes(key.data() + key.size() - 8, 8) >> (64 - 8 * rest);
        return (load_acquire<std::uint64_t>(stored + whole) ^ last) << (64 - 8 * rest) == 0;
    }

    /// The same for any entry.
    template <class Look>
    [[nodiscard, gnu::noinline]] hash_map_found read_runs(std::uint64_t handle, std::span<const std::byte> key,
                                                          Look& look) const {
        map_entry_head head;
        std::uint64_t bytes = 0, left = 0;
        bool there = false;
        const outcome got = walk(
            handle,
            [&](const map_entry_head& h, std::uint64_t entry_bytes) {
                head = h, bytes = entry_bytes;
                return there = head.key_bytes == key.size() && is_in_time(head, left);
            },
            [&](std::span<const std::byte> piece, std::uint64_t at) { return there = is_piece_of(key, piece, at); },
            [&](std::span<const std::byte> piece, std::uint64_t from, std::uint64_t all) {
                look(piece, from, all);
                return true;
            });
        if (got != outcome::ok) return {got};
        return there ? answer({handle, head, bytes - head.value_at(), left}) : hash_map_found{};
    }

    /// Copies the entry of a slot, which had this digest and handle. Returns: ok, not_found when it went, contended,
    /// corrupt.
    outcome copy_slot(std::uint64_t slot, const map_digest& digest, std::uint64_t handle, hash_map_entry& out) const {
        for (unsigned attempt = 0; attempt < copies_max; ++attempt) {
            const outcome got = copy_entry(handle, out);
            if (got != outcome::stale && got != outcome::not_found) return got;
            (void)blocks_.contains(handle);  // as in find(), and as there for one whose time is over
            map_digest now;
            std::uint64_t next = 0;
            if (!finder_.read_slot(slot, reinterpret_cast<std::byte*>(&now), bytes_of_word(next)) || !(now == digest))
                return outcome::not_found;
            if (next == handle) return got == outcome::stale ? broken() : got;
            handle = next;
        }
        return outcome::contended;
    }

    outcome copy_entry(std::uint64_t handle, hash_map_entry& out) const {
        map_entry_head head;
        std::uint64_t bytes = 0, left = 0;
        // The size first: nothing is allocated by a number of an entry that is gone.
        if (const outcome got = head_of(handle, head, bytes); got != outcome::ok) return got;
        if (!is_in_time(head, left)) return outcome::not_found;
        out.key.resize(static_cast<std::size_t>(head.key_bytes));
        out.value.resize(static_cast<std::size_t>(bytes - head.value_at()));
        const auto copy = [](std::vector<std::byte>& to, std::span<const std::byte> piece, std::uint64_t at) {
            if (at >= to.size()) return true;
            const std::size_t room = to.size() - static_cast<std::size_t>(at);
            copy_from_shared(to.data() + at, piece.data(), std::min(piece.size(), room));
            return true;
        };
        const outcome got = walk(
            handle, [](const map_entry_head&, std::uint64_t) { return true; },
            [&](std::span<const std::byte> piece, std::uint64_t at) { return copy(out.key, piece, at); },
            [&](std::span<const std::byte> piece, std::uint64_t at, std::uint64_t) {
                return copy(out.value, piece, at);
            });
        out.handle = handle;
        out.flags = head.flags;
        out.ttl = span_of<std::chrono::seconds>(left);
        return got;
    }

    view view_;
    finder finder_;
    block_reader_core blocks_;
    map_time time_;
    mutable fault_latch fault_;
};

}  // namespace holdfast::detail
