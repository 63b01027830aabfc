// SPDX-License-Identifier: Apache-2.0
// Every mutating operation of the hash map, stepped one instruction at a time over maps in every state. After each
// changed store the image is what a death would leave, and must be:
//   for verify(), at once      intact: each entry reached by one key, or named by the record
//   for the counts, at once    what the units say, used + free = capacity, without anybody's repair
//   for readers, at once       every other key as before, this one before or after, whole
//   for the next writer        before or after, never back from what a reader saw, as many entries as keys
//   for the next operations    everything can be erased, and then one value fills the map: nothing is lost
// Recovery is stepped in the same way, and the recovery of a killed recovery.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/capability.hpp"
#include "support/map_bench.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

constexpr std::uint64_t units = 48;
enum class fill { empty, half, nearly_full, full, scattered, crowded };
constexpr fill every_fill[] = {fill::empty, fill::half, fill::nearly_full, fill::full, fill::scattered, fill::crowded};
constexpr const char* fill_names[] = {"empty", "half full", "nearly full", "full", "scattered", "crowded"};

using map_condition = holdfast::detail::map_condition;

// Keys that share home bucket and overflow class, so that they push each other along one probe sequence. The last two
// share the tag as well: whoever looks for the last one meets the other first.
const std::vector<std::string>& crowd(const writable_map& view) {
    static const std::vector<std::string> keys = [&] {
        const auto parts_of = [&](std::uint64_t i) {
            return view.table.hash(holdfast::detail::digest_of(as_key(std::to_string(i)), view.seed()).bytes());
        };
        const auto wanted = parts_of(0);
        const auto fits = [&](std::uint64_t i) {
            const auto is = parts_of(i);
            return is.home(view.table.buckets) == wanted.home(view.table.buckets) && is.group() == wanted.group();
        };
        std::vector<std::string> chosen;
        std::uint64_t i = 1;
        for (; chosen.size() < 46; ++i)
            if (fits(i)) chosen.push_back(std::to_string(i));
        while (!fits(i) || parts_of(i).tag() != wanted.tag()) ++i;
        chosen.push_back("0");
        chosen.push_back(std::to_string(i));
        return chosen;
    }();
    return keys;
}

bool can_step() { return can_trace() && !sanitized; }

// What a stepped operation may do to one key; and whether others may go meanwhile, evicted or expired.
struct change {
    std::string key;
    std::optional<map_content> before, after;
    bool others_may_go = false;
};

// A map in shared pages, its writer, and its model.
class step_bench {
 public:
    explicit step_bench(fill how, bool evicting = false, std::uint64_t ttl_s = 0)
        : bench_({.units = units, .capacity = 70, .unit_bytes = 64, .evicting = evicting}), writer_(bench_.writer()) {
        const auto add = [&](std::size_t bytes) {
            const std::string key = map_key(next_);
            const map_content what{++next_, bytes};
            const bool kept = static_cast<bool>(put(writer_, key, what, {.ttl = std::chrono::seconds(ttl_s)}));
            if (kept) model_[key] = what;
            return kept;
        };
        if (how == fill::crowded) {
            fill_crowded();
            return;
        }
        add(100), add(0);  // something was erased before, in every state
        while (!model_.empty()) {
            EXPECT_TRUE(writer_.erase(as_key(model_.begin()->first)));
            model_.erase(model_.begin());
        }
        const std::uint64_t wanted = how == fill::empty         ? 0
                                     : how == fill::half        ? units / 2
                                     : how == fill::nearly_full ? units - 3
                                                                : units;
        const std::size_t sizes[] = {20, 150, 0, 70};
        const auto used = [&] { return writer_.reader().usage().units_used; };
        while (used() + 5 < wanted) add(how == fill::scattered ? 0 : sizes[next_ % 4]);
        for (std::uint64_t i = 3 * next_ + 3; used() < wanted; i += 3) {  // short keys: one unit each
            model_[map_key(i)] = {i, 0};
            EXPECT_TRUE(put(writer_, map_key(i), model_[map_key(i)], {.ttl = std::chrono::seconds(ttl_s)}));
        }
        bool odd = false;
        for (const auto& [key, what] : map_model(model_))
            if (how == fill::scattered && (odd = !odd)) {
                EXPECT_TRUE(writer_.erase(as_key(key)));
                model_.erase(key);
            }
        // A successor of its own: it begins where the next one will, so that what both do meets in the same units.
        writer_ = bench_.writer();
    }

