// SPDX-License-Identifier: Apache-2.0
// A death of producer or consumer at any instruction of every operation, in every state of the ring: the image after
// each single instruction is sound, holds what it held before or all that the operation adds or takes, and both
// successors, whichever comes first, go on with it. Recovery is stepped likewise. (The compiled code's own stores, in
// its own order; layout/queue_write.hpp and queue_read.hpp tell what each leaves.)
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/capability.hpp"
#include "support/queue_bench.hpp"
#include "support/scale.hpp"

namespace {

using holdfast::outcome;
using holdfast::queue_claim;
using holdfast::detail::copy_way;
using holdfast::layout::queue_counter;
using holdfast::layout::queue_element_read_core;
using holdfast::layout::queue_element_write_core;
using holdfast::layout::queue_geometry;
using holdfast::layout::queue_read_core;
using holdfast::layout::queue_side;
using holdfast::layout::queue_write_core;
using holdfast::layout::ring_message_max;
using holdfast::test::claim_message;
using holdfast::test::consumer_side_in;
using holdfast::test::is_message;
using holdfast::test::message_of;
using holdfast::test::push_message;
using holdfast::test::queue_bench;
using holdfast::test::shared_image;
using holdfast::test::single_step;
using holdfast::test::step_report;
using holdfast::test::type_of;

constexpr std::uint64_t ring_bytes = 256;
using sent = std::vector<std::pair<std::uint64_t, std::size_t>>;  // seed and size of each message

/// A queue brought into a state, with what it then holds.
struct prepared {
    explicit prepared(std::uint64_t capacity = ring_bytes) : bench(capacity) {}
    void push(std::size_t bytes) {
        ASSERT_TRUE(push_message(writer(), next, bytes));
        held.emplace_back(next++, bytes);
    }
    void pop() {
        ASSERT_TRUE(is_message(reader().front(), held.front().first, held.front().second));
        reader().next();
        reader().release();
        held.erase(held.begin());
        ++taken;
    }
    queue_write_core& writer() {
        if (!writer_) writer_ = std::make_unique<queue_write_core>(bench.writer());
        return *writer_;
    }
    queue_read_core& reader() {
        if (!reader_) reader_ = std::make_unique<queue_read_core>(bench.reader());
        return *reader_;
    }

    queue_bench bench;
    sent held;
    std::uint64_t next = 1, taken = 0;

