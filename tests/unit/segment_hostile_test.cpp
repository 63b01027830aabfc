// SPDX-License-Identifier: Apache-2.0
// Hostile headers: every field of a segment's header flipped, set to hostile numbers, swapped, cut and spliced, with
// the checksum left wrong and with it made right again by the attacker. Each image is refused with the right code or
// attached to without a byte read outside it (address sanitizer watches).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "holdfast/layout/segment_header.hpp"
#include "support/image_corruption.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using layout::segment_header;

constexpr std::size_t body_bytes = 8192;

#define HEADER_PART(field) \
    image_part { #field, offsetof(segment_header, field), sizeof(segment_header::field) }

const image_part immutable_parts[] = {
    HEADER_PART(magic),
    HEADER_PART(layout_version),
    HEADER_PART(kind),
    HEADER_PART(container_version),
    HEADER_PART(policy),
    HEADER_PART(fingerprint),
    HEADER_PART(total_bytes),
    HEADER_PART(body_bytes),
    HEADER_PART(created_ns),
    HEADER_PART(identity),
    HEADER_PART(peer_slots),
    HEADER_PART(schema_bytes),
    HEADER_PART(geometry),
    HEADER_PART(schema),
    HEADER_PART(header_checksum),
    HEADER_PART(reserved_geometry),
};
const image_part mutable_parts[] = {
    HEADER_PART(reserved_checksum), HEADER_PART(epoch),          HEADER_PART(owner_pid), HEADER_PART(owner_start),
    HEADER_PART(owner_boot_id),     HEADER_PART(owner_since_ns), HEADER_PART(moved),     HEADER_PART(reserved_owner),
};

class SegmentHostile : public segment_test {
 protected:
    void SetUp() override {
        (void)create_pattern(uri_, 1, {}, body_bytes);
        sound_.resize(header_bytes + body_bytes);
        const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
        ASSERT_EQ(::read(fd, sound_.data(), sound_.size()), static_cast<ssize_t>(sound_.size()));
        ::close(fd);
    }
    static void reseal(std::span<std::byte> image) {
        segment_header header;
        std::memcpy(&header, image.data(), sizeof header);
        header.header_checksum = layout::checksum_of(header);
        std::memcpy(image.data(), &header, sizeof header);
    }
    // The header's own check, on a private copy.
    static std::optional<errc> validated(std::span<const std::byte> image) {
        segment_header header{};
        if (image.size() < sizeof header) return errc::truncated;
        std::memcpy(&header, image.data(), sizeof header);
        const auto fault = layout::validate(header, image.size());
        return fault ? std::optional(fault->code) : std::nullopt;
    }
    // Puts the image into the file (in place: same size mostly) and attaches in both modes; uses all that attaching
    // gives.
    std::string attach(std::span<const std::byte> image) {
        const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
        const bool written = ::pwrite(fd, image.data(), image.size(), 0) == static_cast<ssize_t>(image.size()) &&
                             ::ftruncate(fd, static_cast<off_t>(image.size())) == 0;
        ::close(fd);
        if (!written) return "cannot write the image";
        for (const holdfast::access mode : {holdfast::access::read_only, holdfast::access::read_write}) {
            const auto refused = refusal_of([&] {
                const segment s = segment::attach(uri_, mode);
                std::size_t sum = s.info().schema.size() + s.owner().boot_id.size() + s.epoch();
                for (const std::byte b : s.bytes()) sum += static_cast<std::size_t>(b);
                if (s.bytes().size() + header_bytes != image.size())
                    throw error(errc::io, "body", "outside the memory");
                used_ += sum;
            });
            const std::optional<errc> expected = validated(image);
            if (refused.has_value() != expected.has_value() || (refused && refused->code != *expected))
                return "attach " + (refused ? "refused: " + refused->text : std::string("succeeded")) +
                       ", but the header's check says " +
                       (expected ? make_error_code(*expected).message() : std::string("sound"));
        }
        return {};
    }

    unique_directory place_{"hostile"};
    std::string path_ = place_.file("s"), uri_ = place_.file_uri("s");
    std::vector<std::byte> sound_;
    std::size_t used_ = 0;
};

TEST_F(SegmentHostile, EveryBitOfTheImmutableHeaderIsNoticed) {
    ASSERT_EQ(validated(sound_), std::nullopt);
    std::uint64_t shown = 0;
    for (const image_part& part : immutable_parts)
        shown += for_each_bit_flip(sound_, part, [&](const damage& what, std::span<std::byte> image) {
            const std::optional<errc> got = validated(image);
            errc expected = errc::corrupt;
            if (part.name == "magic") expected = errc::bad_magic;
            if (part.name == "layout_version" || part.name == "fingerprint") expected = errc::version_mismatch;
            ASSERT_EQ(got, expected) << what.text();
        });
    EXPECT_EQ(shown, (offsetof(segment_header, header_checksum) + 8) * 8) << "the parts leave a gap";
    RecordProperty("images", std::to_string(shown));
}

TEST_F(SegmentHostile, EveryBitBehindTheChecksumIsHarmless) {
    std::uint64_t shown = 0;
    for (const image_part& part : mutable_parts)
        shown += for_each_bit_flip(sound_, part, [&](const damage& what, std::span<std::byte> image) {
            ASSERT_EQ(validated(image), std::nullopt) << what.text();
        });
    EXPECT_EQ(shown, (header_bytes - offsetof(segment_header, header_checksum) - 8) * 8) << "the parts leave a gap";
}

// The attacker knows the checksum. What still passes must agree with the memory's size and hold no number out of range.
TEST_F(SegmentHostile, HostileFieldsUnderARightChecksumAreRefusedOrHarmless) {
    std::uint64_t shown = 0, passed = 0;
    const auto judge = [&](const damage& what, std::span<std::byte> image) {
        if (what.part != "header_checksum") reseal(image);
        segment_header header;
        std::memcpy(&header, image.data(), sizeof header);
        const std::optional<errc> got = validated(image);
        if (!got) {
            ++passed;
            ASSERT_EQ(header.total_bytes, image.size()) << what.text();
            ASSERT_EQ(header.body_bytes, image.size() - header_bytes) << what.text();
            ASSERT_LE(header.schema_bytes, schema_bytes_max) << what.text();
            ASSERT_LE(header.peer_slots, peer_slots_max) << what.text();
            ASSERT_FALSE(kind_name(static_cast<container_kind>(header.kind)).empty()) << what.text();
            ASSERT_TRUE(header.policy == 1 || header.policy == 2) << what.text();
        }
    };
    for (const image_part& part : immutable_parts) {
        if (part.name == "schema") continue;  // any text may stand there; below
        shown += for_each_word_damage(sound_, part, judge);
        shown += for_each_bit_flip(sound_, part, judge);
    }
    EXPECT_GT(passed, 0U) << "reserved bytes, geometry and names are free";
    RecordProperty("images", std::to_string(shown));
    std::printf("%llu resealed images, %llu of them sound\n", static_cast<unsigned long long>(shown),
                static_cast<unsigned long long>(passed));
}

TEST_F(SegmentHostile, ResealedSizesKindsAndPoliciesHaveTheirOwnCodes) {
    const auto with = [&](auto segment_header::* field, auto value) {
        std::vector<std::byte> image = sound_;
        segment_header header;
        std::memcpy(&header, image.data(), sizeof header);
        header.*field = static_cast<std::remove_reference_t<decltype(header.*field)>>(value);
        std::memcpy(image.data(), &header, sizeof header);
        reseal(image);
        return validated(image);
    };
    EXPECT_EQ(with(&segment_header::magic, 0), errc::not_ready);
    EXPECT_EQ(with(&segment_header::magic, 1), errc::bad_magic);
    EXPECT_EQ(with(&segment_header::layout_version, 2), errc::version_mismatch);
    EXPECT_EQ(with(&segment_header::fingerprint, 0), errc::version_mismatch);
    EXPECT_EQ(with(&segment_header::kind, 0), errc::kind_mismatch);
    EXPECT_EQ(with(&segment_header::kind, 99), errc::kind_mismatch);
    EXPECT_EQ(with(&segment_header::policy, 0), errc::geometry_mismatch);
    EXPECT_EQ(with(&segment_header::policy, 3), errc::geometry_mismatch);
    EXPECT_EQ(with(&segment_header::total_bytes, 0), errc::geometry_mismatch);
    EXPECT_EQ(with(&segment_header::body_bytes, ~0ULL), errc::geometry_mismatch);
    EXPECT_EQ(with(&segment_header::schema_bytes, schema_bytes_max + 1), errc::geometry_mismatch);
    EXPECT_EQ(with(&segment_header::peer_slots, peer_slots_max + 1), errc::geometry_mismatch);
    segment_header longer;
    std::memcpy(&longer, sound_.data(), sizeof longer);
    longer.total_bytes += 4096;
    longer.body_bytes += 4096;
    std::vector<std::byte> image = sound_;
    std::memcpy(image.data(), &longer, sizeof longer);
    reseal(image);
    EXPECT_EQ(validated(image), errc::truncated);
    image.resize(image.size() + 8192);
    EXPECT_EQ(validated(image), errc::geometry_mismatch) << "longer than the header says";
}

// Through the front door: a real file, attached both ways, its whole body read.
TEST_F(SegmentHostile, AttachingToHostileFilesRefusesOrReadsInside) {
    seeded_random random;
    std::uint64_t shown = 0;
    const auto attach_to = [&](const damage& what, std::span<std::byte> image) {
        ASSERT_EQ(attach(image), "") << what.text();
    };
    const auto attach_resealed = [&](const damage& what, std::span<std::byte> image) {
        reseal(image);
        ASSERT_EQ(attach(image), "") << what.text();
    };
    for (const image_part& part : immutable_parts) {
        if (part.bytes > 128) continue;
        shown += for_each_word_damage(sound_, part, attach_resealed);
    }
    shown += for_each_truncation(sound_, {0, 8, 2816, 2824, header_bytes, header_bytes + 1, header_bytes + body_bytes},
                                 attach_to);
    shown += random_damage(sound_, {"header", 0, header_bytes}, random, scaled(2000), attach_resealed);
    shown += random_damage(sound_, {"whole image", 0, sound_.size()}, random, scaled(1000), attach_to);
    RecordProperty("images", std::to_string(shown));
    std::printf("%llu hostile files attached to, both ways\n", static_cast<unsigned long long>(shown));
}

TEST_F(SegmentHostile, SplicedSegmentsAreRefusedOrWhole) {
    (void)create_pattern(place_.file_uri("t"), 2, {}, 2 * body_bytes);
    std::vector<std::byte> other(header_bytes + 2 * body_bytes);
    const int fd = ::open(place_.file("t").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(::read(fd, other.data(), other.size()), static_cast<ssize_t>(other.size()));
    ::close(fd);
    for (const std::size_t at : {8UL, 32UL, 56UL, 256UL, 2816UL, 3072UL, 4096UL, 8192UL}) {
        EXPECT_EQ(attach(splice(sound_, other, at)), "") << at;
        EXPECT_EQ(attach(splice(other, sound_, at)), "") << at;
    }
}

}  // namespace
