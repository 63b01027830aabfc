// SPDX-License-Identifier: Apache-2.0
// The checksum of keys and values: whatever bit of a live node flips, verify() names exactly the region it lies in,
// whatever way the table came to be as it is; and what the writer does, killed or not, never looks like damage.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "support/hash_table_model.hpp"
#include "support/image_corruption.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/table_answer.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;
using status = holdfast::test::table_answer;

/// What verify() finds in an image: the number of findings, and the checksum findings alone.
template <class Shape>
struct found_damage {
    hash_table_verification report;
    std::vector<hash_table_finding> checksums;

    found_damage(std::span<const std::byte> body, const layout::hash_table_geometry& g) {
        const holdfast::detail::table_view<const std::byte, typename shaped_table<Shape>::node> view(body, g, {});
        report = holdfast::detail::verify(view, [&](const hash_table_finding& f) {
            if (f.what == hash_table_damage::checksum) checksums.push_back(f);
            return true;
        });
    }
};

/// Flips every `stride`-th bit of every live node, and wants exactly one region named: the right one, in full.
template <class Shape>
void expect_every_flip_found(const shaped_table<Shape>& table, std::size_t stride) {
    const auto& g = table.geometry();
    const std::vector<std::byte> image(table.bytes().begin(), table.bytes().end());
    ASSERT_TRUE(found_damage<Shape>(image, g).report.intact());
    shared_image work(image.size());
    work.assign(image);
    std::uint64_t flips = 0;
    for (u64 slot = 0; slot < g.slots(); ++slot) {
        const u64 bucket = slot / layout::tags_per_line;
        if (!holdfast::detail::is_key_tag(holdfast::detail::tag_at(
                table.view().line(bucket), static_cast<unsigned>(slot % layout::tags_per_line))))
            continue;
        const std::size_t at = g.nodes_offset + slot * g.node_bytes;
        for (std::size_t bit = slot % stride; bit < g.node_bytes * 8; bit += stride) {
            const auto mask = static_cast<std::byte>(1U << (bit % 8));
            work.bytes()[at + bit / 8] ^= mask;
            const found_damage<Shape> found(work.bytes(), g);
            work.bytes()[at + bit / 8] ^= mask;
            ++flips;
            ASSERT_EQ(found.checksums.size(), 1U) << "slot " << slot << ", bit " << bit;
            const hash_table_finding& f = found.checksums[0];
            EXPECT_EQ(f.slot, slot / 416 * 416);
            EXPECT_EQ(f.bucket, slot / 416 * 16);
            EXPECT_EQ(f.slots, std::min<u64>(416, g.slots() - f.slot));
            EXPECT_EQ(found.report.busy, 0U);
            // A value has no other mark than the checksum.
            if (bit / 8 >= g.value_offset) {
                EXPECT_EQ(found.report.findings, 1U) << "slot " << slot << ", bit " << bit;
            }
        }
    }
    EXPECT_GT(flips, 0U);
}

template <class Shape>
class HashTableDigest : public ::testing::Test {
 protected:
    static constexpr std::uint64_t capacity = 500;  // two regions, the second one cut short
    [[nodiscard]] static layout::hash_table_geometry geometry() {
        return geometry_for<typename Shape::key, typename Shape::value>(capacity, 11);
    }
    static void fill(shaped_table<Shape>& table, u64 from, u64 to, u64 stamp) {
        for (u64 n = from; n < to; ++n)
            ASSERT_EQ((apply<Shape>(table, table_operation::try_insert, n, stamp)), status::inserted);
    }
};
using shapes = ::testing::Types<narrow_shape, wide_shape, crooked_shape>;
TYPED_TEST_SUITE(HashTableDigest, shapes);

TYPED_TEST(HashTableDigest, EveryFlippedBitOfASmallTableNamesItsRegion) {
    shaped_table<TypeParam> table(geometry_for<typename TypeParam::key, typename TypeParam::value>(40, 3));
    this->fill(table, 0, 40, 1);
    expect_every_flip_found<TypeParam>(table, sanitized ? 5 : 1);
}