 private:
    std::unique_ptr<queue_write_core> writer_;
    std::unique_ptr<queue_read_core> reader_;
};

struct state {
    const char* name;
    std::function<void(prepared&)> make;
};

const std::vector<state>& states() {
    static const std::vector<state> all{
        {"fresh", [](prepared&) {}},
        {"emptied", [](prepared& q) { q.push(16), q.pop(); }},
        {"half", [](prepared& q) { q.push(32), q.push(40); }},
        {"nearly full", [](prepared& q) { q.push(40), q.push(40), q.push(40), q.push(40); }},
        {"full", [](prepared& q) { q.push(72), q.push(72), q.push(72); }},
        {"wrapped",
         [](prepared& q) {
             for (int i = 0; i < 4; ++i) q.push(40);
             for (int i = 0; i < 3; ++i) q.pop();
             q.push(48);
         }},
        {"before a skip",
         [](prepared& q) {
             for (int i = 0; i < 4; ++i) q.push(48);
             for (int i = 0; i < 3; ++i) q.pop();
         }},
        {"one word before the end",
         [](prepared& q) { q.push(112), q.pop(), q.push(104), q.pop(), q.push(0), q.pop(); }},
    };
    return all;
}

/// What a consumer that takes over finds; "" when it is `expected`, each once and whole.
std::string receives(queue_read_core& reader, const sent& expected, std::size_t from, std::size_t& got) {
    for (got = from; reader.front(); ++got) {
        if (got == expected.size()) return "a message that nobody sent";
        if (!is_message(reader.front(), expected[got].first, expected[got].second))
            return "message " + std::to_string(got) + " is another or damaged";
        reader.next();
        reader.release();
    }
    return reader.fault() ? "the consumer met damage" : "";
}

std::string sound(const queue_bench& bench, std::span<std::byte> image) {
    const auto seen = bench.verify_in(image);
    return seen.found.empty() ? "" : "verify: " + seen.found.list()[0].what;
}

/// Both sides go on: messages of several sizes, a batch, through the wrap.
std::string goes_on(const queue_bench& bench, std::span<std::byte> image, queue_write_core& writer,
                    queue_read_core& reader) {
    for (std::uint64_t i = 0; i < 6; ++i) {
        const std::size_t bytes = i * 19 % ring_message_max(writer.capacity());
        if (i % 3 == 2) writer.begin_batch();
        if (!push_message(writer, 900 + i, bytes)) return "the next push failed";
        if (writer.in_batch() && !writer.commit_batch()) return "the next batch failed";
        if (!is_message(reader.front(), 900 + i, bytes)) return "the next message is not what was pushed";
        reader.next();
        reader.release();
        if (std::string fault = sound(bench, image); !fault.empty()) return "going on, " + fault;
    }
    return reader.counts() == writer.counts() ? "" : "the sides' counts differ in the end";
}

/// The image holds expected[a..] or expected[b..], cut at `least` or at the end; both orders of taking over.
std::string survives(const queue_bench& bench, std::span<std::byte> image, const sent& expected, std::size_t least,
                     std::size_t from_before, std::size_t from_after, std::uint64_t taken) {
    if (std::string fault = sound(bench, image); !fault.empty()) return fault;
    shared_image second(image.size());
    second.assign(image);
    for (const bool producer_first : {true, false}) {
        const std::span<std::byte> body = producer_first ? image : second.bytes();
        std::unique_ptr<queue_write_core> writer;
        if (producer_first) {
            writer = std::make_unique<queue_write_core>(bench.writer_in(body));
            const auto seen = bench.verify_in(body);
            if (!seen.found.empty() || seen.unsettled) return "the producer's recovery left something open";
        }
        queue_read_core reader = bench.reader_in(body);
        const std::uint64_t gone = reader.counts().messages - taken;
        if (gone != from_before && gone != from_after) return "the consumer's count is neither before nor after";
        std::size_t got = 0;
        if (std::string fault = receives(reader, expected, gone, got); !fault.empty()) return fault;
        if (got != least && got != expected.size())
            return std::to_string(got) + " messages arrived, neither before nor after";
        if (!writer) writer = std::make_unique<queue_write_core>(bench.writer_in(body));
        if (writer->counts().messages != taken + got) return "the producer's count is not exact";
        if (std::string fault = goes_on(bench, body, *writer, reader); !fault.empty()) return fault;
    }
    return {};
}

class QueueStep : public ::testing::Test {
 protected:
    void SetUp() override {
        if (!holdfast::test::can_trace() || holdfast::test::sanitized)
            GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    }
    void TearDown() override {
        RecordProperty("steps", std::to_string(total_.steps));
        RecordProperty("images", std::to_string(total_.images));
    }
    // Steps an operation of the producer that adds `added`, in each state where they fit.
    void step_producer(const std::vector<std::size_t>& added, const std::function<void(prepared&)>& operate) {
        unsigned tried = 0;
        for (const state& s : states()) {
            prepared q;
            s.make(q);
            if (::testing::Test::HasFatalFailure()) return;
            const std::size_t before = q.held.size();
            const std::uint64_t refused = q.writer().side().refused.load();
            {  // does it fit? asked on a copy
                prepared probe;
                s.make(probe);
                operate(probe);
                if (probe.writer().side().refused.load() != refused) continue;
            }
            ++tried;
            sent expected = q.held;
            for (std::size_t i = 0; i < added.size(); ++i) expected.emplace_back(q.next + i, added[i]);
            const step_report r = single_step(
                q.bench.image(), [&] { operate(q); },
                [&](std::span<std::byte> image) { return survives(q.bench, image, expected, before, 0, 0, q.taken); });
            ASSERT_TRUE(r.passed()) << s.name << ": " << r.failure;
            EXPECT_GT(r.images, 4U) << s.name << ": the stores of a push were not seen";
            total_ += r;
        }
        EXPECT_GE(tried, 3U);
    }
    step_report total_;
};

TEST_F(QueueStep, PushInEveryState) {
    for (const std::size_t bytes : {0U, 7U, 40U, 104U}) {
        step_producer({bytes}, [bytes](prepared& q) { (void)push_message(q.writer(), q.next, bytes); });
        step_producer({bytes}, [bytes](prepared& q) { (void)claim_message(q.writer(), q.next, bytes); });
    }
}

TEST_F(QueueStep, AClaimFilledInPlaceAndCommittedShorter) {
    step_producer({9}, [](prepared& q) {
        queue_claim room = q.writer().try_claim(60);
        if (!room) return;
        std::memset(room.bytes.data(), 0x77, room.bytes.size());
        q.writer().discard();
        room = q.writer().try_claim(60);
        const auto message = message_of(q.next, 9);
        std::memset(room.bytes.data(), 0x77, room.bytes.size());
        std::memcpy(room.bytes.data(), message.data(), message.size());
        (void)q.writer().commit(9, type_of(q.next));
    });
}

TEST_F(QueueStep, ABatchOfThreeAfterADroppedBatch) {
    step_producer({8, 0, 24}, [](prepared& q) {
        q.writer().begin_batch();
        (void)push_message(q.writer(), 77, 30);
        (void)push_message(q.writer(), 78, 3);
        q.writer().discard_batch();
        q.writer().begin_batch();
        (void)push_message(q.writer(), q.next, 8);
        (void)push_message(q.writer(), q.next + 1, 0);
        (void)push_message(q.writer(), q.next + 2, 24);
        (void)q.writer().commit_batch();
    });
}

TEST_F(QueueStep, ABatchThatBeginsWithASkip) {
    step_producer({64, 30}, [](prepared& q) {
        q.writer().begin_batch();
        (void)push_message(q.writer(), q.next, 64);
        (void)claim_message(q.writer(), q.next + 1, 30);
        (void)q.writer().commit_batch();
    });
}

// Long messages past the caches, one alone and a batch of two, from the front of the ring and through its end.
TEST_F(QueueStep, LongMessagesPastTheCaches) {
    for (const bool wrapped : {false, true})
        for (const std::vector<std::size_t>& added : {std::vector<std::size_t>{700}, {600, 1000}}) {
            prepared q(4096);
            for (int i = 0; i < 3 && wrapped; ++i) q.push(1200), q.pop();
            q.push(24);
            sent expected = q.held;
            for (std::size_t i = 0; i < added.size(); ++i) expected.emplace_back(q.next + i, added[i]);
            const step_report r = single_step(
                q.bench.image(),
                [&] {
                    q.writer().long_copies().keep_to(copy_way::past_caches);
                    q.writer().begin_batch();
                    for (std::size_t i = 0; i < added.size(); ++i) (void)push_message(q.writer(), q.next + i, added[i]);
                    (void)q.writer().commit_batch();
                },
                [&](std::span<std::byte> image) { return survives(q.bench, image, expected, 1, 0, 0, q.taken); });
            ASSERT_TRUE(r.passed()) << r.failure;
            EXPECT_GT(r.images, 4 * (added[0] / 64 - 1)) << "not every line was stored by itself";
            total_ += r;
        }
}

// Dies in the middle of a batch: what was committed to it stays unseen.
TEST_F(QueueStep, MidBatchNothingOfItIsVisible) {
    for (const state& s : states()) {
        prepared q;
        s.make(q);
        const step_report r = single_step(
            q.bench.image(),
            [&] {
                q.writer().begin_batch();
                (void)push_message(q.writer(), 500, 8);
                (void)push_message(q.writer(), 501, 16);
            },
            [&](std::span<std::byte> image) { return survives(q.bench, image, q.held, q.held.size(), 0, 0, q.taken); });
        ASSERT_TRUE(r.passed()) << s.name << ": " << r.failure;
        total_ += r;
    }
}

// A full ring refuses without a trace.
TEST_F(QueueStep, RefusedPushChangesNothingThatIsRead) {
    prepared q;
    states()[4].make(q);
    const step_report r = single_step(
        q.bench.image(), [&] { (void)push_message(q.writer(), 500, 72); },
        [&](std::span<std::byte> image) { return survives(q.bench, image, q.held, q.held.size(), 0, 0, q.taken); });
    ASSERT_TRUE(r.passed()) << r.failure;
    EXPECT_EQ(r.images, 2U) << "the counter of refusals, and nothing else";
    total_ += r;
}

TEST_F(QueueStep, ReleasingOneAndManyInEveryState) {
    for (const state& s : states())
        for (const std::size_t many : {std::size_t{1}, std::size_t{3}}) {
            prepared q;
            s.make(q);
            if (q.held.size() < many) continue;
            q.reader();
            const step_report r = single_step(
                q.bench.image(),
                [&] {
                    for (std::size_t i = 0; i < many; ++i) {
                        (void)q.reader().front();
                        q.reader().next();
                    }
                    q.reader().release();
                },
                [&](std::span<std::byte> image) {
                    return survives(q.bench, image, q.held, q.held.size(), 0, many, q.taken);
                });
            ASSERT_TRUE(r.passed()) << s.name << ": " << r.failure;
            EXPECT_GE(r.images, 4U) << s.name << ": the stores of a release were not seen";
            total_ += r;
        }
}

// Death during recovery from a death: every image of a push and of a batch is recovered under the stepper by the
// producer, and by the consumer, and every image of that recovery is recovered again.
TEST_F(QueueStep, RecoveryFromEveryStateIsItselfRecoverable) {
    std::uint64_t changed = 0;
    for (const state& s : states()) {
        prepared q;
        s.make(q);
        const std::size_t before = q.held.size();
        sent expected = q.held;
        expected.emplace_back(q.next, 8);
        expected.emplace_back(q.next + 1, 3);
        q.writer().side().waiting.store(99);  // died asleep once
        q.reader().side().waiting.store(1);
        std::vector<std::vector<std::byte>> images;
        const step_report first = single_step(
            q.bench.image(),
            [&] {
                q.writer().begin_batch();
                const bool fits = push_message(q.writer(), q.next, 8) && push_message(q.writer(), q.next + 1, 3);
                if (fits) (void)q.writer().commit_batch();
            },
            [&](std::span<std::byte> image) -> std::string {
                images.emplace_back(image.begin(), image.end());
                return {};
            });
        ASSERT_TRUE(first.passed()) << first.failure;
        total_ += first;
        for (const auto& image : images)
            for (const bool producer : {true, false}) {
                queue_bench bench(ring_bytes);
                bench.image().assign(image);
                const step_report r = single_step(
                    bench.image(),
                    [&] {
                        if (producer)
                            (void)bench.writer();
                        else
                            (void)bench.reader();
                    },
                    [&](std::span<std::byte> again) {
                        return survives(bench, again, expected, before, 0, 0, q.taken);
                    });
                ASSERT_TRUE(r.passed()) << s.name << (producer ? ", producer: " : ", consumer: ") << r.failure;
                changed += producer && r.images > 2 ? 1 : 0;
                total_ += r;
            }
    }
    EXPECT_GT(changed, 0U) << "no image needed the walk: the state between W1 and W3 is missing";
}

queue_geometry elements_geometry() { return queue_geometry::of_elements(8, 24, true, "bench"); }
void fill_element(std::byte* slot, std::uint64_t value) {
    for (std::size_t i = 0; i < 3; ++i) std::memcpy(slot + 8 * i, &value, 8);
}
using before_and_after = std::array<std::uint64_t, 2>;

/// Both sides take over, each at one of two places, and what lies between them is whole.
std::string elements_survive(const queue_bench& bench, std::span<std::byte> image, const before_and_after& heads,
                             const before_and_after& tails) {
    const queue_geometry& geometry = bench.geometry();
    queue_element_write_core next(image, geometry, consumer_side_in(image), "next");
    queue_element_read_core other(image, geometry, consumer_side_in(image), "next");
    if (next.tail() != tails[0] && next.tail() != tails[1]) return "tail " + std::to_string(next.tail());
    if (other.head() != heads[0] && other.head() != heads[1]) return "head " + std::to_string(other.head());
    for (std::uint64_t i = other.head(); i < next.tail(); ++i) {
        std::uint64_t words[3];
        if (!other.ready(1)) return "an element is missing";
        std::memcpy(words, other.slot(0), sizeof words);
        if (words[0] != i || words[1] != i || words[2] != i) return "a mixed element";
        other.pass(1);
        other.release();
    }
    if (other.ready(1).status != outcome::empty) return "an element that nobody sent";
    if (next.room(8) != outcome::ok) return "no room in an empty ring";
    return bench.verify_in(image).found.empty() ? "" : "verify";
}

// The ring by index: n elements appear at once or not, n are released at once or not.
TEST_F(QueueStep, ElementsAreAddedAndReleasedTogether) {
    const queue_geometry geometry = elements_geometry();
    for (std::uint64_t already = 0; already <= 11; ++already)
        for (const std::uint64_t count : {1U, 3U}) {
            queue_bench bench(geometry);
            auto& consumer = consumer_side_in(bench.body());
            queue_element_write_core writer(bench.body(), geometry, consumer, "bench");
            queue_element_read_core reader(bench.body(), geometry, consumer, "bench");
            for (std::uint64_t i = 0; i < already; ++i) {
                if (writer.room(1) != outcome::ok) {
                    ASSERT_TRUE(reader.ready(1));
                    reader.pass(1);
                    reader.release();
                    ASSERT_EQ(writer.room(1), outcome::ok);
                }
                fill_element(writer.slot(0), i);
                writer.publish(1);
            }
            const auto check = [&](std::span<std::byte> image, std::uint64_t head_0, std::uint64_t head_1,
                                   std::uint64_t tail_0, std::uint64_t tail_1) {
                return elements_survive(bench, image, {head_0, head_1}, {tail_0, tail_1});
            };
            const std::uint64_t head = reader.head(), tail = writer.tail();
            // Who attaches behind sides that died asleep.
            writer.side().waiting.store(head + 1);
            reader.side().waiting.store(1);
            const step_report attaching = single_step(
                bench.image(),
                [&] {
                    (void)queue_element_write_core(bench.body(), geometry, consumer, "bench");
                    (void)queue_element_read_core(bench.body(), geometry, consumer, "bench");
                },
                [&](std::span<std::byte> image) { return check(image, head, head, tail, tail); });
            ASSERT_TRUE(attaching.passed()) << attaching.failure;
            EXPECT_EQ(attaching.images, 3U) << "as it was, the producer awake, both awake";
            total_ += attaching;
            if (writer.room(count) == outcome::ok) {
                const step_report r = single_step(
                    bench.image(),
                    [&] {
                        for (std::uint64_t i = 0; i < count; ++i) fill_element(writer.slot(i), tail + i);
                        writer.publish(count);
                    },
                    [&](std::span<std::byte> image) { return check(image, head, head, tail, tail + count); });
                ASSERT_TRUE(r.passed()) << r.failure;
                EXPECT_GE(r.images, 2U);
                total_ += r;
                // The child worked on the shared image with its own copy of the core.
                writer = queue_element_write_core(bench.body(), geometry, consumer, "bench");
            }
            if (!reader.ready(count) || reader.ready(count).count < count) continue;
            const std::uint64_t now = writer.tail();
            const step_report r = single_step(
                bench.image(),
                [&] {
                    reader.pass(count);
                    reader.release();
                },
                [&](std::span<std::byte> image) { return check(image, head, head + count, now, now); });
            ASSERT_TRUE(r.passed()) << r.failure;
            EXPECT_EQ(r.images, 2U);
            total_ += r;
        }
}

// ---- the rig's own teeth: producers that do it in a wrong order, each found.

enum class part { payload, end, counts, word, position };

/// Steps a push into a ring that has messages, whose parts are stored in the order given.
std::string failure_of_push(const std::vector<part>& order) {
    prepared q;
    states()[2].make(q);
    constexpr std::size_t bytes = 40;
    const std::vector<std::byte> message = message_of(q.next, bytes);
    queue_side& side = q.writer().side();
    const std::uint64_t from = side.position, to = from + holdfast::layout::ring_record_bytes(bytes);
    std::byte* const record = q.bench.body().data() + holdfast::layout::queue_ring_offset + from;
    const auto store = [&](std::uint64_t at, std::uint64_t word) {
        reinterpret_cast<std::atomic<std::uint64_t>*>(record + (at - from))->store(word, std::memory_order_release);
    };
    sent expected = q.held;
    expected.emplace_back(q.next, bytes);
    queue_counter counter = *queue_counter::at(side, from);
    return single_step(
               q.bench.image(),
               [&] {
                   for (const part next : order) {
                       std::atomic_signal_fence(std::memory_order_seq_cst);
                       if (next == part::payload) std::memcpy(record + 8, message.data(), bytes);
                       if (next == part::end) store(to, 0);
                       if (next == part::counts) counter.announce(side, to, {1, bytes});
                       if (next == part::word) store(from, holdfast::layout::ring_message_word(bytes, type_of(q.next)));
                       if (next == part::position) side.position.store(to, std::memory_order_release);
                   }
               },
               [&](std::span<std::byte> image) {
                   return survives(q.bench, image, expected, q.held.size(), 0, 0, q.taken);
               })
        .failure;
}

class QueueStepTeeth : public QueueStep {};

TEST_F(QueueStepTeeth, APushInTheRightOrderIsFoundSound) {
    EXPECT_EQ(failure_of_push({part::payload, part::end, part::counts, part::word, part::position}), "");
}

TEST_F(QueueStepTeeth, AWordBeforeItsPayloadIsFound) {
    const std::string failure = failure_of_push({part::end, part::counts, part::word, part::payload, part::position});
    EXPECT_NE(failure.find("is another or damaged"), std::string::npos) << failure;
}

TEST_F(QueueStepTeeth, APositionBeforeItsWordIsFound) {
    const std::string failure = failure_of_push({part::payload, part::end, part::counts, part::position, part::word});
    EXPECT_NE(failure.find("verify: "), std::string::npos) << failure;
}

TEST_F(QueueStepTeeth, CountsBehindTheirWordAreFound) {
    const std::string failure = failure_of_push({part::payload, part::end, part::word, part::counts, part::position});
    EXPECT_NE(failure, "");
}

TEST_F(QueueStepTeeth, ABatchInTwoPartsIsFound) {
    prepared q;
    states()[2].make(q);
    sent expected = q.held;
    for (std::uint64_t i = 0; i < 2; ++i) expected.emplace_back(q.next + i, 8);
    const step_report r = single_step(
        q.bench.image(),
        [&] {
            for (std::uint64_t i = 0; i < 2; ++i) (void)push_message(q.writer(), q.next + i, 8);
        },
        [&](std::span<std::byte> image) { return survives(q.bench, image, expected, q.held.size(), 0, 0, q.taken); });
    EXPECT_NE(r.failure.find("neither before nor after"), std::string::npos) << r.failure;
}

/// Steps a push of three elements behind one that waits, by `push(writer, tail)`.
template <class Push>
std::string failure_of_elements(Push push) {
    queue_bench bench(elements_geometry());
    queue_element_write_core writer(bench.body(), bench.geometry(), consumer_side_in(bench.body()), "bench");
    fill_element(writer.slot(0), 0);
    writer.publish(1);
    return single_step(
               bench.image(), [&] { push(writer); },
               [&](std::span<std::byte> image) { return elements_survive(bench, image, {0, 0}, {1, 4}); })
        .failure;
}

TEST_F(QueueStepTeeth, ATailBeforeItsElementsIsFound) {
    const std::string failure = failure_of_elements([](queue_element_write_core& writer) {
        writer.publish(3);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        for (std::uint64_t i = 0; i < 3; ++i) fill_element(writer.slot(i - 3), 1 + i);
    });
    EXPECT_NE(failure.find("a mixed element"), std::string::npos) << failure;
}

TEST_F(QueueStepTeeth, ElementsThatAreAddedOneByOneAreFound) {
    const std::string failure = failure_of_elements([](queue_element_write_core& writer) {
        for (std::uint64_t i = 1; i <= 3; ++i) {
            fill_element(writer.slot(0), i);
            writer.publish(1);
        }
    });
    EXPECT_NE(failure.find("tail 2"), std::string::npos) << failure;
}

}  // namespace