    [[nodiscard]] map_writer& writer() noexcept { return writer_; }
    [[nodiscard]] map_bench& bench() noexcept { return bench_; }
    [[nodiscard]] const map_model& model() const noexcept { return model_; }
    /// A key that is not there.
    [[nodiscard]] std::string absent() { return crowded_ ? crowd(bench_.view())[30] : "new"; }
    /// A key of a word and one of several, whichever there are; of a crowd those with the same tag.
    [[nodiscard]] std::vector<std::string> victims() {
        if (crowded_) return {crowd(bench_.view()).end() - 2, crowd(bench_.view()).end()};
        std::string brief, longer;
        for (const auto& [key, what] : model_) (key.size() <= 8 ? brief : longer) = key;
        std::vector<std::string> chosen;
        for (const std::string& key : {brief, longer})
            if (!key.empty()) chosen.push_back(key);
        return chosen;
    }

    template <class Operate>
    step_report step(const change& what, Operate&& operate) {
        // The child's writer goes on from this process's, and so does each next child's.
        const std::vector<std::byte> base(bench_.body().begin(), bench_.body().end());
        step_report report = single_step(bench_.image(), std::forward<Operate>(operate),
                                         [&](std::span<std::byte> image) { return check(image, what); });
        bench_.image().assign(base);
        return report;
    }

    /// All five questions to one image.
    std::string check(std::span<std::byte> image, const change& what) const {
        const writable_map view(image, bench_.geometry());
        if (std::string text = damage_of(view.as_const()); !text.empty()) return text;
        if (std::string text = miscounted(view.store.as_const()); !text.empty()) return text;
        const map_reader reader = reader_of(view.as_const());
        bool after = false, after_later = false;
        std::size_t gone = 0, gone_later = 0;
        if (std::string text = seen(reader, what, after, gone); !text.empty()) return text;

        map_writer next(view, fake_clock(), nullptr);
        if (next.recovery().record_rebuilt) return "recovery calls the record damaged";
        if (next.recovery().store.counts_rebuilt) return "recovery calls the store's record damaged";
        if (std::string text = seen(reader, what, after_later, gone_later); !text.empty()) return "recovered: " + text;
        if (after != after_later || gone != gone_later) return "recovery took back what a reader saw, or did more";
        hash_map_verification report;
        if (std::string text = damage_of(view.as_const(), &report); !text.empty()) return "recovered: " + text;
        if (report.operation_open) return "recovered: an operation is still open";
        if (std::string text = miscounted(view.store.as_const()); !text.empty()) return "recovered: " + text;
        if (report.store.values != report.entries) return "recovered: an entry without a key";
        return leaks(view);
    }

 private:
    // Compares what a reader finds with the model and the change; says whether the change is seen, and how many others
    // went.
    std::string seen(const map_reader& reader, const change& what, bool& after, std::size_t& gone) const {
        map_model expected = model_;
        expected.erase(what.key);
        if (what.others_may_go)
            for (const auto& [key, content] : map_model(expected))
                if (!is_there(reader, key)) {
                    expected.erase(key);
                    ++gone;
                }
        const auto is = [&](const std::optional<map_content>& state) {
            return state ? holds(reader, what.key, *state) : !is_there(reader, what.key);
        };
        after = is(what.after);
        const bool before = is(what.before);
        // Made room for by way of the very key, a set is first an eviction.
        const bool evicted = what.others_may_go && !is_there(reader, what.key);
        if (!after && !before && !evicted && !what.key.empty()) return "neither before nor after";
        if (const auto now = after ? what.after : evicted ? std::nullopt : what.before; now) expected[what.key] = *now;
        return difference(reader, expected);
    }

