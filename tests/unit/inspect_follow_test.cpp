// SPDX-License-Identifier: Apache-2.0
// What `tail` stands on: every message is given once or counted as lost, a watch changes nothing and never gives what
// the consumer has given back, a consumer gives up nothing that was not dealt with, and any bytes are survived.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "holdfast/hash_table.hpp"
#include "holdfast/queue.hpp"
#include "inspect/follower.hpp"
#include "inspect/message_text.hpp"
#include "support/lying_consumer.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using inspect::followed;
using inspect::follower;
using u64 = std::uint64_t;
using testing::HasSubstr;

struct trade {
    u64 id;
    double price;
    char venue[8];
};

[[nodiscard]] std::vector<std::byte> bytes_of(std::string_view text) {
    const auto* const data = reinterpret_cast<const std::byte*>(text.data());
    return {data, data + text.size()};
}
[[nodiscard]] std::string text_of(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Everything that is there now, as "3:text", "lost 7", or the name of what ended it.
[[nodiscard]] std::vector<std::string> all_of(follower& from, bool release = false) {
    std::vector<std::string> seen;
    std::vector<std::byte> message;
    for (;;) {
        const followed got = from.next(message);
        if (got.status == outcome::ok)
            seen.push_back(std::to_string(got.sequence) + ":" + text_of(message));
        else if (got.status == outcome::lapped)
            seen.push_back("lost " + std::to_string(got.count));
        else
            return got.status == outcome::empty ? seen : std::vector{std::string(outcome_name(got.status))};
        if (release) from.release();
    }
}

[[nodiscard]] inspect::follow_options from(inspect::follow_start::from where, u64 value = 0) {
    return {.start = {where, value}};
}
using start = inspect::follow_start::from;

class Follow : public segment_test {
 protected:
    unique_directory folder_{"follow"};
    [[nodiscard]] std::string uri(std::string_view name = "s") const { return folder_.file_uri(name); }
};

TEST_F(Follow, ARingFromEveryStart) {
    auto ring = broadcast_writer::create(uri(), {.capacity_bytes = 64 << 10});
    for (int i = 1; i <= 20; ++i) ASSERT_TRUE(ring.publish(bytes_of("m" + std::to_string(i))));
    EXPECT_EQ(all_of(*follower::open(uri(), {})).front(), "11:m11");
    EXPECT_EQ(all_of(*follower::open(uri(), {})).size(), 10U);
    EXPECT_EQ(all_of(*follower::open(uri(), from(start::last, 100))).size(), 20U);
    EXPECT_EQ(all_of(*follower::open(uri(), from(start::last, 0))).size(), 0U);
    EXPECT_EQ(all_of(*follower::open(uri(), from(start::oldest))).front(), "1:m1");
    EXPECT_TRUE(all_of(*follower::open(uri(), from(start::latest))).empty());
    EXPECT_EQ(all_of(*follower::open(uri(), from(start::sequence, 19))),
              (std::vector<std::string>{"19:m19", "20:m20"}));
    const auto ahead = follower::open(uri(), from(start::sequence, 22));
    EXPECT_EQ(ahead->joined().status, outcome::empty);
    EXPECT_EQ(all_of(*follower::open(uri(), from(start::time, 1))).size(), 20U);
    const auto live = follower::open(uri(), {});
    (void)all_of(*live);
    EXPECT_EQ(live->writer_gone(), false);
    ASSERT_TRUE(ring.publish(bytes_of("next"), 7));
    std::vector<std::byte> message;
    const followed got = live->next(message);
    EXPECT_EQ(got.type, 7U);
    EXPECT_EQ(text_of(message), "next");
}

TEST_F(Follow, LossesOfARingAreExact) {
    auto ring = broadcast_writer::create(uri(), {.capacity_bytes = 2048});
    const auto late = follower::open(uri(), from(start::oldest));
    u64 published = 0;
    const auto publish = [&](u64 count) {
        for (; count > 0; --count) ASSERT_TRUE(ring.publish(bytes_of(std::to_string(++published))));
    };
    publish(1000);
    u64 next = 1, lost = 0, shown = 0;
    std::vector<std::byte> message;
    for (int round = 0; round < 5; ++round) {
        for (followed got = late->next(message); got.status != outcome::empty; got = late->next(message)) {
            if (got.status == outcome::lapped) {
                lost += got.count;
                next += got.count;
                EXPECT_EQ(got.sequence, next);
                continue;
            }
            ASSERT_EQ(got.status, outcome::ok);
            EXPECT_EQ(got.sequence, next);
            EXPECT_EQ(text_of(message), std::to_string(next));
            ++next;
            ++shown;
        }
        publish(300);
    }
    EXPECT_EQ(shown + lost, published - 300);
    EXPECT_GT(lost, 0U);
    const auto gone = follower::open(uri(), from(start::sequence, 5));
    EXPECT_EQ(gone->joined().status, outcome::lapped);
    EXPECT_EQ(gone->joined().sequence, 5 + gone->joined().count);
}

TEST_F(Follow, ARingWhoseWriterDiedIsReadToItsEnd) {
    child_process writer([&](channel& talk) {
        auto ring = broadcast_writer::create(uri(), {.capacity_bytes = 4096});
        for (int i = 0; i < 5; ++i) (void)ring.publish(bytes_of("x"));
        talk.signal();
        talk.wait();
    });
    ASSERT_TRUE(writer.talk().wait());
    const auto reader = follower::open(uri(), {});
    EXPECT_EQ(reader->writer_gone(), false);
    writer.kill();
    EXPECT_EQ(reader->writer_gone(), true);
    EXPECT_EQ(all_of(*reader).size(), 5U);
}

TEST_F(Follow, AWatchedQueueShowsWhatWaitsAndChangesNothing) {
    auto producer = queue_producer::create(uri(), {.capacity_bytes = 4096});
    for (int i = 1; i <= 5; ++i) ASSERT_TRUE(producer.try_push(bytes_of("m" + std::to_string(i))));
    const auto watch = follower::open(uri(), {});
    EXPECT_EQ(all_of(*watch), (std::vector<std::string>{"1:m1", "2:m2", "3:m3", "4:m4", "5:m5"}));
    EXPECT_EQ(watch->writer_gone(), false);
    auto consumer = queue_consumer::attach(uri());  // the watch holds nothing that would be in the way
    for (int i = 1; i <= 5; ++i) {
        EXPECT_TRUE(consumer.front());
        EXPECT_TRUE(consumer.pop());
    }
    EXPECT_TRUE(all_of(*watch).empty());
    ASSERT_TRUE(producer.try_push(bytes_of("m6")));
    EXPECT_EQ(all_of(*watch), std::vector<std::string>{"6:m6"});
    // Taken before it was looked at.
    ASSERT_TRUE(producer.try_push(bytes_of("m7")));
    ASSERT_TRUE(producer.try_push(bytes_of("m8")));
    for (int i = 6; i <= 8; ++i) {
        EXPECT_TRUE(consumer.front());
        EXPECT_TRUE(consumer.pop());
    }
    EXPECT_EQ(all_of(*watch), std::vector<std::string>{"lost 2"});
    EXPECT_EQ(all_of(*follower::open(uri(), {})), std::vector<std::string>{});
    ASSERT_TRUE(producer.try_push(bytes_of("m9")));
    ASSERT_TRUE(producer.try_push(bytes_of("m10")));
    EXPECT_EQ(all_of(*follower::open(uri(), from(start::sequence, 10))), std::vector<std::string>{"10:m10"});
    EXPECT_EQ(follower::open(uri(), from(start::sequence, 2))->joined().count, 7U);
    EXPECT_TRUE(all_of(*follower::open(uri(), from(start::latest))).empty());
}

TEST_F(Follow, AWatchGoesRoundTheRingWithSkips) {
    auto producer = queue_producer::create(uri(), {.capacity_bytes = 1024});
    auto consumer = queue_consumer::attach(uri());
    const auto watch = follower::open(uri(), {});
    std::mt19937_64 random(7);
    std::vector<std::byte> message;
    for (u64 number = 1; number <= 5000; ++number) {
        std::vector<std::byte> sent(random() % 400, static_cast<std::byte>(number));
        ASSERT_TRUE(producer.try_push(sent, static_cast<std::uint16_t>(number % 100)));
        const followed got = watch->next(message);
        ASSERT_EQ(got.status, outcome::ok) << number;
        ASSERT_EQ(got.sequence, number);
        ASSERT_EQ(got.type, number % 100);
        ASSERT_EQ(message, sent);
        ASSERT_TRUE(consumer.front());
        ASSERT_TRUE(consumer.pop());
    }
}

TEST_F(Follow, AConsumerThatIsAlwaysAheadEndsTheWayToTheLatest) {
    auto producer = queue_producer::create(uri(), {.capacity_bytes = 32 << 20});
    ASSERT_TRUE(producer.try_push(std::vector<std::byte>(15 << 20)));  // a copy takes milliseconds
    const lying_consumer consumer(producer);
    const auto begun = std::chrono::steady_clock::now();
    // Where the liar had no processor for the time of a copy, that is believed, and what comes then is damage.
    const auto refused = refusal_of([&] { (void)follower::open(uri(), from(start::latest)); });
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
    EXPECT_TRUE(!refused || refused == errc::corrupt) << refused->text;
}

TEST_F(Follow, ATypedQueueShowsRecords) {
    auto producer = queue<trade>::producer::create(uri(), {.capacity = 8});
    for (u64 i = 1; i <= 8; ++i) ASSERT_TRUE(producer.try_push({i, 0.5 * static_cast<double>(i), "XETR"}));
    const auto watch = follower::open(uri(), {});
    ASSERT_TRUE(watch->schema());
    const inspect::message_writer writer(watch->schema(), inspect::byte_style::choose);
    EXPECT_EQ(writer.heading(), "id\tprice\tvenue");
    std::vector<std::byte> message;
    for (u64 i = 1; i <= 8; ++i) {
        ASSERT_EQ(watch->next(message).sequence, i);
        ASSERT_EQ(message.size(), sizeof(trade));
    }
    EXPECT_EQ(watch->next(message).status, outcome::empty);
    std::string line, members;
    writer.append_line(line, message);
    EXPECT_EQ(line, "8\t4\tXETR");
    writer.append_members(members, message);
    EXPECT_EQ(members, R"("record":{"id":8,"price":4,"venue":"XETR"})");
    auto consumer = queue<trade>::consumer::attach(uri());
    for (int i = 0; i < 8; ++i) (void)consumer.try_pop();
    consumer.acknowledge();
    for (u64 i = 9; i <= 11; ++i) ASSERT_TRUE(producer.try_push({i, 1, "X"}));
    for (int i = 0; i < 2; ++i) (void)consumer.try_pop();
    consumer.acknowledge();
    const followed lost = watch->next(message);
    EXPECT_EQ(lost.status, outcome::lapped);
    EXPECT_EQ(lost.count, 2U);
    EXPECT_EQ(watch->next(message).sequence, 11U);
}

TEST_F(Follow, AConsumerReleasesOnlyWhatWasDealtWith) {
    auto producer = queue_producer::create(uri("b"), {.capacity_bytes = 4096});
    auto typed = queue<u64>::producer::create(uri("t"), {.capacity = 16});
    for (u64 i = 1; i <= 4; ++i) {
        ASSERT_TRUE(producer.try_push(bytes_of("m" + std::to_string(i))));
        ASSERT_TRUE(typed.try_push(i));
    }
    for (const char* name : {"b", "t"}) {
        std::vector<std::byte> message;
        {
            const auto first = follower::open(uri(name), {.consume = true});
            EXPECT_EQ(refusal_of([&] { (void)follower::open(uri(name), {.consume = true}); }).value(),
                      errc::writer_alive);
            EXPECT_EQ(first->next(message).sequence, 1U);
            first->release();
            EXPECT_EQ(first->next(message).sequence, 2U);  // and dies before it was dealt with
        }
        const auto second = follower::open(uri(name), {.consume = true});
        EXPECT_EQ(second->writer_gone(), false);
        EXPECT_EQ(second->next(message).sequence, 2U);
        EXPECT_EQ(all_of(*second, true).size(), 2U);
        EXPECT_EQ(second->next(message).status, outcome::empty);
        second->release();
    }
    EXPECT_EQ(refusal_of([&] { (void)follower::open(uri("b"), from(start::time, 1)); }).value(),
              errc::invalid_argument);
}

TEST_F(Follow, OtherKindsAreRefusedByName) {
    (void)hash_table<u64, u64>::create(uri("t"), {.capacity = 10});
    const auto refused = refusal_of([&] { (void)follower::open(uri("t"), {}); });
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->code, errc::kind_mismatch);
    EXPECT_THAT(refused->text, HasSubstr("hash_table"));
    auto ring = broadcast_writer::create(uri("r"), {});
    EXPECT_EQ(refusal_of([&] { (void)follower::open(uri("r"), {.consume = true}); }).value(), errc::invalid_argument);
    EXPECT_EQ(refusal_of([&] { (void)follower::open(uri("none"), {}); }).value(), errc::not_found);
}

