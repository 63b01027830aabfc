// SPDX-License-Identifier: Apache-2.0
// Many writers of a block store, one of them killed. First stepped: after each changed store of an operation the image
// is what a death would leave there, and must be
//   for verify(), readers and counts, at once   intact, before or after (in a replacement also both), used + free right
//   for a writer that was attached before       passable: it frees all that is there and allocates every unit
//   for one that attaches                       recovered, nothing open, never back from what a reader saw
//   for who has the dead one's slot next        the same, beside a claim of its own on what the other has freed
// and the takeover itself is stepped in the same way, with a third writer. Then in service: two and three writers at
// full speed, killed at random, each with a list of what it has put; what is there in the end must be that.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/block_store/many.hpp"
#include "support/block_many_bench.hpp"
#include "support/capability.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/share.hpp"
#include "support/single_step.hpp"
#include "support/takeover_waits.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;

bool can_step() { return can_trace() && !sanitized; }

// ---- stepped -----------------------------------------------------------------------------------------------------

constexpr u64 units = 40, units_left = 4;  // of one that is nearly full: just enough for what replaces a value here
enum class fill { empty, half, nearly_full, full, scattered };
constexpr fill every_fill[] = {fill::empty, fill::half, fill::nearly_full, fill::full, fill::scattered};
constexpr const char* fill_names[] = {"empty", "half full", "nearly full", "full", "scattered"};

// What a stepped operation may do: bring `add` under a handle not known before, and take `take`.
struct change {
    std::optional<block_content> add;
    u64 take = 0;
};

class many_step_bench {
 public:
    explicit many_step_bench(fill how) : bench_(units, 64, 4) {
        many_block_writer writer[] = {block_writer_of(bench_.view(), all_live_, 0),
                                      block_writer_of(bench_.view(), all_live_, 1)};
        u64 n = 0;
        const auto add = [&](std::size_t bytes) {
            const block_content what{++n, bytes};
            const block_result kept = put(writer[n % 2], what);
            if (kept) model_[kept.handle] = what;
            return static_cast<bool>(kept);
        };
        for (unsigned i = 0; i < 3; ++i) add(100);  // something was freed before, in every state, by the other
        while (!model_.empty()) {
            EXPECT_EQ(writer[0].free(model_.begin()->first), outcome::ok);
            model_.erase(model_.begin());
        }
        const std::size_t sizes[] = {40, 150, 0, 90};
        const auto used = [&] { return bench_.reader().usage().units_used; };
        while (how == fill::half && used() < units / 2) add(sizes[n % 4]);
        while (how == fill::nearly_full && used() + 3 <= units - units_left) add(sizes[n % 4]);
        while (how == fill::nearly_full && used() < units - units_left) add(17);
        while ((how == fill::full || how == fill::scattered) && used() < units)
            if (how == fill::scattered || !add(sizes[n % 4])) add(17);
        for (u64 i = 0; how == fill::scattered && i < units; i += 2) {
            const u64 handle = bench_.view().word(i);
            if (writer[0].free(handle) == outcome::ok) model_.erase(handle);
        }
        base_.assign(bench_.body().begin(), bench_.body().end());
    }

    /// A value of each writer, one of several units, the latest of the one that is stepped.
    [[nodiscard]] std::vector<u64> victims() const {
        const holdfast::detail::block_slots slots(bench_view());
        std::map<std::pair<u64, bool>, u64> chosen;
        for (const auto& [handle, what] : model_) chosen[{slots.slot_of(handle), what.bytes > 40}] = handle;
        std::vector<u64> handles;
        for (const auto& [kind, handle] : chosen) handles.push_back(handle);
        return handles;
    }
    [[nodiscard]] const step_report& takeovers() const noexcept { return takeovers_; }

    /// Steps operate(writer 0).
    template <class Operate>
    step_report step(const change& what, Operate&& operate) {
        bench_.image().assign(base_);
        many_block_writer first = block_writer_of(bench_.view(), all_live_, 0);
        return single_step(
            bench_.image(), [&] { operate(first); }, [&](std::span<std::byte> image) { return check(image, what); });
    }

 private:
    [[nodiscard]] readable_blocks bench_view() const noexcept {
        return {std::span<const std::byte>(base_), bench_.geometry()};
    }

