// SPDX-License-Identifier: Apache-2.0
// Every peer that was compiled in does what its adapter promises.
#include "bench/peers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "bench/peers/sequence_lock.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/perf_test/do_not_optimize.hpp"
#include "holdfast/perf_test/interleaved.hpp"
#include "support/hash_table_kinds.hpp"
#include "support/trial_recorder.hpp"
#include "support/unique_name.hpp"
#include "workload/run_names.hpp"
#include "workload/shared_pages.hpp"

namespace holdfast::test {

std::vector<workload::hash_table_kind> peers_alone() {
    std::vector<bench::absent_peer> absent;
    std::vector<workload::hash_table_kind> kinds = bench::hash_table_kinds(absent);
    // Ours, the standard library's and those written for the comparison have tests of their own.
    std::erase_if(kinds, [](const workload::hash_table_kind& kind) {
        return kind.name == "holdfast" || kind.name.starts_with("std::") ||
               kind.name.find("table,") != std::string::npos;
    });
    return kinds;
}

INSTANTIATE_TEST_SUITE_P(Peers, HashTableKinds, testing::ValuesIn(parameters_of(peers_alone())), text_of);

}  // namespace holdfast::test

namespace {

using namespace holdfast;

workload::suite suite_of(const std::string& name) {
    for (const workload::suite& s : bench::suites())
        if (s.name == name) return s;
    throw std::runtime_error("no suite " + name);
}

// Every body finds wrong answers by itself (tests/unit/workload_*); so running all of them once is a test of all peers.
TEST(BenchSuites, RunEveryPeerOnce) {
    const struct {
        const char *suite, *filter;
        std::size_t subjects;
    } runs[] = {{"snapshot", "16 bytes", 5},
                {"sorted_index", "2e3 keys", 3},
                {"segment", "64 KiB", 3},
                {"block_store", "1000 values of 100 bytes", 2},  // that many can be read beside a writer
                {"hash_map", "1000 values of 100 bytes", 2},
                {"executor", "worker", 3}};
    for (const auto& run : runs) {
        test::trial_recorder r({.quick = true, .seconds = 0.0001, .filter = run.filter, .only = {}}, 2000);
        EXPECT_NO_THROW(suite_of(run.suite).run(r)) << run.suite;
        EXPECT_FALSE(r.ran.empty()) << run.suite;
        for (const auto& [name, subjects] : r.ran) EXPECT_GE(subjects.size(), run.subjects) << name;
    }
}

// A yardstick that copies word by word takes four times as long, and says nothing of what a version costs.
TEST(SequenceLock, ReadsAsFastAsItsObjectIsCopied) {
    constexpr std::size_t words = 512;
    bench::sequence_lock lock({.words = words, .name = "", .far_cpu = 0});
    workload::word_buffer out(words);
    ASSERT_TRUE(lock.publish(out.span()));
    const workload::shared_pages bare(64 + words * 8);  // as far into a page as the lock's object
    perf_test::interleaved_options timing;
    timing.seconds = 0.02;
    const auto found =
        perf_test::measure_interleaved({{"copy",
                                         [&](std::uint64_t times) {
                                             for (; times > 0; --times) {
                                                 detail::copy_from_shared(reinterpret_cast<std::byte*>(out.data()),
                                                                          bare.bytes().data() + 64, words * 8);
                                                 perf_test::do_not_optimize(out.data());
                                             }
                                         },
                                         {},
                                         0},
                                        {"lock",
                                         [&](std::uint64_t times) {
                                             for (; times > 0; --times)
                                                 perf_test::do_not_optimize(lock.read(out.span()));
                                         },
                                         {},
                                         0}},
                                       timing);
    EXPECT_LT(found.ratio(0, 1).ratio, 1.5);
}

// Those that take two cores: every message of each peer is compared once, both ways, and so is every loss.
TEST(BenchSuites, EveryChannelDeliversWhatIsSent) {
    const workload::two_cores cores = workload::pick_two_cores();
    if (!cores.there) GTEST_SKIP() << "it takes two processors";
    const test::unique_directory registry;
    const test::scoped_environment place("HOLDFAST_REGISTRY", registry.path());
    std::vector<bench::absent_peer> absent;
    auto kinds = bench::queue_kinds(absent);
    for (auto& kind : bench::broadcast_kinds(absent)) kinds.push_back(std::move(kind));
    std::erase_if(kinds, [](const workload::channel_kind& kind) {  // they have tests of their own
        return kind.name.starts_with("holdfast") || kind.name.starts_with("std::") || kind.name == "pipe" ||
               kind.name == "unix socket";
    });
    constexpr struct {
        std::size_t bytes, batch;
    } forms[] = {{8, 1}, {64, 8}, {1024, 2}};
    const std::string prefix = "holdfast-test-peers-" + std::to_string(::getpid()) + "-";
    int made = 0;
    for (const workload::channel_kind& kind : kinds)
        for (const auto& form : forms) {
            const std::string name = prefix + std::to_string(++made);
            const auto channel =
                kind.make(form.bytes, {.ring_bytes = 65'536, .name = name, .batch = form.batch, .far_cpu = cores.far});
            ASSERT_NE(channel, nullptr) << kind.name;
            EXPECT_NO_THROW(channel->open_and_verify(true)) << kind.name << form.bytes;
            EXPECT_NO_THROW(channel->stream(256)) << kind.name << form.bytes;
            EXPECT_NO_THROW(channel->add_up(256)) << kind.name << form.bytes;
            EXPECT_NO_THROW(channel->echo(20)) << kind.name << form.bytes;
            if (kind.lossy) {
                EXPECT_NO_THROW(channel->publish(8192)) << kind.name << form.bytes;
            }
        }
    EXPECT_THAT(registry.entries(), testing::IsEmpty());
    for (const auto& entry : std::filesystem::directory_iterator(workload::run_names::shared_folder()))
        EXPECT_FALSE(entry.path().filename().string().starts_with(prefix)) << entry.path();
}

TEST(BenchSuites, EveryArrayGivesBackWhatIsStored) {
    const workload::two_cores cores = workload::pick_two_cores();
    if (!cores.there) GTEST_SKIP() << "it takes two processors";
    std::vector<bench::absent_peer> absent;
    for (const workload::array_kind& kind : bench::array_kinds(absent)) {
        const auto array = kind.make(
            64, {.size = 100, .name = "holdfast-test-peers-" + std::to_string(::getpid()), .far_cpu = cores.far});
        EXPECT_NO_THROW(array->open_and_verify()) << kind.name;
        if (!kind.beside_writer) continue;
        array->begin_stores(1'000'000);
        EXPECT_NO_THROW(array->load(20'000)) << kind.name;
        array->far().rest();
    }
}

TEST(BenchSuites, EveryStoreAndMapIsReadWholeBesideItsWriter) {
    const workload::two_cores cores = workload::pick_two_cores();
    if (!cores.there) GTEST_SKIP() << "it takes two processors";
    const test::unique_directory registry;
    const test::scoped_environment place("HOLDFAST_REGISTRY", registry.path());
    std::vector<bench::absent_peer> absent;
    const std::string name = "holdfast-test-peers-" + std::to_string(::getpid());
    for (const workload::block_store_kind& kind : bench::block_store_kinds(absent)) {
        const auto store = kind.make({.values = 100, .value_bytes = 100, .name = name, .far_cpu = cores.far});
        EXPECT_NO_THROW(store->replace(200)) << kind.name;
        if (!store->beside_writer()) continue;
        store->begin_replacing(100'000);
        EXPECT_NO_THROW(store->read_beside(20'000)) << kind.name;
        EXPECT_NO_THROW(store->replace(1)) << kind.name;
    }
    for (const workload::hash_map_kind& kind : bench::hash_map_kinds(absent)) {
        const auto map = kind.make({.entries = 100, .value_bytes = 100, .name = name, .far_cpu = cores.far});
        EXPECT_NO_THROW(map->set(200)) << kind.name;
        if (!map->beside_writer()) continue;
        map->begin_setting(100'000);
        EXPECT_NO_THROW(map->find_beside(20'000)) << kind.name;
        EXPECT_NO_THROW(map->set(1)) << kind.name;
    }
    EXPECT_THAT(registry.entries(), testing::IsEmpty());
}

// Each method of the metrics suite that another language or library brings, on latencies whose p99 is known.
TEST(BenchSuites, PercentileMethodsAnswer) {
    std::vector<bench::absent_peer> absent;
    const auto kinds = bench::metrics_kinds(absent);
    std::vector<std::uint64_t> latencies(100'000);
    for (std::size_t i = 0; i < latencies.size(); ++i) latencies[i] = 1000 + (i * 7919) % latencies.size();
    for (const workload::metrics_kind& kind : kinds) {
        const auto method = kind.make(0.99, latencies.size());
        method->record(latencies);
        EXPECT_NEAR(method->quantile(0.99), 100'000, 5000) << kind.name;
        EXPECT_GT(method->bytes(), 0U) << kind.name;
    }
    for (const bench::absent_peer& peer : absent) EXPECT_FALSE(peer.reason.empty()) << peer.name;
    // Six of our own and the textbooks'; of the registries, five from Rust and two from C, or their names.
    EXPECT_GE(kinds.size() + absent.size(), 6 + 4 + 1U);
}

TEST(BenchSuites, PeersAreThereOrNamedAsAbsent) {
    std::vector<bench::absent_peer> absent;
    EXPECT_EQ(bench::hash_table_kinds(absent).size() + absent.size(), 9U);
    absent.clear();
    EXPECT_EQ(bench::snapshot_kinds(absent).size() + absent.size(), 9U);
    absent.clear();
    EXPECT_EQ(bench::sorted_index_kinds(absent).size() + absent.size(), 7U);
    absent.clear();
    EXPECT_EQ(bench::segment_kinds(absent).size() + absent.size(), 4U);
    absent.clear();
    EXPECT_EQ(bench::array_kinds(absent).size() + absent.size(), 4U);
    absent.clear();
    EXPECT_EQ(bench::block_store_kinds(absent).size() + absent.size(), 5U);
    absent.clear();
    EXPECT_EQ(bench::hash_map_kinds(absent).size() + absent.size(), 6U);
    absent.clear();
    EXPECT_EQ(bench::executor_kinds(absent).size() + absent.size(), 4U);
    for (const bench::absent_peer& peer : absent) EXPECT_THAT(peer.reason, testing::HasSubstr("install")) << peer.name;
    absent.clear();
    EXPECT_EQ(bench::queue_kinds(absent).size() + absent.size(), 7 + 11 + 8U);
    absent.clear();
    EXPECT_EQ(bench::broadcast_kinds(absent).size() + absent.size(), 4 + 1 + 2U);
    for (const bench::absent_peer& peer : absent) EXPECT_FALSE(peer.reason.empty()) << peer.name;
}

}  // namespace
