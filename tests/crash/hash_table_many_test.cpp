// SPDX-License-Identifier: Apache-2.0
// Many writers of a hash table, one of them killed. First stepped: after each changed store of an operation the image
// is what a death would leave there, and must be
//   for readers and verify(), at once       the state before or after, intact
//   for a writer that was attached before   passable: it takes over what it meets, and finds before or after
//   for one that attaches                   recovered, with the exact size
// and the takeover itself is stepped in the same way, with a third writer. In service:
// hash_table_many_history_test.cpp, hash_table_many_kill_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hash_table/many_mutate.hpp"
#include "support/capability.hpp"
#include "support/hash_table_many_image.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"
#include "support/table_answer.hpp"
#include "support/told_numbers.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;

// ---- stepped -----------------------------------------------------------------------------------------------------

// Two buckets of different stripes are full of other keys (many_stage); or so much of a table of three stripes is.
enum class many_fill { two_buckets, empty, half, nearly_full, full };
constexpr const char* many_fill_names[] = {"two full buckets", "empty", "half full", "nearly full", "full"};

template <class Shape>
class many_step_bench {
 public:
    explicit many_step_bench(many_fill how = many_fill::two_buckets)
        : geometry_(how == many_fill::two_buckets ? many_stage<Shape>::geometry() : small_geometry()),
          image_(geometry_.body_bytes()),
          first_(image_.bytes(), geometry_, all_live_, 0) {
        if (how == many_fill::two_buckets) {
            stage_.emplace(first_);
            for (const u64 n : stage_->fillers) others_[n] = 1;
            (void)apply<Shape>(first_, table_operation::try_insert, stage_->beside_far, 1);
            others_[stage_->beside_far] = 1;
        } else {
            takeovers_every_ = sizeof(typename Shape::value) <= 8 ? 1 : one_in_so_many(2);
            const u64 slots = first_.bytes().slots();
            const u64 wanted = how == many_fill::empty         ? 0
                               : how == many_fill::half        ? slots / 2
                               : how == many_fill::nearly_full ? slots - 3
                                                               : slots;
            for (u64 n = 0; others_.size() < wanted && n < 8 * slots; ++n)
                if (apply<Shape>(first_, table_operation::try_insert, n, 1) == table_answer::inserted) others_[n] = 1;
            is_full_ = how == many_fill::full;
        }
        base_.assign(image_.bytes().begin(), image_.bytes().end());
    }

    [[nodiscard]] const many_stage<Shape>& stage() const noexcept { return *stage_; }
    [[nodiscard]] const step_report& takeovers() const noexcept { return takeovers_; }
    /// They are stepped in one of so many unfinished states.
    [[nodiscard]] u64 takeovers_every() const noexcept { return takeovers_every_; }
    /// The first key that never was there, and one that is.
    [[nodiscard]] u64 absent() const { return others_.empty() ? 0 : others_.rbegin()->first + 1; }
    [[nodiscard]] std::optional<u64> present() const {
        return others_.empty() ? std::nullopt : std::optional(std::next(others_.begin(), 3)->first);
    }

    [[nodiscard]] bool has_room_for(u64 n) {
        image_.assign(base_);
        many_writer<Shape> writer(image_.bytes(), geometry_, all_live_, 0);
        return apply<Shape>(writer, table_operation::try_insert, n, 2) == table_answer::inserted;
    }

    /// Steps act(writer) on key n, which is there with stamp 1 if it is one of those that there are, and has `after`
    /// then. Before that, prepare(writer).
    template <class Act, class Prepare>
    step_report step_act(u64 n, u64 after, Act&& act, Prepare&& prepare) {
        image_.assign(base_);
        first_ = many_writer<Shape>(image_.bytes(), geometry_, all_live_, 0);
        prepare(first_);
        const hash_table_model all = others_;
        before_ = others_.erase(n) != 0 ? 1 : 0;
        after_ = after;
        n_ = n;
        step_report report =
            single_step(image_, [&] { act(first_); }, [&](std::span<std::byte> copy) { return check(copy); });
        others_ = all;
        return report;
    }

