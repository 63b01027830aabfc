// SPDX-License-Identifier: Apache-2.0
// Two writers of a table of many, with the handles as they are: one leads a growth, or a shrinkage, and is stopped in
// front of each of its instructions. There another one changes entries, and it and a reader that follows find them.
// Attacked: "no operation waits because of a growth but for the closed stripes", "what is changed beside a growth is in
// the next generation", "readers never miss a key". What the steps themselves store is in all schedules with another
// writer's in tests/hooks/table_grow_interleaving.hpp, and what a death there leaves in image_kill_growth.hpp.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>

#include "holdfast/hash_table/growing.hpp"
#include "holdfast/hash_table/many.hpp"
#include "support/capability.hpp"
#include "support/hash_table_many_image.hpp"
#include "support/segment_tools.hpp"
#include "support/single_step.hpp"
#include "support/table_answer.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;
using table = hash_table<u64, u64, writers::many>;
using reader = growing_hash_table_reader<u64, u64>;

constexpr u64 seed = 7, writer_slots = 4;

/// The stripe in which a key is at home where the table has that capacity.
u64 stripe_of(u64 key, u64 capacity) {
    const layout::hash_table_geometry g = many_geometry_for<u64, u64>(capacity, writer_slots, seed);
    const aligned_bytes body(g.body_bytes());
    const holdfast::detail::table_view<const std::byte, holdfast::detail::fixed_node<u64, u64>> view(body.bytes(), g,
                                                                                                     {});
    return view.stripe_of(view.hash(reinterpret_cast<const std::byte*>(&key)).home(view.buckets));
}

// Values of one word: who reads a bucket is not held up by updates of its entries, however many there are.
class HashTableManyGrowthSteps : public segment_test, public ::testing::WithParamInterface<bool> {
 protected:
    // Two and four stripes.
    const u64 from = GetParam() ? 450U : 900U, to = GetParam() ? 900U : 450U;

    HashTableManyGrowthSteps() {
        const u64 here = stripe_of(changed, from), there = stripe_of(changed, to);
        std::size_t found = 0;
        for (u64 key = changed + 1; found < led_.size() || comes_and_goes_ == 0; ++key) {
            const bool same_here = stripe_of(key, from) == here, same_there = stripe_of(key, to) == there;
            if (same_here && same_there) comes_and_goes_ = key;
            if (!same_here && !same_there && found < led_.size()) led_[found++] = key;
        }
    }
    void make() {
        table made = table::create(uri(), {.capacity = from, .seed = seed, .writer_slots = writer_slots});
        (void)made.try_insert(changed, 0);
        for (const u64 key : led_) (void)made.try_insert(key, 0);
        other_.emplace(table::attach(uri()));
        other_->set_patience(std::chrono::nanoseconds(0));
        reader_.emplace(reader::attach(uri()));
    }
    // What is stopped again and again. Its keys' stripes are others than those of the other writer's keys, in both
    // generations: who meets a stopped one waits, or gives the growth up.
    std::function<void()> lead() const {
        return [this, mine = std::make_shared<table>(table::attach(uri()))] {
            mine->grow(to);
            u64 stamp = 0;
            while (mine->growing())
                if (!mine->update(led_[++stamp % led_.size()], stamp)) ::_exit(4);
            if (mine->growth_failure()) throw error(*mine->growth_failure());
            for (const u64 key : led_) (void)mine->update(key, ++stamp);
        };
    }
    // What the others do meanwhile.
    std::string go_on(u64 step) {
        // First: behind the move the next update would hide that the last one is missing.
        if (reader_->find(changed) != newest_) return "the last update is not found";
        const bool moved = other_->capacity() == to, knows = other_->growing();
        const table_answer did = other_->update(changed, newest_ + 1);
        if (did == table_answer::updated)
            ++newest_, ++(moved ? behind_ : knows ? beside_ : before_);
        else if (did == table_answer::contended)
            ++refused_;
        else
            return "an update was refused with " + did.text();
        if (step % 1009 == 0)
            if (std::string why = come_or_go(); !why.empty()) return why;
        if (other_->find(changed) != newest_ || reader_->find(changed) != newest_) return "an update is not found";
        if (other_->contains(comes_and_goes_) != is_there_ || reader_->contains(comes_and_goes_) != is_there_)
            return "what came is not found, or what went is";
        u64& last = last_[step % led_.size()];
        const std::optional<u64> led = reader_->find(led_[step % led_.size()]);
        if (!led || *led < last) return "a key of the leader's is missing, or goes back";
        last = *led;
        return other_->fault() || reader_->fault() ? "a fault was latched" : "";
    }
    std::string damage() const {
        std::string text;
        (void)other_->verify([&](const hash_table_finding& f) {
            text = describe(f.what);
            return false;
        });
        return text;
    }
    [[nodiscard]] std::string uri() const { return disk_.file_uri("t"); }

