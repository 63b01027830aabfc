// SPDX-License-Identifier: Apache-2.0
// Inboxes: what commands do and answer for every kind of table's handle, who may have one, and how they end.
#include "holdfast/inbox.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/hash_table/growing.hpp"
#include "holdfast/hash_table/many.hpp"
#include "support/capability.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace std::chrono_literals;
using holdfast::dynamic_hash_table;
using holdfast::entry_change;
using holdfast::errc;
using holdfast::field_type;
using holdfast::growing_hash_table;
using holdfast::hash_table;
using holdfast::inbox_client;
using holdfast::inbox_command;
using holdfast::inbox_condition;
using holdfast::inbox_operation;
using holdfast::inbox_verdict;
using holdfast::outcome;
using holdfast::table_inbox;
using holdfast::test::can_change_user;
using holdfast::test::child_process;
using holdfast::test::expect_refusal;
using holdfast::test::scaled;
using holdfast::test::unique_directory;
using holdfast::test::unique_posix_name;

struct visit {
    std::uint64_t count;
    std::uint32_t user;
    bool member;
    std::uint8_t small;
    std::uint16_t pairs[3];
};
using visits = hash_table<std::uint64_t, visit>;

template <class T>
std::span<const std::byte> view_of(const T& value) {
    return std::as_bytes(std::span(&value, 1));
}
template <class T>
T value_in(std::span<const std::byte> bytes) {
    T value{};
    EXPECT_EQ(bytes.size(), sizeof value);
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
    return value;
}

/// Commands whose key and value they keep.
struct asked {
    std::uint64_t key;
    visit value{};
    inbox_command what{};
    asked(inbox_operation operation, std::uint64_t k, const visit& v = {}) : key(k), value(v) {
        what.operation = operation;
        what.key = view_of(key);
        if (operation == inbox_operation::put) what.value = view_of(value);
    }
    asked(const asked&) = delete;
    asked& operator=(const asked&) = delete;
    asked& when(inbox_condition condition) {
        what.condition = condition;
        return *this;
    }
    asked& when_it_is(const visit& v) {
        what.condition = inbox_condition::tags;
        what.tags[what.tag_count++] = holdfast::detail::value_tag(view_of(v));
        return *this;
    }
    asked& counting(std::uint32_t offset, field_type type, std::int64_t by) {
        what.field_offset = offset;
        what.counted = type;
        what.by = by;
        return *this;
    }
};

/// A visit without stray bytes.
visit visit_of(std::uint64_t count, std::uint32_t user = 7) {
    visit v;
    std::memset(&v, 0, sizeof v);
    v.count = count, v.user = user;
    return v;
}

template <class Table>
class InboxOf : public ::testing::Test {
 protected:
    InboxOf() {
        (void)visits::create(name_.uri(), {.capacity = 8});
        table_.emplace(Table::attach(name_.uri()));
        inbox_.emplace(*table_);
        client_ = inbox_client::attach(name_.uri());
    }
    /// What the owner says to a command.
    holdfast::inbox_answer said(const inbox_command& what) {
        const holdfast::result sent = client_->send(what, 10s);
        EXPECT_TRUE(sent) << outcome_name(sent.status);
        EXPECT_EQ(inbox_->apply().count, 1U);
        const auto answer = client_->next();
        EXPECT_TRUE(answer && answer->id.sequence == sent.count);
        return answer.value_or(holdfast::inbox_answer{});
    }
    inbox_verdict verdict(const asked& each) { return said(each.what).verdict; }
    [[nodiscard]] std::optional<visit> stored(std::uint64_t key) const {
        return holdfast::hash_table_reader<std::uint64_t, visit>::attach(name_.uri()).find(key);
    }

    unique_posix_name name_{"inbox"};
    std::optional<Table> table_;
    std::optional<table_inbox<Table>> inbox_;
    std::optional<inbox_client> client_;
};
using handles = ::testing::Types<visits, growing_hash_table<std::uint64_t, visit>, dynamic_hash_table>;
TYPED_TEST_SUITE(InboxOf, handles);

