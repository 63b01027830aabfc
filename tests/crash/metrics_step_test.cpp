// SPDX-License-Identifier: Apache-2.0
// The metrics' operations stepped one instruction at a time. After each changed byte the image is what a death would
// leave, and must be:
//   a counter set        for readers: all names and values of before; the name under way is not there, or it is, at its
//                        value of before or after. For whoever asks for that name next: it is completed where it was
//                        begun; every other name still finds room, in whatever order they come
//   a latency histogram  the counts of before or after; sum and extremes of before or after, and no quantile's bounds
//                        miss a sample that is counted; the next owner of the shard counts on
//   the block estimator  the finished blocks of before or after; the next writer goes on
// Taking up a name that a death left behind is stepped in the same way, from every image.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/metrics/max_of_n.hpp"
#include "support/capability.hpp"
#include "support/metrics_model.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using holdfast::detail::counter_slots;
using holdfast::detail::latency_shards;
using u64 = std::uint64_t;

void tell(const step_report& total, const step_report& recovery) {
    ::testing::Test::RecordProperty("steps", std::to_string(total.steps));
    ::testing::Test::RecordProperty("images", std::to_string(total.images));
    ::testing::Test::RecordProperty("recovery_steps", std::to_string(recovery.steps));
    std::printf("%llu instructions, %llu images; of taking up %llu instructions, %llu images; %.1f s\n",
                static_cast<unsigned long long>(total.steps), static_cast<unsigned long long>(total.images),
                static_cast<unsigned long long>(recovery.steps), static_cast<unsigned long long>(recovery.images),
                total.seconds);
}

// ---- counters ----------------------------------------------------------------------------------------------------

enum class fill { empty, others, nearly_full, full, left_over, others_left_over, twin_there };
constexpr std::array<const char*, 7> fill_names{"empty",          "half full",           "room for one",
                                                "no room",        "begun by a dead one", "the other's words left",
                                                "the other there"};

class counter_bench {
 public:
    /// `name` is to be registered next. `left`: words that a dead one left of it, or of the one like it.
    counter_bench(fill how, std::size_t name, std::size_t left)
        : name_(name), image_((how == fill::full ? counter_names - 1 : counter_names) * sizeof(layout::counter_slot)) {
        const auto put = [&](std::size_t other) {
            counter(set(image_.bytes()).install(words_of_name(other))->value).add(before_[other].emplace(10 + other));
        };
        for (std::size_t other = 0; other < counter_names; ++other) {
            const bool in_half = how == fill::others && other > 2;
            const bool in_all = how == fill::nearly_full || how == fill::full;
            if (other != name && (in_half || in_all || (how == fill::left_over && other == last_name))) put(other);
        }
        const std::size_t other = name == twin_name ? other_twin : twin_name;
        if (how == fill::left_over) (void)set(image_.bytes()).install(prefix_of(words_of_name(name), left));
        if (how == fill::others_left_over) (void)set(image_.bytes()).install(prefix_of(words_of_name(other), left));
        if (how == fill::twin_there) put(other);
        left_over_ = set(image_.bytes()).for_each([](auto...) {}).unfinished;
        base_.assign(image_.bytes().begin(), image_.bytes().end());
    }

    /// Registers it and counts.
    step_report step(u64 amount) {
        image_.assign(base_);
        after_ = before_;
        const bool room = !has_no_room(slots_in(image_.bytes()), words());
        if (room) after_[name_] = before_[name_].value_or(0) + amount;
        was_there_ = false;
        step_report report = single_step(
            image_,
            [&] {
                layout::counter_slot* const slot = set(image_.bytes()).install(words());
                if (slot != nullptr) counter(slot->value).add(amount);
            },
            [&](std::span<std::byte> copy) { return check(copy); });
        if (report.failure.empty() && last_ != after_[name_]) report.failure = "it did not come to its end";
        return report;
    }
    [[nodiscard]] const step_report& taking_up() const noexcept { return taking_up_; }

    /// Teeth: words that come in another order.
    step_report step_backwards() {
        image_.assign(base_);
        after_ = before_;
        after_[name_] = 0;
        return single_step(
            image_,
            [&] {
                layout::counter_slot& slot = slots_in(image_.bytes())[0];
                for (std::size_t i = length_of(words()); i-- > 0;) slot.words[i].store(words()[i]);
            },
            [&](std::span<std::byte> copy) { return check(copy); });
    }