    std::string check(std::span<std::byte> image, const change& what) {
        const writable_blocks view(image, bench_.geometry());
        if (std::string text = damage_of(view.as_const()); !text.empty()) return text;
        if (std::string text = miscounted(view.as_const()); !text.empty()) return text;
        bool came = false, went = false;
        if (std::string text = seen(view, what, came, went); !text.empty()) return text;
        if (went && what.add && !came) return "the old value went before the new one came";
        const std::vector<std::byte> left(image.begin(), image.end());
        if (std::string text = gone_on(view); !text.empty()) return "who was there before: " + text;
        std::memcpy(image.data(), left.data(), left.size());
        if (std::string text = attached(view, 1, what, came, went); !text.empty()) return text;
        std::memcpy(image.data(), left.data(), left.size());
        if (std::string text = reborn(view, what); !text.empty()) return "who has the slot next: " + text;
        return step_takeover(left, what, came, went);
    }

    // Compares what a reader finds with the model and the change; says whether the change came and what went.
    std::string seen(const writable_blocks& view, const change& what, bool& came, bool& went) const {
        const block_reader reader(view.as_const());
        block_model expected = model_;
        if (what.take != 0 && !reader.contains(what.take)) {
            expected.erase(what.take);
            went = true;
        }
        for (const u64 handle : handles_of(reader)) {
            if (model_.contains(handle)) continue;
            if (!what.add || came) return "a value from nowhere, under handle " + std::to_string(handle);
            expected[handle] = *what.add;
            came = true;
        }
        return difference(reader, expected);
    }

    // Writer 1, attached all the time, meets what the dead one left when it needs it.
    static std::string gone_on(const writable_blocks& view) {
        writer_roll roll;
        many_block_writer second = block_writer_of(view, roll, 1);
        roll.die(0);
        // Of a replacement that was committed one value is taken by whoever frees the other.
        for (const u64 handle : handles_of(second.reader()))
            if (second.free(handle) != outcome::ok && second.reader().contains(handle))
                return "a value could not be freed";
        if (block_reader(view.as_const()).usage().units_used != 0) return "an emptied store counts used units";
        return leaks(view, second);
    }

    // The units of what the dead one was to take are the only ones that are free.
    static std::string reborn(const writable_blocks& view, const change& what) {
        writer_roll roll;
        roll.die(0);
        many_block_writer other = block_writer_of(view, roll, 1);
        for (u64 n = 0; put(other, {n, 40});) ++n;
        if (other.reader().contains(what.take) && other.free(what.take) != outcome::ok)
            return "what was to go cannot be freed";
        return claimed_again(view, roll, 0);
    }

    std::string attached(const writable_blocks& view, unsigned process, const change& what, bool came,
                         bool went) const {
        writer_roll roll;
        for (unsigned dead = 0; dead < process; ++dead) roll.die(dead);
        many_block_writer next = block_writer_of(view, roll, process);
        if (next.recovery().counts_rebuilt) return "recovery calls the journal damaged";
        bool came_after = false, went_after = false;
        if (std::string text = seen(view, what, came_after, went_after); !text.empty()) return "recovered: " + text;
        if ((came && !came_after) || (went && !went_after)) return "recovery took back what a reader saw";
        if (what.add && what.take != 0 && came_after != went_after) return "recovered: neither before nor after";
        if (std::string text = damage_of(view.as_const()); !text.empty()) return "recovered: " + text;
        if (std::string text = miscounted(view.as_const()); !text.empty()) return "recovered: " + text;
        if (something_open(view)) return "recovered, and something is open";
        return leaks(view, next);
    }

    // The recovery by writer 1, which attaches, dies as well, and writer 2 recovers both.
    std::string step_takeover(std::span<const std::byte> left, const change& what, bool came, bool went) {
        shared_image again(left.size());
        again.assign(left);
        const writable_blocks view(again.bytes(), bench_.geometry());
        if (!something_open(view)) return {};
        const step_report report = single_step(
            again,
            [&] {
                block_store_recovery done;
                (void)holdfast::detail::recover_slot(holdfast::detail::block_slots(view), 0, done);
            },
            [&](std::span<std::byte> image) -> std::string {
                const writable_blocks copy(image, bench_.geometry());
                if (std::string text = damage_of(copy.as_const()); !text.empty()) return "in the takeover: " + text;
                if (std::string text = miscounted(copy.as_const()); !text.empty()) return "in the takeover: " + text;
                std::string text = attached(copy, 2, what, came, went);
                return text.empty() ? text : "killed in the takeover: " + text;
            });
        takeovers_ += report;
        return report.failure;
    }

