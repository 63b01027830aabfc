// SPDX-License-Identifier: Apache-2.0
// Arrays whose bytes somebody damaged, in every place and also while we read: nothing crashes, hangs or reads outside
// (the bodies are heap blocks of their exact size, so address sanitizer sees any byte too many); the full check finds
// every flipped bit that means anything; and no repair covers it up.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/array.hpp"
#include "support/array_model.hpp"
#include "support/image_corruption.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using u64 = std::uint64_t;
using geometry = layout::array_geometry;

enum class state { quiet, armed };

/// A sound array of 40 elements in several groups; `armed`: its writer was killed behind the commit of a range.
template <class T>
std::vector<std::byte> sound_image(const geometry& g, state how) {
    test::array_image<T> array(g);
    for (u64 i = 0; i < g.size; ++i) array.store(i, 1, 1);
    array.store(3, std::min<u64>(2, g.range_max), 2);
    if (how == state::armed) array.arm(g.size / 2 - 1, std::min<u64>(9, g.range_max), 3);
    return {array.bytes().begin(), array.bytes().end()};
}

/// Everything a program does with an array, on bytes that may be anything. Returns: findings of the full check.
template <class Element>
u64 use_everything(std::span<std::byte> body, const geometry& g, Element element) {
    const detail::array_view<std::byte, Element> view(body, g, element);
    const detail::array_loader<Element> loader(view.as_const());
    std::vector<std::byte> out(g.range_max * element.bytes());
    for (u64 i = 0; i < g.size; ++i) EXPECT_NE(loader.load(i, out.data()), outcome::out_of_range);
    EXPECT_EQ(loader.load(g.size, out.data()), outcome::out_of_range);
    EXPECT_EQ(loader.load(~u64{0}, out.data()), outcome::out_of_range);
    const u64 count = std::min(g.range_max, g.size);
    (void)loader.load_range(0, count, out.data());
    (void)loader.load_range(g.size - count, count, out.data());
    const array_verification found = detail::verify(view.as_const(), [&](const array_finding& f) {
        return f.count == 0 || (f.first < g.size && f.count <= g.size - f.first);
    });
    EXPECT_FALSE(found.stopped) << "a finding names elements that do not exist";

    (void)detail::recover(view);
    if (element.bytes() != g.element_bytes) return found.findings;  // a writer knows the whole element
    detail::array_mutator<Element> mutator(view);
    for (u64 i = 0; i < g.size; i += 7) mutator.store(i, 1, out.data(), element.bytes());
    mutator.store(g.size - count, count, out.data(), element.bytes());
    (void)detail::verify(view.as_const(), [](const array_finding&) { return true; });
    return found.findings;
}

template <class T>
u64 use_copy(std::span<const std::byte> image, const geometry& g) {
    test::aligned_bytes body(image.size());
    std::memcpy(body.bytes().data(), image.data(), image.size());
    return use_everything(body.bytes(), g, detail::fixed_element<T>{});
}

std::vector<test::image_part> parts_of(const geometry& g) {
    std::vector<test::image_part> parts{{"journal", g.journal_offset, layout::array_image_offset + 64},
                                        {"digests", g.digests_offset, g.groups() * 8}};
    if (g.wide()) parts.push_back({"versions", g.versions_offset, g.versions_bytes()});
    return parts;
}

template <class T>
class ArrayHostile : public ::testing::Test {
 protected:
    const geometry planned = layout::plan_array(sizeof(T) > 1000 ? 6 : 40 + 1000 / sizeof(T), sizeof(T));
    static constexpr state both[2] = {state::quiet, state::armed};
};
using elements = ::testing::Types<test::narrow_elements::value, test::crumb_elements::value, test::wide_elements::value,
                                  test::crooked_elements::value, test::large_elements::value>;
TYPED_TEST_SUITE(ArrayHostile, elements);