 private:
    [[nodiscard]] static counter_slots set(std::span<std::byte> bytes) {
        return {bytes, bytes.size() / sizeof(layout::counter_slot), "test"};
    }
    [[nodiscard]] const layout::counter_name_words& words() const { return words_of_name(name_); }
    [[nodiscard]] bool holds(const counter_values& found, const counter_values& wanted) const {
        for (std::size_t n = 0; n < counter_names; ++n)
            if (n != name_ && found[n] != wanted[n]) return false;
        return true;
    }

    std::string check(std::span<std::byte> copy) {
        const counters_found found = counters_in(set(copy));
        if (!found.wrong.empty()) return found.wrong;
        if (found.unfinished > left_over_ + 1) return "more was left behind than one name";
        if (!holds(found.values, before_)) return "a name or value that was there is another";
        const auto& now = found.values[name_];
        const bool there = now.has_value();
        if (was_there_ && !there) return "a name that was there has gone";
        was_there_ = there;
        last_ = now;
        if (there && now != after_[name_] && *now != before_[name_].value_or(0)) return "its value is neither of both";
        if (std::string why = differs_by_name(set(copy), found.values); !why.empty()) return why;
        if (std::string why = step_taking_up(copy); !why.empty()) return "killed as it was taken up: " + why;
        return goes_on(copy, found.values);
    }

    // Whoever asks for the name next; and all others, in two orders.
    [[nodiscard]] std::string goes_on(std::span<std::byte> copy, const counter_values& values) const {
        std::vector<std::byte> other_order(copy.begin(), copy.end());
        std::array<std::size_t, counter_names> order{};
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(name_), order.end());
        if (std::string why = all_find_room(copy, order, values); !why.empty()) return why;
        std::reverse(order.begin(), order.end());
        // Aligned as the set needs it: 8 bytes.
        return all_find_room(other_order, order, values);
    }
    [[nodiscard]] std::string all_find_room(std::span<std::byte> bytes,
                                            const std::array<std::size_t, counter_names>& order,
                                            counter_values values) const {
        const counter_slots next = set(bytes);
        std::size_t refused = 0;
        for (const std::size_t name : order) {
            layout::counter_slot* const slot = next.install(words_of_name(name));
            refused += slot == nullptr ? 1 : 0;
            if (slot == nullptr && !has_no_room(slots_in(bytes), words_of_name(name)))
                return "refused, though there is room";
            if (slot == nullptr) continue;
            counter(slot->value).add(3);
            values[name] = values[name].value_or(0) + 3;
        }
        if (refused + slots_in(bytes).size() != counter_names)
            return "a slot is lost: " + std::to_string(refused) + " names find none";
        const counters_found found = counters_in(next);
        if (!found.wrong.empty()) return "gone on: " + found.wrong;
        if (found.unfinished != 0) return "gone on: a name is left unfinished";
        if (found.values != values) return "gone on: other values than were counted";
        const std::vector<std::byte> once(bytes.begin(), bytes.end());
        for (const std::size_t name : order) (void)next.install(words_of_name(name));
        return std::equal(once.begin(), once.end(), bytes.begin()) ? "" : "asking for a name that is there stores";
    }

    std::string step_taking_up(std::span<const std::byte> copy) {
        shared_image again(copy.size());
        again.assign(copy);
        const counter_values values = counters_in(set(again.bytes())).values;
        const step_report report = single_step(
            again, [&] { (void)set(again.bytes()).install(words()); },
            [&](std::span<std::byte> image) -> std::string {
                const counters_found found = counters_in(set(image));
                if (!found.wrong.empty()) return found.wrong;
                if (!holds(found.values, values)) return "a name or value that was there is another";
                counter_values now = values;
                now[name_] = found.values[name_];
                return goes_on(image, now);
            });
        taking_up_ += report;
        return report.failure;
    }

    std::size_t name_;
    shared_image image_;
    counter_values before_{}, after_{};
    std::size_t left_over_ = 0;
    std::vector<std::byte> base_;
    bool was_there_ = false;
    std::optional<u64> last_;
    step_report taking_up_;
};

TEST(CounterSetStep, EveryImageOfRegisteringAndCountingIsBeforeOrAfter) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    step_report total, taking_up;
    const auto step = [&](fill how, std::size_t name, std::size_t left) {
        counter_bench bench(how, name, left);
        const step_report report = bench.step(7);
        EXPECT_EQ(report.failure, "") << "name " << name << ", " << fill_names[static_cast<std::size_t>(how)] << ", "
                                      << left << " words left";
        EXPECT_EQ(report.images > 1, how != fill::full) << "its stores were not seen";
        total += report;
        taking_up += bench.taking_up();
    };
    for (std::size_t name = 0; name < counter_names; ++name) {
        for (const fill how : {fill::empty, fill::others, fill::nearly_full, fill::full}) step(how, name, 0);
        for (std::size_t left = 1; left < length_of(words_of_name(name)); ++left)
            if (left < 3 || left > 21) step(fill::left_over, name, left);
    }
    for (const std::size_t twin : {twin_name, other_twin}) {
        for (std::size_t left = 1; left < length_of(words_of_name(twin)); ++left)
            step(fill::others_left_over, twin, left);
        step(fill::twin_there, twin, 0);
    }
    EXPECT_GT(taking_up.images, 1000U);
    tell(total, taking_up);
}

