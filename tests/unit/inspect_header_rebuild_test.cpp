// SPDX-License-Identifier: Apache-2.0
// rebuild_header over a header damaged at each of its bytes, and at each two neighbours of what is no schema: it comes
// back as it was; of a hash table of one writer and of many, which the kind alone does not tell.
#include "inspect/header_rebuild.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/many.hpp"
#include "support/process.hpp"
#include "support/seed.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using layout::segment_header;

class HeaderRebuild : public segment_test, public ::testing::WithParamInterface<writers> {
 protected:
    HeaderRebuild() {
        using value = std::array<std::uint64_t, 2>;
        if (GetParam() == writers::one)
            static_cast<void>(hash_table<std::uint64_t, value>::create(name_, {.capacity = 3000}));
        else
            static_cast<void>(hash_table<std::uint64_t, value, writers::many>::create(name_, {.capacity = 3000}));
        std::ifstream(folder_.file("s"), std::ios::binary).read(reinterpret_cast<char*>(&sound_), sizeof sound_);
        total_bytes_ = std::filesystem::file_size(folder_.file("s"));
    }

    /// Damages so many bytes from there on, and asks for the header's immutable part as it was.
    void damage(std::size_t at, std::size_t bytes) {
        segment_header header = sound_;
        auto* const raw = reinterpret_cast<unsigned char*>(&header);
        for (std::size_t i = at; i < at + bytes; ++i) raw[i] ^= static_cast<unsigned char>(1 + random_.below(255));
        const auto rebuilt = inspect::rebuild_header(header, total_bytes_);
        ASSERT_TRUE(rebuilt) << bytes << " bytes at " << at;
        EXPECT_EQ(std::memcmp(&*rebuilt, &sound_, immutable), 0) << bytes << " bytes at " << at;
    }

    static constexpr std::size_t immutable = offsetof(segment_header, reserved_checksum);
    static constexpr std::size_t schema_at = offsetof(segment_header, schema);

    seeded_random random_;
    unique_directory folder_{"rebuild", "/dev/shm"};
    std::string name_ = folder_.file_uri("s");
    segment_header sound_{};
    std::uint64_t total_bytes_ = 0;
};

TEST_P(HeaderRebuild, EachByte) {
    for (std::size_t at = 0; at < immutable; ++at) damage(at, 1);
}

TEST_P(HeaderRebuild, TwoNeighbours) {
    for (std::size_t at = 0; at < schema_at; ++at)
        for (int again = 0; again < 3; ++again) damage(at, 2);
    for (std::size_t at = schema_at; at + 1 < immutable; at += 97) damage(at, 2);
}

// Whatever its length says, what a schema has is not taken for what lies behind it.
TEST_P(HeaderRebuild, EachLengthOfASchema) {
    ASSERT_GT(sound_.schema_bytes, 0U);
    for (std::uint32_t length = 0; length <= schema_bytes_max; length += 5) {
        segment_header header = sound_;
        header.schema_bytes = length;
        const auto rebuilt = inspect::rebuild_header(header, total_bytes_);
        ASSERT_TRUE(rebuilt) << length;
        EXPECT_EQ(std::memcmp(&*rebuilt, &sound_, immutable), 0) << length;
    }
}

// All that says what it is, at once.
TEST_P(HeaderRebuild, KindVersionAndPolicyAtOnce) {
    segment_header header = sound_;
    header.kind = header.container_version = header.policy = 0xEEEEEEEE;
    const auto rebuilt = inspect::rebuild_header(header, total_bytes_);
    ASSERT_TRUE(rebuilt);
    EXPECT_EQ(std::memcmp(&*rebuilt, &sound_, immutable), 0);
}

INSTANTIATE_TEST_SUITE_P(Tables, HeaderRebuild, ::testing::Values(writers::one, writers::many),
                         [](const auto& of) { return std::string(of.param == writers::one ? "one" : "many"); });

}  // namespace