TYPED_TEST(HashTableDigest, TheRightOneOfSeveralRegionsIsNamed) {
    shaped_table<TypeParam> table(this->geometry());
    ASSERT_EQ(table.geometry().regions(), 2U);
    this->fill(table, 0, 480, 1);
    expect_every_flip_found<TypeParam>(table, sanitized ? 397 : 97);
}

TYPED_TEST(HashTableDigest, AfterEveryKindOfOperationAndTheNextWriter) {
    shaped_table<TypeParam> table(this->geometry());
    this->fill(table, 0, 400, 1);
    for (u64 n = 0; n < 400; n += 3) ASSERT_EQ((apply<TypeParam>(table, table_operation::erase, n, 0)), status::erased);
    this->fill(table, 600, 700, 2);
    for (u64 n = 1; n < 400; n += 3)
        ASSERT_EQ((apply<TypeParam>(table, table_operation::update, n, 3)), status::updated);
    for (u64 n = 2; n < 400; n += 3)
        ASSERT_EQ((apply<TypeParam>(table, table_operation::insert_or_assign, n, 4)), status::updated);
    ASSERT_EQ(table.damage(), "");
    expect_every_flip_found<TypeParam>(table, 211);
    shaped_table<TypeParam> next(table.bytes(), table.geometry());
    EXPECT_FALSE(next.recovery().operation_settled);
    ASSERT_EQ((apply<TypeParam>(next, table_operation::update, 1, 5)), status::updated);
    expect_every_flip_found<TypeParam>(next, 211);
}

TYPED_TEST(HashTableDigest, AnEmptiedTableHasTheDigestsOfANewOne) {
    shaped_table<TypeParam> table(this->geometry());
    this->fill(table, 0, 450, 1);
    for (u64 n = 0; n < 450; ++n) {
        ASSERT_EQ((apply<TypeParam>(table, table_operation::update, n, 2)), status::updated);
        ASSERT_EQ((apply<TypeParam>(table, table_operation::erase, n, 0)), status::erased);
    }
    for (u64 region = 0; region < table.geometry().regions(); ++region)
        EXPECT_EQ(holdfast::detail::load_relaxed<u64>(table.view().digests + region * 8), 0U);
}

TYPED_TEST(HashTableDigest, BytesOfFreeSlotsMeanNothing) {
    shaped_table<TypeParam> table(this->geometry());
    this->fill(table, 0, 100, 1);
    const auto& g = table.geometry();
    for (u64 slot = 0; slot < g.slots(); ++slot) {
        const u64 bucket = slot / 26;
        const auto place = static_cast<unsigned>(slot % 26);
        if (holdfast::detail::tag_at(table.view().line(bucket), place) != 0) continue;
        std::memset(table.view().node_at(bucket, place), 0xa5, g.node_bytes);
    }
    EXPECT_EQ(table.damage(), "");
    this->fill(table, 100, 400, 1);
    EXPECT_EQ(table.damage(), "");
}

// Larger damage than a bit: a copy of another entry's bytes, a cleared range, two words exchanged.
TYPED_TEST(HashTableDigest, ForeignBytesClearedRangesAndExchangedWordsAreFound) {
    shaped_table<TypeParam> table(geometry_for<typename TypeParam::key, typename TypeParam::value>(78, 3));
    while (apply<TypeParam>(table, table_operation::try_insert, table.writer().size(), 1) == status::inserted) {
    }
    const auto& g = table.geometry();
    ASSERT_EQ(table.writer().size(), g.slots());
    const std::vector<std::byte> image(table.bytes().begin(), table.bytes().end());
    const auto expect_found = [&](const damage& d, std::span<std::byte> hurt) {
        EXPECT_EQ(found_damage<TypeParam>(hurt, g).checksums.size(), 1U) << d.text();
    };
    const image_part nodes{"nodes", g.nodes_offset, g.slots() * g.node_bytes};
    for_each_swap(image, nodes, 8, expect_found);
    seeded_random random;
    rig::damage_bench bench(image);
    for (u64 round = 0; round < scaled(500); ++round) {
        const auto hurt = bench.fresh();
        const std::size_t from = g.nodes_offset + random.below(g.slots() - 4) * g.node_bytes;
        std::memset(hurt.data() + from, 0, 1 + random.below(4 * g.node_bytes - 1));
        if (std::memcmp(hurt.data(), image.data(), image.size()) != 0)  // else they were zero before
            expect_found({"cleared", "nodes", from, round}, hurt);
        const auto copied = bench.fresh();
        const u64 a = random.below(g.slots()), b = (a + 1 + random.below(g.slots() - 1)) % g.slots();
        std::memcpy(copied.data() + g.nodes_offset + a * g.node_bytes, image.data() + g.nodes_offset + b * g.node_bytes,
                    g.node_bytes);
        expect_found({"copied", "nodes", a, b}, copied);
    }
}

