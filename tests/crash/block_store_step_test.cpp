// SPDX-License-Identifier: Apache-2.0
// Every mutating operation of the block store, stepped one instruction at a time over stores in every state. After each
// changed store the image is what a death would leave, and must be:
//   for verify(), at once      intact
//   for the counts, at once    what the units say, used + free = capacity, without anybody's repair
//   for readers, at once       every other value as before, this one before or after (in a replacement also both),
//   whole for the next writer        before or after, never back from what a reader saw for the next operations every
//   free unit can be allocated, every used one freed: nothing is lost
// Recovery is stepped in the same way, and the recovery of a killed recovery.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/block_bench.hpp"
#include "support/capability.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

constexpr std::uint64_t units = 48;
enum class fill { empty, half, nearly_full, full, scattered };
constexpr fill every_fill[] = {fill::empty, fill::half, fill::nearly_full, fill::full, fill::scattered};
constexpr const char* fill_names[] = {"empty", "half full", "nearly full", "full", "scattered"};

bool can_step() { return can_trace() && !sanitized; }

// What a stepped operation may do: bring `add` under a handle not known before, and take `take`.
struct change {
    const char* name;
    std::optional<block_content> add;
    std::uint64_t take = 0;
};

// A store in shared pages, its writer, and its model.
class step_bench {
 public:
    explicit step_bench(fill how) : bench_(units), writer_(bench_.writer()) {
        const auto add = [&](std::size_t bytes) {
            const block_content what{++seed_, bytes};
            const block_result kept = put(writer_, what);
            if (kept) model_[kept.handle] = what;
            return static_cast<bool>(kept);
        };
        add(200), add(1), add(0);  // something was freed before, in every state
        while (!model_.empty()) free_first();
        const std::uint64_t wanted = how == fill::empty         ? 0
                                     : how == fill::half        ? units / 2
                                     : how == fill::nearly_full ? units - 2
                                                                : units;
        const std::size_t sizes[] = {40, 150, 0, 90};
        while (writer_.units_used() < wanted)
            if (how == fill::scattered || !add(sizes[seed_ % 4])) add(17);
        for (std::uint64_t i = 0; how == fill::scattered && i < units; i += 2) free_at(i);
        // A successor of its own: it begins where the next one will, so that what both do meets in the same units.
        writer_ = bench_.writer();
    }

    [[nodiscard]] block_writer& writer() noexcept { return writer_; }
    [[nodiscard]] block_bench& bench() noexcept { return bench_; }
    [[nodiscard]] const block_model& model() const noexcept { return model_; }
    /// A value of one unit, one of several, one in several runs: whichever there are.
    [[nodiscard]] std::vector<std::uint64_t> victims() {
        std::vector<std::uint64_t> chosen;
        std::uint64_t one = 0, several = 0;
        for (const auto& [handle, what] : model_) (what.bytes <= 40 ? one : several) = handle;
        for (const std::uint64_t handle : {one, several})
            if (handle != 0) chosen.push_back(handle);
        return chosen;
    }
    /// A value in many runs; the store must be scattered.
    std::uint64_t scatter_one() {
        const block_content what{++seed_, 40 + 56 * 6 + 3};
        const block_result kept = put(writer_, what);
        EXPECT_TRUE(kept);
        model_[kept.handle] = what;
        return kept.handle;
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
        const writable_blocks view(image, bench_.geometry());
        if (std::string text = damage_of(view.as_const()); !text.empty()) return text;
        if (std::string text = miscounted(view.as_const()); !text.empty()) return text;
        const block_reader reader(view.as_const());
        bool came = false, went = false;
        if (std::string text = seen(reader, what, came, went); !text.empty()) return text;
        if (went && what.add && !came) return "the old value went before the new one came";

        block_writer next(view);
        bool came_after = false, went_after = false;
        if (std::string text = seen(reader, what, came_after, went_after); !text.empty()) return "recovered: " + text;
        if ((came && !came_after) || (went && !went_after)) return "recovery took back what a reader saw";
        if (what.add && what.take != 0 && came_after != went_after) return "recovered: neither before nor after";
        if (next.recovery().counts_rebuilt) return "recovery calls the record damaged";
        if (std::string text = damage_of(view.as_const()); !text.empty()) return "recovered: " + text;
        if (std::string text = miscounted(view.as_const()); !text.empty()) return "recovered: " + text;
        return leaks(view);
    }

