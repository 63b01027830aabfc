// SPDX-License-Identifier: Apache-2.0
// snapshot_bench.hpp - a snapshot on private bytes: body, geometry, a table of hazards whose owners the test declares
// dead or alive, and objects that show by themselves whether they are whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "holdfast/layout/snapshot_read.hpp"
#include "holdfast/layout/snapshot_write.hpp"
#include "support/seed.hpp"
#include "support/single_step.hpp"

namespace holdfast::test {

/// Hazard words in private memory.
class hazard_bench {
 public:
    explicit hazard_bench(std::uint32_t size) : cells_(size), alive_(size, 1) {}

    [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(cells_.size()); }
    [[nodiscard]] std::atomic<std::uint64_t>& cell(std::uint32_t index) noexcept { return cells_[index]; }
    [[nodiscard]] bool alive(std::uint32_t index) noexcept {
        ++asked;
        return alive_[index] != 0;
    }
    void bury(std::uint32_t index) noexcept { alive_[index] = 0; }

    unsigned asked = 0;  // questions to the "operating system"

 private:
    std::vector<std::atomic<std::uint64_t>> cells_;
    std::vector<char> alive_;
};

/// A body of pages, shared with forked children.
class snapshot_bench {
 public:
    snapshot_bench(std::uint64_t slots, std::uint64_t slot_bytes, std::uint64_t format = 0)
        : geometry_(layout::snapshot_geometry::make(slots, slot_bytes, format, "bench")),
          image_(static_cast<std::size_t>(geometry_.body_bytes())) {}

    [[nodiscard]] const layout::snapshot_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] shared_image& image() noexcept { return image_; }
    [[nodiscard]] std::span<std::byte> body() noexcept { return image_.bytes(); }
    [[nodiscard]] layout::snapshot_write_core writer() { return {body(), geometry_, "bench"}; }
    [[nodiscard]] layout::snapshot_read_core reader() noexcept { return {body(), geometry_}; }

 private:
    layout::snapshot_geometry geometry_;
    shared_image image_;
};

/// An object of `bytes` bytes, all words derived from `seed`: any mix of two of them is recognised.
[[nodiscard]] inline std::vector<std::byte> whole_object(std::uint64_t seed, std::size_t bytes) {
    return random_bytes(seed, 1, bytes);
}

/// Whether the bytes are whole_object(seed, bytes.size()).
[[nodiscard]] inline bool is_whole(std::span<const std::byte> bytes, std::uint64_t seed) {
    const std::vector<std::byte> expected = whole_object(seed, bytes.size());
    return bytes.empty() || std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0;
}

}  // namespace holdfast::test
