// SPDX-License-Identifier: Apache-2.0
// A table grows, or shrinks, and its writer dies. Attacked: "a growth that was not over has not happened", "readers
// never miss a key and never see an older value", "nobody has to repair anything", "no file and no memory is left
// behind". The mover is killed at each system call and stopped at each instruction; each of its system calls fails;
// writers that grow and shrink by name are killed at random instants beside a reader that follows.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "holdfast/hash_table/growing.hpp"
#include "holdfast/hash_table/many.hpp"
#include "support/capability.hpp"
#include "support/hash_table_model.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/system_call_faults.hpp"
#include "support/table_answer.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

using key = wide_shape::key;
using value = wide_shape::value;
using table = growing_hash_table<key, value>;
using reader = growing_hash_table_reader<key, value>;
using u64 = std::uint64_t;

template <class Table>
std::string damage_of(const Table& of) {
    std::string text;
    const auto seen = of.verify([&](const hash_table_finding& f) {
        text += std::string(describe(f.what)) + " at slot " + std::to_string(f.slot) + "; ";
        return text.size() < 1000;
    });
    return seen.busy == 0 ? text : text + "not all could be compared";
}

/// Which way a table goes, and whether its next generation has no name until the commit.
struct way {
    bool grows, unnamed;
};
constexpr auto any_way = [](const auto& made) {
    return std::string(made.param.unnamed ? "unnamed" : "fallback") + (made.param.grows ? "" : "_shrinking");
};
constexpr auto direction = [](const auto& made) { return made.param.grows ? "growing" : "shrinking"; };

// What lies under the name is a whole table of one of two capacities, with all entries.
class GrowthDeath : public segment_test, public ::testing::WithParamInterface<way> {
 protected:
    static constexpr u64 entries = 60;
    const u64 old_capacity = GetParam().grows ? 60U : 200U, new_capacity = GetParam().grows ? 200U : 60U;

    void make() {
        for (const std::string& entry : disk_.entries()) ::unlink(disk_.file(entry).c_str());
        table t = table::create(uri(), {.capacity = old_capacity});
        for (u64 n = 0; n < entries; ++n) (void)t.try_insert(nth_key<wide_shape>(n), stamped_value<wide_shape>(n, 1));
        reader_.emplace(reader::attach(uri()));
    }
    // Updates on the way: each is done in both tables once its entry was copied.
    void grow() const {
        if (!GetParam().unnamed && !refuse_unnamed_files()) ::_exit(2);
        table t = table::attach(uri());
        t.grow(new_capacity);
        for (u64 i = 0; t.growing(); ++i)
            (void)t.update(nth_key<wide_shape>(i % entries), stamped_value<wide_shape>(i % entries, 2));
        if (t.growth_failure()) throw error(*t.growth_failure());
    }
    // `from`: any reader or writer of the table.
    template <class From>
    [[nodiscard]] static std::string missing_in(From& from) {
        for (u64 n = 0; n < entries; ++n) {
            const auto found = from.find(nth_key<wide_shape>(n));
            if (!found) return "key " + std::to_string(n) + " is missing";
            const auto stamp = stamp_of<wide_shape>(n, *found);
            if (!stamp || *stamp == 0 || *stamp > 2) return "key " + std::to_string(n) + " has a torn value";
        }
        return from.size() == entries ? "" : "the size is " + std::to_string(from.size());
    }
    [[nodiscard]] std::string alive() {
        if (std::string text = missing_in(*reader_); !text.empty()) return "a reader that follows: " + text;
        reader fresh = reader::attach(uri());
        if (std::string text = missing_in(fresh); !text.empty()) return "a reader that comes now: " + text;
        return reader_->fault() || fresh.fault() ? "a reader latched a fault" : "";
    }
    [[nodiscard]] std::string after_death() {
        if (std::string text = alive(); !text.empty()) return text;
        const u64 capacity = reader_->capacity();
        if (capacity != old_capacity && capacity != new_capacity) return "neither the old table nor the new one";
        const ended next = in_child([&] { return next_writer(capacity); });
        if (!next.success()) return "the next writer: " + next.text();
        if (std::string text = missing_in(*reader_); !text.empty()) return "after the next growth: " + text;
        if (reader_->capacity() != new_capacity + 100) return "the reader does not follow the next growth";
        for (const std::string& entry : disk_.entries())
            if (entry != "t" && entry != "t.lease") return "left behind: " + entry;
        return {};
    }
    // Finds that generation whole, and grows again; a hidden file is swept by then.
    [[nodiscard]] std::string next_writer(u64 capacity) const {
        if (!GetParam().unnamed && !refuse_unnamed_files()) return "no seccomp";
        table next = table::attach(uri());
        if (next.capacity() != capacity) return "it has another generation than the reader";
        if (next.segment().moved()) return "the mark is still there";
        if (std::string text = missing_in(next); !text.empty()) return text;
        if (std::string text = damage_of(next); !text.empty()) return "verify(): " + text;
        for (const std::string& entry : disk_.entries())
            if (entry.ends_with(".growing")) return "left behind: " + entry;
        next.grow(new_capacity + 100);
        while (next.advance()) {
        }
        return next.growth_failure() ? next.growth_failure()->what() : "";
    }
    [[nodiscard]] std::string uri() const { return disk_.file_uri("t"); }