 private:
    void free_first() {
        EXPECT_EQ(writer_.free(model_.begin()->first), outcome::ok);
        model_.erase(model_.begin());
    }
    void free_at(std::uint64_t unit) {
        const std::uint64_t handle = bench_.view().word(unit);
        if (writer_.free(handle) == outcome::ok) model_.erase(handle);
    }

    // Compares what a reader finds with the model and the change; says whether the change came and what went.
    std::string seen(const block_reader& reader, const change& what, bool& came, bool& went) const {
        block_model expected = model_;
        if (what.take != 0 && !reader.contains(what.take)) {
            expected.erase(what.take);
            went = true;
        }
        for (const std::uint64_t handle : handles_of(reader)) {
            if (model_.contains(handle)) continue;
            if (!what.add || came) return "a value from nowhere, under handle " + std::to_string(handle);
            expected[handle] = *what.add;
            came = true;
        }
        return difference(reader, expected);
    }

    block_bench bench_;
    block_writer writer_;
    block_model model_;
    std::uint64_t seed_ = 0;
};

class BlockStoreStep : public ::testing::Test {
 protected:
    void SetUp() override {
        if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    }
    static void record(const step_report& total) {
        tell_more("steps", total.steps);
        tell_more("images", total.images);
    }
};

TEST_F(BlockStoreStep, AllocateInEveryState) {
    step_report total;
    for (const fill how : every_fill)
        for (const std::size_t bytes : {std::size_t{0}, std::size_t{40}, std::size_t{41}, std::size_t{300}}) {
            step_bench bench(how);
            const block_content value{1000, bytes};
            const auto object = whole_object(value.seed, bytes);
            const step_report r = bench.step({"allocate", value, 0}, [&] {
                if (bench.writer().prepare(bytes) != outcome::ok) return;
                (void)bench.writer().write(0, object);
                (void)bench.writer().commit();
            });
            ASSERT_EQ(r.failure, "") << bytes << " bytes, store " << fill_names[static_cast<int>(how)];
            if (how == fill::full) {
                EXPECT_EQ(r.images, 1U) << "a refused allocation changes nothing";
            } else if (how != fill::nearly_full) {
                EXPECT_GT(r.images, 9U) << "the stores of an allocation were not seen";
            }
            total += r;
        }
    record(total);
}

TEST_F(BlockStoreStep, FreeInEveryState) {
    step_report total;
    for (const fill how : every_fill) {
        step_bench bench(how);
        std::vector<std::uint64_t> victims = bench.victims();
        if (how == fill::scattered) victims.push_back(bench.scatter_one());
        for (const std::uint64_t handle : victims) {
            const step_report r =
                bench.step({"free", std::nullopt, handle}, [&] { (void)bench.writer().free(handle); });
            ASSERT_EQ(r.failure, "") << "store " << fill_names[static_cast<int>(how)];
            EXPECT_GE(r.images, 6U) << "the stores of a free were not seen";
            total += r;
        }
        const step_report r = bench.step({"free twice", std::nullopt, 0}, [&] { (void)bench.writer().free(12345); });
        ASSERT_EQ(r.failure, "");
        EXPECT_EQ(r.images, 1U);
    }
    record(total);
}

TEST_F(BlockStoreStep, ReplaceInEveryState) {
    step_report total;
    for (const fill how : every_fill) {
        step_bench bench(how);
        std::vector<std::uint64_t> victims = bench.victims();
        if (how == fill::scattered) victims.push_back(bench.scatter_one());
        for (const std::uint64_t handle : victims)
            for (const std::size_t bytes : {std::size_t{33}, std::size_t{190}}) {
                const block_content value{2000, bytes};
                const auto object = whole_object(value.seed, bytes);
                const step_report r = bench.step({"replace", value, handle}, [&] {
                    if (bench.writer().prepare(bytes) != outcome::ok) return;
                    (void)bench.writer().write(0, object);
                    (void)bench.writer().commit(handle);
                });
                ASSERT_EQ(r.failure, "") << bytes << " bytes, store " << fill_names[static_cast<int>(how)];
                total += r;
            }
    }
    EXPECT_GT(total.images, 100U);
    record(total);
}

