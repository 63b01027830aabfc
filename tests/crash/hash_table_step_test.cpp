// SPDX-License-Identifier: Apache-2.0
// Every mutating operation of the hash table, stepped one instruction at a time over tables in every state. After each
// changed store the image is what a death would leave, and must be:
//   for readers, at once       every other key as before, this one before or after, nothing torn, no fault
//   for verify(), at once      intact (an armed journal or an open operation is no damage)
//   for the next writer        recover() gives the state before or the state after, never back from what a reader saw
//   for the next operations    they work
// Recovery is stepped in the same way: killed in recovery, the next recovery still gives the same.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/capability.hpp"
#include "support/hash_table_model.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"
#include "support/table_answer.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

enum class fill { empty, half, nearly_full, full, colliding };
constexpr fill every_fill[] = {fill::empty, fill::half, fill::nearly_full, fill::full, fill::colliding};
constexpr const char* fill_names[] = {"empty", "half full", "nearly full", "full", "colliding"};

// A table of 11 buckets (286 slots, 5 pairs) in shared pages, its model, and the numbers of the keys in play.
template <class Shape>
class step_bench {
 public:
    explicit step_bench(fill how, std::uint64_t seed)
        : geometry_(geometry_for<typename Shape::key, typename Shape::value>(250, seed)),
          image_(geometry_.body_bytes()),
          table_(image_.bytes(), geometry_),
          crowd_(how == fill::colliding) {
        const std::uint64_t slots = geometry_.slots();
        const std::uint64_t wanted = how == fill::empty         ? 0
                                     : how == fill::half        ? slots / 2
                                     : how == fill::nearly_full ? slots - 3
                                     : how == fill::full        ? slots
                                                                : 60;
        for (; model_.size() < wanted; ++next_)
            if (in_play(next_) && apply<Shape>(table_, table_operation::try_insert, next_, 1) == table_answer::inserted)
                model_[next_] = 1;
        while (!in_play(next_)) ++next_;
        base_.assign(image_.bytes().begin(), image_.bytes().end());
    }

