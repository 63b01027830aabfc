// SPDX-License-Identifier: Apache-2.0
// counter_set.hpp - named 64-bit counters that any number of processes write at once, exactly, and that outlive them
// all.
//
//   holdfast::counter_set set = holdfast::counter_set::create("lookups", {.capacity = 4096});   // once
//   holdfast::counter us = set.get("geo_lookups_total", R"(country="US")");   // rare: registers or finds
//   us.add(1);                                                                // often: one addition
//
// Threads and processes: everything is safe beside everything, in any process, on one handle or many.
// Crash:   no addition that returned is ever lost, and none is half done; a killed process leaves nothing to repair
//          (layout/counter_set_layout.hpp, I1 to I3).
// Cost:    add() alone on its line 2 ns; with a second writer on the same counter at the same moment about 15 ns.
//          Writers that hit one counter all the time give it a label of their own (worker="3") and are summed by
//          readers.
// Restart: counters are never taken out, so what a name counted stays until the segment is removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/error.hpp"
#include "holdfast/layout/counter_set_layout.hpp"
#include "holdfast/layout/segment_header.hpp"
#include "holdfast/metrics/counter_slots.hpp"
#include "holdfast/metrics/metric_name.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

namespace detail {

inline constexpr std::uint32_t counter_set_version = 1;

[[nodiscard]] inline counter_slots counter_slots_of(const segment& memory, std::span<std::byte> body) {
    memory.require(container_kind::counter_set, counter_set_version);
    if (memory.info().geometry[1] != sizeof(layout::counter_slot))
        throw error(errc::geometry_mismatch, memory.uri(),
                    "counters of another size than this library's; use the version that made the segment");
    return {body, memory.info().geometry[0], memory.uri()};
}

}  // namespace detail

/// How a counter set is made.
struct counter_set_options {
    std::uint64_t capacity = 4096;  ///< counters; 256 bytes each, reserved at creation
    create_options segment{};
};

/// The read-only view of a counter set; needs read permission and disturbs nobody.
class counter_set_reader {
 public:
    /// Throws: what segment::attach throws; kind_mismatch, version_mismatch, geometry_mismatch.
    [[nodiscard]] static counter_set_reader attach(std::string_view uri) {
        return counter_set_reader(segment::attach(uri, access::read_only));
    }

    /// Calls visit(family, labels, value) for each counter in the order of registration.
    ///
    /// Each value is exact and at least as new as the call; values of different counters are from different instants.
    /// Cost: about 50 ns a counter; bounded by the capacity whatever the bytes say.
    template <class Visit>
    counter_walk for_each(Visit&& visit) const {
        return slots_.for_each(std::forward<Visit>(visit));
    }

    /// The value of one counter; nothing where it is not registered.
    [[nodiscard]] std::optional<std::uint64_t> value(std::string_view family,
                                                     std::string_view labels = {}) const noexcept {
        const auto words = layout::encode_counter_name(family, labels);
        const layout::counter_slot* const slot = words ? slots_.find(*words) : nullptr;
        if (slot == nullptr) return std::nullopt;
        return slot->value.load(std::memory_order_relaxed);  // one word that orders nothing else
    }

    [[nodiscard]] std::size_t capacity() const noexcept { return slots_.capacity(); }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return memory_; }

 private:
    explicit counter_set_reader(holdfast::segment memory) : memory_(std::move(memory)) {
        const std::span<const std::byte> bytes = memory_.bytes();
        // Never written through: this class only loads, and the mapping is read-only.
        slots_ = detail::counter_slots_of(memory_, {const_cast<std::byte*>(bytes.data()), bytes.size()});
    }

    holdfast::segment memory_;
    detail::counter_slots slots_;
};

/// The handle that registers and counts; any number of processes hold one at the same time.
class counter_set {
 public:
    /// Makes a set. Throws: what segment::create throws; invalid_argument for a capacity of 0 or above 2^20.
    [[nodiscard]] static counter_set create(std::string_view uri, const counter_set_options& options = {}) {
        if (options.capacity == 0 || options.capacity > layout::counter_capacity_max)
            throw error(errc::invalid_argument, std::string(uri), "a counter set holds 1 to 1048576 counters");
        segment_spec spec;
        spec.kind = container_kind::counter_set;
        spec.container_version = detail::counter_set_version;
        spec.policy = writers::many;
        spec.geometry[0] = options.capacity;
        spec.geometry[1] = sizeof(layout::counter_slot);
        spec.body_bytes = options.capacity * sizeof(layout::counter_slot);
        // Zero bytes are an empty set: there is nothing to initialise.
        return counter_set(segment::create(uri, spec, options.segment, [](std::span<std::byte>) {}));
    }

    /// Joins the writers of a set. Throws: what segment::attach throws; kind_mismatch, version_mismatch,
    /// geometry_mismatch.
    [[nodiscard]] static counter_set attach(std::string_view uri) {
        return counter_set(segment::attach(uri, access::read_write));
    }

    /// The counter of a name, registered at zero by whoever asks first.
    ///
    /// Returns: the same counter for the same family and labels (compared as text) in every process.
    /// Throws: invalid_argument for a name that is not well formed or longer than 184 bytes, no_space when the set is
    /// full. Cost: looks at one word of each name registered before, 1.3 ns each: keep the handle.
    [[nodiscard]] counter get(std::string_view family, std::string_view labels = {}) const {
        if (std::optional<counter> found = try_get(family, labels)) return *found;
        throw error(errc::no_space, memory_.uri(),
                    "all " + std::to_string(slots_.capacity()) + " counters are taken and " + std::string(family) +
                        " is not among them; make the set anew with a greater capacity");
    }

    /// As get(), but nothing where the set is full: for names that come from data. Throws: invalid_argument.
    [[nodiscard]] std::optional<counter> try_get(std::string_view family, std::string_view labels = {}) const {
        if (!valid_metric_family(family))
            throw error(errc::invalid_argument, std::string(family),
                        "not a family of metrics; use letters, digits, _ and :, and no digit first");
        if (!valid_metric_labels(labels))
            throw error(errc::invalid_argument, std::string(labels),
                        "not a list of labels; write name=\"value\" pairs joined by commas (append_metric_label does)");
        const auto words = layout::encode_counter_name(family, labels);
        if (!words)
            throw error(errc::invalid_argument, std::string(family),
                        "family and labels together are longer than 184 bytes; shorten a label");
        layout::counter_slot* const slot = slots_.install(*words);
        if (slot == nullptr) return std::nullopt;
        return counter(slot->value);
    }

    /// As counter_set_reader::for_each.
    template <class Visit>
    counter_walk for_each(Visit&& visit) const {
        return slots_.for_each(std::forward<Visit>(visit));
    }

    [[nodiscard]] std::size_t capacity() const noexcept { return slots_.capacity(); }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return memory_; }

 private:
    explicit counter_set(holdfast::segment memory)
        : memory_(std::move(memory)), slots_(detail::counter_slots_of(memory_, memory_.body())) {}

    holdfast::segment memory_;
    detail::counter_slots slots_;
};

}  // namespace holdfast