TEST_F(BlockStoreStep, AClaimThatIsDroppedOrTakenAnew) {
    step_report total;
    for (const fill how : {fill::empty, fill::half, fill::scattered}) {
        step_bench bench(how);
        const block_content value{3000, 120};
        const auto object = whole_object(value.seed, value.bytes);
        const step_report r = bench.step({"claims", value, 0}, [&] {
            (void)bench.writer().prepare(333);
            (void)bench.writer().fill([&](std::span<std::byte> piece, std::uint64_t) {
                for (std::byte& b : piece) b = std::byte{0xEE};
            });
            (void)bench.writer().prepare(500);
            bench.writer().discard();
            (void)bench.writer().prepare(value.bytes);
            (void)bench.writer().fill([&](std::span<std::byte> piece, std::uint64_t offset) {
                std::copy_n(object.begin() + static_cast<std::ptrdiff_t>(offset), piece.size(), piece.begin());
            });
            (void)bench.writer().commit();
        });
        ASSERT_EQ(r.failure, "") << "store " << fill_names[static_cast<int>(how)];
        EXPECT_GT(r.images, 15U);
        total += r;
    }
    record(total);
}

// What a container on top does: it notes the handle to come, then commits. In every image that handle is the one value
// that came, or names nothing.
TEST_F(BlockStoreStep, ThePendingHandleNamesWhatCommitBringsOrNothing) {
    step_report total;
    for (const fill how : {fill::empty, fill::half, fill::scattered}) {
        step_bench bench(how);
        const block_content value{4000, 130};
        const auto object = whole_object(value.seed, value.bytes);
        shared_image noted(4096);
        const auto note = [&] { return reinterpret_cast<std::uint64_t*>(noted.bytes().data()); };
        std::uint64_t came = 0;
        const std::vector<std::byte> base(bench.bench().body().begin(), bench.bench().body().end());
        const step_report r = single_step(
            bench.bench().image(),
            [&] {
                (void)bench.writer().prepare(value.bytes);
                (void)bench.writer().write(0, object);
                std::atomic_ref(*note()).store(bench.writer().pending(), std::memory_order_release);  // before commit
                (void)bench.writer().commit();
            },
            [&](std::span<std::byte> image) -> std::string {
                const block_reader reader(writable_blocks(image, bench.bench().geometry()).as_const());
                std::uint64_t added = 0;
                for (const std::uint64_t handle : handles_of(reader))
                    if (!bench.model().contains(handle)) added = handle;
                came += added != 0 ? 1 : 0;
                if (added != 0 && added != *note()) return "a value came under another handle than the one noted";
                if (added == 0 && reader.contains(*note())) return "the noted handle names an older value";
                return bench.check(image, {"noted", value, 0});
            });
        bench.bench().image().assign(base);
        ASSERT_EQ(r.failure, "") << "store " << fill_names[static_cast<int>(how)];
        EXPECT_GT(came, 0U);
        total += r;
    }
    record(total);
}

// Death during recovery from a death, and during recovery from that: every image of a replacement, and of an
// allocation and a free, is recovered under the stepper, and so is every image which that leaves.
TEST_F(BlockStoreStep, RecoveryIsItselfRecoverable) {
    step_report total;
    std::uint64_t finished = 0, recovered = 0;
    const auto try_all = [&](step_bench& bench, const change& what) {
        const auto object = whole_object(5000, what.add ? what.add->bytes : 0);
        std::vector<std::vector<std::byte>> states;
        const std::vector<std::byte> base(bench.bench().body().begin(), bench.bench().body().end());
        const step_report run = single_step(
            bench.bench().image(),
            [&] {
                if (!what.add) {
                    (void)bench.writer().free(what.take);
                    return;
                }
                (void)bench.writer().prepare(object.size());
                (void)bench.writer().write(0, object);
                (void)bench.writer().commit(what.take);
            },
            [&](std::span<std::byte> image) -> std::string {
                states.emplace_back(image.begin(), image.end());
                return {};
            });
        ASSERT_EQ(run.failure, "") << what.name;
        const writable_blocks view = bench.bench().view();
        for (std::size_t i = 0; i < states.size(); ++i) {
            bench.bench().image().assign(states[i]);
            std::vector<std::vector<std::byte>> again;
            const step_report r = single_step(
                bench.bench().image(),
                [&] {
                    block_store_recovery done;
                    (void)holdfast::detail::recover(view, done);
                },
                [&](std::span<std::byte> image) -> std::string {
                    again.emplace_back(image.begin(), image.end());
                    return bench.check(image, what);
                });
            ASSERT_EQ(r.failure, "") << what.name << ", recovery of image " << i;
            ++recovered;
            finished += what.add && what.take != 0 && again.size() > 1 ? 1 : 0;
            total += r;
            for (const auto& state : again) {
                bench.bench().image().assign(state);
                const step_report twice = single_step(
                    bench.bench().image(),
                    [&] {
                        block_store_recovery done;
                        (void)holdfast::detail::recover(view, done);
                    },
                    [&](std::span<std::byte> image) { return bench.check(image, what); });
                ASSERT_EQ(twice.failure, "") << what.name << ", recovery of a recovery of image " << i;
                total += twice;
            }
        }
        bench.bench().image().assign(base);
    };
    for (const fill how : {fill::half, fill::scattered}) {
        step_bench bench(how);
        const std::uint64_t victim = how == fill::scattered ? bench.scatter_one() : bench.victims().back();
        const block_content value{5000, 150};
        for (const change& what :
             {change{"replace", value, victim}, change{"allocate", value, 0}, change{"free", std::nullopt, victim}}) {
            try_all(bench, what);
            if (HasFatalFailure()) return;
        }
    }
    std::printf("recovered under the stepper: all %llu images, and all that this left; %.1f s\n",
                static_cast<unsigned long long>(recovered), total.seconds);
    EXPECT_GE(finished, 2U) << "no state needed the one store of recovery: that between commit and its old value's end";
    record(total);
}