TYPED_TEST(InboxOf, PutEraseAndIncrementAreAppliedAndAnswered) {
    ASSERT_TRUE(this->client_);
    asked put(inbox_operation::put, 1, visit_of(5));
    auto answer = this->said(put.what);
    EXPECT_EQ(answer.verdict, inbox_verdict::done);
    EXPECT_EQ(answer.change, entry_change::inserted);
    EXPECT_TRUE(answer.value.empty());
    EXPECT_EQ(this->said(put.what).change, entry_change::updated);
    asked up(inbox_operation::increment, 1);
    answer = this->said(up.counting(offsetof(visit, count), field_type::u64, 3).what);
    EXPECT_EQ(answer.verdict, inbox_verdict::done);
    EXPECT_EQ(value_in<visit>(answer.value).count, 8U);
    EXPECT_EQ(this->stored(1)->count, 8U);
    EXPECT_EQ(this->said(asked(inbox_operation::erase, 1).what).change, entry_change::erased);
    EXPECT_FALSE(this->stored(1));
    EXPECT_EQ(this->verdict(asked(inbox_operation::erase, 1)), inbox_verdict::not_found);
    EXPECT_EQ(this->inbox_->counts().taken, 5U);
    EXPECT_EQ(this->inbox_->counts().done, 4U);
    EXPECT_EQ(this->inbox_->counts().refused, 1U);
    EXPECT_EQ(this->inbox_->apply().status, outcome::empty);
}

TYPED_TEST(InboxOf, ConditionsAreLookedAtWithTheChange) {
    using operation = inbox_operation;
    EXPECT_EQ(this->verdict(asked(operation::put, 1, visit_of(1)).when(inbox_condition::any_value)),
              inbox_verdict::not_found);
    EXPECT_EQ(this->verdict(asked(operation::put, 1, visit_of(1)).when_it_is(visit_of(1))), inbox_verdict::not_found);
    EXPECT_EQ(this->verdict(asked(operation::put, 1, visit_of(1)).when(inbox_condition::only_new)),
              inbox_verdict::done);
    EXPECT_EQ(this->verdict(asked(operation::put, 1, visit_of(2)).when(inbox_condition::only_new)),
              inbox_verdict::exists);
    EXPECT_EQ(this->verdict(asked(operation::put, 1, visit_of(3)).when_it_is(visit_of(2))), inbox_verdict::stale);
    EXPECT_EQ(this->stored(1)->count, 1U);
    EXPECT_EQ(this->verdict(asked(operation::put, 1, visit_of(3)).when_it_is(visit_of(2)).when_it_is(visit_of(1))),
              inbox_verdict::done);
    asked stale(operation::increment, 1), fresh(operation::increment, 1);
    stale.counting(0, field_type::u64, 1).when_it_is(visit_of(1));
    fresh.counting(0, field_type::u64, 1).when_it_is(visit_of(3));
    EXPECT_EQ(this->verdict(stale), inbox_verdict::stale);
    EXPECT_EQ(this->verdict(fresh), inbox_verdict::done);
    EXPECT_EQ(this->stored(1)->count, 4U);
    EXPECT_EQ(this->verdict(asked(operation::erase, 1).when_it_is(visit_of(3))), inbox_verdict::stale);
    EXPECT_EQ(this->verdict(asked(operation::erase, 1).when_it_is(visit_of(4))), inbox_verdict::done);
    EXPECT_EQ(this->verdict(asked(operation::erase, 1).when(inbox_condition::any_value)), inbox_verdict::not_found);
    EXPECT_FALSE(this->stored(1));
}

TYPED_TEST(InboxOf, SumsOutOfRangeChangeNothing) {
    visit v = visit_of(~std::uint64_t{0});
    v.small = 250;
    ASSERT_EQ(this->verdict(asked(inbox_operation::put, 1, v)), inbox_verdict::done);
    asked up(inbox_operation::increment, 1), small(inbox_operation::increment, 1), down(inbox_operation::increment, 1);
    EXPECT_EQ(this->verdict(up.counting(offsetof(visit, count), field_type::u64, 1)), inbox_verdict::out_of_range);
    EXPECT_EQ(this->verdict(small.counting(offsetof(visit, small), field_type::u8, 6)), inbox_verdict::out_of_range);
    EXPECT_EQ(this->verdict(down.counting(offsetof(visit, user), field_type::u32, -8)), inbox_verdict::out_of_range);
    EXPECT_EQ(this->verdict(down.counting(offsetof(visit, user), field_type::u32, -7)), inbox_verdict::done);
    EXPECT_EQ(this->stored(1)->user, 0U);
    EXPECT_EQ(this->stored(1)->small, 250U);
}