TYPED_TEST(ArrayHostile, EveryBitAndWordOfJournalDigestsAndVersionsMayBeAnything) {
    for (const state how : this->both) {
        const auto image = sound_image<TypeParam>(this->planned, how);
        ASSERT_EQ(use_copy<TypeParam>(image, this->planned), 0U);
        for (const auto& part : parts_of(this->planned)) {
            const auto use = [&](const test::damage& d, std::span<std::byte> hurt) {
                if (!test::sanitized || d.offset % 3 == 0) (void)use_copy<TypeParam>(hurt, this->planned);
            };
            test::for_each_bit_flip(image, part, use);
            test::for_each_word_damage(image, part, use);
        }
    }
}

TYPED_TEST(ArrayHostile, RandomDamageAndRandomBytes) {
    test::seeded_random random;
    for (const state how : this->both) {
        const auto image = sound_image<TypeParam>(this->planned, how);
        for (const auto& part : {parts_of(this->planned)[0], test::image_part{"all", 0, image.size()}})
            test::random_damage(image, part, random, test::scaled(2000),
                                [&](const test::damage&, std::span<std::byte> hurt) {
                                    (void)use_copy<TypeParam>(hurt, this->planned);
                                });
        std::vector<std::byte> noise(image.size());
        for (u64 round = 0; round < test::scaled(300); ++round) {
            for (std::byte& b : noise) b = static_cast<std::byte>(random());
            noise[0] |= static_cast<std::byte>(round % 2);  // a committed store, half of the time
            (void)use_copy<TypeParam>(noise, this->planned);
        }
    }
}

// What a single flipped bit may not do is go unnoticed, where the bit means anything.
TYPED_TEST(ArrayHostile, VerifyFindsEveryFlippedBitOfElementsDigestsAndParity) {
    using image_type = test::array_image<TypeParam>;
    const geometry& g = this->planned;
    const auto image = sound_image<TypeParam>(g, state::quiet);
    const auto expect_found = [&](const test::damage& d, std::span<std::byte> hurt) {
        const u64 element = d.offset < g.elements_offset ? g.size : (d.offset - g.elements_offset) / g.stride;
        u64 right = 0, wrong = 0;
        (void)detail::verify(typename image_type::const_view(hurt, g, {}), [&](const array_finding& f) {
            ++(element == g.size || element - f.first < f.count ? right : wrong);
            return true;
        });
        EXPECT_EQ(right, 1U) << d.text();
        EXPECT_EQ(wrong, 0U) << d.text();
    };
    test::for_each_bit_flip(image, {"elements", g.elements_offset, g.size * g.stride}, expect_found);
    test::for_each_bit_flip(image, {"digests", g.digests_offset, g.groups() * 8}, expect_found);
    test::for_each_bit_flip(image, {"sequence", g.journal_offset, 1}, [&](const test::damage& d, auto hurt) {
        if (d.value == 0) expect_found(d, hurt);
    });
    if (!g.wide()) return;
    const u64 last_record = 3 / g.group_elements;  // its group's parity may be the trace of a kill
    for (u64 group = last_record + 3; group < g.groups(); ++group)
        test::for_each_bit_flip(image, {"version", g.versions_offset + group * 8, 1},
                                [&](const test::damage& d, std::span<std::byte> hurt) {
                                    if (d.value == 0) expect_found(d, hurt);
                                });
}