    unique_directory disk_{"growth"};
    std::optional<reader> reader_;
};

class GrowthFailure : public GrowthDeath {};

TEST_P(GrowthDeath, AtAnySystemCallLeavesTheOldTableOrTheNew) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    u64 grown = 0;
    const step_report report = kill_at_every_system_call([&] { make(); }, [&] { grow(); }, [&] { return alive(); },
                                                         [&] {
                                                             grown += reader_->capacity() == new_capacity ? 1 : 0;
                                                             return after_death();
                                                         });
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.steps, 50U);
    EXPECT_GT(grown, 0U);
    RecordProperty("kills", std::to_string(report.steps));
    std::printf("%llu stops at system calls, each a kill; %llu behind the commit\n",
                static_cast<unsigned long long>(report.steps), static_cast<unsigned long long>(grown));
}

// Whatever fails, the growth is over or given up, by the writer that lives on.
TEST_P(GrowthFailure, AnySystemCallThatFailsLeavesTheOldTableOrTheNew) {
    if (!can_trace() || sanitized || !can_fail_system_calls)
        GTEST_SKIP() << "needs: ptrace on x86-64 and a build without sanitizers";
    struct fault {
        int number;
        fault_span span;
    };
    for (const auto& [number, span] : {fault{EIO, fault_span::once}, fault{ENOSPC, fault_span::for_good}}) {
        u64 given_up = 0;
        const step_report report = fail_each_system_call(
            number, span,
            [&] {
                make();
                reader_.reset();  // the child's copy would be something left open
            },
            [&]() -> int {
                if (!GetParam().unnamed && !refuse_unnamed_files()) return 2;
                try {
                    table t = table::attach(uri());
                    try {
                        t.grow(new_capacity);
                    } catch (const error&) {
                        return missing_in(t).empty() ? 1 : 3;
                    }
                    for (u64 i = 0; t.growing(); ++i)
                        if (!(t.update(nth_key<wide_shape>(i % entries), stamped_value<wide_shape>(i % entries, 2))))
                            return 4;
                    if (!missing_in(t).empty() || !damage_of(t).empty()) return 5;
                    // What cannot be taken away stays marked; here it can be.
                    if (span == fault_span::once && t.segment().moved() && !t.growth_failure()) return 6;
                    return t.growth_failure() ? 1 : t.capacity() == new_capacity ? 0 : 7;
                } catch (const error&) {
                    return 1;  // could not even attach
                }
            },
            [](long call) {
                // Calls whose failure no program survives or that cannot fail, and the test's own.
                for (const long spared : {SYS_munmap, SYS_close, SYS_brk, SYS_futex, SYS_rt_sigprocmask, SYS_exit_group,
                                          SYS_prctl, SYS_seccomp})
                    if (call == spared) return false;
                return true;
            },
            [&](const faulted_run& run) -> std::string {
                if (!run.uncaught.empty()) return run.uncaught;
                if (!run.left_open.empty()) return "left open: " + run.left_open;
                if (run.result > 1) return "the writer found wrong " + std::to_string(run.result);
                given_up += run.result == 1 ? 1 : 0;
                reader_.emplace(reader::attach(uri()));
                return after_death();
            });
        EXPECT_EQ(report.failure, "");
        EXPECT_GT(report.steps, 30U);
        EXPECT_GT(given_up, 10U);
        std::printf("errno %d, %s: %llu calls failed, %llu growths were not begun or given up\n", number,
                    span == fault_span::once ? "once" : "for good", static_cast<unsigned long long>(report.steps),
                    static_cast<unsigned long long>(given_up));
    }
}