// An update killed half way is no damage, but the value that its journal carries is checked, and never signed as sound.
TEST(HashTableDigestJournal, ADamagedValueInTheArmedJournalIsFoundBeforeAndAfterItsReplay) {
    const auto g = geometry_for<wide_shape::key, wide_shape::value>(40, 3);
    shaped_table<wide_shape> table(g);
    for (u64 n = 0; n < 40; ++n)
        ASSERT_EQ((apply<wide_shape>(table, table_operation::try_insert, n, 1)), status::inserted);
    table.arm_update(nth_key<wide_shape>(7), stamped_value<wide_shape>(7, 2));
    hash_table_verification report;
    ASSERT_EQ(table.damage(&report), "");
    EXPECT_TRUE(report.update_armed);
    const std::vector<std::byte> image(table.bytes().begin(), table.bytes().end());
    const std::size_t value = g.journal_offset + layout::journal_image_offset + g.value_offset;
    for_each_bit_flip(image, {"journal's value", value, g.value_bytes},
                      [&](const damage& d, std::span<std::byte> hurt) {
                          const auto named = [&] {
                              return shaped_table<wide_shape>::damage_of({std::span<const std::byte>(hurt), g, {}});
                          };
                          EXPECT_NE(named().find("the value in the journal"), std::string::npos) << d.text();
                          shaped_table<wide_shape> next(hurt, g);
                          EXPECT_TRUE(next.recovery().update_replayed);
                          EXPECT_NE(named().find("does not match the keys and values"), std::string::npos) << d.text();
                      });
    shaped_table<wide_shape> next(table.bytes(), g);
    EXPECT_EQ(next.damage(), "");
    wide_shape::value seen{};
    ASSERT_TRUE(next.find(nth_key<wide_shape>(7), seen));
    EXPECT_EQ(stamp_of<wide_shape>(7, seen), 2U);
}

// Attacks the sequence word alone: what lies in the journal is the value of some earlier update.
TEST(HashTableDigestJournal, AJournalArmedByDamageIsFoundAndNotReplayed) {
    const auto g = geometry_for<wide_shape::key, wide_shape::value>(40, 3);
    shaped_table<wide_shape> table(g);
    ASSERT_EQ((apply<wide_shape>(table, table_operation::try_insert, 1, 1)), status::inserted);
    ASSERT_EQ((apply<wide_shape>(table, table_operation::update, 1, 2)), status::updated);
    ASSERT_EQ((apply<wide_shape>(table, table_operation::erase, 1, 0)), status::erased);
    ASSERT_EQ((apply<wide_shape>(table, table_operation::try_insert, 1, 3)), status::inserted);
    table.bytes()[g.journal_offset] ^= std::byte{1};
    EXPECT_NE(table.damage(), "");
    shaped_table<wide_shape> next(table.bytes(), g);
    EXPECT_TRUE(next.recovery().journal_rejected);
    wide_shape::value seen{};
    ASSERT_TRUE(next.find(nth_key<wide_shape>(1), seen));
    EXPECT_EQ(stamp_of<wide_shape>(1, seen), 3U);
    EXPECT_EQ(next.damage(), "");
}

