// SPDX-License-Identifier: Apache-2.0
// In which order an experiment takes processors: told by a folder like /sys/devices/system/cpu, of machines that are
// not this one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "holdfast/perf_test/environment.hpp"
#include "support/unique_name.hpp"
#include "workload/processors.hpp"

namespace {

using namespace holdfast::workload;
using testing::ElementsAre;
using testing::IsEmpty;

class PlacedProcessors : public testing::Test {
 protected:
    void has(unsigned cpu, const std::string& siblings, unsigned node) const {
        const std::filesystem::path own = folder() / ("cpu" + std::to_string(cpu));
        std::filesystem::create_directories(own / "topology");
        std::filesystem::create_directories(own / ("node" + std::to_string(node)));
        std::ofstream(own / "topology" / "thread_siblings_list") << siblings << "\n";
    }
    [[nodiscard]] std::filesystem::path folder() const { return folder_.path(); }

 private:
    const holdfast::test::unique_directory folder_{"cpus"};
};

TEST_F(PlacedProcessors, OneOfEachCoreNodeByNodeAndThenTheirSiblings) {
    // Two nodes of two cores each, numbered across the nodes; the siblings are told as a list and as a range.
    has(0, "0,4", 0), has(1, "1,5", 1), has(2, "2,6", 0), has(3, "3,7", 1);
    has(4, "0,4", 0), has(5, "1,5", 1), has(6, "2,6", 0), has(7, "3,7", 1);
    const std::vector<unsigned> all{0, 1, 2, 3, 4, 5, 6, 7};
    const std::vector<processor> placed = placed_processors(all, folder());
    EXPECT_THAT(placed, ElementsAre(processor{0, 0, false}, processor{2, 0, false}, processor{1, 1, false},
                                    processor{3, 1, false}, processor{4, 0, true}, processor{6, 0, true},
                                    processor{5, 1, true}, processor{7, 1, true}));
    const std::vector<processor> cores = with_a_core_each(placed);
    EXPECT_THAT(cores, ElementsAre(placed[0], placed[1], placed[2], placed[3]));
    EXPECT_EQ(nodes_text(cores), "2 cores of node 0, 2 of node 1");
    EXPECT_EQ(nodes_text(std::span(cores).first(1)), "1 core of node 0");
}

TEST_F(PlacedProcessors, OnlyThoseThatMayBeUsedCount) {
    has(0, "0-1", 0), has(1, "0-1", 0), has(2, "2-3", 0), has(3, "2-3", 0);
    const std::vector<unsigned> some{1, 2, 3};
    EXPECT_THAT(placed_processors(some, folder()),
                ElementsAre(processor{1, 0, false}, processor{2, 0, false}, processor{3, 0, true}))
        << "nobody uses the first, so the second has that core for itself";
}

TEST_F(PlacedProcessors, WhereTheSystemTellsNothingEachHasACoreOfOneNode) {
    const std::vector<unsigned> both{3, 5};
    EXPECT_THAT(placed_processors(both, folder()), ElementsAre(processor{3, 0, false}, processor{5, 0, false}));
    EXPECT_THAT(placed_processors({}, folder()), IsEmpty());
}

TEST(PlacedProcessorsHere, AreThoseThatThisThreadMayUse) {
    std::vector<unsigned> numbers;
    for (const processor& one : placed_processors()) numbers.push_back(one.cpu);
    EXPECT_THAT(numbers, testing::UnorderedElementsAreArray(holdfast::perf_test::usable_cpus()));
}

}  // namespace
