// SPDX-License-Identifier: Apache-2.0
// A hash map whose bytes somebody scribbled on, before or meanwhile: nothing crashes, hangs, reads outside or allocates
// by a number it found; what matters is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/image_corruption.hpp"
#include "support/map_bench.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

constexpr std::uint64_t units = 64;

class HashMapHostile : public ::testing::Test {
 protected:
    // Entries of one unit, of several, in several runs; one that was erased, one that was updated, one that expires.
    HashMapHostile() : bench_({.units = units, .capacity = 70, .unit_bytes = 64, .evicting = true}) {
        fake_boot_seconds = 100;
        map_writer writer = bench_.writer();
        for (std::uint64_t i = 0; i < 40; ++i) keep(writer, std::to_string(i), {i, 0});
        for (std::uint64_t i = 0; i < 40; i += 2) {
            EXPECT_TRUE(writer.erase(as_key(std::to_string(i))));
            model_.erase(std::to_string(i));
        }
        keep(writer, std::string(70, 'k'), {100, 700});
        keep(writer, "updated", {101, 30});
        keep(writer, "updated", {102, 31});
        keep(writer, std::string(9, 'n'), {103, 0});
        EXPECT_TRUE(put(writer, "mortal", {104, 5}, {.ttl = std::chrono::seconds(1000)}));
        model_["mortal"] = {104, 5};
        EXPECT_EQ(difference(bench_.reader(), model_), "");
        EXPECT_EQ(damage_of(bench_.view().as_const()), "");
        sound_.assign(bench_.body().begin(), bench_.body().end());
    }

    void keep(map_writer& writer, const std::string& key, map_content what) {
        EXPECT_TRUE(put(writer, key, what));
        model_[key] = what;
    }

    // Everything that any role does with an image. The answers may be anything but impossible.
    void use(std::span<std::byte> image) {
        const writable_map view(image, bench_.geometry());
        const map_reader reader = reader_of(view.as_const());
        std::vector<std::byte> out(image.size());
        bool corrupt = !reader.usage();
        for (const auto& [key, what] : model_) {
            const hash_map_found got = reader.find(as_key(key), std::span(out));
            ASSERT_TRUE(got.status == outcome::ok || got.status == outcome::not_found ||
                        got.status == outcome::corrupt || got.status == outcome::contended)
                << outcome_name(got.status);
            ASSERT_LE(got.count, units * 64);
            corrupt = corrupt || got.status == outcome::corrupt;
            std::uint64_t seen = 0;
            (void)reader.find(as_key(key), [&](std::span<const std::byte> piece, std::uint64_t from, std::uint64_t) {
                if (piece.empty()) return;
                ASSERT_GE(piece.data(), image.data());
                ASSERT_LE(piece.data() + piece.size(), image.data() + image.size());
                if (from == 0) seen = 0;
                EXPECT_EQ(from, seen);
                seen += piece.size();
            });
        }
        hash_map_entry entry;
        std::uint64_t cursor = 0, met = 0;
        for (outcome got = outcome::ok; got != outcome::empty && got != outcome::contended; ++met) {
            got = reader.next_entry(cursor, entry);
            ASSERT_LE(entry.key.size() + entry.value.size(), units * 64);
            corrupt = corrupt || got == outcome::corrupt;
        }
        ASSERT_LE(met, view.table.slots() + 1);
        std::uint64_t found = 0;
        const hash_map_verification report =
            holdfast::detail::verify_map(view.as_const(), [&](const hash_map_finding& f) {
                EXPECT_FALSE(describe(f.what).empty());
                ++found;
                return true;
            });
        ASSERT_EQ(report.findings, found);
        ASSERT_EQ(report.busy, 0U);
        if (corrupt) {
            ASSERT_GT(found, 0U) << "a reader refuses what verify finds sound";
        }
        map_writer writer(view, fake_clock(), nullptr);
        if (writer.recovery().record_rebuilt) {
            ASSERT_GT(found, 0U) << "a writer calls damaged what verify finds sound";
        }
        for (std::uint64_t i = 0; i < 3; ++i) {
            const map_content next{i, static_cast<std::size_t>(i * 90)};
            if (put(writer, "next key", next, {.ttl = std::chrono::seconds(i)})) {
                ASSERT_TRUE(holds(writer.reader(), "next key", next) || i != 0);
                (void)writer.fetch_add<std::uint32_t>(as_key("next key"), i * 40, 1);
                ASSERT_NE(writer.erase(as_key("next key")).status, outcome::stale);
            }
        }
        for (const auto& [key, what] : model_) {
            if (!put(writer, key, {what.seed, what.bytes / 2})) continue;
            // Another set of the same key: nothing is left over by it.
            const std::uint64_t values = writer.reader().blocks().usage().values;
            if (put(writer, key, {what.seed, what.bytes / 2})) {
                ASSERT_LE(writer.reader().blocks().usage().values, values) << key;
            }
        }
        for (const auto& [key, what] : model_)
            if (writer.erase(as_key(key))) {
                std::uint64_t held = 0;
                ASSERT_NE(writer.reader().look_under(holdfast::detail::digest_of(as_key(key), view.seed()), held),
                          outcome::ok)
                    << key;
            }
        (void)put(writer, "large", {7, 2000});
    }

