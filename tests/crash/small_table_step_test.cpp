// SPDX-License-Identifier: Apache-2.0
// Every operation of a small table's writer, stepped one instruction at a time in every state of the table. After each
// changed byte the image is what a death would leave, and must be:
//   for readers, at once        the state before or the state after; the same for one that has just come, for one that
//                               looks at each image and for one whose keys are those of before
//   for verify(), at once       intact
//   for the next writer         before or after, never back from what a reader saw, with the change ended; its next
//                               operations work, and a second recovery changes nothing
// Recovery is stepped in the same way. What a death leaves of a single store is tried in array_step_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "support/capability.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"
#include "support/small_table_model.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;

constexpr u64 keys = 8, capacity = 6;
using numbers = small_numbers<keys>;

enum class fill { empty, half, one_place_left, full, places_used_again };
constexpr fill every_fill[] = {fill::empty, fill::half, fill::one_place_left, fill::full, fill::places_used_again};
constexpr const char* fill_names[] = {"empty", "half full", "one place left", "full", "places used again"};

enum class operation { try_insert, assign, update, erase };
constexpr operation every_operation[] = {operation::try_insert, operation::assign, operation::update, operation::erase};
constexpr const char* operation_names[] = {"try_insert", "insert_or_assign", "update", "erase"};

constexpr u64 new_number = 9;

outcome operate(small_image::mutator& table, operation what, u64 key) {
    const small_value value = small_value_of(key, new_number);
    switch (what) {
        case operation::try_insert: return table.try_insert(key, value);
        case operation::assign: return table.insert_or_assign(key, value);
        case operation::update: return table.update(key, value);
        case operation::erase: return table.erase(key);
    }
    return outcome::corrupt;
}
/// What the operation makes of the numbers. Returns: whether it changes the table.
bool carry_into(numbers& to, operation what, u64 key) {
    const bool there = to[key] != 0, full = count_of(to) == capacity;
    const bool changes = what == operation::erase || what == operation::update ? there
                         : what == operation::assign                           ? there || !full
                                                                               : !there && !full;
    if (changes) to[key] = what == operation::erase ? 0 : new_number;
    return changes;
}

class step_bench {
 public:
    explicit step_bench(fill how) : geometry_(small_image::plan(capacity)), image_(geometry_.body_bytes()) {
        small_image table(image_.bytes(), geometry_);
        const auto put = [&](u64 key, u64 number) {
            (void)table.writer().try_insert(key, small_value_of(key, number));
            before_[key] = number;
        };
        const u64 count = how == fill::empty            ? 0
                          : how == fill::half           ? capacity / 2
                          : how == fill::one_place_left ? capacity - 1
                                                        : capacity;
        for (u64 key = 0; key < count; ++key) put(key, key + 1);
        for (u64 key = 0; key < 3 && how == fill::places_used_again; ++key) {
            (void)table.writer().erase(key);
            before_[key] = 0;
        }
        if (how == fill::places_used_again) put(keys - 1, 5);
        base_.assign(image_.bytes().begin(), image_.bytes().end());
    }

    /// Steps one operation of a writer that has just attached.
    step_report step(operation what, u64 key) {
        image_.assign(base_);
        small_image table(image_.bytes(), geometry_);
        after_ = before_;
        const bool changes = carry_into(after_, what, key);
        seen_after_ = false;
        seldom_.reset();
        always_.reset();
        step_report report = single_step(
            image_, [&] { (void)operate(table.writer(), what, key); },
            [&](std::span<std::byte> copy) { return check(copy); });
        if (report.failure.empty() && (report.images > 1) != changes)
            report.failure = changes ? "its stores were not seen" : "what changes nothing stores";
        if (report.failure.empty() && seen_after_ != changes) report.failure = "it did not come to its end";
        return report;
    }
    [[nodiscard]] const step_report& recovery() const noexcept { return recovery_; }
    [[nodiscard]] const numbers& before() const noexcept { return before_; }

 protected:
    enum allowed : unsigned { before_only = 1, after_only = 2 };

    // Which of the states before and after a reader finds.
    std::string state_of(small_image::finder& in, unsigned& state) const {
        numbers found{};
        if (std::string why = look_up_all(in, found); !why.empty()) return why;
        state = (found == before_ ? before_only : 0U) | (found == after_ ? after_only : 0U);
        return state == 0 ? "neither before nor after" : "";
    }
    std::string differs(small_image::finder& in, unsigned wanted) const {
        unsigned seen = 0;
        const std::string why = state_of(in, seen);
        return !why.empty() || seen == wanted ? why : "readers disagree";
    }

    // Before anybody comes: `copy` is the same memory for each image, so readers can have been there.
    std::string check(std::span<std::byte> copy) {
        small_image::finder fresh = small_image::reader_of(copy, geometry_);
        if (!seldom_) {
            seldom_ = fresh;
            (void)small_image::number_of(*seldom_, 0);  // arranges the keys of before
            always_ = seldom_;
        }
        unsigned seen = 0;
        if (std::string why = state_of(fresh, seen); !why.empty()) return "a new reader: " + why;
        small_image::finder seldom = *seldom_;
        if (std::string why = differs(seldom, seen); !why.empty()) return "a reader of earlier keys: " + why;
        if (std::string why = differs(*always_, seen); !why.empty()) return "a reader: " + why;
        if (seen_after_ && (seen & after_only) == 0) return "a reader went back";
        seen_after_ = (seen & after_only) != 0 && after_ != before_;
        if (std::string why = small_image::damage_of(fresh); !why.empty()) return "verify: " + why;
        if (std::string why = step_recovery(copy, seen); !why.empty()) return "killed in recovery: " + why;
        return recovered(copy, seen);
    }

