// SPDX-License-Identifier: Apache-2.0
// table_subject.hpp - random histories of a hash table under store_rig.hpp: inserts, assignments, updates, erases and
// takeovers on tables of 78 and 130 slots, from empty to full, with keys that collide and keys that do not.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/store_rig.hpp"
#include "support/hash_table_model.hpp"
#include "support/table_answer.hpp"

namespace holdfast::test {

/// Shapes of entries, as in hash_table_model.hpp, with fewer words.
struct short_wide_shape {
    using key = std::uint64_t;
    using value = std::array<std::uint64_t, 3>;
};
struct short_crooked_shape {
    using key = std::array<std::uint32_t, 3>;
    using value = std::array<std::uint32_t, 5>;
};

template <class Shape>
class table_subject {
 public:
    static constexpr unsigned length = 400;

    explicit table_subject(std::uint64_t seed)
        : random_(seed),
          geometry_(geometry_for<typename Shape::key, typename Shape::value>(random_.one_in(4) ? 100 : 70, seed)),
          bytes_(geometry_.body_bytes()),
          table_(bytes_.bytes(), geometry_) {
        // Few keys for many changes of the same ones; one home and more keys than a bucket has slots, for those that
        // overflow; now and then more than there is room for.
        const bool overflow = random_.one_in(4), full = random_.one_in(24), crowd = overflow || random_.one_in(2);
        const std::uint64_t few[] = {4, 8, 12, 16};
        const std::uint64_t size = full ? geometry_.slots() + 2 : overflow ? 34 : few[random_.below(4)];
        for (std::uint64_t n = 0; keys_.size() < size; ++n)
            if (!crowd || home(n) == 0) keys_.push_back(n);
        model_.assign(keys_.size(), 0);
        for (std::size_t i = 0; (full && i < geometry_.slots() - 2) || (overflow && i < 32); ++i)
            if (table_.try_insert(nth_key<Shape>(keys_[i]), stamped_value<Shape>(keys_[i], 1)) ==
                table_answer::inserted)
                model_[i] = 1, ++live_;
    }

    [[nodiscard]] std::span<std::byte> image() noexcept { return bytes_.bytes(); }

    std::string next(store_rig& rig) {
        under_way_ = random_.below(keys_.size());
        const std::uint64_t n = keys_[under_way_];
        before_ = model_[under_way_];
        after_ = before_;
        if (random_.one_in(32)) {
            rig.operate([&] { table_ = table(bytes_.bytes(), geometry_); }, [&] { return survive(rig, either, true); });
            return {};
        }
        const auto what = static_cast<table_operation>(random_.below(4));
        const std::uint64_t stamp = ++stamp_;
        if (what == table_operation::erase)
            after_ = 0;
        else if (what == table_operation::insert_or_assign || (what == table_operation::try_insert) == (before_ == 0))
            after_ = stamp;
        reached_ = false;
        table_answer status;
        rig.operate([&] { status = apply<Shape>(table_, what, n, stamp); },
                    [&] { return survive(rig, reached_ ? after_only : either, true); });
        if (status == table_answer::full) {
            if (live_ + 2 < geometry_.slots()) return "an insert was refused with room left";
            if (reached_) return "a refused insert was seen";
            after_ = before_;
        }
        live_ = live_ + (after_ != 0 ? 1U : 0U) - (before_ != 0 ? 1U : 0U);
        model_[under_way_] = after_;
        return {};
    }

 private:
    using table = shaped_table<Shape>;
    enum allowed : unsigned { neither = 0, before_only = 1, after_only = 2, either = 3 };

    [[nodiscard]] std::uint64_t home(std::uint64_t n) const {
        const auto key = nth_key<Shape>(n);
        return table_.view().hash(reinterpret_cast<const std::byte*>(&key)).home(geometry_.buckets);
    }

