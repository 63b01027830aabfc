// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of one of many writers of a block store, and of those who take over from
// it (store_rig.hpp). And two of them, two operations each: all interleavings with few pre-emptions, and a death of
// either at every store, those of a takeover included (schedule_rig.hpp). And three (trio_rig.hpp).
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "hooks/access_hooks.hpp"
#include "hooks/block_store_many_interleaving.hpp"
#include "hooks/block_store_subject.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;
using does = block_store_many_interleaving::does;

void try_all(const char* name, const block_store_many_interleaving::steps& steps) {
    block_store_many_interleaving test(steps);
    interleave(name, test);
}

TEST(StoreDeaths, ManyWritersOfABlockStore) {
    die_at_every_store<block_store_subject<last_block_writer>>("block_store, many", 200'000);
}

TEST(Interleavings, ManyWritersOfABlockStoreLookForRoom) {
    try_all("block_store, many: store 2 units, 1 | store 1 unit, 2",
            {{{does::put_large, does::put_small}, {does::put_small, does::put_large}}});
    try_all("block_store, many: claim and drop, store | store, verify",
            {{{does::keep, does::put_small}, {does::put_small, does::look}}});
}

TEST(Interleavings, ManyWritersOfABlockStoreTakeTheSameValue) {
    try_all("block_store, many: free, store | free, store",
            {{{does::free_first, does::put_large}, {does::free_first, does::put_large}}});
    try_all("block_store, many: replace, free what went | replace, verify",
            {{{does::replace_first, does::free_first}, {does::replace_first, does::look}}});
    try_all("block_store, many: replace, store | free, store",
            {{{does::replace_first, does::put_small}, {does::free_first, does::put_small}}});
}

// A value that all want, and room that two look for while the third gives some back.
TEST(Interleavings, ThreeWritersOfABlockStore) {
    using three = block_stores_interleaving<3>;
    three same(three::steps{{{three::does::free_first, three::does::put_large},
                             {three::does::replace_first, three::does::put_small},
                             {three::does::free_first, three::does::keep}}});
    interleave_three("block_store, many: free, store | replace, store | free, claim and drop", same, 5'000);
    three late(three::steps{{{three::does::put_small, three::does::replace_first},
                             {three::does::late, three::does::late},
                             {three::does::put_large, three::does::late}}});
    interleave_three("block_store, many: store, replace | free the last, the last | store, free the last", late, 5'000);
}

// Another writer, which stores a word right in front of the first store to `gate`; from then on loads of some bytes are
// counted.
class one_who_stores_between final : public access_listener {
 public:
    one_who_stores_between(const std::byte* gate, std::byte* at, std::uint64_t word, std::span<const std::byte> counted)
        : gate_(gate), at_(at), word_(word), counted_(counted) {}

    void before_store(std::byte* at, std::size_t) noexcept override {
        if (at != gate_ || stored_) return;
        const access_unwatched other;
        std::memcpy(at_, &word_, sizeof word_);
        stored_ = true;
    }
    void before_load(const std::byte* at, std::size_t) noexcept override {
        if (stored_ && at >= counted_.data() && at < counted_.data() + counted_.size()) ++loads_;
    }
    [[nodiscard]] bool stored() const noexcept { return stored_; }
    [[nodiscard]] std::uint64_t loads() const noexcept { return loads_; }

 private:
    const std::byte* gate_;
    std::byte* at_;
    std::uint64_t word_;
    std::span<const std::byte> counted_;
    bool stored_ = false;
    std::uint64_t loads_ = 0;
};

// Behind the commit of a free its units are anybody's: whatever others store there, no more is looked at than it had.
TEST(BlockStoreManyWork, AFreeLooksAtNoMoreUnitsThanTheValueHad) {
    constexpr holdfast::layout::block_store_geometry geometry{200, 64, 2};
    aligned_bytes bytes(static_cast<std::size_t>(geometry.body_bytes()));
    const writable_blocks view(bytes.bytes(), geometry);
    writer_roll roll;
    many_block_writer writer = block_writer_of(view, roll, 0);
    std::vector<std::uint64_t> handles;
    for (std::uint64_t n = 0; n < geometry.units; ++n) handles.push_back(put(writer, {n, 40}).handle);
    for (const std::size_t gone : {10U, 11U, 20U}) ASSERT_EQ(writer.free(handles[gone]), holdfast::outcome::ok);
    const std::uint64_t scattered = put(writer, {1, 154}).handle;
    ASSERT_EQ(view.index_of(scattered), 10U);
    ASSERT_EQ(view.word(20), scattered) << "its second run";

    const std::uint64_t long_run = holdfast::layout::block_run_word(180, holdfast::layout::block_no_run);
    one_who_stores_between other(view.word_at(10), view.unit(20), long_run,
                                 std::span(view.word_at(0), static_cast<std::size_t>(geometry.units * 8)));
    {
        const access_watch watch(bytes.bytes(), other);
        ASSERT_EQ(writer.free(scattered), holdfast::outcome::ok);
    }
    EXPECT_TRUE(other.stored());
    EXPECT_LE(other.loads(), 8U);
}

// What was just committed is met by enumeration and freed, before its writer has said that it is complete.
TEST(Interleavings, ManyWritersOfABlockStoreTakeWhatJustCame) {
    try_all("block_store, many: store, replace | free the last, free the last",
            {{{does::put_small, does::replace_first}, {does::late, does::late}}});
    try_all("block_store, many: replace, store | free the last, store",
            {{{does::replace_first, does::put_small}, {does::late, does::put_small}}});
}

// There is more room than they need: words that were freed may look taken for a while.
TEST(Orders, BlockStoreMany) {
    using steps = block_store_many_interleaving::steps;
    block_store_many_interleaving both(
        steps{{{does::replace_first, does::put_small}, {does::replace_first, does::keep}}});
    block_store_many_interleaving late(steps{{{does::put_small, does::replace_first}, {does::late, does::late}}});
    block_store_many_interleaving frees(
        steps{{{does::free_first, does::put_large}, {does::free_first, does::put_small}}});
    expect_orders_matter("block_store_many", {&both, &late, &frees}, 500);
}

}  // namespace
