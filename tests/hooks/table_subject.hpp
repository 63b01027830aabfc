// SPDX-License-Identifier: Apache-2.0
// table_subject.hpp - random histories of a hash table under store_rig.hpp: inserts, assignments, updates, erases,
// takeovers, and recounts of one writer, on tables of 78 and 130 slots, from empty to full, with keys that collide and
// keys that do not. One process writes at a time. Of a table of many writers, half of them of three stripes with keys
// that need two, who takes over has another writer slot each time, finds the dead one's lock free, and dies with it in
// its hands; or it was attached all the time, and meets what the dead one held when it comes there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/store_rig.hpp"
#include "support/hash_table_many_image.hpp"
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

/// What a table holds while an operation on one of its keys is under way: all else as it was, and that key as it was
/// before, or after.
struct table_expected {
    enum state : unsigned { neither = 0, before_only = 1, after_only = 2, either = 3 };

    std::span<const std::uint64_t> keys, stamps;  // 0: not there
    std::size_t under_way;
    std::uint64_t before, after;  // stamps of the key under way

    /// Which of the two states a reader finds; neither, and why.
    template <class Shape, class Finder>
    unsigned state_in(const Finder& in, std::string& why) const {
        unsigned found = either;
        for (std::size_t i = 0; i < keys.size(); ++i) {
            typename Shape::value value{};
            const auto key = nth_key<Shape>(keys[i]);
            const bool there = in.find(reinterpret_cast<const std::byte*>(&key),
                                       reinterpret_cast<std::byte*>(&value)) != holdfast::detail::no_slot;
            const std::optional<std::uint64_t> stamp =
                there ? stamp_of<Shape>(keys[i], value) : std::optional<std::uint64_t>(0);
            const bool is_open = i == under_way;
            const unsigned is = !stamp    ? 0U
                                : is_open ? (*stamp == before ? 1U : 0U) | (*stamp == after ? 2U : 0U)
                                          : (*stamp == stamps[i] ? 3U : 0U);
            found &= is;
            if (found == neither) {
                why = "key " + std::to_string(keys[i]) + (stamp ? " has stamp " + std::to_string(*stamp) : " is torn");
                return neither;
            }
        }
        if (in.fault()) {
            why = "the reader latched a fault";
            return neither;
        }
        return found;
    }
};

/// The only writer there may be.
template <class Shape>
struct one_table_writer {
    using table = shaped_table<Shape>;
    static constexpr bool many = false;
    static layout::hash_table_geometry geometry(std::uint64_t capacity, std::uint64_t seed) {
        return geometry_for<typename Shape::key, typename Shape::value>(capacity, seed);
    }
    [[nodiscard]] table attach(std::span<std::byte> body, const layout::hash_table_geometry& g) { return {body, g}; }
    [[nodiscard]] one_table_writer successor() const { return {}; }
};

/// The one that lives of many.
template <class Shape>
struct last_table_writer {
    using table = many_writer<Shape>;
    static constexpr bool many = true;
    static layout::hash_table_geometry geometry(std::uint64_t capacity, std::uint64_t seed) {
        return many_geometry_for<typename Shape::key, typename Shape::value>(capacity, writer_roll::processes, seed);
    }
    /// Requires: this stays where it is as long as the table is used.
    [[nodiscard]] table attach(std::span<std::byte> body, const layout::hash_table_geometry& g) {
        return {body, g, roll, process};
    }
    /// As one that was there before, and looks at nothing now.
    [[nodiscard]] table go_on(std::span<std::byte> body, const layout::hash_table_geometry& g) {
        return {body, g, roll, process, true};
    }
    /// Who comes when this one has died, as the locks are now.
    [[nodiscard]] last_table_writer successor() const {
        last_table_writer next = *this;
        next.roll.die(process);
        next.process = (process + 1) % writer_roll::processes;
        next.roll.alive[next.process] = true;
        return next;
    }

    writer_roll roll{1};
    unsigned process = 0;
};

template <class Shape, class Process = one_table_writer<Shape>>
class table_subject {
 public:
    static constexpr unsigned length = 400;

