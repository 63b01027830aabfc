// SPDX-License-Identifier: Apache-2.0
// Deaths around an inbox: its owner at each step of a command, and before and after each system call of opening and
// closing; a requester before and after each system call of an enqueue; and owners killed at random while requesters
// count. No command is applied twice, what was answered stands, and the next owner has an inbox.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "holdfast/inbox.hpp"
#include "holdfast/queue.hpp"
#include "support/capability.hpp"
#include "support/kill_rig.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace std::chrono_literals;
using holdfast::attach_options;
using holdfast::field_type;
using holdfast::inbox_client;
using holdfast::inbox_command;
using holdfast::inbox_operation;
using holdfast::inbox_verdict;
using holdfast::outcome;
using holdfast::table_inbox;
using holdfast::test::can_step;
using holdfast::test::can_trace;
using holdfast::test::child_process;
using holdfast::test::kill_progress;
using holdfast::test::scaled;
using holdfast::test::unique_posix_name;

using counts = holdfast::hash_table<std::uint64_t, std::uint64_t>;
using counts_reader = holdfast::hash_table_reader<std::uint64_t, std::uint64_t>;

const std::uint64_t key = 1;

attach_options after_death() {
    attach_options options;
    options.lease_timeout = 10s;
    return options;
}
inbox_command one_more() {
    inbox_command what;
    what.operation = inbox_operation::increment;
    what.key = std::as_bytes(std::span(&key, 1));
    what.counted = field_type::u64;
    what.by = 1;
    return what;
}

class InboxKill : public ::testing::Test {
 protected:
    InboxKill() {
        auto table = counts::create(name_.uri(), {.capacity = 8});
        EXPECT_TRUE(table.try_insert(key, 0));
    }
    [[nodiscard]] std::uint64_t stored() const { return counts_reader::attach(name_.uri()).find(key).value_or(~0ULL); }

    /// What every death leaves: a table that the next owner takes, an inbox that he opens anew, in which nothing waits,
    /// and a requester that is answered. "" when all is well.
    [[nodiscard]] std::string goes_on() const {
        counts table = counts::attach(name_.uri(), after_death());
        const std::uint64_t before = *table.find(key);
        table_inbox inbox(table);
        if (inbox.apply().status != outcome::empty) return "a command of an earlier life is there";
        auto client = inbox_client::attach(name_.uri());
        if (!client) return "the next inbox is not found";
        if (!client->send(one_more(), 10s) || inbox.apply().count != 1) return "the next command is not taken";
        const auto answer = client->next();
        if (!answer || answer->verdict != inbox_verdict::done) return "the next command is not answered";
        return *table.find(key) == before + 1 ? "" : "the next command counts otherwise";
    }

    unique_posix_name name_{"inbox-kill"};
    holdfast::test::seeded_random random_;
};

/// What is there at each step of a command, seen by a process that has all of it mapped.
struct seen_steps {
    std::uint64_t waiting = 0, count = 0, answers = 0;
    [[nodiscard]] std::vector<std::byte> bytes() const {
        std::vector<std::byte> out(sizeof *this);
        std::memcpy(out.data(), this, sizeof *this);
        return out;
    }
};

TEST_F(InboxKill, AnOwnerKilledAtAnyStepOfACommandHasAppliedItOnceOrNot) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    std::optional<counts_reader> table;
    std::optional<holdfast::queue_observer> commands;
    std::optional<holdfast::broadcast_reader> answers;
    std::uint64_t before = 0;
    const auto prepare = [&] {
        table.reset(), commands.reset(), answers.reset();
        before = stored();
    };
    const auto start = [&]() -> std::function<void()> {
        struct owner {
            explicit owner(const std::string& uri) : table(counts::attach(uri, after_death())), inbox(table) {}
            counts table;
            table_inbox<counts> inbox;
        };
        const auto alive = std::make_shared<owner>(name_.uri());
        auto client = inbox_client::attach(name_.uri());
        if (!client || !client->send(one_more(), 100s)) throw std::runtime_error("the command was not sent");
        return [alive] { (void)alive->inbox.apply(); };
    };
    seen_steps last;
    const auto shared = [&] {
        if (!table) {  // the child has begun
            table.emplace(counts_reader::attach(name_.uri()));
            commands.emplace(holdfast::queue_observer::attach(name_.uri() + ".inbox"));
            answers.emplace(holdfast::broadcast_reader::attach(name_.uri() + ".answers"));
        }
        last.waiting = commands->producer().position != commands->consumer()->position ? 1 : 0;
        last.count = *table->find(key) - before;
        std::vector<std::byte> answer;
        auto copy = *answers;
        for (last.answers = 0; copy.read(answer); ++last.answers) {
        }
        return last.bytes();
    };
    std::vector<seen_steps> left;
    const auto dead = [&](std::uint64_t) -> std::string {
        left.push_back(last);
        if (stored() != before + last.count) return "the table holds another count than was seen";
        return goes_on();
    };
    const auto report = holdfast::test::kill_at_every_image(prepare, start, shared, dead);
    EXPECT_TRUE(report.failure.empty()) << report.failure;
    // Waiting; taken (A2); applied (A3); answered (A4): each a death of its own, in this order.
    const std::uint64_t wanted[][3] = {{1, 0, 0}, {0, 0, 0}, {0, 1, 0}, {0, 1, 1}};
    ASSERT_EQ(left.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i)
        EXPECT_TRUE(left[i].waiting == wanted[i][0] && left[i].count == wanted[i][1] && left[i].answers == wanted[i][2])
            << i << ": " << left[i].waiting << " waiting, counted " << left[i].count << ", answers " << left[i].answers;
}

