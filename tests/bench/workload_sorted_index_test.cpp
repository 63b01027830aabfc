// SPDX-License-Identifier: Apache-2.0
// The sorted index suite without a clock: does its check find wrong indexes, and does every experiment run?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/trial_recorder.hpp"
#include "workload/sorted_index_own.hpp"
#include "workload/sorted_index_suite.hpp"

namespace {

using namespace holdfast::workload;
using testing::ElementsAre;

enum class flaw { none, forgets, invents, mixes_values, covers_gaps, scans_short };

/// std::lower_bound, wrong in one way for some keys.
template <flaw Flaw>
struct flawed {
    template <class K>
    struct index : binary_search_index<K> {
        using binary_search_index<K>::binary_search_index;
        bool find(K wanted, index_value<K>& out) {
            const bool found = binary_search_index<K>::find(wanted, out);
            if (Flaw == flaw::forgets && wanted % 64 == 0) return false;
            if (Flaw == flaw::invents && wanted % 64 == 0) return true;
            if (Flaw == flaw::mixes_values && wanted % 64 == 0) ++out.number;
            return found;
        }
        bool cover(K wanted, index_value<K>& out) {
            return binary_search_index<K>::cover(wanted, out) || (Flaw == flaw::covers_gaps && wanted % 64 == 0);
        }
        std::uint64_t scan(K from, std::uint64_t count) {
            return binary_search_index<K>::scan(from, Flaw == flaw::scans_short ? count - 1 : count);
        }
    };
};

template <class K>
index_records<K> records_of(std::vector<K>& absent) {
    index_records<K> records;
    for (K i = 0; i < 1000; ++i) {
        records.keys.push_back(static_cast<K>(i * 40 + 24));
        records.values.push_back({static_cast<K>(i * 40 + 31), i});
        absent.push_back(static_cast<K>(i * 40 + 32));
    }
    return records;
}

template <class K>
void check(const sorted_index_kind& kind) {
    std::vector<K> absent;
    const index_records<K> records = records_of(absent);
    const auto index = kind.make<K>(records, page_choice::small);
    index->check(records, absent);
    for (const auto loop : {&sorted_index_subject<K>::find, &sorted_index_subject<K>::find_chained,
                            &sorted_index_subject<K>::find_batched}) {
        EXPECT_EQ((index.get()->*loop)(records.keys), records.keys.size()) << kind.name;
        EXPECT_EQ((index.get()->*loop)(absent), 0U) << kind.name;
    }
    EXPECT_EQ(index->cover(records.keys), index->ordered() ? records.keys.size() : 0) << kind.name;
    EXPECT_EQ(index->cover_chained(records.keys), index->ordered() ? records.keys.size() : 0) << kind.name;
    EXPECT_GE(index->memory().bytes, records.keys.size() * 3 * sizeof(K)) << kind.name;
}

TEST(SortedIndexKinds, OwnOnesAreRight) {
    for (const sorted_index_kind& kind : own_sorted_index_kinds()) {
        check<std::uint32_t>(kind);
        check<std::uint64_t>(kind);
    }
}

TEST(SortedIndexCheck, SeesEveryFlaw) {
    EXPECT_NO_THROW(check<std::uint64_t>(index_kind_of<flawed<flaw::none>::index>()));
    EXPECT_THROW(check<std::uint64_t>(index_kind_of<flawed<flaw::forgets>::index>()), std::runtime_error);
    EXPECT_THROW(check<std::uint64_t>(index_kind_of<flawed<flaw::invents>::index>()), std::runtime_error);
    EXPECT_THROW(check<std::uint64_t>(index_kind_of<flawed<flaw::mixes_values>::index>()), std::runtime_error);
    EXPECT_THROW(check<std::uint64_t>(index_kind_of<flawed<flaw::covers_gaps>::index>()), std::runtime_error);
    EXPECT_THROW(check<std::uint64_t>(index_kind_of<flawed<flaw::scans_short>::index>()), std::runtime_error);
}

TEST(SortedIndexSuite, RunsEveryExperimentItNames) {
    const suite s = sorted_index_suite(own_sorted_index_kinds());
    holdfast::test::trial_recorder list({.quick = true, .filter = "2e3 keys", .only = {}});
    list.list_only = true;
    s.run(list);
    EXPECT_EQ(list.asked.size(), 20U) << "ten for each width of keys";

    holdfast::test::trial_recorder all({.quick = true, .filter = "2e3 keys", .only = {}}, 70'000);
    s.run(all);
    ASSERT_EQ(all.ran.size(), list.asked.size());
    for (const auto& [name, subjects] : all.ran) {
        EXPECT_TRUE(list.asked.contains(name)) << name;
        if (name.starts_with("find hit, batches")) {  // batches beside single finds of our own
            EXPECT_THAT(subjects, ElementsAre("holdfast", "holdfast, one at a time", "std::lower_bound", "std::map"));
        } else {
            EXPECT_THAT(subjects, ElementsAre("holdfast", "std::lower_bound", "std::map")) << name;
        }
    }
    EXPECT_TRUE(all.ran.contains("find miss, independent, 2e3 keys of 32 bits, 4 KiB pages"));
    EXPECT_THAT(all.added["memory of a record, 2e3 keys of 64 bits, 4 KiB pages std::lower_bound"],
                testing::DoubleEq(24));
}

/// Finds keys that are not there, but only once the suite has checked it: in the timed loop.
template <class K>
struct invents_later : binary_search_index<K> {
    using binary_search_index<K>::binary_search_index;
    bool find(K wanted, index_value<K>& out) {
        const bool found = binary_search_index<K>::find(wanted, out);
        misses += found ? 0 : 1;
        return found || misses > 100'000;
    }
    std::uint64_t misses = 0;
};

TEST(SortedIndexSuite, AMissThatIsFoundInTheTimedLoopEndsIt) {
    const suite s = sorted_index_suite({index_kind_of<invents_later>()});
    holdfast::test::trial_recorder all({.quick = true, .filter = "find miss, independent, 2e3 keys", .only = {}},
                                       500'000);
    EXPECT_THROW(s.run(all), std::runtime_error);
}

}  // namespace
