// SPDX-License-Identifier: Apache-2.0
// table_grow_subject.hpp - random histories of a hash table of one writer that grows and shrinks, again and again,
// under store_rig.hpp: operations that do a step of it, and steps alone. The handles as they are, over named segments;
// who takes over finds the generation that has the name. What a growth stored into the other one is nobody's.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hash_table/growing.hpp"
#include "hooks/sleepers.hpp"
#include "hooks/store_rig.hpp"
#include "hooks/table_subject.hpp"
#include "support/unique_name.hpp"

namespace holdfast::test {

template <class Shape>
class table_grow_subject final : futex_listener {
 public:
    static constexpr unsigned length = 400;

    explicit table_grow_subject(std::uint64_t seed) : random_(seed), kernel_(*this), name_("grows") {
        const std::uint64_t first = random_.one_in(2) ? small : large;
        table_.emplace(table::create(name_.uri(), {.capacity = first, .seed = seed}));
        onlooker_.emplace(reader::attach(name_.uri()));
        // Half of the histories have keys of one home bucket, more than it has slots.
        const std::uint64_t size = random_.one_in(2) ? 12 : 34;
        const bool crowd = random_.one_in(2);
        for (std::uint64_t n = 0; keys_.size() < size; ++n)
            if (!crowd || home(n) == 0) keys_.push_back(n);
        model_.assign(keys_.size(), 0);
        fresh_ = keys_.back() + 1000;
        begin_growth();  // the place of the other capacity's mappings is there from now on
        table_->stop_growing();
    }
    table_grow_subject(const table_grow_subject&) = delete;
    table_grow_subject& operator=(const table_grow_subject&) = delete;

    [[nodiscard]] std::span<std::byte> image() noexcept { return one_address::bytes(); }

    std::string next(store_rig& rig) {
        if (!table_->growing() && random_.one_in(8)) begin_growth();
        under_way_ = random_.below(keys_.size());
        before_ = after_ = model_[under_way_];
        reached_ = false;
        if (random_.one_in(6)) {
            rig.operate([&] { (void)table_->advance(); }, [&] { return survive(rig, either, true); });
        } else {
            const auto what = static_cast<table_operation>(random_.below(4));
            const std::uint64_t stamp = ++stamp_;
            if (what == table_operation::erase)
                after_ = 0;
            else if (what == table_operation::insert_or_assign ||
                     (what == table_operation::try_insert) == (before_ == 0))
                after_ = stamp;
            rig.operate([&] { (void)apply<Shape>(*table_, what, keys_[under_way_], stamp); },
                        [&] { return survive(rig, reached_ ? after_only : either, true); });
        }
        model_[under_way_] = after_;
        live_ = live_ + (after_ != 0 ? 1U : 0U) - (before_ != 0 ? 1U : 0U);
        if (table_->growth_failure()) return std::string("a growth was given up: ") + table_->growth_failure()->what();
        return {};
    }

 private:
    using K = typename Shape::key;
    using V = typename Shape::value;
    using table = growing_hash_table<K, V>;
    using reader = growing_hash_table_reader<K, V>;
    using shown = shaped_table<Shape>;
    using finder = typename shown::finder;
    using enum table_expected::state;
    static constexpr std::uint64_t small = 70, large = 150;
    [[nodiscard]] std::uint64_t home(std::uint64_t n) const {
        const auto key = nth_key<Shape>(n);
        return view().hash(reinterpret_cast<const std::byte*>(&key)).home(table_->geometry().buckets);
    }
    void begin_growth() { table_->grow(table_->capacity() == small ? large : small); }

    // The generation that has the name, as it lies there.
    [[nodiscard]] auto view() const { return typename finder::view(table_->segment().bytes(), table_->geometry(), {}); }
    [[nodiscard]] std::span<std::byte> body() noexcept {
        const std::span<const std::byte> bytes = table_->segment().bytes();
        return image().subspan(static_cast<std::size_t>(bytes.data() - image().data()), bytes.size());
    }
    [[nodiscard]] std::uint64_t others() const { return live_ - (before_ != 0 ? 1U : 0U); }

