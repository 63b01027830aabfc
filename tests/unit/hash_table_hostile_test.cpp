// SPDX-License-Identifier: Apache-2.0
// Tables whose bytes somebody damaged, in every place and also while we read: nothing crashes, hangs or reads outside
// (the bodies are heap blocks of their exact size, so address sanitizer sees any byte too many), and the full check
// finds what a flip did.
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "support/hash_table_image.hpp"
#include "support/image_corruption.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/table_answer.hpp"

namespace {

using namespace holdfast;
using u64 = std::uint64_t;
using status = holdfast::test::table_answer;

struct wide_value {
    u64 words[3];
};
using table_type = test::hash_table_image<u64, wide_value>;
using geometry = layout::hash_table_geometry;

constexpr u64 key_count = 66;

double cpu_seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

geometry small_geometry() { return test::geometry_for<u64, wide_value>(70, 5); }

/// A sound table of three buckets with entries outside their home; `armed`: its writer was killed in a wide update.
std::vector<std::byte> sound_image(bool armed) {
    const geometry g = small_geometry();
    table_type table(g);
    for (u64 key = 0; key < key_count; ++key)
        if (table.try_insert(key, {{key, key, key}}) != status::inserted) throw std::logic_error("no room");
    if (armed) table.arm_update(7, {{1, 2, 3}});
    return {table.bytes().begin(), table.bytes().end()};
}

/// Everything a program does with a table, on bytes that may be anything. Returns: findings of the full check.
template <class Node>
u64 use_everything(std::span<std::byte> body, const geometry& g, Node node) {
    using finder_type = detail::hash_table_finder<Node>;
    detail::table_view<std::byte, Node> view(body, g, node);
    view.prefetches = true;  // the longer way, which large tables go
    const finder_type finder(view.as_const());
    std::vector<std::byte> key(node.key_bytes()), value(node.value_bytes());
    const auto numbered = [&](u64 n) {
        std::memcpy(key.data(), &n, std::min<std::size_t>(8, key.size()));
        return key.data();
    };
    for (u64 n = 0; n < key_count + 20; ++n) (void)finder.find(numbered(n), value.data());
    std::vector<std::byte> keys(20 * node.key_bytes()), values(20 * node.value_bytes());
    detail::answers_in_place answers{[&](std::size_t i) { return values.data() + i * node.value_bytes(); },
                                     [](std::size_t, bool) {}};
    detail::find_batch(finder, keys.data(), 20, answers);
    detail::hash_table_scanner<Node> scanner(finder, 0);
    u64 scanned = 0;
    while (scanner.next(key.data(), value.data()) != detail::no_slot) ++scanned;
    EXPECT_LE(scanned, g.slots());
    EXPECT_LE(finder.size(), g.slots());
    const hash_table_verification found =
        detail::verify(view.as_const(), [&](const hash_table_finding& f) { return f.slot < g.slots(); });
    EXPECT_FALSE(found.stopped) << "a finding names a slot that does not exist";

    (void)detail::recover(view);
    detail::hash_table_mutator<Node> mutator(view);
    for (u64 n = 0; n < 12; ++n) (void)mutator.insert_or_assign(numbered(n * 11), value.data());
    for (u64 n = 0; n < 12; ++n) (void)mutator.try_insert(numbered(n + 100), value.data());
    for (u64 n = 0; n < 12; ++n) (void)mutator.erase(numbered(n * 5));
    (void)detail::recount(view);
    (void)detail::verify(view.as_const(), [](const hash_table_finding&) { return true; });
    return found.findings;
}

/// On a heap block of the exact size; also says that nothing took long.
u64 use_copy(std::span<const std::byte> image, const geometry& g, const test::damage& d) {
    test::aligned_bytes body(image.size());
    std::memcpy(body.bytes().data(), image.data(), image.size());
    const double begin = cpu_seconds();
    const u64 findings = use_everything(body.bytes(), g, detail::fixed_node<u64, wide_value>{});
    EXPECT_LT(cpu_seconds() - begin, 2.0) << d.text();
    return findings;
}

test::image_part journal_part(const geometry& g) { return {"journal", g.journal_offset, g.journal_bytes()}; }
test::image_part digests_part(const geometry& g) { return {"digests", g.digests_offset, g.regions() * 8}; }
test::image_part lines_part(const geometry& g) { return {"lines", g.lines_offset, g.buckets * 64}; }
test::image_part nodes_part(const geometry& g) { return {"nodes", g.nodes_offset, g.slots() * g.node_bytes}; }

class HashTableHostile : public ::testing::TestWithParam<bool> {};

TEST_P(HashTableHostile, EveryBitOfJournalDigestsAndLinesMayFlip) {
    const geometry g = small_geometry();
    const auto image = sound_image(GetParam());
    ASSERT_EQ(use_copy(image, g, {"none", "", 0, 0}), 0U);
    for (const auto& part : {journal_part(g), digests_part(g), lines_part(g)})
        test::for_each_bit_flip(image, part,
                                [&](const test::damage& d, std::span<std::byte> hurt) { (void)use_copy(hurt, g, d); });
}

TEST_P(HashTableHostile, EveryWordOfJournalDigestsAndLinesMayBeAnything) {
    const geometry g = small_geometry();
    const auto image = sound_image(GetParam());
    for (const auto& part : {journal_part(g), digests_part(g), lines_part(g)})
        test::for_each_word_damage(image, part, [&](const test::damage& d, std::span<std::byte> hurt) {
            if (!test::sanitized || d.offset % 3 == 0) (void)use_copy(hurt, g, d);
        });
}

TEST_P(HashTableHostile, RandomDamageAndRandomBytes) {
    test::seeded_random random;
    const geometry g = small_geometry();
    const auto image = sound_image(GetParam());
    for (const auto& part : {nodes_part(g), test::image_part{"all", 0, image.size()}})
        test::random_damage(image, part, random, test::scaled(5000),
                            [&](const test::damage& d, std::span<std::byte> hurt) { (void)use_copy(hurt, g, d); });
    std::vector<std::byte> noise(image.size());
    for (u64 round = 0; round < test::scaled(1000); ++round) {
        for (std::byte& b : noise) b = static_cast<std::byte>(random());
        (void)use_copy(noise, g, {"noise", "all", 0, round});
    }
}
INSTANTIATE_TEST_SUITE_P(Journal, HashTableHostile, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "armed" : "quiet"; });

