// SPDX-License-Identifier: Apache-2.0
// hash_table_many_image.hpp - one of many writers of a hash table over plain bytes, without a segment: what rigs step,
// interleave and kill. Who lives is said by the test, not by the kernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "holdfast/hash_table/many_mutate.hpp"
#include "support/hash_table_image.hpp"
#include "support/hash_table_model.hpp"
#include "support/linearizability.hpp"
#include "support/table_answer.hpp"
#include "support/writer_roll.hpp"

namespace holdfast::test {

template <class K, class V>
[[nodiscard]] constexpr layout::hash_table_geometry many_geometry_for(std::uint64_t capacity, std::uint64_t writers,
                                                                      std::uint64_t seed = 1) {
    return layout::plan_hash_table({.capacity = capacity,
                                    .key_bytes = sizeof(K),
                                    .value_bytes = sizeof(V),
                                    .value_alignment = alignof(V),
                                    .seed = seed,
                                    .writer_slots = writers});
}

/// Writer number `process` of the table in `body`, which it has attached to.
template <class Shape>
class many_writer {
 public:
    using K = typename Shape::key;
    using V = typename Shape::value;
    using node = holdfast::detail::fixed_node<K, V>;
    using mutator = holdfast::detail::hash_table_many_mutator<node, rolled_locks>;
    using finder = holdfast::detail::hash_table_finder<node>;
    using view = holdfast::detail::table_view<std::byte, node>;

    many_writer() = default;
    /// Attaches: recovers what any dead writer left. `idle`: it was attached all the time, and looks at nothing now.
    many_writer(std::span<std::byte> body, const layout::hash_table_geometry& g, writer_roll& roll, unsigned process,
                bool idle = false)
        : view_(body, g, {}) {
        const rolled_locks locks(roll, process);
        if (!idle) recovery_ = holdfast::detail::recover_as(view_, process, locks);
        writer_ = mutator(view_, process, locks);
    }
    table_answer try_insert(const K& key, const V& value) { return writer_.try_insert(as_bytes(key), as_bytes(value)); }
    table_answer insert_or_assign(const K& key, const V& value) {
        return writer_.insert_or_assign(as_bytes(key), as_bytes(value));
    }
    table_answer update(const K& key, const V& value) { return writer_.update(as_bytes(key), as_bytes(value)); }
    table_answer erase(const K& key) { return writer_.erase(as_bytes(key)); }
    /// Stores `value` and answers what was there before.
    table_answer swap(const K& key, const V& value, V& before) {
        V room{};
        std::byte* bytes = reinterpret_cast<std::byte*>(&room);
        return writer_.decide(as_bytes(key), bytes, false, [&](bool) {
            before = room;
            room = value;
            return holdfast::detail::table_change::store;
        });
    }
    /// Takes the entry out if it has that value.
    table_answer take(const K& key, const V& expected) {
        V room{};
        return writer_.decide(as_bytes(key), reinterpret_cast<std::byte*>(&room), false, [&](bool) {
            return room == expected ? holdfast::detail::table_change::erase : holdfast::detail::table_change::none;
        });
    }
    [[nodiscard]] const finder& reader() const { return writer_.finder(); }
    [[nodiscard]] const view& bytes() const { return view_; }
    [[nodiscard]] const hash_table_recovery& recovery() const { return recovery_; }
    [[nodiscard]] mutator& core() { return writer_; }
    [[nodiscard]] std::string damage() const { return shaped_table<Shape>::damage_of(view_.as_const()); }

    template <class T>
    [[nodiscard]] static const std::byte* as_bytes(const T& value) {
        return reinterpret_cast<const std::byte*>(&value);
    }

 private:
    view view_;
    hash_table_recovery recovery_;
    mutator writer_;
};

/// Writer number `process` of a table that grows, and of its next generation, over plain bytes that hold both.
template <class Shape>
class growing_many_writer {
 public:
    static constexpr std::uint64_t tag = 77;
    using growth = holdfast::detail::stripe_growth;

    /// Where the bodies lie in so many bytes.
    struct room {
        layout::hash_table_geometry old, next;
        [[nodiscard]] std::size_t next_at() const { return layout::round_up(old.body_bytes(), 4096); }
        [[nodiscard]] std::size_t bytes() const { return next_at() + next.body_bytes(); }
    };

