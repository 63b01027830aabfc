// SPDX-License-Identifier: Apache-2.0
// small_table_subject.hpp - random histories of the writer of a small table, for store_rig.hpp: a death at every store.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "hooks/store_rig.hpp"
#include "support/hash_table_image.hpp"
#include "support/small_table_model.hpp"

namespace holdfast::test {

class small_table_subject {
 public:
    static constexpr unsigned length = 200;

    explicit small_table_subject(std::uint64_t seed)
        : random_(seed),
          geometry_(small_image::plan(capacity)),
          bytes_(geometry_.body_bytes()),
          table_(bytes_.bytes(), geometry_),
          seldom_(table_.reader()),
          always_(table_.reader()) {}

    [[nodiscard]] std::span<std::byte> image() noexcept { return bytes_.bytes(); }

    std::string next(store_rig& rig) {
        after_ = before_;
        const std::uint64_t key = random_.below(keys), number = ++stamp_;
        const unsigned what = random_.one_in(32) ? 9 : static_cast<unsigned>(random_.below(4));
        const auto state = [this](std::uint64_t k) -> std::uint64_t& { return after_[k]; };
        const bool there = before_[key] != 0, full = count_of(before_) == capacity;
        outcome expected = outcome::ok, got = outcome::ok;
        const auto operate = [&](auto&& operation) {
            rig.operate([&] { got = operation(); }, [&] { return survive(rig, either, true); });
        };
        const small_value value = small_value_of(key, number);
        switch (what) {
            case 9: operate([&] { return table_ = small_image(bytes_.bytes(), geometry_), outcome::ok; }); break;
            case 0:
                expected = there ? outcome::exists : full ? outcome::full : outcome::ok;
                if (expected == outcome::ok) state(key) = number;
                operate([&] { return table_.writer().try_insert(key, value); });
                break;
            case 1:
                expected = there || !full ? outcome::ok : outcome::full;
                if (expected == outcome::ok) state(key) = number;
                operate([&] { return table_.writer().insert_or_assign(key, value); });
                break;
            case 2:
                expected = there ? outcome::ok : outcome::not_found;
                if (there) state(key) = number;
                operate([&] { return table_.writer().update(key, value); });
                break;
            default:
                expected = there ? outcome::ok : outcome::not_found;
                state(key) = 0;
                operate([&] { return table_.writer().erase(key); });
        }
        before_ = after_;
        seen_after_ = false;
        if (random_.one_in(4)) (void)small_image::number_of(seldom_, random_.below(keys));
        return got == expected ? "" : "an operation answered " + std::string(outcome_name(got));
    }

 private:
    static constexpr std::uint64_t keys = 6, capacity = 4;
    enum allowed : unsigned { before_only = 1, after_only = 2, either = 3 };
    using numbers = small_numbers<keys>;

    // Which of the states before and after the operation a reader finds.
    std::string state_of(small_image::finder& in, unsigned& state) const {
        numbers found{};
        if (std::string why = look_up_all(in, found); !why.empty()) return why;
        state = (found == before_ ? 1U : 0U) | (found == after_ ? 2U : 0U);
        return state == 0 ? "neither before nor after" : "";
    }

    // `allow`: the states the next writer may find. `living`: the operation is under way, not a recovery that died.
    std::string survive(store_rig& rig, unsigned allow, bool living) {
        unsigned seen = 0;
        small_image::finder fresh = small_image::reader_of(bytes_.bytes(), geometry_);
        std::string why = state_of(fresh, seen);
        if (!why.empty()) return "a new reader: " + why;
        // Copies, but of one that looks at all that comes to be: what a recovery leaves is taken back by the rig.
        small_image::finder seldom = seldom_, always = always_;
        if (why = differs(seldom, seen); !why.empty()) return "a reader of earlier keys: " + why;
        if (why = differs(living ? always_ : always, seen); !why.empty()) return "a reader: " + why;
        if (living && seen_after_ && (seen & after_only) == 0) return "a reader went back";
        if (living) seen_after_ = (seen & before_only) == 0;
        if (why = small_image::damage_of(fresh); !why.empty()) return "verify: " + why;
        const unsigned from_here = seen & allow;
        if (from_here == 0) return "what was seen is taken back";
        std::optional<small_image> next;
        rig.recover([&] { next.emplace(bytes_.bytes(), geometry_); }, [&] { return survive(rig, from_here, false); });
        if (next->array().journal_rejected) return "recovery rejected the journal";
        if (why = state_of(fresh, seen); !why.empty()) return "recovered: " + why;
        if ((seen & from_here) == 0) return "recovered: what was seen is taken back";
        always = always_;
        for (small_image::finder* const each : {&seldom, &always})
            if (why = differs(*each, seen); !why.empty()) return "recovered, a reader: " + why;
        if (why = small_image::damage_of(next->reader()); !why.empty()) return "recovered, verify: " + why;
        if (holdfast::detail::is_changing(next->reader().generation())) return "recovered: the change is still open";
        if (rig.changes_by([&] { next.emplace(bytes_.bytes(), geometry_); }) != 0) return "recovery is not idempotent";
        rig.go_on([&] { why = empty_and_fill<keys>(*next, always_, capacity); });
        return why;
    }
    // Whether a reader that was there finds anything else than a new one.
    std::string differs(small_image::finder& in, unsigned wanted) const {
        unsigned seen = 0;
        const std::string why = state_of(in, seen);
        return !why.empty() || seen == wanted ? why : "readers disagree";
    }

    draws random_;
    layout::array_geometry geometry_;
    aligned_bytes bytes_;
    small_image table_;
    small_image::finder seldom_, always_;  // one looks now and then, the other at every store
    numbers before_{}, after_{};
    bool seen_after_ = false;
    std::uint64_t stamp_ = 0;
};

}  // namespace holdfast::test
