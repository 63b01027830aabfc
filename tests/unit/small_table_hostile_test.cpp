// SPDX-License-Identifier: Apache-2.0
// Small tables whose bytes somebody damaged, also while they are read: nothing crashes, hangs or reads outside (the
// bodies are heap blocks of their exact size, so address sanitizer sees any byte too many), and the full check finds
// every flipped bit of an entry.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/hash_table_image.hpp"
#include "support/image_corruption.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/small_table_model.hpp"

namespace {

using namespace holdfast;
using test::small_image;
using test::small_value_of;
using u64 = std::uint64_t;

constexpr u64 capacity = 20;
const layout::array_geometry planned = small_image::plan(capacity);

std::vector<std::byte> sound_image() {
    test::aligned_bytes body(planned.body_bytes());
    small_image table(body.bytes(), planned);
    for (u64 key = 0; key < 15; ++key) (void)table.writer().try_insert(key, small_value_of(key, key + 1));
    for (u64 key = 0; key < 15; key += 4) (void)table.writer().erase(key);
    return {body.bytes().begin(), body.bytes().end()};
}

void find_all(small_image::finder& reader) {
    for (u64 key = 0; key < capacity + 5; ++key) (void)small_image::number_of(reader, key);
    u64 seen = 0;
    (void)reader.visit([&](u64 place, const auto&) { seen += place; });
}

/// Everything a program does with a small table, on bytes that may be anything. Returns: findings of the full check.
u64 use_everything(std::span<std::byte> body, small_image::finder reader) {
    find_all(reader);
    const small_table_verification found = detail::verify(reader, [](const small_table_finding& f) {
        return f.place <= capacity || f.what == small_table_damage::element;
    });
    EXPECT_FALSE(found.stopped) << "a finding names elements that do not exist";
    small_image table(body, planned);
    EXPECT_LE(table.writer().size(), capacity);
    for (u64 key = 0; key < capacity; ++key) {
        (void)table.writer().erase(key);
        (void)table.writer().insert_or_assign(key + 100, small_value_of(key, 1));
        (void)table.writer().update(key + 100, small_value_of(key, 2));
    }
    find_all(reader);
    return found.findings;
}
u64 use_copy(std::span<const std::byte> image) {
    test::aligned_bytes body(image.size());
    std::memcpy(body.bytes().data(), image.data(), image.size());
    return use_everything(body.bytes(), small_image::reader_of(body.bytes(), planned));
}

TEST(SmallTableHostile, EveryBitAndWordMayBeAnything) {
    const auto image = sound_image();
    ASSERT_EQ(use_copy(image), 0U);
    const test::image_part entries{"entries", planned.elements_offset, (capacity + 1) * planned.stride};
    u64 unseen = 0;
    test::for_each_bit_flip(
        image, entries, [&](const test::damage&, std::span<std::byte> hurt) { unseen += use_copy(hurt) == 0 ? 1 : 0; });
    EXPECT_EQ(unseen, 0U) << "flipped bits that verify() did not find";
    for (const auto& part : {entries, test::image_part{"all", 0, image.size()}})
        test::for_each_word_damage(image, part, [&](const test::damage& d, std::span<std::byte> hurt) {
            if (!test::sanitized || d.offset % 24 == 0) (void)use_copy(hurt);
        });
}

TEST(SmallTableHostile, RandomDamageAndRandomBytes) {
    test::seeded_random random;
    const auto image = sound_image();
    test::random_damage(image, {"all", 0, image.size()}, random, test::scaled(2000),
                        [&](const test::damage&, std::span<std::byte> hurt) { (void)use_copy(hurt); });
    std::vector<std::byte> noise(image.size());
    for (u64 round = 0; round < test::scaled(500); ++round) {
        for (std::byte& b : noise) b = static_cast<std::byte>(random());
        // Half of the time all entries look used, and all keys are few.
        for (u64 place = 0; place <= capacity && round % 2 == 0; ++place) {
            const u64 words[2] = {random.below(8), place == 0 ? random() : 1};
            std::memcpy(noise.data() + planned.elements_offset + place * planned.stride, words, sizeof words);
        }
        (void)use_copy(noise);
    }
}

// Entries, generation and versions change to anything while a reader finds and checks.
TEST(SmallTableHostile, BytesThatChangeWhileTheyAreRead) {
    const auto image = sound_image();
    test::aligned_bytes body(image.size());
    std::memcpy(body.bytes().data(), image.data(), image.size());
    std::atomic<bool> done{false};
    std::atomic<u64> stores{0};
    const u64 seed = test::choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    std::thread attacker([&] {
        std::mt19937_64 random(seed);
        const auto words = image.size() / 8;
        while (!done.load(std::memory_order_acquire)) {
            std::byte* const at = body.bytes().data() + 8 * (random() % words);
            // Small numbers are states, generations and keys.
            detail::store_release<u64>(at, random() >> random() % 64);
            stores.fetch_add(1, std::memory_order_relaxed);  // a count
        }
    });
    small_image::finder reader = small_image::reader_of(body.bytes(), planned);
    // Until there were as many as that, too, on a machine that is busy.
    for (u64 round = 0; round < test::scaled(300) || stores.load(std::memory_order_relaxed) < 50'000; ++round) {
        find_all(reader);
        (void)detail::verify(reader, [](const small_table_finding&) { return true; });
    }
    done.store(true, std::memory_order_release);
    attacker.join();
}

}  // namespace
