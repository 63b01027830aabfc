// SPDX-License-Identifier: Apache-2.0
// The array and block_store suites without a clock: do their loops find wrong subjects, and does every experiment run?
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <string>

#include "support/trial_recorder.hpp"
#include "support/unique_name.hpp"
#include "workload/array_own.hpp"
#include "workload/array_suite.hpp"
#include "workload/block_store_own.hpp"
#include "workload/block_store_suite.hpp"
#include "workload/hash_map_own.hpp"
#include "workload/hash_map_suite.hpp"
#include "workload/room.hpp"
#include "workload/targets.hpp"

namespace {

using namespace holdfast::workload;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// A registry of its own that is empty at the end.
class Stores : public testing::Test {
 protected:
    void TearDown() override { EXPECT_THAT(registry_.entries(), IsEmpty()); }
    [[nodiscard]] std::string name() {
        return "holdfast-test-store-" + std::to_string(::getpid()) + "-" + std::to_string(++made_);
    }
    const two_cores cores_ = pick_two_cores();
    const holdfast::test::unique_directory registry_;
    const holdfast::test::scoped_environment place_{"HOLDFAST_REGISTRY", registry_.path()};
    int made_ = 0;
};

TEST_F(Stores, OwnArraysGiveBackWhatIsStoredAlsoBesideAWriter) {
    if (!cores_.there) GTEST_SKIP() << "it takes two processors";
    for (const array_kind& kind : own_array_kinds())
        for (const std::size_t bytes : {8U, 1024U}) {
            const auto array = kind.make(bytes, {.size = 50, .name = name(), .far_cpu = cores_.far});
            EXPECT_NO_THROW(array->open_and_verify()) << kind.name << bytes;
            EXPECT_NO_THROW(array->store(100)) << kind.name;
            EXPECT_NO_THROW(array->load(100)) << kind.name;
            if (!kind.beside_writer) continue;
            const std::uint64_t before = array->far().progress().load();
            EXPECT_EQ(before, 1100U) << kind.name;  // a thousand of the comparison, a hundred here
            array->begin_stores(1'000'000);
            EXPECT_NO_THROW(array->load(20'000)) << kind.name;
            while (array->far().progress().load() == before) array->load(1);
            array->far().rest();
        }
}

template <std::size_t Bytes>
struct torn_array : locked_array<Bytes> {
    using typename locked_array<Bytes>::element;
    using locked_array<Bytes>::locked_array;
    bool load(std::uint64_t index, element& out) {
        locked_array<Bytes>::load(index, out);
        if (++loads > 60) out.words.back() += 1;
        return loads < 2000;
    }
    int loads = 0;
};
template <std::size_t Bytes>
struct wrong_array : locked_array<Bytes> {
    using typename locked_array<Bytes>::element;
    using locked_array<Bytes>::locked_array;
    bool load(std::uint64_t index, element& out) { return locked_array<Bytes>::load(index ^ 1U, out); }
};

TEST_F(Stores, ArrayLoopsSeeTornAndWrongElements) {
    if (!cores_.there) GTEST_SKIP() << "it takes two processors";
    const array_request request{.size = 50, .name = name(), .far_cpu = cores_.far};
    EXPECT_THROW(array_loops<torn_array<64>>(request).open_and_verify(), std::runtime_error);
    EXPECT_THROW(array_loops<wrong_array<64>>(request).open_and_verify(), std::runtime_error);
    EXPECT_NO_THROW(array_loops<locked_array<64>>(request).open_and_verify());
}

TEST_F(Stores, OwnStoresGiveBackWhatIsStoredAlsoBesideAWriter) {
    if (!cores_.there) GTEST_SKIP() << "it takes two processors";
    for (const block_store_kind& kind : own_block_store_kinds())
        for (const std::size_t bytes : {8U, 16U, 100U, 1000U, 70'000U}) {
            const auto store = kind.make({.values = 20, .value_bytes = bytes, .name = name(), .far_cpu = cores_.far});
            for (int i = 0; i < 5; ++i) {
                EXPECT_NO_THROW(store->replace(50)) << kind.name << bytes;
                EXPECT_NO_THROW(store->read(50)) << kind.name << bytes;
                EXPECT_NO_THROW(store->look(50)) << kind.name << bytes;
            }
            if (!store->beside_writer()) continue;
            store->begin_replacing(1'000'000);
            EXPECT_NO_THROW(store->read_beside(5'000)) << kind.name << bytes;
            EXPECT_NO_THROW(store->replace(50)) << kind.name << bytes;
            store->far().rest();
        }
}

enum class flaw { none, other, tail, refuses, keeps, adds_wrongly, torn };
template <flaw Flaw>
struct flawed_store : locked_strings {
    static constexpr bool tells_stale = true;  // so that another value is no excuse
    using locked_strings::locked_strings;
    std::size_t read(std::uint64_t handle, std::span<std::byte> out) const {
        const std::size_t size = locked_strings::read(Flaw == flaw::other ? handle % 20 + 1 : handle, out);
        if (Flaw == flaw::tail) out[size - 1] ^= std::byte{1};
        if (Flaw == flaw::torn && ++reads > 90) out[88] ^= std::byte{1};  // in the last whole word
        return Flaw == flaw::refuses ? 0 : size;
    }
    bool look(std::uint64_t handle, std::uint64_t& sum) const {
        const bool seen = locked_strings::look(handle, sum);
        if (Flaw == flaw::adds_wrongly) ++sum;
        return seen;
    }
    bool free(std::uint64_t handle) { return Flaw != flaw::keeps && locked_strings::free(handle); }
    mutable int reads = 0;
};
template <flaw Flaw>
void run_flawed(unsigned far_cpu) {
    block_store_loops<flawed_store<Flaw>> store({.values = 20, .value_bytes = 100, .name = {}, .far_cpu = far_cpu});
    store.replace(20);
    store.read(20);
    store.read_beside(100);
}

TEST_F(Stores, BlockStoreLoopsSeeEveryFlaw) {
    if (!cores_.there) GTEST_SKIP() << "it takes two processors";
    const unsigned far = cores_.far;
    EXPECT_NO_THROW(run_flawed<flaw::none>(far));
    EXPECT_THROW(run_flawed<flaw::torn>(far), std::runtime_error);
    EXPECT_THROW(run_flawed<flaw::other>(far), std::runtime_error);
    EXPECT_THROW(run_flawed<flaw::tail>(far), std::runtime_error);
    EXPECT_THROW(run_flawed<flaw::refuses>(far), std::runtime_error);
    EXPECT_THROW(run_flawed<flaw::keeps>(far), std::runtime_error);
    EXPECT_THROW(run_flawed<flaw::adds_wrongly>(far), std::runtime_error);
}

TEST_F(Stores, OwnMapsFindWhatIsSetAlsoBesideAWriter) {
    if (!cores_.there) GTEST_SKIP() << "it takes two processors";
    for (const hash_map_kind& kind : own_hash_map_kinds())
        for (const std::size_t bytes : {8U, 100U, 3000U}) {
            const auto map = kind.make({.entries = 300, .value_bytes = bytes, .name = name(), .far_cpu = cores_.far});
            EXPECT_NO_THROW(map->set(500)) << kind.name << bytes;
            EXPECT_NO_THROW(map->find(500)) << kind.name << bytes;
            EXPECT_NO_THROW(map->look(500)) << kind.name << bytes;
            EXPECT_NO_THROW(map->miss(500)) << kind.name << bytes;
            EXPECT_TRUE(kind.in_place) << kind.name;
            if (!map->beside_writer()) continue;
            map->begin_setting(1'000'000);
            EXPECT_NO_THROW(map->find_beside(5'000)) << kind.name << bytes;
            EXPECT_NO_THROW(map->set(50)) << kind.name << bytes;
            map->far().rest();
        }
}

enum class map_flaw { none, tail, finds_all, forgets, keeps, adds_wrongly, torn };
template <map_flaw Flaw>
struct flawed_map : standard_string_map {
    using standard_string_map::standard_string_map;
    std::size_t find(std::string_view key, std::span<std::byte> out) const {
        const std::size_t size = standard_string_map::find(key, out);
        if (Flaw == map_flaw::tail && size != 0) out[size - 1] ^= std::byte{1};
        if (Flaw == map_flaw::finds_all && size == 0) return out.size();
        if (Flaw == map_flaw::torn && size != 0 && ++torn > 60) out[88] ^= std::byte{1};  // in the last whole word
        return Flaw == map_flaw::forgets && ++finds > 25 ? 0 : size;
    }
    bool set(std::string_view key, std::span<const std::byte> value) {
        return (Flaw == map_flaw::keeps && ++sets > 20) || standard_string_map::set(key, value);
    }
    bool look(std::string_view key, std::uint64_t& sum) const {
        const bool seen = standard_string_map::look(key, sum);
        if (Flaw == map_flaw::adds_wrongly) ++sum;
        return seen;
    }
    mutable int finds = 0, torn = 0;
    int sets = 0;
};
template <map_flaw Flaw>
void run_flawed_map(unsigned far_cpu) {
    hash_map_loops<flawed_map<Flaw>> map({.entries = 20, .value_bytes = 100, .name = {}, .far_cpu = far_cpu});
    map.find(20);
    map.set(20);
    map.find_beside(100);
}

TEST_F(Stores, MapLoopsSeeEveryFlaw) {
    if (!cores_.there) GTEST_SKIP() << "it takes two processors";
    const unsigned far = cores_.far;
    EXPECT_NO_THROW(run_flawed_map<map_flaw::none>(far));
    EXPECT_THROW(run_flawed_map<map_flaw::torn>(far), std::runtime_error);
    EXPECT_THROW(run_flawed_map<map_flaw::tail>(far), std::runtime_error);
    EXPECT_THROW(run_flawed_map<map_flaw::finds_all>(far), std::runtime_error);
    EXPECT_THROW(run_flawed_map<map_flaw::forgets>(far), std::runtime_error);
    EXPECT_THROW(run_flawed_map<map_flaw::keeps>(far), std::runtime_error);
    EXPECT_THROW(run_flawed_map<map_flaw::adds_wrongly>(far), std::runtime_error);
}

TEST_F(Stores, LargerSetsAreAskedMore) {
    EXPECT_EQ(draw_places(1'000, 1).size(), questions_for(1'000));
    EXPECT_EQ(draw_places(1'000'000, 1).size(), questions_for(1'000'000));
    EXPECT_GT(questions_for(1'000'000), questions_for(1'000));
    for (const std::uint64_t size : {1U, 1'000'000U, 100'000'000U})  // the loops' walk through them is a mask
        EXPECT_TRUE(std::has_single_bit(questions_for(size)));
}

TEST_F(Stores, WhatDoesNotFitIsToldBeforeItIsMade) {
    EXPECT_EQ(lacking_room({}), "");
    EXPECT_THAT(lacking_room({.memory_bytes = std::uint64_t{1} << 62}), HasSubstr("of memory"));
    if (available_shared_memory() == ~std::uint64_t{0}) GTEST_SKIP() << "a /dev/shm with a limit is needed";
    EXPECT_THAT(lacking_room({.shared_bytes = available_shared_memory() + (1 << 30)}),
                AllOf(HasSubstr("/dev/shm"), HasSubstr("mount -o remount,size="), HasSubstr("--shm-size")));
}

TEST_F(Stores, TargetsAreComputedFromTheSamplesThatTheTableShows) {
    const sampled found{{"holdfast", "peer", "other"}, {{20, 22, 30}, {10, 11, 15}, {}}};
    EXPECT_EQ(at_most_text("read", found, "peer", 1.3),
              "target: read in at most 1.3 times the time of peer: 2.00 times, 22.00 ns (missed)");
    EXPECT_EQ(at_least_text("read", found, "peer", 0.4),
              "target: read at least 0.4 times as fast as peer: 0.50 times, 22.00 ns (met)");
    EXPECT_THAT(at_most_text("read", found, "peer", 1.05), HasSubstr("at most 1.05 times"));
    EXPECT_EQ(at_least_text("read", found, "other", 1), "");  // was not timed
    EXPECT_EQ(at_least_text("read", found, "nobody", 1), "");
    EXPECT_EQ(beside_published_text("read", found.samples[0], {"theirs", 20e6, "reads/s", "somewhere"}),
              "read: 45.5 million a second; published, another machine: 20 million reads/s");
}

TEST_F(Stores, SuitesRunEveryExperimentTheyName) {
    if (!cores_.there) GTEST_SKIP() << "it takes two processors";
    for (const suite& s : {array_suite(own_array_kinds()), block_store_suite(own_block_store_kinds()),
                           hash_map_suite(own_hash_map_kinds())}) {
        holdfast::test::trial_recorder list({.quick = true, .filter = "", .only = {}});
        list.list_only = true;
        s.run(list);
        holdfast::test::trial_recorder all({.quick = true, .seconds = 0.0001, .filter = "", .only = {}}, 100);
        s.run(all);
        EXPECT_EQ(all.ran.size(), list.asked.size()) << s.name;
        EXPECT_GE(all.ran.size(), 3U) << s.name;
        for (const auto& [name, subjects] : all.ran) EXPECT_EQ(subjects.front(), "holdfast") << name;
        if (s.name != "array") {  // what goes on in the other process is timed with the way to it looked at
            for (const char* beside : {"beside 100000", "another,", "set,"})
                for (const auto& [name, subjects] : all.ran)
                    if (name.find(beside) != std::string::npos) {
                        EXPECT_THAT(all.notes, Contains(AllOf(StartsWith(name), HasSubstr("one cache line")))) << name;
                    }
        }
        if (s.name != "hash_map") {  // whose targets are against peers
            EXPECT_THAT(all.notes, Contains(StartsWith("target: "))) << s.name;
        }
    }
}

}  // namespace