    // The next writer comes, of a table of which readers saw `allow`.
    std::string recovered(std::span<std::byte> copy, unsigned allow) const {
        unsigned seen = 0;
        small_image::finder reader = small_image::reader_of(copy, geometry_);
        if (std::string why = differs(reader, allow); !why.empty()) return why;
        small_image next(copy, geometry_);
        if (next.array().journal_rejected || next.writer().done().doubles != 0) return "recovery found damage";
        if (std::string why = state_of(reader, seen); !why.empty()) return "recovered: " + why;
        if (seen != allow) return "recovered: what was seen is taken back";
        if (std::string why = small_image::damage_of(reader); !why.empty()) return "recovered, verify: " + why;
        if (holdfast::detail::is_changing(reader.generation())) return "recovered: the change is still open";
        const std::vector<std::byte> once(copy.begin(), copy.end());
        next = small_image(copy, geometry_);
        if (!std::equal(once.begin(), once.end(), copy.begin())) return "recovery is not idempotent";
        return empty_and_fill<keys>(next, reader, capacity);
    }

    // From one in two images, since stepping each takes the square of their number; in the long run from each.
    std::string step_recovery(std::span<const std::byte> copy, unsigned allow) {
        if (looked_++ % one_in_so_many(2) != 0) return {};
        shared_image again(copy.size());
        again.assign(copy);
        const step_report report = single_step(
            again, [&] { small_image(again.bytes(), geometry_); },
            [&](std::span<std::byte> image) { return recovered(image, allow); });
        recovery_ += report;
        return report.failure;
    }

    layout::array_geometry geometry_;
    shared_image image_;
    numbers before_{}, after_{};
    std::vector<std::byte> base_;
    std::optional<small_image::finder> seldom_, always_;  // one looks at the first image alone, the other at each
    bool seen_after_ = false;
    step_report recovery_;
    u64 looked_ = 0;
};

TEST(SmallTableStep, EveryImageOfEveryOperationIsBeforeOrAfter) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    step_report total, recovery;
    for (const fill how : every_fill) {
        step_bench bench(how);
        for (const operation what : every_operation) {
            // One that is there and one that is not, where there are such.
            std::vector<u64> tried;
            for (const bool there : {false, true})
                for (u64 key = keys; key-- > 0;)
                    if ((bench.before()[key] != 0) == there) {
                        tried.push_back(key);
                        break;
                    }
            for (const u64 key : tried) {
                const step_report report = bench.step(what, key);
                ASSERT_EQ(report.failure, "") << operation_names[static_cast<int>(what)] << " of key " << key << ", "
                                              << fill_names[static_cast<int>(how)];
                total += report;
            }
        }
        recovery += bench.recovery();
    }
    EXPECT_GT(recovery.images, 20U);
    RecordProperty("steps", std::to_string(total.steps));
    RecordProperty("images", std::to_string(total.images));
    RecordProperty("recovery_steps", std::to_string(recovery.steps));
    std::printf("%llu instructions, %llu images; of recovery from %s %llu instructions, %llu images; %.1f s\n",
                static_cast<unsigned long long>(total.steps), static_cast<unsigned long long>(total.images),
                one_in_so_many(2) == 1 ? "each" : "one in two", static_cast<unsigned long long>(recovery.steps),
                static_cast<unsigned long long>(recovery.images), total.seconds);
}

// The test's own teeth: writers that tell readers of a new key too late, or not at all.
enum class sabotage { no_generation, generation_first };

class SmallTableStepTeeth : public ::testing::TestWithParam<sabotage>, public step_bench {
 protected:
    SmallTableStepTeeth() : step_bench(fill::half) {}

    step_report insert_badly(u64 key) {
        using mutator = holdfast::detail::array_mutator<small_image::mutator::element>;
        using entry = small_image::mutator::entry;
        mutator array(small_image::mutator::view(image_.bytes(), geometry_, {}));
        const u64 generation = small_image::reader_of(image_.bytes(), geometry_).generation();
        const auto store = [&](u64 place, const entry& e) {
            array.store(place, 1, reinterpret_cast<const std::byte*>(&e), sizeof e);
        };
        after_ = before_;
        after_[key] = new_number;
        return single_step(
            image_,
            [&] {
                if (GetParam() == sabotage::generation_first) {
                    store(0, {0, generation + 1, {}});
                    store(0, {0, generation + 2, {}});
                }
                store(capacity, {key, holdfast::detail::small_table_used, small_value_of(key, new_number)});
            },
            [&](std::span<std::byte> copy) { return check(copy); });
    }
};

TEST_P(SmallTableStepTeeth, ASabotagedInsertIsFound) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    const step_report report = insert_badly(5);
    EXPECT_NE(report.failure.find("readers disagree"), std::string::npos) << report.failure;
}
INSTANTIATE_TEST_SUITE_P(Ways, SmallTableStepTeeth,
                         ::testing::Values(sabotage::no_generation, sabotage::generation_first), [](const auto& s) {
                             return std::string(s.param == sabotage::no_generation ? "NoGeneration"
                                                                                   : "GenerationFirst");
                         });

}  // namespace