// The open slot is excused, its neighbours in the region are not.
TEST(HashTableDigestJournal, DamageBesideAnOpenOperationIsFoundBeforeAndAfterRecovery) {
    const auto g = geometry_for<wide_shape::key, wide_shape::value>(40, 3);
    shaped_table<wide_shape> table(g);
    for (u64 n = 0; n < 40; ++n)
        ASSERT_EQ((apply<wide_shape>(table, table_operation::try_insert, n, 1)), status::inserted);
    const auto other = nth_key<wide_shape>(8);
    const u64 slot = table.reader().find(table.as_bytes(other), nullptr);
    table.arm_update(nth_key<wide_shape>(7), stamped_value<wide_shape>(7, 2));
    table.bytes()[g.nodes_offset + slot * g.node_bytes + g.value_offset + 3] ^= std::byte{16};
    EXPECT_EQ(found_damage<wide_shape>(table.bytes(), g).checksums.size(), 1U);
    shaped_table<wide_shape> next(table.bytes(), g);
    EXPECT_EQ(found_damage<wide_shape>(next.bytes(), g).checksums.size(), 1U);
}

/// A table whose writer was killed in an operation, right before its commit or right after it.
template <class Shape>
struct killed_table {
    layout::hash_table_geometry geometry = geometry_for<typename Shape::key, typename Shape::value>(40, 3);
    shared_image image{geometry.body_bytes()};
    u64 slot = 0;

    killed_table(table_operation what, bool committed) {
        const bool insert = what == table_operation::try_insert;
        shaped_table<Shape> table(geometry);
        for (u64 n = 0; n < 30; ++n)
            EXPECT_EQ((apply<Shape>(table, table_operation::try_insert, n, 1)), status::inserted);
        const u64 key = insert ? 30 : 7;
        const std::vector<std::byte> before(table.bytes().begin(), table.bytes().end());
        if (!insert) slot = find(table, key);
        const std::byte* const node = node_of(table);
        const u64 kept = what == table_operation::update ? holdfast::detail::digest_value(table.view(), node, node) : 0;
        (void)apply<Shape>(table, what, key, 2);
        if (insert) slot = find(table, key);
        const u64 digest_before = word(before, geometry.digests_offset),
                  digest_after = word(table.bytes(), geometry.digests_offset);
        using intent = holdfast::detail::hash_table_intent;
        const auto op = insert ? intent::insert : what == table_operation::erase ? intent::erase : intent::update;
        image.assign(committed ? table.bytes() : std::span<const std::byte>(before));
        put(geometry.digests_offset, digest_before);
        put(geometry.journal_offset + layout::journal_size_offset, 30);
        put(geometry.journal_offset + layout::journal_intent_offset, intent{}.next(op, slot, 30).word);
        put(geometry.journal_offset + layout::journal_base_offset,
            op == intent::erase ? digest_after : digest_before - kept);
        put(geometry.journal_offset + layout::journal_next_offset, digest_after);
    }

    [[nodiscard]] std::size_t value_at(u64 of) const {
        return geometry.nodes_offset + of * geometry.node_bytes + geometry.value_offset;
    }
    [[nodiscard]] bool has_entry() const {
        const std::byte* line = image.bytes().data() + geometry.lines_offset + slot / 26 * layout::line_bytes;
        return holdfast::detail::is_key_tag(holdfast::detail::tag_at(line, static_cast<unsigned>(slot % 26)));
    }
    [[nodiscard]] static u64 find(const shaped_table<Shape>& table, u64 n) {
        const auto key = nth_key<Shape>(n);
        return table.reader().find(table.as_bytes(key), nullptr);
    }

 private:
    [[nodiscard]] const std::byte* node_of(const shaped_table<Shape>& table) const {
        return table.view().node_at(slot / 26, static_cast<unsigned>(slot % 26));
    }
    [[nodiscard]] static u64 word(std::span<const std::byte> bytes, std::size_t at) {
        u64 x = 0;
        std::memcpy(&x, bytes.data() + at, 8);
        return x;
    }
    void put(std::size_t at, u64 x) { std::memcpy(image.bytes().data() + at, &x, 8); }
};