    /// Steps `what` on key n, which is there before if `there`.
    step_report step(table_operation what, u64 n, bool there) {
        image_.assign(base_);
        first_ = many_writer<Shape>(image_.bytes(), geometry_, all_live_, 0);
        if (there) (void)apply<Shape>(first_, table_operation::try_insert, n, 1);
        before_ = there ? 1 : 0;
        after_ = what == table_operation::erase                     ? 0
                 : (what == table_operation::try_insert) != (there) ? 2
                 : what == table_operation::insert_or_assign        ? 2
                                                                    : before_;
        n_ = n;
        return single_step(
            image_, [&] { (void)apply<Shape>(first_, what, n, 2); },
            [&](std::span<std::byte> copy) { return check(copy); });
    }

 private:
    using view = holdfast::detail::table_view<const std::byte, typename many_writer<Shape>::node>;

    // The stamp of the key under way, or why the table is in no state that it may be in.
    template <class Finder>
    std::optional<u64> stamp_now(const Finder& in, std::string& why) const {
        why.clear();
        for (const auto& [n, stamp] : others_)
            if (stamp_in<Shape>(in, n) != stamp) why = "key " + std::to_string(n) + " is not as it was";
        const std::optional<u64> stamp = stamp_in<Shape>(in, n_);
        if (!stamp)
            why = "a torn value";
        else if (*stamp != before_ && *stamp != after_)
            why = "neither before nor after: stamp " + std::to_string(*stamp);
        if (in.fault()) why = "a fault was latched";
        return stamp;
    }

    [[nodiscard]] static layout::hash_table_geometry small_geometry() {
        return many_geometry_for<typename Shape::key, typename Shape::value>(430, writer_roll::processes, 5);
    }

    // What others find: first as it lies there, then by way of a writer that meets it, then of one that attaches.
    std::string check(std::span<std::byte> copy) {
        const view bytes(copy, geometry_, {});
        const holdfast::detail::hash_table_finder<typename many_writer<Shape>::node> reader(bytes);
        std::string why;
        const std::optional<u64> seen = stamp_now(reader, why);
        if (!why.empty()) return "a reader: " + why;
        if (why = shaped_table<Shape>::damage_of(bytes); !why.empty()) return "verify(): " + why;
        const std::vector<std::byte> left(copy.begin(), copy.end());

        const bool must_be_after = *seen == after_ && before_ != after_;
        if (why = taken_over(copy, must_be_after); !why.empty()) return why;
        std::memcpy(copy.data(), left.data(), left.size());
        if (why = attached(copy, 1, must_be_after); !why.empty()) return why;
        std::memcpy(copy.data(), left.data(), left.size());
        return step_takeover(copy, must_be_after);
    }

    // Writer 1, attached all the time, wants the key under way: it meets what the dead one held.
    std::string taken_over(std::span<std::byte> copy, bool must_be_after) const {
        writer_roll roll;
        roll.die(0);
        many_writer<Shape> second(copy, geometry_, roll, 1, true);
        typename Shape::value before{};
        const table_answer status = second.swap(nth_key<Shape>(n_), stamped_value<Shape>(n_, 7), before);
        if (status != table_answer::updated && status != table_answer::not_found)
            return "who met it was refused with status " + status.text();
        const auto found = status == table_answer::updated ? stamp_of<Shape>(n_, before) : std::optional<u64>(0);
        if (found != before_ && found != after_) return "who met it found neither before nor after";
        if (must_be_after && found != after_) return "the takeover took back what a reader had seen";
        if (status == table_answer::not_found) {
            const table_answer inserted = apply<Shape>(second, table_operation::try_insert, n_, 7);
            if (inserted == table_answer::full && is_full_) return ended(copy, roll, second, 0);
            if (inserted != table_answer::inserted) return "who met it could not insert";
        }
        if (stamp_in<Shape>(second.reader(), n_) != 7U) return "what it then stored is not there";
        if (copies_of(second.bytes(), nth_key<Shape>(n_)) != 1) return "the key is there twice";
        if (apply<Shape>(second, table_operation::erase, n_, 0) != table_answer::erased) return "nor erase";
        const u64 another = stage_ ? stage_->beside_far : others_.empty() ? n_ : others_.rbegin()->first;
        if (another != n_ && apply<Shape>(second, table_operation::update, another, 1) != table_answer::updated)
            return "nor go on in the other stripe";
        return ended(copy, roll, second, 0);
    }

