// SPDX-License-Identifier: Apache-2.0
// perf_test.hpp - performance tests beside unit tests: GoogleTest's macros with a body that runs in a measured loop.
//
//   PERF_TEST(Suite, Name) { body }                           like TEST
//   PERF_TEST_F(Fixture, Name) { body }                       like TEST_F
//   PERF_TEST_P(Fixture, Name) { body }                       like TEST_P; instantiated by INSTANTIATE_TEST_SUITE_P
//   TYPED_PERF_TEST(Fixture, Name) { body }                   like TYPED_TEST, after TYPED_TEST_SUITE
//   TYPED_PERF_TEST_P(Fixture, Name) { body }                 like TYPED_TEST_P, after TYPED_TEST_SUITE_P
// Each with _OPT takes a rate in operations a second and a time in milliseconds more; -1 is the default.
//
// The only headers that know GoogleTest are this one and perf_test/gtest/; they go with 1.12 and newer, whichever the
// user links. Link holdfast::perf_test and GoogleTest. Any main() will do: one of one's own, GTest::gtest_main, or
// PERF_TEST_MAIN. Tests of both kinds may share a suite and a fixture.
#pragma once

#include "holdfast/perf_test/do_not_optimize.hpp"
#include "holdfast/perf_test/gtest/assertions.hpp"
#include "holdfast/perf_test/gtest/driver.hpp"
#include "holdfast/perf_test/gtest/registration.hpp"

/// Ends the loop; meant for assertions in a body: ASSERT_TRUE(queue.push(1)) << PERF_ABORT << "queue is full";
#define PERF_ABORT (::holdfast::perf_test::detail::abort_loop())

/// A main() that refuses arguments which nobody knows.
#define PERF_TEST_MAIN                                                                              \
    int main(int argc, char** argv) {                                                               \
        ::testing::InitGoogleTest(&argc, argv);                                                     \
        ::holdfast::perf_test::init(&argc, argv, ::holdfast::perf_test::unknown_arguments::refuse); \
        return RUN_ALL_TESTS();                                                                     \
    }

/// In a fixture, untimed around each batch: PERF_SETUP(operations) { inputs.resize(operations); } PERF_TEARDOWN() { }
#define PERF_SETUP(operations) void holdfast_perf_setup([[maybe_unused]] ::std::uint64_t operations)
#define PERF_TEARDOWN() void holdfast_perf_teardown()
/// In a fixture: batches of exactly so many operations, for bodies that use up what PERF_SETUP made.
#define PERF_BATCH(operations) \
    static constexpr ::std::uint64_t holdfast_perf_batch() { return (operations); }

#define PERF_TEST(suite, name) PERF_TEST_OPT(suite, name, -1, -1)
#define PERF_TEST_OPT(suite, name, hz, milliseconds) HOLDFAST_PERF_TEST(suite, name, ::testing::Test, hz, milliseconds)

#define PERF_TEST_F(fixture, name) PERF_TEST_F_OPT(fixture, name, -1, -1)
#define PERF_TEST_F_OPT(fixture, name, hz, milliseconds) HOLDFAST_PERF_TEST(fixture, name, fixture, hz, milliseconds)

#define PERF_TEST_P(fixture, name) PERF_TEST_P_OPT(fixture, name, -1, -1)
#define PERF_TEST_P_OPT(fixture, name, hz, milliseconds) HOLDFAST_PERF_TEST_P(fixture, name, hz, milliseconds)

#define TYPED_PERF_TEST(fixture, name) TYPED_PERF_TEST_OPT(fixture, name, -1, -1)
#define TYPED_PERF_TEST_OPT(fixture, name, hz, milliseconds) HOLDFAST_TYPED_PERF_TEST(fixture, name, hz, milliseconds)

#define TYPED_PERF_TEST_P(fixture, name) TYPED_PERF_TEST_P_OPT(fixture, name, -1, -1)
#define TYPED_PERF_TEST_P_OPT(fixture, name, hz, milliseconds) \
    HOLDFAST_TYPED_PERF_TEST_P(fixture, name, hz, milliseconds)

// GoogleTest's own macros serve both kinds of tests; these names are for sources that spell them out.
#define INSTANTIATE_PERF_TEST_SUITE_P INSTANTIATE_TEST_SUITE_P
#define INSTANTIATE_PERF_TEST_CASE_P INSTANTIATE_TEST_SUITE_P
#define TYPED_PERF_TEST_SUITE TYPED_TEST_SUITE
#define TYPED_PERF_TEST_CASE TYPED_TEST_SUITE
#define TYPED_PERF_TEST_SUITE_P TYPED_TEST_SUITE_P
#define TYPED_PERF_TEST_CASE_P TYPED_TEST_SUITE_P
#define REGISTER_TYPED_PERF_TEST_SUITE_P REGISTER_TYPED_TEST_SUITE_P
#define REGISTER_TYPED_PERF_TEST_CASE_P REGISTER_TYPED_TEST_SUITE_P
#define INSTANTIATE_TYPED_PERF_TEST_SUITE_P INSTANTIATE_TYPED_TEST_SUITE_P
#define INSTANTIATE_TYPED_PERF_TEST_CASE_P INSTANTIATE_TYPED_TEST_SUITE_P