TYPED_TEST(InboxOf, CommandsThatAreNotForThisTableAreNotUnderstood) {
    ASSERT_EQ(this->verdict(asked(inbox_operation::put, 1, visit_of(5))), inbox_verdict::done);
    std::vector<inbox_command> misfits;
    const asked good(inbox_operation::put, 1, visit_of(6)), count(inbox_operation::increment, 1);
    misfits.push_back(good.what), misfits.back().key = good.what.key.first(7);
    misfits.push_back(good.what), misfits.back().value = good.what.value.first(4);
    misfits.push_back(good.what), misfits.back().value = {};
    misfits.push_back(count.what), misfits.back().value = good.what.value;
    misfits.push_back(count.what), misfits.back().condition = inbox_condition::only_new;
    misfits.push_back(asked(inbox_operation::erase, 1).what);
    misfits.back().key = good.what.key;
    misfits.back().condition = inbox_condition::only_new;
    const auto counted = [&](std::uint32_t offset, field_type type) {
        misfits.push_back(count.what);
        misfits.back().field_offset = offset, misfits.back().counted = type, misfits.back().by = 1;
    };
    counted(4, field_type::u32);                       // within a field
    counted(0, field_type::u32);                       // of another type
    counted(offsetof(visit, member), field_type::u8);  // a bool
    counted(offsetof(visit, pairs), field_type::u16);  // an array
    counted(sizeof(visit), field_type::u64);           // behind the value
    counted(~std::uint32_t{0}, field_type::u64);
    for (std::size_t i = 0; i < misfits.size(); ++i)
        EXPECT_EQ(this->said(misfits[i]).verdict, inbox_verdict::not_understood) << i;
    EXPECT_EQ(this->stored(1)->count, 5U);
    EXPECT_EQ(this->inbox_->counts().misfits, misfits.size());
}

TYPED_TEST(InboxOf, AFullTableSaysSo) {
    std::uint64_t key = 0;
    inbox_verdict last = inbox_verdict::done;
    for (; key < 1000 && last == inbox_verdict::done; ++key) last = this->verdict(asked(inbox_operation::put, key));
    EXPECT_EQ(last, inbox_verdict::full);
    EXPECT_GE(key, 8U);
}

TYPED_TEST(InboxOf, ACommandBehindItsDeadlineIsNotApplied) {
    ASSERT_TRUE(this->client_->send(asked(inbox_operation::put, 1, visit_of(5)).what, -1s));
    EXPECT_EQ(this->inbox_->apply().count, 1U);
    const auto answer = this->client_->next();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->verdict, inbox_verdict::late);
    EXPECT_FALSE(this->stored(1));
    EXPECT_EQ(this->inbox_->counts().late, 1U);
}

using Inbox = InboxOf<visits>;

TEST_F(Inbox, BytesThatMeanBoolAreBroughtToOne) {
    visit v = visit_of(1);
    std::memset(&v.member, 2, 1);
    ASSERT_EQ(verdict(asked(inbox_operation::put, 1, v)), inbox_verdict::done);
    std::uint8_t byte = 0;
    const visit found = *stored(1);
    std::memcpy(&byte, &found.member, 1);
    EXPECT_EQ(byte, 1);
}