    /// `idle`: as many_writer's.
    growing_many_writer(std::span<std::byte> bytes, const room& where, writer_roll& roll, unsigned process,
                        bool idle = false)
        : old_(bytes.first(where.old.body_bytes()), where.old, roll, process, true) {
        const auto next = bytes.subspan(where.next_at(), where.next.body_bytes());
        if (!idle) {
            const typename many_writer<Shape>::view view(next, where.next, {});
            (void)holdfast::detail::recover_writer(view, process);
        }
        next_ = many_writer<Shape>(next, where.next, roll, process, true);
        old_.core().mirror_to(tag, &next_.core());
        if (idle) return;
        settled_ = old_.core().settle_all(recovery_);
        old_ = many_writer<Shape>(bytes.first(where.old.body_bytes()), where.old, roll, process, true);
        old_.core().mirror_to(tag, &next_.core());
    }
    growing_many_writer(const growing_many_writer&) = delete;
    growing_many_writer& operator=(const growing_many_writer&) = delete;

    [[nodiscard]] many_writer<Shape>& old() { return old_; }
    [[nodiscard]] many_writer<Shape>& next() { return next_; }
    [[nodiscard]] bool settled() const { return settled_; }
    [[nodiscard]] const hash_table_recovery& recovery() const { return recovery_; }

    [[nodiscard]] std::uint64_t home_of(std::uint64_t n) const {
        const auto key = nth_key<Shape>(n);
        const auto& v = old_.bytes();
        return v.stripe_of(v.hash(reinterpret_cast<const std::byte*>(&key)).home(v.buckets));
    }
    outcome turn(std::uint64_t stripe, growth::phase to) { return old_.core().turn(stripe, growth::of(tag, to)); }
    outcome carry(std::uint64_t n) {
        const auto key = nth_key<Shape>(n);
        return old_.core().carry(reinterpret_cast<const std::byte*>(&key));
    }
    /// What a leader does from the beginning to the commit. Returns: what went wrong.
    std::string lead() {
        const auto& v = old_.bytes();
        for (std::uint64_t s = 0; s <= v.stripe_mask; ++s)
            if (turn(s, growth::mirrors) != outcome::ok) return "a stripe could not be opened";
        for (std::uint64_t r = 0; r < v.regions(); ++r)
            if (old_.core().check_region(r) != outcome::ok) return "a region's checksum is wrong";
        for (std::uint64_t slot = 0; slot < v.slots(); ++slot) {
            typename Shape::key key;
            typename Shape::value value;
            auto* const at = reinterpret_cast<std::byte*>(&key);
            if (old_.reader().read_entry(slot, at, reinterpret_cast<std::byte*>(&value)) &&
                old_.core().carry(at) != outcome::ok)
                return "an entry could not be carried";
        }
        if (old_.core().mirror_failure()) return "an entry could not be stored in the next generation";
        for (std::uint64_t s = 0; s <= v.stripe_mask; ++s)
            if (turn(s, growth::closed) != outcome::ok) return "a stripe could not be closed";
        return differences();
    }
    /// How the generations differ, or what is wrong with either.
    std::string differences() {
        if (std::string why = old_.damage(); !why.empty()) return "the old generation: " + why;
        if (std::string why = next_.damage(); !why.empty()) return "the next generation: " + why;
        std::uint64_t entries = 0;
        for (std::uint64_t slot = 0; slot < old_.bytes().slots(); ++slot) {
            typename Shape::key key;
            typename Shape::value value, there;
            const auto* const at = reinterpret_cast<const std::byte*>(&key);
            if (!old_.reader().read_entry(slot, reinterpret_cast<std::byte*>(&key),
                                          reinterpret_cast<std::byte*>(&value)))
                continue;
            ++entries;
            if (next_.reader().find(at, reinterpret_cast<std::byte*>(&there)) == holdfast::detail::no_slot)
                return "an entry is missing in the next generation";
            if (std::memcmp(&value, &there, sizeof value) != 0)
                return "an entry has another value in the next generation";
        }
        if (old_.reader().size() != entries || next_.reader().size() != entries)
            return "the old generation counts " + std::to_string(old_.reader().size()) + ", the next one " +
                   std::to_string(next_.reader().size()) + ", and there are " + std::to_string(entries);
        return {};
    }

 private:
    many_writer<Shape> old_, next_;
    hash_table_recovery recovery_;
    bool settled_ = true;
};

/// Tables of 37 buckets in three stripes for rigs. Buckets 4 and 20, of two stripes, are full of other keys, so that
/// what is at home there lies in a bucket of another stripe: operations on `far` keys take two stripes, those of far[0]
/// and far[1] in opposite order.
template <class Shape>
struct many_stage {
    std::uint64_t near = 0;                   // at home where there is room
    std::array<std::uint64_t, 2> far{};       // see above
    std::uint64_t beside_far = 0;             // at home where far[0] lies
    std::array<std::uint64_t, 52> fillers{};  // the keys that are there