    // A key that is not in the table, one that is, and one that went past its home bucket where the counters still
    // count (at 15 they stick): only such a key lowers counters when it goes.
    [[nodiscard]] std::uint64_t absent() const { return next_; }
    [[nodiscard]] std::uint64_t present(std::uint64_t random) const {
        if (model_.empty()) return next_;
        auto at = model_.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random % model_.size()));
        return at->first;
    }
    [[nodiscard]] std::uint64_t far() const {
        for (const auto& [n, stamp] : model_) {
            const auto key = nth_key<Shape>(n);
            const auto* bytes = reinterpret_cast<const std::byte*>(&key);
            const auto h = table_.view().hash(bytes);
            const std::uint64_t home = h.home(geometry_.buckets);
            const std::uint64_t bucket = table_.reader().find(bytes, nullptr) / layout::tags_per_line;
            const std::uint8_t count = holdfast::detail::counter_of(table_.view().line(home), h.group());
            if (bucket != home && count < layout::counter_max) return n;
        }
        return absent();
    }

    step_report step(table_operation what, std::uint64_t n) {
        image_.assign(base_);
        table_ = shaped_table<Shape>(image_.bytes(), geometry_);
        hash_table_model after = model_;
        if (after.size() < geometry_.slots() || after.contains(n)) apply(after, what, n, 2);  // else: full, no change
        return single_step(
            image_, [&] { (void)apply<Shape>(table_, what, n, 2); },
            [&](std::span<std::byte> copy) { return check(copy, n, after); });
    }
    /// Steps recount(), where some counters are as years of churn leave them.
    step_report step_recount() {
        image_.assign(base_);
        table_ = shaped_table<Shape>(image_.bytes(), geometry_);
        for (std::uint64_t bucket = 0; bucket < geometry_.buckets; ++bucket)
            for (const unsigned group : {1U, 3U, 10U})
                holdfast::detail::set_counter(table_.view().line(bucket), group, layout::counter_max);
        step_report report = single_step(
            image_, [&] { (void)holdfast::detail::recount(table_.view()); },
            [&](std::span<std::byte> copy) { return check(copy, next_, model_); });
        hash_table_verification found;
        if (report.passed()) report.failure = table_.damage(&found);
        if (report.passed() && found.counters_too_high != 0) report.failure = "a counter is still too high";
        return report;
    }
    [[nodiscard]] const step_report& recovery() const noexcept { return recovery_; }

 private:
    using finder = typename shaped_table<Shape>::finder;

    // Colliding keys share home bucket and overflow class, so that they push each other along one probe sequence.
    [[nodiscard]] bool in_play(std::uint64_t n) const {
        if (!crowd_) return true;
        const auto key = nth_key<Shape>(n);
        const auto h = table_.view().hash(reinterpret_cast<const std::byte*>(&key));
        return h.home(geometry_.buckets) == 4 && h.group() == 3;
    }

    static bool find(const finder& in, const typename Shape::key& key, typename Shape::value& value) {
        return in.find(reinterpret_cast<const std::byte*>(&key), reinterpret_cast<std::byte*>(&value)) !=
               holdfast::detail::no_slot;
    }
    // The keys of the model and the one under way: none beyond next_ was ever used.
    [[nodiscard]] std::string compare(const finder& in, const hash_table_model& with,
                                      std::optional<std::uint64_t> except) const {
        const auto reading = [&](const auto& key, auto& value) { return find(in, key, value); };
        std::string text = difference<Shape>(reading, with, next_ + 1, except);
        if (text.empty() && in.fault()) text = "the reader latched a fault";
        return text;
    }

    std::string check(std::span<std::byte> copy, std::uint64_t n, const hash_table_model& after) {
        const holdfast::detail::table_view<const std::byte, typename shaped_table<Shape>::node> view(copy, geometry_,
                                                                                                     {});
        const finder reader(view);
        if (std::string text = compare(reader, model_, n); !text.empty()) return "a reader: " + text;
        const bool saw_before = compare(reader, model_, std::nullopt).empty();
        const bool saw_after = compare(reader, after, std::nullopt).empty();
        if (!saw_before && !saw_after) return "a reader: " + compare(reader, after, std::nullopt);
        if (std::string text = shaped_table<Shape>::damage_of(view); !text.empty()) return "verify(): " + text;

        if (std::string text = step_recovery(copy, after, saw_before); !text.empty())
            return "killed in recovery: " + text;
        return recovered(copy, after, saw_before);
    }

    // The next writer comes: recovery, comparison, verification, some operations.
    std::string recovered(std::span<std::byte> copy, const hash_table_model& after, bool may_be_before) const {
        shaped_table<Shape> table(copy, geometry_);
        if (table.recovery().journal_rejected) return "recovery rejected the journal of a mere crash";
        std::string text = table.damage();
        if (!text.empty()) return "verify() after recovery: " + text;
        const bool is_after = compare(table.reader(), after, std::nullopt).empty();
        const hash_table_model& now = is_after ? after : model_;
        text = compare(table.reader(), now, std::nullopt);
        if (!text.empty()) return "after recovery: " + text;
        if (!is_after && !may_be_before) return "recovery took back what a reader had seen";
        if (table.writer().size() != now.size())
            return "size " + std::to_string(table.writer().size()) + " instead of " + std::to_string(now.size());
        return go_on(table, now);
    }

    // Erases an entry, inserts the key under way and a new one, assigns to each.
    std::string go_on(shaped_table<Shape>& table, hash_table_model model) const {
        if (!model.empty()) {
            const std::uint64_t victim = model.begin()->first;
            if (apply<Shape>(table, table_operation::erase, victim, 3) != table_answer::erased)
                return "the next erase failed";
            apply(model, table_operation::erase, victim, 3);
        }
        for (const table_operation what :
             {table_operation::try_insert, table_operation::insert_or_assign, table_operation::update}) {
            (void)apply<Shape>(table, what, next_, 4);
            if (model.size() < geometry_.slots() || model.contains(next_)) apply(model, what, next_, 4);
        }
        std::string text = compare(table.reader(), model, std::nullopt);
        if (text.empty()) text = table.damage();
        return text.empty() ? text : "after the next operations: " + text;
    }

    // Recovery itself stepped (once per kind of unfinished state: most images have nothing to recover).
    std::string step_recovery(std::span<const std::byte> copy, const hash_table_model& after, bool may_be_before) {
        const std::size_t journal = geometry_.journal_offset;
        std::uint64_t sequence = 0, intent = 0;
        std::memcpy(&sequence, copy.data() + journal + layout::journal_sequence_offset, 8);
        std::memcpy(&intent, copy.data() + journal + layout::journal_intent_offset, 8);
        if (sequence % 2 == 0 && !holdfast::detail::hash_table_intent{intent}.is_open()) return {};
        shared_image again(copy.size());
        again.assign(copy);
        const holdfast::detail::table_view<std::byte, typename shaped_table<Shape>::node> view(again.bytes(), geometry_,
                                                                                               {});
        const step_report report = single_step(
            again, [&] { holdfast::detail::recover(view); },
            [&](std::span<std::byte> image) { return recovered(image, after, may_be_before); });
        recovery_ += report;
        return report.failure;
    }

    layout::hash_table_geometry geometry_;
    shared_image image_;
    shaped_table<Shape> table_;
    bool crowd_;
    std::uint64_t next_ = 0;
    hash_table_model model_;
    std::vector<std::byte> base_;
    step_report recovery_;
};

