// SPDX-License-Identifier: Apache-2.0
// Real SIGKILLs, real files and locks: producers, consumers and both at once killed at random instants. Nothing lost,
// nothing invented, batches whole, at most one message delivered twice for each kill of a consumer.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "holdfast/queue.hpp"
#include "support/capability.hpp"
#include "support/kill_rig.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace std::chrono_literals;
using holdfast::attach_options;
using holdfast::delivery;
using holdfast::outcome;
using holdfast::queue;
using holdfast::queue_consumer;
using holdfast::queue_consumer_options;
using holdfast::queue_message;
using holdfast::queue_observer;
using holdfast::queue_producer;
using holdfast::test::child_process;
using holdfast::test::kill_progress;
using holdfast::test::random_at;
using holdfast::test::scaled;
using holdfast::test::shared_image;
using holdfast::test::unique_posix_name;

constexpr std::chrono::seconds patience(10);  // for the kernel to tear a killed holder down

attach_options after_death() {
    attach_options options;
    options.lease_timeout = patience;
    return options;
}
queue_consumer_options consumer_after_death(delivery how = delivery::at_least_once) { return {how, after_death()}; }

/// What message `sequence` is: its number, then words derived from it. 8 to 64 bytes.
struct content {
    std::uint64_t words[8];
    std::size_t bytes;
    explicit content(std::uint64_t sequence) : bytes(8 * (1 + random_at(1, 2, sequence) % 8)) {
        words[0] = sequence;
        for (std::size_t i = 1; i < 8; ++i) words[i] = sequence * 0x9E3779B97F4A7C15U + i;
    }
    [[nodiscard]] std::span<const std::byte> span() const { return std::as_bytes(std::span(words)).first(bytes); }
};
bool is_content(const queue_message& found, std::uint64_t sequence) {
    const content wanted(sequence);
    return found && found.bytes.size() == wanted.bytes &&
           std::memcmp(found.bytes.data(), wanted.words, wanted.bytes) == 0;
}

/// Operation i of a round puts 1 to 5 messages in, as single ones for 1, else as a batch.
std::uint64_t messages_of(std::uint64_t seed, std::uint64_t round, std::uint64_t i) {
    const std::uint64_t draw = random_at(seed, round, i);
    return draw % 3 != 0 ? 1 : 2 + draw / 3 % 4;
}
bool put(queue_producer& producer, std::uint64_t first, std::uint64_t count) {
    if (count == 1) return static_cast<bool>(producer.try_push(content(first).span()));
    if (!producer.begin_batch()) return false;
    for (std::uint64_t i = 0; i < count; ++i) {
        const content message(first + i);
        const auto room = producer.try_claim(message.bytes + 8);
        if (!room) {
            producer.discard_batch();
            return false;
        }
        std::memcpy(room.bytes.data(), message.words, message.bytes);
        if (!producer.commit(message.bytes)) return false;
    }
    return producer.commit_batch().count == count;
}

class QueueKill : public holdfast::test::segment_test {
 protected:
    queue_producer make(std::uint64_t capacity) {
        holdfast::queue_options options;
        options.capacity_bytes = capacity;
        return queue_producer::create(name_.uri(), options);
    }
    [[nodiscard]] std::string sound() const {
        const auto seen = queue_observer::attach(name_.uri()).verify();
        if (seen.busy) return "verify is busy, although nobody works";
        return seen.found.empty() ? "" : "verify: " + seen.found.list()[0].what;
    }
    unique_posix_name name_{"queue"};
    holdfast::test::seeded_random random_;
};

// What the producers of all rounds have sent. Each says how much it finds when it takes over, and its death leaves one
// operation open: the next one's word closes it.
class sent_so_far {
 public:
    explicit sent_so_far(std::uint64_t seed) : seed_(seed) {}

    /// Of a round's producer, before its ready().
    void taken_over_with(std::uint64_t messages) noexcept { found_->store(messages); }
    /// Behind a round's kill. Returns: what is wrong with what the producer found.
    std::string add(const kill_progress& progress, std::uint64_t round) {
        const std::uint64_t found = found_->load();
        if (!may_be(found)) return "the producer took over with " + std::to_string(found) + ", " + text();
        certain_ = found;
        for (std::uint64_t i = 0; i < progress.completed(); ++i) certain_ += messages_of(seed_, round, i);
        open_ = progress.in_flight() ? messages_of(seed_, round, progress.completed()) : 0;
        return {};
    }
    void set(std::uint64_t messages) noexcept { certain_ = messages, open_ = 0; }
    [[nodiscard]] std::uint64_t certain() const noexcept { return certain_; }
    [[nodiscard]] bool may_be(std::uint64_t messages) const noexcept {
        return messages == certain_ || messages == certain_ + open_;
    }
    [[nodiscard]] std::string text() const {
        return "sent were " + std::to_string(certain_) + " or " + std::to_string(certain_ + open_);
    }

