// SPDX-License-Identifier: Apache-2.0
// queue_interleaving.hpp - a queue's producer beside its consumer, for both forms (schedule_rig.hpp).
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/interleaving.hpp"
#include "support/hash_table_image.hpp"
#include "support/queue_bench.hpp"

namespace holdfast::test {

/// The producer sends one message, then two as a batch; the consumer takes one, then two. `before` messages of 40 bytes
/// were sent, and all but the last `held` taken, so that the ring is empty, full, or about to wrap.
class queue_interleaving final : public interleaving {
 public:
    /// Or somebody else checks the queue, twice, beside the producer or the consumer.
    enum class beside { each_other, producer_and_check, consumer_and_check };

    queue_interleaving(std::uint64_t before, std::uint64_t held, beside who = beside::each_other)
        : who_(who),
          geometry_(layout::queue_geometry::of_bytes(256, true, "bench")),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes())) {
        attach();
        for (std::uint64_t n = 0; n < before; ++n) {
            (void)push_message(writer_, n, size_of(n));
            if (n + 1 < held) continue;
            while (writer_.counts().messages - reader_.counts().messages > held) take_one();
        }
        first_ = reader_.counts().messages;
        next_ = before;
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        writer_ = {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "bench"};
        reader_ = {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "bench"};
        successor_ = {};
        sent_ = next_;
        sending_ = 0;
        taken_ = first_;
    }
    // Sends what was lost.
    std::string succeed() override {
        successor_ = {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "next"};
        const std::uint64_t there = successor_.counts().messages;
        if (there == sent_ + sending_) return {};
        if (there != sent_) return "a transaction was sent in part";
        return send(successor_, sending_);
    }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 1 && who_ != beside::each_other) return verified();
        if (process == 0 && who_ != beside::consumer_and_check) return send(writer_, operation + 1);
        return take(operation);
    }
    std::string take(unsigned operation) {
        const std::uint64_t sure = surely(sent_);
        for (unsigned i = 0; i <= operation; ++i) {
            const queue_message found = reader_.front();
            if (!found) {
                if (found.status != outcome::empty) return "the consumer met damage";
                if (taken_ < sure) return "the consumer does not find what was sent";
                break;
            }
            if (!is_next(found)) return "message " + std::to_string(taken_) + " is another or mixed";
            reader_.next();
            ++taken_;
        }
        reader_.release();
        return {};
    }
    std::string judge(std::optional<unsigned> dead) override {
        std::uint64_t until = sent_;
        if (dead && who_ != beside::each_other)
            dead = *dead == 1U ? std::nullopt : std::optional(who_ == beside::producer_and_check ? 0U : 1U);
        if (dead == 0U) {
            writer_ = {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "bench"};
            until = writer_.counts().messages;
            if (until != sent_ && until != sent_ + sending_) return "a transaction was sent in part";
        }
        if (dead == 1U) {
            reader_ = {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "bench"};
            // What was looked at and not released comes again.
            if (reader_.counts().messages > taken_ || reader_.counts().messages + 2 < taken_)
                return "the head is wrong";
            taken_ = reader_.counts().messages;
        }
        while (const queue_message found = reader_.front()) {
            if (!is_next(found)) return "in the end, message " + std::to_string(taken_) + " is another";
            take_one();
            ++taken_;
        }
        if (taken_ != until) return "in the end, " + std::to_string(taken_) + " messages arrived";
        if (!(reader_.counts() == writer_.counts())) return "the counts differ";
        if (!push_message(writer_, 999, 100) || !is_message(reader_.front(), 999, 100)) return "the next is not sent";
        const auto seen = layout::verify_queue(bytes_.bytes(), geometry_, &consumer_side_in(bytes_.bytes()));
        return seen.found.empty() ? "" : "verify: " + seen.found.list()[0].what;
    }

 private:
    static constexpr std::size_t size_of(std::uint64_t n) noexcept { return n % 3 == 0 ? 40 : 24; }
    void take_one() {
        (void)reader_.front();
        reader_.next();
        reader_.release();
    }
    // Copied out first: the comparison is no access that the schedule should see.
    [[nodiscard]] bool is_next(queue_message found) const {
        std::byte copy[128];
        if (found.bytes.size() > sizeof copy) return false;
        std::memcpy(copy, found.bytes.data(), found.bytes.size());
        found.bytes = {copy, found.bytes.size()};
        return is_message(found, taken_, size_of(taken_));
    }
    std::string verified() {
        const auto seen = layout::verify_queue(bytes_.bytes(), geometry_, &consumer_side_in(bytes_.bytes()));
        return seen.found.empty() ? "" : "verify beside a side at work: " + seen.found.list()[0].what;
    }
    std::string send(layout::queue_write_core& writer, std::uint64_t count) {
        sending_ = count;
        if (count > 1) writer.begin_batch();
        for (std::uint64_t i = 0; i < count; ++i) {
            const result done = push_message(writer, sent_ + i, size_of(sent_ + i));
            if (done) continue;
            if (count > 1) writer.discard_batch();
            sending_ = 0;
            return done.status == outcome::full ? "" : "the producer met damage";
        }
        if (count > 1) (void)writer.commit_batch();
        sent_ += count;
        sending_ = 0;
        return {};
    }

    beside who_;
    layout::queue_geometry geometry_;
    aligned_bytes bytes_;
    layout::queue_write_core writer_, successor_;
    layout::queue_read_core reader_;
    std::uint64_t first_ = 0, next_ = 0;  // messages taken and sent in the beginning
    std::uint64_t sent_ = 0, sending_ = 0, taken_ = 0;
};