template <class Shape>
class HashTableStep : public ::testing::Test {};
using shapes = ::testing::Types<narrow_shape, wide_shape, crooked_shape>;
struct shape_names {
    template <class Shape>
    static std::string GetName(int) {
        return Shape::name;
    }
};
TYPED_TEST_SUITE(HashTableStep, shapes, shape_names);

TYPED_TEST(HashTableStep, EveryImageOfEveryOperationIsBeforeOrAfter) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    seeded_random random;
    step_report total, recovery;
    for (std::uint64_t round = 0; round < std::max<std::uint64_t>(1, scaled(1)); ++round) {
        for (const fill how : every_fill) {
            step_bench<TypeParam> bench(how, random());
            for (const table_operation what : {table_operation::try_insert, table_operation::insert_or_assign,
                                               table_operation::update, table_operation::erase}) {
                for (const std::uint64_t n : {bench.absent(), bench.present(random()), bench.far()}) {
                    const step_report report = bench.step(what, n);
                    ASSERT_EQ(report.failure, "")
                        << name_of(what) << " of key " << n << ", table " << fill_names[static_cast<int>(how)];
                    total += report;
                }
            }
            recovery += bench.recovery();
        }
    }
    this->RecordProperty("steps", std::to_string(total.steps));
    this->RecordProperty("images", std::to_string(total.images));
    this->RecordProperty("recovery_steps", std::to_string(recovery.steps));
    this->RecordProperty("recovery_images", std::to_string(recovery.images));
    std::printf("%s: %llu instructions, %llu images; of recovery %llu instructions, %llu images; %.1f s\n",
                TypeParam::name, static_cast<unsigned long long>(total.steps),
                static_cast<unsigned long long>(total.images), static_cast<unsigned long long>(recovery.steps),
                static_cast<unsigned long long>(recovery.images), total.seconds);
}

// recount() lowers counters while readers look: killed anywhere in it, no key is lost, and the next writer goes on.
TEST(HashTableStepRecount, EveryImageInEveryStateKeepsEveryKey) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    seeded_random random;
    step_report total;
    for (const fill how : every_fill) {
        step_bench<narrow_shape> bench(how, random());
        const step_report report = bench.step_recount();
        ASSERT_EQ(report.failure, "") << "table " << fill_names[static_cast<int>(how)];
        EXPECT_GT(report.images, 16U);
        total += report;
    }
    tell_more("steps", total.steps);
    tell_more("images", total.images);
}

// The test's own teeth: a wide update that stores into the node without the journal must be found torn.
TEST(HashTableStepTeeth, AWideUpdateWithoutTheJournalIsFound) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    using table = shaped_table<wide_shape>;
    const auto geometry = geometry_for<wide_shape::key, wide_shape::value>(50);
    shared_image image(geometry.body_bytes());
    table writer(image.bytes(), geometry);
    ASSERT_EQ(apply<wide_shape>(writer, table_operation::try_insert, 1, 1), table_answer::inserted);
    const auto key = nth_key<wide_shape>(1);
    const auto value = stamped_value<wide_shape>(1, 2);
    const std::uint64_t slot = writer.reader().find(table::as_bytes(key), nullptr);
    std::byte* const node =
        writer.view().node_at(slot / layout::tags_per_line, static_cast<unsigned>(slot % layout::tags_per_line));
    const step_report report = single_step(
        image,
        [&] { holdfast::detail::copy_to_words(node, geometry.value_offset, table::as_bytes(value), sizeof value); },
        [&](std::span<std::byte> copy) -> std::string {
            table next(copy, geometry);
            wide_shape::value seen{};
            return next.find(key, seen) && stamp_of<wide_shape>(1, seen) ? "" : "torn";
        });
    EXPECT_NE(report.failure.find("torn"), std::string::npos) << report.failure;
}

}  // namespace
