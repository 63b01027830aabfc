// SPDX-License-Identifier: Apache-2.0
// The hub of a served ring, without a server: who is told what, in which order, and what happens to who does not read.
// What subscribers are told is judged by its numbers alone, each of which has to come once (I1 of ring_hub.hpp).
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/broadcast/writer.hpp"
#include "perf_test/json_reader.hpp"
#include "serve/accept.hpp"
#include "serve/api_rings.hpp"
#include "serve/failure.hpp"
#include "serve/ring_hub.hpp"
#include "support/seed.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using u64 = std::uint64_t;

// The segments of these tests are registered beside nobody else's.
const test::unique_directory registry("registry");
const test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// A client, and what its connection has not taken yet.
struct client {
    std::vector<net::shared_bytes> sent;
    std::size_t queued = 0;
    std::optional<serve::ring_end> ended;
    bool away = false;
    // The account: (I1).
    u64 next = 0, messages = 0, lost = 0;
    std::size_t read = 0;
    std::vector<std::string> events;

    void take(std::string_view json) {
        const auto said = perf_test::parse_json(json, "what a subscriber is told");
        const auto number = [&](const char* name) { return static_cast<u64>(said.number(name).value_or(0)); };
        const std::string event(said.text("event").value_or("message"));
        events.push_back(event);
        if (event == "joined") {
            next = number("sequence");
        } else if (event == "lost") {
            if (number("count") == 0 || number("sequence") != next + number("count"))
                throw std::logic_error("no loss behind number " + std::to_string(next) + ": " + std::string(json));
            next += number("count");
            lost += number("count");
        } else if (event == "message") {
            if (number("sequence") != next)
                throw std::logic_error("no message " + std::to_string(next) + ": " + std::string(json));
            ++next;
            ++messages;
        }
    }
    /// Reads what was sent since the last time.
    void read_all() {
        for (; read < sent.size(); ++read) {
            std::string_view text = *sent[read];
            if (text.starts_with("{")) {
                take(text);
                continue;
            }
            while (!text.empty()) {
                const std::size_t end = text.find('\n');
                if (text.starts_with("data: ")) take(text.substr(6, end - 6));
                text.remove_prefix(end + 1);
            }
        }
        queued = 0;
    }
};

class client_outlet final : public serve::ring_outlet {
 public:
    explicit client_outlet(client& to) : to_(to) {}
    [[nodiscard]] std::size_t queued_bytes() const override { return to_.queued; }
    bool send(const net::shared_bytes& text) override {
        if (to_.away) return false;
        to_.queued += text->size();
        EXPECT_LE(to_.queued, serve::ring_hub::queue_bytes_max);
        to_.sent.push_back(text);
        return true;
    }
    void close(serve::ring_end why) override { to_.ended = why; }

 private:
    client& to_;
};