/// The same for elements: one, then two at once.
class elements_interleaving final : public interleaving {
 public:
    explicit elements_interleaving(std::uint64_t held)
        : geometry_(layout::queue_geometry::of_elements(4, 16, true, "bench")),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes())),
          held_(held) {
        attach();
        for (sent_ = 0; sent_ < held; ++sent_) {
            fill(writer_.slot(0), sent_);
            writer_.publish(1);
        }
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        writer_ = {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "bench"};
        reader_ = {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "bench"};
        successor_ = {};
        sent_ = held_;
        taken_ = 0;
    }
    // Sends what was lost.
    std::string succeed() override {
        successor_ = {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "next"};
        if (successor_.tail() != sent_ && successor_.tail() != sent_ + begun(0)) return "the tail is wrong";
        return successor_.tail() == sent_ ? send(successor_, begun(0)) : "";
    }
    std::string run(unsigned process, unsigned operation) override {
        const std::uint64_t count = operation + 1;
        if (process == 0) return send(writer_, count);
        const std::uint64_t sure = surely(sent_);
        const result there = reader_.ready(count);
        if (!there)
            return there.status == outcome::empty && taken_ >= sure ? "" : "the consumer does not find what was sent";
        for (std::uint64_t i = 0; i < there.count; ++i)
            if (!is_element(reader_.slot(i), taken_ + i)) return "a mixed element";
        reader_.pass(there.count);
        reader_.release();
        taken_ += there.count;
        return {};
    }
    std::string judge(std::optional<unsigned> dead) override {
        if (dead == 0U) {
            writer_ = {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "bench"};
            if (writer_.tail() < sent_ || writer_.tail() > sent_ + 2) return "the tail is wrong";
        }
        if (dead == 1U) {
            reader_ = {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "bench"};
            if (reader_.head() < taken_ || reader_.head() > taken_ + 2) return "the head is wrong";
            taken_ = reader_.head();
        }
        for (; reader_.ready(1); reader_.pass(1), reader_.release(), ++taken_)
            if (!is_element(reader_.slot(0), taken_)) return "in the end, a mixed element";
        if (taken_ != writer_.tail()) return "in the end, elements are missing";
        return writer_.room(4) == outcome::ok ? "" : "no room in an empty ring";
    }

 private:
    std::string send(layout::queue_element_write_core& writer, std::uint64_t count) {
        if (writer.room(count) != outcome::ok) return writer.fault() ? "the producer met damage" : "";
        for (std::uint64_t i = 0; i < count; ++i) fill(writer.slot(i), sent_ + i);
        writer.publish(count);
        sent_ += count;
        return {};
    }
    static void fill(std::byte* slot, std::uint64_t number) {
        const std::uint64_t words[2] = {number * 7 + 1, number * 13 + 5};
        std::memcpy(slot, words, sizeof words);
    }
    static bool is_element(const std::byte* slot, std::uint64_t number) {
        std::uint64_t words[2];
        std::memcpy(words, slot, sizeof words);
        return words[0] == number * 7 + 1 && words[1] == number * 13 + 5;
    }

    layout::queue_geometry geometry_;
    aligned_bytes bytes_;
    layout::queue_element_write_core writer_, successor_;
    layout::queue_element_read_core reader_;
    std::uint64_t held_, sent_ = 0, taken_ = 0;
};

}  // namespace holdfast::test