    [[nodiscard]] std::uint64_t findings_in(std::span<const std::byte> image) const {
        std::uint64_t found = 0;
        (void)holdfast::detail::verify_map(readable_map(image, bench_.geometry()),
                                           [&](const hash_map_finding&) { return ++found < 3; });
        return found;
    }
    [[nodiscard]] image_part control(std::size_t offset, std::size_t bytes) const {
        return {"control", static_cast<std::size_t>(bench_.geometry().control_offset()) + offset, bytes};
    }

    map_bench bench_;
    map_model model_;
    std::vector<std::byte> sound_;
};

TEST_F(HashMapHostile, EveryFlippedBitOfWhatCountsIsFound) {
    const map_reader reader = bench_.reader();
    const std::uint64_t operation = bench_.view().look().operation();
    std::vector<image_part> parts{
        control(layout::map_selector_offset, 8),
        control(layout::map_records_offset + operation % 2 * layout::map_record_bytes, layout::map_record_bytes)};
    const auto place = [&](const std::byte* at) { return static_cast<std::size_t>(at - bench_.body().data()); };
    for (const auto& [key, what] : model_) {
        const auto digest = holdfast::detail::digest_of(as_key(key), bench_.view().seed());
        std::uint64_t handle = 0;
        const std::uint64_t slot = reader.table().find(digest.bytes(), reinterpret_cast<std::byte*>(&handle));
        parts.push_back({"node",
                         place(bench_.view().table.node_at(slot / layout::tags_per_line,
                                                           static_cast<unsigned>(slot % layout::tags_per_line))),
                         24});
        bench_.view().store.for_each_run(bench_.view().store.index_of(handle), [&](const auto& run) {
            parts.push_back({"entry", place(run.payload.data()), run.payload.size()});
        });
    }
    std::uint64_t flips = 0;
    for (const image_part& part : parts)
        flips += for_each_bit_flip(sound_, part, [&](const damage& d, std::span<std::byte> image) {
            if (sanitized && d.value % 3 != 0) return;  // a sample
            // Complete or not: with everything done, the table and the store say the same.
            if (part.name == "control" && d.offset == part.offset && part.bytes == 8 && d.value == 0) {
                EXPECT_EQ(findings_in(image), 0U);
            } else {
                EXPECT_GT(findings_in(image), 0U) << d.text();
            }
        });
    EXPECT_GT(flips, 10'000U);
}

TEST_F(HashMapHostile, DamagedWordsAreHarmless) {
    const auto& g = bench_.geometry();
    std::uint64_t shown = 0;
    for (const image_part& part :
         {control(0, 256), image_part{"journal", 0, 128},
          image_part{"lines", static_cast<std::size_t>(g.table.lines_offset), 3 * 64},
          image_part{"words", static_cast<std::size_t>(g.store_offset()) + layout::block_words_offset, units * 8},
          image_part{"units", static_cast<std::size_t>(g.store_offset() + g.store.units_offset()), units * 64}})
        shown += for_each_word_damage(sound_, part, [&](const damage& d, std::span<std::byte> image) {
            if (d.offset % (sanitized ? 72 : 8) >= 8) return;  // a sample
            SCOPED_TRACE(d.text());
            use(image);
        });
    EXPECT_GT(shown, 10'000U);
}

TEST_F(HashMapHostile, RandomDamageAndGarbageAreHarmless) {
    seeded_random random;
    const auto visit = [&](const damage& d, std::span<std::byte> image) {
        SCOPED_TRACE(d.text());
        use(image);
    };
    random_damage(sound_, {"anything", 0, sound_.size()}, random, scaled(2000), visit);
    const auto& g = bench_.geometry();
    random_damage(sound_, {"nodes", static_cast<std::size_t>(g.table.nodes_offset), 78 * 24}, random, scaled(2000),
                  visit);
    std::vector<std::byte> garbage(sound_.size());
    shared_image work(sound_.size());
    for (std::uint64_t round = 0; round < scaled(100); ++round) {
        for (std::size_t at = 0; at < garbage.size(); at += 8) {
            // Some words look like handles, so that garbage gets past the first check.
            std::uint64_t word = random();
            if (round % 2 == 0) word = bench_.view().store.handle(word % units, 1 + random.below(3));
            std::memcpy(garbage.data() + at, &word, 8);
        }
        work.assign(garbage);
        use(work.bytes());
    }
}

// A record that is whole and lies: it cannot take an entry out that a key leads to.
TEST_F(HashMapHostile, AForgedRecordTakesNothingOut) {
    const writable_map view = bench_.view();
    const std::uint64_t victim =
        bench_.reader().handle_under(holdfast::detail::digest_of(as_key("updated"), view.seed()));
    for (const bool add : {false, true}) {
        bench_.image().assign(sound_);
        holdfast::detail::map_counts counts{view.look().operation(), 0};
        holdfast::detail::map_record lie;
        lie.word[holdfast::detail::map_record::kind] = 2;
        lie.word[holdfast::detail::map_record::digest] = 12345;
        lie.word[add ? holdfast::detail::map_record::add : holdfast::detail::map_record::take] = victim;
        holdfast::detail::begin_operation(view, counts, lie);
        map_writer writer = bench_.writer();
        EXPECT_EQ(difference(writer.reader(), model_), "");
        EXPECT_EQ(damage_of(view.as_const()), "");
    }
}

// The table leads to nothing: told as damage, and a set of the key mends it.
TEST_F(HashMapHostile, AKeyWithoutItsEntryIsToldAndCanBeSetAnew) {
    {
        block_writer store(bench_.view().store);
        EXPECT_EQ(store.free(bench_.reader().handle_under(
                      holdfast::detail::digest_of(as_key("updated"), bench_.view().seed()))),
                  outcome::ok);
    }
    std::vector<std::byte> out(100);
    EXPECT_EQ(bench_.reader().find(as_key("updated"), std::span(out)).status, outcome::corrupt);
    EXPECT_NE(damage_of(bench_.view().as_const()).find("not there"), std::string::npos);
    map_writer writer = bench_.writer();
    keep(writer, "updated", {500, 20});
    EXPECT_EQ(difference(bench_.reader(), model_), "");
    EXPECT_EQ(damage_of(bench_.view().as_const()), "");
}

TEST_F(HashMapHostile, ADamagedRecordIsRebuilt) {
    bench_.body()[control(layout::map_records_offset, 0).offset + bench_.view().look().operation() % 2 * 64 + 8] ^=
        std::byte{1};
    EXPECT_NE(damage_of(bench_.view().as_const()), "");
    {
        // An entry without a key beside it goes with the damage.
        block_writer store(bench_.view().store);
        (void)put(store, {1, 10});
    }
    const map_writer writer = bench_.writer();
    EXPECT_TRUE(writer.recovery().record_rebuilt);
    EXPECT_EQ(difference(bench_.reader(), model_), "");
    EXPECT_EQ(damage_of(bench_.view().as_const()), "");
    EXPECT_FALSE(bench_.writer().recovery().record_rebuilt);
}

// A selector that lost or gained a bit: rebuilt once, and then all is sound.
TEST(HashMapSelector, ADamagedOneIsRebuiltOnce) {
    map_bench bench({.units = 100, .capacity = 20});
    map_writer writer = bench.writer();
    for (std::uint64_t i = 0; i < 7; ++i) ASSERT_TRUE(put(writer, "a", {i, 1}));
    const std::vector<std::byte> sound(bench.body().begin(), bench.body().end());
    unsigned rebuilt = 0;
    for (unsigned bit = 0; bit < 64; ++bit) {
        bench.image().assign(sound);
        std::byte* const selector = bench.view().control(layout::map_selector_offset);
        holdfast::detail::store_release<std::uint64_t>(
            selector, holdfast::detail::load_relaxed<std::uint64_t>(selector) ^ std::uint64_t{1} << bit);
        rebuilt += bench.writer().recovery().record_rebuilt ? 1U : 0U;
        EXPECT_EQ(damage_of(bench.view().as_const()), "") << "bit " << bit;
        EXPECT_FALSE(bench.writer().recovery().record_rebuilt) << "bit " << bit;
        EXPECT_EQ(difference(bench.reader(), {{"a", {6, 1}}}), "");
    }
    EXPECT_GE(rebuilt, 62U);
}

// ---- a table that cannot tell, and words that lie

class HashMapLies : public ::testing::Test {
 protected:
    HashMapLies() : bench_({.units = 100, .capacity = 20}) {}

    // A version that no writer is at work on: a miss in such a bucket says nothing.
    void make_odd(std::uint64_t bucket) {
        std::byte* const at = bench_.view().table.line(bucket) + layout::line_version_offset;
        holdfast::detail::store_release<std::uint32_t>(at, holdfast::detail::load_relaxed<std::uint32_t>(at) | 1);
    }
    void lead(std::string_view key, std::uint64_t word) {
        const auto digest = holdfast::detail::digest_of(as_key(key), bench_.view().seed());
        holdfast::detail::hash_table_mutator<holdfast::detail::map_node> table(bench_.view().table);
        (void)table.insert_or_assign(digest.bytes(), reinterpret_cast<const std::byte*>(&word));
    }
    [[nodiscard]] std::uint64_t used() { return bench_.reader().usage().units_used; }
    // An entry at each so-manieth unit, which goes round those behind it and says that all of the store is its own.
    static void forge_entries_as_long_as_the_store(map_bench& bench, std::uint64_t apart) {
        namespace d = holdfast::detail;
        const auto store = bench.view().store;
        for (std::uint64_t unit = 0; unit + apart <= store.units(); unit += apart) {
            d::shared_store<std::uint64_t>(store.unit(unit), store.geometry().value_bytes_max());
            d::shared_store<std::uint64_t>(store.unit(unit) + layout::block_head_run_offset,
                                           layout::block_run_word(1, static_cast<std::uint32_t>(unit + 1)));
            for (std::uint64_t next = unit + 1; next < unit + apart; ++next)
                d::shared_store<std::uint64_t>(
                    store.unit(next),
                    layout::block_run_word(1, static_cast<std::uint32_t>(unit + 1 + next % (apart - 1))));
            d::store_release<std::uint64_t>(store.word_at(unit), store.handle(unit, 5));
        }
    }

    map_bench bench_;
};

// Two keys with one home bucket and one tag: the first one's damaged word, whatever it is, is not the other's.
TEST_F(HashMapLies, ADamagedEntryHidesNoOtherKey) {
    std::map<std::pair<std::uint64_t, std::uint16_t>, std::string> seen;
    std::string first, other;
    for (unsigned i = 0; first.empty(); ++i) {
        ASSERT_LT(i, 100'000U);
        const std::string key = "a long key " + std::to_string(i);
        const auto hash = bench_.view().hash(as_key(key));
        const auto [at, is_new] = seen.try_emplace({hash.home(bench_.view().table.buckets), hash.tag()}, key);
        if (!is_new) first = at->second, other = key;
    }
    map_writer writer = bench_.writer();
    const hash_map_result kept = put(writer, first, {1, 10});
    ASSERT_TRUE(kept);
    const hash_map_result beside = put(writer, other, {2, 10});
    ASSERT_TRUE(beside);
    for (const std::uint64_t word :
         {kept.handle, std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}, beside.handle}) {
        lead(first, word);
        EXPECT_EQ(holds(bench_.reader(), first, {1, 10}), word == kept.handle) << word;
        EXPECT_TRUE(holds(bench_.reader(), other, {2, 10})) << word;
    }
}

TEST_F(HashMapLies, AWriterDoesNotTakeWhatTheTableCannotTellForAbsent) {
    using when = holdfast::detail::map_condition;
    map_writer writer = bench_.writer();
    ASSERT_TRUE(put(writer, "key", {1, 10}));
    const std::uint64_t before = used();
    for (std::uint64_t bucket = 0; bucket < bench_.view().table.buckets; ++bucket) make_odd(bucket);
    for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(put(writer, "key", {2, 10}).status, outcome::corrupt);
    EXPECT_EQ(writer.set(as_key("key"), whole_object(3, 3), {}, {when::absent}).status, outcome::corrupt);
    EXPECT_EQ(writer.set(as_key("key"), whole_object(3, 3), {}, {when::same, 0}).status, outcome::corrupt);
    EXPECT_EQ(writer.erase(as_key("key")).status, outcome::corrupt);
    EXPECT_EQ(writer.fetch_add<std::uint8_t>(as_key("key"), 0, 1).status, outcome::corrupt);
    EXPECT_EQ(used(), before) << "nothing is left over";
    EXPECT_EQ(writer.fault(), errc::corrupt);
}

TEST_F(HashMapLies, DamageInOneBucketIsNotDamageInOthers) {
    map_writer writer = bench_.writer();
    for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(put(writer, map_key(i), {i, 1}));
    make_odd(0);
    unsigned refused = 0;
    for (std::uint64_t i = 0; i < 40; ++i) {
        const outcome got = put(writer, map_key(i % 20), {i, 2}).status;
        ASSERT_TRUE(got == outcome::ok || got == outcome::corrupt);
        refused += got == outcome::corrupt ? 1U : 0U;
    }
    EXPECT_GT(refused, 0U);
    EXPECT_LT(refused, 40U) << "keys of whole buckets go on";
    EXPECT_EQ(bench_.reader().blocks().usage().values, 20U);
}

TEST_F(HashMapLies, ARebuildFreesNothingThatTheTableCannotTellOf) {
    map_writer writer = bench_.writer();
    for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(put(writer, map_key(i), {i, 10}));
    const std::uint64_t before = used();
    make_odd(0);
    bench_.view().record_at(bench_.view().look().operation())[8] ^= std::byte{1};
    EXPECT_TRUE(bench_.writer().recovery().record_rebuilt);
    EXPECT_EQ(used(), before);
}

TEST_F(HashMapLies, AShortKeysWordTakesNoOtherKeysEntryOut) {
    for (const bool erases : {true, false}) {
        map_writer writer = bench_.writer();
        ASSERT_TRUE(put(writer, "a", {1, 10}));
        const hash_map_result other = put(writer, "b", {2, 10});
        lead("a", other.handle);
        writer = bench_.writer();
        if (erases) {
            EXPECT_TRUE(writer.erase(as_key("a")));
            EXPECT_FALSE(is_there(bench_.reader(), "a"));
        } else {
            EXPECT_TRUE(put(writer, "a", {3, 10}));
            EXPECT_TRUE(holds(bench_.reader(), "a", {3, 10}));
        }
        EXPECT_TRUE(holds(bench_.reader(), "b", {2, 10}));
        EXPECT_FALSE(bench_.writer().recovery().record_rebuilt);
        EXPECT_TRUE(holds(bench_.reader(), "b", {2, 10}));
    }
}

// Who copies an entry copies the key's own: what a short key is led to by damage is another's, or nothing.
TEST_F(HashMapLies, AShortKeysWordGivesItNoCopyOfAnotherKeysEntry) {
    map_writer writer = bench_.writer();
    ASSERT_TRUE(put(writer, "a", {1, 10}));
    const hash_map_result other = put(writer, "b", {2, 10});
    for (const std::uint64_t word : {other.handle, bench_.view().store.handle(99, 77)}) {
        lead("a", word);
        writer = bench_.writer();
        const std::uint64_t before = used();
        EXPECT_EQ(writer.fetch_add<std::uint8_t>(as_key("a"), 0, 1).status, outcome::corrupt);
        EXPECT_EQ(writer.touch(as_key("a"), std::chrono::seconds(0)).status, outcome::corrupt);
        EXPECT_EQ(writer.fault(), errc::corrupt);
        EXPECT_EQ(used(), before) << "nothing is left over";
        EXPECT_EQ(bench_.reader().handle_under(holdfast::detail::digest_of(as_key("a"), bench_.view().seed())), word);
        EXPECT_TRUE(holds(bench_.reader(), "b", {2, 10}));
    }
}

// A size that lies makes nobody evict more than one entry for one that comes.
TEST_F(HashMapLies, ATableThatCallsItselfFullLosesOneEntryForEach) {
    map_bench bench({.units = 100, .capacity = 20, .evicting = true});
    {
        map_writer writer = bench.writer();
        for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(put(writer, map_key(i), {i, 1}));
    }
    holdfast::detail::store_release<std::uint64_t>(bench.view().table.journal + layout::journal_size_offset,
                                                   ~std::uint64_t{0});
    map_writer writer = bench.writer();
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(put(writer, map_key(50 + i), {i, 1}));
    EXPECT_EQ(bench.reader().usage().evicted, 3U);
    EXPECT_EQ(bench.reader().blocks().usage().values, 10U);
    EXPECT_NE(damage_of(bench.view().as_const()).find("size"), std::string::npos);
}

// The units of a value that went hold another's bytes, which are no size: what is not there costs nothing.
TEST_F(HashMapLies, WhatHasGoneIsNotChargedForWhatLiesInItsPlace) {
    map_writer writer = bench_.writer();
    const hash_map_result gone = put(writer, "a", {1, 10});
    ASSERT_TRUE(writer.erase(as_key("a")));
    const std::uint64_t unit = bench_.view().store.index_of(gone.handle);
    holdfast::detail::shared_store<std::uint64_t>(bench_.view().store.unit(unit), ~std::uint64_t{0});
    holdfast::detail::block_reading_budget budget(bench_.reader().blocks().bytes());
    for (unsigned i = 0; i < 10; ++i) EXPECT_TRUE(budget.spend(gone.handle)) << i;
    const hash_map_result there = put(writer, "b", {1, 6000});
    ASSERT_TRUE(there);
    EXPECT_TRUE(budget.spend(there.handle));
    EXPECT_TRUE(budget.spend(there.handle));
    EXPECT_FALSE(budget.spend(there.handle)) << "what stands is bounded";
}

TEST_F(HashMapLies, AWordThatIsNoHandleIsMendedByASet) {
    map_writer writer = bench_.writer();
    for (const std::uint64_t word : {std::uint64_t{12345}, ~std::uint64_t{0}, bench_.view().store.handle(99, 77)}) {
        lead("a", word);
        writer = bench_.writer();
        EXPECT_TRUE(put(writer, "a", {2, 10}));
        EXPECT_TRUE(holds(bench_.reader(), "a", {2, 10}));
        EXPECT_EQ(damage_of(bench_.view().as_const()), "");
        EXPECT_FALSE(bench_.writer().recovery().record_rebuilt);
        EXPECT_TRUE(writer.erase(as_key("a")));
    }
}

// Any number of slots that name one entry with a key as large as the store; then as many entries, each of which says
// that all of the store is its own. Read anew for each, that took the square of the size: ten seconds here.
TEST_F(HashMapLies, AnyBytesAreCheckedInTimeByTheSizeOfTheMap) {
    constexpr std::uint64_t slots = 4000, many = 16 * slots;
    map_bench bench({.units = many, .capacity = slots, .unit_bytes = 64});
    map_writer writer = bench.writer();
    const std::string key(many * 64 - 200, 'k');
    const hash_map_result kept = writer.set(as_key(key), {});
    ASSERT_TRUE(kept);
    holdfast::detail::hash_table_mutator<holdfast::detail::map_node> table(bench.view().table);
    for (std::uint64_t i = 0; i < slots - 2; ++i) {
        const auto digest =
            holdfast::detail::digest_of(as_key("another key " + std::to_string(i)), bench.view().seed());
        (void)table.insert_or_assign(digest.bytes(), reinterpret_cast<const std::byte*>(&kept.handle));
    }
    const auto seconds_of = [](auto&& work) {
        const auto begin = std::chrono::steady_clock::now();
        work();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    hash_map_verification report;
    EXPECT_LT(seconds_of([&] { EXPECT_NE(damage_of(bench.view().as_const(), &report), ""); }), 3.0);
    EXPECT_EQ(report.table.entries, slots - 1);
    EXPECT_LE(report.entries, 1U);
    EXPECT_EQ(report.entries + report.findings, slots - 1);
    EXPECT_EQ(report.busy, 0U);

    // A scan shows the entry as often as a store could have held it, and then says that it is damaged.
    const auto reader = bench.reader();
    holdfast::detail::block_reading_budget budget(reader.blocks().bytes(), holdfast::detail::scan_turns_max);
    hash_map_entry entry;
    std::uint64_t cursor = 0, shown = 0;
    outcome got = outcome::ok;
    for (; (got = reader.next_entry(cursor, entry, &budget)) == outcome::ok;) ++shown;
    EXPECT_EQ(got, outcome::corrupt);
    EXPECT_EQ(reader.next_entry(cursor, entry, &budget), outcome::empty);
    EXPECT_EQ(reader.fault(), errc::corrupt);
    EXPECT_GE(shown, holdfast::detail::scan_turns_max);
    EXPECT_LE(shown, 2 * holdfast::detail::scan_turns_max);

    forge_entries_as_long_as_the_store(bench, 16);
    bench.view().record_at(bench.view().look().operation())[8] ^= std::byte{1};
    EXPECT_LT(seconds_of([&] { (void)damage_of(bench.view().as_const()); }), 3.0);
    EXPECT_LT(seconds_of([&] { EXPECT_TRUE(bench.writer().recovery().record_rebuilt); }), 3.0);
}

// The same where room is wanted: whatever may go is looked at no longer than by the size of the map.
TEST_F(HashMapLies, RoomIsLookedForInTimeByTheSizeOfTheMap) {
    constexpr std::uint64_t all = 64'000;
    for (const bool evicting : {true, false}) {
        map_bench bench({.units = all, .capacity = 20'000, .unit_bytes = 64, .evicting = evicting});
        {
            map_writer writer = bench.writer();
            ASSERT_TRUE(put(writer, "a", {1, 10}, {.ttl = std::chrono::hours(1)}));  // some expire
        }
        forge_entries_as_long_as_the_store(bench, 4);
        map_writer writer = bench.writer();
        const auto begin = std::chrono::steady_clock::now();
        const std::string value(60 * all, 'v');
        EXPECT_EQ(writer.set(as_key("b"), std::as_bytes(std::span(value))).status, outcome::corrupt) << evicting;
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
        EXPECT_EQ(writer.fault(), errc::corrupt);
    }
}

// Rings of readers that hold anything at all, and entries that are read no more: sets are taken, and the map is whole.
TEST_F(HashMapLies, ForgedUsesOnlyMisplaceFavour) {
    map_bench bench({.units = 100, .capacity = 20, .evicting = true});
    map_writer writer = bench.writer();
    alignas(64) std::byte rings[2 * 128] = {};
    writer.listen_to(rings);
    seeded_random random;
    for (std::uint64_t i = 0; i < 2000; ++i) {
        for (std::size_t at = 0; at < sizeof rings; at += 8) {
            const std::uint64_t word =
                random.below(3) == 0 ? random() : bench.view().store.word(random.below(bench.view().store.units()));
            holdfast::detail::shared_store<std::uint64_t>(rings + at, word);
        }
        ASSERT_TRUE(put(writer, "key " + std::to_string(i), {i, 10 + i % 200})) << i;
        ASSERT_TRUE(holds(writer.reader(), "key " + std::to_string(i), {i, 10 + i % 200}));
    }
    EXPECT_GT(bench.reader().usage().evicted, 1900U);
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
    EXPECT_EQ(writer.fault(), std::nullopt);
}

// A reader that is as quick as a reader can be: whenever an entry goes it notes the large one, and the 31 small ones
// that the hand meets next, but never all. So the hand passes over 32 entries for each that goes, as many as it may,
// and over the large one in each turn. It is the sink, since that is called between one eviction and the next.
class greedy_reader final : public holdfast::detail::map_sink {
 public:
    explicit greedy_reader(const writable_map& view) : view_(view) {}
    [[nodiscard]] std::span<std::byte> ring() { return ring_; }
    void know_large(std::uint64_t handle) { large_ = handle; }
    void know_small(std::uint64_t handle) { small_.push_back(handle); }

    /// For a hand that stands behind this unit. Requires: small ones are known in the order of their units.
    void note_behind(std::uint64_t unit) noexcept {
        std::uint64_t words[words_max] = {large_};
        const auto next = std::ranges::find_if(small_, [&](auto h) { return view_.store.index_of(h) > unit; });
        const auto at = static_cast<std::size_t>(next - small_.begin());
        for (std::size_t i = 1; i < words_max && i < small_.size(); ++i)
            words[i] = small_[(at + i - 1) % small_.size()];
        for (std::size_t i = 0; i < words_max; ++i)
            holdfast::detail::shared_store<std::uint64_t>(ring_ + 8 * i, words[i]);
    }

    std::uint64_t last_told() noexcept override { return told_; }
    bool tell(const holdfast::detail::map_told_change& change, const map_reader&) noexcept override {
        told_ = change.number;
        if (change.what != entry_change::evicted) return true;
        std::erase(small_, change.handle);
        note_behind(view_.store.index_of(change.handle));
        return true;
    }

 private:
    static constexpr std::size_t words_max = 32;

    writable_map view_;
    std::uint64_t large_ = 0;
    std::vector<std::uint64_t> small_;
    std::uint64_t told_ = 0;
    alignas(64) std::byte ring_[8 * words_max] = {};
};

// Entries that expire are read when the hand passes over them, and what is read for one set is bounded. Heard again for
// each entry that went, such a reader used the bound up, and the set of a large value said that the map is damaged.
TEST_F(HashMapLies, AReaderThatNotesWithoutEndMakesNoSoundMapDamaged) {
    constexpr std::uint64_t smalls = 256, large_units = 9 * smalls;
    map_bench bench({.units = large_units + smalls, .capacity = 2 * smalls, .evicting = true});
    greedy_reader greedy(bench.view());
    map_writer writer = bench.writer(&greedy);
    writer.listen_to(greedy.ring());
    const map_content large{
        1, static_cast<std::size_t>(bench.view().store.bytes_of(large_units)) - layout::block_head_bytes -
               static_cast<std::size_t>(layout::map_value_offset(std::string_view("large").size()))};
    greedy.know_large(put(writer, "large", large).handle);
    for (std::uint64_t i = 0; i < smalls; ++i)
        greedy.know_small(put(writer, std::to_string(i), {i, 0}, {.ttl = std::chrono::hours(i == 0 ? 1 : 0)}).handle);
    ASSERT_EQ(bench.reader().usage().units_free(), 0U);
    ASSERT_EQ(bench.reader().usage().evicted, 0U);
    greedy.note_behind(large_units + smalls);
    const map_content next{2, 220 * 64};
    const outcome kept = put(writer, "next", next).status;
    EXPECT_EQ(kept, outcome::ok) << outcome_name(kept);
    EXPECT_TRUE(holds(bench.reader(), "next", next));
    EXPECT_TRUE(holds(bench.reader(), "large", large)) << "what it noted in time it was granted";
    EXPECT_GT(bench.reader().usage().evicted, 200U);
    EXPECT_EQ(writer.fault(), std::nullopt);
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
}

// A thread writes rubbish all over while everybody works.
TEST_F(HashMapHostile, AThreadThatScribblesIsSurvived) {
    seeded_random random;
    std::atomic<bool> stop{false};
    const std::uint64_t seed = random.seed();
    std::thread scribbler([&] {
        std::uint64_t i = 0;
        // Relaxed: a flag that orders nothing.
        while (!stop.load(std::memory_order_relaxed)) {
            const std::uint64_t word = random_at(seed, 1, ++i);
            std::byte* const at = bench_.body().data() + random_at(seed, 2, i) % (bench_.body().size() / 8) * 8;
            holdfast::detail::shared_store<std::uint64_t>(
                at, word % 4 == 0 ? word : bench_.view().store.handle(word % units, 1 + word % 60));
        }
    });
    std::vector<std::byte> out(bench_.body().size());
    for (std::uint64_t round = 0; round < scaled(300); ++round) {
        map_writer writer = bench_.writer();
        for (const auto& [key, what] : model_) {
            (void)bench_.reader().find(as_key(key), std::span(out));
            (void)put(writer, key, what, {.ttl = std::chrono::seconds(round % 3)});
            (void)writer.fetch_add<std::uint64_t>(as_key(key), 0, 1);
            if (round % 2 == 0) (void)writer.erase(as_key(key));
        }
        hash_map_entry entry;
        std::uint64_t cursor = 0;
        for (unsigned i = 0; i < 100 && bench_.reader().next_entry(cursor, entry) != outcome::empty; ++i) {
        }
        if (round % 8 == 0) (void)findings_in(bench_.body());
    }
    stop.store(true, std::memory_order_relaxed);
    scribbler.join();
}

}  // namespace