// ---- the rig's own teeth: three writers that do it wrong, each found.

class BlockStoreStepTeeth : public BlockStoreStep {
 protected:
    // Steps what a wrong writer does in place of a commit, after an honest one did the rest on a copy.
    template <class Operate>
    std::string failure_of(Operate&& operate) {
        step_bench bench(fill::half);
        const std::uint64_t victim = bench.victims().back();
        const change what{"wrong", block_content{6000, 150}, victim};
        return bench.step(what, [&] { operate(bench, victim); }).failure;
    }
    // A committed value whose last stores can be redone in another order.
    struct done {
        std::uint64_t handle = 0;
        std::uint64_t head = 0, units = 0;
    };
    static done commit_aside(step_bench& bench) {
        const block_result kept = put(bench.writer(), {6000, 150});
        return {kept.handle, bench.bench().view().index_of(kept.handle), 3};
    }
};

TEST_F(BlockStoreStepTeeth, AHandleBeforeTheUnitsIsFound) {
    step_bench bench(fill::half);
    const done d = commit_aside(bench);
    const writable_blocks view = bench.bench().view();
    // Back to where the record is in force and the units are not stamped yet.
    holdfast::detail::store_release<std::uint64_t>(view.selector_at(), view.selector() - 1);
    for (std::uint64_t i = 0; i < d.units; ++i)
        holdfast::detail::store_release<std::uint64_t>(view.word_at(d.head + i), 0);
    const std::string failure =
        bench
            .step({"head first", block_content{6000, 150}, 0},
                  [&] {
                      for (std::uint64_t i = 0; i < d.units; ++i)
                          holdfast::detail::store_release<std::uint64_t>(view.word_at(d.head + i), d.handle);
                  })
            .failure;
    EXPECT_NE(failure.find("not its own"), std::string::npos) << failure;
}

TEST_F(BlockStoreStepTeeth, AFreeWithoutItsRecordIsFound) {
    const std::string failure = failure_of(
        [](step_bench& bench, std::uint64_t victim) { holdfast::detail::retire(bench.bench().view(), victim); });
    EXPECT_NE(failure.find("count"), std::string::npos) << failure;
}

TEST_F(BlockStoreStepTeeth, AReplacementInTwoOperationsIsFound) {
    const std::string failure = failure_of([](step_bench& bench, std::uint64_t victim) {
        (void)put(bench.writer(), {6000, 150});
        (void)bench.writer().free(victim);
    });
    EXPECT_NE(failure.find("neither before nor after"), std::string::npos) << failure;
}

TEST_F(BlockStoreStepTeeth, AnOverwriteInPlaceIsFound) {
    const std::string failure = failure_of([](step_bench& bench, std::uint64_t victim) {
        std::byte* const unit = bench.bench().view().unit(bench.bench().view().index_of(victim));
        for (std::size_t i = 0; i < 4; ++i)
            holdfast::detail::shared_store<std::uint64_t>(unit + layout::block_head_bytes + 8 * i, i);
    });
    EXPECT_NE(failure.find("checksum"), std::string::npos) << failure;
}

}  // namespace
