// SPDX-License-Identifier: Apache-2.0
// broadcast_interleaving.hpp - a broadcast ring's writer beside a reader that only reads, or that registers
// (schedule_rig.hpp).
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/interleaving.hpp"
#include "support/broadcast_bench.hpp"
#include "support/hash_table_image.hpp"

namespace holdfast::test {

/// The writer publishes one message, then two as a batch; the reader takes two, or two at once and two more, or
/// registers and takes one, or two at once. The ring has gone round, and the reader stands where the writer is about to
/// overwrite, or at the end. Who has been there all the time is told of a successor once, and no later than with its
/// first message.
class broadcast_interleaving final : public interleaving {
 public:
    enum class reads {
        at_the_oldest,
        at_the_end,
        batches_at_the_oldest,
        batches_at_the_end,
        joins_and_reads,
        verifies,
        registers_and_blocks,
        registers_and_batches,  // blocks, too
        registers_and_drops
    };

    broadcast_interleaving(std::uint64_t before, reads how)
        : how_(how),
          geometry_(layout::broadcast_geometry::make(2048, 1, "bench")),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes()) + sizeof(layout::broadcast_slot)),
          slots_{reinterpret_cast<layout::broadcast_slot*>(image().data() + geometry_.body_bytes()), false} {
        layout::broadcast_write_core::format(body(), geometry_, bench_clock::unix_ns());
        writer_ = make_writer();
        for (std::uint64_t n = 1; n <= before; ++n) (void)(writer_.append(message(n), 0, slots_) && writer_.commit());
        before_ = writer_.published();
        for (std::uint64_t i = 1; i <= 3; ++i) messages_.push_back(message(before_ + i));
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        slots_.dead = false;
        writer_ = make_writer();
        successor_ = {};
        reader_ = layout::broadcast_read_core(body(), geometry_);
        const bool oldest = how_ == reads::at_the_oldest || how_ == reads::batches_at_the_oldest;
        (void)reader_.join(oldest ? broadcast_start::oldest() : broadcast_start::latest());
        hold_ = layout::broadcast_hold_core(reader_, *slots_.only);
        published_ = before_;
        publishing_ = 0;
        predecessors_ = ~std::uint64_t{0};
        safe_ = told_ = false;
    }
    // Publishes what was lost.
    std::string succeed() override {
        predecessors_ = published_ + publishing_;  // at most
        successor_ = make_writer();
        const std::uint64_t last = successor_.published();
        meet();
        predecessors_ = last;
        if (last == published_ + publishing_) return {};
        if (last != published_) return "a batch was published in part";
        return publish(successor_, publishing_);
    }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) return publish(writer_, operation + 1);
        if (how_ == reads::verifies) return verified();
        if (operation == 0 && how_ == reads::joins_and_reads) return join();
        if (operation == 0 && how_ >= reads::registers_and_blocks) return enrol();
        if (how_ == reads::registers_and_batches) return take_batch(hold_, hold_.reader().sequence());
        if (how_ >= reads::registers_and_blocks) return take(hold_, hold_.reader().sequence());
        if (how_ == reads::batches_at_the_oldest || how_ == reads::batches_at_the_end)
            return take_batch(reader_, reader_.sequence());
        return take(reader_, reader_.sequence());
    }
    std::string judge(std::optional<unsigned> dead) override {
        std::uint64_t last = published_;
        if (dead == 0U) {
            writer_ = make_writer();
            last = writer_.published();
            if (last != published_ && last != published_ + publishing_) return "a batch was published in part";
        }
        slots_.dead = dead == 1U;
        layout::findings found;
        layout::verify_broadcast(body(), geometry_, found);
        if (!found.empty()) return "verify: " + found.list()[0].what;
        std::uint64_t next = reader_.sequence();
        if (dead != 1U && how_ < reads::registers_and_blocks) {
            if (std::string why = read_to_end(reader_, next, bytes_max); !why.empty()) return why;
            if (next != last + 1) return "in the end, the reader counts to " + std::to_string(next);
        }
        if (dead != 1U && how_ >= reads::registers_and_blocks) hold_.leave();
        for (std::uint64_t i = 1; i <= 3; ++i)
            if (!writer_.append(message(last + i), 0, slots_) || !writer_.commit())
                return "the next message does not fit";
        layout::broadcast_read_core all(body(), geometry_);
        if (all.join(broadcast_start::oldest()).status != outcome::ok) return "nothing is there in the end";
        next = all.sequence();
        if (std::string why = read_to_end(all, next, bytes_max); !why.empty()) return "in the end: " + why;
        return next == last + 4 ? "" : "in the end, messages are missing";
    }

 private:
    static constexpr std::size_t bytes_max = 120;

    static std::vector<std::byte> message(std::uint64_t n) { return nth_message(n, bytes_max); }
    [[nodiscard]] std::span<std::byte> body() {
        return image().first(static_cast<std::size_t>(geometry_.body_bytes()));
    }
    [[nodiscard]] layout::broadcast_write_core make_writer() {
        return {body(), geometry_, bench_clock::clocks(), "bench"};
    }

    [[nodiscard]] bool blocks() const noexcept {
        return how_ == reads::registers_and_blocks || how_ == reads::registers_and_batches;
    }

    std::string publish(layout::broadcast_write_core& writer, std::uint64_t count) {
        publishing_ = count;
        for (std::uint64_t i = 0; i < count; ++i) {
            // Who comes to its end in its grave counts on from what its successor has published.
            const auto number = static_cast<std::size_t>(published_ - before_ + i);
            if (number >= messages_.size()) return "more is published than there is";
            const auto& next = messages_[number];
            if (const result added = writer.append(next, 0, slots_); !added) {
                writer.discard();
                publishing_ = 0;
                return added.status == outcome::full && blocks() ? "" : "a publish failed";
            }
        }
        if (writer.commit().count != count) return "a commit failed";
        published_ += count;
        publishing_ = 0;
        return {};
    }
    std::string verified() {
        layout::findings found;
        (void)layout::verify_broadcast(body(), geometry_, found);
        return found.empty() ? "" : "verify beside a writer: " + found.list()[0].what;
    }
    std::string join() {
        const std::uint64_t sure = surely(published_);
        const result got = reader_.join(broadcast_start::sequence(before_));
        if (got.status == outcome::ok) return reader_.sequence() == before_ ? "" : "joined at another message";
        if (got.status == outcome::lapped && reader_.sequence() == before_ + got.count) return {};
        return sure >= before_ + 3 ? "" : "the join failed";
    }
    std::string enrol() {
        const auto policy = blocks() ? broadcast_policy::block : broadcast_policy::drop;
        const result got = hold_.enrol(broadcast_start::oldest(), policy, 0, 7);
        if (got.status != outcome::ok && got.status != outcome::lapped) return "the registration failed";
        safe_ = policy == broadcast_policy::block;
        return {};
    }
    // The next message: that number, or as many lost as lie between, and whole.
    template <class Reader>
    std::string take(Reader& reader, std::uint64_t expected) {
        const std::uint64_t sure = surely(published_);
        std::byte out[bytes_max];
        const broadcast_read got = reader.next([&](std::span<const std::byte> bytes, std::uint16_t) noexcept {
            if (bytes.size() > sizeof out) return false;
            holdfast::detail::copy_from_shared(out, bytes.data(), bytes.size());
            return true;
        });
        if (!got) return without_message(got, expected, sure);
        if (got.sequence != expected) return "the reader got another message";
        if (!is_message({out, static_cast<std::size_t>(got.count)}, expected, bytes_max)) return "a mixed message";
        return told(got, expected);
    }
    // The next two at once, or as many as are there: those numbers, or as many lost as lie between, and each whole.
    template <class Reader>
    std::string take_batch(Reader& reader, std::uint64_t expected) {
        const std::uint64_t sure = surely(published_);
        alignas(8) std::byte room[2 * bytes_max];
        layout::broadcast_batch batch;
        const broadcast_read got = reader.next_batch(room, 2, batch);
        std::uint64_t next = expected;
        bool whole = true;
        batch.for_each(room, [&](std::span<const std::byte> bytes, std::uint16_t) {
            whole = is_message(bytes, next++, bytes_max) && whole;
        });
        if (!got)
            return next == expected ? without_message(got, expected, sure) : "messages, and an answer without any";
        if (got.sequence != expected) return "the batch begins with another message";
        if (got.count > 2 || next != expected + got.count) return "the batch has other messages than it counts";
        if (!whole) return "a mixed message in a batch";
        if (got.restarted && got.count != 1) return "a restart is told with several messages";
        return told(got, next - 1);
    }
    std::string without_message(const broadcast_read& got, std::uint64_t expected, std::uint64_t sure) {
        if (got.status == outcome::empty && sure >= expected) return "the reader does not find what was published";
        if (got.status == outcome::lapped && safe_) return "a registered reader lost messages";
        if (got.status == outcome::lapped && got.sequence != expected + got.count)
            return "the count of lost messages is wrong";
        if (got.status != outcome::empty && got.status != outcome::lapped) return "the reader met damage";
        return told(got, 0);
    }
    // `newest`: the last message that came with the answer. Who joined meanwhile may have met the successor there.
    std::string told(const broadcast_read& got, std::uint64_t newest) {
        if (how_ >= reads::joins_and_reads) return {};
        meet();
        if (got.restarted && (told_ || predecessors_ == ~std::uint64_t{0})) return "a restart is told that was none";
        told_ = told_ || got.restarted;
        return told_ || newest <= predecessors_ ? "" : "a successor's message came before its restart was told";
    }

    reads how_;
    layout::broadcast_geometry geometry_;
    aligned_bytes bytes_;
    one_slot_table slots_;
    layout::broadcast_write_core writer_, successor_;
    layout::broadcast_read_core reader_;
    layout::broadcast_hold_core hold_;
    std::vector<std::vector<std::byte>> messages_;
    std::uint64_t before_ = 0, published_ = 0, publishing_ = 0;
    std::uint64_t predecessors_ = 0;  // the last message that is none of a successor's
    bool safe_ = false;               // registered under block
    bool told_ = false;               // of a successor
};

}  // namespace holdfast::test