const auto all_ways = ::testing::Values(way{true, true}, way{true, false}, way{false, true}, way{false, false});
INSTANTIATE_TEST_SUITE_P(Files, GrowthDeath, all_ways, any_way);
INSTANTIATE_TEST_SUITE_P(Files, GrowthFailure, all_ways, any_way);

// The same of many writers: one leads, another is attached all the time, and whoever comes ends what was begun.
class ManyGrowthDeath : public segment_test, public ::testing::WithParamInterface<way> {
 protected:
    using many = hash_table<key, value, writers::many>;
    static constexpr u64 entries = 60;
    // Of several stripes.
    const u64 old_capacity = GetParam().grows ? 4'000U : 6'000U, new_capacity = GetParam().grows ? 6'000U : 4'000U;

    void make() {
        other_.reset();
        for (const std::string& entry : disk_.entries()) ::unlink(disk_.file(entry).c_str());
        many t = many::create(uri(), {.capacity = old_capacity, .writer_slots = 8});
        for (u64 n = 0; n < entries; ++n) (void)t.try_insert(nth_key<wide_shape>(n), stamped_value<wide_shape>(n, 1));
        reader_.emplace(reader::attach(uri()));
        other_.emplace(many::attach(uri()));
    }
    static bool update(many& by, u64 i, u64 stamp) {
        return by.update(nth_key<wide_shape>(i % entries), stamped_value<wide_shape>(i % entries, stamp)).status ==
               outcome::ok;
    }
    void lead() const {
        many t = many::attach(uri());
        t.grow(new_capacity);
        for (u64 i = 0; t.growing(); ++i)
            if (!update(t, i, 2)) ::_exit(4);
        if (t.growth_failure()) throw error(*t.growth_failure());
    }
    // Steps amid the growth of these tables: the stripes are open, some of it is carried.
    static constexpr u64 amid[] = {2, 12};
    void lead_until_stopped(u64 steps) const {
        many t = many::attach(uri());
        t.grow(new_capacity);
        (void)t.advance(steps);
        if (!t.growing()) throw std::runtime_error("the growth ended before it was stopped");
        t.stop_growing();
        for (u64 i = 0; i < entries; ++i)
            if (!update(t, i, 2)) ::_exit(4);
    }
    void lead_until_killed(u64 steps) const {
        const ended leader = in_child([&] {
            many t = many::attach(uri());
            t.grow(new_capacity);
            (void)t.advance(steps);
            ::raise(SIGKILL);
        });
        if (!leader.signalled || leader.signal != SIGKILL) throw std::runtime_error("the leader: " + leader.text());
    }
    // `from`: any reader or writer of the table.
    [[nodiscard]] static std::string missing_in(auto& from) {
        for (u64 n = 0; n < entries; ++n) {
            const auto found = from.find(nth_key<wide_shape>(n));
            if (!found) return "key " + std::to_string(n) + " is missing";
            const auto stamp = stamp_of<wide_shape>(n, *found);
            if (!stamp || *stamp == 0 || *stamp > 4) return "key " + std::to_string(n) + " has a torn value";
        }
        return from.size() == entries ? "" : "the size is " + std::to_string(from.size());
    }
    [[nodiscard]] std::string alive() {
        if (std::string text = missing_in(*reader_); !text.empty()) return "a reader that follows: " + text;
        reader fresh = reader::attach(uri());
        if (std::string text = missing_in(fresh); !text.empty()) return "a reader that comes now: " + text;
        return reader_->fault() || fresh.fault() ? "a reader latched a fault" : "";
    }
    [[nodiscard]] std::string after_death() {
        if (std::string text = alive(); !text.empty()) return text;
        const ended next = in_child([&] { return next_writer(); });
        if (!next.success()) return "the next writer: " + next.text();
        for (u64 i = 0; i < entries; ++i)
            if (!update(*other_, i, 4)) return "one that was attached is refused";
        if (std::string text = missing_in(*reader_); !text.empty()) return "after the next growth: " + text;
        if (reader_->capacity() != new_capacity + 100) return "the reader does not follow the next growth";
        if (std::string text = damage_of(*other_); !text.empty()) return "verify() by one that was attached: " + text;
        for (const std::string& entry : disk_.entries())
            if (entry != "t" && entry != "t.lease") return "left behind: " + entry;
        return {};
    }
    // Changes entries as it finds the table, ends what was begun, and grows again.
    [[nodiscard]] std::string next_writer() const {
        many next = many::attach(uri());
        if (std::string text = missing_in(next); !text.empty()) return text;
        for (u64 i = 0; i < entries; ++i)
            if (!update(next, i, 3)) return "it is refused";
        while (next.advance()) {
        }
        if (next.growth_failure()) return next.growth_failure()->what();
        if (next.capacity() != old_capacity && next.capacity() != new_capacity) return "it has another capacity";
        if (std::string text = damage_of(next); !text.empty()) return "verify(): " + text;
        for (const std::string& entry : disk_.entries())
            if (entry.ends_with(".growing")) return "left behind: " + entry;
        if (next.segment().moved()) return "the mark is still there";
        next.grow(new_capacity + 100);
        while (next.advance()) {
        }
        return next.growth_failure() ? next.growth_failure()->what() : "";
    }
    [[nodiscard]] std::string uri() const { return disk_.file_uri("t"); }