// One key's tag in every place: the longest work a line can make.
TEST(HashTableHostileWork, AllTagsAndKeysAlikeIsStillBounded) {
    const geometry g = small_geometry();
    auto image = sound_image(false);
    const detail::table_view<std::byte, detail::fixed_node<u64, wide_value>> view(image, g, {});
    const u64 key = 3;
    const std::uint16_t tag = view.hash(table_type::as_bytes(key)).tag();
    test::aligned_bytes body(image.size());
    std::memcpy(body.bytes().data(), image.data(), image.size());
    const detail::table_view<std::byte, detail::fixed_node<u64, wide_value>> hurt(body.bytes(), g, {});
    for (u64 bucket = 0; bucket < g.buckets; ++bucket) {
        std::memset(hurt.line(bucket) + 4, 0xff, 8);
        for (unsigned place = 0; place < 26; ++place) {
            detail::set_tag(hurt.line(bucket), place, tag);
            std::memcpy(hurt.node_at(bucket, place), &key, 8);
        }
    }
    EXPECT_GT(use_copy(body.bytes(), g, {"alike", "lines", 0, 0}), 0U);
}

// What a single flipped bit may not do is go unnoticed, where the byte means anything.
TEST(HashTableHostileCheck, FindsEveryFlipInTagsNodesDigestsSizeAndVersionParity) {
    const geometry g = small_geometry();
    const auto image = sound_image(false);
    const detail::table_view<const std::byte, detail::fixed_node<u64, wide_value>> sound(image, g, {});
    const auto expect_found = [&](const test::damage& d, std::span<std::byte> hurt) {
        const detail::table_view<const std::byte, detail::fixed_node<u64, wide_value>> view(hurt, g, {});
        EXPECT_NE(table_type::damage_of(view), "") << d.text();
    };
    test::for_each_bit_flip(image, {"size", g.journal_offset + 16, 8}, expect_found);
    test::for_each_bit_flip(image, digests_part(g), expect_found);
    for (u64 bucket = 0; bucket < g.buckets; ++bucket) {
        const std::size_t line = g.lines_offset + bucket * 64;
        test::for_each_bit_flip(image, {"tags", line + 12, 52}, expect_found);
        test::for_each_bit_flip(image, {"version", line, 1}, [&](const test::damage& d, std::span<std::byte> hurt) {
            if (d.value == 0) expect_found(d, hurt);
        });
        test::for_each_bit_flip(
            image, {"counters", line + 4, 8}, [&](const test::damage& d, std::span<std::byte> hurt) {
                // One too high costs a probe and is no damage.
                const unsigned group = static_cast<unsigned>((d.offset - line - 4) * 2 + d.value / 4);
                const std::byte* before = sound.line(bucket);
                if (detail::counter_of(hurt.data() + line, group) < detail::counter_of(before, group))
                    expect_found(d, hurt);
            });
        for (unsigned place = 0; place < 26; ++place)
            if (detail::tag_at(sound.line(bucket), place) != 0)
                test::for_each_bit_flip(
                    image, {"node", g.nodes_offset + (bucket * 26 + place) * g.node_bytes, g.node_bytes}, expect_found);
    }
}

