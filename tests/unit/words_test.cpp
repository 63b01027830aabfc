// SPDX-License-Identifier: Apache-2.0
// Copies of words, by words and by vectors: the same bytes of every size and offset, up to the last word of a page and
// not beyond.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "holdfast/detail/words.hpp"

namespace {

using holdfast::detail::copy_by;
using holdfast::detail::copy_from_words;

// Two pages, the second of which must not be touched.
class guarded_page {
 public:
    guarded_page() : at_(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        EXPECT_NE(at_, MAP_FAILED);
        EXPECT_EQ(::mprotect(static_cast<std::byte*>(at_) + 4096, 4096, PROT_NONE), 0);
        for (std::size_t i = 0; i < 4096; ++i)
            static_cast<std::byte*>(at_)[i] = static_cast<std::byte>(i * 7 + i / 251);
    }
    guarded_page(const guarded_page&) = delete;
    guarded_page& operator=(const guarded_page&) = delete;
    ~guarded_page() { ::munmap(at_, 8192); }
    /// The last words that hold so many bytes.
    [[nodiscard]] const std::byte* last(std::size_t bytes) const noexcept {
        return static_cast<std::byte*>(at_) + 4096 - (bytes + 7) / 8 * 8;
    }

 private:
    void* at_;
};

template <class Copy>
void expect_same(const guarded_page& from, std::size_t offset, std::size_t bytes, const Copy& copy) {
    const std::byte* const base = from.last(offset + bytes);
    std::vector<std::byte> to(bytes + 2, std::byte{0xAA}), expected = to;
    std::memcpy(expected.data() + 1, base + offset, bytes);
    copy(to.data() + 1, base);
    EXPECT_EQ(to, expected) << bytes << " bytes from byte " << offset;
}

/// What the compiler knows it may copy in another way, where it optimises.
template <std::size_t Bytes>
void expect_known_size_copied(const guarded_page& from) {
    for (std::size_t offset = 0; offset < 18; ++offset) {
        expect_same(from, offset, Bytes, [&](std::byte* to, const std::byte* base) {
            copy_from_words<copy_by::best>(to, base, offset, Bytes);
        });
        expect_same(from, offset, Bytes, [&](std::byte* to, const std::byte* base) {
            copy_from_words<copy_by::words>(to, base, offset, Bytes);
        });
    }
    expect_same(from, 8, Bytes,
                [](std::byte* to, const std::byte* base) { copy_from_words<copy_by::best>(to, base, 8, Bytes); });
}

TEST(Words, CopiesOfKnownSizesAreTheSameByVectorsAndByWords) {
    const guarded_page from;
    [&]<std::size_t... Before>(std::index_sequence<Before...>) {
        (expect_known_size_copied<Before + 1>(from), ...);
    }(std::make_index_sequence<72>());
    expect_known_size_copied<127>(from);
    expect_known_size_copied<128>(from);
    expect_known_size_copied<152>(from);
    expect_known_size_copied<1001>(from);
}

TEST(Words, CopiesOfAnySizeAreTheSame) {
    const guarded_page from;
    for (std::size_t bytes = 0; bytes < 300; ++bytes)
        for (std::size_t offset = 0; offset < 9; ++offset)
            expect_same(from, offset, bytes, [&](std::byte* to, const std::byte* base) {
                copy_from_words<copy_by::best>(to, base, offset, bytes);
            });
}

#if defined(HOLDFAST_WORDS_BY_VECTORS)
// Also where nothing is optimised, and so no size is known.
TEST(Words, RegistersTakeWholeRegistersOfWhatIsAskedForAndNoMore) {
    const guarded_page from;
    for (std::size_t bytes = 0; bytes < 300; ++bytes) {
        const std::byte* const base = from.last(bytes);
        std::vector<std::byte> to(bytes + 2, std::byte{0xAA}), expected = to;
        const std::size_t done = holdfast::detail::copy_by_registers(to.data() + 1, base, bytes);
        EXPECT_EQ(done, bytes / 16 * 16);
        std::memcpy(expected.data() + 1, base, done);
        EXPECT_EQ(to, expected) << bytes;
    }
}
#endif

}  // namespace