    unique_directory disk_{"many-growth"};
    std::optional<reader> reader_;
    std::optional<many> other_;
};

class ManyGrowthFailure : public ManyGrowthDeath {};

TEST_P(ManyGrowthDeath, AtAnySystemCallLosesNothingAndIsEndedByOthers) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    const step_report report = kill_at_every_system_call([&] { make(); }, [&] { lead(); }, [&] { return alive(); },
                                                         [&] { return after_death(); });
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.steps, 50U);
    RecordProperty("kills", std::to_string(report.steps));
    std::printf("%llu stops at system calls, each a kill\n", static_cast<unsigned long long>(report.steps));
}

// Giving up takes back what was announced.
TEST_P(ManyGrowthDeath, AtAnySystemCallOfGivingUpLosesNothing) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    u64 kills = 0;
    for (const u64 steps : amid) {
        const step_report report = kill_at_every_system_call([&] { make(); }, [&] { lead_until_stopped(steps); },
                                                             [&] { return alive(); }, [&] { return after_death(); });
        EXPECT_EQ(report.failure, "") << "behind step " << steps;
        EXPECT_GT(report.steps, 30U);
        kills += report.steps;
    }
    RecordProperty("kills", std::to_string(kills));
}

// Whoever grows a table clears away what a dead leader left of another growth.
TEST_P(ManyGrowthDeath, AtAnySystemCallOfGrowingOverALeftGrowthLosesNothing) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    u64 kills = 0;
    for (const u64 steps : amid) {
        const step_report report = kill_at_every_system_call(
            [&] {
                make();
                lead_until_killed(steps);
            },
            [&] { lead(); }, [&] { return alive(); }, [&] { return after_death(); });
        EXPECT_EQ(report.failure, "") << "behind step " << steps;
        EXPECT_GT(report.steps, 50U);
        kills += report.steps;
    }
    RecordProperty("kills", std::to_string(kills));
}