    writer_roll all_live_;
    block_bench bench_;
    block_model model_;
    std::vector<std::byte> base_;
    step_report takeovers_;
};

class BlockStoreManyStep : public ::testing::Test {
 protected:
    void SetUp() override {
        if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    }
    void TearDown() override {
        if (IsSkipped()) return;
        RecordProperty("steps", std::to_string(all_.steps + takeovers_.steps));
        RecordProperty("images", std::to_string(all_.images + takeovers_.images));
        std::printf("%llu steps, %llu images, %.1f s; takeovers: %llu steps, %llu images\n",
                    static_cast<unsigned long long>(all_.steps), static_cast<unsigned long long>(all_.images),
                    all_.seconds, static_cast<unsigned long long>(takeovers_.steps),
                    static_cast<unsigned long long>(takeovers_.images));
    }
    template <class Operate>
    void step(fill how, const change& what, Operate&& operate) {
        many_step_bench bench(how);
        const step_report report = bench.step(what, std::forward<Operate>(operate));
        EXPECT_EQ(report.failure, "") << "store " << fill_names[static_cast<int>(how)];
        all_ += report;
        takeovers_ += bench.takeovers();
    }
    step_report all_, takeovers_;
};

TEST_F(BlockStoreManyStep, Allocate) {
    for (const fill how : every_fill)
        for (const std::size_t bytes : {std::size_t{0}, std::size_t{300}}) {
            const auto object = whole_object(1000, bytes);
            step(how, {block_content{1000, bytes}, 0}, [&](many_block_writer& writer) {
                if (writer.prepare(bytes) != outcome::ok) return;
                (void)writer.write(0, object);
                (void)writer.commit();
            });
        }
    EXPECT_GT(all_.images, 60U);
    EXPECT_GT(takeovers_.images, 20U);
}

TEST_F(BlockStoreManyStep, Free) {
    for (const fill how : {fill::half, fill::nearly_full, fill::full, fill::scattered})
        for (const u64 handle : many_step_bench(how).victims())
            step(how, {std::nullopt, handle}, [&](many_block_writer& writer) { (void)writer.free(handle); });
    EXPECT_GT(all_.images, 60U);
    EXPECT_GT(takeovers_.images, 20U);
}

TEST_F(BlockStoreManyStep, Replace) {
    const auto object = whole_object(2000, 190);
    for (const fill how : {fill::half, fill::nearly_full, fill::full, fill::scattered})
        for (const u64 handle : many_step_bench(how).victims())
            step(how, {block_content{2000, 190}, handle}, [&](many_block_writer& writer) {
                if (writer.prepare(190) != outcome::ok) return;
                (void)writer.write(0, object);
                (void)writer.commit(handle);
            });
    EXPECT_GT(all_.images, 100U);
    EXPECT_GT(takeovers_.images, 40U);
}

TEST_F(BlockStoreManyStep, AClaimThatIsDroppedAndOneKeptOverAFree) {
    const auto object = whole_object(3000, 120);
    for (const fill how : {fill::half, fill::scattered}) {
        const u64 handle = many_step_bench(how).victims().back();
        step(how, {block_content{3000, 120}, handle}, [&](many_block_writer& writer) {
            (void)writer.prepare(333);
            (void)writer.prepare(500);
            writer.discard();
            (void)writer.prepare(120);
            (void)writer.write(0, object);
            (void)writer.commit(handle);
        });
        // A claim stays while another value is freed.
        step(how, {std::nullopt, handle}, [&](many_block_writer& writer) {
            (void)writer.prepare(333);
            (void)writer.free(handle);
            writer.discard();
        });
    }
    EXPECT_GT(takeovers_.images, 20U);
}

// ---- killed at full speed ----------------------------------------------------------------------------------------