TEST_F(InboxKill, AnOwnerKilledWhileItOpensOrClosesIsInNobodysWay) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    struct owner {
        explicit owner(const std::string& uri) : table(counts::attach(uri, after_death())) {}
        counts table;
        std::optional<table_inbox<counts>> inbox;
    };
    const auto nothing = [] { return std::string(); };
    const auto dead = [&]() -> std::string {
        if (inbox_client::attach(name_.uri())) return "an inbox without an owner is found";
        return goes_on();
    };
    const auto at_once = [] {};
    const auto open = [&]() -> std::function<void()> {
        const auto alive = std::make_shared<owner>(name_.uri());
        return [alive] { alive->inbox.emplace(alive->table); };
    };
    const auto opening = holdfast::test::kill_at_every_system_call(at_once, open, nothing, dead);
    EXPECT_TRUE(opening.passed()) << opening.failure;
    EXPECT_GT(opening.steps, 20U);
    // Over what a dead one left, too.
    const auto leave = [&] {
        child_process child([&] {
            const auto owner_of_it = open();
            owner_of_it();
            _exit(0);
        });
        (void)child.wait();
    };
    const auto again = holdfast::test::kill_at_every_system_call(leave, open, nothing, dead);
    EXPECT_TRUE(again.passed()) << again.failure;
    EXPECT_GT(again.steps, opening.steps);
    const auto close = [&]() -> std::function<void()> {
        const auto alive = std::make_shared<owner>(name_.uri());
        alive->inbox.emplace(alive->table);
        auto client = inbox_client::attach(name_.uri());
        if (!client || !client->send(one_more(), 100s)) throw std::runtime_error("the command was not sent");
        return [alive] { alive->inbox->close(); };
    };
    const auto closing = holdfast::test::kill_at_every_system_call(at_once, close, nothing, dead);
    EXPECT_TRUE(closing.passed()) << closing.failure;
    EXPECT_GT(closing.steps, 10U);
}

TEST_F(InboxKill, ARequesterKilledAmidAnEnqueueLeavesAWholeCommandOrNone) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    counts table = counts::attach(name_.uri(), after_death());
    table_inbox inbox(table);
    auto second = inbox_client::attach(name_.uri());
    ASSERT_TRUE(second);
    std::uint64_t none = 0, whole = 0;
    const auto dead = [&]() -> std::string {
        const std::uint64_t before = *table.find(key);
        const std::uint64_t taken = inbox.apply().count;
        if (taken > 1 || inbox.counts().misfits != 0) return "something else than one command was there";
        if (*table.find(key) != before + taken) return "the command counts otherwise";
        (taken == 1 ? whole : none) += 1;
        // Its lease is free as soon as the kernel has taken it down.
        if (!second->send(one_more(), 10s, 10s)) return "the next requester is not let in";
        if (inbox.apply().count != 1 || *table.find(key) != before + taken + 1) return "the next command is lost";
        return second->next() ? "" : "the next command is not answered";
    };
    const auto report = holdfast::test::kill_at_every_system_call(
        [] {},
        [&]() -> std::function<void()> {
            const auto client = std::make_shared<inbox_client>(*inbox_client::attach(name_.uri()));
            return [client] { (void)client->send(one_more(), 100s, 10s); };
        },
        [] { return std::string(); }, dead);
    EXPECT_TRUE(report.passed()) << report.failure;
    EXPECT_GT(none, 10U);
    EXPECT_GT(whole, 0U);
}

TEST_F(InboxKill, OwnersKilledUnderLoadApplyNothingTwiceAndLoseNothingAnswered) {
    const std::uint64_t rounds = scaled(150);
    std::uint64_t answered = 0, unknown = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        const std::uint64_t delay_ns = random_.below(2'000'000 * holdfast::test::slowness);
        const std::uint64_t before = stored();
        child_process owner([&](holdfast::test::channel& parent) {
            counts table = counts::attach(name_.uri(), after_death());
            table_inbox inbox(table);
            parent.send(true);
            kill_progress::die_in(delay_ns);
            for (;;) (void)(inbox.wait(1s) && inbox.apply());
        });
        ASSERT_TRUE(owner.talk().receive<bool>()) << owner.wait().text();
        std::uint64_t done = 0, open = 0;
        if (auto client = inbox_client::attach(name_.uri())) {
            for (;;) {
                const auto reply = client->ask(one_more(), 20s);
                if (reply.status != outcome::ok) {
                    // Only what was sent may have been applied.
                    open = reply.status == outcome::reader_gone ? 1 : 0;
                    ASSERT_TRUE(open == 1 || reply.status == outcome::writer_gone) << outcome_name(reply.status);
                    break;
                }
                ASSERT_EQ(reply.answer.verdict, inbox_verdict::done);
                std::uint64_t value = 0;
                ASSERT_EQ(reply.answer.value.size(), sizeof value);
                std::memcpy(&value, reply.answer.value.data(), sizeof value);
                ASSERT_EQ(value, before + ++done);
            }
        }
        ASSERT_EQ(owner.wait().signal, SIGKILL);
        const std::uint64_t now = stored();
        ASSERT_TRUE(now == before + done || now == before + done + open)
            << "round " << round << ": " << done << " answered, counted " << now - before;
        answered += done, unknown += open;
    }
    ASSERT_EQ(goes_on(), "");
    EXPECT_GT(answered, rounds);
    EXPECT_GT(unknown, 0U);
}

}  // namespace
