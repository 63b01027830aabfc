// SPDX-License-Identifier: Apache-2.0
// Many writers of a hash table, one of them killed. First stepped: after each changed store of an operation the image
// is what a death would leave there, and must be
//   for readers and verify(), at once       the state before or after, intact
//   for a writer that was attached before   passable: it takes over what it meets, and finds before or after
//   for one that attaches                   recovered, with the exact size
// and the takeover itself is stepped in the same way, with a third writer. Then in service: writers at full speed,
// killed and stopped at random, and what they and readers saw must have an order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hash_table/growing.hpp"
#include "holdfast/hash_table/many.hpp"
#include "support/capability.hpp"
#include "support/hash_table_many_image.hpp"
#include "support/history_test.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"
#include "support/table_answer.hpp"
#include "support/takeover_waits.hpp"
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
    explicit growth_step_bench(u64 next_capacity)
        : where_{many_stage<Shape>::geometry(), many_geometry_for<typename Shape::key, typename Shape::value>(
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
        if (!holdfast::detail::left_something(second.old().bytes(), 0)) return {};
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
void step_growth(u64 next_capacity) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    growth_step_bench<Shape> bench(next_capacity);
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
TEST(HashTableManyStep, ValuesThatShareAWordWithTheKey) { step_every_operation<crooked_shape>(); }

// ---- in service --------------------------------------------------------------------------------------------------

constexpr u64 keys = 24;

class HashTableManyHistory : public history_test {
 protected:
    using table = hash_table<u64, std::array<u64, 7>, writers::many>;
    using counts = hash_table<u64, u64, writers::many>;

    // A new life begins when what the last one was killed in is over: a waiter may just be repairing it, so each key's
    // stripe is gone through once.
    template <class Table, class Value>
    static std::string settle(Table& writer, const Value& impossible) {
        writer.set_patience(std::chrono::seconds(60));
        for (u64 key = 0; key < keys; ++key)
            if (writer.compare_and_set(key, impossible, impossible) == table_answer::contended)
                return "a stripe was not free for a minute";
        return {};
    }
    // Another may have begun one, and a stopped one may be in the way.
    static void begin_growth(table& writer, u64 more) {
        try {
            writer.grow(10 * keys + more);
        } catch (const error& refused) {
            if (refused.reason() != errc::contended) throw;
        }
    }
    template <class Table>
    static std::string end_of(const std::string& uri, u64 entries_max) {
        Table last = Table::attach(uri, patient());
        std::string text;
        while (last.advance()) {
        }
        if (last.growth_failure()) text += last.growth_failure()->what();
        const hash_table_verification seen = last.verify([&](const hash_table_finding& f) {
            text += std::string(describe(f.what)) + "; ";
            return true;
        });
        if (seen.busy != 0) text += "busy; ";
        if (seen.operation_open || seen.update_armed) text += "something is open; ";
        u64 entries = 0;
        for (u64 key = 0; key < keys; ++key) entries += last.contains(key) ? 1 : 0;
        if (last.size() != entries || seen.entries != entries || entries > entries_max)
            text += "size " + std::to_string(last.size()) + ", entries " + std::to_string(seen.entries) + ", found " +
                    std::to_string(entries);
        return text;
    }
};

std::array<u64, 7> whole(u64 stamp) {
    std::array<u64, 7> value{};
    for (u64 i = 0; i < value.size() && stamp != 0; ++i) value[i] = i == 0 ? stamp : random_at(stamp, 1, i);
    return value;
}
std::optional<u64> stamp_in_whole(const std::array<u64, 7>& value) {
    return value == whole(value[0]) ? std::optional(value[0]) : std::nullopt;
}

// Whether what writers and readers record of one key has an order, also where any writer may make the table grow or
// shrink at any time.
class HashTableManyOrder : public HashTableManyHistory, public ::testing::WithParamInterface<bool> {};

TEST_P(HashTableManyOrder, IsLinearizable) {
    const bool grows = GetParam();
    std::string wrong_in_the_end;
    u64 first = 0, moves = 0;  // its capacity, and how often there was another in the end
    check_rounds(
        8,
        [&](const std::string& uri) {
            first = table::create(uri, {.capacity = grows ? 20 * keys : keys, .writer_slots = 8}).capacity();
            const auto write_as = [uri, grows](u64 role) {
                return [uri, role, grows](history_worker& me) -> std::string {
                    me.mortal();
                    table writer = table::attach(uri, patient());
                    if (std::string why = settle(writer, whole(1)); !why.empty()) return why;
                    me.attached();
                    constexpr auto kind = [](table_operation what) { return static_cast<std::uint32_t>(what); };
                    for (u64 i = 0; me.go_on(); ++i) {
                        const u64 key = me.below(keys), stamp = (role << 56) + (me.life() << 24) + i + 2;
                        if (grows && !writer.growing() && me.below(32) == 0) begin_growth(writer, me.below(60 * keys));
                        const u64 what = me.below(10);
                        table_answer status;
                        if (what >= 8) {  // only as long as it has the value that was seen
                            const auto seen = writer.find(key);
                            if (!seen) continue;
                            const auto expected = stamp_in_whole(*seen);
                            if (!expected) return "a torn value was to be taken out";
                            me.log().call(table_key_model::take, key, 0, *expected);
                            status = writer.compare_and_erase(key, *seen);
                            if (status == table_answer::stale) {
                                me.log().done(status.number());
                                continue;
                            }
                        } else if (what < 3) {
                            me.log().call(kind(table_operation::insert_or_assign), key, stamp);
                            status = writer.insert_or_assign(key, whole(stamp));
                        } else if (what < 4) {
                            me.log().call(kind(table_operation::try_insert), key, stamp);
                            status = writer.try_insert(key, whole(stamp));
                        } else if (what < 6) {
                            me.log().call(kind(table_operation::erase), key, 0);
                            status = writer.erase(key);
                        } else {
                            me.log().call(table_key_model::swap, key, stamp);
                            std::optional<u64> before = 0;
                            status = writer.modify(key, [&](std::array<u64, 7>& value) {
                                before = stamp_in_whole(value);
                                value = whole(stamp);
                            });
                            if (!before) return "a torn value was to be changed";
                            me.log().done(*before);
                            if (status == table_answer::updated || status == table_answer::not_found) continue;
                        }
                        if (status.refused()) return "an operation was refused with status " + status.text();
                        if (writer.growth_failure() && writer.growth_failure()->reason() == errc::corrupt)
                            return writer.growth_failure()->what();
                        me.log().done(status.number());
                    }
                    return {};
                };
            };
            const auto read = [uri](history_worker& me) -> std::string {
                me.mortal();
                auto reader = growing_hash_table_reader<u64, std::array<u64, 7>>::attach(uri);
                me.attached();
                while (me.go_on()) {
                    const u64 key = me.below(keys);
                    me.log().call(table_key_model::look, key, 0);
                    const auto found = reader.find(key);
                    if (!found && reader.clear_contended()) {
                        me.log().cancel();
                        continue;
                    }
                    const auto stamp = found ? stamp_in_whole(*found) : std::optional<u64>(0);
                    if (!stamp) return "a torn value under key " + std::to_string(key);
                    me.log().done(*stamp);
                    if (reader.fault()) return "the reader latched a fault";
                }
                return {};
            };
            return std::vector<history_role>{
                {write_as(1), true}, {write_as(2), true}, {write_as(3)}, {read, true}, {read}};
        },
        [&](const std::string& uri) {
            wrong_in_the_end += end_of<table>(uri, keys);
            moves += table::attach(uri, patient()).capacity() != first ? 1 : 0;
        },
        [](const history_run& run) { return check_by_key<table_key_model>(run.all()); });
    EXPECT_EQ(wrong_in_the_end, "");
    EXPECT_EQ(moves != 0, grows) << moves << " moves";
}
INSTANTIATE_TEST_SUITE_P(Tables, HashTableManyOrder, ::testing::Values(false, true),
                         [](const auto& made) { return made.param ? "that_grow" : "that_stay"; });

struct count_model {
    using state = u64;
    static bool apply(state& s, const operation& op) {
        if (op.kind == table_key_model::look) return op.killed || op.answer == s;
        const bool right = op.killed || op.answer == s;
        s += op.given;
        return right;
    }
};

// Counts that are added to, and entries that come and go beside them, in words of one store each.
TEST_F(HashTableManyHistory, CountsAreExact) {
    std::string wrong_in_the_end;
    check_rounds(
        6,
        [&](const std::string& uri) {
            counts made = counts::create(uri, {.capacity = keys, .writer_slots = 8});
            for (u64 key = 0; key < keys / 2; ++key) (void)made.try_insert(key, 0);
            const auto add = [uri](history_worker& me) -> std::string {
                me.mortal();
                counts writer = counts::attach(uri, patient());
                if (std::string why = settle(writer, ~u64{0}); !why.empty()) return why;
                me.attached();
                while (me.go_on()) {
                    const u64 key = me.below(keys / 2), amount = 1 + me.below(100);
                    (void)writer.insert_or_assign(key + keys / 2, amount);
                    me.log().call(table_key_model::swap, key, amount);
                    const auto before = writer.fetch_add(key, amount);
                    if (!before) return "a count is lost";
                    me.log().done(*before);
                    (void)writer.erase(key + keys / 2);
                }
                return {};
            };
            const auto read = [uri](history_worker& me) -> std::string {
                const auto reader = hash_table_reader<u64, u64>::attach(uri);
                while (me.go_on()) {
                    const u64 key = me.below(keys / 2);
                    me.log().call(table_key_model::look, key, 0);
                    const auto found = reader.find(key);
                    if (!found) return "a count is lost";
                    me.log().done(*found);
                }
                return {};
            };
            return std::vector<history_role>{{add, true}, {add, true}, {read}};
        },
        [&](const std::string& uri) { wrong_in_the_end += end_of<counts>(uri, keys); },
        [](const history_run& run) { return check_by_key<count_model>(run.all()); });
    EXPECT_EQ(wrong_in_the_end, "");
}

struct two_counts {
    u64 hits, name, misses;
};
u64 name_of_key(u64 key) { return (key + 1) * 0x9e3779b97f4a7c15U; }

// Three writers add to members of the same values, which are stored whole by each: none takes back what another added
// beside it, and nobody touches the member between.
TEST_F(HashTableManyHistory, CountsInMembersAreExact) {
    using members = hash_table<u64, two_counts, writers::many>;
    static constexpr u64 counted = 6;
    std::string wrong_in_the_end;
    check_rounds(
        4,
        [&](const std::string& uri) {
            members made = members::create(uri, {.capacity = keys, .writer_slots = 8});
            for (u64 key = 0; key < counted; ++key) (void)made.try_insert(key, {0, name_of_key(key), 0});
            const auto add = [uri](history_worker& me) -> std::string {
                me.mortal();
                members writer = members::attach(uri, patient());
                if (std::string why = settle(writer, two_counts{~u64{0}, 0, 0}); !why.empty()) return why;
                me.attached();
                while (me.go_on()) {
                    const u64 key = me.below(counted), amount = 1 + me.below(100);
                    const bool hit = me.below(2) == 0;
                    me.log().call(table_key_model::swap, hit ? key : keys + key, amount);
                    const auto before = writer.fetch_add(key, hit ? &two_counts::hits : &two_counts::misses, amount);
                    if (!before) return "a count is lost";
                    me.log().done(*before);
                }
                return {};
            };
            const auto read = [uri](history_worker& me) -> std::string {
                const auto reader = hash_table_reader<u64, two_counts>::attach(uri);
                while (me.go_on()) {
                    const u64 key = me.below(counted);
                    const bool hit = me.below(2) == 0;
                    me.log().call(table_key_model::look, hit ? key : keys + key, 0);
                    const auto found = reader.find(key);
                    if (!found) return "a count is lost";
                    if (found->name != name_of_key(key)) return "another member moved";
                    me.log().done(hit ? found->hits : found->misses);
                }
                return {};
            };
            return std::vector<history_role>{{add, true}, {add, true}, {add}, {read}};
        },
        [&](const std::string& uri) { wrong_in_the_end += end_of<members>(uri, counted); },
        [](const history_run& run) { return check_by_key<count_model>(run.all()); });
    EXPECT_EQ(wrong_in_the_end, "");
}

// ---- killed at full speed ----------------------------------------------------------------------------------------

// Writers without a pause between operations, each killed by its own timer, so that the others go on beside what it
// left. They add to a few counts, and insert and erase entries of a table that is nearly full, so that many operations
// take two stripes. Where they grow and shrink it, whoever leads dies as the others do, and they end what it began.
class HashTableManyKill : public segment_test {
 protected:
    using table = hash_table<u64, std::array<u64, 7>, writers::many>;
    static constexpr u64 counted = 8, churned = 1990, capacity = 2000, writers_max = 3;
    struct planned {
        bool adds, erases;
        u64 key;
    };
    static planned plan(u64 seed, u64 writer, u64 round, u64 i) {
        const u64 random = random_at(seed + writer, round, i);
        const bool adds = random % 4 == 0;
        return {adds, random % 2 == 0, adds ? (random >> 8) % counted : counted + (random >> 8) % churned};
    }
    /// One of the rounds, and whether its writers grow and shrink the table.
    struct one_round {
        u64 seed, number;
        bool grows;
    };

    // What one writer does until it is killed. Exit codes tell which answer was wrong.
    static void operate(table& mine, takeover_watch watch, kill_progress& progress, u64 writer, const one_round& of) {
        for (u64 i = 0;; ++i) {
            if (of.grows) grow_now_and_then(mine, random_at(of.seed + writer, ~of.number, i), i);
            const planned op = plan(of.seed, writer, of.number, i);
            watch.begin();
            progress.begin();
            table_answer status;
            if (op.adds)
                status = mine.modify(op.key, [](auto& value) { value = whole(value[0] + 1); });
            else if (op.erases)
                status = mine.erase(op.key);
            else
                status = mine.insert_or_assign(op.key, whole(op.key + (i << 20)));
            if (status.refused()) ::_exit(9);
            progress.end();
            watch.end(mine.takeovers());
        }
    }
    // Unless it knows of one, which it may have to end for a dead leader. Another may have begun one meanwhile.
    static void grow_now_and_then(table& mine, u64 random, u64 i) {
        if (mine.growth_failure() && mine.growth_failure()->reason() == errc::corrupt) ::_exit(7);
        if (i % 500 != 0 || mine.growing()) return;
        try {
            mine.grow(capacity + 100 + random % (2 * capacity));
        } catch (const error& refused) {
            if (refused.reason() != errc::contended) ::_exit(8);
        }
    }
    static std::string damage_of(const auto& in) {
        std::string text;
        const auto seen = in.verify([&](const hash_table_finding& f) {
            text += std::string(describe(f.what)) + " at slot " + std::to_string(f.slot) + "; ";
            return text.size() < 1000;
        });
        return seen.busy == 0 ? text : text + "busy";
    }
    // What is there must be what the writers did, but for what each was in; the counts are then noted.
    static std::string compare(const table& in, std::span<const kill_progress> progress, u64 seed, u64 round,
                               std::array<u64, counted>& counts) {
        std::array<u64, counted> least = counts, most{};
        for (u64 w = 0; w < progress.size(); ++w) {
            for (u64 i = 0; i < progress[w].completed(); ++i)
                if (const planned op = plan(seed, w, round, i); op.adds) ++least[op.key];
            if (!progress[w].in_flight()) continue;
            if (const planned op = plan(seed, w, round, progress[w].completed()); op.adds) ++most[op.key];
        }
        for (u64 key = 0; key < counted; ++key) {
            const auto value = in.find(key);
            if (!value || !stamp_in_whole(*value)) return "a count is lost or torn";
            counts[key] = (*value)[0] - 1;
            if (counts[key] < least[key] || counts[key] > least[key] + most[key])
                return "count " + std::to_string(key) + " is " + std::to_string(counts[key]) + ", not " +
                       std::to_string(least[key]);
        }
        u64 entries = counted;
        for (u64 key = counted; key < counted + churned; ++key) {
            const auto value = in.find(key);
            entries += value ? 1 : 0;
            if (value && (!stamp_in_whole(*value) || ((*value)[0] & 0xFFFFF) != key)) return "a torn or foreign value";
        }
        if (in.size() != entries)
            return "the size is " + std::to_string(in.size()) + ", entries are " + std::to_string(entries);
        return {};
    }

    /// All writers of a round, until each was killed. Returns: how one ended otherwise.
    static std::string kill_all(const std::string& uri, takeover_waits& told, std::span<kill_progress> progress,
                                const one_round& of) {
        const takeover_waits::round meanwhile(told);
        std::vector<child_process> writers;
        for (u64 w = 0; w < progress.size(); ++w) {
            // One goes early, and what it held is free once it is gone: the others then have time to meet it.
            const u64 longest = of.number % progress.size() == w ? 500'000 : 5'000'000;
            progress[w].reset(random_at(of.seed, of.number, w) % (longest * slowness));
            writers.emplace_back([&, w] {
                const bool dies_attaching = of.number % 8 == w, outlives = takeover_watch::outlives(of.number, w);
                if (dies_attaching) progress[w].ready();
                table mine = table::attach(uri);
                if (!dies_attaching && !outlives) progress[w].ready();
                mine.set_patience(std::chrono::seconds(60));
                operate(mine, {told, outlives}, progress[w], w, of);
            });
        }
        std::string failure;
        for (child_process& writer : writers)
            if (const ended& end = writer.wait(); !end.signalled || end.signal != SIGKILL) failure = end.text();
        return failure;
    }
    /// What kills found: another generation than the kills before, and a growth that nobody leads any more.
    struct growths {
        u64 generations = 0, left = 0, last = 0;
        void look(const table& in) {
            const u64 now = in.place_of(0).value_or(hash_table_place{}).generation;
            generations += now != last ? 1 : 0;
            last = now;
            left += in.growing() ? 1 : 0;
        }
    };

    void run(u64 count, u64 rounds, std::uint32_t slots, bool grows = false) {
        const u64 seed = choose_seed();
        SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
        const unique_posix_name name("many-kill");
        {
            table made = table::create(name.uri(), {.capacity = capacity, .writer_slots = slots});
            for (u64 key = 0; key < counted; ++key) (void)made.try_insert(key, whole(1));
            for (u64 key = counted; key < counted + churned; ++key) (void)made.try_insert(key, whole(key));
        }
        std::array<u64, counted> counts{};
        shared_image pages(sizeof(takeover_waits));
        auto* const told = new (pages.bytes().data()) takeover_waits;
        u64 operations = 0, in_flight = 0, settled = 0;
        growths grown;
        std::array<kill_progress, writers_max> each;
        const std::span<kill_progress> progress(each.data(), count);
        std::string failure;
        u64 round = 0;
        // Who waits for a growth's end waits for no dead one alone: then the waits tell nothing.
        for (; (grows ? round < rounds : told->another(round, rounds)) && failure.empty(); ++round) {
            failure = kill_all(name.uri(), *told, progress, {seed, round, grows});
            if (!failure.empty()) break;
            // In turn: a look at what lies there, or the next writer at once.
            if (round % 4 == 0) failure = damage_of(hash_table_reader<u64, std::array<u64, 7>>::attach(name.uri()));
            const table next = table::attach(name.uri());
            settled += next.recovery().operation_settled ? 1 : 0;
            grown.look(next);
            if (failure.empty() && round % 4 <= 1) failure = damage_of(next);
            if (failure.empty()) failure = compare(next, progress, seed, round, counts);
            for (const kill_progress& one : progress) {
                operations += one.completed();
                in_flight += one.in_flight() ? 1 : 0;
            }
            if (!failure.empty()) failure = "round " + std::to_string(round) + ": " + failure;
        }
        EXPECT_EQ(failure, "");
        EXPECT_GT(in_flight, 0U);
        const u64 takeovers = told->takeovers();
        EXPECT_TRUE(sanitized || takeovers + settled > 0);
        RecordProperty("kills", std::to_string(count * round));
        std::printf(
            "%llu kills, %llu inside an operation, %llu operations; %llu takeovers at work, %llu at attaching\n",
            static_cast<unsigned long long>(count * round), static_cast<unsigned long long>(in_flight),
            static_cast<unsigned long long>(operations), static_cast<unsigned long long>(takeovers),
            static_cast<unsigned long long>(settled));
        if (grows) return judge(grown, round, name);
        EXPECT_EQ(grown.generations, 1U);
        told->judge();
    }
    static void judge(const growths& grown, u64 rounds, const unique_posix_name& name) {
        std::printf("%llu rounds of kills found another generation, %llu a growth without a leader\n",
                    static_cast<unsigned long long>(grown.generations), static_cast<unsigned long long>(grown.left));
        EXPECT_GT(grown.generations, rounds / 10);
        EXPECT_TRUE(sanitized || grown.left > 0) << "no leader died in a growth, or others ended each";
        table last = table::attach(name.uri());
        while (last.advance()) {
        }
        EXPECT_FALSE(last.growth_failure().has_value()) << last.growth_failure()->what();
        EXPECT_EQ(damage_of(last), "");
        EXPECT_EQ(name.entries().size(), 2U) << "left behind";
    }
};

TEST_F(HashTableManyKill, TwoAtFullSpeedLoseNothingButWhatTheyWereIn) { run(2, scaled(700), 4); }
TEST_F(HashTableManyKill, ThreeAtFullSpeed) { run(3, scaled(400), 3); }
TEST_F(HashTableManyKill, ThreeThatGrowAndShrinkItAtFullSpeed) { run(3, scaled(250), 4, true); }

}  // namespace