TEST(CounterSetStepTeeth, ANameThatIsPutInBackwardsIsFound) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    const step_report report = counter_bench(fill::empty, twin_name, 0).step_backwards();
    EXPECT_NE(report.failure.find("a slot is lost"), std::string::npos) << report.failure;
}

// ---- latencies ---------------------------------------------------------------------------------------------------

enum class shard_state { fresh, used, nearly_full_word, full_word };
constexpr std::array<const char*, 4> shard_state_names{"fresh", "used", "a word nearly full", "a full word"};

/// Tells where its records go, and which values are counted.
class latency_bench {
 public:
    static constexpr std::size_t shards = 2;  // one to own, and the one that all share
    static constexpr u64 full_value = 5000;

    explicit latency_bench(shard_state how) : image_(layout::latency_shard_bytes(shards)) {
        if (how != shard_state::fresh)
            for (std::size_t shard = 0; shard < shards; ++shard)
                for (const u64 value : {100U, 7000U, 7001U}) {
                    auto line = at(image_.bytes()).line(shard);
                    holdfast::detail::record_value(line, value);
                }
        auto& word = at(image_.bytes())[0].counts[log_linear::bucket_of(full_value)];
        if (how == shard_state::nearly_full_word) word = std::numeric_limits<std::uint32_t>::max() - 1;
        if (how == shard_state::full_word) word = std::numeric_limits<std::uint32_t>::max();
        base_.assign(image_.bytes().begin(), image_.bytes().end());
    }

    step_report step(std::size_t shard, u64 value) {
        image_.assign(base_);
        auto line = at(image_.bytes()).line(shard);
        return step_of(shard, value, [&] { holdfast::detail::record_value(line, value); });
    }
    template <class Record>
    step_report step_of(std::size_t shard, u64 value, Record&& record) {
        const histogram_counts before = at(image_.bytes()).merged();
        histogram_counts after = before;
        after.record(value);
        bool counted = false;
        step_report report =
            single_step(image_, std::forward<Record>(record), [&](std::span<std::byte> copy) -> std::string {
                const histogram_counts now = at(copy).merged();
                if (std::string why = is_between(now, before, after); !why.empty()) return why;
                const bool is_after = now.total() == after.total();
                if (counted && !is_after) return "a record was taken back";
                counted = is_after;
                histogram_counts then = now;
                auto next = at(copy).line(shard);
                holdfast::detail::record_value(next, 6000);
                then.add(log_linear::bucket_of(6000), 1);
                return same_counts(at(copy).merged(), then) ? "" : "the next owner's record is not counted";
            });
        if (report.failure.empty() && !counted) report.failure = "it did not come to its end";
        if (report.failure.empty()) report.failure = is_between(at(image_.bytes()).merged(), after, after);
        return report;
    }
    /// Takes the shard by its word, or gives it back.
    step_report step_claim(bool give_back) {
        image_.assign(base_);
        if (give_back) (void)at(image_.bytes()).claim(0);
        const histogram_counts before = at(image_.bytes()).merged();
        unsigned changes = 0;
        bool was_free = !give_back;
        return single_step(
            image_,
            [&] {
                if (give_back) return at(image_.bytes()).give_back(0);
                (void)at(image_.bytes()).claim(0);
            },
            [&](std::span<std::byte> copy) -> std::string {
                if (is_between(at(copy).merged(), before, before) != "") return "counts have changed";
                const bool is_free = at(copy).claim(0);
                if (!at(copy).line(0).shard || at(copy).claim(0)) return "a shard has two owners";
                changes += is_free != was_free ? 1 : 0;
                was_free = is_free;
                return changes < 2 ? "" : "claimed and free by turns";
            });
    }
    [[nodiscard]] std::span<std::byte> bytes() noexcept { return image_.bytes(); }
    [[nodiscard]] static latency_shards at(std::span<std::byte> bytes) { return {bytes, shards, "test"}; }