TEST_F(Inbox, AFullQueueTakesNothingUntilTheOwnerHasGoneOn) {
    std::uint64_t sent = 0;
    holdfast::result last;
    for (; sent < 100'000 && last; ++sent) last = client_->send(asked(inbox_operation::put, 1).what, 10s);
    ASSERT_EQ(last.status, outcome::full);
    const std::uint64_t taken = sent - 1;
    EXPECT_EQ(inbox_->apply(10).count, 10U);
    std::uint64_t applied = 10;
    while (const auto some = inbox_->apply(100)) applied += some.count;
    EXPECT_EQ(applied, taken);
    std::uint64_t answered = 0;
    for (; client_->next(); ++answered) {
    }
    EXPECT_EQ(answered, taken);
    EXPECT_EQ(verdict(asked(inbox_operation::erase, 1)), inbox_verdict::done);
}

TEST_F(Inbox, WhoeverIsAmidAnEnqueueIsWaitedFor) {
    const auto other = holdfast::queue_producer::attach(name_.uri() + ".inbox");
    EXPECT_EQ(client_->send(asked(inbox_operation::put, 1).what, 10s, 2ms).status, outcome::contended);
}

TEST_F(Inbox, AClientSeesItsOwnAnswersAlone) {
    auto second = inbox_client::attach(name_.uri());
    ASSERT_TRUE(second);
    EXPECT_NE(second->client(), client_->client());
    ASSERT_TRUE(client_->send(asked(inbox_operation::put, 1).what, 10s));
    ASSERT_TRUE(second->send(asked(inbox_operation::erase, 5).what, 10s));
    EXPECT_EQ(inbox_->apply().count, 2U);
    EXPECT_EQ(second->next()->verdict, inbox_verdict::not_found);
    EXPECT_FALSE(second->next());
    EXPECT_EQ(client_->next()->verdict, inbox_verdict::done);
    EXPECT_FALSE(client_->next());
}

TEST_F(Inbox, AnAnswerThatWasOverwrittenIsNone) {
    inbox_.reset();
    inbox_.emplace(*table_, holdfast::inbox_options{.capacity_bytes = 1024});
    auto slow = inbox_client::attach(name_.uri()), other = inbox_client::attach(name_.uri());
    ASSERT_TRUE(slow && other);
    ASSERT_TRUE(slow->send(asked(inbox_operation::put, 1).what, 10s));
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(other->send(asked(inbox_operation::erase, 9).what, 10s));
        (void)inbox_->apply();
    }
    ASSERT_TRUE(slow->send(asked(inbox_operation::erase, 9).what, 10s));
    EXPECT_EQ(inbox_->apply().count, 1U);
    const auto answer = slow->next();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->id.sequence, 2U) << "the first one's is gone";
    EXPECT_EQ(answer->verdict, inbox_verdict::not_found);
    EXPECT_FALSE(slow->next());
    EXPECT_FALSE(slow->fault());
}

TEST_F(Inbox, AskWaitsForTheOwner) {
    std::atomic<bool> over{false};
    std::thread owner([&] {
        while (!over.load()) (void)(inbox_->wait(50ms) && inbox_->apply());
    });
    asked up(inbox_operation::increment, 1);
    up.counting(0, field_type::u64, 1);
    EXPECT_EQ(client_->ask(asked(inbox_operation::put, 1, visit_of(0)).what, 10s).answer.verdict, inbox_verdict::done);
    for (std::uint64_t i = 1; i <= 20; ++i) {
        const auto reply = client_->ask(up.what, 10s);
        ASSERT_EQ(reply.status, outcome::ok);
        EXPECT_EQ(value_in<visit>(reply.answer.value).count, i);
    }
    over = true;
    owner.join();
}

TEST_F(Inbox, AskOfAnOwnerThatDoesNotLookTimesOut) {
    EXPECT_EQ(client_->ask(asked(inbox_operation::put, 1).what, 5ms).status, outcome::timed_out);
    EXPECT_EQ(inbox_->apply().count, 1U);
    EXPECT_FALSE(stored(1)) << "what nobody waits for any more is not applied";
}

TEST_F(Inbox, RequestersOfManyProcessesLoseNoCount) {
    ASSERT_EQ(verdict(asked(inbox_operation::put, 1, visit_of(0))), inbox_verdict::done);
    constexpr std::uint64_t each = 200;
    const auto count = [&] {
        auto own = inbox_client::attach(name_.uri());
        asked up(inbox_operation::increment, 1);
        up.counting(0, field_type::u64, 1);
        for (std::uint64_t done = 0; done < each;) {
            const auto reply = own->ask(up.what, 20s);
            if (reply.status == outcome::contended || reply.status == outcome::full) continue;
            if (reply.status != outcome::ok || reply.answer.verdict != inbox_verdict::done)
                return std::string("an increment was answered ") + std::string(outcome_name(reply.status));
            ++done;
        }
        return std::string();
    };
    child_process one(count), two(count), three(count);
    while (inbox_->counts().done < 1 + 3 * each && inbox_->wait(20s)) (void)inbox_->apply(16);
    for (child_process* each_of : {&one, &two, &three})
        EXPECT_TRUE(each_of->wait().success()) << each_of->wait().text();
    EXPECT_EQ(stored(1)->count, 3 * each);
}

