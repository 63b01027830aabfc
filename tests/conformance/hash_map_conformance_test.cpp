// SPDX-License-Identifier: Apache-2.0
// What a hash map must do alike in every kind of memory: one writer, or one of many, readers on read-only mappings,
// successors, typed keys, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/many.hpp"
#include "holdfast/hash_map/registered_reader.hpp"
#include "holdfast/peers.hpp"
#include "support/memory_kinds.hpp"
#include "support/process.hpp"
#include "support/seed.hpp"
#include "support/segment_tools.hpp"
#include "support/snapshot_bench.hpp"

namespace {

using namespace holdfast;
using holdfast::test::child_process;
using holdfast::test::is_whole;
using holdfast::test::memory_place;
using holdfast::test::refusal_of;
using holdfast::test::whole_object;

using text_map = hash_map<std::string_view>;
using text_reader = hash_map_reader<std::string_view>;
static_assert(std::ranges::input_range<text_map> && std::ranges::input_range<const text_reader>);
static_assert(std::ranges::input_range<hash_map<std::uint64_t, writers::many>>);
static_assert(std::ranges::input_range<hash_map_registered_reader<std::uint64_t>>);

struct point {
    std::int32_t x = 0;
    std::int32_t y = 0;
    std::uint64_t layer = 0;
};

class HashMapEverywhere : public ::testing::TestWithParam<std::string> {
 protected:
    [[nodiscard]] text_map make(bool evict = false) const {
        return text_map::create(place.uri(), {.capacity = 200, .bytes = 100'000, .evict = evict});
    }
    memory_place place{GetParam()};
};
class HashMapShareable : public HashMapEverywhere {
 protected:
    [[nodiscard]] text_reader again(const text_map& map) const {
        return text_reader(std::make_shared<const segment>(place.attach_again(map.segment(), access::read_only)));
    }
};

TEST_P(HashMapEverywhere, ValuesComeBackByTheirKeys) {
    text_map map = make();
    const text_reader reader = map.make_reader();
    std::map<std::string, std::size_t> kept;
    for (std::size_t bytes = 0; bytes < 3000; bytes = bytes * 2 + 1) {
        const std::string key = "key " + std::string(bytes / 10, 'k');
        ASSERT_TRUE(map.set(key, whole_object(bytes, bytes)));
        kept[key] = bytes;
    }
    std::vector<std::byte> out;
    for (const auto& [key, bytes] : kept) {
        const hash_map_found got = reader.find(key, out);
        ASSERT_TRUE(got);
        EXPECT_EQ(out.size(), kept[key]);
        EXPECT_TRUE(is_whole(out, kept[key]));
        EXPECT_EQ(reader.about(key).count, kept[key]);
        EXPECT_EQ(reader.about(key).handle, got.handle);
        EXPECT_TRUE(reader.contains(key));
    }
    std::size_t met = 0;
    for (const hash_map_entry& entry : reader) {
        EXPECT_TRUE(kept.contains(std::string(reinterpret_cast<const char*>(entry.key.data()), entry.key.size())));
        ++met;
    }
    EXPECT_EQ(met, kept.size());
    EXPECT_EQ(reader.size(), kept.size());
    EXPECT_TRUE(reader.verify([](const hash_map_finding&) { return true; }).intact());
    EXPECT_EQ(reader.fault(), std::nullopt);
    for (const auto& [key, bytes] : kept) EXPECT_TRUE(map.erase(key));
    for (const auto& [key, bytes] : kept) {
        EXPECT_EQ(map.erase(key).status, outcome::not_found);
        EXPECT_FALSE(reader.contains(key));
    }
    EXPECT_EQ(reader.usage().units_used, 0U);
    EXPECT_TRUE(map.empty());
}

// Random operations against a model, each condition held or not. Returns: what each of them answered, but for handles.
template <class Map>
std::vector<std::uint64_t> speak(Map& map, std::uint64_t seed) {
    struct entry {
        std::vector<std::byte> value;
        std::uint64_t handle = 0;
    };
    std::vector<std::uint64_t> answers;
    const text_reader reader = map.make_reader();
    std::map<std::string, entry> model;
    std::vector<std::byte> out;
    const auto expected_of = [&](const std::string& key, bool right) {
        const std::uint64_t now = model.contains(key) ? model.at(key).handle : 0;
        return right ? now : now + 1;
    };
    for (std::uint64_t i = 0; i < 3000; ++i) {
        const std::uint64_t random = holdfast::test::random_at(seed, 1, i);
        const std::string key = std::to_string((random >> 8) % 40) + std::string((random >> 8) % 3 * 40, 'k');
        const auto value = whole_object(i, 8 + (random >> 20) % 200);
        const bool right = (random >> 40) % 2 == 0;
        const auto expected = expected_of(key, right);
        hash_map_result done;
        switch (random % 8) {
            case 0: done = map.set(key, value); break;
            case 1: done = map.insert(key, value); break;
            case 2: done = map.update(key, value); break;
            case 3: done = map.compare_and_set(key, expected, value); break;
            case 4: done = map.erase(key); break;
            case 5: done = map.compare_and_erase(key, expected); break;
            case 6: done = map.set(key, "a text of some length"); break;
            default: {
                const auto added = map.template fetch_add<std::uint64_t>(key, 0, random);
                answers.push_back(static_cast<std::uint64_t>(added.status));
                if (!added) break;
                std::uint64_t count = 0;
                entry& known = model.at(key);
                std::memcpy(&count, known.value.data(), sizeof count);
                EXPECT_EQ(added.before, count);
                count += random;
                std::memcpy(known.value.data(), &count, sizeof count);
                known.handle = added.handle;
            }
        }
        answers.push_back(static_cast<std::uint64_t>(done.status) << 8U | static_cast<std::uint64_t>(done.what));
        if (done && done.what == entry_change::erased) model.erase(key);
        if (done && (done.what == entry_change::inserted || done.what == entry_change::updated)) {
            const auto text = std::as_bytes(std::span("a text of some length", 21));
            model[key] = {random % 8 == 6 ? std::vector<std::byte>(text.begin(), text.end()) : value, done.handle};
        }
        const hash_map_found got = reader.find(key, out);
        EXPECT_EQ(got.status, model.contains(key) ? outcome::ok : outcome::not_found);
        if (got) {
            EXPECT_EQ(out, model.at(key).value);
            EXPECT_EQ(got.handle, model.at(key).handle);
        }
        if (::testing::Test::HasFailure()) return answers;
    }
    EXPECT_EQ(reader.size(), model.size());
    std::size_t met = 0;
    for (const hash_map_entry& each : reader) {
        EXPECT_TRUE(model.contains(std::string(reinterpret_cast<const char*>(each.key.data()), each.key.size())));
        ++met;
    }
    EXPECT_EQ(met, model.size());
    EXPECT_EQ(map.set("too large", std::vector<std::byte>(1'000'000)).status, outcome::too_large);
    EXPECT_TRUE(reader.verify([](const hash_map_finding&) { return true; }).intact());
    for (const auto& [key, known] : model) EXPECT_TRUE(map.compare_and_erase(key, known.handle));
    EXPECT_EQ(reader.usage().units_used, 0U);
    EXPECT_EQ(map.fault(), std::nullopt);
    return answers;
}

TEST_P(HashMapEverywhere, BothPoliciesSpeakAlike) {
    const std::uint64_t seed = holdfast::test::choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    std::vector<std::uint64_t> of_one;
    {
        text_map one = make();
        of_one = speak(one, seed);
    }
    const memory_place other{GetParam()};
    auto many = hash_map<std::string_view, writers::many>::create(other.uri(), {.capacity = 200, .bytes = 100'000});
    EXPECT_EQ(speak(many, seed), of_one);
}

TEST_P(HashMapEverywhere, TextsCountersAndVersions) {
    text_map map = make();
    const hash_map_result first = map.insert("greeting", "hello");
    ASSERT_TRUE(first);
    EXPECT_EQ(map.insert("greeting", "hi").status, outcome::exists);
    EXPECT_EQ(map.update("nobody", "hi").status, outcome::not_found);
    EXPECT_TRUE(map.compare_and_set("greeting", first.handle, "hello again"));
    EXPECT_EQ(map.compare_and_set("greeting", first.handle, "late").status, outcome::stale);
    EXPECT_EQ(map.compare_and_erase("greeting", first.handle).status, outcome::stale);
    std::string text;
    ASSERT_TRUE(map.find("greeting", text));
    EXPECT_EQ(text, "hello again");
    text = "longer than what is found there";
    ASSERT_TRUE(map.make_reader().find("greeting", text));
    EXPECT_EQ(text, "hello again");
    const std::uint64_t zero[2] = {};
    ASSERT_TRUE(map.set("hits", std::as_bytes(std::span(zero))));
    for (std::uint64_t i = 0; i < 10; ++i) {
        const auto added = map.fetch_add<std::uint64_t>("hits", 8, 3);
        ASSERT_TRUE(added);
        EXPECT_EQ(added.before, 3 * i);
    }
    std::uint64_t now[2] = {};
    ASSERT_TRUE(map.find("hits", std::as_writable_bytes(std::span(now))));
    EXPECT_EQ(now[0], 0U);
    EXPECT_EQ(now[1], 30U);
    std::string pieces;
    EXPECT_TRUE(map.visit("greeting", [&](std::span<const std::byte> piece, std::uint64_t from, std::uint64_t) {
        if (from == 0) pieces.clear();
        pieces.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }));
    EXPECT_EQ(pieces, "hello again");
    ASSERT_TRUE(map.set("mortal", "x", {.ttl = std::chrono::seconds(1000), .flags = 5}));
    EXPECT_GE(map.about("mortal").ttl.count(), 990);
    EXPECT_EQ(map.about("mortal").flags, 5U);
    EXPECT_TRUE(map.touch("mortal", std::chrono::seconds(0)));
    EXPECT_EQ(map.about("mortal").ttl.count(), 0);
}

TEST_P(HashMapEverywhere, AnotherKindOfContainerIsRefused) {
    segment_spec spec;
    spec.kind = container_kind::raw;
    spec.body_bytes = 100'000;
    const auto raw =
        std::make_shared<const segment>(segment::create(place.uri(), spec, {}, [](std::span<std::byte>) {}));
    EXPECT_EQ(refusal_of([&] { const text_reader reader(raw); }), errc::kind_mismatch);
}

TEST_P(HashMapShareable, KeysOfOneTypeAreRefusedToAnother) {
    const auto numbers = hash_map<std::uint64_t>::create(place.uri(), {.capacity = 10});
    const auto shared = std::make_shared<const segment>(place.attach_again(numbers.segment(), access::read_only));
    EXPECT_EQ(refusal_of([&] { const text_reader reader(shared); }), errc::schema_mismatch);
    EXPECT_EQ(refusal_of([&] { const hash_map_reader<std::uint32_t> reader(shared); }), errc::schema_mismatch);
    EXPECT_EQ(refusal_of([&] { const hash_map_reader<point> reader(shared); }), errc::schema_mismatch);
    const hash_map_reader<std::uint64_t> same(shared);
    const hash_map_reader<std::span<const std::byte>> any(shared);
    EXPECT_TRUE(same.empty());
    EXPECT_TRUE(any.empty());
}

TEST_P(HashMapEverywhere, RecordsAreKeys) {
    auto map = hash_map<point>::create(place.uri(), {.capacity = 100});
    for (std::int32_t i = 0; i < 50; ++i) ASSERT_TRUE(map.set({i, -i, 7}, std::to_string(i)));
    std::string out;
    for (std::int32_t i = 0; i < 50; ++i) {
        ASSERT_TRUE(map.make_reader().find({i, -i, 7}, out));
        EXPECT_EQ(out, std::to_string(i));
        EXPECT_FALSE(map.contains({i, -i, 8}));
    }
}

TEST_P(HashMapEverywhere, RecountMakesTheTablesCountersExact) {
    text_map map = make();
    for (unsigned i = 0; i < 200; ++i) ASSERT_TRUE(map.set(std::to_string(i), "x"));
    // What a kill between the counters and the tag of an insert leaves.
    const layout::hash_table_geometry& g = map.geometry().table;
    std::byte* const body = const_cast<std::byte*>(map.segment().bytes().data());
    holdfast::detail::set_counter(
        body + g.lines_offset, 3,
        static_cast<std::uint8_t>(holdfast::detail::counter_of(body + g.lines_offset, 3) + 1));
    EXPECT_EQ(map.verify([](const hash_map_finding&) { return true; }).table.counters_too_high, 1U);
    EXPECT_EQ(map.recount(), 1U);
    EXPECT_EQ(map.verify([](const hash_map_finding&) { return true; }).table.counters_too_high, 0U);
    EXPECT_EQ(map.recount(), 0U);
}

TEST_P(HashMapEverywhere, AFullMapSaysSoOrEvicts) {
    for (const bool evict : {false, true}) {
        auto map = text_map::create("heap:", {.capacity = 100, .bytes = 6400, .evict = evict});
        std::uint64_t kept = 0;
        for (; kept < 60; ++kept)
            if (const auto done = map.set(std::to_string(kept), whole_object(1, 150)); !done) {
                EXPECT_EQ(done.status, outcome::full);
                break;
            }
        EXPECT_EQ(kept, evict ? 60U : 25U) << "4 units each";
        EXPECT_EQ(map.set("x", whole_object(1, 6400)).status, outcome::too_large);
        EXPECT_EQ(map.usage().units_used, 100U);
        EXPECT_EQ(map.usage().evicted, evict ? 35U : 0U);
    }
}

TEST_P(HashMapEverywhere, TheReaderKeepsTheMappingAliveWithoutTheWriter) {
    auto map = std::make_unique<text_map>(make());
    ASSERT_TRUE(map->set("k", "value"));
    const text_reader reader = map->make_reader();
    map.reset();
    std::string out;
    ASSERT_TRUE(reader.find("k", out));
    EXPECT_EQ(out, "value");
}

TEST_P(HashMapEverywhere, AHeaderThatContradictsItsSizeIsRefused) {
    const auto g = layout::plan_hash_map({.capacity = 10, .bytes = 10'000, .entry_bytes = 0, .unit_bytes = 64});
    for (const unsigned word : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 15U, 16U}) {
        segment_spec spec;
        spec.kind = container_kind::hash_map;
        spec.container_version = layout::hash_map_version;
        spec.geometry = layout::geometry_words_of(g);
        if (word < 16 && word != 1) spec.geometry[word] += word == 0 ? 1000U : word == 4 ? 2U : 1U;
        spec.body_bytes = g.body_bytes() - (word == 16 ? 64 : 0);
        const auto bad =
            std::make_shared<const segment>(segment::create("heap:", spec, {}, [](std::span<std::byte>) {}));
        if (word == 1) continue;  // the seed: any will do
        EXPECT_EQ(refusal_of([&] { const text_reader reader(bad); }), errc::geometry_mismatch) << word;
    }
}

// A table of an earlier layout places its keys by other hashes: it is refused, not misread.
TEST_P(HashMapEverywhere, AnotherLayoutVersionIsRefused) {
    const auto g = layout::plan_hash_map({.capacity = 10, .bytes = 10'000, .entry_bytes = 0, .unit_bytes = 64});
    segment_spec spec;
    spec.kind = container_kind::hash_map;
    spec.container_version = layout::hash_map_version - 1;
    spec.geometry = layout::geometry_words_of(g);
    spec.body_bytes = g.body_bytes();
    const auto old = std::make_shared<const segment>(segment::create("heap:", spec, {}, [](std::span<std::byte>) {}));
    EXPECT_EQ(refusal_of([&] { const text_reader reader(old); }), errc::version_mismatch);
}

TEST_P(HashMapEverywhere, RequestsThatCannotBeMetAreRefused) {
    for (const hash_map_options& options :
         {hash_map_options{.capacity = 0}, hash_map_options{.capacity = 10, .unit_bytes = 100},
          hash_map_options{.capacity = 10, .unit_bytes = std::uint64_t{1} << 63},
          hash_map_options{.capacity = 10, .unit_bytes = ~std::uint64_t{0}},
          hash_map_options{.capacity = 10, .bytes = std::uint64_t{1} << 60, .unit_bytes = 64},
          hash_map_options{.capacity = std::uint64_t{1} << 36, .entry_bytes = ~std::uint64_t{0}},
          hash_map_options{.capacity = ~std::uint64_t{0}}})
        EXPECT_EQ(refusal_of([&] { (void)text_map::create(place.uri(), options); }), errc::invalid_argument);
}

TEST_P(HashMapEverywhere, AForkedChildCannotWrite) {
    text_map map = make();
    ASSERT_TRUE(map.set("k", "value"));
    child_process child([&]() -> std::string {
        if (map.set("k", "x").status != outcome::read_only) return "set";
        if (map.erase("k").status != outcome::read_only) return "erased";
        if (map.fetch_add<std::uint8_t>("k", 0, 1).status != outcome::read_only) return "added";
        if (map.touch("k", std::chrono::seconds(1)).status != outcome::read_only) return "touched";
        if (map.compare_and_set("k", 0, "x").status != outcome::read_only) return "swapped";
        std::string out;
        return map.find("k", out) && out == "value" ? "" : "cannot read";
    });
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_TRUE(map.set("k", "x"));
    const text_map to = std::move(map);
    EXPECT_EQ(map.set("k", "y").status, outcome::read_only);  // NOLINT(bugprone-use-after-move): what it answers
}

TEST_P(HashMapShareable, ASecondMappingSeesEachValue) {
    text_map map = make();
    const text_reader reader = again(map);
    std::vector<std::byte> out;
    for (std::uint64_t i = 1; i <= 300; ++i) {
        ASSERT_TRUE(map.set("k", whole_object(i, i * 7)));
        ASSERT_TRUE(reader.find("k", out));
        ASSERT_TRUE(is_whole(out, i));
        ASSERT_EQ(out.size(), i * 7);
    }
    EXPECT_EQ(reader.size(), 1U);
    EXPECT_EQ(map.changes(), 300U);
}

TEST_P(HashMapShareable, ASecondWriterIsRefusedWhileTheFirstLivesAndGoesOnAfterwards) {
    auto map = std::make_unique<text_map>(make(true));
    ASSERT_TRUE(map->set("k", "value"));
    EXPECT_EQ(refusal_of([&] { (void)place.attach_again(map->segment(), access::read_write); }), errc::writer_alive);
    if (map->segment().name().is_memfd()) return;  // the descriptors go with the handle
    map.reset();
    text_map next = text_map::attach(place.uri());
    EXPECT_FALSE(next.recovery().operation_finished);
    EXPECT_EQ(next.size(), 1U);
    EXPECT_EQ(next.changes(), 1U);
    EXPECT_TRUE(next.geometry().evicting);
    EXPECT_TRUE(next.erase("k"));
    EXPECT_EQ(next.usage().units_used, 0U);
}

// Another process reads one key while the map is filled many times over; between its readings and the writer's sets
// they take turns.
TEST_P(HashMapShareable, WhatARegisteredReaderReadsStaysAndWhatOthersReadGoes) {
    constexpr unsigned rounds = 100;
    for (const bool registered : {true, false}) {
        const memory_place own(GetParam());
        text_map map =
            text_map::create(own.uri(), {.capacity = 200, .bytes = 100'000, .evict = true, .registered_readers = 2});
        ASSERT_TRUE(map.set("hot", "read all the time"));
        child_process child([&](holdfast::test::channel& parent) -> std::string {
            const auto mapping = std::make_shared<const segment>(own.attach_again(map.segment(), access::read_only));
            const auto read = [&](const auto& reader) {
                unsigned missed = 0;
                for (unsigned round = 0; round < rounds && parent.wait(); ++round) {
                    for (unsigned i = 0; i < 256; ++i) missed += reader.contains("hot") ? 0U : 1U;
                    (void)parent.signal();
                }
                return missed;
            };
            const unsigned missed =
                registered ? read(hash_map_registered_reader<std::string_view>(mapping)) : read(text_reader(mapping));
            return registered == (missed == 0) ? "" : "missed " + std::to_string(missed) + " times";
        });
        auto reader = child.talk();
        for (unsigned round = 0, next = 0; round < rounds; ++round) {
            ASSERT_TRUE(reader.signal() && reader.wait());
            for (unsigned i = 0; i < 20; ++i) ASSERT_TRUE(map.set("cold " + std::to_string(next++), "x"));
        }
        EXPECT_GT(map.usage().evicted, 1000U);
        EXPECT_TRUE(child.wait().success()) << child.wait().text();
    }
}

TEST_P(HashMapShareable, PlacesOfRegisteredReadersAreCountedAndComeFree) {
    using registered_reader = hash_map_registered_reader<std::string_view>;
    const text_map plain = make(true);
    const auto mapping = [](const memory_place& at, const text_map& map) {
        return std::make_shared<const segment>(at.attach_again(map.segment(), access::read_only));
    };
    const auto without = refusal_of([&] { (void)registered_reader(mapping(place, plain)); });
    ASSERT_TRUE(without);
    EXPECT_EQ(without->code, errc::not_found);
    const memory_place own(GetParam());
    text_map map = text_map::create(own.uri(), {.capacity = 20, .evict = true, .registered_readers = 1});
    ASSERT_TRUE(map.set("k", "value"));
    {
        registered_reader first(mapping(own, map));
        EXPECT_TRUE(first.contains("k"));
        const auto refused = refusal_of([&] { (void)registered_reader(mapping(own, map)); });
        ASSERT_TRUE(refused);
        EXPECT_EQ(refused->code, errc::no_space);
        const registered_reader moved = std::move(first);
        std::string out;
        EXPECT_TRUE(moved.find("k", out));
        EXPECT_EQ(out, "value");
    }
    EXPECT_TRUE(registered_reader(mapping(own, map)).contains("k"));
}

TEST_P(HashMapShareable, ARegisteredReaderThatIsAssignedToGivesItsPlaceBackAtOnce) {
    using registered_reader = hash_map_registered_reader<std::string_view>;
    const memory_place own(GetParam());
    text_map map = text_map::create(own.uri(), {.capacity = 20, .evict = true, .registered_readers = 2});
    ASSERT_TRUE(map.set("k", "value"));
    const auto mapping = [&] {
        return std::make_shared<const segment>(own.attach_again(map.segment(), access::read_only));
    };
    const auto one_more = [&] { (void)registered_reader(mapping()); };
    registered_reader first(mapping()), second(mapping());
    EXPECT_EQ(refusal_of(one_more), errc::no_space);
    first = std::move(second);  // which lives on
    EXPECT_TRUE(first.contains("k"));
    EXPECT_EQ(refusal_of(one_more), std::nullopt);
    const registered_reader third(mapping());
    registered_reader& same = first;
    first = std::move(same);
    EXPECT_TRUE(first.contains("k"));
    EXPECT_EQ(refusal_of(one_more), errc::no_space) << "moved to itself it keeps its place";
}

// A place is its owner's alone: what a forked child reads is noted nowhere.
TEST_P(HashMapShareable, AForkedChildOfARegisteredReaderStoresNothing) {
    const memory_place own(GetParam());
    text_map map = text_map::create(own.uri(), {.capacity = 20, .evict = true, .registered_readers = 1});
    ASSERT_TRUE(map.set("k", "value"));
    const hash_map_registered_reader<std::string_view> reader(
        std::make_shared<const segment>(own.attach_again(map.segment(), access::read_only)));
    const peers table = peers::open(map.segment());
    const auto is_empty = [slot = table.slot(0)] {
        return std::ranges::all_of(slot, [](std::byte b) { return b == std::byte{0}; });
    };
    const auto finds_it_often = [&] {
        for (int i = 0; i < 200; ++i)
            if (!reader.contains("k")) return std::string("a find failed");
        return std::string();
    };
    const auto end = holdfast::test::in_child(finds_it_often);
    EXPECT_TRUE(end.success()) << end.text();
    EXPECT_TRUE(is_empty());
    EXPECT_EQ(finds_it_often(), "");
    EXPECT_FALSE(is_empty());
}

INSTANTIATE_TEST_SUITE_P(HashMap, HashMapEverywhere, ::testing::ValuesIn(holdfast::test::every_kind),
                         holdfast::test::kind_case_name);
INSTANTIATE_TEST_SUITE_P(HashMap, HashMapShareable, ::testing::ValuesIn(holdfast::test::shareable_kinds),
                         holdfast::test::kind_case_name);

// The default leaves room for updates: a map of counters that is filled as announced still counts.
TEST(HashMapFilled, AMapFilledToItsCapacityCanBeUpdated) {
    for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{1000}}) {
        auto map = text_map::create("heap:", {.capacity = count});
        const auto key = [](std::uint64_t i) { return "k" + std::to_string(1'000'000 + i); };
        const std::string value(112, 'v');
        for (std::uint64_t i = 0; i < count; ++i) ASSERT_TRUE(map.set(key(i), value)) << i;
        for (std::uint64_t i = 0; i < count; ++i) {
            ASSERT_TRUE(map.set(key(i), value)) << i;
            ASSERT_TRUE(map.fetch_add<std::uint64_t>(key(i), 0, 1)) << i;
        }
        EXPECT_TRUE(map.verify([](const hash_map_finding&) { return true; }).intact());
    }
}

TEST(HashMapFilled, OneThatWasMovedFromAnswersReadOnly) {
    auto map = text_map::create("heap:", {.capacity = 10});
    auto other = std::move(map);
    EXPECT_EQ(map.set("a", "b").status, outcome::read_only);  // NOLINT(bugprone-use-after-move)
    const auto refused = refusal_of([&] { (void)map.recount(); });
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->code, errc::read_only);
    EXPECT_EQ(other.recount(), 0U);
}

}  // namespace