// Whatever fails, the growth is over or given up by the writer that leads, and the others go on.
TEST_P(ManyGrowthFailure, AnySystemCallThatFailsLosesNothing) {
    if (!can_trace() || sanitized || !can_fail_system_calls)
        GTEST_SKIP() << "needs: ptrace on x86-64 and a build without sanitizers";
    struct fault {
        int number;
        fault_span span;
    };
    for (const auto& [number, span] : {fault{EIO, fault_span::once}, fault{ENOSPC, fault_span::for_good}}) {
        u64 given_up = 0;
        const step_report report = fail_each_system_call(
            number, span,
            [&] {
                make();
                reader_.reset();  // the child's copies would be something left open
                other_.reset();
            },
            [&]() -> int {
                try {
                    many t = many::attach(uri());
                    try {
                        t.grow(new_capacity);
                    } catch (const error&) {
                        return missing_in(t).empty() ? 1 : 3;
                    }
                    for (u64 i = 0; i < 10'000 && t.growing(); ++i)
                        if (!update(t, i, 2)) return 4;
                    if (!missing_in(t).empty() || !damage_of(t).empty()) return 5;
                    return t.growing() || t.growth_failure() ? 1 : t.capacity() == new_capacity ? 0 : 7;
                } catch (const error&) {
                    return 1;  // could not even attach
                }
            },
            [](long call) {
                // Calls whose failure no program survives or that cannot fail, and the test's own.
                for (const long spared : {SYS_munmap, SYS_close, SYS_brk, SYS_futex, SYS_rt_sigprocmask, SYS_exit_group,
                                          SYS_prctl, SYS_seccomp})
                    if (call == spared) return false;
                return true;
            },
            [&](const faulted_run& run) -> std::string {
                if (!run.uncaught.empty()) return run.uncaught;
                if (!run.left_open.empty()) return "left open: " + run.left_open;
                if (run.result > 1) return "the writer found wrong " + std::to_string(run.result);
                given_up += run.result == 1 ? 1 : 0;
                reader_.emplace(reader::attach(uri()));
                other_.emplace(many::attach(uri()));
                return after_death();
            });
        EXPECT_EQ(report.failure, "");
        EXPECT_GT(report.steps, 30U);
        EXPECT_GT(given_up, 10U);
        std::printf("errno %d, %s: %llu calls failed, %llu growths were not begun or given up\n", number,
                    span == fault_span::once ? "once" : "for good", static_cast<unsigned long long>(report.steps),
                    static_cast<unsigned long long>(given_up));
    }
}

INSTANTIATE_TEST_SUITE_P(Tables, ManyGrowthDeath, ::testing::Values(way{true, true}, way{false, true}), direction);
INSTANTIATE_TEST_SUITE_P(Tables, ManyGrowthFailure, ::testing::Values(way{true, true}, way{false, true}), direction);

class HashTableGrowth : public segment_test {
 protected:
    unique_directory disk_{"growth"};
};

// Without the table's own file a second removal would find nothing to remove, and a next generation would stay for
// ever.
TEST_F(HashTableGrowth, ADeathInARemovalLeavesNoNextGenerationByItself) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    const std::string uri = disk_.file_uri("t");
    const auto make_with_a_next_generation = [&] {
        for (const std::string& entry : disk_.entries()) ::unlink(disk_.file(entry).c_str());
        (void)hash_table<key, value, writers::many>::create(uri, {.capacity = 100, .writer_slots = 8});
        std::ofstream(disk_.file("t.growing")) << "left";
    };
    const auto is_there = [&](const char* name) { return ::access(disk_.file(name).c_str(), F_OK) == 0; };
    const step_report report = kill_at_every_system_call(
        make_with_a_next_generation, [&] { segment::remove(uri); }, [] { return std::string(); },
        [&]() -> std::string {
            if (is_there("t")) segment::remove(uri);
            return is_there("t.growing") ? "t.growing is there without t" : "";
        });
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.steps, 10U);
}

class HashTableGrowthSteps : public HashTableGrowth, public ::testing::WithParamInterface<way> {};

// What a kill between two instructions leaves is what a reader finds between them.
TEST_P(HashTableGrowthSteps, AtEachInstructionAReaderFindsEveryKey) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    constexpr u64 entries = 12;
    const u64 from = GetParam().grows ? entries : 10 * entries, to = GetParam().grows ? 2 * entries : entries;
    const std::string uri = disk_.file_uri("t");
    {
        table t = table::create(uri, {.capacity = from});
        for (u64 n = 0; n < entries; ++n) (void)t.try_insert(nth_key<wide_shape>(n), stamped_value<wide_shape>(n, 1));
    }
    reader r = reader::attach(uri), by_name = reader::attach(uri);  // the latter asks the name each time
    std::vector<u64> last(entries, 1);
    u64 behind_the_commit = 0;
    const step_report report = step_through(
        [&] {
            table t = table::attach(uri);
            t.grow(to);
            for (u64 i = 0; t.growing(); ++i)
                (void)t.update(nth_key<wide_shape>(i % entries), stamped_value<wide_shape>(i % entries, i + 2));
            for (u64 n = 0; n < entries; ++n)
                (void)t.update(nth_key<wide_shape>(n), stamped_value<wide_shape>(n, 1000 + n));
        },
        [&](u64 step) -> std::string {
            const u64 n = step % entries;
            const auto found = r.find(nth_key<wide_shape>(n));
            if (!found) return "key " + std::to_string(n) + " is missing";
            const auto stamp = stamp_of<wide_shape>(n, *found);
            if (!stamp) return "key " + std::to_string(n) + " has a torn value";
            if (*stamp < last[n]) return "key " + std::to_string(n) + " goes back in time";
            last[n] = *stamp;
            (void)by_name.refresh();
            const auto named = by_name.find(nth_key<wide_shape>(n));
            if (!named || stamp_of<wide_shape>(n, *named) != stamp)
                return "key " + std::to_string(n) + " has another value where the name leads";
            behind_the_commit += by_name.capacity() != from ? 1 : 0;  // r would follow by that
            return {};
        });
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.steps, 10'000U);
    EXPECT_GT(behind_the_commit, 1000U);
    EXPECT_EQ(r.capacity(), to);
    EXPECT_EQ(r.fault(), std::nullopt);
    RecordProperty("steps", std::to_string(report.steps));
    std::printf("%llu instructions, %llu of them behind the commit, %.2f s\n",
                static_cast<unsigned long long>(report.steps), static_cast<unsigned long long>(behind_the_commit),
                report.seconds);
}

