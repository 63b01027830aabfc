// SPDX-License-Identifier: Apache-2.0
// The snapshot, segment and executor suites without a clock: do their bodies find wrong subjects, and does every
// experiment run?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/perf_test/environment.hpp"
#include "support/scale.hpp"
#include "support/trial_recorder.hpp"
#include "support/unique_name.hpp"
#include "workload/executor_suite.hpp"
#include "workload/segment_own.hpp"
#include "workload/segment_suite.hpp"
#include "workload/snapshot_own.hpp"
#include "workload/snapshot_suite.hpp"

namespace {

using namespace holdfast::workload;
using holdfast::test::unique_posix_name;
using testing::ElementsAre;
using testing::IsEmpty;

// An object of so many words, its ends opened and looked at; nothing for an adapter without that size.
std::unique_ptr<snapshot_subject> opened(const snapshot_kind& kind, std::size_t words) {
    auto object = kind.make(
        {.words = words, .name = unique_posix_name().token(), .far_cpu = holdfast::perf_test::usable_cpus().back()});
    if (object) object->open_and_verify();
    return object;
}

TEST(SnapshotKinds, OwnOnesGiveTheNewestVersionWhole) {
    for (const snapshot_kind& kind : own_snapshot_kinds())
        for (const std::size_t words : {2, 5, 512}) {
            std::unique_ptr<snapshot_subject> object;
            ASSERT_NO_THROW(object = opened(kind, words)) << kind.name;
            if (!object) continue;
            for (int i = 0; i < 20; ++i) {
                EXPECT_NO_THROW(object->read(10)) << kind.name;
                EXPECT_NO_THROW(object->look(10)) << kind.name;
                EXPECT_NO_THROW(object->publish(3)) << kind.name;
            }
        }
}

// The lock bit inside std::atomic<std::shared_ptr> of libstdc++ 12 is a race in the eyes of the thread sanitizer.
#if defined(__SANITIZE_THREAD__)
constexpr bool under_thread_sanitizer = true;
#elif defined(__has_feature)
constexpr bool under_thread_sanitizer = __has_feature(thread_sanitizer);
#else
constexpr bool under_thread_sanitizer = false;
#endif

TEST(SnapshotKinds, OwnOnesAreNeverTornBesideAWriter) {
    for (const snapshot_kind& kind : own_snapshot_kinds()) {
        if (under_thread_sanitizer && kind.name == shared_pointer_snapshot::name) continue;
        for (const std::size_t words : {2, 512}) {
            std::unique_ptr<snapshot_subject> object;
            ASSERT_NO_THROW(object = opened(kind, words)) << kind.name;
            if (!object) continue;
            for (const std::uint64_t hz : {0, 100'000}) {
                EXPECT_NO_THROW(object->begin_publishing(hz)) << kind.name;
                EXPECT_NO_THROW(object->read(holdfast::test::scaled(2000))) << kind.name;
                EXPECT_NO_THROW(object->look(holdfast::test::scaled(2000))) << kind.name;
            }
            EXPECT_NO_THROW(object->far().rest()) << kind.name;
        }
    }
}

// Right for the first reads, which open_and_verify() does.
enum class flaw { none, torn_end, torn_middle, goes_back, refuses };

template <flaw Flaw>
struct flawed_snapshot : locked_snapshot {
    using locked_snapshot::locked_snapshot;
    bool read(std::span<std::uint64_t> out) {
        locked_snapshot::read(out);
        if (!broken) return true;
        if (Flaw == flaw::torn_end) out.back() += 1;
        if (Flaw == flaw::torn_middle) out[out.size() / 2] += 1;
        if (Flaw == flaw::goes_back && ++reads % 7 == 0)
            for (std::uint64_t& word : out) word -= 1;
        return Flaw != flaw::refuses;
    }
    bool look(std::uint64_t& sum) {
        locked_snapshot::look(sum);
        if (!broken) return true;
        if (Flaw == flaw::torn_middle) sum += 1;
        return Flaw != flaw::refuses;
    }
    int reads = 0;
    static inline bool broken = false;
};

template <flaw Flaw>
void use_flawed(void (snapshot_subject::*loop)(std::uint64_t)) {
    flawed_snapshot<Flaw>::broken = false;
    const auto object = opened(snapshot_kind_of<flawed_snapshot<Flaw>>(), 32);
    flawed_snapshot<Flaw>::broken = true;
    ((*object).*loop)(20);
}
template <flaw Flaw>
void read_flawed() {
    use_flawed<Flaw>(&snapshot_subject::read);
}
template <flaw Flaw>
void look_at_flawed() {
    use_flawed<Flaw>(&snapshot_subject::look);
}

TEST(SnapshotLoops, SeeEveryFlaw) {
    EXPECT_NO_THROW(read_flawed<flaw::none>());
    EXPECT_NO_THROW(look_at_flawed<flaw::none>());
    EXPECT_THROW(read_flawed<flaw::torn_end>(), std::runtime_error);
    EXPECT_THROW(read_flawed<flaw::torn_middle>(), std::runtime_error);
    EXPECT_THROW(look_at_flawed<flaw::torn_middle>(), std::runtime_error);
    EXPECT_THROW(read_flawed<flaw::goes_back>(), std::runtime_error);
    EXPECT_THROW(read_flawed<flaw::refuses>(), std::runtime_error);
    EXPECT_THROW(look_at_flawed<flaw::refuses>(), std::runtime_error);
}

TEST(SnapshotSuite, RunsEveryExperimentItNamesAndLeavesNothing) {
    if (!pick_two_cores().there) GTEST_SKIP() << "needs: two processors";
    const holdfast::test::unique_directory registry;  // what is made is entered there, and nothing of other runs
    const holdfast::test::scoped_environment place("HOLDFAST_REGISTRY", registry.path());
    const suite s = snapshot_suite(own_snapshot_kinds());
    holdfast::test::trial_recorder list({.quick = true, .filter = "16 bytes", .only = {}});
    list.list_only = true;
    s.run(list);
    EXPECT_EQ(list.asked.size(), 6U);

    holdfast::test::trial_recorder all(
        {.quick = true, .seconds = 0.001, .filter = "16 bytes", .only = {"std::shared_mutex and a copy"}});
    s.run(all);
    EXPECT_EQ(all.ran.size(), 6U);
    EXPECT_EQ(all.published, 1U);
    for (const auto& [name, subjects] : all.ran)
        EXPECT_THAT(subjects, ElementsAre("holdfast", "std::shared_mutex and a copy")) << name;
    EXPECT_THAT(registry.entries(), IsEmpty());
}

TEST(SegmentKinds, OwnOnesMakeFindAndRemove) {
    for (const segment_kind& kind : own_segment_kinds()) {
        const holdfast::test::unique_posix_name name;
        const auto memory = kind.make(name.path().substr(name.directory().size() + 1), 65'536);
        EXPECT_ANY_THROW(memory->attach(1)) << kind.name << " finds what nobody made";
        memory->create();
        EXPECT_NO_THROW(memory->attach(3)) << kind.name;
        EXPECT_ANY_THROW(memory->create()) << kind.name << " makes it twice";
        memory->remove();
        EXPECT_ANY_THROW(memory->attach(1)) << kind.name << " finds what was removed";
        EXPECT_NO_THROW(memory->create_and_remove(2)) << kind.name;
    }
}

TEST(SegmentSuite, RunsEveryExperimentAndLeavesNothing) {
    const holdfast::test::unique_directory registry;  // what is made is entered there, and nothing of other runs
    const holdfast::test::scoped_environment place("HOLDFAST_REGISTRY", registry.path());
    const suite s = segment_suite(own_segment_kinds());
    holdfast::test::trial_recorder all({.quick = true, .filter = "64 KiB", .only = {}}, 5);
    s.run(all);
    EXPECT_EQ(all.ran.size(), 2U);
    for (const auto& [name, subjects] : all.ran) EXPECT_EQ(subjects.size(), 3U) << name;
    EXPECT_THAT(registry.entries(), IsEmpty());
}

TEST(ExecutorKinds, OwnOnesKeepTheOrderOfEachKey) {
    for (const executor_kind& kind : own_executor_kinds())
        for (const unsigned workers : {1U, 3U}) {
            const auto pool = kind.make({.workers = workers, .keys = 7});
            for (const std::uint64_t tasks : {1, 6, 7, 8, 5000}) EXPECT_NO_THROW(pool->run(tasks)) << kind.name;
            EXPECT_LE(pool->wait_behind(200, 20).tasks, 200U) << kind.name;
        }
}

// Runs a task when the next comes: in order, or two in the wrong one, or not all of them.
template <int Flaw>
struct flawed_executor {
    static constexpr std::string_view name = "flawed";
    static std::string version() { return "1"; }
    explicit flawed_executor(const executor_request&) {}
    template <class Task>
    void post(std::size_t, Task&& task) {
        if (Flaw == 1 && ++posted == 2) {
            held = std::forward<Task>(task);
            return;
        }
        if (Flaw == 2 && ++posted == 2) return;
        task();
        if (held) std::exchange(held, nullptr)();
    }
    std::function<void()> held;
    int posted = 0;
};

TEST(ExecutorKinds, OneThatIsWrongIsFound) {
    EXPECT_NO_THROW(executor_kind_of<flawed_executor<0>>().make({})->run(5));
    EXPECT_THROW(executor_kind_of<flawed_executor<1>>().make({})->run(5), std::runtime_error);
    EXPECT_THROW(executor_kind_of<flawed_executor<2>>().make({})->run(5), std::runtime_error);
}

TEST(ExecutorSuite, RunsEveryExperimentAndJudgesItsTargets) {
    std::vector<executor_kind> kinds = own_executor_kinds();
    kinds.push_back(kinds.back());
    kinds.back().name = "boost::asio::strand";  // whose name the targets go by
    holdfast::test::trial_recorder all({.quick = true, .filter = "", .only = {"boost::asio::strand"}});
    executor_suite(kinds).run(all);
    EXPECT_EQ(all.ran.size(), 7U);
    for (const auto& [name, subjects] : all.ran) EXPECT_EQ(subjects.front(), "holdfast") << name;
    EXPECT_THAT(all.notes, testing::Contains(testing::HasSubstr("in the median over the 6 experiments: 1.00 times")));
    EXPECT_THAT(all.notes, testing::Contains(testing::HasSubstr("a tenth of that of boost::asio::strand")));
}

}  // namespace