    static constexpr u64 changed = 1;
    unique_directory disk_{"many-growth"};
    std::optional<table> other_;
    std::optional<reader> reader_;
    u64 newest_ = 0;  // value of `changed`
    // Updates: of the old generation alone, of both, of the next one.
    u64 before_ = 0, beside_ = 0, behind_ = 0, refused_ = 0;
    std::array<u64, 4> led_{};

 private:
    std::string come_or_go() {
        const table_answer did = is_there_ ? other_->erase(comes_and_goes_) : other_->try_insert(comes_and_goes_, 1);
        if (did == table_answer::contended) return {};
        if (did != (is_there_ ? table_answer::erased : table_answer::inserted)) return "it neither came nor went";
        is_there_ = !is_there_;
        return {};
    }

    u64 comes_and_goes_ = 0;
    bool is_there_ = false;
    std::array<u64, 4> last_{};
};

// The other way round. Growths and shrinkages follow each other, each with a pace of its own.
class HashTableManyFollowSteps : public HashTableManyGrowthSteps {
 protected:
    // What the stopped one tells of.
    struct told {
        std::atomic<u64> updates, generations;
    };

    // What is stopped again and again. Its key's stripes are others than those of the leader's, so that it waits for
    // none that the leader owns, and the leader owns none between its steps: whatever it is refused is a defect.
    std::function<void()> follow() {
        return [this, mine = std::make_shared<table>(table::attach(uri()))] {
            auto here = mine->segment().info().identity;
            for (u64 stamp = 1; stamp <= updates; ++stamp) {
                if (mine->update(followed(), stamp) != table_answer::updated) ::_exit(4);
                told_->updates.store(stamp);
                if (const auto now = mine->segment().info().identity; now != here) ++told_->generations, here = now;
            }
        };
    }
    // What the leader does meanwhile.
    std::string lead_on(u64 step) {
        if (step == 1) come_anew();  // what was there before the fork keeps its slot in the stopped one
        if (step >= next_ && told_->updates.load() >= left_until_) {
            next_ = step + pace_;
            act();
        }
        return look();
    }

    [[nodiscard]] u64 followed() const { return led_[0]; }

    static constexpr u64 updates = 600, updates_to_take_over = 160, steps_of_a_growth = 60;
    u64 begun_ = 0, committed_ = 0, given_up_ = 0, left_ = 0, taken_over_ = 0, contended_ = 0;
    shared_image page_{4096};
    told* told_ = new (page_.bytes().data()) told{};

