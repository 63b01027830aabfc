// SPDX-License-Identifier: Apache-2.0
// queue_block_interleaving.hpp - a producer of elements beside a consumer that reads them in place, the handle as it
// is, over a heap: segment (schedule_rig.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "holdfast/queue.hpp"
#include "hooks/access_hooks.hpp"
#include "hooks/interleaving.hpp"
#include "support/queue_bench.hpp"

namespace holdfast::test {

/// The producer sends one element, then two at once. The consumer looks at all that is there up to the end of the ring,
/// releases the first, looks at the others once more and releases them; then the same of two at most. The ring of four
/// begins at element `before`, of which `held` are there.
class block_interleaving final : public interleaving {
 public:
    block_interleaving(std::uint64_t before, std::uint64_t held)
        : geometry_(layout::queue_geometry::of_elements(capacity, sizeof(element), false, "heap:")),
          segment_(make_segment(geometry_)),
          before_(before),
          held_(held) {
        attach();
        for (sent_ = 0; sent_ < before + held; ++sent_) {
            (void)writer_.room(1);
            fill(writer_.slot(0), sent_);
            writer_.publish(1);
            if (sent_ < before) (void)(consumer_->front_block() && consumer_->pop());
        }
        attach();
    }

    [[nodiscard]] std::span<std::byte> image() override { return segment_->body(); }
    void attach() override {
        const access_unwatched not_yet;
        consumer_.reset();
        consumer_.emplace(segment_);
        writer_ = {image(), geometry_, consumer_side_in(image()), "heap:"};
        successor_ = {};
        sent_ = before_ + held_;
        taken_ = before_;
        releasing_ = 0;
    }
    // Sends what was lost.
    std::string succeed() override {
        successor_ = {image(), geometry_, consumer_side_in(image()), "next"};
        if (successor_.tail() != sent_ && successor_.tail() != sent_ + begun(0)) return "the tail is wrong";
        return successor_.tail() == sent_ ? send(successor_, begun(0)) : "";
    }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) return send(writer_, operation + 1);
        return take(operation == 0 ? ~std::uint64_t{0} : 2);
    }
    std::string judge(std::optional<unsigned> dead) override {
        if (dead == 0U) {
            writer_ = {image(), geometry_, consumer_side_in(image()), "heap:"};
            if (writer_.tail() < sent_ || writer_.tail() > sent_ + 2) return "the tail is wrong";
        }
        layout::queue_element_read_core reader(image(), geometry_, consumer_side_in(image()), "heap:");
        if (reader.head() != taken_ && reader.head() != taken_ + releasing_) return "the head is wrong";
        for (taken_ = reader.head(); reader.ready(1); reader.pass(1), reader.release(), ++taken_) {
            element found;
            std::memcpy(&found, reader.slot(0), sizeof found);
            if (!is_element(found, taken_)) return "in the end, a mixed element";
        }
        if (taken_ != writer_.tail()) return "in the end, elements are missing";
        return writer_.room(capacity) == outcome::ok ? "" : "no room in an empty ring";
    }

 private:
    using element = std::array<std::uint64_t, 2>;
    static constexpr std::uint64_t capacity = 4;

    static std::shared_ptr<segment> make_segment(const layout::queue_geometry& geometry) {
        segment_spec spec = holdfast::detail::queue_spec(geometry);
        spec.schema = container_schema{std::nullopt, schema_of<element>()}.text();
        return std::make_shared<segment>(segment::create("heap:", spec, {}, [](std::span<std::byte>) {}));
    }
    static void fill(std::byte* slot, std::uint64_t number) {
        const std::uint64_t words[2] = {number * 7 + 1, number * 13 + 5};
        std::memcpy(slot, words, sizeof words);
    }
    static bool is_element(const element& found, std::uint64_t number) {
        return found[0] == number * 7 + 1 && found[1] == number * 13 + 5;
    }
    std::string send(layout::queue_element_write_core& writer, std::uint64_t count) {
        if (writer.room(count) != outcome::ok) return writer.fault() ? "the producer met damage" : "";
        for (std::uint64_t i = 0; i < count; ++i) fill(writer.slot(i), sent_ + i);
        writer.publish(count);
        sent_ += count;
        return {};
    }
    std::string take(std::uint64_t most) {
        const std::uint64_t sure = surely(sent_);
        const auto block = consumer_->front_block(most);
        if (!block)
            return block.status == outcome::empty && taken_ >= sure ? "" : "the consumer does not find what was sent";
        const std::uint64_t limit = std::min(most, capacity - taken_ % capacity);
        if (block.values.size() > limit || taken_ + block.values.size() < std::min(sure, taken_ + limit))
            return "the block has too many or too few elements";
        for (std::size_t i = 0; i < block.values.size(); ++i)
            if (!is_element(block.values[i], taken_ + i)) return "a mixed element";
        const std::uint64_t first = taken_;
        if (!release(1)) return "the first is not released";
        // The others stay what and where they are.
        for (std::size_t i = 1; i < block.values.size(); ++i)
            if (!is_element(block.values[i], first + i)) return "an element changed before it was released";
        const std::uint64_t rest = block.values.size() - 1;
        if (rest != 0 && !release(rest)) return "the others are not released";
        return consumer_->pop() ? "more is released than was given" : "";
    }
    bool release(std::uint64_t count) {
        releasing_ = count;
        if (!consumer_->pop(count)) return false;
        taken_ += count;
        releasing_ = 0;
        return true;
    }

    layout::queue_geometry geometry_;
    std::shared_ptr<segment> segment_;
    layout::queue_element_write_core writer_, successor_;
    std::optional<queue<element>::consumer> consumer_;
    std::uint64_t before_, held_;  // taken and there in the beginning
    std::uint64_t sent_ = 0, taken_ = 0, releasing_ = 0;
};

}  // namespace holdfast::test