 private:
    [[nodiscard]] static bool same_counts(const histogram_counts& a, const histogram_counts& b) {
        return std::equal(a.counts().begin(), a.counts().end(), b.counts().begin());
    }
    static std::string is_between(const histogram_counts& now, const histogram_counts& before,
                                  const histogram_counts& after) {
        if (!same_counts(now, before) && !same_counts(now, after)) return "the counts are neither of both";
        if (now.sum() != before.sum() && now.sum() != after.sum()) return "the sum is neither of both";
        if (now.least_noted() != before.least_noted() && now.least_noted() != after.least_noted())
            return "no such least";
        if (now.greatest_noted() != before.greatest_noted() && now.greatest_noted() != after.greatest_noted())
            return "no such greatest";
        // What is counted lies within the bounds that are said of it.
        const histogram_counts& counted = same_counts(now, after) ? after : before;
        const auto least = now.quantile(0), greatest = now.quantile(1);
        if (least.has_value() != (counted.total() != 0)) return "a quantile of nothing, or none";
        if (!least || counted.least_noted() > counted.greatest_noted()) return {};
        return least->lower <= counted.least_noted() && greatest->upper >= counted.greatest_noted()
                   ? ""
                   : "a sample lies beyond the bounds";
    }

    shared_image image_;
    std::vector<std::byte> base_;
};

TEST(LatencyHistogramStep, EveryImageOfARecordIsBeforeOrAfter) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    step_report total;
    for (const shard_state how :
         {shard_state::fresh, shard_state::used, shard_state::nearly_full_word, shard_state::full_word}) {
        latency_bench bench(how);
        std::vector<u64> values(some_latencies.begin(), some_latencies.end());
        values.insert(values.end(), {99, 7000, 7002});
        for (std::size_t shard = 0; shard < latency_bench::shards; ++shard)
            for (const u64 value : values) {
                const step_report report = bench.step(shard, value);
                EXPECT_EQ(report.failure, "")
                    << value << " in shard " << shard << ", " << shard_state_names[static_cast<std::size_t>(how)];
                EXPECT_GT(report.images, 1U) << "its stores were not seen";
                total += report;
            }
    }
    tell(total, {});
}

TEST(LatencyHistogramStep, EveryImageOfTakingAShardIsTakenOrFree) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    step_report total;
    for (const bool give_back : {false, true}) {
        const step_report report = latency_bench(shard_state::used).step_claim(give_back);
        EXPECT_EQ(report.failure, "");
        EXPECT_EQ(report.images, 2U);
        total += report;
    }
    tell(total, {});
}

TEST(LatencyHistogramStepTeeth, ARecordInTwoPlacesIsFound) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    latency_bench bench(shard_state::used);
    auto own = latency_bench::at(bench.bytes()).line(0), shared = latency_bench::at(bench.bytes()).line(1);
    const step_report report = bench.step_of(0, 7000, [&] {
        holdfast::detail::record_value(own, 7000);
        holdfast::detail::record_value(shared, 7000);
    });
    EXPECT_NE(report.failure.find("neither of both"), std::string::npos) << report.failure;
}

// ---- the block estimator -----------------------------------------------------------------------------------------

TEST(MaxOfNStep, EveryImageOfARecordIsBeforeOrAfter) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    constexpr u64 n = 3;
    shared_image image(sizeof(max_of_n_state));
    const auto state_in = [](std::span<std::byte> bytes) -> max_of_n_state& {
        return *reinterpret_cast<max_of_n_state*>(bytes.data());
    };
    step_report total;
    for (u64 earlier = 0; earlier < 3 * n; ++earlier)
        for (const std::int64_t sample : {1, 50, 1000}) {
            state_in(image.bytes()) = {};
            max_of_n writer(state_in(image.bytes()), n);
            for (u64 i = 0; i < earlier; ++i) writer.record(static_cast<std::int64_t>(10 + i));
            const max_of_n_total before = writer.total();
            max_of_n_state other = state_in(image.bytes());
            max_of_n(other, n).record(sample);
            const max_of_n_total after = read(other);
            const auto is = [](const max_of_n_total& a, const max_of_n_total& b) {
                return a.blocks == b.blocks && a.sum == b.sum;
            };
            const step_report report = single_step(
                image, [&] { writer.record(sample); },
                [&](std::span<std::byte> copy) -> std::string {
                    const max_of_n_total now = read(state_in(copy));
                    if (!is(now, before) && !is(now, after)) return "the finished blocks are neither of both";
                    max_of_n next(state_in(copy), n);
                    for (u64 i = 0; next.total().blocks == now.blocks; ++i) {
                        if (i == n) return "the next block has no end";
                        next.record(2000);
                    }
                    return next.total().sum == now.sum + 2000 ? "" : "the next block has another maximum";
                });
            EXPECT_EQ(report.failure, "") << "sample " << sample << " behind " << earlier;
            total += report;
        }
    tell(total, {});
}

}  // namespace