template <class Shape>
void expect_damage_beside_a_kill_is_found(table_operation what, bool committed) {
    SCOPED_TRACE(std::string(committed ? "after" : "before") + " the commit of operation " +
                 std::to_string(static_cast<int>(what)));
    const auto checksums = [](killed_table<Shape>& k) {
        return found_damage<Shape>(k.image.bytes(), k.geometry).checksums.size();
    };
    {
        killed_table<Shape> sound(what, committed);
        const found_damage<Shape> found(sound.image.bytes(), sound.geometry);
        EXPECT_TRUE(found.report.intact());
        EXPECT_TRUE(found.report.operation_open);
        shaped_table<Shape> next(sound.image.bytes(), sound.geometry);
        EXPECT_TRUE(next.recovery().operation_settled);
        EXPECT_EQ(next.damage(), "");
    }
    killed_table<Shape> beside(what, committed);
    const u64 other = killed_table<Shape>::find(shaped_table<Shape>(beside.image.bytes(), beside.geometry), 8);
    killed_table<Shape> fresh(what, committed);  // not yet recovered
    fresh.image.bytes()[fresh.value_at(other)] ^= std::byte{16};
    EXPECT_EQ(checksums(fresh), 1U);
    shaped_table<Shape> next(fresh.image.bytes(), fresh.geometry);
    EXPECT_EQ(checksums(fresh), 1U);

    killed_table<Shape> itself(what, committed);
    if (!itself.has_entry()) return;
    itself.image.bytes()[itself.value_at(itself.slot)] ^= std::byte{16};
    shaped_table<Shape> after(itself.image.bytes(), itself.geometry);
    EXPECT_EQ(checksums(itself), 1U) << "recovery covered it up";
}

// The open slot is excused until the next writer comes; its neighbours are not, nor is it itself afterwards.
TEST(HashTableDigestKilled, DamageBesideAnOpenOperationIsFoundAndNeverCoveredUp) {
    for (const bool committed : {false, true}) {
        for (const auto what : {table_operation::try_insert, table_operation::erase, table_operation::update})
            expect_damage_beside_a_kill_is_found<narrow_shape>(what, committed);
        for (const auto what : {table_operation::try_insert, table_operation::erase})
            expect_damage_beside_a_kill_is_found<wide_shape>(what, committed);
    }
}

// A kill between U1 and U3 leaves some words of the value replaced. If the journal is hurt then, so is the value: and
// recovery must not make a new checksum of the mixture.
TEST(HashTableDigestKilled, AHalfWrittenValueWhoseJournalWasDisarmedIsDamage) {
    const auto g = geometry_for<wide_shape::key, wide_shape::value>(40, 3);
    shaped_table<wide_shape> table(g);
    for (u64 n = 0; n < 30; ++n)
        ASSERT_EQ((apply<wide_shape>(table, table_operation::try_insert, n, 1)), status::inserted);
    const u64 slot = killed_table<wide_shape>::find(table, 7);
    table.arm_update(nth_key<wide_shape>(7), stamped_value<wide_shape>(7, 2));
    const std::size_t value = g.nodes_offset + slot * g.node_bytes + g.value_offset;
    const std::size_t image = g.journal_offset + layout::journal_image_offset;
    std::memcpy(table.bytes().data() + value + 8, table.bytes().data() + image + g.value_offset + 8,
                8);                        // one word of U2
    table.bytes()[image] ^= std::byte{1};  // the journal's key: recovery rejects it
    shaped_table<wide_shape> next(table.bytes(), g);
    EXPECT_TRUE(next.recovery().journal_rejected);
    EXPECT_FALSE(next.recovery().update_replayed);
    EXPECT_EQ(found_damage<wide_shape>(next.bytes(), g).checksums.size(), 1U);
}

// A table larger than what is counted at a time gives the same answers.
TEST(HashTableVerifyStrips, GiveTheSameAnswersAsAWhole) {
    hash_table_image<u64, u64> table(geometry_for<u64, u64>(capacity_for_slots(3000)));
    for (u64 key = 0; table.try_insert(key, key) == status::inserted; ++key) {
    }
    const auto& g = table.geometry();
    ASSERT_EQ(table.damage(), "");
    u64 lowered = 0;
    for (u64 bucket = 0; bucket < g.buckets; bucket += 7)
        for (unsigned group = 0; group < 16; ++group)
            if (const auto n = holdfast::detail::counter_of(table.view().line(bucket), group); n != 0) {
                holdfast::detail::set_counter(table.view().line(bucket), group, static_cast<std::uint8_t>(n - 1));
                ++lowered;
            }
    ASSERT_GT(lowered, 0U);
    std::vector<std::string> texts;
    for (const u64 strip : {u64{1}, u64{10}, g.buckets - 1, g.buckets, g.buckets + 1}) {
        std::string text;
        const auto report = holdfast::detail::verify(
            table.view().as_const(),
            [&](const hash_table_finding& f) {
                text += std::string(describe(f.what)) + std::to_string(f.slot) + ' ';
                return true;
            },
            strip);
        EXPECT_EQ(report.entries, table.writer().size());
        texts.push_back(text);
    }
    for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
    EXPECT_NE(texts[0], "");
    EXPECT_EQ(holdfast::detail::recount(table.view(), 10), lowered);
    EXPECT_EQ(table.damage(), "");
}