    // The one of the last two that comes first stands in the home bucket of all, the other far from it.
    void fill_crowded() {
        crowded_ = true;
        const std::vector<std::string>& keys = crowd(bench_.view());
        std::vector<std::string> order(keys.begin(), keys.begin() + 30);
        order.insert(order.begin(), keys[keys.size() - 2]);
        order.push_back(keys.back());
        for (const std::string& key : order) {
            model_[key] = {++next_, 8};
            EXPECT_TRUE(put(writer_, key, model_[key]));
        }
        const auto bucket_of = [&](const std::string& key) {
            return writer_.reader().table().find(holdfast::detail::digest_of(as_key(key), 42).bytes(), nullptr) /
                   layout::tags_per_line;
        };
        EXPECT_NE(bucket_of(order.front()), bucket_of(order.back())) << "nothing went past the home bucket";
        writer_ = bench_.writer();
    }

    map_bench bench_;
    map_writer writer_;
    map_model model_;
    std::uint64_t next_ = 0;
    bool crowded_ = false;
};

class HashMapStep : public ::testing::Test {
 protected:
    void SetUp() override {
        if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
        fake_boot_seconds = 1000;
    }
    static void record(const step_report& total) {
        tell_more("steps", total.steps);
        tell_more("images", total.images);
    }
};

TEST_F(HashMapStep, InsertInEveryState) {
    step_report total;
    for (const fill how : every_fill)
        for (auto [key, bytes] : {std::pair<std::string, std::size_t>{"new", 0},
                                  {"new", 16},
                                  {std::string(30, 'n'), 41},
                                  {std::string(100, 'n'), 200},
                                  {"", 8}}) {
            step_bench bench(how);
            if (key.empty() && how != fill::crowded) continue;
            if (key.empty()) key = bench.absent();
            const map_content value{1000, bytes};
            const auto object = whole_object(value.seed, bytes);
            const step_report r =
                bench.step({key, std::nullopt, value}, [&] { (void)bench.writer().set(as_key(key), object); });
            ASSERT_EQ(r.failure, "") << bytes << " bytes, map " << fill_names[static_cast<int>(how)];
            if (how == fill::full) {
                EXPECT_EQ(r.images, 1U) << "a refused insert changes nothing";
            } else if (how != fill::nearly_full) {
                EXPECT_GT(r.images, 25U) << "the stores of an insert were not seen";
            }
            total += r;
        }
    record(total);
}

TEST_F(HashMapStep, UpdateInEveryState) {
    step_report total;
    for (const fill how : every_fill) {
        step_bench bench(how);
        for (const std::string& key : bench.victims())
            for (const std::size_t bytes : {std::size_t{8}, std::size_t{130}}) {
                const map_content value{2000, bytes};
                const auto object = whole_object(value.seed, bytes);
                const step_report r = bench.step({key, bench.model().at(key), value},
                                                 [&] { (void)bench.writer().set(as_key(key), object); });
                ASSERT_EQ(r.failure, "") << bytes << " bytes, map " << fill_names[static_cast<int>(how)];
                total += r;
            }
    }
    EXPECT_GT(total.images, 300U);
    record(total);
}

TEST_F(HashMapStep, EraseInEveryState) {
    step_report total;
    for (const fill how : every_fill) {
        step_bench bench(how);
        for (const std::string& key : bench.victims()) {
            const step_report r = bench.step({key, bench.model().at(key), std::nullopt},
                                             [&] { (void)bench.writer().erase(as_key(key)); });
            ASSERT_EQ(r.failure, "") << "map " << fill_names[static_cast<int>(how)];
            EXPECT_GT(r.images, 15U) << "the stores of an erase were not seen";
            total += r;
        }
        const step_report r =
            bench.step({"", std::nullopt, std::nullopt}, [&] { (void)bench.writer().erase(as_key("not there")); });
        ASSERT_EQ(r.failure, "");
        EXPECT_EQ(r.images, 1U);
    }
    record(total);
}

