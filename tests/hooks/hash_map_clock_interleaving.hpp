// SPDX-License-Identifier: Apache-2.0
// hash_map_clock_interleaving.hpp - writers of two time namespaces take a hash map over, beside a reader who asks for
// the time (schedule_rig.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "hooks/interleaving.hpp"
#include "hooks/small_map.hpp"
#include "support/hash_table_image.hpp"
#include "support/map_bench.hpp"

namespace holdfast::test {

/// A reader asks for the time, twice, while a writer of another time namespace takes over, and then one of the reader's
/// own. It is told what was stored last, or its own namespace's time: never its own clock with another's base.
class clock_interleaving final : public interleaving {
 public:
    clock_interleaving() : geometry_(small_map(6)), bytes_(static_cast<std::size_t>(geometry_.body_bytes())) {
        set(layout::map_clock_zone_offset, 1);
        set(layout::map_clock_base_offset, 100);
        set(layout::map_clock_last_offset, 500);
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {}
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) {
            holdfast::detail::map_time(
                operation == 0 ? clock{[]() noexcept { return u64{10}; }, []() noexcept { return u64{2}; }}
                               : clock{[]() noexcept { return u64{460}; }, []() noexcept { return u64{1}; }})
                .take_over(view());
            return {};
        }
        const u64 now = own_.now(view().as_const()).seconds;
        return now == 500 || now == 550 ? "" : "the time was told by another's base: " + std::to_string(now);
    }
    std::string judge(std::optional<unsigned> dead) override {
        if (dead == 0U) {
            if (std::string why = run(1, 0); !why.empty()) return why;
            (void)run(0, 1);  // the next writer
            return run(1, 0);
        }
        return own_.now(view().as_const()).seconds == 500 ? "" : "in the end, the time is not that of the last writer";
    }

 private:
    using u64 = std::uint64_t;
    using clock = hash_map_clock;

    [[nodiscard]] writable_map view() noexcept { return {bytes_.bytes(), geometry_}; }
    void set(std::size_t offset, u64 value) { std::memcpy(view().control(offset), &value, sizeof value); }

    layout::hash_map_geometry geometry_;
    aligned_bytes bytes_;
    holdfast::detail::map_time own_{clock{[]() noexcept { return u64{450}; }, []() noexcept { return u64{1}; }}};
};

}  // namespace holdfast::test