// Each message says itself whether it is whole: a mix of two, or one that is given under a wrong number, fails.
TEST_F(Follow, AWatchBesideBothSidesGivesWholeMessagesAndCountsTheRest) {
    auto producer = queue_producer::create(uri(), {.capacity_bytes = 16384});
    auto consumer = queue_consumer::attach(uri());
    const u64 total = scaled(20'000);
    std::atomic<bool> done{false};
    std::atomic<u64> produced{0};
    std::thread producing([&] {
        std::array<u64, 60> words{};
        for (u64 number = 1; number <= total;) {
            const std::size_t length = 1 + number % 60;
            for (std::size_t i = 0; i < length; ++i) words[i] = number * 1000 + length;
            if (producer.try_push(std::as_bytes(std::span(words).first(length))))
                produced.store(number++, std::memory_order_release);
            else
                std::this_thread::yield();
        }
    });
    std::thread consuming([&] {
        for (u64 taken = 0; taken < total;) {
            // Leaves some waiting, so that the watch meets messages and the producer overwrites them behind it.
            const u64 ahead = produced.load(std::memory_order_acquire);
            if ((ahead < total && ahead - taken < 10) || !consumer.front()) {
                std::this_thread::yield();
                continue;
            }
            ++taken;
            (void)consumer.pop();
        }
        done = true;
    });
    const auto watch = follower::open(uri(), {});
    std::vector<std::byte> message;
    u64 next = 0, seen = 0;
    const auto read_on = [&](bool last) {
        for (;;) {
            const followed got = watch->next(message);
            if (got.status == outcome::empty) {
                if (last) break;
                last = done;
                std::this_thread::yield();
                continue;
            }
            if (next == 0) next = got.sequence - (got.status == outcome::lapped ? got.count : 0);
            if (got.status == outcome::lapped) {
                next += got.count;
                if (got.sequence != next) break;
                continue;
            }
            if (got.status != outcome::ok) break;
            const std::size_t length = 1 + next % 60;
            EXPECT_EQ(got.sequence, next);
            ASSERT_EQ(message.size(), length * 8);
            for (std::size_t i = 0; i < length; ++i) {
                u64 word = 0;
                std::memcpy(&word, message.data() + i * 8, 8);
                ASSERT_EQ(word, next * 1000 + length) << "message " << next;
            }
            ++next;
            ++seen;
        }
    };
    read_on(false);  // returns early where an assertion fails: both sides end by themselves
    producing.join();
    consuming.join();
    EXPECT_EQ(next, total + 1);
    RecordProperty("seen", std::to_string(seen));
}

TEST_F(Follow, AnyBytesEndInAnAnswer) {
    std::mt19937_64 random(11);
    for (const bool typed : {false, true}) {
        const std::string name = typed ? "t" : "b";
        if (typed) {
            auto producer = queue<u64>::producer::create(uri(name), {.capacity = 64});
            for (u64 i = 0; i < 40; ++i) ASSERT_TRUE(producer.try_push(i));
        } else {
            auto producer = queue_producer::create(uri(name), {.capacity_bytes = 512});
            while (producer.try_push(bytes_of("message"))) {
            }
        }
        auto victim = segment::attach(uri(name), access::read_write);
        auto table = peers::open(victim);
        for (int round = 0; round < 3000; ++round) {
            const std::span<std::byte> body = victim.body();
            const std::span<std::byte> side = table.slot(0);
            const bool in_peers = random() % 3 == 0;
            const std::size_t limit = in_peers ? side.size() : body.size();
            std::byte& hit = (in_peers ? side.data() : body.data())[random() % limit];
            const std::byte before = hit;
            hit = static_cast<std::byte>(random());
            try {
                const auto watch = follower::open(uri(name), {});
                std::vector<std::byte> message;
                for (int steps = 0; steps < 1000; ++steps) {
                    const followed got = watch->next(message);
                    ASSERT_LE(message.size(), 1U << 20);
                    if (got.status == outcome::empty || got.status == outcome::corrupt) break;
                    ASSERT_LT(steps, 999) << "no end";
                }
            } catch (const error& failure) {
                EXPECT_NE(failure.reason(), errc::io);
            }
            if (random() % 4 != 0) hit = before;
        }
    }
}

TEST(MessageText, BytesAreShownAsWhatTheyAre) {
    const inspect::message_writer choose(std::nullopt, inspect::byte_style::choose);
    const auto line = [](const inspect::message_writer& writer, std::string_view text) {
        std::string out;
        writer.append_line(out, bytes_of(text));
        return out;
    };
    EXPECT_EQ(line(choose, "plain text\n"), "plain text");
    EXPECT_EQ(line(choose, "two\nlines\tand a tab"), "two\\x0alines\\x09and a tab");
    EXPECT_EQ(line(choose, "gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
    EXPECT_EQ(line(choose, "\x1b[31mred"), "1b5b33316d726564");
    EXPECT_EQ(line(choose, std::string_view("\0\1\2", 3)), "000102");
    EXPECT_EQ(line(choose, ""), "");
    const inspect::message_writer text(std::nullopt, inspect::byte_style::text);
    EXPECT_EQ(line(text, std::string_view("a\0b\xff", 4)), "a\\x00b\\xff");
    const inspect::message_writer hex(std::nullopt, inspect::byte_style::hex);
    EXPECT_EQ(line(hex, "ab"), "6162");
    std::string members;
    choose.append_members(members, bytes_of("say \"hi\"\n"));
    EXPECT_EQ(members, R"("bytes":9,"text":"say \"hi\"\n")");
    members.clear();
    choose.append_members(members, bytes_of("\xff"));
    EXPECT_EQ(members, R"("bytes":1,"hex":"ff")");
    members.clear();
    text.append_members(members, bytes_of("\xc2\x9b\x1b\x7f\xff\xc2\xa0"));
    EXPECT_EQ(members, "\"bytes\":7,\"text\":\"\\u009b\\u001b\\u007f\\\\xff\xc2\xa0\"");
}

TEST(MessageText, FiltersAreFieldsOrContainedText) {
    const inspect::message_filter plain(std::nullopt, {"b", "c"}, std::nullopt);
    EXPECT_TRUE(plain.wants(0, bytes_of("abc")));
    EXPECT_FALSE(plain.wants(0, bytes_of("ab")));
    EXPECT_FALSE(inspect::message_filter(std::nullopt, {}, 7).wants(6, {}));
    EXPECT_TRUE(inspect::message_filter(std::nullopt, {}, 7).wants(7, {}));
    const std::optional<record_schema> schema = schema_of<trade>();
    const trade one{5, 2.5, "XETR"};
    const auto bytes = std::as_bytes(std::span(&one, 1));
    EXPECT_TRUE(inspect::message_filter(schema, {"venue=XETR", "id=5"}, std::nullopt).wants(0, bytes));
    EXPECT_FALSE(inspect::message_filter(schema, {"venue=XET"}, std::nullopt).wants(0, bytes));
    EXPECT_FALSE(inspect::message_filter(schema, {"id=5"}, std::nullopt).wants(0, bytes.first(3)));
    for (const char* wrong : {"nosuch=1", "XETR", "=1", ""})
        EXPECT_EQ(refusal_of([&] { (void)inspect::message_filter(schema, {wrong}, std::nullopt); }).value(),
                  errc::invalid_argument)
            << wrong;
}

}  // namespace