    // A writer attaches: all is settled, and the size is exact.
    std::string attached(std::span<std::byte> copy, unsigned process, bool must_be_after) const {
        writer_roll roll;
        for (unsigned dead = 0; dead < process; ++dead) roll.die(dead);
        many_writer<Shape> next(copy, geometry_, roll, process);
        if (next.recovery().journal_rejected) return "recovery rejected the journal of a mere death";
        std::string why;
        const std::optional<u64> stamp = stamp_now(next.reader(), why);
        if (!why.empty()) return "recovered: " + why;
        if (must_be_after && *stamp != after_) return "recovery took back what a reader had seen";
        if (copies_of(next.bytes(), nth_key<Shape>(n_)) != (*stamp == 0 ? 0 : 1))
            return "recovered: the key is there twice";
        return ended(copy, roll, next, *stamp);
    }

    std::string ended(std::span<std::byte> copy, writer_roll& roll, many_writer<Shape>& by, u64 stamp) const {
        if (std::string why = by.damage(); !why.empty()) return "verify() in the end: " + why;
        many_writer<Shape> last(copy, geometry_, roll, 3);
        if (last.recovery().operation_settled || last.recovery().stripes_given_back) return "something was left open";
        if (last.reader().size() != others_.size() + (stamp == 0 ? 0 : 1))
            return "the size is " + std::to_string(last.reader().size());
        return last.damage();
    }

    // The takeover by writer 1, which wants another key of the stripe, dies as well, and writer 2 takes over from both;
    // in each unfinished state, but of wide values in every fill in one in two, in the long run in each of those, too.
    std::string step_takeover(std::span<const std::byte> left, bool must_be_after) {
        const view bytes(left, geometry_, {});
        if (!holdfast::detail::left_something(bytes, 0) || ++takeovers_met_ % takeovers_every_ != 0) return {};
        const auto stripe_of = [&](u64 n) {
            const auto key = nth_key<Shape>(n);
            return bytes.stripe_of(bytes.hash(reinterpret_cast<const std::byte*>(&key)).home(bytes.buckets));
        };
        const auto is_neighbour = [&](const auto& other) { return stripe_of(other.first) == stripe_of(n_); };
        const auto beside = std::find_if(others_.begin(), others_.end(), is_neighbour);
        if (beside == others_.end()) return {};
        const u64 neighbour = beside->first;
        shared_image again(left.size());
        again.assign(left);
        writer_roll roll;
        roll.die(0);
        many_writer<Shape> second(again.bytes(), geometry_, roll, 1, true);
        const step_report report = single_step(
            again, [&] { (void)apply<Shape>(second, table_operation::update, neighbour, 1); },
            [&](std::span<std::byte> copy) -> std::string {
                std::string why = attached(copy, 2, must_be_after);
                return why.empty() ? why : "killed in the takeover: " + why;
            });
        takeovers_ += report;
        return report.failure;
    }

    layout::hash_table_geometry geometry_;
    writer_roll all_live_;
    shared_image image_;
    many_writer<Shape> first_;
    std::optional<many_stage<Shape>> stage_;
    hash_table_model others_;
    bool is_full_ = false;
    std::vector<std::byte> base_;
    u64 n_ = 0, before_ = 0, after_ = 0, takeovers_met_ = 0, takeovers_every_ = 1;
    step_report takeovers_;
};

// ---- stepped while the table grows -------------------------------------------------------------------------------

// A table that mirrors, and its next generation, in one image: whatever a death leaves, who meets it and then leads to
// the commit finds one truth in both.
template <class Shape>
class growth_step_bench {
    using pair = growing_many_writer<Shape>;
    using finder = holdfast::detail::hash_table_finder<typename many_writer<Shape>::node>;

 public:
    /// Takeovers are stepped in one of so many unfinished states.
    growth_step_bench(u64 next_capacity, u64 takeovers_every)
        : takeovers_every_(takeovers_every),
          where_{many_stage<Shape>::geometry(), many_geometry_for<typename Shape::key, typename Shape::value>(
                                                    next_capacity, writer_roll::processes, 3)},
          image_(where_.bytes()),
          first_(std::make_unique<pair>(image_.bytes(), where_, all_live_, 0)),
          stage_(first_->old()) {
        for (const u64 n : stage_.fillers) others_[n] = 1;
        (void)apply<Shape>(first_->old(), table_operation::try_insert, stage_.beside_far, 1);
        others_[stage_.beside_far] = 1;
        for (u64 s = 0; s <= first_->old().bytes().stripe_mask; ++s) (void)first_->turn(s, pair::growth::mirrors);
        for (const u64 n : stage_.fillers) (void)(n % 2 == 0 ? first_->carry(n) : outcome::ok);
        base_.assign(image_.bytes().begin(), image_.bytes().end());
    }
    [[nodiscard]] const many_stage<Shape>& stage() const noexcept { return stage_; }
    [[nodiscard]] const step_report& takeovers() const noexcept { return takeovers_; }