TEST_F(Inbox, CloseAnswersWhatWaitsAndRemovesBothSegments) {
    ASSERT_TRUE(client_->send(asked(inbox_operation::put, 1).what, 10s));
    inbox_->close();
    EXPECT_EQ(client_->next()->verdict, inbox_verdict::closed);
    EXPECT_FALSE(client_->next());
    EXPECT_FALSE(stored(1));
    for (const std::string& entry : name_.entries())
        EXPECT_TRUE(entry.find(".inbox") == entry.npos && entry.find(".answers") == entry.npos) << entry;
    EXPECT_FALSE(inbox_client::attach(name_.uri()));
    EXPECT_EQ(client_->send(asked(inbox_operation::put, 1).what, 10s).status, outcome::writer_gone);
    EXPECT_EQ(client_->wait(10s).status, outcome::writer_gone);
    EXPECT_EQ(inbox_->apply().status, outcome::read_only);
    EXPECT_EQ(inbox_->wait(10s).status, outcome::read_only);
    inbox_->close();
}

TEST_F(Inbox, AClientOfAnEarlierLifeIsToldToAttachAnew) {
    inbox_->close();
    inbox_.emplace(*table_);
    EXPECT_EQ(client_->send(asked(inbox_operation::put, 1).what, 10s).status, outcome::writer_gone);
    EXPECT_EQ(inbox_->apply().status, outcome::empty);
    client_ = inbox_client::attach(name_.uri());
    ASSERT_TRUE(client_);
    EXPECT_EQ(verdict(asked(inbox_operation::put, 1)), inbox_verdict::done);
}

// Somebody removes all names by hand, and the table and its inbox are made anew while the first owner lives.
TEST_F(Inbox, AnEarlierOwnerThatEndsLeavesTheInboxOfALaterOne) {
    for (const std::string& entry : name_.entries())
        ASSERT_EQ(::unlink((unique_posix_name::directory() + "/" + entry).c_str()), 0) << entry;
    auto anew = visits::create(name_.uri(), {.capacity = 8});
    table_inbox later(anew);
    inbox_.reset();
    client_ = inbox_client::attach(name_.uri());
    ASSERT_TRUE(client_);
    ASSERT_TRUE(client_->send(asked(inbox_operation::put, 1).what, 10s));
    EXPECT_EQ(later.apply().count, 1U);
    const auto answer = client_->next();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->verdict, inbox_verdict::done);
}

TEST_F(Inbox, WithoutALivingOwnerThereIsNone) {
    EXPECT_FALSE(inbox_client::attach(name_.uri() + "-other"));
    EXPECT_FALSE(inbox_client::attach("sysv:0x5f5e100"));
    inbox_.reset();
    table_.reset();
    child_process owner([&](holdfast::test::channel&) {
        auto table = visits::attach(name_.uri());
        table_inbox inbox(table);
        _exit(0);  // as a kill: nothing is closed
    });
    (void)owner.wait();
    EXPECT_EQ(holdfast::segment::attach(name_.uri() + ".answers", holdfast::access::read_only).info().kind,
              holdfast::container_kind::broadcast);
    EXPECT_FALSE(inbox_client::attach(name_.uri()));
    holdfast::attach_options after_death;
    after_death.lease_timeout = 10s;
    table_.emplace(visits::attach(name_.uri(), after_death));
    inbox_.emplace(*table_);
    client_ = inbox_client::attach(name_.uri());
    EXPECT_EQ(verdict(asked(inbox_operation::put, 1)), inbox_verdict::done);
}

