// SPDX-License-Identifier: Apache-2.0
// Every store of the array, of one element and of ranges, stepped one instruction at a time. After each changed byte
// the image is what a death would leave, and must be:
//   for readers, at once       every other element as before, these before or after, nothing torn; wide ones all at
//   once for verify(), at once      intact (a record under way is no damage) for the next writer        recover() gives
//   the state before or the state after, never back from what a reader saw for the next stores        they work
// Recovery is stepped in the same way: killed in recovery, the next recovery still gives the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "support/array_model.hpp"
#include "support/capability.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;
using range = holdfast::detail::element_range;

// How full the array is, and what its journal holds.
enum class fill { zero, some, all, all_by_ranges };
constexpr fill every_fill[] = {fill::zero, fill::some, fill::all, fill::all_by_ranges};
constexpr const char* fill_names[] = {"zero", "partly stored", "all stored", "all stored by ranges"};

template <class Shape>
class step_bench {
 public:
    using value = typename Shape::value;
    using image_type = array_image<value>;

    /// `each`: recovery is stepped from every unfinished image.
    step_bench(fill how, u64 seed, bool each)
        : stepped_every_(each || sizeof(value) <= 40 ? 1
                         : sizeof(value) < 100       ? 2
                                                     : 100),
          geometry_(layout::plan_array(Shape::size, sizeof(value))),
          image_(geometry_.body_bytes()),
          model_(Shape::size, 0) {
        image_type array(image_.bytes(), geometry_);
        const u64 piece = std::min<u64>(geometry_.range_max, 20);
        for (u64 i = 0; i < Shape::size && how != fill::zero;) {
            const u64 count = how == fill::all_by_ranges ? std::min(piece, Shape::size - i) : 1;
            if (how != fill::some || random_at(seed, 0, i) % 2 == 0) {
                array.store(i, count, 1);
                std::fill_n(model_.begin() + static_cast<std::ptrdiff_t>(i), count, 1);
            }
            i += count;
        }
        base_.assign(image_.bytes().begin(), image_.bytes().end());
    }

    step_report step(range wanted) {
        image_.assign(base_);
        image_type array(image_.bytes(), geometry_);
        array_model after = model_;
        std::fill_n(after.begin() + static_cast<std::ptrdiff_t>(wanted.first), wanted.count, 2);
        std::vector<value> values;
        for (u64 i = 0; i < wanted.count; ++i) values.push_back(stamped_element<value>(wanted.first + i, 2));
        const step_report report = single_step(
            image_, [&] { array.put(wanted.first, values); },
            [&](std::span<std::byte> copy) { return check(copy, wanted, after); });
        if (report.failure.empty() && report.images < 5) return {0, 0, 0, "too few images: nothing was stored"};
        return report;
    }
    [[nodiscard]] const step_report& recovery() const noexcept { return recovery_; }
    /// It is stepped from one in so many of the images that a store leaves unfinished.
    [[nodiscard]] u64 stepped_every() const noexcept { return stepped_every_; }
    /// Images of stores that were not committed and had made versions odd.
    [[nodiscard]] u64 dropped() const noexcept { return dropped_; }
    [[nodiscard]] const layout::array_geometry& geometry() const noexcept { return geometry_; }

 private:
    using loader = typename image_type::loader;

    // What a reader sees of the elements under way: how many are of the store, as single loads and as ranges.
    std::string look(const loader& reader, range wanted, const array_model& after, u64& seen_after) const {
        seen_after = 0;
        for (u64 i = 0; i < model_.size(); ++i) {
            const auto stamp = image_type::stamp_at(reader, i);
            const std::string name = "element " + std::to_string(i);
            if (!stamp) return name + " is torn, foreign or cannot be read";
            if (*stamp != model_[i] && *stamp != after[i]) return name + " is of store " + std::to_string(*stamp);
            if (wanted.holds(i) && *stamp == after[i]) ++seen_after;
        }
        if (!geometry_.wide()) return {};
        if (seen_after != 0 && seen_after != wanted.count) return "a store of wide elements is seen in part";
        std::vector<value> values(wanted.count);
        if (reader.load_range(wanted.first, wanted.count, reinterpret_cast<std::byte*>(values.data())) != outcome::ok)
            return "the range cannot be read";
        u64 in_range = 0;
        for (u64 i = 0; i < wanted.count; ++i)
            in_range += stamp_of_element<value>(wanted.first + i, values[i]) == after[wanted.first + i] ? 1 : 0;
        return in_range == seen_after ? "" : "load_range() and load() disagree";
    }

    std::string check(std::span<std::byte> copy, range wanted, const array_model& after) {
        const typename image_type::const_view view(copy, geometry_, {});
        const loader reader(view);
        u64 seen_after = 0;
        if (std::string text = look(reader, wanted, after, seen_after); !text.empty()) return "a reader: " + text;
        if (std::string text = image_type::damage_of(view); !text.empty()) return "verify(): " + text;
        if (std::string text = step_recovery(copy, after, seen_after == 0); !text.empty())
            return "killed in recovery: " + text;
        return recovered(copy, after, seen_after == 0);
    }

