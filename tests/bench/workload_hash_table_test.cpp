// SPDX-License-Identifier: Apache-2.0
// The hash table suite without a clock: do its adapters keep their promises, does its check find those that do not, and
// does every experiment run?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/hash_table_kinds.hpp"
#include "support/trial_recorder.hpp"
#include "workload/background_writer.hpp"
#include "workload/far_side.hpp"
#include "workload/hash_table_fills.hpp"
#include "workload/hash_table_growth.hpp"
#include "workload/hash_table_own.hpp"
#include "workload/hash_table_suite.hpp"
#include "workload/hash_table_targets.hpp"
#include "workload/hash_table_writers.hpp"
#include "workload/keys.hpp"
#include "workload/memory_chase.hpp"
#include "workload/processors.hpp"

namespace holdfast::test {

INSTANTIATE_TEST_SUITE_P(Own, HashTableKinds, testing::ValuesIn(parameters_of(workload::own_hash_table_kinds())),
                         text_of);

}  // namespace holdfast::test

namespace {

using namespace holdfast::workload;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAreArray;

constexpr std::uint64_t entries = 5000;

// Tables that are wrong in one way each: the check before the clock must see every one of them.
enum class flaw { none, forgets, invents, mixes_values, wrong_in_batches };

template <flaw Flaw>
struct flawed {
    template <class Value>
    struct table : standard_table<Value> {
        using standard_table<Value>::standard_table;
        bool find(std::uint64_t key, Value& out) const {
            const bool found = standard_table<Value>::find(key, out);
            if (Flaw == flaw::forgets && key % 64 == 0) return false;
            if (Flaw == flaw::invents && key % 64 == 0) return true;
            if (Flaw == flaw::mixes_values && key % 64 == 0) out.words.back() += 1;
            return found;
        }
        std::uint64_t find_many(std::span<const std::uint64_t> keys, std::span<std::optional<Value>> out) const {
            std::uint64_t found = 0;
            for (std::size_t i = 0; i < keys.size(); ++i) {
                Value v{};
                out[i] = std::nullopt;
                if (!find(keys[i], v)) continue;
                if (Flaw != flaw::wrong_in_batches || keys[i] % 64 != 0) out[i] = v;
                ++found;
            }
            return found;
        }
    };
};

template <flaw Flaw>
void check_flawed() {
    const std::vector<std::uint64_t> present = make_keys(0, entries);
    const std::vector<std::uint64_t> absent = make_keys(2 * entries, entries);
    const auto table = kind_of<flawed<Flaw>::template table>().make(64, {entries, page_choice::small});
    table->load(present);
    table->check(present, absent);
}

TEST(HashTableCheck, SeesEveryFlaw) {
    EXPECT_NO_THROW(check_flawed<flaw::none>());
    EXPECT_THROW(check_flawed<flaw::forgets>(), std::runtime_error);
    EXPECT_THROW(check_flawed<flaw::invents>(), std::runtime_error);
    EXPECT_THROW(check_flawed<flaw::mixes_values>(), std::runtime_error);
    EXPECT_THROW(check_flawed<flaw::wrong_in_batches>(), std::runtime_error);
}

TEST(HashTableSuite, RunsEveryExperimentItNames) {
    if (!pick_two_cores().there) GTEST_SKIP() << "two of them take two processors";
    const bool several = with_a_core_each(placed_processors()).size() > 2;  // writers, in two experiments more
    holdfast::test::trial_recorder list({.quick = true, .filter = "1e4 entries of 16", .only = {}});
    list.list_only = true;
    const suite s = hash_table_suite(own_hash_table_kinds());
    s.run(list);
    EXPECT_EQ(list.asked.size(), several ? 16U : 14U);
    EXPECT_TRUE(list.ran.empty()) << "asked for the names only";

    holdfast::test::trial_recorder all({.quick = true, .filter = "1e4 entries of 16", .only = {}}, 30'000);
    s.run(all);
    std::vector<std::string> names;
    for (const auto& [name, subjects] : all.ran) names.push_back(name);
    EXPECT_THAT(names, UnorderedElementsAreArray(list.asked));
    for (const auto& [name, subjects] : all.ran) EXPECT_THAT(subjects.front(), StartsWith("holdfast")) << name;
    for (const std::string name : {"update", "erase one and insert another"})
        EXPECT_THAT(all.ran[name + ", two writers, 1e4 entries of 16 bytes, 4 KiB pages"],
                    ElementsAre("holdfast, two writers", "holdfast, one of two writers", "holdfast, the only writer"));
    EXPECT_THAT(all.ran["find hit, batches of 16, 1e4 entries of 16 bytes, 4 KiB pages"],
                ElementsAre("holdfast", "holdfast, one at a time", "std::unordered_map"));
    EXPECT_THAT(all.ran["find hit beside a writer at full speed, 1e4 entries of 16 bytes, 4 KiB pages"],
                ElementsAre("holdfast", "holdfast, no writer", "std::unordered_map + std::shared_mutex"));
    const std::vector<std::string>& readers =
        all.ran["find hit, several readers at once, 1e4 entries of 16 bytes, 4 KiB pages"];
    ASSERT_GE(readers.size(), 2U);
    EXPECT_EQ(readers[0], "holdfast, 1 reader");
    EXPECT_EQ(readers[1], "holdfast, 2 readers");
    EXPECT_EQ(readers.back(), "holdfast, " + std::to_string(placed_processors().size()) + " readers");
    EXPECT_THAT(all.added["memory of an entry, 1e4 entries of 16 bytes, 4 KiB pages holdfast"],
                AllOf(testing::Gt(18.0), testing::Lt(22.0)));
    EXPECT_GT(all.published, 0U);
    EXPECT_EQ(all.versions.size(), 2U);
    // Of the experiments that take two cores, how far apart those are, and of those that take more, which; of each
    // other one but the reads beside a writer, which are judged in larger tables, what is asked of it beside the one
    // peer that is there.
    const auto are_lines = [&](std::ptrdiff_t count, const testing::Matcher<std::string>& of) {
        EXPECT_EQ(std::ranges::count_if(all.notes, [&](const auto& n) { return testing::Value(n, of); }), count);
    };
    EXPECT_THAT(all.notes, SizeIs(several ? 32 : 28));
    are_lines(several ? 4 : 2, HasSubstr("one cache line there and back took"));
    are_lines(several ? 2 : 0, HasSubstr("at once, 1e4 entries of 16 bytes, 4 KiB pages: on "));
    are_lines(2,
              testing::MatchesRegex(".*beside a writer at full speed, .*: its writer changed [0-9]+[.][0-9]+ million "
                                    "keys a second, .*"));
    are_lines(9, HasSubstr("as fast as others, times: std::unordered_map 1.00 (1.0 asked) (met)"));
    are_lines(9, EndsWith("as fast as others not judged: classic table, 50 levels; geometric table, ratio 0.6; "
                          "absl::flat_hash_map is not there"));
    are_lines(1, AllOf(HasSubstr("as small as others, times: std::unordered_map 1."), EndsWith("(1.0 asked) (met)")));
    are_lines(1, EndsWith("as small as others not judged: classic table, 50 levels; geometric table, ratio 0.6; "
                          "absl::flat_hash_map is not there"));
    are_lines(3, EndsWith("4 KiB pages not judged: boost::unordered_flat_map is not there"));
    are_lines(1, StartsWith("target: memory of an entry, 1e4 entries of 16 bytes, 4 KiB pages at most 20.5 bytes (aim "
                            "19): "));
    EXPECT_THAT(all.skipped, ElementsAre(testing::Pair("1e4 entries of 16 bytes, huge pages",
                                                       "such a table is smaller than one huge page")));
}

// Tells what it is asked to erase.
std::vector<std::uint64_t> erased_keys;

template <class Value>
struct telling_table : standard_table<Value> {
    using standard_table<Value>::standard_table;
    bool erase(std::uint64_t key) {
        erased_keys.push_back(key);
        return standard_table<Value>::erase(key);
    }
};

// Those inserted first lie where a table of levels looks first, so they tell nothing of the others.
TEST(HashTableSuite, ErasesEntriesWhereverTheyWereInserted) {
    erased_keys.clear();
    holdfast::test::trial_recorder r({.quick = true, .filter = "erase, 1e4 entries of 16", .only = {}});
    hash_table_suite({kind_of<telling_table>()}).run(r);
    ASSERT_GE(erased_keys.size(), 1000U);
    const std::vector<std::uint64_t> present = make_keys(10'000, 10'000);
    const std::size_t early =
        static_cast<std::size_t>(std::ranges::count_if(erased_keys, [&, last = present.begin() + 5000](auto key) {
            return std::find(present.begin(), last, key) != last;
        }));
    EXPECT_GT(early, erased_keys.size() * 2 / 5);
    EXPECT_LT(early, erased_keys.size() * 3 / 5);
}

std::string done_to_tables;  // their names and a letter for what, once for each run of the same

void tell(char table, char what) {
    const std::string now = {table, what};
    if (!done_to_tables.ends_with(now)) done_to_tables += now;
}

template <char Name>
struct logged {
    template <class Value>
    struct table : standard_table<Value> {
        using base = standard_table<Value>;
        using base::base;
        bool find(std::uint64_t key, Value& out) const {
            tell(Name, 'f');
            return base::find(key, out);
        }
        bool insert(std::uint64_t key, const Value& v) {
            tell(Name, 'i');
            return base::insert(key, v);
        }
        void clear() {
            tell(Name, 'c');
            base::clear();
        }
    };
};

// What clearing has read, of some tables all and of some next to nothing, is filled faster.
TEST(HashTableFills, EachTableIsReadBeforeItIsEmptiedAndTheOrderChanges) {
    const std::vector<std::uint64_t> all = make_keys(0, 100);
    const auto a = kind_of<logged<'A'>::table>().make(16, {all.size(), page_choice::small});
    const auto b = kind_of<logged<'B'>::table>().make(16, {all.size(), page_choice::small});
    a->load(all), b->load(all);
    const std::vector<table_filling> fillings{{"a", a.get(), &hash_table_subject::insert},
                                              {"b", b.get(), &hash_table_subject::insert}};
    done_to_tables.clear();
    holdfast::test::trial_recorder r({});
    const sampled found = time_fills(r, "fill", fillings, all, {.rounds = 2, .retakes = 0});
    EXPECT_THAT(done_to_tables, testing::AnyOf("AfAcAiBfBcBiBfBcBiAfAcAi", "BfBcBiAfAcAiAfAcAiBfBcBi"));
    EXPECT_THAT(found.names, ElementsAre("a", "b"));
    EXPECT_THAT(found.samples, ElementsAre(SizeIs(2), SizeIs(2)));
    EXPECT_THAT(r.notes, ElementsAre(HasSubstr("of 4 fills lost the processor")));
    EXPECT_GT(r.added["fill a"], 0);

    done_to_tables.clear();
    r.run(fill_experiment("fill", fillings, all));
    EXPECT_EQ(done_to_tables, "AfAcAiBfBcBiAfAcAiBfBcBi");
}

std::atomic<int> changing, reads_beside_a_change;

// Tells when it is asked for a key while it is changed.
template <class Value>
struct guarded_table : standard_table<Value> {
    using base = standard_table<Value>;
    using base::base;
    bool find(std::uint64_t key, Value& out) const {
        if (changing == 0) return base::find(key, out);
        ++reads_beside_a_change;
        return true;
    }
    bool insert(std::uint64_t key, const Value& v) { return changed(base::insert(mark(key), v)); }
    bool update(std::uint64_t key, const Value& v) { return changed(base::update(mark(key), v)); }
    bool erase(std::uint64_t key) { return changed(base::erase(mark(key))); }

 private:
    static std::uint64_t mark(std::uint64_t key) {
        ++changing;
        return key;
    }
    static bool changed(bool done) {
        --changing;
        return done;
    }
};

TEST(HashTableSuite, ATableWithALockIsNeverReadBesideItsWriterWithoutIt) {
    reads_beside_a_change = 0;
    holdfast::test::trial_recorder r({.quick = true, .filter = "full speed, 1e4 entries of 16", .only = {}});
    hash_table_suite({kind_of<guarded_table>()}).run(r);
    EXPECT_THAT(r.ran, SizeIs(1));
    EXPECT_EQ(reads_beside_a_change, 0);
}

// What is said of the experiments of a table of so many entries, without the lines that say that a peer was not there.
template <class Note>
[[nodiscard]] std::vector<std::string> targets_of(std::uint64_t count, page_choice pages, Note note) {
    holdfast::test::trial_recorder r({});
    note(hash_table_targets(count, pages, r));
    std::erase_if(r.notes, [](const std::string& text) { return text.ends_with(" is not there"); });
    return r.notes;
}

TEST(HashTableSuite, SaysWhichTargetsAreMet) {
    const sampled boost{{"holdfast", "boost::unordered_flat_map"}, {{10}, {7}}};
    const auto find = [&](bool hit) {
        return [&, hit](const hash_table_targets& t) { t.note_find("find", hit, boost); };
    };
    EXPECT_THAT(targets_of(10'000, page_choice::small, find(true)),
                ElementsAre("target: find at least 0.65 times as fast as boost::unordered_flat_map (aim 0.9, then "
                            "1.0): 0.70 times, 10.00 ns (met)"));
    EXPECT_THAT(targets_of(1'000'000, page_choice::huge, find(false)),
                ElementsAre(AllOf(HasSubstr("0.8 times as fast"), HasSubstr(" (aim 0.9): "))));
    EXPECT_THAT(targets_of(20'000'000, page_choice::huge, find(false)),
                ElementsAre(AllOf(HasSubstr("0.75 times as fast"), EndsWith("(missed)"))));
    EXPECT_THAT(targets_of(20'000'000, page_choice::small, find(true)), ElementsAre(HasSubstr("0.6 times as fast")));
    EXPECT_THAT(targets_of(20'000'000, page_choice::small, find(false)), IsEmpty());

    // Each of its loads is a subject of its own; another table whose name begins alike is none of them.
    const sampled loads{{"holdfast", "boost::unordered_flat_map", "boost::unordered_flat_map, roomy",
                         "boost::unordered_flat_map_of_another"},
                        {{10}, {7}, {6.3}, {1}}};
    const auto best = [&](const hash_table_targets& t) { t.note_find("find", true, loads); };
    EXPECT_THAT(targets_of(10'000, page_choice::small, best),
                ElementsAre("target: find at least 0.65 times as fast as boost::unordered_flat_map, roomy (aim 0.9, "
                            "then 1.0): 0.63 times, 10.00 ns (missed)"));
    const sampled tight{{"holdfast", "boost::unordered_flat_map, roomy", "boost::unordered_flat_map"},
                        {{10}, {8}, {7}}};
    const auto own_load = [&](const hash_table_targets& t) { t.note_insert("insert", tight); };
    EXPECT_THAT(targets_of(10'000, page_choice::small, own_load),
                ElementsAre(HasSubstr("as fast as boost::unordered_flat_map (aim 1.5): 0.70 times")));
    const sampled roomy{{"holdfast", "boost::unordered_flat_map, roomy"}, {{10}, {8}}};
    const auto only_roomy = [&](const hash_table_targets& t) { t.note_find("find", true, roomy); };
    EXPECT_THAT(targets_of(10'000, page_choice::small, only_roomy),
                ElementsAre(AllOf(HasSubstr("boost::unordered_flat_map, roomy"), EndsWith("(met)"))));

    const sampled others{{"holdfast", "std::unordered_map", "absl::flat_hash_map"}, {{10}, {11}, {9.5}}};
    const auto ahead = [&](const hash_table_targets& t) { t.note_ahead("update", others); };
    EXPECT_THAT(targets_of(10'000, page_choice::small, ahead),
                ElementsAre("target: update as fast as others, times: std::unordered_map 1.10 (1.0 asked); "
                            "absl::flat_hash_map 0.95 (0.9 asked, aim 1.0) (met)"));

    const sampled own{{"holdfast", "holdfast, one at a time"}, {{10}, {13}}};
    const auto batches = [&](const hash_table_targets& t) { t.note_batches("batches", own); };
    EXPECT_THAT(targets_of(10'000, page_choice::small, batches), IsEmpty());
    EXPECT_THAT(targets_of(1'000'000, page_choice::small, batches),
                ElementsAre(AllOf(HasSubstr("1.4 times as fast"), HasSubstr(" (aim 2.0): "), EndsWith("(missed)"))));
    const auto beside = [&](const hash_table_targets& t) { t.note_beside_writer("beside", own); };
    EXPECT_THAT(
        targets_of(1'000'000, page_choice::small, beside),
        ElementsAre(AllOf(HasSubstr("at most 1.5 times the time of"), HasSubstr(" (aim 1.2): "), EndsWith("(met)"))));

    const sampled chased{{"holdfast", "one memory access"}, {{104}, {100}}};
    const auto chain = [&](const hash_table_targets& t) { t.note_chain("chain", chased); };
    EXPECT_THAT(
        targets_of(20'000'000, page_choice::huge, chain),
        ElementsAre(AllOf(HasSubstr("at most 1.05 times the time of"), HasSubstr(" (aim 0.95): "), EndsWith("(met)"))));
    EXPECT_THAT(targets_of(20'000'000, page_choice::small, chain), IsEmpty());
    const auto insert = [&](const hash_table_targets& t) { t.note_insert("insert", boost); };
    EXPECT_THAT(
        targets_of(10'000, page_choice::small, insert),
        ElementsAre(AllOf(HasSubstr("at least 1.0 times as fast"), HasSubstr(" (aim 1.5): "), EndsWith("(missed)"))));
    const sampled ways{
        {"holdfast", "boost::unordered_flat_map", "boost::unordered_flat_map, roomy", "holdfast, 64 at a time"},
        {{10}, {7}, {4}, {5}}};
    const auto both = [&](const hash_table_targets& t) { t.note_insert("insert", ways); };
    EXPECT_THAT(
        targets_of(10'000, page_choice::small, both),
        ElementsAre(EndsWith("(missed)"), AllOf(StartsWith("target: insert, 64 at a time at least 1.0 times as fast as "
                                                           "boost::unordered_flat_map, roomy "),
                                                HasSubstr(": 0.80 times, 5.00 ns (missed)"))));
    const sampled bytes{{"holdfast", "std::unordered_map", "classic table, 50 levels"}, {{20.54}, {32.4}, {17.78}}};
    const auto memory = [&](std::size_t entry_bytes) {
        return [&, entry_bytes](const hash_table_targets& t) { t.note_memory("memory", entry_bytes, bytes); };
    };
    const auto beside_others = AllOf(StartsWith("target: memory as small as others, times: std::unordered_map 1.58 "),
                                     EndsWith("classic table, 50 levels 0.87 (1.0 asked) (missed)"));
    EXPECT_THAT(targets_of(10'000, page_choice::small, memory(16)),
                ElementsAre("target: memory at most 20.5 bytes (aim 19): 20.54 (missed)", beside_others));
    EXPECT_THAT(targets_of(10'000, page_choice::small, memory(64)), ElementsAre(beside_others))
        << "of larger entries no bound is asked";
}

TEST(HashTableSuite, SaysWhichTargetsWereNotJudged) {
    holdfast::test::trial_recorder r({});
    const hash_table_targets targets(1'000'000, page_choice::huge, r);
    targets.note_find("find", true, {{"holdfast", "classic table, 50 levels"}, {{10}, {20}}});
    EXPECT_THAT(r.notes,
                ElementsAre("target: find not judged: boost::unordered_flat_map is not there",
                            "target: find as fast as others, times: classic table, 50 levels 2.00 (1.0 asked) (met)",
                            "target: find as fast as others not judged: std::unordered_map; geometric table, ratio "
                            "0.6; absl::flat_hash_map is not there"));
    r.notes.clear();
    targets.note_find("find", true, {{"holdfast", "boost::unordered_flat_map"}, {{}, {}}});
    EXPECT_THAT(r.notes, IsEmpty()) << "nobody asked for it";
}

// On a machine that leaves this process no millisecond alone there is nothing to tell, and that is told.
TEST(HashTableSuite, TellsWhatAWriterWaitsForWhileItsTableGrows) {
    holdfast::test::trial_recorder r({.quick = true, .filter = {}, .only = {}});
    measure_growth(150'000, page_choice::small, "1.5e5 entries", r);
    EXPECT_THAT(r.asked, testing::Contains("the call that begins a growth, 1.5e5 entries"));
    EXPECT_GT(r.added["the call that begins a growth, 1.5e5 entries holdfast, while it grows"], 0);
    struct subject_of {
        std::string what, of;
    };
    for (const auto& [what, of] : {subject_of{"update", "while it grows"},
                                   {"update", "of many writers, while it grows"},
                                   {"update", "of many writers, one that does not lead"},
                                   {"update", "at rest"},
                                   {"find hit", "while it grows"},
                                   {"find hit", "at rest"}}) {
        if (!pick_two_cores().there && (what == "find hit" || of.ends_with("lead"))) continue;
        const std::string grows = what + " while the table grows, ", subject = "holdfast, " + of;
        const std::string name = grows + "p99.9, 1.5e5 entries";
        const bool told = r.added.contains(name + " " + subject);
        EXPECT_TRUE(told || r.skipped.contains(subject + ": " + name)) << subject;
        if (!told) continue;
        EXPECT_LE(r.added[grows + "p50, 1.5e5 entries " + subject], r.added[name + " " + subject]);
        const auto target = "target: " + name + ", " + subject + " at most 200 us: ";
        EXPECT_EQ(std::ranges::count_if(r.notes, [&](const auto& n) { return n.starts_with(target); }),
                  of == "at rest" ? 0 : 1);
    }
}

TEST(HashTableSuite, TwoWritersHaveLargeEntriesTooAndTellTheirPages) {
    if (!pick_two_cores().there) GTEST_SKIP() << "it takes two processors";
    holdfast::test::trial_recorder r({.quick = true, .seconds = 1e-4, .filter = "update", .only = {}});
    measure_two_writers({entries, page_choice::huge}, 64, "5000 entries", r);
    EXPECT_THAT(r.ran, SizeIs(1));
    EXPECT_GT(r.added["update, two writers, 5000 entries holdfast, two writers"], 0);
    EXPECT_THAT(r.notes, testing::Contains(testing::MatchesRegex(
                             "huge pages obtained, two writers, 5000 entries: the table of two writers [0-9]+ %; "
                             "that of the only writer [0-9]+ %.")));
}

TEST(HashTableSuite, EachSetHasTwoWriters) {
    holdfast::test::trial_recorder list({.quick = false, .filter = "two writers", .only = {}});
    list.list_only = true;
    hash_table_suite(own_hash_table_kinds()).run(list);
    EXPECT_THAT(list.asked, SizeIs(20)) << "ten sets, each asked twice";
    for (const std::string size : {"1e4 entries of 64 bytes, 4 KiB", "2e7 entries of 64 bytes, 4 KiB",
                                   "2e7 entries of 64 bytes, huge", "2e7 entries of 16 bytes, huge"})
        for (const std::string what : {"update", "erase one and insert another"})
            EXPECT_THAT(list.asked, testing::Contains(what + ", two writers, " + size + " pages"));
}

// Of a machine with four cores, one of which shares another's: as many writers as cores, in their order.
TEST(HashTableSuite, SeveralWritersTakeACoreEach) {
    const two_cores here = pick_two_cores();
    if (!here.there) GTEST_SKIP() << "it takes two processors";
    const std::vector<processor> placed{
        {here.near, 0, false}, {here.far, 0, false}, {here.far, 1, false}, {here.near, 0, true}};
    holdfast::test::trial_recorder r({.quick = true, .seconds = 1e-4, .filter = {}, .only = {}});
    measure_several_writers({entries, page_choice::small}, 16, "5000 entries", placed, r);
    for (const std::string what : {"update", "erase one and insert another"}) {
        const std::string name = what + ", several writers at once, 5000 entries";
        EXPECT_THAT(r.ran[name], ElementsAre("holdfast, 1 writer", "holdfast, 2 writers", "holdfast, 3 writers"));
        EXPECT_GT(r.added[name + " holdfast, 3 writers"], 0);
    }
    EXPECT_THAT(r.notes, testing::Contains("several writers at once, 5000 entries: on 2 cores of node 0, 1 of node 1, "
                                           "taken in this order; the table's memory is of node 0"));

    holdfast::test::trial_recorder none({});
    measure_several_writers({entries, page_choice::small}, 16, "5000 entries", std::span(placed).first(2), none);
    EXPECT_THAT(none.asked, IsEmpty()) << "two writers have an experiment of their own";
}

TEST(MemoryPool, HugePagesAreToldForEachSubject) {
    EXPECT_EQ(huge_pages_text("1e6", {{"holdfast", {90, 200, 150}}, {"LMDB", {}}}),
              "huge pages obtained, 1e6: holdfast 75 %; LMDB unknown.");
}

TEST(HashTableSuite, RunsOnlyTheSubjectsAskedFor) {
    holdfast::test::trial_recorder r(
        {.quick = true, .filter = "update, 1e4 entries of 16", .only = {"nothing of that name"}});
    hash_table_suite(own_hash_table_kinds()).run(r);
    ASSERT_EQ(r.ran.size(), 1U);
    EXPECT_THAT(r.ran.begin()->second, ElementsAre("holdfast"));
}

TEST(HashTableSuite, AnotherLoadOfASubjectGoesWithIt) {
    std::vector<hash_table_kind> kinds = own_hash_table_kinds();
    for (const char* const name : {"std::unordered_map, roomy", "std::unordered_map_of_another"}) {
        kinds.push_back(kind_of<standard_table>());
        kinds.back().name = name;
    }
    holdfast::test::trial_recorder r(
        {.quick = true, .filter = "update, 1e4 entries of 16", .only = {"std::unordered_map"}});
    hash_table_suite(kinds).run(r);
    ASSERT_EQ(r.ran.size(), 1U);
    EXPECT_THAT(r.ran.begin()->second, ElementsAre("holdfast", "std::unordered_map", "std::unordered_map, roomy"));
}

TEST(HashTableSuite, AWrongPeerEndsTheRun) {
    std::vector<hash_table_kind> kinds = own_hash_table_kinds();
    kinds.push_back(kind_of<flawed<flaw::forgets>::table>());
    holdfast::test::trial_recorder r({.quick = true, .filter = "find hit, independent, 1e4 entries of 16", .only = {}});
    EXPECT_THROW(hash_table_suite(kinds).run(r), std::runtime_error);
    EXPECT_TRUE(r.ran.empty());
}

TEST(BackgroundWriter, HandsOnWhatAJobThrows) {
    background_writer writer;
    const background_writer::job bad = [] { throw std::runtime_error("broken"); };
    std::atomic<int> runs{0};
    const background_writer::job good = [&runs] { ++runs; };
    EXPECT_THROW(
        {
            writer.work_on(bad);
            writer.rest();
        },
        std::runtime_error);
    EXPECT_NO_THROW(writer.work_on(good));
    EXPECT_NO_THROW(writer.rest());
    const int before = runs;
    EXPECT_GT(before, 0);
    EXPECT_EQ(before, runs) << "it rests";
}

TEST(MemoryPool, KeepsFreedBlocksAndCountsWhatIsInUse) {
    memory_pool pool(page_choice::small);
    void* const small = pool.allocate(40);
    void* const large = pool.allocate(3 << 20);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % 16, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large) % (2 << 20), 0U);
    EXPECT_EQ(pool.use().bytes, 40U + (3 << 20));
    EXPECT_GE(pool.use().mapped_bytes, pool.use().bytes);
    EXPECT_EQ(pool.use().huge_bytes, 0U);
    pool.deallocate(large, 3 << 20);
    pool.deallocate(small, 40);
    EXPECT_EQ(pool.use().bytes, 0U);
    EXPECT_EQ(pool.allocate(3 << 20), large);
    EXPECT_EQ(pool.allocate(48), small) << "both round to 48";
}

TEST(MemoryChase, VisitsEveryLineOnce) {
    memory_chase chase(64 * 1000, page_choice::small);
    std::vector<bool> seen(chase.lines());
    for (std::uint64_t i = 0; i < chase.lines(); ++i) {
        chase.run(1);
        EXPECT_FALSE(seen[chase.at()]);
        seen[chase.at()] = true;
    }
    EXPECT_EQ(chase.at(), 0U);
}

TEST(Keys, AreDistinctNeverZeroAndSetsAreDisjoint) {
    std::vector<std::uint64_t> all = make_keys(0, 20'000);
    const std::vector<std::uint64_t> more = make_keys(20'001, 20'000);
    all.insert(all.end(), more.begin(), more.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
    EXPECT_NE(all.front(), 0U);
}

TEST(Keys, ShuffledAreTheSameInAnotherOrder) {
    std::vector<std::uint64_t> before = make_keys(0, entries), after = shuffled(before, 1);
    EXPECT_NE(after, before);
    EXPECT_EQ(after, shuffled(before, 1));
    EXPECT_NE(after, shuffled(before, 2));
    std::ranges::sort(before);
    std::ranges::sort(after);
    EXPECT_EQ(after, before);
    EXPECT_THAT(shuffled({}, 1), IsEmpty());
}

TEST(Keys, WalkHandsOutSlicesRoundAndRound) {
    const std::vector<std::uint64_t> numbers = {1, 2, 3};
    walk w(numbers);
    const auto sum = [](std::span<const std::uint64_t> part) {
        std::uint64_t s = 0;
        for (const std::uint64_t n : part) s += n;
        return s;
    };
    EXPECT_EQ(w.run(7, sum), 13U);
    EXPECT_EQ(w.run(1, sum), 2U);
}

TEST(Keys, CountsReadAsPeopleWriteThem) {
    EXPECT_EQ(count_text(10'000), "1e4");
    EXPECT_EQ(count_text(20'000'000), "2e7");
    EXPECT_EQ(count_text(500), "500");
    EXPECT_EQ(count_text(385'602), "385602");
}

}  // namespace