// The file of a table and that of its next generation, as others see them.
class both_files {
 public:
    explicit both_files(std::string folder) : folder_(std::move(folder)) {}

    /// Whether any of their bytes, or which of them there are, differs from what it was when this was asked last.
    bool changed() {
        bool any = false;
        for (one& file : files_) {
            struct stat about{};
            const bool there = ::stat((folder_ + file.name).c_str(), &about) == 0 && about.st_size != 0;
            if (file.inode != (there ? about.st_ino : 0)) {
                any = true;
                file.map(folder_, there ? about.st_ino : 0, static_cast<std::size_t>(about.st_size));
            }
            if (file.bytes.empty() || std::memcmp(file.bytes.data(), file.last.data(), file.last.size()) == 0) continue;
            any = true;
            std::memcpy(file.last.data(), file.bytes.data(), file.last.size());
        }
        return any;
    }
    /// In an empty folder, as a death leaves them.
    void copy_to(const std::string& to) const {
        for (const one& file : files_) {
            if (file.inode == 0) continue;
            const rig::descriptor copy(::open((to + file.name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
            if (!rig::write_all(copy.get(), file.last.data(), file.last.size()))
                throw std::system_error(errno, std::generic_category(), to);
        }
    }

 private:
    struct one {
        const char* name;
        ino_t inode = 0;
        std::span<const std::byte> bytes{};
        std::vector<std::byte> last{};

        void map(const std::string& folder, ino_t now, std::size_t size) {
            forget();
            inode = now;
            if (inode == 0) return;
            const rig::descriptor file(::open((folder + name).c_str(), O_RDONLY | O_CLOEXEC));
            void* const at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
            if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), folder);
            bytes = {static_cast<const std::byte*>(at), size};
            last.assign(bytes.begin(), bytes.end());
        }
        void forget() {
            if (!bytes.empty()) ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
            bytes = {};
            last.clear();
        }
        ~one() { forget(); }
    };
    std::string folder_;
    one files_[2] = {{"/t"}, {"/t.growing"}};
};

// A writer grows its table, updates, inserts and erases on the way. At each instruction that changes a byte of either
// file both are copied: in the copies a reader and then the next writer find a whole table, never behind what was seen
// before; it verifies, its next operations work, and so does another growth.
TEST_P(HashTableGrowthSteps, AtEveryImageTheNextWriterGoesOn) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    constexpr u64 entries = 8, keys = 12, goes = 5, comes = 9;
    const u64 from = GetParam().grows ? entries : 6 * entries, to = GetParam().grows ? 3 * entries : keys;
    const std::string uri = disk_.file_uri("t");
    const auto put = [](table& into, u64 n, u64 stamp) {
        return into.insert_or_assign(nth_key<wide_shape>(n), stamped_value<wide_shape>(n, stamp));
    };
    {
        table t = table::create(uri, {.capacity = from});
        for (u64 n = 0; n < entries; ++n) (void)put(t, n, 1);
    }
    using stamps = std::array<u64, keys>;  // 0: not there
    // The size is the writer's: a reader may come between an entry and its count.
    const auto find_all = [](auto& in, stamps& found, bool counted) -> std::string {
        u64 size = 0;
        for (u64 n = 0; n < keys; ++n) {
            const auto got = in.find(nth_key<wide_shape>(n));
            const auto stamp = got ? stamp_of<wide_shape>(n, *got) : std::optional<u64>(0);
            if (!stamp) return "key " + std::to_string(n) + " has a torn value";
            found[n] = *stamp;
            size += got ? 1 : 0;
        }
        if (in.fault()) return "a fault was latched";
        return !counted || in.size() == size ? "" : "the size is " + std::to_string(in.size());
    };
    // A stamp only rises, one key goes and another comes.
    const auto goes_back = [](const stamps& earlier, const stamps& later) -> std::string {
        for (u64 n = 0; n < keys; ++n) {
            const bool lost = earlier[n] != 0 && later[n] == 0 && n != goes;
            const bool again = earlier[n] == 0 && later[n] != 0 && n != comes;
            if (lost || again || (later[n] != 0 && later[n] < earlier[n]))
                return "key " + std::to_string(n) + " goes back";
        }
        return {};
    };
    const unique_directory copies{"growth-copies"};
    stamps seen{};
    u64 images = 0, behind_the_commit = 0;
    for (u64 n = 0; n < entries; ++n) seen[n] = 1;
    const auto survives = [&]() -> std::string {
        stamps found{}, recovered{};
        u64 capacity = 0;
        {
            reader fresh = reader::attach(copies.file_uri("t"));
            if (std::string why = find_all(fresh, found, false); !why.empty()) return "a reader: " + why;
            capacity = fresh.capacity();
        }
        if (std::string why = goes_back(seen, found); !why.empty()) return "a reader: " + why;
        seen = found;
        table next = table::attach(copies.file_uri("t"));
        if (next.capacity() != capacity || next.segment().moved()) return "the next writer has another generation";
        if (std::string why = find_all(next, recovered, true); !why.empty()) return "the next writer: " + why;
        if (std::string why = goes_back(found, recovered); !why.empty()) return "the next writer: " + why;
        if (std::string why = damage_of(next); !why.empty()) return "verify(): " + why;
        for (const std::string& entry : copies.entries())
            if (entry.ends_with(".growing")) return "left behind: " + entry;
        behind_the_commit += capacity != from ? 1 : 0;
        if (++images % one_in_so_many(8) == 0) {
            next.grow(4 * entries);
            while (next.advance()) {
            }
            if (next.growth_failure()) return next.growth_failure()->what();
        }
        if (table_answer(put(next, 0, 5000)) != table_answer::updated || !next.erase(nth_key<wide_shape>(1)))
            return "its next operations are refused";
        recovered[0] = 5000, recovered[1] = 0;
        if (std::string why = find_all(next, found, true); !why.empty()) return "after its next operations: " + why;
        if (found != recovered) return "its next operations are not found";
        return damage_of(next);
    };
    both_files files(disk_.path());
    (void)files.changed();
    const step_report report = step_through(
        [&] {
            table t = table::attach(uri);
            t.grow(to);
            for (u64 i = 0; t.growing() || i < entries; ++i) {
                (void)put(t, i % 4, i + 2);
                if (i == 3) (void)t.erase(nth_key<wide_shape>(goes));
                if (i == 2) (void)put(t, comes, 2);
            }
        },
        [&](u64) -> std::string {
            if (!files.changed()) return {};
            for (const std::string& entry : copies.entries()) ::unlink(copies.file(entry).c_str());
            files.copy_to(copies.path());
            return survives();
        });
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(images, 200U);
    EXPECT_GT(behind_the_commit, 20U);
    EXPECT_EQ(seen[goes], 0U);
    EXPECT_NE(seen[comes], 0U);
    RecordProperty("steps", std::to_string(report.steps));
    RecordProperty("images", std::to_string(images));
    std::printf("%llu instructions, %llu images, %llu of them behind the commit, %.2f s\n",
                static_cast<unsigned long long>(report.steps), static_cast<unsigned long long>(images),
                static_cast<unsigned long long>(behind_the_commit), report.seconds);
}