 private:
    std::uint64_t seed_, certain_ = 0, open_ = 0;
    shared_image page_{4096};
    std::atomic<std::uint64_t>* found_ = new (page_.bytes().data()) std::atomic<std::uint64_t>{0};
};

// The consumer takes what there is behind every second kill only: each second producer takes over in front of messages
// that wait, and is killed behind them.
TEST_F(QueueKill, KilledProducersLoseNothingCommittedAndInventNothing) {
    (void)make(256 * 1024);
    queue_consumer consumer = queue_consumer::attach(name_.uri(), consumer_after_death());
    sent_so_far sent(random_.seed());
    std::uint64_t next = 0, waited = 0;  // sequence expected by the consumer; rounds that left messages to the next one
    const auto worker = [&](kill_progress& progress, std::uint64_t round) {
        queue_producer producer = queue_producer::attach(name_.uri(), after_death());
        std::uint64_t sequence = producer.stats().messages;
        sent.taken_over_with(sequence);
        progress.ready();
        for (std::uint64_t i = 0;; ++i) {
            const std::uint64_t count = messages_of(random_.seed(), round, i);
            progress.begin();
            while (!put(producer, sequence, count)) (void)producer.wait_room(400, 1s);  // full: until the kill
            progress.end();
            sequence += count;
        }
    };
    const auto verify = [&](const kill_progress& progress, std::uint64_t round) -> std::string {
        if (std::string fault = sound(); !fault.empty()) return fault;
        if (std::string fault = sent.add(progress, round); !fault.empty()) return fault;
        if (round % 2 == 0) {
            waited += sent.certain() > next ? 1 : 0;
            return {};
        }
        for (; consumer.front(); consumer.pop())
            if (!is_content(consumer.front(), next++)) return "message " + std::to_string(next - 1) + " is another";
        if (consumer.fault()) return "the consumer met damage";
        if (!sent.may_be(next)) return std::to_string(next) + " messages arrived, " + sent.text();
        if (round % 16 == 15) {  // the next operation works
            queue_producer successor = queue_producer::attach(name_.uri(), after_death());
            if (successor.stats().messages != next) return "the successor counts otherwise";
            if (!put(successor, next, 3)) return "the successor cannot put";
            for (; consumer.front(); consumer.pop())
                if (!is_content(consumer.front(), next++)) return "the successor's message is another";
        }
        sent.set(next);
        return {};
    };
    const auto report = holdfast::test::run_kill_rounds(
        {.rounds = scaled(4500), .delay_ns_max = 40'000, .seed = random_.seed()}, worker, verify);
    EXPECT_TRUE(report.passed()) << report.text();
    EXPECT_GE(waited, report.kills / 8) << "hardly a producer took over in front of messages";
    RecordProperty("kills", report.text());
    RecordProperty("waited", std::to_string(waited));
}

// What a killed consumer looked at last, kept on a page that all of them map.
struct last_seen {
    std::atomic<std::uint64_t> sequence{0};  // of the message looked at last, + 1
    std::atomic<std::uint64_t> repeats{0};
    std::atomic<std::uint64_t> kills{0};  // since then
};

TEST_F(QueueKill, KilledConsumersMissNothingAndGetAtMostOneMessageTwice) {
    queue_producer producer = make(64 * 1024);
    shared_image page(4096);
    auto& seen = *new (page.bytes().data()) last_seen;
    std::uint64_t sent = 0;
    const auto refill = [&] {
        while (put(producer, sent, 1)) ++sent;
    };
    refill();
    const auto worker = [&](kill_progress& progress, std::uint64_t round) {
        queue_consumer consumer = queue_consumer::attach(name_.uri(), consumer_after_death());
        std::vector<std::byte> out(64);
        progress.ready();
        for (std::uint64_t i = 0;; ++i) {
            // In place, by copy, and several at once.
            const bool copies = (round + i / 64) % 3 == 1;
            progress.begin();
            const queue_message found = copies ? consumer.try_pop(out) : consumer.front();
            if (!found) {
                if (found.status != outcome::empty) ::_exit(1);
                (void)consumer.wait(10s);  // until the kill: the producer lives and sends nothing
                continue;
            }
            const std::uint64_t last = seen.sequence.load();
            std::uint64_t sequence = 0;
            std::memcpy(&sequence, found.bytes.data(), 8);
            if (!is_content(found, sequence)) ::_exit(2);
            if (i == 0 && sequence + 1 == last)
                seen.repeats.fetch_add(1);
            else if (sequence != last)
                ::_exit(3);  // lost, or repeated within one life
            seen.sequence.store(sequence + 1);
            if (!copies) consumer.pop();
            progress.end();
        }
    };
    const auto verify = [&](const kill_progress&, std::uint64_t) -> std::string {
        if (std::string fault = sound(); !fault.empty()) return fault;
        const auto taken = queue_observer::attach(name_.uri()).consumer();
        if (!taken) return "the consumer's side cannot be seen";
        const std::uint64_t looked = seen.sequence.load();
        if (taken->messages != looked && taken->messages + 1 != looked)
            return std::to_string(taken->messages) + " released, looked at " + std::to_string(looked);
        refill();
        return {};
    };
    const auto report = holdfast::test::run_kill_rounds(
        {.rounds = scaled(3500), .delay_ns_max = 40'000, .seed = random_.seed()}, worker, verify);
    EXPECT_TRUE(report.passed()) << report.text();
    EXPECT_GT(seen.repeats.load(), 0U) << "no kill met a consumer between look and release";
    RecordProperty("kills", report.text());
    RecordProperty("repeats", std::to_string(seen.repeats.load()));
}

TEST_F(QueueKill, AtMostOnceLosesAtMostTheLastOneAndRepeatsNone) {
    queue_producer producer = make(64 * 1024);
    shared_image page(4096);
    auto& seen = *new (page.bytes().data()) last_seen;
    std::uint64_t sent = 0;
    const auto refill = [&] {
        while (put(producer, sent, 1)) ++sent;
    };
    refill();
    const auto worker = [&](kill_progress& progress, std::uint64_t) {
        queue_consumer consumer = queue_consumer::attach(name_.uri(), consumer_after_death(delivery::at_most_once));
        std::vector<std::byte> out(64);
        progress.ready();
        for (std::uint64_t i = 0;; ++i) {
            progress.begin();
            const queue_message found = consumer.try_pop(out);
            if (!found) {
                if (found.status != outcome::empty) ::_exit(1);
                (void)consumer.wait(10s);  // until the kill: the producer lives and sends nothing
                continue;
            }
            std::uint64_t sequence = 0;
            std::memcpy(&sequence, found.bytes.data(), 8);
            if (!is_content(found, sequence)) ::_exit(2);
            const std::uint64_t last = seen.sequence.load();
            // Each kill since that one may have taken a message with it.
            const std::uint64_t kills = i == 0 ? seen.kills.load() : 0;
            if (sequence < last || sequence - last > kills) ::_exit(3);
            seen.sequence.store(sequence + 1);
            progress.end();
        }
    };
    const auto verify = [&](const kill_progress& progress, std::uint64_t) -> std::string {
        seen.kills.store(progress.completed() == 0 ? seen.kills.load() + 1 : 1);
        refill();
        return sound();
    };
    const auto report = holdfast::test::run_kill_rounds(
        {.rounds = scaled(500), .delay_ns_max = 40'000, .seed = random_.seed()}, worker, verify);
    EXPECT_TRUE(report.passed()) << report.text();
    EXPECT_GT(seen.sequence.load(), report.kills) << "hardly anything was delivered";
    RecordProperty("kills", report.text());
}

// A small ring, so that both sides sleep, wake each other and die there too.
TEST_F(QueueKill, BothSidesKilledAtOnceWhileTheyWork) {
    (void)make(1024);
    shared_image page(4096);
    auto& seen = *new (page.bytes().data()) last_seen;
    kill_progress putting, taking;
    const std::uint64_t rounds = scaled(1000);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        putting.reset(random_.below(150'000 * holdfast::test::slowness));
        taking.reset(random_.below(150'000 * holdfast::test::slowness));
        child_process producer([&] {
            queue_producer mine = queue_producer::attach(name_.uri(), after_death());
            std::uint64_t sequence = mine.stats().messages;
            putting.ready();
            for (std::uint64_t i = 0;; ++i) {
                const std::uint64_t count = messages_of(random_.seed(), round, i);
                while (!put(mine, sequence, count)) (void)mine.wait_room(400, 1s);
                sequence += count;
            }
        });
        child_process consumer([&] {
            queue_consumer mine = queue_consumer::attach(name_.uri(), consumer_after_death());
            taking.ready();
            for (bool first = true;; mine.pop()) {
                while (!mine.front()) (void)mine.wait(1s);
                const std::uint64_t last = seen.sequence.load();
                const bool again = first && last != 0 && is_content(mine.front(), last - 1);
                first = false;
                if (again) continue;
                if (!is_content(mine.front(), last)) ::_exit(3);
                seen.sequence.store(last + 1);
            }
        });
        ASSERT_TRUE(producer.wait().signalled) << "round " << round << ": " << producer.wait().text();
        ASSERT_TRUE(consumer.wait().signalled) << "round " << round << ": " << consumer.wait().text();
        ASSERT_EQ(sound(), "") << "round " << round;
    }
    queue_producer last_producer = queue_producer::attach(name_.uri(), after_death());
    queue_consumer last_consumer = queue_consumer::attach(name_.uri(), consumer_after_death());
    const std::uint64_t sent = last_producer.stats().messages;
    std::uint64_t next = last_consumer.stats().messages;
    EXPECT_LE(next, seen.sequence.load());
    EXPECT_LE(seen.sequence.load(), next + 1);
    for (; last_consumer.front(); last_consumer.pop()) ASSERT_TRUE(is_content(last_consumer.front(), next++));
    EXPECT_EQ(next, sent);
    EXPECT_GT(sent, rounds);
    RecordProperty("kills", std::to_string(2 * rounds) + " kills, " + std::to_string(sent) + " messages");
}

// Making a queue, taking over either side and letting go, killed before and after each system call: the next ones work.
TEST_F(QueueKill, KilledAtAnySystemCallOfAttachingTheNextOnesWork) {
    if (!holdfast::test::can_trace()) GTEST_SKIP() << "needs: ptrace of a child";
    std::uint64_t sent = 0;
    {
        queue_producer producer = make(1024);
        ASSERT_TRUE(put(producer, sent++, 1));
    }
    const auto works = [&]() -> std::string {
        queue_producer producer = queue_producer::attach(name_.uri(), after_death());
        if (producer.stats().messages != sent) return "the producer counts otherwise";
        if (!put(producer, sent, 1)) return "the next push failed";
        ++sent;
        queue_consumer consumer = queue_consumer::attach(name_.uri(), consumer_after_death());
        for (std::uint64_t next = consumer.stats().messages; consumer.front(); consumer.pop())
            if (!is_content(consumer.front(), next++)) return "another message";
        if (consumer.stats().messages != sent) return "a message is missing";
        if (!put(producer, sent, 1)) return "the next push failed";  // one is waiting in each round
        ++sent;
        return sound();
    };
    const auto stops = holdfast::test::kill_at_every_system_call(
        [] {},
        [&] {
            queue_producer producer = queue_producer::attach(name_.uri(), after_death());
            queue_consumer consumer = queue_consumer::attach(name_.uri(), consumer_after_death());
            (void)consumer.wait(1s);
            (void)consumer.wait(0s);
        },
        [] { return std::string(); }, works);
    EXPECT_TRUE(stops.passed()) << stops.failure;
    EXPECT_GT(stops.steps, 20U);
    RecordProperty("stops", std::to_string(stops.steps));
}

// The ring by index: what a killed producer published is contiguous, and its batches are whole.
TEST_F(QueueKill, KilledProducersOfRecordsPublishWholeBatches) {
    (void)queue<std::uint64_t>::producer::create(name_.uri(), {.capacity = 1 << 15});
    auto consumer = queue<std::uint64_t>::consumer::attach(name_.uri(), consumer_after_death());
    sent_so_far sent(random_.seed());
    std::uint64_t next = 0, waited = 0;
    const auto worker = [&](kill_progress& progress, std::uint64_t round) {
        auto producer = queue<std::uint64_t>::producer::attach(name_.uri(), after_death());
        std::uint64_t sequence = producer.stats().messages;
        sent.taken_over_with(sequence);
        progress.ready();
        for (std::uint64_t i = 0;; ++i) {
            std::uint64_t batch[5];
            const std::uint64_t count = messages_of(random_.seed(), round, i);
            for (std::uint64_t k = 0; k < count; ++k) batch[k] = (sequence + k) * 3;
            progress.begin();
            while (!producer.try_push(std::span<const std::uint64_t>(batch, count))) (void)producer.wait_room(5, 1s);
            progress.end();
            sequence += count;
        }
    };
    const auto verify = [&](const kill_progress& progress, std::uint64_t round) -> std::string {
        if (std::string fault = sent.add(progress, round); !fault.empty()) return fault;
        if (round % 2 == 0) {
            waited += sent.certain() > next ? 1 : 0;
            return {};
        }
        std::vector<std::uint64_t> out(1000);
        for (auto got = consumer.try_pop(out); got; got = consumer.try_pop(out))
            for (std::uint64_t i = 0; i < got.count; ++i)
                if (out[i] != 3 * next++) return "element " + std::to_string(next - 1) + " is another";
        if (!sent.may_be(next)) return std::to_string(next) + " elements arrived, " + sent.text();
        sent.set(next);
        return {};
    };
    const auto report = holdfast::test::run_kill_rounds(
        {.rounds = scaled(5000), .delay_ns_max = 40'000, .seed = random_.seed()}, worker, verify);
    EXPECT_TRUE(report.passed()) << report.text();
    EXPECT_GE(waited, report.kills / 8) << "hardly a producer took over in front of elements";
    RecordProperty("kills", report.text());
    RecordProperty("waited", std::to_string(waited));
}

// What a killed consumer of records looked at last is released wholly or comes again wholly; nothing else does.
TEST_F(QueueKill, KilledConsumersOfRecordsMissNothingAndGetAtMostOneLookTwice) {
    auto producer = queue<std::uint64_t>::producer::create(name_.uri(), {.capacity = 1 << 12});
    shared_image page(4096);
    // The last look of all lives: its first element << 8 | how many elements.
    auto& looked = *new (page.bytes().data()) std::atomic<std::uint64_t>{0};
    auto& repeats = *new (page.bytes().data() + 64) std::atomic<std::uint64_t>{0};
    std::uint64_t sent = 0;
    const auto refill = [&] {
        while (producer.try_push(sent * 3)) ++sent;
    };
    refill();
    const auto worker = [&](kill_progress& progress, std::uint64_t round) {
        auto consumer = queue<std::uint64_t>::consumer::attach(name_.uri(), consumer_after_death());
        std::uint64_t out[5];
        progress.ready();
        for (std::uint64_t i = 0;; ++i) {
            const std::uint64_t most = messages_of(random_.seed(), round, i);
            progress.begin();
            std::uint64_t count = 0;
            const bool in_place = (round + i / 64) % 3 == 1;  // else by copy, several at once
            if (!in_place) {
                const auto got = consumer.try_pop(std::span(out, most));
                count = got ? got.count : 0;
            } else if (const auto element = consumer.front()) {
                out[0] = element.value;
                count = 1;
            }
            if (count == 0) {
                if (consumer.fault()) ::_exit(1);
                (void)consumer.wait(10s);  // until the kill: the producer lives and sends nothing
                continue;
            }
            const std::uint64_t first = out[0] / 3, last = looked.load();
            for (std::uint64_t k = 0; k < count; ++k)
                if (out[k] != 3 * (first + k)) ::_exit(2);
            if (i == 0 && last % 256 != 0 && first == last >> 8)
                repeats.fetch_add(1);
            else if (first != (last >> 8) + last % 256)
                ::_exit(3);  // lost, or repeated within one life
            looked.store(first << 8 | count);
            if (in_place) consumer.pop();
            progress.end();
        }
    };
    const auto verify = [&](const kill_progress&, std::uint64_t) -> std::string {
        if (std::string fault = sound(); !fault.empty()) return fault;
        const auto taken = queue_observer::attach(name_.uri()).consumer();
        if (!taken) return "the consumer's side cannot be seen";
        const std::uint64_t last = looked.load();
        if (taken->messages != last >> 8 && taken->messages != (last >> 8) + last % 256)
            return std::to_string(taken->messages) + " released, looked at " + std::to_string(last % 256) + " from " +
                   std::to_string(last >> 8);
        refill();
        return {};
    };
    const auto report = holdfast::test::run_kill_rounds(
        {.rounds = scaled(5000), .delay_ns_max = 40'000, .seed = random_.seed()}, worker, verify);
    EXPECT_TRUE(report.passed()) << report.text();
    EXPECT_GT(repeats.load(), 0U) << "no kill met a consumer between look and release";
    RecordProperty("kills", report.text());
    RecordProperty("repeats", std::to_string(repeats.load()));
}

}  // namespace