class ServedRing : public ::testing::Test {
 protected:
    void make(u64 capacity_bytes, std::string schema = {}) {
        writer_.emplace(broadcast_writer::create(name_.uri(), {.capacity_bytes = capacity_bytes, .schema = schema}));
        source_ = serve::ring_source::attach(name_.uri());
        hub_.emplace(source_, counts_);
    }
    std::shared_ptr<serve::ring_subscriber> join(client& who, const broadcast_start& start,
                                                 serve::ring_form form = serve::ring_form::frames) {
        auto made = std::make_shared<serve::ring_subscriber>();
        made->form = form;
        made->out = std::make_unique<client_outlet>(who);
        hub_->add(made, start);
        return made;
    }
    void publish(u64 count, std::size_t bytes = 8) {
        const std::string text(bytes, 'x');
        for (u64 i = 0; i < count; ++i) ASSERT_TRUE(writer_->publish(bytes_of(text)));
    }
    /// Turns until nothing moves.
    void settle() {
        for (int turns = 0; hub_->turn() != serve::ring_hub::pace::idle; ++turns) ASSERT_LT(turns, 100'000);
    }

    test::unique_posix_name name_{"served"};
    std::optional<broadcast_writer> writer_;
    std::shared_ptr<serve::ring_source> source_;
    serve::ring_counts counts_;
    std::optional<serve::ring_hub> hub_;
};

TEST_F(ServedRing, AllWhoAreUpToDateGetTheVerySameBytes) {
    make(1 << 16);
    client events[2], frames[2];
    for (client& each : events) join(each, broadcast_start::latest(), serve::ring_form::events);
    for (client& each : frames) join(each, broadcast_start::latest());
    settle();
    for (client* each : {&events[0], &events[1], &frames[0], &frames[1]}) each->read_all();
    publish(10);
    settle();
    EXPECT_EQ(events[0].sent.back(), events[1].sent.back()) << "copied";
    ASSERT_EQ(frames[0].sent.size(), 11U);
    for (std::size_t i = 1; i < 11; ++i) EXPECT_EQ(frames[0].sent[i], frames[1].sent[i]) << "copied";
    for (client* each : {&events[0], &events[1], &frames[0], &frames[1]}) {
        each->read_all();
        EXPECT_EQ(each->messages, 10U);
    }
    EXPECT_EQ(counts_.read, 10U);
    EXPECT_EQ(counts_.delivered, 40U);
}

TEST_F(ServedRing, EveryStartIsAPlaceAndAPlaceBehindTheRingIsALoss) {
    make(2048);
    publish(500);
    settle();
    client oldest, latest, number, old, future;
    join(oldest, broadcast_start::oldest());
    join(latest, broadcast_start::latest());
    join(number, broadcast_start::sequence(490));
    join(old, broadcast_start::sequence(1));
    join(future, broadcast_start::sequence(505));
    const std::array all{&oldest, &latest, &number, &old, &future};
    const auto read = [&] {
        settle();
        for (client* each : all) each->read_all();
    };
    for (int i = 0; i < 3; ++i) read();  // old ones are told more when they have taken what they were told
    publish(10);
    read();
    for (client* each : all) EXPECT_EQ(each->next, 511U);
    EXPECT_EQ(old.messages + old.lost, 510U);
    EXPECT_EQ(old.messages, oldest.messages);
    EXPECT_EQ(oldest.lost + latest.lost + number.lost + future.lost, 0U);
    EXPECT_EQ(latest.messages, 10U);
    EXPECT_EQ(number.messages, 21U);
    EXPECT_EQ(future.messages, 6U) << "one that is still to come is waited for";
    EXPECT_EQ(counts_.lost, old.lost);
}

// The queue of one stays full while the ring goes round many times: the others get all, and it gets its exact loss.
TEST_F(ServedRing, WhoDoesNotReadIsPassedOverAndToldItsExactLoss) {
    make(1 << 15);
    for (const auto form : {serve::ring_form::frames, serve::ring_form::events}) {
        client slow, quick;
        const auto subscribed = join(slow, broadcast_start::latest(), form);
        const auto beside = join(quick, broadcast_start::latest(), form);
        settle();
        u64 sent = 0;
        for (int round = 0; round < 60; ++round) {
            publish(100, 100);
            sent += 100;
            settle();
            quick.read_all();
        }
        EXPECT_EQ(quick.messages, sent);
        EXPECT_EQ(quick.lost, 0U);
        EXPECT_LT(slow.sent.size(), 2000U) << "held for it without a bound";
        const std::size_t held = slow.queued;
        settle();
        EXPECT_EQ(slow.queued, held);
        do {
            slow.read_all();
            settle();
        } while (slow.read < slow.sent.size());
        EXPECT_EQ(slow.messages + slow.lost, sent);
        EXPECT_GT(slow.lost, 0U);
        EXPECT_EQ(slow.next, quick.next);
        EXPECT_EQ(std::ranges::count(slow.events, "lost"), 1);
        publish(1);  // it is with the others again
        settle();
        EXPECT_EQ(slow.sent.back(), quick.sent.back());
        subscribed->gone = beside->gone = true;
    }
}

// Each turn serves some of them; those who were left are first in the next, and nothing new is read before.
TEST_F(ServedRing, ThousandsAreServedByTurns) {
    make(1 << 18);
    std::vector<client> clients(10'000);
    for (client& each : clients) join(each, broadcast_start::latest());
    settle();
    for (int round = 0; round < 2; ++round) {
        publish(5);
        const u64 read = counts_.read;
        for (u64 turn = 0, told = counts_.delivered; turn < 5; ++turn, told = counts_.delivered) {
            hub_->turn();
            EXPECT_EQ(counts_.read, read + 5);
            EXPECT_LE(counts_.delivered - told, 5U * serve::ring_hub::served_max);
        }
        for (client& each : clients) each.read_all();
        for (const client& each : clients) ASSERT_EQ(each.messages, 5U * static_cast<u64>(round + 1));
    }
    EXPECT_EQ(counts_.delivered, 100'000U);
    EXPECT_EQ(counts_.lost, 0U);
}

// The reader says it once, perhaps where there is no message yet that could be told with it.
TEST_F(ServedRing, AnotherWriterIsToldWithItsFirstMessage) {
    make(4096);
    publish(1);
    client live, behind;
    join(live, broadcast_start::latest());
    settle();
    writer_.reset();
    writer_.emplace(broadcast_writer::attach(name_.uri()));
    settle();
    join(behind, broadcast_start::oldest());
    publish(2);
    settle();
    for (client* each : {&live, &behind}) each->read_all();
    ASSERT_EQ(live.sent.size(), 3U);
    EXPECT_NE(live.sent[1]->find(R"("restarted":true)"), std::string::npos) << *live.sent[1];
    EXPECT_EQ(live.sent[2]->find("restarted"), std::string::npos) << *live.sent[2];
    EXPECT_EQ(behind.messages, 3U);
}

// A worker that stood still is overrun itself: all who followed lose the same, and who joins meanwhile loses nothing.
TEST_F(ServedRing, AHubThatIsOverrunTellsAll) {
    make(4096);
    client early, late;
    join(early, broadcast_start::latest());
    settle();
    publish(1000);
    join(late, broadcast_start::latest());
    settle();
    publish(1);
    settle();
    early.read_all();
    late.read_all();
    EXPECT_EQ(early.messages + early.lost, 1001U);
    EXPECT_GT(early.lost, 500U);
    EXPECT_EQ(late.messages, 1U);
    EXPECT_EQ(late.lost, 0U);
}

TEST_F(ServedRing, AnythingThatComesIsToldOnceWhoeverReadsHowever) {
    test::seeded_random random;
    for (int round = 0; round < 4; ++round) {
        make(u64{2048} << random.below(6));
        std::vector<std::unique_ptr<client>> clients;
        std::vector<std::shared_ptr<serve::ring_subscriber>> joined;
        u64 published = 0;
        for (int step = 0; step < 250; ++step) {
            if (clients.size() < 10 && random.below(4) == 0) {
                const broadcast_start starts[] = {broadcast_start::oldest(), broadcast_start::latest(),
                                                  broadcast_start::sequence(random.below(published + 20))};
                clients.push_back(std::make_unique<client>());
                joined.push_back(join(*clients.back(), starts[random.below(3)],
                                      random.below(2) == 0 ? serve::ring_form::events : serve::ring_form::frames));
            }
            for (u64 count = random.below(40); count > 0; --count, ++published)
                ASSERT_TRUE(writer_->publish(bytes_of(std::string(random.below(400), 'y'))));
            if (random.below(3) != 0) hub_->turn();
            for (const auto& each : clients)
                if (random.below(8) == 0) each->read_all();
        }
        for (int i = 0; i < 3; ++i) {
            settle();
            for (const auto& each : clients) each->read_all();
        }
        // Who reads all it was given until there is nothing more is at the end.
        for (bool moved = true; moved;) {
            settle();
            moved = false;
            for (const auto& each : clients) {
                moved = moved || each->read < each->sent.size();
                each->read_all();
            }
        }
        for (const auto& each : clients) EXPECT_GE(each->next, published + 1);
        hub_.reset();
        source_.reset();
        writer_.reset();
        name_.remove();
    }
}

TEST_F(ServedRing, WaitersAreAnsweredOnceByAMessageOrByTheirTime) {
    make(4096);
    publish(3);
    std::vector<int> answered;
    const auto wait = [&](int label, u64 next, u64 deadline_ns, std::shared_ptr<const bool> gone = nullptr) {
        hub_->wait({.next = next, .deadline_ns = deadline_ns, .gone = std::move(gone), .answer = [&answered, label] {
                        answered.push_back(label);
                    }});
    };
    hub_->turn();
    wait(1, 4, 100);
    wait(2, 5, 100);
    wait(3, 4, 50);
    wait(4, 4, 100, std::make_shared<bool>(true));
    wait(5, 3, 100);  // what it waits for came before it did
    hub_->turn();
    EXPECT_EQ(answered, std::vector{5});
    hub_->expire(49);
    hub_->expire(50);
    EXPECT_EQ(answered, (std::vector{5, 3}));
    publish(1);
    hub_->turn();
    EXPECT_EQ(answered, (std::vector{5, 3, 1}));
    hub_->release_waiters();
    EXPECT_EQ(answered, (std::vector{5, 3, 1, 2}));
    hub_->sweep();
    EXPECT_TRUE(hub_->empty());
}

// A page each: what is sent in between is not in memory all at once.
TEST_F(ServedRing, SoManyWaitersAreAnsweredInATurn) {
    make(4096);
    publish(1);
    hub_->turn();
    constexpr std::size_t waiters = 100, at_once = 32;
    std::vector<int> answered(waiters);
    for (int& mine : answered)
        hub_->wait({.next = 2, .deadline_ns = 100, .gone = nullptr, .answer = [&mine] { ++mine; }});
    publish(1);
    const auto done = [&] { return static_cast<std::size_t>(std::ranges::count(answered, 1)); };
    for (std::size_t turn = 1; turn <= waiters / at_once; ++turn) {
        EXPECT_EQ(hub_->turn(), serve::ring_hub::pace::at_once);
        EXPECT_EQ(done(), turn * at_once);
    }
    hub_->turn();
    EXPECT_EQ(done(), waiters);
    hub_->turn();
    EXPECT_EQ(done(), waiters);
    hub_->sweep();
    EXPECT_TRUE(hub_->empty());
}

TEST_F(ServedRing, MessagesAreToldWholeOrByTheirSize) {
    make(8 << 20);
    const auto told = [&](std::string_view message) {
        EXPECT_TRUE(writer_->publish(bytes_of(message), 3));
        const serve::ring_page page = source_->page(broadcast_start::sequence(writer_->sequence()), 1);
        EXPECT_EQ(page.messages.items.size(), 1U);
        const std::string json(page.messages.json(0));
        return json.substr(json.find("\"type\":3") + 8);
    };
    EXPECT_EQ(told(""), R"(,"text":""})");
    EXPECT_EQ(told("gr\xc3\xbc\xc3\x9f\n\"\\"), ",\"text\":\"gr\xc3\xbc\xc3\x9f\\u000a\\\"\\\\\"}");
    // RFC 4648 section 10, and what is no text.
    EXPECT_EQ(told("\xff"), R"(,"base64":"/w=="})");
    EXPECT_EQ(told("\xff\xfe"), R"(,"base64":"//4="})");
    EXPECT_EQ(told("\xff\xfe\xfd"), R"(,"base64":"//79"})");
    EXPECT_EQ(told("\xff\xfe\xfd\x01"), R"(,"base64":"//79AQ=="})");
    EXPECT_EQ(told(std::string(serve::ring_source::message_bytes_max, 'z')).size(),
              serve::ring_source::message_bytes_max + 11);
    EXPECT_EQ(told(std::string(serve::ring_source::message_bytes_max + 1, 'z')),
              R"(,"bytes":262145,"too_large":true})");
    // Six characters for each byte, and still within the bound.
    const std::string longest = told(std::string(serve::ring_source::message_bytes_max, '\x01'));
    EXPECT_LE(longest.size(), serve::ring_source::text_bytes_max);
    client who;
    join(who, broadcast_start::oldest(), serve::ring_form::events);
    for (int i = 0; i < 20; ++i) {
        settle();
        who.read_all();
    }
    EXPECT_EQ(who.messages, writer_->sequence());
}

TEST_F(ServedRing, ClientsThatAreAwayAreLetGoOf) {
    make(4096);
    client away, there;
    join(away, broadcast_start::latest());
    join(there, broadcast_start::latest(), serve::ring_form::events);
    settle();
    away.away = true;
    publish(1);
    settle();
    hub_->sweep();
    EXPECT_EQ(hub_->subscribers().size(), 1U);
    there.read_all();
    hub_->comment();  // something was told since the last one
    EXPECT_EQ(there.queued, 0U);
    hub_->comment();
    EXPECT_EQ(*there.sent.back(), ": \n\n");
    hub_->end_all(serve::ring_end::not_served);
    EXPECT_EQ(there.ended, serve::ring_end::not_served);
    EXPECT_FALSE(away.ended);
    EXPECT_TRUE(hub_->empty());
}

// Whatever the bytes are made, turns end, and subscribers are told numbers that go up, or are ended.
TEST_F(ServedRing, ScribbledOnStaysWithinItsBounds) {
    test::seeded_random random;
    make(16384);
    publish(200, 100);
    const std::string path = name_.path();
    const int file = ::open(path.c_str(), O_RDWR);
    ASSERT_GE(file, 0);
    const auto size = static_cast<u64>(::lseek(file, 0, SEEK_END));
    std::string whole(size, '\0');
    ASSERT_EQ(::pread(file, whole.data(), size, 0), static_cast<ssize_t>(size));
    unsigned ended = 0;
    for (int round = 0; round < 100; ++round) {
        ASSERT_EQ(::pwrite(file, whole.data(), size, 0), static_cast<ssize_t>(size));
        source_ = serve::ring_source::attach(name_.uri());
        hub_.emplace(source_, counts_);
        client who, other;
        join(who, broadcast_start::oldest());
        join(other, broadcast_start::sequence(1), serve::ring_form::events);
        for (int step = 0; step < 8; ++step) {
            for (u64 i = random.below(6); i > 0; --i) {
                const u64 word = random.below(3) == 0 ? random() : random.below(1 << 20);
                const u64 at = 4096 + random.below(random.below(2) == 0 ? 2048 : size - 4096 - 8);
                ASSERT_EQ(::pwrite(file, &word, 8, static_cast<off_t>(at)), 8);
            }
            hub_->turn();
            who.queued = other.queued = 0;
            (void)source_->page(broadcast_start::sequence(random.below(300)), 50);
            (void)source_->page(broadcast_start::time(random()), 50);
        }
        ended += who.ended || other.ended ? 1 : 0;
    }
    ::close(file);
    EXPECT_GT(ended, 0U) << "no damage was noticed";
}

TEST(RingStart, IsAWordANumberACursorOrATime) {
    using serve::ring_start;
    EXPECT_EQ(ring_start::parse("oldest").start.where, broadcast_start::from::oldest);
    EXPECT_EQ(ring_start::parse("latest").start.where, broadcast_start::from::latest);
    EXPECT_EQ(ring_start::parse("17").start.value, 17U);
    EXPECT_EQ(ring_start::parse("1a2b3c4d-17").ring, "1a2b3c4d");
    EXPECT_EQ(ring_start::parse("1a2b3c4d-17").start.value, 17U);
    EXPECT_EQ(ring_start::parse("1970-01-01T00:00:01Z").start.value, 1'000'000'000U);
    EXPECT_EQ(ring_start::behind("1a2b3c4d-17").start.value, 18U);
    EXPECT_EQ(ring_start::behind("1a2b3c4d-18446744073709551615").start.value, ~u64{0});
    for (const char* const bad :
         {"", "newest", "-1", "1.5", "18446744073709551616", "1a2b3c4-17", "1A2B3C4D-17", "1a2b3c4d-", "1a2b3c4d-x"})
        EXPECT_THROW((void)ring_start::parse(bad), serve::failure) << bad;
    for (const char* const bad : {"", "17", "1a2b3c4d", "1a2b3c4d-1-"})
        EXPECT_THROW((void)ring_start::behind(bad), serve::failure) << bad;
}

TEST(Accept, AsksForEventsOnlyByName) {
    for (const char* const yes : {"text/event-stream", "Text/Event-Stream;q=0.5", "text/event-stream, */*",
                                  "application/json;q=0.1, text/event-stream"})
        EXPECT_TRUE(serve::asks_for_events(yes)) << yes;
    for (const char* const no :
         {"", "*/*", "text/*", "text/event-stream;q=0", "application/json, text/event-stream;q=0.9",
          "text/event-streams", "\"text/event-stream\""})
        EXPECT_FALSE(serve::asks_for_events(no)) << no;
}

}  // namespace