    // The next writer comes: recovery, comparison, verification, some stores.
    std::string recovered(std::span<std::byte> copy, const array_model& after, bool may_be_before) const {
        image_type array(copy, geometry_);
        if (array.recovery().journal_rejected) return "recovery rejected the journal of a mere crash";
        if (std::string text = array.damage(); !text.empty()) return "verify() after recovery: " + text;
        const bool is_after = array_difference<loader, value>(array.reader(), after).empty();
        const array_model& now = is_after ? after : model_;
        if (std::string text = array_difference<loader, value>(array.reader(), now); !text.empty())
            return "after recovery: " + text;
        if (!is_after && !may_be_before) return "recovery took back what a reader had seen";
        return go_on(array, now);
    }

    std::string go_on(image_type& array, array_model model) const {
        const u64 count = std::min<u64>(geometry_.range_max, 5);
        const u64 first = model.size() - count;
        array.store(first, count, 3);
        std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(first), count, 3);
        array.store(0, 1, 4);
        model[0] = 4;
        std::string text = array_difference<loader, value>(array.reader(), model);
        if (text.empty()) text = array.damage();
        return text.empty() ? text : "after the next stores: " + text;
    }

    // Recovery itself stepped, where there is something to recover: from one in so many images where a store has many,
    // since that takes the square of their number.
    std::string step_recovery(std::span<const std::byte> copy, const array_model& after, bool may_be_before) {
        const typename image_type::const_view view(copy, geometry_, {});
        u64 sequence = 0;
        std::memcpy(&sequence, view.journal, 8);
        const bool dropped = sequence % 2 == 0 && has_odd_version(view);
        if (dropped)
            ++dropped_;
        else if (sequence % 2 == 0 || unfinished_++ % stepped_every_ != 0)
            return {};
        shared_image again(copy.size());
        again.assign(copy);
        const typename image_type::view body(again.bytes(), geometry_, {});
        const step_report report = single_step(
            again, [&] { (void)holdfast::detail::recover(body); },
            [&](std::span<std::byte> image) { return recovered(image, after, may_be_before); });
        recovery_ += report;
        return report.failure;
    }

    /// A store that had begun and was not committed: the only thing that recovery has to mend then.
    [[nodiscard]] static bool has_odd_version(const typename image_type::const_view& view) {
        for (u64 group = 0; view.versions != nullptr && group < view.groups(); ++group)
            if (holdfast::detail::load_relaxed<u64>(view.version_of(group)) % 2 != 0) return true;
        return false;
    }

    u64 stepped_every_;
    layout::array_geometry geometry_;
    shared_image image_;
    array_model model_;
    std::vector<std::byte> base_;
    step_report recovery_;
    u64 unfinished_ = 0, dropped_ = 0;
};

template <class Shape>
class ArrayStep : public ::testing::Test {};
using shapes = ::testing::Types<narrow_elements, crumb_elements, wide_elements, crooked_elements, large_elements>;
struct shape_names {
    template <class Shape>
    static std::string GetName(int) {
        return Shape::name;
    }
};
TYPED_TEST_SUITE(ArrayStep, shapes, shape_names);

TYPED_TEST(ArrayStep, EveryImageOfEveryStoreIsBeforeOrAfter) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    seeded_random random;
    step_report total, recovery;
    u64 every = 1;
    for (u64 round = 0; round < std::max<u64>(1, scaled(1)); ++round)
        for (const fill how : every_fill) {
            if (sizeof(typename TypeParam::value) > 1000 && how != fill::some) continue;  // minutes, and nothing new
            // Of the long run's rounds one is enough for that: of large elements it takes minutes.
            step_bench<TypeParam> bench(how, random(), round == 0 && one_in_so_many(2) == 1);
            const auto& g = bench.geometry();
            const u64 some = std::min<u64>(g.range_max, 3);
            const u64 border = g.group_elements < g.size ? g.group_elements : 1;
            // One element anywhere, the first and the last; ranges at the end, within a group and across groups.
            for (const range wanted : {range{random.below(g.size), 1}, range{0, 1}, range{g.size - 1, 1},
                                       range{g.size - some, some}, range{border - 1, std::min<u64>(some, 2)},
                                       range{border - std::min<u64>(border, 5), std::min<u64>(g.range_max, 9)}}) {
                const step_report report = bench.step(wanted);
                ASSERT_EQ(report.failure, "")
                    << wanted.count << " elements from " << wanted.first << ", " << fill_names[static_cast<int>(how)];
                total += report;
            }
            recovery += bench.recovery();
            every = std::max(every, bench.stepped_every());
            EXPECT_EQ(bench.dropped() > 0, g.wide()) << fill_names[static_cast<int>(how)];
        }
    EXPECT_GT(recovery.images, 20U);
    this->RecordProperty("steps", std::to_string(total.steps));
    this->RecordProperty("images", std::to_string(total.images));
    this->RecordProperty("recovery_steps", std::to_string(recovery.steps));
    this->RecordProperty("recovery_images", std::to_string(recovery.images));
    std::printf(
        "%s: %llu instructions, %llu images; of recovery, from one in %llu, %llu instructions, %llu images; %.1f s\n",
        TypeParam::name, static_cast<unsigned long long>(total.steps), static_cast<unsigned long long>(total.images),
        static_cast<unsigned long long>(every), static_cast<unsigned long long>(recovery.steps),
        static_cast<unsigned long long>(recovery.images), total.seconds);
}

