// SPDX-License-Identifier: Apache-2.0
// wake_interleaving.hpp - two sides of a queue of bytes of which one sleeps until the other has done its part: the bell
// and the flag of queue/place.hpp and memory/waiting.hpp, as they are, over a heap: segment (schedule_rig.hpp).
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "holdfast/queue/place.hpp"
#include "hooks/interleaving.hpp"
#include "hooks/sleepers.hpp"
#include "support/queue_bench.hpp"

namespace holdfast::test {

/// Which side waits for the other.
enum class sleeping_side : unsigned { producer = 0, consumer = 1 };

/// The producer sends two messages, the consumer takes two, each rings when it has committed. The consumer waits in
/// front of an empty ring for each message, or the producer in front of a full one for room. The kernel is a model: who
/// calls it sleeps unless the word has changed, until it is woken or the other side is done or dead; in the latter case
/// its lock is free. A sleep from which only the end of the other, alive, could wake is a wake that was lost.
class wake_interleaving final : public interleaving, futex_listener {
 public:
    explicit wake_interleaving(sleeping_side sleeper)
        : sleeper_(sleeper),
          geometry_(layout::queue_geometry::of_bytes(256, true, "heap:")),
          segment_(segment::create("heap:", holdfast::detail::queue_spec(geometry_), {}, [](std::span<std::byte>) {})),
          producer_place_(holdfast::detail::queue_place::of_producer(segment_, {})),
          consumer_place_(holdfast::detail::queue_place::of_consumer(segment_, {}, 0)),
          watch_(*this) {
        attach();
        while (sleeper == sleeping_side::producer && push_message(writer_, before_, message_bytes)) ++before_;
    }

    [[nodiscard]] std::span<std::byte> image() override { return segment_.body(); }
    void attach() override {
        writer_ = {image(), geometry_, consumer_place_.consumer(), "heap:"};
        reader_ = {image(), geometry_, consumer_place_.consumer(), "heap:"};
        sent_ = before_;
        taken_ = 0;
        asleep_ = nullptr;
        slept_out_ = false;
    }
    std::string run(unsigned process, unsigned) override { return process == 0 ? send() : take(); }
    std::string judge(std::optional<unsigned> dead) override {
        const unsigned waker = 1 - static_cast<unsigned>(sleeper_);
        if (slept_out_ && dead != waker) return "a wake was lost";
        return {};
    }

 private:
    static constexpr std::size_t message_bytes = 24;

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
            const std::uint64_t needed = writer_.head_needed(message_bytes);
            const layout::queue_side& other = writer_.consumer();
            const auto ready = [&] { return other.position.load(std::memory_order_acquire) >= needed; };
            if (needed != 0 && wait(other, writer_.side(), needed, producer_place_, ready) != outcome::ok)
                return slept_out_ ? "" : "the producer gave up beside a living consumer";
        }
        if (!push_message(writer_, sent_, message_bytes)) return "there is no room";
        ++sent_;
        holdfast::detail::ring_if_asleep(writer_, true);
        return {};
    }
    std::string take() {
        if (sleeper_ == sleeping_side::consumer) {
            const auto ready = [&] { return reader_.front().status != outcome::empty; };
            if (wait(reader_.producer(), reader_.side(), 1, consumer_place_, ready) != outcome::ok) {
                if (!slept_out_) return "the consumer gave up beside a living producer";
                return reader_.front() ? "the last message of the dead was left" : "";
            }
        }
        const queue_message found = reader_.front();
        std::byte copy[message_bytes];
        if (!found || found.bytes.size() != sizeof copy) return "the message that was waited for is not there";
        std::memcpy(copy, found.bytes.data(), sizeof copy);
        if (!is_message({found.status, found.type, found.count, copy}, taken_, sizeof copy)) return "a mixed message";
        ++taken_;
        reader_.next();
        reader_.release();
        holdfast::detail::ring_if_asleep(reader_, true);
        return {};
    }

    int sleep(const std::uint32_t* word, std::uint32_t seen) noexcept override {
        // The other may go on first; the kernel's look and the sleep are one step, and it knows the last value.
        (void)reinterpret_cast<const std::atomic<std::uint32_t>*>(word)->load(std::memory_order_relaxed);
        {
            const access_unwatched kernels_own;
            if (*word != seen) return EAGAIN;
        }
        for (meet(), asleep_ = word; asleep_ == word; meet()) {
            if (give_way()) continue;
            asleep_ = nullptr;
            slept_out_ = true;
            const access_unwatched kernels_own;
            const std::uint64_t here = sleeper_ == sleeping_side::consumer ? layout::queue_producer_here_offset
                                                                           : layout::queue_consumer_here_offset;
            constexpr std::uint64_t nobody = 0;
            std::memcpy(image().data() + here, &nobody, sizeof nobody);
            return ETIMEDOUT;
        }
        return 0;
    }
    void wake(const std::uint32_t* word) noexcept override {
        meet();
        if (asleep_ == word) asleep_ = nullptr;
    }

    sleeping_side sleeper_;
    layout::queue_geometry geometry_;
    segment segment_;
    holdfast::detail::queue_place producer_place_, consumer_place_;
    futex_watch watch_;
    layout::queue_write_core writer_;
    layout::queue_read_core reader_;
    std::uint64_t before_ = 0, sent_ = 0, taken_ = 0;
    const std::uint32_t* asleep_ = nullptr;
    bool slept_out_ = false;
};

}  // namespace holdfast::test
