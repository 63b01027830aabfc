// SPDX-License-Identifier: Apache-2.0
// Two processes create the same segment at once while a third attaches: exactly one creator wins, the other is told
// that the name is taken, and whoever attaches meets no segment or a whole one.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <new>
#include <string>

#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/single_step.hpp"
#include "support/system_call_faults.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

struct verdict {
    bool made;
    errc refused;
    char text[200];
};

// Both creators come here with the round's number; the later one lets both go.
class starting_line {
 public:
    starting_line() : page_(4096), arrived_(new(page_.bytes().data()) std::atomic<std::uint64_t>(0)) {}
    void cross(std::uint64_t round) noexcept {
        // Relaxed: only the moment matters, nothing is published by it.
        arrived_->fetch_add(1, std::memory_order_relaxed);
        for (int spins = 0; arrived_->load(std::memory_order_relaxed) < 2 * (round + 1); ++spins)
            if (spins % 1000 == 999) ::sched_yield();  // on one core the other needs ours
    }

 private:
    shared_image page_;
    std::atomic<std::uint64_t>* arrived_;
};

struct place {
    const char* name;
    bool unnamed;
    std::uint64_t rounds;
    writers policy = writers::one;
    friend std::ostream& operator<<(std::ostream& out, const place& p) { return out << p.name; }
};

// A creator: for each round sent to it, makes the segment, says how it went, and lets go of it when told.
void create_when_told(const std::string& uri, std::uint64_t me, const place& where, starting_line& line,
                      channel& parent) {
    if (!where.unnamed && !refuse_unnamed_files()) ::_exit(2);
    while (const auto round = parent.receive<std::uint64_t>()) {
        verdict result{};
        {
            std::optional<segment> made;
            line.cross(*round);
            const auto refused = refusal_of([&] {
                segment_spec spec = pattern_spec(2 * *round + me, 8192);
                spec.policy = where.policy;
                made = segment::create(uri, spec, {},
                                       [&](std::span<std::byte> body) { fill_pattern(body, spec.geometry[0]); });
            });
            result.made = !refused;
            if (refused) {
                result.refused = refused->code;
                refused->text.copy(result.text, sizeof result.text - 1);
            }
            parent.send(result);
            parent.wait();
        }
        parent.signal();  // detached
    }
}

bool readable(const channel& from) {
    pollfd watch{.fd = from.read_fd(), .events = POLLIN, .revents = 0};
    return ::poll(&watch, 1, 0) > 0;
}

class CreatorRace : public segment_test, public ::testing::WithParamInterface<place> {
 protected:
    [[nodiscard]] std::string uri() const {
        const std::string kind = GetParam().name;
        if (kind.starts_with("file")) return disk_.file_uri("s");
        if (kind.starts_with("sysv")) return system_v_.uri();
        return posix_.uri();
    }
    unique_posix_name posix_{"race"};
    unique_directory disk_{"race"};
    unique_system_v_name system_v_;
};

TEST_P(CreatorRace, ExactlyOneWinsAndNobodyMeetsHalfASegment) {
    starting_line line;
    child_process first([&](channel& parent) { create_when_told(uri(), 0, GetParam(), line, parent); });
    child_process second([&](channel& parent) { create_when_told(uri(), 1, GetParam(), line, parent); });
    channel one = first.talk(), two = second.talk();
    const std::uint64_t rounds = scaled(GetParam().rounds);
    std::uint64_t wins[2] = {0, 0}, met_none = 0, met_whole = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        ASSERT_TRUE(one.send(round) && two.send(round));
        // A hundred looks a round and then wait: three busy processes on two cores would mostly wait for each other.
        for (int look = 0; look < 100 && (!readable(one) || !readable(two)); ++look) {
            bool there = false;
            ASSERT_EQ(nothing_or_whole(uri(), there), "");
            ++(there ? met_whole : met_none);
        }
        const auto a = one.receive<verdict>(), b = two.receive<verdict>();
        ASSERT_TRUE(a && b) << first.wait().text() << "; " << second.wait().text();
        ASSERT_NE(a->made, b->made) << "round " << round << ": both " << (a->made ? "won" : "lost") << "; " << a->text
                                    << b->text;
        const verdict& loser = a->made ? *b : *a;
        ASSERT_EQ(loser.refused, errc::already_exists) << loser.text;
        ++wins[a->made ? 0 : 1];
        {
            const segment winner = segment::attach(uri(), access::read_only);
            ASSERT_EQ(winner.info().geometry[0], 2 * round + (a->made ? 0 : 1)) << "the loser's content";
            ASSERT_EQ(pattern_fault(winner), "");
            const auto refused = refusal_of([&] { (void)segment::attach(uri(), access::read_write); });
            if (GetParam().policy == writers::one) {
                ASSERT_EQ(refused, errc::writer_alive);
            } else {
                ASSERT_EQ(refused, std::nullopt);
            }
        }
        ASSERT_TRUE(one.signal() && two.signal() && one.wait() && two.wait());
        segment::remove(uri());
        bool there = true;
        ASSERT_EQ(nothing_or_whole(uri(), there), "");
        ASSERT_FALSE(there);
    }
    EXPECT_TRUE(posix_.entries().empty());
    EXPECT_TRUE(disk_.entries().empty());
    RecordProperty("rounds", std::to_string(rounds));
    std::printf("%s: %llu rounds, won %llu to %llu; attachers met nothing %llu times, a whole segment %llu times\n",
                GetParam().name, static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(wins[0]),
                static_cast<unsigned long long>(wins[1]), static_cast<unsigned long long>(met_none),
                static_cast<unsigned long long>(met_whole));
}

INSTANTIATE_TEST_SUITE_P(Places, CreatorRace,
                         ::testing::Values(place{"posix", true, 1000}, place{"posix_fallback", false, 300},
                                           place{"file", true, 300}, place{"sysv", true, 300},
                                           place{"file_many", true, 300, writers::many},
                                           place{"sysv_many", true, 1000, writers::many}),
                         [](const auto& where) { return std::string(where.param.name); });

}  // namespace
