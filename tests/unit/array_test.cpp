// SPDX-License-Identifier: Apache-2.0
#include "holdfast/array.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <ranges>
#include <string>
#include <vector>

#include "holdfast/array/dynamic.hpp"
#include "support/array_model.hpp"
#include "support/process.hpp"
#include "support/seed.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using test::refusal_of;
using u64 = std::uint64_t;

struct quote {
    double bid;
    double ask;
    std::uint32_t updates;
    char venue[4];
    friend bool operator==(const quote&, const quote&) = default;
};
quote made(u64 x) { return {static_cast<double>(x), static_cast<double>(x) + 1, static_cast<std::uint32_t>(x), "ab"}; }

struct flagged {
    bool on;
    std::uint8_t level;
    friend bool operator==(const flagged&, const flagged&) = default;
};

template <class T>
concept ranged = std::ranges::random_access_range<T> && std::ranges::sized_range<T> && std::ranges::common_range<T>;
static_assert(ranged<array_reader<quote>> && ranged<const array<quote>> && ranged<array<int>> &&
              ranged<array<flagged>>);
static_assert(std::is_nothrow_move_constructible_v<array<quote>> && !std::is_copy_constructible_v<array<quote>>);
static_assert(std::is_copy_constructible_v<array_reader<quote>>);

// What is offered only where it is safe.
template <class A>
concept has_words = requires(const A& a) { a.words(); };
template <class A>
concept has_span = requires(const A& a) { a.span(); };
template <class A>
concept has_fetch_add = requires(A& a) { a.fetch_add(u64{0}, typename A::value_type{}); };
using three_bytes = std::array<std::uint8_t, 3>;
static_assert(has_words<array_reader<u64>> && has_words<array<float>> && has_words<array<std::array<char, 4>>>);
static_assert(!has_words<array_reader<quote>> && !has_words<array_reader<bool>> && !has_words<array<three_bytes>>);
static_assert(has_span<array<quote>> && has_span<array<u64>> && !has_span<array_reader<quote>>);
static_assert(!has_span<array<flagged>> && !has_span<array<three_bytes>>);
static_assert(has_fetch_add<array<int>> && has_fetch_add<array<std::uint8_t>>);
static_assert(!has_fetch_add<array<double>> && !has_fetch_add<array<bool>> && !has_fetch_add<array_reader<int>>);

TEST(Array, StartsWithZerosAndHoldsWhatIsStored) {
    auto prices = array<quote>::create("heap:", {.size = 100});
    EXPECT_EQ(prices.size(), 100U);
    EXPECT_FALSE(prices.empty());
    EXPECT_EQ(prices[99], quote{});
    prices.store(7, made(7));
    EXPECT_EQ(prices.load(7), made(7));
    EXPECT_EQ(prices[6], quote{});
    EXPECT_EQ(prices[8], quote{});
    prices.modify(7, [](quote& q) { ++q.updates; });
    EXPECT_EQ(prices[7].updates, 8U);
    EXPECT_THROW(prices.modify(7,
                               [](quote& q) {
                                   q.bid = -1;
                                   throw std::runtime_error("no");
                               }),
                 std::runtime_error);
    EXPECT_EQ(prices[7].bid, 7);
    prices.fill(made(3));
    EXPECT_TRUE(std::ranges::all_of(prices, [](const quote& q) { return q == made(3); }));
    EXPECT_EQ(prices.fault(), std::nullopt);
    EXPECT_TRUE(prices.verify([](const array_finding&) { return true; }).intact());
}