// Killed behind the commit: the record is part of the array, and damage of it is found before and after it is carried
// out, beside it as well as in it.
TYPED_TEST(ArrayHostile, DamageOfAndBesideACommittedStoreIsFoundAndNeverSigned) {
    using image_type = test::array_image<TypeParam>;
    const geometry& g = this->planned;
    const auto image = sound_image<TypeParam>(g, state::armed);
    const u64 first = g.size / 2 - 1, count = std::min<u64>(9, g.range_max);
    const auto expect_found = [&](const test::damage& d, std::span<std::byte> hurt) {
        EXPECT_NE(image_type::damage_of(typename image_type::const_view(hurt, g, {})), "") << d.text();
        const image_type next(hurt, g);
        EXPECT_NE(next.damage(), "") << d.text() << ", covered up by the recovery";
    };
    array_verification report;
    EXPECT_EQ(image_type::damage_of(typename image_type::const_view(image, g, {}), &report), "");
    EXPECT_TRUE(report.store_open);
    const std::size_t image_at = g.journal_offset + layout::array_image_offset;
    test::for_each_bit_flip(image, {"image", image_at, count * g.stride}, expect_found);
    const u64 groups = (first + count - 1) / g.group_elements - first / g.group_elements + 1;
    test::for_each_bit_flip(image, {"next", g.journal_offset + layout::array_next_offset, groups * 8}, expect_found);
    test::for_each_bit_flip(image, {"before", g.elements_offset, first * g.stride}, expect_found);
    test::for_each_bit_flip(
        image, {"behind", g.elements_offset + (first + count) * g.stride, (g.size - first - count) * g.stride},
        expect_found);
    // The elements themselves are replaced from the record whatever they hold.
    test::for_each_bit_flip(image, {"replaced", g.elements_offset + first * g.stride, count * g.stride},
                            [&](const test::damage& d, std::span<std::byte> hurt) {
                                const image_type next(hurt, g);
                                EXPECT_TRUE(next.recovery().store_finished);
                                EXPECT_EQ(next.damage(), "") << d.text();
                            });
}

// A record whose sequence, place or check is hurt is none of a writer's: it is found, and stored nowhere.
TYPED_TEST(ArrayHostile, ARecordThatNoWriterWroteIsFoundAndNotCarriedOut) {
    using image_type = test::array_image<TypeParam>;
    const geometry& g = this->planned;
    for (const state how : this->both) {
        const auto image = sound_image<TypeParam>(g, how);
        test::for_each_bit_flip(
            image, {"head", g.journal_offset, 24}, [&](const test::damage& d, std::span<std::byte> hurt) {
                if (hurt[g.journal_offset] == std::byte{0} || (static_cast<unsigned>(hurt[g.journal_offset]) & 1U) == 0)
                    return;  // at rest: nothing to carry out
                EXPECT_NE(image_type::damage_of(typename image_type::const_view(hurt, g, {})), "") << d.text();
                const std::vector<std::byte> before(hurt.begin(), hurt.end());
                const image_type next(hurt, g);
                EXPECT_TRUE(next.recovery().journal_rejected) << d.text();
                EXPECT_EQ(
                    std::memcmp(before.data() + g.elements_offset, hurt.data() + g.elements_offset, g.size * g.stride),
                    0)
                    << d.text();
            });
    }
}

// Stores beside and over damage leave it visible; only a store of the whole group takes it away, with the bytes.
TYPED_TEST(ArrayHostile, DamageStaysUntilItsWholeGroupIsStored) {
    using image_type = test::array_image<TypeParam>;
    const geometry& g = this->planned;
    image_type array(g);
    for (u64 i = 0; i < g.size; ++i) array.store(i, 1, 1);
    array.bytes()[g.elements_offset + g.stride + 2] ^= std::byte{64};  // element 1
    if (g.group_elements > 1) {
        array.store(1, 1, 2);
        EXPECT_NE(array.damage(), "");
        array.store(0, g.group_elements - 1, 3);
        EXPECT_NE(array.damage(), "");
        array.store(1, g.group_elements, 4);
        EXPECT_NE(array.damage(), "");
    }
    EXPECT_NE(array.damage(), "");
    array.store(0, std::min(g.range_max, g.group_elements + 1), 5);
    EXPECT_EQ(array.damage(), "");
    for (u64 i = 0; i < g.group_elements; ++i) EXPECT_EQ(image_type::stamp_at(array.reader(), i), 5U);
}