    // Which of the two states a reader finds; neither, and why.
    template <class Finder>
    unsigned state_of(const Finder& in, std::string& why) const {
        unsigned found = either;
        for (std::size_t i = 0; i < keys_.size(); ++i) {
            typename Shape::value value{};
            const auto key = nth_key<Shape>(keys_[i]);
            const bool there = in.find(reinterpret_cast<const std::byte*>(&key),
                                       reinterpret_cast<std::byte*>(&value)) != holdfast::detail::no_slot;
            const std::optional<std::uint64_t> stamp =
                there ? stamp_of<Shape>(keys_[i], value) : std::optional<std::uint64_t>(0);
            const bool is_open = i == under_way_;
            const unsigned is = !stamp    ? 0U
                                : is_open ? (*stamp == before_ ? 1U : 0U) | (*stamp == after_ ? 2U : 0U)
                                          : (*stamp == model_[i] ? 3U : 0U);
            found &= is;
            if (found == neither) {
                why = "key " + std::to_string(keys_[i]) + (stamp ? " has stamp " + std::to_string(*stamp) : " is torn");
                return neither;
            }
        }
        if (in.fault()) {
            why = "the reader latched a fault";
            return neither;
        }
        return found;
    }

    // `allow`: the states it may be in. `living`: the operation is under way, not a recovery that died.
    std::string survive(store_rig& rig, unsigned allow, bool living) {
        const holdfast::detail::table_view<const std::byte, typename table::node> view(bytes_.bytes(), geometry_, {});
        std::string why;
        const unsigned seen = state_of(typename table::finder(view), why);
        if (seen == neither) return "a reader: " + why;
        if ((seen & allow) == 0) return "a reader saw the state before again";
        if (living && seen == after_only) reached_ = true;
        if (why = table::damage_of(view); !why.empty()) return "verify: " + why;

        const unsigned from_here = seen == after_only ? after_only : allow;
        std::optional<table> next;
        rig.recover([&] { next.emplace(bytes_.bytes(), geometry_); }, [&] { return survive(rig, from_here, false); });
        if (next->recovery().journal_rejected) return "recovery rejected the journal";
        const unsigned now = state_of(next->reader(), why);
        if (now == neither) return "recovered: " + why;
        if ((now & from_here) == 0) return "recovery took back what a reader saw";
        if (why = next->damage(); !why.empty()) return "recovered, verify: " + why;
        const std::uint64_t other = live_ - (before_ != 0 ? 1U : 0U);
        const bool there = (now & before_only) != 0 ? before_ != 0 : after_ != 0;
        if (next->writer().size() != other + (there ? 1U : 0U)) return "recovered: the size is wrong";
        if (rig.changes_by([&] { next.emplace(bytes_.bytes(), geometry_); }) != 0) return "recovery is not idempotent";
        rig.go_on([&] { why = go_on(*next, there, other); });
        return why.empty() ? why : "going on: " + why;
    }

    // Writes the key under way anew, erases it, and inserts another.
    std::string go_on(table& next, bool there, std::uint64_t other) const {
        const std::uint64_t n = keys_[under_way_];
        typename Shape::value value{};
        if (there || other < geometry_.slots() - 2) {
            (void)next.insert_or_assign(nth_key<Shape>(n), stamped_value<Shape>(n, 77));
            if (!next.find(nth_key<Shape>(n), value) || stamp_of<Shape>(n, value) != 77)
                return "the assigned is not there";
            if (next.erase(nth_key<Shape>(n)) != table_answer::erased) return "the erase failed";
        }
        const std::uint64_t fresh = keys_.back() + 1000;
        if (next.try_insert(nth_key<Shape>(fresh), stamped_value<Shape>(fresh, 78)) != table_answer::inserted &&
            other < geometry_.slots() - 2)
            return "the insert failed";
        return next.damage();
    }

    draws random_;
    layout::hash_table_geometry geometry_;
    aligned_bytes bytes_;
    table table_;
    std::vector<std::uint64_t> keys_;   // numbers of the keys in play
    std::vector<std::uint64_t> model_;  // their stamps; 0: not there
    std::uint64_t live_ = 0, stamp_ = 1;
    std::size_t under_way_ = 0;
    std::uint64_t before_ = 0, after_ = 0;  // stamps of the key under way
    bool reached_ = false;                  // a reader saw the state after
};

}  // namespace holdfast::test