    /// Steps act(writer) on key n, which is there before if `there` and in both if `carried`; `after`: its stamp then.
    template <class Act>
    step_report step(u64 n, bool there, bool carried, u64 after, Act&& act) {
        image_.assign(base_);
        n_ = n, before_ = there ? 1 : 0, after_ = after;
        first_ = std::make_unique<pair>(image_.bytes(), where_, all_live_, 0);
        if (there) (void)apply<Shape>(first_->old(), table_operation::try_insert, n, 1);
        // As if it had been there before the stripes mirrored.
        if (there && !carried) (void)apply<Shape>(first_->next(), table_operation::erase, n, 0);
        return single_step(image_, [&] { act(*first_); }, [&](std::span<std::byte> copy) { return check(copy); });
    }

 private:
    std::string check(std::span<std::byte> copy) {
        const finder reader({copy.first(where_.old.body_bytes()), where_.old, {}});
        std::string why;
        const u64 seen = stamp_now(reader, why);
        if (!why.empty()) return "a reader: " + why;
        const bool must_be_after = seen == after_ && before_ != after_;
        const std::vector<std::byte> left(copy.begin(), copy.end());
        if (why = taken_over(copy, must_be_after); !why.empty()) return why;
        std::memcpy(copy.data(), left.data(), left.size());
        if (why = attached(copy, 1, must_be_after); !why.empty()) return why;
        std::memcpy(copy.data(), left.data(), left.size());
        return step_takeover(copy, must_be_after);
    }
    u64 stamp_now(const auto& in, std::string& why) const {
        for (const auto& [n, stamp] : others_)
            if (stamp_in<Shape>(in, n) != stamp) why = "key " + std::to_string(n) + " is not as it was";
        const std::optional<u64> stamp = stamp_in<Shape>(in, n_);
        if (!stamp)
            why = "a torn value";
        else if (*stamp != before_ && *stamp != after_)
            why = "neither before nor after: stamp " + std::to_string(*stamp);
        if (in.fault()) why = "a fault was latched";
        return stamp.value_or(0);
    }
    // Writer 1, attached all the time, meets what the dead one held, and leads to the commit.
    std::string taken_over(std::span<std::byte> copy, bool must_be_after) const {
        writer_roll roll;
        roll.die(0);
        pair second(copy, where_, roll, 1, true);
        return led(copy, roll, second, must_be_after, "who met it: ");
    }
    std::string attached(std::span<std::byte> copy, unsigned process, bool must_be_after) const {
        writer_roll roll;
        for (unsigned dead = 0; dead < process; ++dead) roll.die(dead);
        pair next(copy, where_, roll, process);
        if (!next.settled() || next.recovery().journal_rejected) return "recovery rejected a mere death";
        return led(copy, roll, next, must_be_after, "who attached: ");
    }
    std::string led(std::span<std::byte> copy, writer_roll& roll, pair& by, bool must_be_after, std::string who) const {
        if (std::string why = by.lead(); !why.empty()) return who + why;
        std::string why;
        const u64 stamp = stamp_now(by.next().reader(), why);
        if (!why.empty()) return who + why;
        if (must_be_after && stamp != after_) return who + "what a reader had seen was taken back";
        pair last(copy, where_, roll, 3);
        if (last.recovery().operation_settled || last.recovery().stripes_given_back)
            return who + "something was left open";
        for (u64 s = 0; s <= last.next().bytes().stripe_mask; ++s)
            if (holdfast::detail::stripe_owner(last.next().bytes().stripe(s)) != 0)
                return who + "a stripe of the next generation is held";
        return {};
    }
    // The takeover by writer 1 dies as well, and writer 2 takes over from both.
    std::string step_takeover(std::span<const std::byte> left, bool must_be_after) {
        shared_image again(left.size());
        again.assign(left);
        writer_roll roll;
        roll.die(0);
        pair second(again.bytes(), where_, roll, 1, true);
        if (!holdfast::detail::left_something(second.old().bytes(), 0) || ++takeovers_met_ % takeovers_every_ != 0)
            return {};
        const u64 home = second.home_of(n_);
        const step_report report = single_step(
            again, [&] { (void)second.turn(home, pair::growth::mirrors); },
            [&](std::span<std::byte> copy) -> std::string {
                std::string why = attached(copy, 2, must_be_after);
                return why.empty() ? why : "killed in the takeover: " + why;
            });
        takeovers_ += report;
        return report.failure;
    }

