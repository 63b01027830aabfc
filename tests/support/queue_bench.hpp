// SPDX-License-Identifier: Apache-2.0
// queue_bench.hpp - a queue over plain pages, without segment and locks: both sides and the ring in one image, as in a
// heap: segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "holdfast/layout/queue_elements.hpp"
#include "holdfast/layout/queue_read.hpp"
#include "holdfast/layout/queue_verify.hpp"
#include "holdfast/layout/queue_write.hpp"
#include "support/seed.hpp"
#include "support/single_step.hpp"

namespace holdfast::test {

[[nodiscard]] inline layout::queue_side& consumer_side_in(std::span<std::byte> body) noexcept {
    return *reinterpret_cast<layout::queue_side*>(body.data() + layout::queue_consumer_offset);
}
[[nodiscard]] inline layout::queue_side& producer_side_in(std::span<std::byte> body) noexcept {
    return *reinterpret_cast<layout::queue_side*>(body.data() + layout::queue_producer_offset);
}

/// A body of pages, shared with forked children.
class queue_bench {
 public:
    explicit queue_bench(std::uint64_t capacity)
        : queue_bench(layout::queue_geometry::of_bytes(capacity, true, "bench")) {}
    explicit queue_bench(const layout::queue_geometry& geometry)
        : geometry_(geometry), image_(static_cast<std::size_t>(geometry.body_bytes())) {}

    [[nodiscard]] const layout::queue_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] shared_image& image() noexcept { return image_; }
    [[nodiscard]] std::span<std::byte> body() noexcept { return image_.bytes(); }

    [[nodiscard]] layout::queue_write_core writer() { return writer_in(body()); }
    [[nodiscard]] layout::queue_read_core reader() { return reader_in(body()); }
    [[nodiscard]] layout::queue_write_core writer_in(std::span<std::byte> image) const {
        return {image, geometry_, consumer_side_in(image), "bench"};
    }
    [[nodiscard]] layout::queue_read_core reader_in(std::span<std::byte> image) const {
        return {image, geometry_, consumer_side_in(image), "bench"};
    }
    [[nodiscard]] layout::queue_verification verify_in(std::span<std::byte> image) const {
        return layout::verify_queue(image, geometry_, &consumer_side_in(image));
    }

 private:
    layout::queue_geometry geometry_;
    shared_image image_;
};

/// A message of `bytes` bytes, all derived from `seed`.
[[nodiscard]] inline std::vector<std::byte> message_of(std::uint64_t seed, std::size_t bytes) {
    return random_bytes(seed, 7, bytes);
}
[[nodiscard]] inline std::uint16_t type_of(std::uint64_t seed) { return static_cast<std::uint16_t>(seed * 40503U); }

/// Puts message_of(seed, bytes) in.
inline result push_message(layout::queue_write_core& writer, std::uint64_t seed, std::size_t bytes) {
    return writer.append(message_of(seed, bytes), type_of(seed));
}
/// The same, filled in place.
inline result claim_message(layout::queue_write_core& writer, std::uint64_t seed, std::size_t bytes) {
    const queue_claim room = writer.try_claim(bytes);
    if (!room) return {room.status, room.count};
    const std::vector<std::byte> message = message_of(seed, bytes);
    if (bytes != 0) std::memcpy(room.bytes.data(), message.data(), bytes);
    return writer.commit(bytes, type_of(seed));
}

/// Whether `found` is message_of(seed, bytes).
[[nodiscard]] inline bool is_message(const queue_message& found, std::uint64_t seed, std::size_t bytes) {
    if (!found || found.bytes.size() != bytes || found.type != type_of(seed)) return false;
    const std::vector<std::byte> message = message_of(seed, bytes);
    return bytes == 0 || std::memcmp(message.data(), found.bytes.data(), bytes) == 0;
}

}  // namespace holdfast::test