TEST_F(Inbox, AForkedChildNeitherAppliesNorRemoves) {
    child_process child([&]() -> std::string {
        if (inbox_->apply().status != outcome::read_only) return "apply";
        if (inbox_->wait(1s).status != outcome::read_only) return "wait";
        inbox_->close();
        return {};
    });
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_EQ(verdict(asked(inbox_operation::put, 1)), inbox_verdict::done);
}

TEST_F(Inbox, AForkedRequesterTakesNoAnswerToItsParentForItsOwn) {
    ASSERT_TRUE(client_->send(asked(inbox_operation::put, 1, visit_of(5)).what, 10s));
    child_process child([&](holdfast::test::channel& parent) -> std::string {
        const holdfast::result sent = client_->send(asked(inbox_operation::erase, 9).what, 10s);
        parent.send(true);
        (void)parent.receive<bool>();  // both are applied
        const auto answer = client_->next();
        if (!sent || !answer) return "no answer";
        if (answer->verdict != inbox_verdict::not_found) return "the answer to its parent";
        return client_->next() ? "two answers" : "";
    });
    ASSERT_TRUE(child.talk().receive<bool>());
    EXPECT_EQ(inbox_->apply().count, 2U);
    child.talk().send(true);
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_EQ(client_->next()->verdict, inbox_verdict::done);
    EXPECT_FALSE(client_->next()) << "the answer to its child";
}

TEST_F(Inbox, ASecondOneOfTheSameTableIsRefusedAndLeavesTheFirst) {
    EXPECT_EQ(expect_refusal(errc::writer_alive, [&] { table_inbox second(*table_, {.patience = 2ms}); }), "");
    EXPECT_EQ(verdict(asked(inbox_operation::put, 1)), inbox_verdict::done);
}

TEST_F(Inbox, BothSegmentsHaveTheRightsOfTheTable) {
    inbox_->close();
    ASSERT_EQ(::chmod(name_.path().c_str(), 0664), 0);
    inbox_.emplace(*table_);
    for (const char* suffix : {".inbox", ".answers", ".inbox.peers"}) {
        struct stat status{};
        ASSERT_EQ(::stat((name_.path() + suffix).c_str(), &status), 0) << suffix;
        EXPECT_EQ(status.st_mode & 0777, std::string_view(suffix).ends_with("peers") ? 0660U : 0664U) << suffix;
    }
}

class InboxOpening : public ::testing::Test {
 protected:
    /// What `act` says as that user.
    template <class Act>
    [[nodiscard]] static std::string as_another(uid_t user, Act&& act) {
        child_process child([&]() -> std::string {
            if (::setresgid(user, user, user) != 0 || ::setresuid(user, user, user) != 0)
                return "cannot become another user";
            return act();
        });
        const auto end = child.wait();
        return end.success() ? "" : end.text();
    }
    /// What `act` says as a user to whom nothing belongs.
    template <class Act>
    [[nodiscard]] static std::string as_stranger(Act&& act) {
        return as_another(65534, act);
    }
    unique_posix_name name_{"inbox"};
};

TEST_F(InboxOpening, LeavesAloneWhatIsNotAnInbox) {
    auto table = visits::create(name_.uri(), {.capacity = 8});
    const auto open = [&] { table_inbox inbox(table); };
    {
        (void)holdfast::queue_producer::create(name_.uri() + ".inbox");
        EXPECT_EQ(expect_refusal(errc::already_exists, open), "");
        EXPECT_NO_THROW((void)holdfast::queue_producer::attach(name_.uri() + ".inbox"));
        holdfast::segment::remove(name_.uri() + ".inbox");
    }
    {
        (void)holdfast::broadcast_writer::create(name_.uri() + ".answers", {.schema = "value {value:u64@0}#8"});
        EXPECT_EQ(expect_refusal(errc::already_exists, open), "");
        EXPECT_FALSE(inbox_client::attach(name_.uri()));
        EXPECT_NO_THROW((void)holdfast::broadcast_writer::attach(name_.uri() + ".answers"));
        holdfast::segment::remove(name_.uri() + ".answers");
    }
    open();
}

