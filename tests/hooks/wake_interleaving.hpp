// SPDX-License-Identifier: Apache-2.0
// wake_interleaving.hpp - two sides of a queue, of either form, of which one sleeps until the other has done its part:
// the bell and the flag of queue/place.hpp and memory/waiting.hpp, as they are, over a heap: segment
// (schedule_rig.hpp).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "holdfast/layout/queue_elements.hpp"
#include "holdfast/queue/place.hpp"
#include "hooks/sleeping_interleaving.hpp"
#include "support/queue_bench.hpp"

namespace holdfast::test {

/// Which side waits for the other.
enum class sleeping_side : unsigned { producer = 0, consumer = 1 };

/// Messages of 24 bytes in a ring of 256.
struct sleepy_bytes {
    using writer = layout::queue_write_core;
    using reader = layout::queue_read_core;
    static constexpr std::uint64_t room = 24;  // that one needs
    static layout::queue_geometry geometry() { return layout::queue_geometry::of_bytes(256, true, "heap:"); }
    static bool send(writer& to, std::uint64_t number) { return static_cast<bool>(push_message(to, number, room)); }
    static bool is_there(reader& in) noexcept { return in.front().status != outcome::empty; }
    static std::string take(reader& from, std::uint64_t number) {
        const queue_message found = from.front();
        std::byte copy[room];
        if (!found || found.bytes.size() != sizeof copy) return "the message that was waited for is not there";
        std::memcpy(copy, found.bytes.data(), sizeof copy);
        if (!is_message({found.status, found.type, found.count, copy}, number, sizeof copy)) return "a mixed message";
        from.next();
        from.release();
        return {};
    }
};
/// Elements of 16 bytes in a ring of four: each is more than an eighth of it.
struct sleepy_elements {
    using writer = layout::queue_element_write_core;
    using reader = layout::queue_element_read_core;
    static constexpr std::uint64_t room = 1;
    static layout::queue_geometry geometry() { return layout::queue_geometry::of_elements(4, 16, true, "heap:"); }
    static bool send(writer& to, std::uint64_t number) {
        if (to.room(1) != outcome::ok) return false;
        const std::uint64_t words[2] = {number * 7 + 1, number * 13 + 5};
        std::memcpy(to.slot(0), words, sizeof words);
        to.publish(1);
        return true;
    }
    static bool is_there(reader& in) noexcept { return in.ready(1).status != outcome::empty; }
    static std::string take(reader& from, std::uint64_t number) {
        if (!from.ready(1)) return "the element that was waited for is not there";
        std::uint64_t words[2];
        std::memcpy(words, from.slot(0), sizeof words);
        if (words[0] != number * 7 + 1 || words[1] != number * 13 + 5) return "a mixed element";
        from.pass(1);
        from.release();
        return {};
    }
};

/// The producer sends two messages, the consumer takes two, each rings when it has committed. The consumer waits in
/// front of an empty ring for each message, or the producer in front of a full one for room.
template <class Form>
class wake_interleaving final : public sleeping_interleaving {
 public:
    explicit wake_interleaving(sleeping_side sleeper)
        : sleeping_interleaving(1 - static_cast<unsigned>(sleeper)),
          sleeper_(sleeper),
          geometry_(Form::geometry()),
          segment_(segment::create("heap:", holdfast::detail::queue_spec(geometry_), {}, [](std::span<std::byte>) {})),
          producer_place_(holdfast::detail::queue_place::of_producer(segment_, {})),
          consumer_place_(holdfast::detail::queue_place::of_consumer(segment_, {}, 0)) {
        attach();
        while (sleeper == sleeping_side::producer && Form::send(writer_, before_)) ++before_;
    }

    [[nodiscard]] std::span<std::byte> image() override { return segment_.body(); }
    void attach() override {
        writer_ = {image(), geometry_, consumer_place_.consumer(), "heap:"};
        reader_ = {image(), geometry_, consumer_place_.consumer(), "heap:"};
        sent_ = before_;
        taken_ = 0;
        attach_sleepers();
    }
    std::string run(unsigned process, unsigned) override { return process == 0 ? send() : take(); }
    std::string judge(std::optional<unsigned> dead) override { return lost_a_wake(dead) ? "a wake was lost" : ""; }

 private:
    template <class Ready>
    [[nodiscard]] outcome wait(const layout::queue_side& other, layout::queue_side& own, std::uint64_t mark,
                               const holdfast::detail::queue_place& place, Ready&& ready) {
        // What it spins through before it announces itself are looks like any other: without them.
        unsigned spins = memory::wait_policy{}.spins;
        const auto look = [&] { return spins != 0 ? (--spins, false) : ready(); };
        return holdfast::detail::outcome_of(
            holdfast::detail::wait_on(other, own, mark, place, true, std::chrono::nanoseconds::max(), look),
            outcome::writer_gone);
    }
    std::string send() {
        if (sleeper_ == sleeping_side::producer) {
            const std::uint64_t needed = writer_.head_needed(Form::room);
            const layout::queue_side& other = writer_.consumer();
            const auto ready = [&] { return other.position.load(std::memory_order_acquire) >= needed; };
            if (needed != 0 && wait(other, writer_.side(), needed, producer_place_, ready) != outcome::ok)
                return slept_out() ? "" : "the producer gave up beside a living consumer";
        }
        if (!Form::send(writer_, sent_)) return "there is no room";
        ++sent_;
        holdfast::detail::ring_if_asleep(writer_, true);
        return {};
    }
    std::string take() {
        if (sleeper_ == sleeping_side::consumer) {
            const auto ready = [&] { return Form::is_there(reader_); };
            if (wait(reader_.producer(), reader_.side(), 1, consumer_place_, ready) != outcome::ok) {
                if (!slept_out()) return "the consumer gave up beside a living producer";
                return Form::is_there(reader_) ? "the last message of the dead was left" : "";
            }
        }
        if (std::string why = Form::take(reader_, taken_); !why.empty()) return why;
        ++taken_;
        holdfast::detail::ring_if_asleep(reader_, true);
        return {};
    }
    // Its place is free: who asks whether the other lives is answered from there.
    void sleeps_out() noexcept override {
        const std::uint64_t here = sleeper_ == sleeping_side::consumer ? layout::queue_producer_here_offset
                                                                       : layout::queue_consumer_here_offset;
        constexpr std::uint64_t nobody = 0;
        std::memcpy(image().data() + here, &nobody, sizeof nobody);
    }

    sleeping_side sleeper_;
    layout::queue_geometry geometry_;
    segment segment_;
    holdfast::detail::queue_place producer_place_, consumer_place_;
    typename Form::writer writer_;
    typename Form::reader reader_;
    std::uint64_t before_ = 0, sent_ = 0, taken_ = 0;
};

}  // namespace holdfast::test