// array::fill(): range after range of the same value. A death leaves the first ranges replaced, each wholly or not at
// all.
template <class value>
void step_through_a_fill(u64 size, const value& whole) {
    using image_type = array_image<value>;
    const auto geometry = layout::plan_array(size, sizeof(value));
    const u64 piece = geometry.range_max - geometry.range_max % geometry.group_elements;
    ASSERT_LT(piece, geometry.size) << "a fill is more than one range";
    shared_image image(geometry.body_bytes());
    image_type array(image.bytes(), geometry);
    // How many are replaced, all in front and in whole ranges; nothing for another mix.
    const auto replaced = [&](const image_type& in) -> std::optional<u64> {
        const auto is = [&](u64 index, const value& wanted) {
            value found{};
            return in.reader().load(index, reinterpret_cast<std::byte*>(&found)) == outcome::ok && found == wanted;
        };
        u64 count = 0;
        while (count < geometry.size && is(count, whole)) ++count;
        for (u64 i = count; i < geometry.size; ++i)
            if (!is(i, value{})) return std::nullopt;
        return count == geometry.size || count % piece == 0 ? std::optional(count) : std::nullopt;
    };
    const auto check = [&](std::span<std::byte> copy) -> std::string {
        const typename image_type::const_view view(copy, geometry, {});
        if (std::string text = image_type::damage_of(view); !text.empty()) return "verify: " + text;
        const image_type next(copy, geometry);
        const auto after = replaced(next);
        if (!after) return "recovered: a mix, or a range in part";
        const std::string text = next.damage();
        return text.empty() ? text : "recovered: " + text;
    };
    holdfast::detail::array_mutator<typename image_type::element> writer(array.bytes_view());
    const step_report report = single_step(
        image,
        [&] {
            for (u64 first = 0; first < geometry.size; first += piece)
                writer.store_groups(first, std::min(piece, geometry.size - first),
                                    reinterpret_cast<const std::byte*>(&whole));
        },
        check);
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.images, geometry.size * sizeof(value) / 8) << "each word is stored";
    EXPECT_EQ(replaced(array), geometry.size);
    tell_more("steps", report.steps);
    tell_more("images", report.images);
}

TEST(ArrayFillStep, ADeathLeavesTheFirstRangesReplaced) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    std::array<u64, 65> wide{};
    wide.fill(0x5a5a);
    step_through_a_fill(20, wide);
    // One element of a word each, and the last range has one alone.
    step_through_a_fill<u64>(layout::plan_array(20, sizeof(u64)).range_max + 1, 0x5a5a);
}

// The test's own teeth: sabotaged writers must be found.
enum class sabotage { no_journal, late_version, digest_first };

template <class T>
void store_badly(const holdfast::detail::array_view<std::byte, holdfast::detail::fixed_element<T>>& view, u64 index,
                 const T& value, sabotage how) {
    namespace d = holdfast::detail;
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    std::byte* const digest = view.digest_of(view.group_of(index));
    const u64 next = d::load_relaxed<u64>(digest) - d::digest_element(view, index, view.element_at(index)) +
                     d::digest_element(view, index, from);
    std::byte* const version = view.version_of(view.group_of(index));
    if (how == sabotage::digest_first) d::store_release<u64>(digest, next);
    if (how == sabotage::no_journal) d::store_release<u64>(version, d::load_relaxed<u64>(version) + 1);
    for (std::size_t at = 0; at < sizeof(T); at += 8)
        d::store_release<u64>(view.element_at(index) + at, [&] {
            u64 word;
            std::memcpy(&word, from + at, 8);
            return word;
        }());
    d::store_release<u64>(version, d::load_relaxed<u64>(version) + (how == sabotage::no_journal ? 1 : 2));
    d::store_release<u64>(digest, next);
}

class ArrayStepTeeth : public ::testing::TestWithParam<sabotage> {};

TEST_P(ArrayStepTeeth, ASabotagedStoreIsFound) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    using value = wide_elements::value;
    using image_type = array_image<value>;
    const auto g = layout::plan_array(wide_elements::size, sizeof(value));
    shared_image image(g.body_bytes());
    image_type array(image.bytes(), g);
    array.store(7, 1, 1);
    const step_report report = single_step(
        image, [&] { store_badly<value>(array.bytes_view(), 7, stamped_element<value>(7, 2), GetParam()); },
        [&](std::span<std::byte> copy) -> std::string {
            const image_type::const_view view(copy, g, {});
            if (!image_type::stamp_at(image_type::loader(view), 7)) return "torn";
            return image_type::damage_of(view);
        });
    EXPECT_NE(report.failure, "");
}
INSTANTIATE_TEST_SUITE_P(Ways, ArrayStepTeeth,
                         ::testing::Values(sabotage::no_journal, sabotage::late_version, sabotage::digest_first));

}  // namespace
