// SPDX-License-Identifier: Apache-2.0
// The udp suite at a glance: its experiments and who takes part in each.
#include "workload/udp_suite.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "holdfast/net/server.hpp"
#include "support/trial_recorder.hpp"

namespace {

using namespace holdfast;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(UdpSuite, RunsItsExperiments) {
    test::trial_recorder list({.quick = true, .filter = "", .only = {}});
    list.list_only = true;
    workload::udp_suite().run(list);
    EXPECT_THAT(list.asked, SizeIs(24));
    for (const char* const filter : {": 5 bytes, loopback", ": 60000 bytes, from namespace to namespace"}) {
        test::trial_recorder all({.quick = true, .seconds = 0.005, .filter = filter, .only = {}});
        workload::udp_suite().run(all);
        if (!all.skipped.empty()) GTEST_SKIP() << "needs: " << all.skipped.begin()->second;
        const bool rings = net::io_uring_lack().empty();  // with one receiver
        for (const auto& [name, subjects] : all.ran)
            EXPECT_THAT(subjects, SizeIs(rings && name.find("two receivers") == std::string::npos ? 5 : 4)) << name;
        EXPECT_THAT(all.units, ElementsAre("datagrams/s", "ns"));
        for (const auto& [name, value] : all.added) EXPECT_GT(value, 0) << name;
        EXPECT_THAT(all.notes, Contains(AllOf(HasSubstr("lost on the way"), HasSubstr("the kernel tells of"))));
    }
}

}  // namespace
