// SPDX-License-Identifier: Apache-2.0
// A queue whose bytes somebody scribbled on, before or while it is used: nothing crashes, hangs or reads out of bounds;
// what matters is found.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "support/image_corruption.hpp"
#include "support/process.hpp"
#include "support/queue_bench.hpp"
#include "support/scale.hpp"

namespace {

using holdfast::errc;
using holdfast::outcome;
using holdfast::queue_claim;
using holdfast::queue_message;
using holdfast::layout::queue_consumer_offset;
using holdfast::layout::queue_element_read_core;
using holdfast::layout::queue_element_write_core;
using holdfast::layout::queue_geometry;
using holdfast::layout::queue_producer_offset;
using holdfast::layout::queue_read_core;
using holdfast::layout::queue_ring_offset;
using holdfast::layout::queue_side;
using holdfast::layout::queue_write_core;
using holdfast::layout::ring_decode;
using holdfast::layout::ring_word_kind;
using holdfast::test::consumer_side_in;
using holdfast::test::damage;
using holdfast::test::for_each_bit_flip;
using holdfast::test::for_each_word_damage;
using holdfast::test::image_part;
using holdfast::test::push_message;
using holdfast::test::queue_bench;
using holdfast::test::random_damage;
using holdfast::test::scaled;

constexpr std::size_t ring_bytes = 512;

bool inside(std::span<const std::byte> bytes, std::span<const std::byte> image) {
    return bytes.empty() || (bytes.data() >= image.data() + queue_ring_offset &&
                             bytes.data() + bytes.size() <= image.data() + image.size());
}

class QueueHostile : public ::testing::Test {
 protected:
    QueueHostile() : bench_(ring_bytes) {
        queue_write_core writer = bench_.writer();
        queue_read_core reader = bench_.reader();
        std::uint64_t seed = 0;
        for (int i = 0; i < 11; ++i) {  // past the end once, so that a skip is there
            EXPECT_TRUE(push_message(writer, seed++, 30));
            EXPECT_TRUE(reader.front() && reader.next() && reader.release());
        }
        while (push_message(writer, seed, 10 + seed % 50)) ++seed;
        sound_.assign(bench_.body().begin(), bench_.body().end());
        EXPECT_TRUE(look(bench_.body()));
    }

    // verify; true when it found nothing.
    bool look(std::span<std::byte> image) {
        const auto seen = bench_.verify_in(image);
        found_ = seen.found.count();
        unsettled_ = seen.unsettled;
        return found_ == 0;
    }

    // Everything that any role does with an image; the answers may be anything but impossible.
    void use(std::span<std::byte> image) {
        look(image);
        unsigned refused = 0;
        try {
            queue_read_core reader = bench_.reader_in(image);
            std::uint64_t steps = 0;
            for (queue_message m = reader.front(); m; m = reader.front()) {
                ASSERT_TRUE(inside(m.bytes, image));
                ASSERT_LE(++steps, 3 * ring_bytes / 8);
                reader.next();
                if (steps % 4 == 0) reader.release();
            }
            (void)reader.sleeper();
        } catch (const holdfast::error& e) {
            ASSERT_EQ(e.reason(), errc::corrupt);
            ASSERT_GT(found_, 0U) << "a consumer refuses what verify finds sound: " << e.what();
            ++refused;
        }
        try {
            look(image);
            queue_write_core writer = bench_.writer_in(image);
            writer.begin_batch();
            for (std::size_t bytes : {0U, 17U, 200U}) {
                const queue_claim room = writer.try_claim(bytes);
                if (!room) continue;
                ASSERT_TRUE(inside(room.bytes, image));
                std::memset(room.bytes.data(), 0x11, room.bytes.size());
                (void)writer.commit(bytes, 1);
            }
            (void)writer.commit_batch();
            (void)push_message(writer, 5, 40);
            (void)writer.head_needed(100);
            (void)writer.sleeper();
        } catch (const holdfast::error& e) {
            ASSERT_EQ(e.reason(), errc::corrupt);
            ASSERT_GT(found_, 0U) << "a producer refuses what verify finds sound: " << e.what();
            ++refused;
        }
        refused_ += refused;
        look(image);
    }

