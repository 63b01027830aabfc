// SPDX-License-Identifier: Apache-2.0
// The copies out of shared memory and into it: every size and alignment, up to the last byte of a page and not
// beyond.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "holdfast/detail/shared_copy.hpp"

namespace {

// Two pages, the second of which must not be touched.
class guarded_page {
 public:
    guarded_page() : at_(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        EXPECT_NE(at_, MAP_FAILED);
        EXPECT_EQ(::mprotect(static_cast<std::byte*>(at_) + 4096, 4096, PROT_NONE), 0);
        for (std::size_t i = 0; i < 4096; ++i)
            end()[-1 - static_cast<std::ptrdiff_t>(i)] = static_cast<std::byte>(i * 7);
    }
    guarded_page(const guarded_page&) = delete;
    guarded_page& operator=(const guarded_page&) = delete;
    ~guarded_page() { ::munmap(at_, 8192); }
    [[nodiscard]] std::byte* end() const noexcept { return static_cast<std::byte*>(at_) + 4096; }

 private:
    void* at_;
};

TEST(SharedCopy, CopiesEverySizeAtEveryAlignment) {
    const guarded_page from;
    for (std::size_t bytes = 0; bytes < 700; ++bytes)
        for (std::size_t shift = 0; shift < 9; ++shift) {
            std::vector<std::byte> to(bytes + 32, std::byte{0xAA}), expected = to;
            const std::byte* source = from.end() - bytes - shift * (bytes % 3);  // ends at the page's end, or before
            std::memcpy(expected.data() + shift, source, bytes);
            holdfast::detail::copy_from_shared(to.data() + shift, source, bytes);
            ASSERT_EQ(to, expected) << bytes << " bytes, shifted by " << shift;
            std::memset(to.data() + shift, 0, bytes);
            holdfast::detail::copy_from_shared_here(to.data() + shift, source, bytes);
            ASSERT_EQ(to, expected) << bytes << " bytes in place, shifted by " << shift;
            std::memset(to.data() + shift, 0, bytes);
            holdfast::detail::copy_to_shared(to.data() + shift, source, bytes);
            ASSERT_EQ(to, expected) << bytes << " bytes into shared memory, shifted by " << shift;
        }
}

// Every place within a line, so that head and tail of each length are met, and lines to their full.
TEST(SharedCopy, CopiesEverySizePastTheCachesFromEveryPlaceInALine) {
    const guarded_page from;
    struct alignas(64) line {
        std::byte bytes[64];
    };
    for (std::size_t bytes = 0; bytes < 330; ++bytes)
        for (std::size_t shift = 0; shift < 64; ++shift) {
            std::array<line, 7> to;
            std::memset(to.data(), 0xAA, sizeof to);
            auto expected = to;
            const std::byte* source = from.end() - bytes - shift * (bytes % 3);
            std::memcpy(expected[0].bytes + shift, source, bytes);
            holdfast::detail::copy_past_caches(to[0].bytes + shift, source, bytes);
            holdfast::detail::fence_past_caches();
            ASSERT_EQ(std::memcmp(to.data(), expected.data(), sizeof to), 0) << bytes << " bytes from " << shift;
        }
}

TEST(SharedCopy, CopiesByTheWidestRegistersWhereThereAreAny) {
    const guarded_page from;
    for (std::size_t bytes = 64; bytes <= 128; ++bytes) {
        std::vector<std::byte> to(bytes + 32, std::byte{0xAA}), expected = to;
        const std::byte* source = from.end() - bytes;
        if (!holdfast::detail::copy_from_shared_by_32(to.data() + 7, source, bytes)) {
            ASSERT_EQ(to, expected) << "it says that nothing was copied";
            continue;
        }
        std::memcpy(expected.data() + 7, source, bytes);
        ASSERT_EQ(to, expected) << bytes << " bytes";
    }
}

TEST(SharedCopy, CopiesLongOnes) {
    std::vector<std::byte> from(100'003), to(100'100, std::byte{0xAA});
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 31 + i / 251);
    for (const std::size_t bytes : {4095U, 4096U, 4097U, 65'536U, 99'999U, 100'003U}) {
        std::vector<std::byte> expected = to;
        std::memcpy(expected.data() + 5, from.data(), bytes);
        holdfast::detail::copy_from_shared(to.data() + 5, from.data(), bytes);
        ASSERT_EQ(to, expected) << bytes;
    }
}

TEST(SharedCopy, CopiesIntoTheLastByteOfAPage) {
    const guarded_page to;
    std::vector<std::byte> from(1000, std::byte{0x5C});
    for (const std::size_t bytes : {1U, 3U, 7U, 15U, 31U, 63U, 64U, 65U, 128U, 129U, 255U, 256U, 999U, 1000U}) {
        holdfast::detail::copy_from_shared(to.end() - bytes, from.data(), bytes);
        EXPECT_EQ(std::memcmp(to.end() - bytes, from.data(), bytes), 0);
    }
}

template <std::size_t Bytes>
void expect_copied(const guarded_page& from) {
    for (std::size_t shift = 0; shift < 9; ++shift) {
        std::vector<std::byte> to(Bytes + 16, std::byte{0xAA}), expected = to;
        const std::byte* source = from.end() - Bytes - shift;
        std::memcpy(expected.data() + 3, source, Bytes);
        holdfast::detail::copy_from_shared<Bytes>(to.data() + 3, source);
        EXPECT_EQ(to, expected) << Bytes << " bytes, " << shift << " before the page's end";
    }
}

TEST(SharedCopy, CopiesSizesThatTheCompilerKnows) {
    const guarded_page from;
    expect_copied<1>(from);
    expect_copied<6>(from);
    expect_copied<12>(from);
    expect_copied<13>(from);
    expect_copied<64>(from);
    expect_copied<72>(from);
    expect_copied<500>(from);
}

}  // namespace