TEST_F(InboxOpening, IsForTablesOfOneWriterWithAPath) {
    auto many = hash_table<std::uint64_t, visit, holdfast::writers::many>::create(name_.uri(), {.capacity = 8});
    auto by_bytes = dynamic_hash_table::attach(name_.uri());
    EXPECT_EQ(expect_refusal(errc::unsupported, [&] { table_inbox inbox(by_bytes); }), "");
    auto heap = visits::create("heap:", {.capacity = 8});
    EXPECT_EQ(expect_refusal(errc::unsupported, [&] { table_inbox inbox(heap); }), "");
    const unique_directory folder;
    auto long_named = visits::create(folder.file_uri(std::string(215, 'n')), {.capacity = 8});
    EXPECT_EQ(expect_refusal(errc::invalid_name, [&] { table_inbox inbox(long_named); }), "");
    auto file = visits::create(folder.file_uri("visits"), {.capacity = 8});
    table_inbox inbox(file);
    EXPECT_TRUE(inbox_client::attach(folder.file_uri("visits")));
}

TEST_F(InboxOpening, SaysWhoIsStoppedAmidAnEnqueueAndGoesOnBehindHim) {
    auto table = visits::create(name_.uri(), {.capacity = 8});
    std::optional<table_inbox<visits>> inbox;
    inbox.emplace(table, holdfast::inbox_options{.patience = 2ms});
    std::optional<holdfast::queue_producer> stopped = holdfast::queue_producer::attach(name_.uri() + ".inbox");
    inbox.reset();  // leaves both behind
    EXPECT_FALSE(inbox_client::attach(name_.uri()));
    EXPECT_EQ(expect_refusal(errc::writer_alive, [&] { table_inbox again(table, {.patience = 2ms}); }), "");
    stopped.reset();
    inbox.emplace(table);
    EXPECT_TRUE(inbox_client::attach(name_.uri()));
}

TEST_F(InboxOpening, IsRefusedToATableThatNobodyFindsByItsName) {
    auto table = visits::create(name_.uri(), {.capacity = 8});
    ASSERT_EQ(::unlink(name_.path().c_str()), 0);
    EXPECT_EQ(expect_refusal(errc::not_found, [&] { table_inbox inbox(table); }), "");
    // Another has the name, with other rights.
    ASSERT_EQ(::close(::open(name_.path().c_str(), O_CREAT | O_RDWR, 0666)), 0);
    EXPECT_EQ(expect_refusal(errc::not_found, [&] { table_inbox inbox(table); }), "");
}

TEST_F(InboxOpening, AFileThatIsNoSegmentIsNoInbox) {
    auto table = visits::create(name_.uri(), {.capacity = 8});
    const std::string file = name_.path() + ".answers";
    for (const std::string& content : {std::string(), std::string(10'000, '\0'), std::string(10'000, 'a')}) {
        std::ofstream(file) << content;
        ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
        EXPECT_FALSE(inbox_client::attach(name_.uri())) << content.size();
    }
}

TEST_F(InboxOpening, WhoMayOnlyReadTheTableFindsItAndMayNotAsk) {
    if (!can_change_user()) GTEST_SKIP() << "needs: becoming another user";
    auto table = visits::create(name_.uri(), {.capacity = 8});
    for (const mode_t mode : {0644U, 0666U}) {
        ASSERT_EQ(::chmod(name_.path().c_str(), mode), 0);
        table_inbox inbox(table);
        holdfast::attach_options whom;
        whom.trust.owner = ::geteuid();
        const std::string said = as_stranger([&]() -> std::string {
            auto client = inbox_client::attach(name_.uri(), whom);
            if (!client) return "it is not found";
            const asked put(inbox_operation::put, 1);
            if (mode == 0666) return client->send(put.what, 10s) ? "" : "who may write may not ask";
            std::string why = expect_refusal(errc::no_permission, [&] { (void)client->send(put.what, 10s); });
            if (!why.empty()) return why;
            holdfast::queue_consumer_options how;
            how.segment = whom;
            return expect_refusal(errc::no_permission,
                                  [&] { (void)holdfast::queue_consumer::attach(name_.uri() + ".inbox", how); });
        });
        EXPECT_EQ(said, "") << mode;
        EXPECT_EQ(inbox.apply().count, mode == 0666 ? 1U : 0U);
    }
}