    [[nodiscard]] static layout::hash_table_geometry geometry() {
        return many_geometry_for<typename Shape::key, typename Shape::value>(930, writer_roll::processes, 3);
    }
    [[nodiscard]] static std::uint64_t entries() { return 52; }

    /// Fills the buckets and chooses the keys.
    explicit many_stage(many_writer<Shape>& by) {
        const auto& v = by.bytes();
        std::size_t filled = 0, at_4 = 0, at_20 = 0;
        bool has_near = false, has_0 = false, has_1 = false, has_beside = false;
        std::uint64_t region_of_0 = 0;
        for (std::uint64_t n = 0; filled < 52 || !has_near || !has_0 || !has_1 || !has_beside; ++n) {
            const auto key = nth_key<Shape>(n);
            const auto h = v.hash(reinterpret_cast<const std::byte*>(&key));
            const std::uint64_t home = h.home(v.buckets);
            holdfast::detail::probe_pairs pair(home, h, v.buckets);
            pair.next();
            const std::uint64_t target = v.stripe_of(pair.first());
            if (home == 4 && at_4 == 26 && !has_0 && target == v.stripe_of(20)) {
                has_0 = true, far[0] = n, region_of_0 = pair.first();
            } else if (home == 20 && at_20 == 26 && !has_1 && target == v.stripe_of(4)) {
                has_1 = true, far[1] = n;
            } else if ((home == 4 && at_4 < 26) || (home == 20 && at_20 < 26)) {
                (void)by.try_insert(key, stamped_value<Shape>(n, 1));
                fillers[filled++] = n;
                ++(home == 4 ? at_4 : at_20);
            } else if (home == 7 && !has_near) {
                has_near = true, near = n;
            } else if (has_0 && home == region_of_0 && home != 20 && !has_beside) {
                has_beside = true, beside_far = n;
            }
        }
    }
};

/// The table as a reader finds it: the stamp of a key, 0 for none, nothing for a torn value.
template <class Shape, class Finder>
[[nodiscard]] std::optional<std::uint64_t> stamp_in(const Finder& in, std::uint64_t n) {
    typename Shape::value value{};
    const auto key = nth_key<Shape>(n);
    if (in.find(reinterpret_cast<const std::byte*>(&key), reinterpret_cast<std::byte*>(&value)) ==
        holdfast::detail::no_slot)
        return 0;
    return stamp_of<Shape>(n, value);
}

/// How many slots hold the key: two are a duplicate.
template <class View, class Key>
[[nodiscard]] unsigned copies_of(const View& view, const Key& key) {
    unsigned copies = 0;
    for (std::uint64_t slot = 0; slot < view.slots(); ++slot) {
        const std::uint64_t bucket = slot / layout::tags_per_line;
        const auto place = static_cast<unsigned>(slot % layout::tags_per_line);
        if (holdfast::detail::is_key_tag(holdfast::detail::tag_at(view.line(bucket), place)) &&
            holdfast::detail::equal_words(view.node_at(bucket, place), reinterpret_cast<const std::byte*>(&key),
                                          sizeof key))
            ++copies;
    }
    return copies;
}

/// One key of a table, for linearizability.hpp: kind is a table_operation or `look`, the answer a status or a stamp.
struct table_key_model {
    static constexpr std::uint32_t look = 9, swap = 10, take = 11;
    using state = std::uint64_t;  // stamp; 0: no entry

    static bool apply(state& s, const operation& op) {
        const auto answers = [&](table_answer status) { return op.killed || op.answer == status.number(); };
        const bool there = s != 0;
        switch (op.kind) {
            case static_cast<std::uint32_t>(table_operation::try_insert):
                if (!there) s = op.given;
                return answers(there ? table_answer::exists : table_answer::inserted);
            case static_cast<std::uint32_t>(table_operation::insert_or_assign):
                s = op.given;
                return answers(there ? table_answer::updated : table_answer::inserted);
            case static_cast<std::uint32_t>(table_operation::update):
                if (there) s = op.given;
                return answers(there ? table_answer::updated : table_answer::not_found);
            case static_cast<std::uint32_t>(table_operation::erase):
                s = 0;
                return answers(there ? table_answer::erased : table_answer::not_found);
            case swap: {  // answers the stamp before
                const bool right = op.killed || op.answer == s;
                if (there) s = op.given;
                return right;
            }
            case take: {  // if it has the stamp `expected`
                const bool wanted = there && s == op.expected;
                if (wanted) s = 0;
                return answers(wanted ? table_answer::erased : there ? table_answer::stale : table_answer::not_found);
            }
            default: return op.killed || op.answer == s;
        }
    }
};

}  // namespace holdfast::test