// An odd version that no journal explains: reads of that bucket find nothing and say why, others go on.
TEST(HashTableHostileFault, UnexplainedOddVersionIsLatchedByReadersAndRefusedByTheWriter) {
    table_type table(small_geometry());
    for (u64 key = 0; key < 20; ++key) ASSERT_EQ(table.try_insert(key, {{key, key, key}}), status::inserted);
    const u64 slot = table.writer().finder().find(table.as_bytes(u64{5}), nullptr);
    std::byte* line = table.view().line(slot / 26);
    detail::store_release<std::uint32_t>(line, detail::load_relaxed<std::uint32_t>(line) + 1);
    const auto reader = table.reader();
    wide_value value{};
    EXPECT_EQ(reader.find(table.as_bytes(u64{5}), reinterpret_cast<std::byte*>(&value)), detail::no_slot);
    EXPECT_EQ(reader.fault(), errc::corrupt);
    EXPECT_EQ(table.update(5, value), status::corrupt);
    EXPECT_EQ(table.writer().finder().fault(), errc::corrupt);
    u64 found = 0;
    for (u64 key = 0; key < 20; ++key) found += table.find(key, value) ? 1 : 0;
    EXPECT_GT(found, 0U) << "the other buckets are sound";
    EXPECT_LT(found, 20U);
}

// What modify() and the dynamic table's say of a bucket that cannot be read does not depend on what was met before.
TEST(HashTableHostileFault, ModifyTellsDamageFromAMissAlsoBehindAnEarlierFault) {
    const auto change_nothing = [](wide_value&) { FAIL(); };
    const auto break_bucket_of = [](const holdfast::segment& s, const geometry& g, u64 slot) {
        auto* const line = const_cast<std::byte*>(s.bytes().data()) + g.lines_offset + 64 * (slot / 26);
        detail::store_release<std::uint32_t>(line, detail::load_relaxed<std::uint32_t>(line) + 1);
    };
    auto table = hash_table<u64, wide_value>::create("heap:", {.capacity = 70});
    for (u64 key = 0; key < 20; ++key) ASSERT_TRUE(table.try_insert(key, {{key, key, key}}));
    break_bucket_of(table.segment(), table.geometry(), static_cast<u64>(*table.slot_of(5)));
    for (int again = 0; again < 2; ++again) {
        EXPECT_EQ(table.modify(5, change_nothing), status::corrupt) << again;
        EXPECT_EQ(table.fault(), errc::corrupt);
        EXPECT_EQ(table.modify(1000, change_nothing), status::not_found) << again;
    }

    auto dynamic =
        dynamic_hash_table::create("heap:", detail::schema_of_types<u64, wide_value>("key", "value"), {.capacity = 70});
    const auto raw = [](const auto& value) { return std::as_bytes(std::span(&value, 1)); };
    const u64 five = 5, absent = 1000;
    wide_value value{{1, 2, 3}};
    const hash_table_result there = dynamic.try_insert(raw(five), raw(value));
    ASSERT_TRUE(there);
    break_bucket_of(dynamic.segment(), dynamic.geometry(), static_cast<u64>(*there.slot));
    const auto room = std::as_writable_bytes(std::span(&value, 1));
    for (int again = 0; again < 2; ++again) {
        EXPECT_EQ(dynamic.modify(raw(five), room, [] { return true; }), status::corrupt) << again;
        EXPECT_EQ(dynamic.modify(raw(absent), room, [] { return true; }), status::not_found) << again;
    }
}