TEST(Array, AnIndexOutsideIsAnErrorWithIndexAndSize) {
    auto counts = array<u64>::create("heap:", {.size = 10});
    const auto reader = counts.make_reader();
    const auto expect = [](const auto& action, const char* text) {
        const auto refused = refusal_of(action);
        ASSERT_TRUE(refused);
        EXPECT_EQ(refused->code, errc::invalid_argument);
        EXPECT_THAT(refused->text, ::testing::HasSubstr(text));
    };
    std::vector<u64> four(4, 1);
    expect([&] { (void)reader[10]; }, "element 10 does not exist: the array has 10");
    expect([&] { (void)reader.load(~u64{0}); }, "element 18446744073709551615 does not exist: the array has 10");
    expect([&] { counts.store(10, 1); }, "element 10 does not exist");
    expect([&] { counts.modify(11, [](u64&) { FAIL(); }); }, "element 11 does not exist");
    expect([&] { (void)counts.fetch_add(10, 1); }, "element 10 does not exist");
    expect([&] { counts.store_range(7, four); }, "of 4 elements from 7 on some do not exist: the array has 10");
    expect([&] { reader.load_range(7, four); }, "of 4 elements from 7 on some do not exist");
    expect([&] { reader.load_range(~u64{0}, four); }, "do not exist");
    expect([&] { (void)*reader.end(); }, "element 10 does not exist");
    expect([&] { (void)reader.begin()[-1]; }, "does not exist");
    u64 out = 5;
    EXPECT_EQ(reader.load(10, out), outcome::out_of_range);
    EXPECT_EQ(out, 5U);
    EXPECT_EQ(reader.load(9, out), outcome::ok);
    EXPECT_EQ(out, 0U);
    EXPECT_TRUE(std::ranges::all_of(counts, [](u64 x) { return x == 0; })) << "a refused store changed something";
}

TEST(Array, RangesAreStoredAndLoadedWithinTheirLimit) {
    auto prices = array<quote>::create("heap:", {.size = 500});
    ASSERT_EQ(prices.range_max(), 4096U / sizeof(quote));
    std::vector<quote> values, seen(100);
    for (u64 i = 0; i < 100; ++i) values.push_back(made(i));
    prices.store_range(33, values);
    prices.make_reader().load_range(33, seen);
    EXPECT_EQ(seen, values);
    EXPECT_EQ(prices[32], quote{});
    EXPECT_EQ(prices[133], quote{});
    prices.store_range(500, {});
    prices.load_range(500, {});
    values.resize(prices.range_max() + 1);
    const auto refused = refusal_of([&] { prices.store_range(0, values); });
    EXPECT_EQ(refused, errc::invalid_argument);
    EXPECT_THAT(refused->text, ::testing::HasSubstr("171 elements are more than one record holds; take at most 170"));
    EXPECT_EQ(refusal_of([&] { prices.load_range(0, values); }), errc::invalid_argument);
    EXPECT_TRUE(prices.verify([](const array_finding&) { return true; }).intact());
}

