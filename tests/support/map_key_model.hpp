// SPDX-License-Identifier: Apache-2.0
// map_key_model.hpp - one key of a hash map as linearizability.hpp checks it, with every operation there is; and the
// values whose bytes say which they are.
//
// A content is a stamp and a count of additions: stamp * 2^20 + count. It is the first word of the value, so that
// fetch_add(key, 0, 1) gives the next content; the other words, and how many there are, follow from the stamp. The two
// low bits of a stamp are the seconds that the entry lives, 0: for ever.
//
// What is checked: each answer is that of the newest store of the key that happened. A condition holds at the very
// instant of the store; an addition is made once and loses none; a killed operation happened once, before its successor
// went on, or never. And no two stores have one handle.
// Of an entry with a time to live: the seconds of the map's clock are operations, too (`tick`). It goes not before the
// seconds that it lives have passed since its store was called; it is not found once they have passed since its store
// happened, nor after it was not found once. An operation of the writer that was called in time may happen later.
// In a map that evicts an entry may be gone at any time, and stays gone until it is stored anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "support/linearizability.hpp"
#include "support/seed.hpp"

namespace holdfast::test {

struct map_content_of {
    static constexpr unsigned count_bits = 20;

    [[nodiscard]] static constexpr std::uint64_t make(std::uint64_t number, std::uint64_t ttl_s = 0) noexcept {
        return (number << 2 | ttl_s) << count_bits;
    }
    [[nodiscard]] static constexpr std::uint64_t stamp(std::uint64_t content) noexcept { return content >> count_bits; }
    [[nodiscard]] static constexpr std::uint64_t ttl_s(std::uint64_t content) noexcept { return stamp(content) & 3; }

    /// The value that has this content.
    [[nodiscard]] static std::vector<std::byte> bytes(std::uint64_t content) {
        std::vector<std::uint64_t> words(1 + (stamp(content) >> 2) % 30);
        for (std::size_t i = 0; i < words.size(); ++i) words[i] = i == 0 ? content : random_at(stamp(content), 1, i);
        const auto* const from = reinterpret_cast<const std::byte*>(words.data());
        return {from, from + 8 * words.size()};
    }
    /// The content that a value has; nothing for a mix.
    [[nodiscard]] static std::optional<std::uint64_t> in(std::span<const std::byte> value) {
        std::uint64_t content = 0;
        if (value.size() < sizeof content) return std::nullopt;
        std::memcpy(&content, value.data(), sizeof content);
        const std::vector<std::byte> whole = bytes(content);
        if (whole.size() != value.size() || std::memcmp(whole.data(), value.data(), value.size()) != 0)
            return std::nullopt;
        return content;
    }
};

/// `given`: the content, of touch the seconds. `expected`: the handle of a condition, 0 for none. `time`: of the map's
/// clock before the call. `answer`: the handle that the key has now, 0 for none. `found`: the content that find() or
/// fetch_add() met; of an operation with a condition, whether it was done.
struct map_key_model {
    enum kind : std::uint32_t {
        set,
        insert,
        update,
        compare_and_set,
        erase,
        compare_and_erase,
        fetch_add,
        touch,
        find,
        tick,
    };

    struct state {
        std::uint64_t handle = 0;       // 0: the key is not there
        std::uint64_t content = 0;      // what it has
        std::uint64_t may_expire = 0;   // second from which it may be gone; 0: never
        std::uint64_t must_expire = 0;  // second from which it must
        bool over = false;              // it was found to be gone by its time
        std::uint64_t second = 0;       // of the clock
        bool evicting = false;          // the map; constant

        friend bool operator==(const state&, const state&) = default;

        [[nodiscard]] bool lives_at(std::uint64_t time) const noexcept {
            return handle != 0 && (must_expire == 0 || time < must_expire);
        }
        // It is answered that the key is not there.
        bool is_gone() noexcept {
            if (evicting) return go();
            over = handle != 0 && may_expire != 0 && second >= may_expire;
            return handle == 0 || over;
        }
        // This handle is answered. That of what a killed operation stored is known from then on.
        bool has(std::uint64_t answer) noexcept {
            if (over || !lives_at(second)) return false;
            if (handle == unknown) handle = answer;
            return handle == answer;
        }
        // This handle was expected. Who expects one has had it as an answer, so it is none that is still unknown.
        bool is_as(const operation& op) noexcept {
            return op.expected == 0 ? is_gone() : handle == op.expected && lives_at(op.time);
        }
        bool store(const operation& op, std::uint64_t what) noexcept {
            handle = op.killed ? unknown : op.answer;
            content = what;
            over = false;
            return handle != 0;
        }
        bool store_for(const operation& op, std::uint64_t what, std::uint64_t ttl_s) noexcept {
            may_expire = ttl_s == 0 ? 0 : op.time + ttl_s;
            must_expire = ttl_s == 0 ? 0 : second + ttl_s;
            return store(op, what);
        }
        bool store_given(const operation& op) noexcept {
            return store_for(op, op.given, map_content_of::ttl_s(op.given));
        }
        bool go() noexcept {
            handle = content = may_expire = must_expire = 0;
            over = false;
            return true;
        }
    };

    static bool apply(state& s, const operation& op) {
        const bool done = op.killed || op.found != 0;  // of an operation with a condition
        switch (op.kind) {
            case set: return s.store_given(op);
            case insert: return done ? s.is_gone() && s.store_given(op) : s.has(op.answer);
            case update: return done ? s.lives_at(op.time) && s.store_given(op) : s.is_gone();
            case compare_and_set:
                if (done) return s.is_as(op) && s.store_given(op);
                return op.answer != op.expected && (op.answer == 0 ? s.is_gone() : s.has(op.answer));
            case erase: return done ? s.lives_at(op.time) && s.go() : s.is_gone();
            case compare_and_erase:
                if (done) return s.is_as(op) && s.go();
                return op.answer != op.expected && (op.answer == 0 ? s.is_gone() : s.has(op.answer));
            case fetch_add:
                if (!op.killed && op.answer == 0) return s.is_gone();
                return s.lives_at(op.time) && (op.killed || op.found == s.content) && s.store(op, s.content + 1);
            case touch:
                if (!op.killed && op.answer == 0) return s.is_gone();
                return s.lives_at(op.time) && s.store_for(op, s.content, op.given);
            case tick: s.second = op.given; return true;
            default: return op.killed || (op.answer == 0 ? s.is_gone() : s.has(op.answer) && op.found == s.content);
        }
    }

 private:
    static constexpr std::uint64_t unknown = ~std::uint64_t{0};
};

/// A handle that two stores of a history were given; nothing if there is none.
[[nodiscard]] inline std::string handle_given_twice(const history& all) {
    using model = map_key_model;
    std::set<std::uint64_t> given;
    for (const operation& op : all) {
        const bool with_condition =
            op.kind == model::insert || op.kind == model::update || op.kind == model::compare_and_set;
        const bool stored = with_condition
                                ? op.found != 0
                                : op.kind == model::set || op.kind == model::fetch_add || op.kind == model::touch;
        if (stored && !op.killed && op.answer != 0 && !given.insert(op.answer).second)
            return "a handle was given twice: " + op.text();
    }
    return {};
}

}  // namespace holdfast::test