INSTANTIATE_TEST_SUITE_P(Tables, HashTableGrowthSteps, ::testing::Values(way{true, true}, way{false, true}), direction);

// The whole way in service: a writer that grows and shrinks without end, killed at random instants.
TEST_F(HashTableGrowth, WritersThatGrowAreKilledAtRandomInstants) {
    constexpr u64 keys = 400, stable = 40;  // the first keys are only updated: a reader must find them always
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    const unique_posix_name name("growth");
    hash_table_model model;
    {
        table first = table::create(name.uri(), {.capacity = keys});
        for (u64 n = 0; n < stable; ++n) {
            (void)first.try_insert(nth_key<wide_shape>(n), stamped_value<wide_shape>(n, 1));
            model[n] = 1;
        }
    }
    shared_image page(4096);
    auto* const stop = new (page.bytes().data()) std::atomic<u64>(0);
    child_process follower([&]() -> std::string {
        reader view = reader::attach(name.uri());
        std::vector<u64> last(stable, 0);
        while (stop->load(std::memory_order_relaxed) == 0) {  // a flag that orders nothing
            for (u64 n = 0; n < keys; ++n) {
                const auto found = view.find(nth_key<wide_shape>(n));
                if (!found) {
                    if (n < stable) return "key " + std::to_string(n) + " is missing";
                    continue;
                }
                const auto stamp = stamp_of<wide_shape>(n, *found);
                if (!stamp) return "key " + std::to_string(n) + " has a torn or foreign value";
                if (n >= stable) continue;
                if (*stamp < last[n]) return "key " + std::to_string(n) + " goes back in time";
                last[n] = *stamp;
            }
            if (view.fault()) return "the reader latched a fault";
        }
        return {};
    });
    struct operation {
        table_operation what;
        u64 n, stamp;
    };
    const auto plan = [&](u64 round, u64 i) -> operation {
        const u64 random = random_at(seed, round, i), n = (random >> 8) % keys;
        const auto what = static_cast<table_operation>(random % 4);
        return {n < stable ? table_operation::update : what, n, (round << 20) + i + 2};
    };
    u64 generations = 0, last_generation = 0;
    const kill_report report = run_kill_rounds(
        {.rounds = scaled(600), .delay_ns_max = 4'000'000, .seed = seed},
        [&](kill_progress& progress, u64 round) {
            progress.ready();
            table writer = table::attach(name.uri());
            for (u64 i = 0;; ++i) {
                if (!writer.growing()) writer.grow(keys + random_at(seed, ~round, i) % (3 * keys));
                const operation op = plan(round, i);
                progress.begin();
                (void)apply<wide_shape>(writer, op.what, op.n, op.stamp);
                progress.end();
            }
        },
        [&](const kill_progress& progress, u64 round) -> std::string {
            for (u64 i = 0; i < progress.completed(); ++i) {
                const operation op = plan(round, i);
                apply(model, op.what, op.n, op.stamp);
            }
            hash_table_model after = model;
            if (progress.in_flight()) {
                const operation op = plan(round, progress.completed());
                apply(after, op.what, op.n, op.stamp);
            }
            const auto compare = [&](auto& with, const hash_table_model& wanted) {
                return difference<wide_shape>(
                    [&](const key& k, value& v) {
                        const auto found = with.find(k);
                        if (found) v = *found;
                        return found.has_value();
                    },
                    wanted, keys);
            };
            if (round % 2 == 0) {
                reader view = reader::attach(name.uri());
                if (!compare(view, model).empty() && !compare(view, after).empty())
                    return "a reader: " + compare(view, after);
            }
            table next = table::attach(name.uri());
            const u64 generation = next.place_of(nth_key<wide_shape>(0))->generation;
            generations += generation != last_generation ? 1 : 0;
            last_generation = generation;
            if (std::string text = damage_of(next); !text.empty()) return "verify() by the successor: " + text;
            if (name.entries().size() != 2) return "left behind: " + name.entries().front();
            if (compare(next, after).empty()) model = std::move(after);
            if (next.size() != model.size()) return "the size is " + std::to_string(next.size());
            return compare(next, model);
        });
    stop->store(1, std::memory_order_relaxed);
    EXPECT_TRUE(report.passed()) << report.text();
    EXPECT_TRUE(follower.wait().success()) << follower.wait().text();
    EXPECT_GT(generations, report.kills / 10);
    RecordProperty("kills", std::to_string(report.kills));
    std::printf("%s; %llu kills found another generation than the kill before\n", report.text().c_str(),
                static_cast<unsigned long long>(generations));
}

}  // namespace