    u64 takeovers_every_, takeovers_met_ = 0;
    typename pair::room where_;
    writer_roll all_live_;
    shared_image image_;
    std::unique_ptr<pair> first_;
    many_stage<Shape> stage_;
    hash_table_model others_;
    std::vector<std::byte> base_;
    u64 n_ = 0, before_ = 0, after_ = 0;
    step_report takeovers_;
};

template <class Shape>
void step_growth(u64 next_capacity, u64 takeovers_every = 1) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    growth_step_bench<Shape> bench(next_capacity, takeovers_every);
    using pair = growing_many_writer<Shape>;
    step_report all;
    const auto step = [&](u64 n, bool there, bool carried, u64 after, const char* what, auto&& act) {
        const step_report report = bench.step(n, there, carried, after, act);
        EXPECT_EQ(report.failure, "") << what << (carried ? ", carried" : "");
        all += report;
    };
    const auto operate = [&](table_operation what, u64 n, bool there, bool carried, u64 after) {
        step(n, there, carried, after, name_of(what), [&](pair& by) { (void)apply<Shape>(by.old(), what, n, 2); });
    };
    const u64 near = bench.stage().near, far = bench.stage().far[0];
    operate(table_operation::try_insert, near, false, false, 2);
    operate(table_operation::insert_or_assign, near, true, true, 2);
    operate(table_operation::update, far, true, false, 2);
    operate(table_operation::erase, near, true, true, 0);
    operate(table_operation::erase, far, true, true, 0);
    operate(table_operation::erase, near, true, false, 0);
    // The leader's own steps.
    step(near, true, false, 1, "carry", [&](pair& by) { (void)by.carry(near); });
    step(near, true, true, 1, "carry again", [&](pair& by) { (void)by.carry(near); });
    step(far, true, false, 1, "open again", [&](pair& by) { (void)by.turn(by.home_of(far), pair::growth::mirrors); });
    tell_more("steps", all.steps);
    tell_more("recovery_steps", bench.takeovers().steps);
    std::printf("%llu instructions, %llu images; %llu and %llu of takeovers\n",
                static_cast<unsigned long long>(all.steps), static_cast<unsigned long long>(all.images),
                static_cast<unsigned long long>(bench.takeovers().steps),
                static_cast<unsigned long long>(bench.takeovers().images));
    EXPECT_GT(all.images, 100U);
    EXPECT_GT(bench.takeovers().images, 50U);
}

template <class Shape>
void step_every_operation() {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    many_step_bench<Shape> bench;
    step_report all;
    const auto step = [&](table_operation what, u64 n, bool there, const char* where) {
        const step_report report = bench.step(what, n, there);
        EXPECT_EQ(report.failure, "") << name_of(what) << " of a key " << where;
        all += report;
    };
    for (const auto& [n, where] :
         {std::pair{bench.stage().near, "at home"}, {bench.stage().far[0], "in another stripe"}}) {
        step(table_operation::try_insert, n, false, where);
        step(table_operation::insert_or_assign, n, true, where);
        step(table_operation::erase, n, true, where);
    }
    step(table_operation::update, bench.stage().far[1], false, "that is not there");
    EXPECT_GT(all.images, 60U);
    EXPECT_GT(bench.takeovers().images, 30U);
    tell_more("steps", all.steps);
    tell_more("recovery_steps", bench.takeovers().steps);
    std::printf("%llu steps, %llu images, %.1f s; takeovers: %llu steps, %llu images, %.1f s\n",
                static_cast<unsigned long long>(all.steps), static_cast<unsigned long long>(all.images), all.seconds,
                static_cast<unsigned long long>(bench.takeovers().steps),
                static_cast<unsigned long long>(bench.takeovers().images), bench.takeovers().seconds);
}