// Writers without a pause between operations, each killed by its own timer, so that the others go on beside what it
// left. What each has put stands in a page of its own before it puts the next: handle and size, as a user would keep
// them. In the next round it may have another slot: so they free and replace what others have put.
class BlockStoreManyKill : public segment_test {
 protected:
    using store = basic_block_store<writers::many>;
    static constexpr u64 kept_max = 24;

    // Of one writer. `pending` is what its commit under way would bring, `leaving` the one being freed.
    struct diary {
        std::array<std::atomic<u64>, kept_max> handle{}, bytes{};
        std::atomic<u64> pending{0}, pending_bytes{0}, leaving{0};
    };

    static void operate(store& mine, diary& mine_says, takeover_watch watch, kill_progress& progress, u64 seed,
                        u64 round) {
        for (u64 i = 0;; ++i) {
            const u64 random = random_at(seed, round, i), at = random % kept_max;
            const std::size_t bytes = (random >> 8) % 4 == 0 ? (random >> 16) % 3000 : (random >> 16) % 200;
            const u64 old = mine_says.handle[at].load();
            watch.begin();
            progress.begin();
            if (old != 0 && (random >> 40) % 3 == 0) {
                mine_says.leaving.store(old);
                if (mine.free(old) != outcome::ok) ::_exit(8);
                mine_says.handle[at].store(0);
                mine_says.leaving.store(0);
            } else if (mine.prepare(bytes) == outcome::ok) {
                const std::vector<std::byte> object = whole_object(mine.pending(), bytes);
                (void)mine.write(0, object);
                mine_says.leaving.store(old);
                mine_says.pending_bytes.store(bytes);
                mine_says.pending.store(mine.pending());
                const block_result kept = mine.commit(old);
                if (!kept) ::_exit(9);
                mine_says.bytes[at].store(bytes);
                mine_says.handle[at].store(kept.handle);
                mine_says.pending.store(0);
                mine_says.leaving.store(0);
            }
            progress.end();
            watch.end(mine.takeovers());
        }
    }
    // What is there must be what the diaries say, but for what each was in.
    static std::string compare(const store& in, std::span<diary> diaries) {
        std::map<u64, u64> expected;  // handle -> bytes
        std::map<u64, u64> possible;
        for (diary& d : diaries) {
            for (u64 at = 0; at < kept_max; ++at)
                if (const u64 handle = d.handle[at].load(); handle != 0) {
                    if (handle == d.leaving.load())
                        possible[handle] = d.bytes[at].load();
                    else
                        expected[handle] = d.bytes[at].load();
                }
            if (const u64 pending = d.pending.load(); pending != 0 && !expected.contains(pending))
                possible[pending] = d.pending_bytes.load();
        }
        u64 values = 0;
        std::vector<std::byte> out;
        for (u64 cursor = 0; const auto handle = in.next_value(cursor);) {
            ++values;
            const auto found = expected.find(*handle), maybe = possible.find(*handle);
            if (found == expected.end() && maybe == possible.end()) return "a value that nobody has put";
            const u64 bytes = found != expected.end() ? found->second : maybe->second;
            if (!in.read(*handle, out) || out.size() != bytes || !is_whole(out, *handle)) return "another value";
            if (found != expected.end()) expected.erase(found);
        }
        if (!expected.empty()) return std::to_string(expected.size()) + " values are lost";
        const block_store_usage usage = in.usage();
        if (!usage || usage.values != values) return "the values are counted wrong";
        return {};
    }
    static std::string damage(const auto& in) {
        std::string text;
        const auto seen = in.verify([&](const block_finding& f) {
            text += std::string(describe(f.what)) + " at unit " + std::to_string(f.unit) + "; ";
            return text.size() < 500;
        });
        return seen.busy ? text + "busy" : text;
    }
    void run(u64 count, u64 rounds, std::uint32_t slots) {
        const u64 seed = choose_seed();
        SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
        const unique_posix_name name("many-blocks");
        // Room for some two thirds of what they want.
        {
            const store made =
                store::create(name.uri(), {.bytes = count * 8'000, .unit_bytes = 64, .writer_slots = slots});
        }
        shared_image pages(sizeof(diary) * 3 + 64);
        auto* const diaries = new (pages.bytes().data()) std::array<diary, 3>;
        shared_image waits(sizeof(takeover_waits));
        auto* const told = new (waits.bytes().data()) takeover_waits;
        std::array<kill_progress, 3> progress;
        u64 in_flight = 0, operations = 0, dropped = 0;
        std::string failure;
        u64 round = 0;
        for (; told->another(round, rounds) && failure.empty(); ++round) {
            std::optional<takeover_waits::round> meanwhile(std::in_place, *told);
            std::vector<child_process> writers;
            for (u64 w = 0; w < count; ++w) {
                progress[w].reset(random_at(seed, round, w) % (500'000 * slowness));
                writers.emplace_back([&, w] {
                    const bool dies_attaching = round % 8 == w, outlives = takeover_watch::outlives(round, w);
                    if (dies_attaching) progress[w].ready();
                    store mine = store::attach(name.uri());
                    if (!dies_attaching && !outlives) progress[w].ready();
                    mine.set_patience(std::chrono::seconds(60));
                    operate(mine, (*diaries)[w], {*told, outlives}, progress[w], seed + w, round);
                });
            }
            for (child_process& writer : writers)
                if (const ended& end = writer.wait(); !end.signalled || end.signal != SIGKILL) failure = end.text();
            if (!failure.empty()) break;
            meanwhile.reset();
            // Before anybody repairs: intact, and counted.
            if (round % 4 == 0) failure = damage(block_store_reader::attach(name.uri()));
            store next = store::attach(name.uri());
            dropped += next.recovery().claims_dropped ? 1 : 0;
            if (failure.empty() && round % 4 <= 1) failure = damage(next);
            const std::span<diary> all(diaries->data(), count);
            if (failure.empty()) failure = compare(next, all);
            for (u64 w = 0; w < count; ++w) {
                operations += progress[w].completed();
                in_flight += progress[w].in_flight() ? 1 : 0;
                settle(next, all[w]);
            }
            if (!failure.empty()) failure = "round " + std::to_string(round) + ": " + failure;
        }
        EXPECT_GT(in_flight, 0U);
        EXPECT_TRUE(sanitized || dropped + told->takeovers() > 0);
        if (failure.empty()) failure = every_unit(name.uri());
        EXPECT_EQ(failure, "");
        RecordProperty("kills", std::to_string(count * round));
        std::printf(
            "%llu kills, %llu inside an operation, %llu operations; %llu takeovers at work, %llu claims dropped\n",
            static_cast<unsigned long long>(count * round), static_cast<unsigned long long>(in_flight),
            static_cast<unsigned long long>(operations), static_cast<unsigned long long>(told->takeovers()),
            static_cast<unsigned long long>(dropped));
        told->judge();
    }
    // A user's own recovery: what the writer was in has come or not.
    static void settle(store& by, diary& d) {
        const u64 pending = d.pending.load(), leaving = d.leaving.load();
        for (u64 at = 0; at < kept_max; ++at)
            if (const u64 handle = d.handle[at].load(); handle != 0 && handle == leaving && !by.contains(handle))
                d.handle[at].store(0);
        if (pending != 0 && by.contains(pending)) {
            bool noted = false;
            for (u64 at = 0; at < kept_max; ++at) noted = noted || d.handle[at].load() == pending;
            if (!noted) (void)by.free(pending);
        }
        d.pending.store(0);
        d.leaving.store(0);
    }
    static std::string every_unit(const std::string& uri) {
        store last = store::attach(uri);
        const u64 free = last.usage().units_free();
        u64 got = 0;
        while (last.allocate(std::vector<std::byte>(40))) ++got;
        if (got != free) return "of " + std::to_string(free) + " free units " + std::to_string(got) + " could be had";
        for (u64 cursor = 0; const auto handle = last.next_value(cursor);)
            if (last.free(*handle) != outcome::ok) return "a value could not be freed";
        if (last.usage().units_used != 0) return "an emptied store counts used units";
        return damage(last);
    }
};

TEST_F(BlockStoreManyKill, TwoAtFullSpeedLoseNothingButWhatTheyWereIn) { run(2, scaled(share_of(3000)), 4); }
TEST_F(BlockStoreManyKill, ThreeAtFullSpeed) { run(3, scaled(share_of(1500)), 3); }

}  // namespace
