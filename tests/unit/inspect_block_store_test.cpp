// SPDX-License-Identifier: Apache-2.0
// What stat and verify tell of a block store: how full it is, and where it is damaged.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/block_store.hpp"
#include "holdfast/block_store/many.hpp"
#include "inspect/description.hpp"
#include "inspect/processes.hpp"
#include "inspect/verification.hpp"
#include "support/segment_tools.hpp"

namespace holdfast::inspect {
namespace {

class InspectBlockStore : public test::segment_test {
 protected:
    InspectBlockStore() {
        kept_ = store_.allocate(std::vector<std::byte>(300, std::byte{5})).handle;
        freed_ = store_.allocate(std::vector<std::byte>(10, std::byte{6})).handle;
        EXPECT_EQ(store_.free(freed_), outcome::ok);
    }
    // The body as its writer maps it.
    [[nodiscard]] std::byte* body() const { return const_cast<std::byte*>(store_.segment().bytes().data()); }
    [[nodiscard]] detail::block_view<const std::byte> view() const {
        return {store_.segment().bytes(), store_.geometry()};
    }

    test::unique_posix_name name_{"blocks"};
    block_store store_ = block_store::create(name_.uri(), {.bytes = 6400, .unit_bytes = 64});
    std::uint64_t kept_ = 0, freed_ = 0;
};

TEST_F(InspectBlockStore, StatTellsValuesAndRoom) {
    const description d = describe(name_.uri());
    EXPECT_FALSE(d.problem);
    EXPECT_EQ(d.contents.size, 1U);
    EXPECT_EQ(d.contents.used_bytes, 6U * 64);
    EXPECT_EQ(d.contents.room_bytes, 6400U);
    std::string text;
    json_out out(text);
    append_json(out, d);
    EXPECT_NE(text.find("\"used_bytes\":384,\"room_bytes\":6400"), std::string::npos) << text;
}

TEST_F(InspectBlockStore, ASoundStoreHasNoFindings) {
    const verification found = verify(name_.uri());
    EXPECT_TRUE(found.intact());
    EXPECT_TRUE(found.findings.empty());
    EXPECT_EQ(found.elements, 1U);
}

TEST_F(InspectBlockStore, DamageOfAValueIsShownWhereItLies) {
    const std::uint64_t unit = view().index_of(kept_);
    const std::uint64_t at = store_.geometry().units_offset() + unit * 64;
    body()[at + 100] ^= std::byte{4};
    const verification found = verify(name_.uri());
    ASSERT_EQ(found.damages, 1U);
    EXPECT_EQ(found.findings[0].offset, header_bytes + at);
    EXPECT_EQ(found.findings[0].place, "unit " + std::to_string(unit) + ", handle " + std::to_string(kept_));
    EXPECT_NE(found.findings[0].what.find("checksum"), std::string::npos);
}

TEST_F(InspectBlockStore, ADamagedRecordIsAProblemOfStatAndAFindingOfVerify) {
    body()[layout::block_records_offset + 16] ^= std::byte{1};
    body()[layout::block_records_offset + layout::block_record_bytes + 16] ^= std::byte{1};
    const description d = describe(name_.uri());
    ASSERT_TRUE(d.problem);
    EXPECT_EQ(d.problem->code, errc::corrupt);
    const verification found = verify(name_.uri());
    ASSERT_EQ(found.damages, 1U);
    EXPECT_EQ(found.findings[0].place, "counts");
}

// A store of many writers is looked at as any other, and says how many may write and who does.
TEST(InspectBlockStoreOfMany, IsDescribedAndVerifiedWithItsWriters) {
    const test::unique_posix_name name{"many"};
    auto store = basic_block_store<writers::many>::create(name.uri(), {.bytes = 6400, .unit_bytes = 64});
    std::optional other = basic_block_store<writers::many>::attach(name.uri());
    const std::uint64_t kept = store.allocate(std::vector<std::byte>(300)).handle;
    ASSERT_TRUE(other->allocate(std::vector<std::byte>(10)));
    ASSERT_EQ(other->prepare(500), outcome::ok);
    std::string text;
    json_out out(text);
    append_json(out, describe(name.uri()));
    EXPECT_NE(text.find("\"used_bytes\":448,\"room_bytes\":6400"), std::string::npos) << text;
    EXPECT_NE(text.find("\"writers\":\"many\""), std::string::npos) << text;
    EXPECT_NE(text.find("\"writer_slots\":16"), std::string::npos) << text;
    EXPECT_TRUE(verify(name.uri()).findings.empty());
    usage who = usage_of(name.uri());
    EXPECT_EQ(who.writer_slots, 16U);
    ASSERT_EQ(who.writers.size(), 2U);
    for (std::uint32_t slot = 0; slot < 2; ++slot) {
        EXPECT_EQ(who.writers[slot].slot, slot);
        EXPECT_EQ(who.writers[slot].pid, static_cast<std::uint64_t>(::getpid()));
    }
    other.reset();
    who = usage_of(name.uri());
    ASSERT_EQ(who.writers.size(), 1U);
    EXPECT_EQ(who.writers[0].slot, 0U);
    EXPECT_TRUE(verify(name.uri()).findings.empty());  // the claim of one that is gone is no damage

    auto* const body = const_cast<std::byte*>(store.segment().bytes().data());
    const std::uint64_t unit =
        detail::block_view<const std::byte>(store.segment().bytes(), store.geometry()).index_of(kept);
    body[store.geometry().units_offset() + unit * 64 + 100] ^= std::byte{4};
    body[store.geometry().journals_offset() + layout::block_journal_records_offset + 64 + 16] ^= std::byte{1};
    const verification found = verify(name.uri());
    ASSERT_EQ(found.damages, 2U);
    EXPECT_EQ(found.findings[0].place, "counts");
    EXPECT_EQ(found.findings[0].offset, header_bytes + store.geometry().journals_offset());
    EXPECT_NE(found.findings[1].what.find("checksum"), std::string::npos);
}

// A kill between the two stores that end a replacement: no damage, and the next writer deals with it.
TEST_F(InspectBlockStore, AnOpenReplacementIsANote) {
    const block_result next = store_.replace(kept_, std::vector<std::byte>(20, std::byte{8}));
    ASSERT_TRUE(next);
    const detail::block_view<std::byte> blocks({body(), store_.segment().bytes().size()}, store_.geometry());
    detail::store_release<std::uint64_t>(blocks.selector_at(), blocks.selector() - 1);
    detail::store_release<std::uint64_t>(blocks.word_at(blocks.index_of(kept_)), kept_);
    const verification found = verify(name_.uri());
    EXPECT_TRUE(found.intact());
    ASSERT_EQ(found.findings.size(), 1U);
    EXPECT_EQ(found.findings[0].how, severity::note);
    EXPECT_EQ(found.elements, 2U);
}

}  // namespace
}  // namespace holdfast::inspect