 private:
    void act() {
        if (left_until_ != 0 && other_->capacity() != begun_at_) ++taken_over_;
        left_until_ = 0;
        if (!other_->growing()) return begin();
        if (leaves_after_ == 0 || --leaves_after_ != 0) return void(other_->advance(at_once_));
        ++left_;
        come_anew();
        left_until_ = told_->updates.load() + updates_to_take_over;
    }
    void come_anew() {
        other_.reset();
        other_.emplace(table::attach(uri()));
        other_->set_patience(std::chrono::nanoseconds(0));
    }
    void begin() {
        if (begun_at_ != 0) ++(other_->capacity() != begun_at_ ? committed_ : given_up_);
        begun_at_ = other_->capacity();
        try {
            other_->grow(begun_at_ == from ? to : from);
            ++begun_;
        } catch (const error& why) {
            if (why.code() != errc::contended) throw;
            ++contended_;  // the stopped one leads, or has a stripe
            begun_at_ = 0;
        }
        // Some are over within one attach of the follower's, and some last for a hundred of its updates.
        at_once_ = up_to(20);
        pace_ = 1 + up_to(60'000) * at_once_ / steps_of_a_growth;
        leaves_after_ = begun_ % 6 == 0 ? up_to(steps_of_a_growth / at_once_) : 0;
    }
    std::string look() {
        const u64 done = told_->updates.load();
        const std::optional<u64> found = reader_->find(followed());
        if (!found || *found < done || *found > done + 1) return "a reader misses an update of the stopped one";
        if (other_->find(followed()) != found) return "the leader misses an update of the stopped one";
        if (other_->fault() || reader_->fault()) return "a fault was latched";
        return {};
    }
    // Of each magnitude as many.
    u64 up_to(u64 most) {
        std::uniform_real_distribution<double> magnitude(0, std::log(static_cast<double>(most)));
        return static_cast<u64>(std::exp(magnitude(random_)));
    }

    std::mt19937_64 random_{seed};
    u64 next_ = 0;        // step of the stopped one
    u64 left_until_ = 0;  // update of the stopped one
    u64 begun_at_ = 0;    // capacity
    u64 pace_ = 1, at_once_ = 1, leaves_after_ = 0;
};

TEST_P(HashTableManyGrowthSteps, AtEachInstructionOfTheLeaderAnotherWriterGoesOn) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    make();
    const step_report report = step_through([&] { return lead(); }, [&](u64 step) { return go_on(step); });
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.steps, 10'000U);
    EXPECT_GT(beside_, 1000U);
    EXPECT_GT(behind_, 500U);
    EXPECT_GT(refused_, 100U) << "no stripe was closed, or held";
    EXPECT_EQ(other_->capacity(), to);
    EXPECT_EQ(other_->find(changed), newest_);
    EXPECT_EQ(damage(), "");
    EXPECT_EQ(disk_.entries().size(), 2U) << "left behind";
    RecordProperty("steps", std::to_string(report.steps));
    std::printf("%llu instructions; updates there: %llu before, %llu in both, %llu behind it, %llu refused; %.2f s\n",
                static_cast<unsigned long long>(report.steps), static_cast<unsigned long long>(before_),
                static_cast<unsigned long long>(beside_), static_cast<unsigned long long>(behind_),
                static_cast<unsigned long long>(refused_), report.seconds);
}

TEST_P(HashTableManyFollowSteps, AtEachInstructionOfAFollowerTheLeaderGoesOnOrGoes) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    make();
    const step_report report = step_through([&] { return follow(); }, [&](u64 step) { return lead_on(step); });
    std::printf(
        "%llu instructions; %llu growths begun, %llu seen to the end, %llu given up, %llu left, %llu of them led "
        "on by the follower; %llu times contended; the follower came to %llu generations in %llu updates; %.2f s\n",
        static_cast<unsigned long long>(report.steps), static_cast<unsigned long long>(begun_),
        static_cast<unsigned long long>(committed_), static_cast<unsigned long long>(given_up_),
        static_cast<unsigned long long>(left_), static_cast<unsigned long long>(taken_over_),
        static_cast<unsigned long long>(contended_), static_cast<unsigned long long>(told_->generations.load()),
        static_cast<unsigned long long>(told_->updates.load()), report.seconds);
    ASSERT_EQ(report.failure, "");
    EXPECT_GE(committed_, 3U);
    EXPECT_GE(told_->generations.load(), 2U);
    EXPECT_GE(left_, 1U);
    EXPECT_LE(contended_, begun_);
    // What the follower had led is led by nobody now.
    for (unsigned tries = 0; other_->advance(64) || other_->growing(); ++tries) ASSERT_LT(tries, 10'000U);
    EXPECT_EQ(other_->find(followed()), updates);
    EXPECT_EQ(reader_->find(followed()), updates);
    EXPECT_EQ(other_->size(), 1 + led_.size());
    EXPECT_EQ(damage(), "");
    EXPECT_EQ(disk_.entries().size(), 2U) << "left behind";
    RecordProperty("steps", std::to_string(report.steps));
}

constexpr auto direction = [](const auto& made) { return made.param ? "growing" : "shrinking"; };
INSTANTIATE_TEST_SUITE_P(Tables, HashTableManyGrowthSteps, ::testing::Values(true, false), direction);
INSTANTIATE_TEST_SUITE_P(Tables, HashTableManyFollowSteps, ::testing::Values(true, false), direction);

}  // namespace
