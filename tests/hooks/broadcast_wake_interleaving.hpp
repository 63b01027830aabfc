// SPDX-License-Identifier: Apache-2.0
// broadcast_wake_interleaving.hpp - a broadcast ring's writer and a registered reader, of which one sleeps until the
// other has done its part: the handles as they are, over a named segment and its peers file (schedule_rig.hpp).
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "hooks/sleeping_interleaving.hpp"
#include "support/broadcast_bench.hpp"
#include "support/unique_name.hpp"

namespace holdfast::test {

/// The writer publishes two messages. The reader waits for each in an empty ring; or the ring is full and held by it,
/// the writer waits for room in front of each, and the reader reads two, or reads one and goes.
class broadcast_wake_interleaving final : public sleeping_interleaving {
 public:
    enum class sleeper { reader, writer, writer_until_the_reader_goes };

    explicit broadcast_wake_interleaving(sleeper who)
        : sleeping_interleaving(who == sleeper::reader ? 0 : 1), who_(who), name_("wake") {
        broadcast_options options;
        options.capacity_bytes = 2048;
        options.registered_readers = 1;
        writer_.emplace(broadcast_writer::create(name_.uri(), options));
        while (who != sleeper::reader && writer_->sequence() < 30) (void)publish();
        board_.emplace(peers::open(writer_->segment()));
        auto* const begin = const_cast<std::byte*>(writer_->segment().bytes().data());
        const std::byte* const end = board_->slot(board_->size() - 1).data() + peers::slot_bytes;
        image_ = {begin, end};
        beginning_.assign(image_.begin(), image_.end());
        attach();
    }
    broadcast_wake_interleaving(const broadcast_wake_interleaving&) = delete;
    broadcast_wake_interleaving& operator=(const broadcast_wake_interleaving&) = delete;

    [[nodiscard]] std::span<std::byte> image() override { return image_; }
    void attach() override {
        const access_unwatched not_yet;
        one_look::forget();
        reader_.reset();
        writer_.reset();
        attach_sleepers();
        std::memcpy(image_.data(), beginning_.data(), beginning_.size());  // what the last ones did in the end
        writer_.emplace(broadcast_writer::attach(name_.uri()));
        reader_.emplace(writer_->make_reliable_reader(
            {.start = broadcast_start::oldest(), .policy = broadcast_policy::block, .patience = {}}));
        while (who_ != sleeper::reader && publish()) continue;
        taken_ = reader_->sequence() - 1;
    }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) return send();
        if (operation == 0 || who_ != sleeper::writer_until_the_reader_goes) return take();
        reader_.reset();
        return {};
    }
    std::string judge(std::optional<unsigned> dead) override {
        if (lost_a_wake(dead)) return "a wake was lost";
        const std::string damage = [&] {
            layout::findings found;
            layout::verify_broadcast(writer_->segment().bytes(), layout::broadcast_geometry::make(2048, 1, "wake"),
                                     found);
            return found.empty() ? "" : found.list()[0].what;
        }();
        return damage.empty() ? "" : "verify: " + damage;
    }

 private:
    static constexpr std::size_t message_bytes = 56;  // a stride of this ring with its word
    static constexpr auto for_ever = std::chrono::nanoseconds::max();

    // What it spins through before it announces itself are looks like any other: without them.
    template <class Wait>
    static result wait(Wait&& sleep) {
        const one_look only;
        return sleep();
    }
    bool publish() {
        std::byte message[message_bytes];
        fill_message(message, writer_->sequence() + 1);
        return static_cast<bool>(writer_->publish(message));
    }
    std::string send() {
        if (who_ != sleeper::reader && !wait([&] { return writer_->wait_room(message_bytes, for_ever); }))
            return slept_out() ? "" : "the writer gave up";
        return publish() ? "" : "there is no room";
    }
    std::string take() {
        if (who_ == sleeper::reader && !wait([&] { return reader_->wait(for_ever); })) {
            if (!slept_out()) return "the reader gave up beside a living writer";
            std::array<std::byte, message_bytes> out;
            return reader_->read(out) ? "the last message of the dead was left" : "";
        }
        std::array<std::byte, message_bytes> out;
        const broadcast_read got = reader_->read(out);
        if (got.status != outcome::ok || got.sequence != taken_ + 1)
            return "the message that was waited for is not there";
        std::array<std::byte, message_bytes> whole;
        fill_message(whole, got.sequence);
        if (out != whole) return "a mixed message";
        ++taken_;
        return {};
    }

    sleeper who_;
    one_address places_;
    unique_posix_name name_;
    std::optional<broadcast_writer> writer_;
    std::optional<peers> board_;  // keeps the mapping where it is
    std::optional<broadcast_reliable_reader> reader_;
    std::span<std::byte> image_;
    std::vector<std::byte> beginning_;
    std::uint64_t taken_ = 0;
};

}  // namespace holdfast::test