    unsigned state_of(const finder& in, std::string& why) const {
        return table_expected{keys_, model_, under_way_, before_, after_}.state_in<Shape>(in, why);
    }
    // What the reader that follows says of the key under way.
    unsigned followed() {
        const std::uint64_t n = keys_[under_way_];
        const std::optional<V> value = onlooker_->find(nth_key<Shape>(n));
        const std::optional<std::uint64_t> stamp = value ? stamp_of<Shape>(n, *value) : 0U;
        return !stamp || onlooker_->fault() ? 0U : (*stamp == before_ ? 1U : 0U) | (*stamp == after_ ? 2U : 0U);
    }

    // `allow`: the states it may be in. `living`: the operation is under way, not a recovery that died.
    std::string survive(store_rig& rig, unsigned allow, bool living) {
        std::string why;
        if (living && table_->segment().replaced()) return "the name leads elsewhere";
        const unsigned seen = state_of(finder(view()), why);
        if (seen == neither) return "a reader: " + why;
        if ((seen & allow) == 0) return "a reader saw the state before again";
        if (followed() != seen) return "a reader that follows sees another state";
        if (living && seen == after_only) reached_ = true;
        if (why = shown::damage_of(view()); !why.empty()) return "verify: " + why;

        const unsigned from_here = seen == after_only ? after_only : allow;
        std::optional<shown> taken;
        const auto take_over = [&] { taken.emplace(body(), table_->geometry()); };
        rig.recover(take_over, [&] { return survive(rig, from_here, false); });
        if (taken->recovery().journal_rejected) return "recovery rejected the journal";
        const unsigned now = state_of(taken->reader(), why);
        if (now == neither) return "recovered: " + why;
        if ((now & from_here) == 0) return "recovery took back what a reader saw";
        if (why = taken->damage(); !why.empty()) return "recovered, verify: " + why;
        const bool there = (now & before_only) != 0 ? before_ != 0 : after_ != 0;
        if (taken->reader().size() != others() + (there ? 1U : 0U)) return "recovered: the size is wrong";
        if (rig.changes_by(take_over) != 0) return "recovery is not idempotent";
        rig.go_on([&] { why = go_on(*taken); });
        return why.empty() ? why : "going on: " + why;
    }
    // Writes the key under way anew, erases it, and inserts another.
    std::string go_on(shown& next) const {
        const std::uint64_t n = keys_[under_way_];
        (void)apply<Shape>(next, table_operation::insert_or_assign, n, 77);
        if (stamp_in<Shape>(next.reader(), n) != 77U) return "the assigned is not there";
        if (apply<Shape>(next, table_operation::erase, n, 0) != table_answer::erased) return "the erase failed";
        if (apply<Shape>(next, table_operation::try_insert, fresh_, 78) != table_answer::inserted)
            return "the insert failed";
        return next.damage();
    }

    // Nobody sleeps, and no lock is asked for that another holds.
    int sleep(const std::uint32_t*, std::uint32_t) noexcept override { return ETIMEDOUT; }
    void wake(const std::uint32_t*) noexcept override {}

    draws random_;
    one_address places_;
    futex_watch kernel_;
    unique_posix_name name_;
    std::optional<table> table_;
    std::optional<reader> onlooker_;
    std::vector<std::uint64_t> keys_;   // numbers of the keys in play
    std::vector<std::uint64_t> model_;  // their stamps; 0: not there
    std::uint64_t live_ = 0, stamp_ = 1;
    std::uint64_t fresh_ = 0;  // the number of one that is not in play
    std::size_t under_way_ = 0;
    std::uint64_t before_ = 0, after_ = 0;  // stamps of the key under way
    bool reached_ = false;                  // a reader saw the state after
};

}  // namespace holdfast::test