// Every operation, in tables that are empty, half full, nearly full and full: of a key that is there and of one that is
// not; what a condition keeps from happening, too.
template <class Shape>
void step_every_fill() {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    step_report all, takeovers;
    u64 every = 0;
    for (const many_fill how : {many_fill::empty, many_fill::half, many_fill::nearly_full, many_fill::full}) {
        many_step_bench<Shape> bench(how);
        const auto step_after = [&](auto&& prepare, const char* what, u64 n, u64 after, auto&& act) {
            const step_report report = bench.step_act(n, after, act, prepare);
            EXPECT_EQ(report.failure, "") << what << " of key " << n << ", " << many_fill_names[static_cast<int>(how)];
            all += report;
            return report.images;
        };
        const auto step = [&](const char* what, u64 n, u64 after, auto&& act) {
            (void)step_after([](many_writer<Shape>&) {}, what, n, after, act);
        };
        const auto operate = [&](table_operation what, u64 n, u64 after) {
            step(name_of(what), n, after, [&](many_writer<Shape>& by) { (void)apply<Shape>(by, what, n, 2); });
        };
        // As compare_and_set, fetch_add and modify do; as compare_and_erase does.
        const auto swap = [&](u64 n, u64 after) {
            step("swap", n, after, [&](many_writer<Shape>& by) {
                typename Shape::value before{};
                (void)by.swap(nth_key<Shape>(n), stamped_value<Shape>(n, 2), before);
            });
        };
        const auto take = [&](u64 n, u64 expected, u64 after) {
            step("take", n, after,
                 [&](many_writer<Shape>& by) { (void)by.take(nth_key<Shape>(n), stamped_value<Shape>(n, expected)); });
        };
        const u64 absent = bench.absent(), added = bench.has_room_for(absent) ? 2 : 0;
        EXPECT_EQ(added, how == many_fill::full ? 0U : 2U);
        operate(table_operation::try_insert, absent, added);
        operate(table_operation::insert_or_assign, absent, added);
        operate(table_operation::update, absent, 0);
        operate(table_operation::erase, absent, 0);
        swap(absent, 0);
        take(absent, 1, 0);
        if (how == many_fill::half) {
            // Counters that deaths left too high.
            const auto too_high = [](many_writer<Shape>& by) {
                for (u64 bucket = 0; bucket < 3; ++bucket)
                    for (const unsigned group : {2U, 3U, 9U})
                        holdfast::detail::set_counter(
                            by.bytes().line(bucket), group,
                            static_cast<std::uint8_t>(holdfast::detail::counter_of(by.bytes().line(bucket), group) +
                                                      1));
            };
            EXPECT_GT(step_after(too_high, "recount", absent, 0,
                                 [](many_writer<Shape>& by) { (void)holdfast::detail::recount(by.bytes()); }),
                      5U);
        }
        if (const std::optional<u64> present = bench.present()) {
            operate(table_operation::try_insert, *present, 1);
            operate(table_operation::insert_or_assign, *present, 2);
            operate(table_operation::update, *present, 2);
            operate(table_operation::erase, *present, 0);
            swap(*present, 2);
            take(*present, 1, 0);
            take(*present, 9, 1);
        }
        takeovers += bench.takeovers();
        every = bench.takeovers_every();
    }
    EXPECT_GT(all.images, 100U);
    EXPECT_GT(takeovers.images, 20U);
    tell_more("steps", all.steps);
    tell_more("recovery_steps", takeovers.steps);
    std::printf("%llu steps, %llu images; takeovers in %s unfinished state: %llu steps, %llu images; %.1f s\n",
                static_cast<unsigned long long>(all.steps), static_cast<unsigned long long>(all.images),
                every == 1 ? "each" : "one in two", static_cast<unsigned long long>(takeovers.steps),
                static_cast<unsigned long long>(takeovers.images), all.seconds);
}

TEST(HashTableManyStep, NarrowValuesInEveryFill) { step_every_fill<narrow_shape>(); }
TEST(HashTableManyStep, WideValuesInEveryFill) { step_every_fill<wide_shape>(); }
TEST(HashTableManyStep, NarrowValues) { step_every_operation<narrow_shape>(); }
TEST(HashTableManyStep, WideValues) { step_every_operation<wide_shape>(); }
TEST(HashTableManyStep, NarrowValuesWhileItGrows) { step_growth<narrow_shape>(1900); }
TEST(HashTableManyStep, WideValuesWhileItGrows) { step_growth<wide_shape>(1900); }
TEST(HashTableManyStep, NarrowValuesWhileItShrinks) { step_growth<narrow_shape>(100); }
TEST(HashTableManyStep, WideValuesWhileItShrinks) { step_growth<wide_shape>(100, one_in_so_many(4)); }
TEST(HashTableManyStep, ValuesThatShareAWordWithTheKey) { step_every_operation<crooked_shape>(); }

}  // namespace