TEST(Array, FetchAddReturnsTheOldValueAndWraps) {
    auto counts = array<std::int8_t>::create("heap:", {.size = 3});
    EXPECT_EQ(counts.fetch_add(1, 100), 0);
    EXPECT_EQ(counts.fetch_add(1, 100), 100);
    EXPECT_EQ(counts[1], static_cast<std::int8_t>(200));
    auto large = array<std::int64_t>::create("heap:", {.size = 1});
    large.store(0, std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(large.fetch_add(0, 1), std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(large[0], std::numeric_limits<std::int64_t>::min());
    auto words = array<u64>::create("heap:", {.size = 1});
    (void)words.fetch_add(0, ~u64{0});
    EXPECT_EQ(words[0], ~u64{0});
}

TEST(Array, IsARandomAccessRange) {
    auto numbers = array<std::uint32_t>::create("heap:", {.size = 1000});
    for (u64 i = 0; i < 1000; ++i) numbers.store(i, static_cast<std::uint32_t>(i * i));
    const auto reader = numbers.make_reader();
    EXPECT_EQ(std::ranges::size(reader), 1000U);
    EXPECT_EQ(std::ranges::distance(reader), 1000);
    EXPECT_EQ(std::ranges::lower_bound(reader, 625U) - reader.begin(), 25);
    EXPECT_EQ(*std::ranges::max_element(reader), 999U * 999U);
    EXPECT_EQ(std::accumulate(reader.begin(), reader.end(), u64{0}), u64{999} * 1000 * 1999 / 6);
    u64 expected = 999;
    for (const std::uint32_t x : reader | std::views::reverse | std::views::take(10)) {
        EXPECT_EQ(x, expected * expected);
        --expected;
    }
    auto at = reader.begin() + 5;
    EXPECT_EQ(at[2], 49U);
    EXPECT_EQ(*at++, 25U);
    EXPECT_EQ(*--at, 25U);
    EXPECT_EQ(*(2 + at), 49U);
    EXPECT_EQ(*(at - 2), 9U);
    EXPECT_LT(reader.begin(), at);
    std::vector<std::uint32_t> copy(1000);
    std::ranges::copy(reader, copy.begin());
    EXPECT_TRUE(std::ranges::equal(copy, numbers));
}

TEST(Array, LiesInPlaceWhereThatIsSafe) {
    auto prices = array<quote>::create("heap:", {.size = 20});
    prices.store(3, made(3));
    const std::span<const quote> span = prices.span();
    ASSERT_EQ(span.size(), 20U);
    EXPECT_EQ(span[3], made(3));
    prices.store(3, made(4));
    EXPECT_EQ(span[3], made(4)) << "the writer's span shows its stores";

    auto counts = array<std::uint16_t>::create("heap:", {.size = 20});
    const auto words = counts.make_reader().words();
    ASSERT_EQ(words.size(), 20U);
    counts.store(5, 77);
    EXPECT_EQ(words[5].load(), 77);
    EXPECT_EQ(words[4].load(), 0);
}

// Moved up by one and down by one out of the array itself: all elements come from the state before.
TEST(Array, ARangeOfItsOwnElementsIsStoredAsItWas) {
    const auto check = [](auto make) {
        using value = decltype(make(u64{0}));
        auto own = array<value>::create("heap:", {.size = 10});
        std::vector<value> expected;
        for (u64 i = 0; i < 10; ++i) expected.push_back(make(i + 1));
        own.store_range(0, expected);
        const std::vector<value> before = expected;
        own.store_range(1, own.span().first(3));
        std::copy_n(before.begin(), 3, expected.begin() + 1);
        own.store_range(5, own.span().subspan(6, 4));
        std::copy_n(before.begin() + 6, 4, expected.begin() + 5);
        for (u64 i = 0; i < 10; ++i) EXPECT_EQ(own[i], expected[i]) << i;
        EXPECT_TRUE(own.verify([](const array_finding&) { return true; }).intact());
    };
    check([](u64 x) { return x; });
    check([](u64 x) { return static_cast<std::uint16_t>(x); });
    check(made);
}

TEST(Array, FillTakesDamageAway) {
    const auto check = [&]<class T>(const T& value) {
        auto array_of = array<T>::create("heap:", {.size = 1000});
        const auto intact = [&] { return array_of.verify([](const array_finding&) { return true; }).intact(); };
        for (u64 i = 0; i < 1000; ++i) array_of.store(i, value);
        const auto bytes = array_of.segment().bytes();
        const auto& g = array_of.geometry();
        for (u64 at = 0; at < g.size * g.stride; at += 97)
            const_cast<std::byte&>(bytes[g.elements_offset + at]) ^= std::byte{1};
        EXPECT_FALSE(intact());
        for (u64 i = 0; i < 1000; ++i) array_of.store(i, value);
        EXPECT_EQ(intact(), g.group_elements == 1);
        array_of.fill(value);
        EXPECT_TRUE(intact());
    };
    check(made(3));
    check(std::uint8_t{7});
    check(std::array<u64, 100>{1});
}

// An element that is alone in the last record, and in its group.
TEST(Array, FillTakesDamageOfALonelyLastElementAway) {
    for (const u64 size : {u64{1}, u64{513}}) {
        auto numbers = array<u64>::create("heap:", {.size = size});
        const auto intact = [&] { return numbers.verify([](const array_finding&) { return true; }).intact(); };
        for (const std::byte bit : {std::byte{1}, std::byte{0x80}}) {
            const auto& g = numbers.geometry();
            ASSERT_TRUE(intact());
            const_cast<std::byte&>(numbers.segment().bytes()[g.elements_offset + (size - 1) * g.stride]) ^= bit;
            ASSERT_FALSE(intact());
            numbers.fill(7);
            EXPECT_TRUE(intact()) << size;
        }
    }
}

TEST(Array, BoolsFromOutsideAreBoolsHoweverTheirBytes) {
    auto flags = array<flagged>::create("heap:", {.size = 20});
    flags.store(2, {true, 9});
    EXPECT_EQ(flags[2], (flagged{true, 9}));
    const auto bytes = flags.segment().bytes();
    const_cast<std::byte&>(bytes[flags.geometry().elements_offset + 6]) = std::byte{2};
    EXPECT_TRUE(flags[3].on);
    flagged out{};
    EXPECT_EQ(flags.load(3, out), outcome::ok);
    EXPECT_TRUE(out.on);
    EXPECT_EQ(std::ranges::count_if(flags, &flagged::on), 2);
}

struct quote_before {
    double bid;
    double ask;
    friend bool operator==(const quote_before&, const quote_before&) = default;
};
struct bid_only {
    double bid;
};

TEST(Array, ReadersMayKnowOnlyTheFirstFieldsAndWritersNot) {
    const test::unique_directory folder("array");
    const std::string uri = folder.file_uri("a");
    {
        auto named = array<quote>::create(uri, {.size = 200});
        for (u64 i = 0; i < 200; ++i) named.store(i, made(i));
    }
    const auto before = array_reader<quote_before>::attach(uri);
    const auto bid = array_reader<bid_only>::attach(uri);
    for (u64 i = 0; i < 200; ++i) {
        EXPECT_EQ(before[i], (quote_before{made(i).bid, made(i).ask}));
        EXPECT_EQ(bid[i].bid, made(i).bid);
    }
    std::vector<quote_before> some(9);
    before.load_range(100, some);
    EXPECT_EQ(some[8], (quote_before{made(108).bid, made(108).ask}));
    EXPECT_EQ(refusal_of([&] { (void)bid.words(); }), errc::schema_mismatch);
    EXPECT_EQ(refusal_of([&] { (void)array<quote_before>::attach(uri); }), errc::schema_mismatch);
    EXPECT_EQ(refusal_of([&] { (void)array_reader<u64>::attach(uri); }), errc::schema_mismatch);
}

TEST(Array, ImpossibleRequestsAreRefused) {
    EXPECT_EQ(refusal_of([] { (void)array<u64>::create("heap:", {}); }), errc::invalid_argument);
    EXPECT_EQ(refusal_of([] { (void)array<u64>::create("heap:", {.size = ~u64{0}}); }), errc::invalid_argument);
    EXPECT_EQ(refusal_of([] { (void)array<std::array<u64, 8193>>::create("heap:", {.size = 1}); }),
              errc::invalid_argument);
    EXPECT_EQ(
        refusal_of([] { (void)dynamic_array::create("heap:", {schema_of<u64>(), schema_of<int>()}, {.size = 1}); }),
        errc::invalid_argument);
}

TEST(Array, AForkedCopyOfTheWriterCannotStore) {
    auto counts = array<u64>::create("anon:", {.size = 10});
    counts.store(1, 5);
    test::child_process child([&]() -> int {
        if (counts[1] != 5) return 1;
        if (refusal_of([&] { counts.store(1, 6); }) != errc::read_only) return 2;
        if (refusal_of([&] { counts.fill(6); }) != errc::read_only) return 3;
        if (refusal_of([&] { (void)counts.span(); }) != errc::read_only) return 4;
        return 0;
    });
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_EQ(counts[1], 5U);
}

TEST(DynamicArray, DoesToTheBytesWhatTheTypedOneDoes) {
    test::seeded_random random;
    const auto compare = [&]<class T>(T) {
        const u64 size = 150;
        auto typed = array<T>::create("heap:", {.size = size});
        auto dynamic = dynamic_array::create("heap:", {std::nullopt, schema_of<T>()}, {.size = size});
        EXPECT_EQ(dynamic.element_bytes(), sizeof(T));
        EXPECT_EQ(dynamic.range_max(), typed.range_max());
        for (u64 step = 0; step < 300; ++step) {
            const u64 count = 1 + random.below(std::min<u64>(typed.range_max(), 20));
            const u64 first = random.below(size - count + 1);
            std::vector<T> values;
            for (u64 i = 0; i < count; ++i) values.push_back(test::stamped_element<T>(first + i, step + 1));
            if (count == 1)
                typed.store(first, values[0]);
            else
                typed.store_range(first, values);
            dynamic.store_range(first, count, std::as_bytes(std::span(values)));
        }
        const auto bytes = [](const auto& a) { return a.segment().bytes().subspan(a.geometry().digests_offset); };
        EXPECT_TRUE(std::ranges::equal(bytes(typed), bytes(dynamic)));
        std::vector<std::byte> out(sizeof(T));
        for (u64 i = 0; i < size; ++i) {
            ASSERT_EQ(dynamic.load(i, out), outcome::ok);
            const T value = typed[i];
            EXPECT_EQ(std::memcmp(out.data(), &value, sizeof(T)), 0);
        }
        EXPECT_EQ(dynamic.load(size, out), outcome::out_of_range);
        EXPECT_TRUE(dynamic.verify([](const array_finding&) { return true; }).intact());
        EXPECT_EQ(refusal_of([&] { dynamic.store(0, std::span(out).first(sizeof(T) - 1)); }), errc::invalid_argument);
        EXPECT_EQ(refusal_of([&] { dynamic.store(size, out); }), errc::invalid_argument);
        EXPECT_EQ(dynamic.load_range(0, dynamic.range_max() + 1, out), outcome::too_large);
    };
    compare(test::narrow_elements::value{});
    compare(test::crumb_elements::value{});
    compare(test::wide_elements::value{});
    compare(test::crooked_elements::value{});
    compare(test::large_elements::value{});
    compare(std::uint8_t{});
    compare(std::uint16_t{});
}

// Copies by vectors and by words are the same bytes, whatever the element's size. What knows the size is compiled for
// each, so it is only what the library does; the rest is one function.
using array_body = std::span<std::byte>;
template <std::size_t Bytes>
using element_of = holdfast::detail::fixed_element<std::array<unsigned char, Bytes>>;

template <std::size_t Bytes>
void store_element(array_body body, const layout::array_geometry& g, u64 index, const std::byte* from) {
    using view = holdfast::detail::array_view<std::byte, element_of<Bytes>>;
    holdfast::detail::array_mutator<element_of<Bytes>>(view(body, g, {})).store(index, 1, from, Bytes);
}
template <std::size_t Bytes, holdfast::detail::copy_by By>
outcome load_element(array_body body, const layout::array_geometry& g, u64 index, std::byte* out) {
    using view = holdfast::detail::array_view<const std::byte, element_of<Bytes>>;
    return holdfast::detail::array_loader<element_of<Bytes>, By>(view(body, g, {})).load(index, out);
}

struct compiled_copies {
    std::size_t bytes;
    decltype(&store_element<1>) store;
    decltype(&load_element<1, holdfast::detail::copy_by::best>) load_best, load_by_words;
};

void compare_copies(const compiled_copies& by) {
    SCOPED_TRACE(by.bytes);
    const layout::array_geometry g = layout::plan_array(50, by.bytes);
    test::aligned_bytes own(g.body_bytes());  // zeros, as a new array has
    for (u64 i = 0; i < 50; ++i) {
        std::vector<std::byte> value(by.bytes);
        for (std::size_t at = 0; at < by.bytes; ++at) value[at] = static_cast<std::byte>(test::random_at(i, at, 0));
        by.store(own.bytes(), g, i, value.data());
        std::vector<std::byte> best(by.bytes + 1, std::byte{0x5a}), slow = best, expected = value;
        expected.push_back(std::byte{0x5a});  // not a byte too many
        ASSERT_EQ(by.load_best(own.bytes(), g, i, best.data()), outcome::ok);
        ASSERT_EQ(by.load_by_words(own.bytes(), g, i, slow.data()), outcome::ok);
        EXPECT_EQ(best, expected);
        EXPECT_EQ(slow, expected);
    }
}
TEST(ArrayCopy, VectorsAndWordsGiveTheSameBytes) {
    using holdfast::detail::copy_by;
    [&]<std::size_t... Before>(std::index_sequence<Before...>) {
        for (const compiled_copies& by :
             {compiled_copies{Before + 1, &store_element<Before + 1>, &load_element<Before + 1, copy_by::best>,
                              &load_element<Before + 1, copy_by::words>}...})
            compare_copies(by);
    }(std::make_index_sequence<70>());
}

}  // namespace