    explicit table_subject(std::uint64_t seed)
        : random_(seed),
          staged_(Process::many && random_.one_in(2)),
          geometry_(staged_ ? many_stage<Shape>::geometry() : Process::geometry(random_.one_in(4) ? 100 : 70, seed)),
          bytes_(geometry_.body_bytes()),
          table_(living_.attach(bytes_.bytes(), geometry_)) {
        if constexpr (Process::many) {
            if (staged_) {
                set_the_stage();
                return;
            }
        }
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
        fresh_ = keys_.back() + 1000;
    }

    [[nodiscard]] std::span<std::byte> image() noexcept { return bytes_.bytes(); }

    std::string next(store_rig& rig) {
        under_way_ = random_.below(staged_ && !random_.one_in(40) ? far_keys : keys_.size());
        const std::uint64_t n = keys_[under_way_];
        before_ = model_[under_way_];
        after_ = before_;
        if (random_.one_in(32)) {
            living_ = living_.successor();
            rig.operate([&] { table_ = living_.attach(bytes_.bytes(), geometry_); },
                        [&] { return survive(rig, living_, either, true); });
            return {};
        }
        if constexpr (!Process::many)
            if (random_.one_in(48)) return recount(rig);
        const auto what = static_cast<table_operation>(random_.below(4));
        const std::uint64_t stamp = ++stamp_;
        if (what == table_operation::erase)
            after_ = 0;
        else if (what == table_operation::insert_or_assign || (what == table_operation::try_insert) == (before_ == 0))
            after_ = stamp;
        reached_ = false;
        table_answer status;
        rig.operate([&] { status = apply<Shape>(table_, what, n, stamp); },
                    [&] { return survive(rig, living_, reached_ ? after_only : either, true); });
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
    using table = typename Process::table;
    using view = holdfast::detail::table_view<const std::byte, typename table::node>;
    using enum table_expected::state;
    static constexpr std::size_t far_keys = 4;

    // The first keys are those of the stage that want room at home, or in another stripe; the others fill the buckets.
    void set_the_stage() {
        const many_stage<Shape> stage(table_);
        keys_ = {stage.near, stage.far[0], stage.far[1], stage.beside_far};
        model_.assign(keys_.size(), 0);
        keys_.insert(keys_.end(), stage.fillers.begin(), stage.fillers.end());
        model_.resize(keys_.size(), 1);
        live_ = stage.fillers.size();
        fresh_ = *std::max_element(keys_.begin(), keys_.end()) + 1000;
    }
    // Of counters some of which are as deaths and years of churn leave them.
    std::string recount(store_rig& rig) {
        const auto whole = table_.view();
        for (unsigned i = 0; i < 6; ++i)
            holdfast::detail::set_counter(whole.line(random_.below(geometry_.buckets)),
                                          static_cast<unsigned>(random_.below(16)), layout::counter_max);
        rig.operate([&] { (void)holdfast::detail::recount(whole); },
                    [&] { return survive(rig, living_, either, true); });
        hash_table_verification found;
        const std::string why = table_.damage(&found);
        return why.empty() && found.counters_too_high != 0 ? "a recount left counters too high" : why;
    }
    [[nodiscard]] view bytes() const { return {bytes_.bytes(), geometry_, {}}; }
    [[nodiscard]] std::uint64_t home(std::uint64_t n) const {
        const auto key = nth_key<Shape>(n);
        return bytes().hash(reinterpret_cast<const std::byte*>(&key)).home(geometry_.buckets);
    }

    // Which of the two states a reader finds; neither, and why.
    template <class Finder>
    unsigned state_of(const Finder& in, std::string& why) const {
        return table_expected{keys_, model_, under_way_, before_, after_}.state_in<Shape>(in, why);
    }

    // `dead`: who dies here. `allow`: the states it may be in. `living`: the operation is under way, not a recovery
    // that died.
    std::string survive(store_rig& rig, const Process& dead, unsigned allow, bool living) {
        std::string why;
        const unsigned seen =
            state_of(typename holdfast::detail::hash_table_finder<typename table::node>(bytes()), why);
        if (seen == neither) return "a reader: " + why;
        if ((seen & allow) == 0) return "a reader saw the state before again";
        if (living && seen == after_only) reached_ = true;
        if (why = shaped_table<Shape>::damage_of(bytes()); !why.empty()) return "verify: " + why;

        const unsigned from_here = seen == after_only ? after_only : allow;
        Process next = dead.successor();
        if constexpr (Process::many)
            if (rig.random().one_in(3)) return met(rig, next);
        std::optional<table> taken;
        const auto take_over = [&] { taken.emplace(next.attach(bytes_.bytes(), geometry_)); };
        rig.recover(take_over, [&] { return survive(rig, next, from_here, false); });
        if (taken->recovery().journal_rejected) return "recovery rejected the journal";
        const unsigned now = state_of(taken->reader(), why);
        if (now == neither) return "recovered: " + why;
        if ((now & from_here) == 0) return "recovery took back what a reader saw";
        if (why = taken->damage(); !why.empty()) return "recovered, verify: " + why;
        if (something_open()) return "recovered, and something is open";
        const bool there = (now & before_only) != 0 ? before_ != 0 : after_ != 0;
        if (taken->reader().size() != others() + (there ? 1U : 0U)) return "recovered: the size is wrong";
        if (rig.changes_by(take_over) != 0) return "recovery is not idempotent";
        rig.go_on([&] { why = go_on(*taken, there); });
        return why.empty() ? why : "going on: " + why;
    }

    // Who was there before goes on, and meets what the dead one held; then one comes that finds the rest.
    std::string met(store_rig& rig, Process& by) {
        std::string why;
        rig.go_on([&] {
            table second = by.go_on(bytes_.bytes(), geometry_);
            why = go_on(second, before_ != 0 && after_ != 0);
            if (!why.empty()) return;
            Process last = by.successor();
            const table third = last.attach(bytes_.bytes(), geometry_);
            if (third.recovery().journal_rejected) why = "the journal of a mere death was rejected";
            if (something_open()) why = "something is open in the end";
            const bool kept = stamp_in<Shape>(third.reader(), fresh_) != 0U;
            if (third.reader().size() != others() + (kept ? 1U : 0U)) why = "the size is wrong in the end";
        });
        return why.empty() ? why : "who met it: " + why;
    }
    [[nodiscard]] std::uint64_t others() const { return live_ - (before_ != 0 ? 1U : 0U); }
    [[nodiscard]] bool something_open() const {
        bool open = false;
        if constexpr (Process::many)
            for (unsigned slot = 0; slot < writer_roll::processes; ++slot)
                open = open || holdfast::detail::left_something(bytes(), slot);
        return open;
    }

    // Writes the key under way anew, erases it, and inserts another. `there`: it needs no room.
    std::string go_on(table& next, bool there) const {
        const std::uint64_t n = keys_[under_way_];
        const bool room = others() < geometry_.slots() - 2;
        if (there || room) {
            (void)next.insert_or_assign(nth_key<Shape>(n), stamped_value<Shape>(n, 77));
            if (stamp_in<Shape>(next.reader(), n) != 77U) return "the assigned is not there";
            if (copies_of(bytes(), nth_key<Shape>(n)) != 1) return "the key is there twice";
        }
        const table_answer erased = next.erase(nth_key<Shape>(n));
        if (erased != table_answer::erased && (there || room || erased != table_answer::not_found))
            return "the erase failed";
        if (next.try_insert(nth_key<Shape>(fresh_), stamped_value<Shape>(fresh_, 78)) != table_answer::inserted && room)
            return "the insert failed";
        return next.damage();
    }

    draws random_;
    bool staged_;
    layout::hash_table_geometry geometry_;
    aligned_bytes bytes_;
    Process living_;
    table table_;
    std::vector<std::uint64_t> keys_;   // numbers of the keys in play
    std::vector<std::uint64_t> model_;  // their stamps; 0: not there
    std::uint64_t live_ = 0, stamp_ = 1;
    std::uint64_t fresh_ = 0;  // the number of one that is not in play
    std::size_t under_way_ = 0;
    std::uint64_t before_ = 0, after_ = 0;  // stamps of the key under way
    bool reached_ = false;                  // a reader saw the state after
};

}  // namespace holdfast::test