// What states a condition stores as a set or an erase does where it holds, and nothing where it does not.
TEST_F(HashMapStep, ConditionsInEveryState) {
    step_report total;
    for (const fill how : every_fill) {
        step_bench bench(how);
        const auto stored = [&](const std::string& key, const std::optional<map_content>& before, std::size_t bytes,
                                const map_condition& when) {
            const auto object = whole_object(6000, bytes);
            return bench.step({key, before, map_content{6000, bytes}},
                              [&] { (void)bench.writer().set(as_key(key), object, {}, when); });
        };
        const auto expect = [&](const step_report& r, bool holds) {
            EXPECT_EQ(r.failure, "") << "map " << fill_names[static_cast<int>(how)];
            if (!holds) {
                EXPECT_EQ(r.images, 1U) << "a condition that does not hold changes nothing";
            }
            if (holds && how != fill::nearly_full && how != fill::full) {
                EXPECT_GT(r.images, 15U);
            }
            total += r;
        };
        for (const std::string& key : bench.victims()) {
            const map_content before = bench.model().at(key);
            const std::uint64_t handle =
                bench.writer().reader().handle_under(holdfast::detail::digest_of(as_key(key), 42));
            const map_condition same{map_condition::same, handle}, other{map_condition::same, handle ^ 1};
            expect(stored(key, before, 12, same), true);
            expect(stored(key, before, 140, {map_condition::present}), true);
            expect(stored(key, before, 12, other), false);
            expect(stored(key, before, 12, {map_condition::absent}), false);
            expect(bench.step({key, before, std::nullopt}, [&] { (void)bench.writer().erase(as_key(key), same); }),
                   true);
            expect(bench.step({key, before, std::nullopt}, [&] { (void)bench.writer().erase(as_key(key), other); }),
                   false);
        }
        const std::string fresh = bench.absent();
        expect(stored(fresh, std::nullopt, 12, {map_condition::absent}), true);
        expect(stored(fresh, std::nullopt, 12, {map_condition::same, 0}), true);
        expect(stored(fresh, std::nullopt, 12, {map_condition::present}), false);
        expect(stored(fresh, std::nullopt, 12, {map_condition::same, 1}), false);
        if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
    EXPECT_GT(total.images, 500U);
    record(total);
}

// An addition is done once or not at all, in every state; another life changes nothing that a reader sees.
TEST_F(HashMapStep, AdditionsInEveryState) {
    step_report total;
    for (const fill how : every_fill) {
        step_bench bench(how);
        for (const std::string& key : bench.victims()) {
            map_content before = bench.model().at(key), after = before;
            if (before.bytes < 8) continue;
            after.added = 1;
            const step_report add = bench.step(
                {key, before, after}, [&] { (void)bench.writer().fetch_add<std::uint64_t>(as_key(key), 0, 1); });
            ASSERT_EQ(add.failure, "") << "map " << fill_names[static_cast<int>(how)];
            const step_report touch = bench.step(
                {key, before, before}, [&] { (void)bench.writer().touch(as_key(key), std::chrono::seconds(50)); });
            ASSERT_EQ(touch.failure, "") << "map " << fill_names[static_cast<int>(how)];
            total += add;
            total += touch;
        }
    }
    EXPECT_GT(total.images, 60U);
    record(total);
}

// Counters that are too high, behind a bucket that overflowed by more than they count, are made exact.
TEST_F(HashMapStep, RecountInEveryState) {
    step_report total;
    for (const fill how : every_fill) {
        step_bench bench(how);
        const bool off = how == fill::crowded;
        if (off) {
            const std::vector<std::string>& keys = crowd(bench.bench().view());
            for (std::size_t i = 30; i < 44; ++i) ASSERT_TRUE(put(bench.writer(), keys[i], {i, 0}));
            for (std::size_t i = 30; i < 44; ++i) ASSERT_TRUE(bench.writer().erase(as_key(keys[i])));
        }
        const step_report r = bench.step({"", std::nullopt, std::nullopt}, [&] { (void)bench.writer().recount(); });
        ASSERT_EQ(r.failure, "") << "map " << fill_names[static_cast<int>(how)];
        if (off) {
            EXPECT_GT(bench.writer().recount(), 0U) << "no counter was off";
        } else {
            EXPECT_EQ(r.images, 1U) << "exact counters are not stored again";
        }
        total += r;
    }
    record(total);
}

// The table has no slot for the key: the entry that was committed goes again.
TEST_F(HashMapStep, InsertIntoAFullTable) {
    map_bench bench({.units = 200, .capacity = 1});
    map_writer writer = bench.writer();
    map_model model;
    for (std::uint64_t i = 0; put(writer, map_key(3 * i), {i, 0}); ++i) model[map_key(3 * i)] = {i, 0};
    ASSERT_GE(model.size(), 70U);
    const auto object = whole_object(1, 10);
    std::uint64_t with_entry = 0;
    const step_report r = single_step(
        bench.image(), [&] { (void)writer.set(as_key("no room"), object); },
        [&](std::span<std::byte> image) -> std::string {
            const writable_map view(image, bench.geometry());
            if (std::string text = damage_of(view.as_const()); !text.empty()) return text;
            if (std::string text = miscounted(view.store.as_const()); !text.empty()) return text;
            if (std::string text = difference(reader_of(view.as_const()), model); !text.empty()) return text;
            with_entry += reader_of(view.as_const()).blocks().usage().values > model.size() ? 1U : 0U;
            const map_writer next(view, fake_clock(), nullptr);
            if (next.changes() != model.size()) return "a change that was none is counted";
            return leaks(view);
        });
    ASSERT_EQ(r.failure, "");
    EXPECT_GT(with_entry, 0U) << "the entry was never there";
    record(r);
}

TEST_F(HashMapStep, EvictionMakesRoomForASet) {
    step_report total;
    for (const fill how : {fill::nearly_full, fill::full, fill::scattered})
        for (const std::size_t bytes : {std::size_t{16}, std::size_t{700}}) {
            step_bench bench(how, true);
            const auto object = whole_object(3000, bytes);
            const step_report r = bench.step({"new", std::nullopt, map_content{3000, bytes}, true},
                                             [&] { (void)bench.writer().set(as_key("new"), object); });
            ASSERT_EQ(r.failure, "") << bytes << " bytes, map " << fill_names[static_cast<int>(how)];
            total += r;
            const std::string key = bench.victims().front();
            const step_report u = bench.step({key, bench.model().at(key), map_content{3000, bytes}, true},
                                             [&] { (void)bench.writer().set(as_key(key), object); });
            ASSERT_EQ(u.failure, "") << "update, " << bytes << " bytes, map " << fill_names[static_cast<int>(how)];
            total += u;
        }
    EXPECT_GT(total.images, 500U);
    record(total);
}

TEST_F(HashMapStep, WhatHasExpiredIsTakenOutOnTheWay) {
    step_report total;
    for (const bool evicting : {false, true}) {
        step_bench bench(fill::full, evicting, 10);
        fake_boot_seconds += 100;  // all of it is over: nobody finds anything any more
        const auto object = whole_object(4000, 200);
        const change what{"new", std::nullopt, map_content{4000, 200}, true};
        const step_report r = bench.step(what, [&] { (void)bench.writer().set(as_key("new"), object); });
        ASSERT_EQ(r.failure, "");
        EXPECT_GT(r.images, 60U) << "nothing was taken out";
        total += r;
    }
    record(total);
}

TEST_F(HashMapStep, FetchAddAndTouch) {
    step_report total;
    for (const fill how : {fill::half, fill::scattered}) {
        step_bench bench(how);
        const std::string key = bench.victims().back();
        // A value of which a part counts: as whole objects, the states before and after have different seeds.
        const auto before = whole_object(1, 24);
        auto after = before;
        std::uint64_t field = 0;
        std::memcpy(&field, after.data() + 8, 8);
        field += 12345;
        std::memcpy(after.data() + 8, &field, 8);
        ASSERT_TRUE(bench.writer().set(as_key(key), before));
        const auto value_in = [&](std::span<std::byte> image) {
            std::vector<std::byte> out(24);
            const writable_map view(image, bench.bench().geometry());
            return reader_of(view.as_const()).find(as_key(key), std::span(out)) ? out : std::vector<std::byte>();
        };
        std::uint64_t olds = 0, news = 0;
        const std::vector<std::byte> base(bench.bench().body().begin(), bench.bench().body().end());
        const auto look = [&](std::span<std::byte> image) -> std::string {
            const writable_map view(image, bench.bench().geometry());
            const auto now = value_in(image);
            if (now != before && now != after) return "neither before nor after";
            ++(now == before ? olds : news);
            if (std::string text = damage_of(view.as_const()); !text.empty()) return text;
            if (std::string text = miscounted(view.store.as_const()); !text.empty()) return text;
            const map_writer next(view, fake_clock(), nullptr);
            if (value_in(image) != now) return "recovery changed the value";
            return leaks(view);
        };
        const step_report add = single_step(
            bench.bench().image(), [&] { (void)bench.writer().fetch_add<std::uint64_t>(as_key(key), 8, 12345); }, look);
        bench.bench().image().assign(base);
        ASSERT_EQ(add.failure, "");
        EXPECT_GT(olds, 10U);
        EXPECT_GT(news, 5U);
        const step_report touch = single_step(
            bench.bench().image(), [&] { (void)bench.writer().touch(as_key(key), std::chrono::seconds(50)); }, look);
        bench.bench().image().assign(base);
        ASSERT_EQ(touch.failure, "");
        total += add;
        total += touch;
    }
    record(total);
}

// Death during recovery from a death, and during recovery from that: every image of an update, of an erase, also of an
// entry far from its bucket, of an insert, also of one for which others go, and of an addition is recovered under the
// stepper; and of the images that this leaves some, in the long run all, are recovered in the same way.
enum class unfinished { update, erase, insert, erase_far, evict, add };
constexpr const char* unfinished_names[] = {"update", "erase", "insert", "erase_far", "evict", "add"};

class HashMapStepRecovery : public HashMapStep, public ::testing::WithParamInterface<unfinished> {
 protected:
    /// The images of one operation, and what it changes.
    struct left {
        step_bench bench;
        change what;
        std::vector<std::vector<std::byte>> images;
        explicit left(unfinished which)
            : bench(which == unfinished::erase_far ? fill::crowded
                    : which == unfinished::evict   ? fill::full
                                                   : fill::half,
                    which == unfinished::evict) {
            const bool erases = which == unfinished::erase || which == unfinished::erase_far;
            const bool inserts = which == unfinished::evict || which == unfinished::insert;
            const map_content value{5000, 100};
            what = {inserts ? "new" : bench.victims().back(), std::nullopt, value, which == unfinished::evict};
            if (which == unfinished::add && bench.model().at(what.key).bytes < 8) what.key = bench.victims().front();
            if (!inserts) what.before = bench.model().at(what.key);
            if (erases) what.after = std::nullopt;
            if (which == unfinished::add) {
                EXPECT_GE(what.before->bytes, 8U);
                what.after = what.before;
                what.after->added = 1;
            }
            const auto object = whole_object(value.seed, value.bytes);
            const step_report run = single_step(
                bench.bench().image(),
                [&] {
                    if (erases)
                        (void)bench.writer().erase(as_key(what.key));
                    else if (which == unfinished::add)
                        (void)bench.writer().fetch_add<std::uint64_t>(as_key(what.key), 0, 1);
                    else
                        (void)bench.writer().set(as_key(what.key), object);
                },
                [&](std::span<std::byte> image) -> std::string {
                    images.emplace_back(image.begin(), image.end());
                    return {};
                });
            EXPECT_EQ(run.failure, "");
        }
    };
    /// Steps the recovery of an image; its own images are added to `kept`, if given.
    step_report recover(left& of, const std::vector<std::byte>& image, std::vector<std::vector<std::byte>>* kept) {
        of.bench.bench().image().assign(image);
        const writable_map view = of.bench.bench().view();
        return single_step(
            of.bench.bench().image(), [&] { const map_writer next(view, fake_clock(), nullptr); },
            [&](std::span<std::byte> now) -> std::string {
                if (kept != nullptr) kept->emplace_back(now.begin(), now.end());
                return of.bench.check(now, of.what);
            });
    }
};

TEST_P(HashMapStepRecovery, IsItselfRecoverable) {
    step_report total;
    std::uint64_t worked = 0, left_by_them = 0, recovered_again = 0;
    left of(GetParam());
    for (std::size_t i = 0; i < of.images.size(); ++i) {
        std::vector<std::vector<std::byte>> kept;
        const step_report once = recover(of, of.images[i], &kept);
        ASSERT_EQ(once.failure, "") << "image " << i;
        worked += kept.size() > 1 ? 1U : 0U;
        total += once;
        for (std::size_t j = 1; j < kept.size(); ++j) {  // the first is the one that was recovered
            if (left_by_them++ % one_in_so_many(GetParam() == unfinished::evict ? 80 : 20) != 0) continue;
            const step_report twice = recover(of, kept[j], nullptr);
            ASSERT_EQ(twice.failure, "") << "image " << i << ", image " << j << " of its recovery";
            ++recovered_again;
            total += twice;
        }
    }
    EXPECT_GT(worked, 1U) << "no state needed a recovery";
    std::printf("recovered under the stepper: all %llu images, and %llu of the %llu that this left; %.1f s\n",
                static_cast<unsigned long long>(of.images.size()), static_cast<unsigned long long>(recovered_again),
                static_cast<unsigned long long>(left_by_them), total.seconds);
    record(total);
}

INSTANTIATE_TEST_SUITE_P(Operations, HashMapStepRecovery,
                         ::testing::Values(unfinished::update, unfinished::erase, unfinished::insert,
                                           unfinished::erase_far, unfinished::evict, unfinished::add),
                         [](const auto& of) { return std::string(unfinished_names[static_cast<int>(of.param)]); });

// ---- the rig's own teeth: writers that do it wrong, each found.

class HashMapStepTeeth : public HashMapStep {
 protected:
    using table_mutator = holdfast::detail::hash_table_mutator<holdfast::detail::map_node>;
    [[nodiscard]] static holdfast::detail::map_digest digest(const step_bench& bench, const std::string& key) {
        return holdfast::detail::digest_of(as_key(key), const_cast<step_bench&>(bench).bench().view().seed());
    }
};

TEST_F(HashMapStepTeeth, AnEraseWithoutARecordIsFound) {
    step_bench bench(fill::half);
    const std::string key = bench.victims().back();
    block_writer store(bench.bench().view().store);
    table_mutator table(bench.bench().view().table);
    const std::uint64_t handle = bench.writer().reader().handle_under(digest(bench, key));
    const std::string failure = bench
                                    .step({key, bench.model().at(key), std::nullopt},
                                          [&] {
                                              (void)table.erase(digest(bench, key).bytes());
                                              (void)store.free(handle);
                                          })
                                    .failure;
    EXPECT_NE(failure.find("no key leads to the entry"), std::string::npos) << failure;
}

TEST_F(HashMapStepTeeth, AnEntryThatGoesBeforeItsKeyIsFound) {
    step_bench bench(fill::half);
    const std::string key = bench.victims().back();
    block_writer store(bench.bench().view().store);
    table_mutator table(bench.bench().view().table);
    const std::uint64_t handle = bench.writer().reader().handle_under(digest(bench, key));
    const std::string failure = bench
                                    .step({key, bench.model().at(key), std::nullopt},
                                          [&] {
                                              (void)store.free(handle);
                                              (void)table.erase(digest(bench, key).bytes());
                                          })
                                    .failure;
    EXPECT_NE(failure.find("an entry that is not there"), std::string::npos) << failure;
}

TEST_F(HashMapStepTeeth, AKeyBeforeItsEntryIsFound) {
    step_bench bench(fill::half);
    block_writer store(bench.bench().view().store);
    table_mutator table(bench.bench().view().table);
    const auto under = digest(bench, "new");
    const std::string failure =
        bench
            .step({"new", std::nullopt, map_content{1, 0}},
                  [&] {
                      (void)store.prepare(24);
                      const std::uint64_t words[3] = {0, 3, 0x77656e};
                      (void)store.write(0, std::as_bytes(std::span(words)));
                      const std::uint64_t handle = store.pending();
                      (void)table.try_insert(under.bytes(), reinterpret_cast<const std::byte*>(&handle));
                      (void)store.commit();
                  })
            .failure;
    EXPECT_NE(failure.find("an entry that is not there"), std::string::npos) << failure;
}

}  // namespace