TEST(HashTableHostileFault, JournalOfNonsenseIsRejectedAndChangesNothing) {
    for (u64 slot : {u64{0}, u64{77}, u64{78}, ~u64{0}, u64{1} << 63}) {
        table_type table(small_geometry());
        for (u64 key = 0; key < 20; ++key) ASSERT_EQ(table.try_insert(key, {{key, key, key}}), status::inserted);
        std::byte* journal = table.view().journal;
        detail::store_release<u64>(journal + layout::journal_slot_offset, slot);
        detail::store_release<u64>(journal + layout::journal_image_offset, 987654321);  // nobody's key
        detail::store_release<u64>(journal, 1);
        table_type next(table.bytes(), table.geometry());
        EXPECT_TRUE(next.recovery().journal_rejected);
        EXPECT_FALSE(next.recovery().update_replayed);
        EXPECT_EQ(next.damage(), "");
        for (u64 key = 0; key < 20; ++key) {
            wide_value value{};
            ASSERT_TRUE(next.find(key, value));
            EXPECT_EQ(value.words[2], key);
        }
        EXPECT_EQ(next.update(3, {{9, 9, 9}}), status::updated) << "the journal must be usable again";
    }
}

// Every geometry word changed: refused, or used with nothing outside the body, by sizes known at either time.
TEST(HashTableHostileGeometry, ChangedWordIsRefusedOrHarmless) {
    const geometry good = small_geometry();
    const auto image = sound_image(true);
    const auto sound_words = layout::geometry_words_of(good);
    test::aligned_bytes body(image.size());
    u64 accepted = 0, refused = 0;
    const auto attempt = [&](std::size_t word, u64 value) {
        auto words = sound_words;
        words[word] = value;
        geometry g;
        if (layout::read_hash_table_geometry(words, image.size(), g) != nullptr) {
            ++refused;
            return;
        }
        ++accepted;
        std::memcpy(body.bytes().data(), image.data(), image.size());
        (void)use_everything(
            body.bytes(), g,
            detail::runtime_node{static_cast<std::size_t>(g.key_bytes), static_cast<std::size_t>(g.value_bytes)});
        if (g.key_bytes != 8 || g.value_bytes < sizeof(wide_value)) return;
        std::memcpy(body.bytes().data(), image.data(), image.size());
        (void)use_everything(body.bytes(), g, detail::fixed_node<u64, wide_value>{});
    };
    for (std::size_t word = 0; word < sound_words.size(); ++word) {
        for (unsigned bit = 0; bit < 64; ++bit) attempt(word, sound_words[word] ^ (u64{1} << bit));
        for (u64 step = 1; step <= 130; ++step) {
            attempt(word, sound_words[word] + step);
            attempt(word, sound_words[word] - step);
        }
        for (u64 value : {u64{0}, u64{1}, ~u64{0}, u64{1} << 63, image.size(), image.size() - 64}) attempt(word, value);
    }
    EXPECT_GT(accepted, 300U);
    EXPECT_GT(refused, 3000U);
}

// A peer with a read-write mapping writes nonsense while we work.
TEST(HashTableHostileLive, ScribblingPeerCrashesNobody) {
    const geometry g = small_geometry();
    const auto image = sound_image(false);
    test::aligned_bytes body(image.size());
    std::memcpy(body.bytes().data(), image.data(), image.size());
    std::atomic<bool> done{false};
    const u64 seed = test::choose_seed();
    std::thread scribbler([&] {
        const std::span<std::byte> bytes = body.bytes();
        for (u64 i = 0; !done.load(std::memory_order_relaxed); ++i) {
            const u64 at = test::random_at(seed, 0, i) % (i % 2 == 0 ? g.nodes_offset / 8 : bytes.size() / 8) * 8;
            const u64 kind = test::random_at(seed, 1, i) % 3;
            const u64 word = kind == 0 ? 0 : kind == 1 ? ~u64{0} : test::random_at(seed, 2, i);
            detail::store_release<u64>(bytes.data() + at, word);
        }
    });
    for (u64 round = 0; round < test::scaled(1500); ++round)
        (void)use_everything(body.bytes(), g, detail::fixed_node<u64, wide_value>{});
    done = true;
    scribbler.join();
}

}  // namespace
