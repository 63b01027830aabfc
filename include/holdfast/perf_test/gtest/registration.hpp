// SPDX-License-Identifier: Apache-2.0
// registration.hpp - how a test with a looped body gets into GoogleTest's list.
//
// In every case the object that GoogleTest makes for the test is of a class of ours, derived from the fixture, with the
// body as a member function that is not virtual: the body sees the fixture's members, and the compiler sees the body.
// (I1) GoogleTest must find the fixture itself as the suite's fixture: tests of both kinds share suites.
//
// PERF_TEST, PERF_TEST_F: testing::RegisterTest, which takes a factory.
// PERF_TEST_P: TEST_P, in a namespace of its own in which the fixture's name means our class. TEST_P derives from what
//   the name means there, so from ours; what it registers it looks up inside its class, where the name is the fixture
//   again, because our class says so. I1 holds, and every way of instantiating works.
// TYPED_PERF_TEST, TYPED_PERF_TEST_P: TYPED_TEST and TYPED_TEST_P define a class template. We specialise it for all
//   types before they define it; the specialisation derives from our class. Here alone two names are used that
//   GoogleTest does not document (GTEST_TEST_CLASS_NAME_, GTEST_SUITE_NAMESPACE_; the same from 1.10 to 1.17). Should
//   they change, the static_assert in the body of the unspecialised template says so: nothing goes wrong in silence.
#pragma once

#include <gtest/gtest.h>

#include "holdfast/perf_test/gtest/driver.hpp"

// The members of each class of ours. What measures is a friend: fixtures keep their members protected.
#define HOLDFAST_PERF_CLASS_BODY                                \
 protected:                                                     \
    template <class Test>                                       \
    friend class ::holdfast::perf_test::detail::fixture_runner; \
    void holdfast_perf_body();

#define HOLDFAST_PERF_TEST(suite, name, fixture, hz, milliseconds)                                         \
    class suite##_##name##_PerfTest : public fixture {                                                     \
        HOLDFAST_PERF_CLASS_BODY                                                                           \
        void TestBody() override { ::holdfast::perf_test::detail::run_test(*this, (hz), (milliseconds)); } \
    };                                                                                                     \
    [[maybe_unused]] static const ::testing::TestInfo* const suite##_##name##_PerfTest_registered =        \
        ::testing::RegisterTest(#suite, #name, nullptr, nullptr, __FILE__, __LINE__,                       \
                                []() -> fixture* { return new suite##_##name##_PerfTest; });               \
    inline void suite##_##name##_PerfTest::holdfast_perf_body()

#define HOLDFAST_PERF_TEST_P(fixture, name, hz, milliseconds)                    \
    using fixture##_##name##_PerfFixture = fixture;                              \
    class fixture##_##name##_PerfTest : public fixture##_##name##_PerfFixture {  \
        HOLDFAST_PERF_CLASS_BODY                                                 \
        using fixture = fixture##_##name##_PerfFixture;                          \
    };                                                                           \
    namespace fixture##_##name##_PerfNamespace {                                 \
        using fixture = fixture##_##name##_PerfTest;                             \
        TEST_P(fixture, name) {                                                  \
            fixture##_##name##_PerfTest& test = *this;                           \
            ::holdfast::perf_test::detail::run_test(test, (hz), (milliseconds)); \
        }                                                                        \
    }                                                                            \
    inline void fixture##_##name##_PerfTest::holdfast_perf_body()

// Our class of a typed test, and GoogleTest's class template (named test_class) specialised to derive from it.
#define HOLDFAST_TYPED_PERF_CLASS(fixture, name)            \
    template <typename T>                                   \
    class fixture##_##name##_PerfTest : public fixture<T> { \
        HOLDFAST_PERF_CLASS_BODY                            \
        using TestFixture [[maybe_unused]] = fixture<T>;    \
        using TypeParam [[maybe_unused]] = T;               \
    };

#define HOLDFAST_TYPED_PERF_SPECIALISATION(fixture, name, test_class, hz, milliseconds) \
    template <typename Type>                                                            \
    class test_class;                                                                   \
    template <typename Type>                                                            \
        requires ::holdfast::perf_test::detail::always<Type>                            \
    class test_class<Type> : public fixture##_##name##_PerfTest<Type> {                 \
        void TestBody() override {                                                      \
            fixture##_##name##_PerfTest<Type>& test = *this;                            \
            ::holdfast::perf_test::detail::run_test(test, (hz), (milliseconds));        \
        }                                                                               \
    };

#define HOLDFAST_TYPED_PERF_CHECK                        \
    static_assert(                                       \
        ::holdfast::perf_test::detail::never<TypeParam>, \
        "this GoogleTest names the classes of typed tests in a way that holdfast/perf_test.hpp does not know");

#define HOLDFAST_TYPED_PERF_TEST(fixture, name, hz, milliseconds)                                              \
    HOLDFAST_TYPED_PERF_CLASS(fixture, name)                                                                   \
    HOLDFAST_TYPED_PERF_SPECIALISATION(fixture, name, GTEST_TEST_CLASS_NAME_(fixture, name), hz, milliseconds) \
    TYPED_TEST(fixture, name) { HOLDFAST_TYPED_PERF_CHECK }                                                    \
    template <typename T>                                                                                      \
    void fixture##_##name##_PerfTest<T>::holdfast_perf_body()

#define HOLDFAST_TYPED_PERF_TEST_P(fixture, name, hz, milliseconds)           \
    HOLDFAST_TYPED_PERF_CLASS(fixture, name)                                  \
    namespace GTEST_SUITE_NAMESPACE_(fixture) {                               \
    HOLDFAST_TYPED_PERF_SPECIALISATION(fixture, name, name, hz, milliseconds) \
    }                                                                         \
    TYPED_TEST_P(fixture, name) { HOLDFAST_TYPED_PERF_CHECK }                 \
    template <typename T>                                                     \
    void fixture##_##name##_PerfTest<T>::holdfast_perf_body()