    [[nodiscard]] static image_part counted(std::uint64_t side) {
        return {"position and ledgers", static_cast<std::size_t>(side), offsetof(queue_side, refused)};
    }
    // Whether the byte belongs to a ledger that is not the side's current one.
    [[nodiscard]] bool unused_ledger(std::uint64_t side, std::size_t offset) const {
        const auto& s = *reinterpret_cast<const queue_side*>(sound_.data() + side);
        for (std::size_t i = 0; i < 2; ++i) {
            const std::size_t begin = static_cast<std::size_t>(side) + offsetof(queue_side, ledgers) + i * 24;
            if (offset >= begin && offset < begin + 24) return s.ledgers[i].position.load() != s.position.load();
        }
        return false;
    }

    queue_bench bench_;
    std::vector<std::byte> sound_;
    std::uint64_t found_ = 0;
    std::uint64_t refused_ = 0;
    bool unsettled_ = false;
};

TEST_F(QueueHostile, EveryFlippedBitOfAPositionOrItsCountsIsFound) {
    for (const std::uint64_t side : {queue_producer_offset, queue_consumer_offset})
        for_each_bit_flip(sound_, counted(side), [&](const damage& d, std::span<std::byte> image) {
            SCOPED_TRACE(d.text());
            // A tail that is one transaction old is what a crash leaves: the next producer puts it right.
            const bool noticed = !look(image) || unsettled_;
            if (!unused_ledger(side, d.offset)) {
                EXPECT_TRUE(noticed);
            }
            use(image);
        });
}

TEST_F(QueueHostile, EveryFlippedBitOfARecordsWordIsFoundExceptItsType) {
    const auto& consumer = *reinterpret_cast<const queue_side*>(sound_.data() + queue_consumer_offset);
    const auto& producer = *reinterpret_cast<const queue_side*>(sound_.data() + queue_producer_offset);
    std::uint64_t at = consumer.position.load();
    unsigned words = 0, skips = 0;
    while (at < producer.position.load()) {
        const std::size_t place = at % ring_bytes;
        std::uint64_t word = 0;
        std::memcpy(&word, sound_.data() + queue_ring_offset + place, 8);
        const auto record = ring_decode(word, ring_bytes - place);
        ASSERT_NE(record.bytes, 0U);
        for_each_bit_flip(sound_, {"word", queue_ring_offset + place, 8},
                          [&](const damage& d, std::span<std::byte> image) {
                              SCOPED_TRACE(d.text());
                              const std::size_t byte = d.offset - queue_ring_offset - place;
                              const bool type = record.kind == ring_word_kind::message && (byte == 4 || byte == 5);
                              EXPECT_EQ(look(image), type);
                              use(image);
                          });
        ++words;
        skips += record.kind == ring_word_kind::skip;
        at += record.bytes;
    }
    EXPECT_GT(words, 5U);
    EXPECT_GT(skips, 0U);
    // The word that is not ready is one too.
    for_each_bit_flip(sound_, {"zero word", queue_ring_offset + at % ring_bytes, 8},
                      [&](const damage& d, std::span<std::byte> image) {
                          SCOPED_TRACE(d.text());
                          EXPECT_FALSE(look(image));
                          use(image);
                      });
}

TEST_F(QueueHostile, DamagedWordsOfBothSidesAndTheRingAreHarmless) {
    for (const image_part& part : {image_part{"sides", 0, 512}, image_part{"ring", queue_ring_offset, ring_bytes}})
        for_each_word_damage(sound_, part, [&](const damage& d, std::span<std::byte> image) {
            SCOPED_TRACE(d.text());
            use(image);
        });
    EXPECT_GT(refused_, 100U);
}

TEST_F(QueueHostile, RandomDamageAndGarbageAreHarmless) {
    holdfast::test::seeded_random random;
    for (const image_part& part : {image_part{"sides", 0, 512}, image_part{"ring", queue_ring_offset, ring_bytes},
                                   image_part{"all", 0, sound_.size()}})
        random_damage(sound_, part, random, scaled(20'000), [&](const damage& d, std::span<std::byte> image) {
            SCOPED_TRACE(d.text());
            use(image);
        });
    std::vector<std::byte> garbage(sound_.size());
    holdfast::test::shared_image work(sound_.size());
    for (std::uint64_t round = 0; round < scaled(500); ++round) {
        for (std::byte& byte : garbage) byte = static_cast<std::byte>(random());
        if (round % 2 == 0) std::memset(garbage.data(), 0, 512);  // sound sides over a ring of rubbish
        work.assign(garbage);
        use(work.bytes());
    }
}

TEST_F(QueueHostile, PositionsOfElementsAreNeverFollowedOutOfTheRing) {
    const auto geometry = queue_geometry::of_elements(16, 40, true, "bench");
    queue_bench bench(geometry);
    holdfast::test::seeded_random random;
    const std::span<std::byte> image = bench.body();
    std::vector<std::byte> sound(image.begin(), image.end());
    const auto uses = [&](std::span<std::byte> bytes) {
        const bool damaged = !bench.verify_in(bytes).found.empty();
        try {
            queue_element_write_core writer(bytes, geometry, consumer_side_in(bytes), "hostile");
            queue_element_read_core reader(bytes, geometry, consumer_side_in(bytes), "hostile");
            for (std::uint64_t i = 0; i < 40; ++i) {
                if (writer.room(3) == outcome::ok) {
                    for (std::uint64_t k = 0; k < 3; ++k) {
                        ASSERT_TRUE(inside({writer.slot(k), 40}, bytes));
                        std::memset(writer.slot(k), 1, 40);
                    }
                    writer.publish(3);
                }
                const auto there = reader.ready(5);
                for (std::uint64_t k = 0; there && k < there.count; ++k)
                    ASSERT_TRUE(inside({reader.slot(k), 40}, bytes));
                if (there) reader.pass(there.count);
                reader.release();
                if (i == 20) {
                    auto& words = *reinterpret_cast<queue_side*>(bytes.data() + (random.below(2) * 256));
                    words.position.store(random() >> random.below(64));  // while they work
                }
            }
        } catch (const holdfast::error& e) {
            ASSERT_EQ(e.reason(), errc::corrupt);
            ASSERT_TRUE(damaged);
        }
    };
    for_each_word_damage(sound, {"sides", 0, 512}, [&](const damage& d, std::span<std::byte> bytes) {
        SCOPED_TRACE(d.text());
        uses(bytes);
    });
    random_damage(sound, {"sides", 0, 512}, random, scaled(20'000), [&](const damage& d, std::span<std::byte> bytes) {
        SCOPED_TRACE(d.text());
        uses(bytes);
    });
}

// Another process scribbles over everything while both roles, and a look from outside, go on.
TEST_F(QueueHostile, AScribblingPeerHarmsNobodysMemoryAndHangsNobody) {
    std::atomic<bool>& stop = *new (bench_.body().data() + 1024) std::atomic<bool>(false);
    holdfast::test::seeded_random random;
    const std::uint64_t seed = random();
    holdfast::test::child_process attacker([&] {
        auto* const words = reinterpret_cast<std::uint64_t*>(bench_.body().data());
        const std::uint64_t ring = queue_ring_offset / 8;
        for (std::uint64_t i = 0; !stop.load(); ++i) {
            const std::uint64_t draw = holdfast::test::random_at(seed, 1, i);
            const std::uint64_t at = draw % 2 == 0 ? draw / 2 % 64 : ring + draw / 2 % (ring_bytes / 8);
            const std::uint64_t value = holdfast::test::random_at(seed, 2, i) >> (draw >> 32U) % 64;
            std::atomic_ref(words[at]).store(value, std::memory_order_relaxed);
        }
    });
    std::uint64_t attached = 0, refused = 0, received = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(scaled(1500));
    while (std::chrono::steady_clock::now() < end || attached + refused <= 100) {
        std::memcpy(bench_.body().data(), sound_.data(), 512);
        std::memcpy(bench_.body().data() + queue_ring_offset, sound_.data() + queue_ring_offset, ring_bytes);
        try {
            queue_read_core reader = bench_.reader();
            queue_write_core writer = bench_.writer();
            ++attached;
            for (int i = 0; i < 50; ++i) {
                (void)push_message(writer, 1, random.below(200));
                (void)writer.head_needed(100);
                for (int k = 0; k < 3; ++k) {
                    const queue_message m = reader.front();
                    ASSERT_TRUE(inside(m.bytes, bench_.body()));
                    unsigned sum = 0;
                    for (const std::byte b : m.bytes) sum += static_cast<unsigned>(b);
                    received += m ? 1 + (sum == 77) : 0;
                    reader.next();
                }
                reader.release();
            }
        } catch (const holdfast::error& e) {
            ASSERT_EQ(e.reason(), errc::corrupt);
            ++refused;
        }
        (void)bench_.verify_in(bench_.body());
    }
    stop.store(true);
    EXPECT_TRUE(attacker.wait().success()) << attacker.wait().text();
    EXPECT_GT(attached + refused, 100U);
    RecordProperty("received", std::to_string(received));
}

}  // namespace