// An odd version that no record explains hurts nobody: readers get the element, the writer goes on.
TEST(ArrayHostileVersion, AnUnexplainedOddVersionIsReportedAndReadOver) {
    using image_type = test::array_image<test::wide_elements::value>;
    const geometry g = layout::plan_array(100, sizeof(test::wide_elements::value));
    image_type array(g);
    for (u64 i = 0; i < g.size; ++i) array.store(i, 1, 1);
    const auto view = array.bytes_view();
    detail::store_release<u64>(view.version_of(1), detail::load_relaxed<u64>(view.version_of(1)) + 1);
    EXPECT_NE(array.damage().find("the version is odd"), std::string::npos);
    for (u64 i = 0; i < g.size; ++i) EXPECT_EQ(image_type::stamp_at(array.reader(), i), 1U);
    array.store(20, 1, 2);
    EXPECT_EQ(image_type::stamp_at(array.reader(), 20), 2U);
    EXPECT_EQ(array.damage(), "");
}

// Every geometry word changed: refused, or used with nothing outside the body, by sizes known at either time.
TEST(ArrayHostileGeometry, ChangedWordIsRefusedOrHarmless) {
    using value = test::wide_elements::value;
    const geometry good = layout::plan_array(60, sizeof(value));
    const auto image = sound_image<value>(good, state::armed);
    const auto sound_words = layout::geometry_words_of(good);
    test::aligned_bytes body(image.size());
    u64 accepted = 0, refused = 0;
    const auto attempt = [&](std::size_t word, u64 changed) {
        auto words = sound_words;
        words[word] = changed;
        geometry g;
        if (layout::read_array_geometry(words, image.size(), g) != nullptr) {
            ++refused;
            return;
        }
        ++accepted;
        std::memcpy(body.bytes().data(), image.data(), image.size());
        (void)use_everything(body.bytes(), g, detail::runtime_element{static_cast<std::size_t>(g.element_bytes)});
        std::memcpy(body.bytes().data(), image.data(), image.size());
        if (g.element_bytes >= sizeof(value)) (void)use_everything(body.bytes(), g, detail::fixed_element<value>{});
        std::memcpy(body.bytes().data(), image.data(), image.size());
        if (g.element_bytes >= 4) (void)use_everything(body.bytes(), g, detail::fixed_element<std::uint32_t>{});
    };
    for (std::size_t word = 0; word < sound_words.size(); ++word) {
        for (unsigned bit = 0; bit < 64; ++bit) attempt(word, sound_words[word] ^ (u64{1} << bit));
        for (u64 step = 1; step <= 130; ++step) {
            attempt(word, sound_words[word] + step);
            attempt(word, sound_words[word] - step);
        }
        for (const u64 value_of : {u64{0}, u64{1}, ~u64{0}, u64{1} << 63, u64{1} << 40, image.size()})
            attempt(word, value_of);
    }
    EXPECT_GT(accepted, 50U);
    EXPECT_GT(refused, 3000U);
}

// A peer with a read-write mapping writes nonsense while we work.
TEST(ArrayHostileLive, ScribblingPeerCrashesNobody) {
    using value = test::crooked_elements::value;
    const geometry g = layout::plan_array(70, sizeof(value));
    const auto image = sound_image<value>(g, state::quiet);
    test::aligned_bytes body(image.size());
    std::memcpy(body.bytes().data(), image.data(), image.size());
    std::atomic<bool> done{false};
    const u64 seed = test::choose_seed();
    std::thread scribbler([&] {
        const std::span<std::byte> bytes = body.bytes();
        for (u64 i = 0; !done.load(std::memory_order_relaxed); ++i) {
            // Half of the time the head of the journal, else anywhere.
            const u64 at = test::random_at(seed, 0, i) % (i % 2 == 0 ? 4 : bytes.size() / 8) * 8;
            const u64 kind = test::random_at(seed, 1, i) % 4;
            const u64 word = kind == 0   ? 0
                             : kind == 1 ? ~u64{0}
                             : kind == 2 ? (i % 70) << 16 | (i % 9)
                                         : test::random_at(seed, 2, i);
            detail::store_release<u64>(bytes.data() + at, word);
        }
    });
    for (u64 round = 0; round < test::scaled(20'000); ++round)
        (void)use_everything(body.bytes(), g, detail::fixed_element<value>{});
    done = true;
    scribbler.join();
}

}  // namespace