class HashTableDigestSegment : public segment_test {};

// The whole way: typed and dynamic writers, their successors, and a copy of the file.
TEST_F(HashTableDigestSegment, DynamicWritersSuccessorsAndCopiesOfTheFileKeepIt) {
    const unique_directory folder("digest");
    const std::string uri = folder.file_uri("t");
    const auto intact = [](const std::string& of) {
        return dynamic_hash_table_reader::attach(of).verify([](const hash_table_finding&) { return true; }).intact();
    };
    {
        auto table = hash_table<u64, wide_shape::value>::create(uri, {.capacity = 500});
        for (u64 n = 0; n < 400; ++n) ASSERT_TRUE(table.try_insert(n, stamped_value<wide_shape>(n, 1)));
        ASSERT_EQ(table.modify(5, [](auto& v) { v[6] = 0; }), status::updated);
    }
    {
        auto table = dynamic_hash_table::attach(uri);
        for (u64 n = 0; n < 100; ++n) {
            const auto value = stamped_value<wide_shape>(n, 2);
            ASSERT_TRUE(table.update(std::as_bytes(std::span(&n, 1)), std::as_bytes(std::span(&value, 1))));
        }
        for (u64 n = 100; n < 200; ++n) ASSERT_EQ(table.erase(std::as_bytes(std::span(&n, 1))), status::erased);
    }
    EXPECT_TRUE(intact(uri));
    (void)hash_table<u64, wide_shape::value>::attach(uri).recount();
    EXPECT_TRUE(intact(uri));
    const std::string copy = folder.file("copy");
    std::vector<char> bytes;
    {
        std::FILE* const from = std::fopen(folder.file("t").c_str(), "re");
        ASSERT_NE(from, nullptr);
        for (int c = 0; (c = std::fgetc(from)) != EOF;) bytes.push_back(static_cast<char>(c));
        std::fclose(from);
    }
    const auto write = [&] {
        std::FILE* const to = std::fopen(copy.c_str(), "we");
        ASSERT_NE(to, nullptr);
        ASSERT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), to), bytes.size());
        std::fclose(to);
    };
    write();
    EXPECT_TRUE(intact("file:" + copy));
    const auto reader = dynamic_hash_table_reader::attach(uri);
    const u64 key = 7;
    const u64 slot = static_cast<u64>(reader.slot_of(std::as_bytes(std::span(&key, 1))).value());
    const auto& g = reader.geometry();
    bytes[header_bytes + g.nodes_offset + slot * g.node_bytes + g.value_offset + 20] ^= 4;
    write();
    EXPECT_FALSE(intact("file:" + copy));
}

// An earlier layout of the body has no checksums: it is refused, not misread.
TEST_F(HashTableDigestSegment, AnotherLayoutVersionIsRefused) {
    const unique_posix_name name("digest");
    segment_spec spec;
    spec.kind = container_kind::hash_table;
    spec.container_version = layout::hash_table_version - 1;
    spec.schema = holdfast::detail::schema_of_types<u64, u64>("key", "value").text();
    const auto g = geometry_for<u64, u64>(10);
    spec.geometry = layout::geometry_words_of(g);
    spec.body_bytes = g.body_bytes();
    (void)segment::create(name.uri(), spec, {}, [](std::span<std::byte>) {});
    try {
        (void)hash_table_reader<u64, u64>::attach(name.uri());
        FAIL() << "attached";
    } catch (const error& e) {
        EXPECT_EQ(e.reason(), errc::version_mismatch) << e.what();
    }
}

}  // namespace
