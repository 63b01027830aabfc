// SPDX-License-Identifier: Apache-2.0
// Counters in a segment: made, joined, read and refused.
#include "holdfast/metrics/counter_set.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/unique_name.hpp"

namespace {

// The segments of these tests are registered beside nobody else's.
const holdfast::test::unique_directory registry("registry");
const holdfast::test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());

using holdfast::counter_set;
using holdfast::counter_set_reader;
using holdfast::errc;

holdfast::segment_spec raw_spec() {
    holdfast::segment_spec spec;
    spec.body_bytes = 4096;
    return spec;
}

template <class Call>
errc reason_of(Call&& call) {
    try {
        call();
    } catch (const holdfast::error& e) {
        return e.reason();
    }
    return errc{};
}

TEST(CounterSet, CountsOutliveTheirWriters) {
    const holdfast::test::unique_posix_name name("counters");
    {
        const counter_set set = counter_set::create(name.uri(), {.capacity = 16});
        set.get("a_total").add(3);
        set.get("a_total", R"(x="1")").add(4);
    }
    const counter_set again = counter_set::attach(name.uri());
    again.get("a_total").add(10);
    const counter_set_reader reader = counter_set_reader::attach(name.uri());
    EXPECT_EQ(reader.value("a_total"), 13U);
    EXPECT_EQ(reader.value("a_total", R"(x="1")"), 4U);
    EXPECT_EQ(reader.value("b_total"), std::nullopt);
    EXPECT_EQ(reader.capacity(), 16U);
}

TEST(CounterSet, ManyWritersAndAReaderAtOnce) {
    const holdfast::test::unique_posix_name name("counters");
    const counter_set first = counter_set::create(name.uri());
    const counter_set second = counter_set::attach(name.uri());
    const counter_set_reader reader = counter_set_reader::attach(name.uri());
    first.get("a_total").add(1);
    second.get("a_total").add(1);
    EXPECT_EQ(reader.value("a_total"), 2U);
    std::map<std::string, std::uint64_t> seen;
    reader.for_each([&](std::string_view family, std::string_view labels, std::uint64_t value) {
        seen[std::string(family) + std::string(labels)] = value;
    });
    EXPECT_EQ(seen, (std::map<std::string, std::uint64_t>{{"a_total", 2}}));
}

TEST(CounterSet, WorksInEveryKindOfMemory) {
    for (const char* uri : {"heap:", "anon:", "memfd:"}) {
        const counter_set set = counter_set::create(uri, {.capacity = 4});
        const holdfast::counter gauge = set.get("size_bytes");
        gauge.set(77);
        EXPECT_EQ(gauge.value(), 77U) << uri;
    }
}

TEST(CounterSet, RefusesNamesThatAreNone) {
    const counter_set set = counter_set::create("heap:", {.capacity = 4});
    EXPECT_EQ(reason_of([&] { (void)set.get("no spaces"); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { (void)set.get("a_total", "x=1"); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { (void)set.get(std::string(200, 'a')); }), errc::invalid_argument);
}

TEST(CounterSet, FullSetSaysSo) {
    const counter_set set = counter_set::create("heap:", {.capacity = 2});
    (void)set.get("a");
    (void)set.get("b");
    EXPECT_EQ(reason_of([&] { (void)set.get("c"); }), errc::no_space);
    EXPECT_FALSE(set.try_get("c").has_value());
    EXPECT_TRUE(set.try_get("b").has_value());
}

TEST(CounterSet, RefusesSegmentsOfAnotherKind) {
    const holdfast::test::unique_posix_name name("raw");
    const auto raw = holdfast::segment::create(name.uri(), raw_spec(), {}, [](auto) {});
    EXPECT_EQ(reason_of([&] { (void)counter_set_reader::attach(name.uri()); }), errc::kind_mismatch);
}

// A header whose capacity goes beyond its body (made by somebody with a valid checksum) is refused, not followed.
TEST(CounterSet, RefusesGeometryBeyondTheBody) {
    const holdfast::test::unique_posix_name name("geometry");
    holdfast::segment_spec spec;
    spec.kind = holdfast::container_kind::counter_set;
    spec.policy = holdfast::writers::many;
    spec.geometry = {1000, 256};
    spec.body_bytes = 4096;
    const auto segment = holdfast::segment::create(name.uri(), spec, {}, [](auto) {});
    EXPECT_EQ(reason_of([&] { (void)counter_set_reader::attach(name.uri()); }), errc::geometry_mismatch);
    EXPECT_EQ(reason_of([&] { (void)counter_set::attach(name.uri()); }), errc::geometry_mismatch);
}

TEST(CounterSet, RefusesImpossibleCapacities) {
    EXPECT_EQ(reason_of([] { (void)counter_set::create("heap:", {.capacity = 0}); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([] { (void)counter_set::create("heap:", {.capacity = 1U << 21U}); }), errc::invalid_argument);
}

}  // namespace
