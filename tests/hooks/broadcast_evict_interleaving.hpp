// SPDX-License-Identifier: Apache-2.0
// broadcast_evict_interleaving.hpp - a broadcast ring's writer beside a reader that has registered to be evicted and
// stands where the writer is about to overwrite (schedule_rig.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hooks/interleaving.hpp"
#include "support/broadcast_bench.hpp"
#include "support/hash_table_image.hpp"

namespace holdfast::test {

/// The writer publishes one message, then two as a batch, and each again where it was refused; the reader takes one,
/// then takes another, registering again in front of that where it was evicted. The clock of a writer counts how often
/// it asks, so a reader with patience is evicted at the second refusal in one place, one without at once.
class broadcast_evict_interleaving final : public interleaving {
 public:
    /// `before`: messages there; the reader stands at the oldest. `patience`: what it may hold the writer up for.
    broadcast_evict_interleaving(std::uint64_t before, std::uint64_t patience)
        : patience_(patience),
          geometry_(layout::broadcast_geometry::make(2048, 1, "bench")),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes()) + sizeof(layout::broadcast_slot)),
          slots_{reinterpret_cast<layout::broadcast_slot*>(image().data() + geometry_.body_bytes()), false} {
        layout::broadcast_write_core::format(body(), geometry_, bench_clock::unix_ns());
        writer_ = make_writer();
        for (std::uint64_t n = 1; n <= before; ++n) (void)(writer_.append(message(n), 0, slots_) && writer_.commit());
        before_ = writer_.published();
        // Who publishes behind a death may have to publish a batch that was there already.
        for (std::uint64_t i = 1; i <= 6; ++i) messages_.push_back(message(before_ + i));
        register_at_the_oldest();
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        slots_.dead = false;
        time_ = 0;
        writer_ = make_writer();
        successor_ = {};
        hold_ = beginning_;
        published_ = before_;
        publishing_ = 0;
        noticed_ = told_ = 0;
        refused_ = false;
    }
    // Publishes what was lost.
    std::string succeed() override {
        successor_ = make_writer();
        refused_ = false;
        const std::uint64_t last = successor_.published();
        if (last == published_ + publishing_) return {};
        if (last != published_) return "a batch was published in part";
        return publish(successor_, publishing_);
    }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) return publish(writer_, operation + 1);
        if (operation == 1 && !hold_.registered())
            if (std::string why = come_back(); !why.empty()) return why;
        return take(hold_.reader().sequence());
    }
    std::string judge(std::optional<unsigned> dead) override {
        std::uint64_t last = published_;
        if (dead == 0U) {
            writer_ = make_writer();
            refused_ = false;
            last = writer_.published();
            if (last != published_ && last != published_ + publishing_) return "a batch was published in part";
        }
        slots_.dead = dead == 1U;
        layout::findings found;
        layout::verify_broadcast(body(), geometry_, found);
        if (!found.empty()) return "verify: " + found.list()[0].what;
        if (std::string why = miscounted(dead); !why.empty()) return why;
        if (std::string why = slots_.dead ? "" : read_on(last); !why.empty()) return "in the end: " + why;
        std::string why = goes_on(last);
        return why.empty() ? why : "in the end: " + why;
    }
    /// Ends with so many evictions, and with a reader that was registered anew.
    [[nodiscard]] std::uint64_t evicted() const noexcept { return evicted_; }
    [[nodiscard]] std::uint64_t came_back() const noexcept { return came_back_; }

 private:
    static constexpr std::size_t bytes_max = 120;

    static std::vector<std::byte> message(std::uint64_t n) { return nth_message(n, bytes_max); }
    [[nodiscard]] std::span<std::byte> body() {
        return image().first(static_cast<std::size_t>(geometry_.body_bytes()));
    }
    // Only one writer lives at a time, and all that counts is how often it has asked since.
    static std::uint64_t tick() noexcept { return ++time_; }
    [[nodiscard]] layout::broadcast_write_core make_writer() {
        return {body(), geometry_, {bench_clock::unix_ns, tick}, "bench"};
    }
    [[nodiscard]] layout::broadcast_control& control() {
        return *reinterpret_cast<layout::broadcast_control*>(body().data());
    }
    [[nodiscard]] std::uint64_t evictions_counted() { return control().evicted.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t held() const noexcept { return slots_.only->held.load(std::memory_order_relaxed); }

    void register_at_the_oldest() {
        layout::broadcast_read_core reader(body(), geometry_);
        beginning_ = layout::broadcast_hold_core(reader, *slots_.only);
        (void)beginning_.enrol(broadcast_start::oldest(), broadcast_policy::evict, patience_, 7);
    }

    // Of each message, refusals beyond the reader's patience: one that has moved meanwhile may be in the way again, and
    // has it anew.
    result append(layout::broadcast_write_core& writer, const std::vector<std::byte>& next, std::string& why) {
        std::uint64_t stood = 0;
        for (std::uint64_t refusals = 0;; ++refusals) {
            meet();
            const std::uint64_t word = held(), evictions = evictions_counted(), noticed = noticed_;
            if (std::exchange(stood, word) != word) refusals = 0;
            const result added = writer.append(next, 0, slots_);
            if (added && evictions_counted() != evictions) why = unjust(noticed);
            if (added.status != outcome::full) return added;
            refused_ = true;
            if (refusals < patience_) continue;
            if (held() == word) why = "a reader was waited for beyond its patience";
            return added;
        }
    }
    // What is wrong with an eviction in front of a message that found room.
    std::string unjust(std::uint64_t noticed) {
        if (patience_ != 0 && !refused_) return "a reader with patience was evicted at once";
        meet();
        const std::uint64_t horizon = control().horizon.load(std::memory_order_relaxed);
        // If it has come back meanwhile, what it stands at now tells nothing.
        const bool was_in_the_way =
            told_ == 0 || noticed_ != noticed || horizon - layout::broadcast_held_position(told_) > geometry_.capacity;
        return was_in_the_way ? "" : "a reader was evicted that was in nobody's way";
    }
    std::string publish(layout::broadcast_write_core& writer, std::uint64_t count) {
        publishing_ = count;
        for (std::uint64_t i = 0; i < count; ++i) {
            // Who comes to its end in its grave counts on from what its successor has published.
            const auto number = static_cast<std::size_t>(published_ - before_ + i);
            if (number >= messages_.size()) return "more is published than there is";
            std::string why;
            const result added = append(writer, messages_[number], why);
            if (!added) {
                writer.discard();
                publishing_ = 0;
            }
            if (!why.empty()) return why;
            if (!added) return added.status == outcome::full ? "" : "a publish failed";
        }
        if (writer.commit().count != count) return "a commit failed";
        published_ += count;
        publishing_ = 0;
        return {};
    }

    // The reader's word as it knows that it stood; 0: not registered.
    void tell(std::uint64_t word) {
        meet();
        told_ = word;
    }
    // Evicted, it registers where it wants to read on, or behind what was overwritten.
    std::string come_back() {
        tell(0);
        const std::uint64_t expected = hold_.reader().sequence();
        const result got = hold_.enrol(broadcast_start::sequence(expected), broadcast_policy::evict, patience_, 8);
        ++noticed_;
        tell(held());
        if (got.status != outcome::ok && got.status != outcome::lapped) return "the new registration failed";
        const std::uint64_t lost = got.status == outcome::lapped ? got.count : 0;
        return hold_.reader().sequence() == expected + lost ? "" : "the count of lost messages is wrong";
    }
    // The next message: that number, and whole; or as many lost as lie between, of one that is evicted.
    std::string take(std::uint64_t expected) {
        const std::uint64_t sure = surely(published_);
        std::byte out[bytes_max];
        const broadcast_read got = hold_.next([&](std::span<const std::byte> bytes, std::uint16_t) noexcept {
            if (bytes.size() > sizeof out) return false;
            holdfast::detail::copy_from_shared(out, bytes.data(), bytes.size());
            return true;
        });
        tell(held());
        switch (got.status) {
            case outcome::ok:
                if (got.sequence != expected) return "the reader got another message";
                return is_message({out, static_cast<std::size_t>(got.count)}, expected, bytes_max) ? ""
                                                                                                   : "a mixed message";
            case outcome::empty: return sure >= expected ? "the reader does not find what was published" : "";
            case outcome::lapped:
                if (hold_.registered()) return "a registered reader lost messages";
                return hold_.reader().sequence() == expected + got.count ? "" : "the count of lost messages is wrong";
            default: return "the reader met damage";
        }
    }

    // Each eviction is counted once, if the writer came to that. One may hit a registration that is just being made,
    // and would have been made anew by itself.
    std::string miscounted(std::optional<unsigned> dead) {
        const std::uint64_t counted = evictions_counted();
        evicted_ += counted;
        came_back_ += noticed_;
        if (dead == 1U) return {};  // it may have died at any point of registering again
        const std::uint64_t happened = noticed_ + (held() == 0 ? 1 : 0);
        const bool uncounted = counted < happened && !(dead == 0U && counted + 1 == happened);
        return uncounted || counted > happened + noticed_ ? "evictions are miscounted" : "";
    }
    std::string read_on(std::uint64_t last) {
        const bool stands = hold_.registered();
        const std::uint64_t lost = hold_.lost();
        std::uint64_t next = hold_.reader().sequence();
        if (std::string why = read_to_end(hold_, next, bytes_max); !why.empty()) return why;
        if (stands && hold_.lost() != lost) return "the registered reader lost messages";
        return next == last + 1 ? "" : "the reader counts to " + std::to_string(next);
    }
    // Whoever lives or has died, the reader is in nobody's way for longer than its patience.
    std::string goes_on(std::uint64_t last) {
        for (std::uint64_t i = 1; i <= 6; ++i) {
            std::string why;
            const result added = append(writer_, message(last + i), why);
            if (!why.empty()) return why;
            if (!added || !writer_.commit()) return "the next message does not fit";
        }
        layout::broadcast_read_core all(body(), geometry_);
        if (all.join(broadcast_start::oldest()).status != outcome::ok) return "nothing is there in the end";
        std::uint64_t next = all.sequence();
        if (std::string why = read_to_end(all, next, bytes_max); !why.empty()) return why;
        return next == last + 7 ? "" : "messages are missing";
    }

    static inline std::uint64_t time_ = 0;

    std::uint64_t patience_;
    layout::broadcast_geometry geometry_;
    aligned_bytes bytes_;
    one_slot_table slots_;
    layout::broadcast_write_core writer_, successor_;
    layout::broadcast_hold_core beginning_, hold_;
    std::vector<std::vector<std::byte>> messages_;
    std::uint64_t before_ = 0, published_ = 0, publishing_ = 0;
    std::uint64_t told_ = 0;     // the reader's word
    bool refused_ = false;       // the writer was
    std::uint64_t noticed_ = 0;  // evictions that the reader came back from
    std::uint64_t evicted_ = 0, came_back_ = 0;
};

}  // namespace holdfast::test