TEST_F(InboxOpening, OneThatAStrangerMadeIsNotBelievedAndLeftAlone) {
    if (!can_change_user()) GTEST_SKIP() << "needs: becoming another user";
    auto table = visits::create(name_.uri(), {.capacity = 8});
    const std::string made = as_stranger([&]() -> std::string {
        const holdfast::broadcast_options ring{.schema = holdfast::detail::inbox_answer_schema(sizeof(visit)).text()};
        (void)holdfast::broadcast_writer::create(name_.uri() + ".answers", ring);
        return {};
    });
    ASSERT_EQ(made, "");
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { (void)inbox_client::attach(name_.uri()); }), "");
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { table_inbox inbox(table); }), "");
    EXPECT_EQ(::access((name_.path() + ".answers").c_str(), F_OK), 0);
}

TEST_F(InboxOpening, OfAnotherUsersTableIsOpenedByRoot) {
    if (!holdfast::test::is_root()) GTEST_SKIP() << "needs: root, to give a table away";
    constexpr uid_t user = 1000;
    holdfast::hash_table_options options{.capacity = 8};
    options.segment.owner = user;
    (void)visits::create(name_.uri(), options);
    holdfast::attach_options how;
    how.trust.owner = user;
    visits table = visits::attach(name_.uri(), how);
    const table_inbox inbox(table, {.trust = how.trust});
    for (const char* suffix : {".inbox", ".answers", ".inbox.peers"}) {
        struct stat status{};
        ASSERT_EQ(::stat((name_.path() + suffix).c_str(), &status), 0) << suffix;
        EXPECT_EQ(status.st_uid, user) << suffix;
    }
}

TEST_F(InboxOpening, RootTrustsTheOwnerOfTheTableAndNobodyElse) {
    if (!holdfast::test::is_root() || !can_change_user()) GTEST_SKIP() << "needs: root, to play two users";
    constexpr uid_t user = 1000;
    holdfast::hash_table_options options{.capacity = 8};
    options.segment.owner = options.segment.group = user;
    (void)visits::create(name_.uri(), options);
    const std::string left = as_another(user, [&]() -> std::string {
        auto table = visits::attach(name_.uri());
        table_inbox inbox(table);
        _exit(0);  // as a kill: nothing is closed
    });
    ASSERT_EQ(left, "");
    ASSERT_EQ(::access((name_.path() + ".inbox").c_str(), F_OK), 0);
    holdfast::attach_options how;
    how.trust.owner = user;
    how.lease_timeout = 10s;
    visits table = visits::attach(name_.uri(), how);
    {
        const table_inbox inbox(table);
        EXPECT_TRUE(inbox_client::attach(name_.uri(), how));
    }
    for (const char* const suffix : {".inbox", ".answers"})
        EXPECT_NE(::access((name_.path() + suffix).c_str(), F_OK), 0) << suffix << " stays behind the end";
    const std::string made = as_stranger([&]() -> std::string {
        const holdfast::broadcast_options ring{.schema = holdfast::detail::inbox_answer_schema(sizeof(visit)).text()};
        (void)holdfast::broadcast_writer::create(name_.uri() + ".answers", ring);
        return {};
    });
    ASSERT_EQ(made, "");
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { table_inbox inbox(table); }), "");
    EXPECT_EQ(::access((name_.path() + ".answers").c_str(), F_OK), 0);
}

TEST_F(InboxOpening, TakesValuesAsLargeAsATableHas) {
    const auto schema = holdfast::container_schema::parse("key {id:u64@0}#8\nvalue {text:bytes[65536]@0}#65536");
    auto table = dynamic_hash_table::create(name_.uri(), schema, {.capacity = 8});
    table_inbox inbox(table);
    auto client = inbox_client::attach(name_.uri());
    ASSERT_TRUE(client);
    const std::uint64_t key = 3;
    const std::vector<std::byte> value(65536, std::byte{9});
    inbox_command put;
    put.key = view_of(key), put.value = value;
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(client->send(put, 10s));
        EXPECT_EQ(inbox.apply().count, 1U);
        EXPECT_EQ(client->next()->verdict, inbox_verdict::done);
    }
    std::vector<std::byte> found(65536);
    EXPECT_TRUE(table.find(view_of(key), found));
    EXPECT_EQ(found, value);
}

}  // namespace
