// SPDX-License-Identifier: Apache-2.0
// outcome.hpp - one vocabulary of answers for the hot paths of rings and stores: why there is nothing, why nothing was
// taken, what was lost.
//
// An answer is a word and a number, returned by value, never thrown. Answers that mean different things to a caller are
// never the same word: "empty" is not "writer_gone", "full" is not "too_large", "lapped" is not "corrupt".
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast {

/// What came of an operation. Values are appended, never renumbered.
enum class outcome : std::uint8_t {
    ok = 0,
    empty,         ///< nothing to read now
    full,          ///< no room now; a reader may make some
    too_small,     ///< the caller's buffer cannot hold the message; count: bytes it needs. Nothing was taken
    too_large,     ///< it never fits into this container; count, of queues and broadcasts: the largest that does.
                   ///< Nothing was changed
    lapped,        ///< the writer overran this reader; count: messages lost. The reader goes on behind them
    timed_out,     ///< the deadline passed
    writer_gone,   ///< nothing to read, and no living process holds the right to write
    reader_gone,   ///< no room, and no living process reads
    not_claimed,   ///< commit without a claim, or of more than was claimed
    read_only,     ///< the handle may not do this: inherited by fork, or moved from
    corrupt,       ///< bytes break an invariant; the handle's fault() says so from now on
    stale,         ///< what the caller goes by is so no more: a handle was freed or replaced, or never given out; a
                   ///< value is another than was expected. Nothing was changed
    contended,     ///< the writer was at work each time the reader looked: no damage; try again
    no_memory,     ///< this process lacks memory for the bookkeeping of the operation. Nothing was changed
    out_of_range,  ///< no such element. Nothing was changed
    not_found,     ///< no such key. Nothing was changed
    exists,        ///< the key is there already. Nothing was changed
    collision,     ///< another key has this key's place, one chance in 10^21. Nothing was changed
};

/// The name of an outcome, for messages and logs; empty for a number that is none.
[[nodiscard]] constexpr std::string_view outcome_name(outcome what) noexcept {
    switch (what) {
        case outcome::ok: return "ok";
        case outcome::empty: return "empty";
        case outcome::full: return "full";
        case outcome::too_small: return "too small";
        case outcome::too_large: return "too large";
        case outcome::lapped: return "lapped";
        case outcome::timed_out: return "timed out";
        case outcome::writer_gone: return "writer gone";
        case outcome::reader_gone: return "reader gone";
        case outcome::not_claimed: return "not claimed";
        case outcome::read_only: return "read-only";
        case outcome::corrupt: return "corrupt";
        case outcome::stale: return "stale";
        case outcome::contended: return "contended";
        case outcome::no_memory: return "no memory";
        case outcome::out_of_range: return "out of range";
        case outcome::not_found: return "not found";
        case outcome::exists: return "exists";
        case outcome::collision: return "collision";
    }
    return {};
}

/// What became of an entry of a table or a map; part of the layout of hash maps, and of the messages of their feeds.
enum class entry_change : std::uint8_t {
    none = 0,
    inserted = 1,  ///< a key that was not there
    updated = 2,   ///< a key has another value
    erased = 3,    ///< taken out by the user
    expired = 4,   ///< taken out because its time was over
    evicted = 5,   ///< taken out to make room
};
inline constexpr std::uint64_t entry_change_max = 5;

/// The name of a change, for messages and logs; empty for a number that is none.
[[nodiscard]] constexpr std::string_view change_name(entry_change what) noexcept {
    switch (what) {
        case entry_change::none: return "none";
        case entry_change::inserted: return "inserted";
        case entry_change::updated: return "updated";
        case entry_change::erased: return "erased";
        case entry_change::expired: return "expired";
        case entry_change::evicted: return "evicted";
    }
    return {};
}

/// An outcome with its number. True in a condition when it is ok.
struct result {
    outcome status = outcome::ok;
    /// ok: bytes or messages moved, as the operation says; too_small: bytes needed; too_large: bytes possible; lapped:
    /// messages lost; else 0.
    std::uint64_t count = 0;

    [[nodiscard]] constexpr explicit operator bool() const noexcept { return status == outcome::ok; }
    [[nodiscard]] friend constexpr bool operator==(const result&, const result&) noexcept = default;
};

}  // namespace holdfast
