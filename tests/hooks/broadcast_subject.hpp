// SPDX-License-Identifier: Apache-2.0
// broadcast_subject.hpp - random histories of a broadcast ring under store_rig.hpp: messages, batches, dropped claims
// and takeovers of the writer; registration, reading and leaving of one registered reader. Either side dies; the other,
// and a reader that only reads, live on.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/store_rig.hpp"
#include "support/broadcast_bench.hpp"
#include "support/hash_table_image.hpp"

namespace holdfast::test {

class broadcast_subject {
 public:
    static constexpr unsigned length = 600;

    explicit broadcast_subject(std::uint64_t seed)
        : random_(seed),
          geometry_(layout::broadcast_geometry::make(2048, random_.one_in(2) ? 1 : 0, "bench")),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes()) + sizeof(layout::broadcast_slot)),
          slots_{slot_of(bytes_.bytes()), false, geometry_.readers} {
        bench_clock::unix_time = 1'000;
        bench_clock::monotonic_time = 5'000;
        layout::broadcast_write_core::format(body(), geometry_, bench_clock::unix_ns());
        writer_ = make_writer();
        onlooker_ = make_reader(broadcast_start::oldest());
        hold_ = layout::broadcast_hold_core(onlooker_, slot());
    }

    [[nodiscard]] std::span<std::byte> image() noexcept { return bytes_.bytes(); }

    std::string next(store_rig& rig) {
        bench_clock::unix_time += random_.below(50);
        bench_clock::monotonic_time += random_.below(50);
        before_ = after_ = writer_.published();
        reached_ = false;
        reader_dies_ = false;
        const std::uint64_t what = random_.below(geometry_.readers == 0 ? 12 : 18);
        if (what < 11)
            publish(rig, what < 7 ? 1 : 2 + random_.below(5), what % 4 == 0);
        else if (what == 11)
            rig.operate([&] { writer_ = make_writer(); }, [&] { return survive(rig, before_, true); });
        else
            read(rig, what);
        if (random_.one_in(3)) return "";
        std::uint64_t next = onlooker_.sequence();
        return read_to_end(onlooker_, next, bytes_max);
    }

 private:
    static constexpr std::size_t bytes_max = 120;

    [[nodiscard]] layout::broadcast_slot* slot_of(std::span<std::byte> all) const noexcept {
        return reinterpret_cast<layout::broadcast_slot*>(all.data() + geometry_.body_bytes());
    }
    [[nodiscard]] layout::broadcast_slot& slot() noexcept { return *slot_of(bytes_.bytes()); }
    [[nodiscard]] std::span<std::byte> body() noexcept {
        return image().first(static_cast<std::size_t>(geometry_.body_bytes()));
    }
    [[nodiscard]] layout::broadcast_write_core make_writer() {
        return {body(), geometry_, bench_clock::clocks(), "bench"};
    }
    [[nodiscard]] layout::broadcast_read_core make_reader(const broadcast_start& start) {
        layout::broadcast_read_core made(body(), geometry_);
        static_cast<void>(made.join(start));
        return made;
    }

    void publish(store_rig& rig, std::uint64_t count, bool drop_first) {
        after_ = before_ + count;
        std::vector<std::vector<std::byte>> messages;
        for (std::uint64_t i = 1; i <= count; ++i) messages.push_back(nth_message(before_ + i, bytes_max));
        const std::size_t dropped = random_.below(500);
        bool done = true;
        rig.operate(
            [&] {
                if (drop_first) {
                    const auto room = writer_.claim(dropped, slots_);
                    if (room && dropped != 0) std::memset(room.bytes.data(), 0x77, room.bytes.size());
                    if (room) (void)writer_.stage(dropped / 2, 0);
                    writer_.discard();
                }
                for (const auto& message : messages) done = done && writer_.append(message, 0, slots_);
                if (done)
                    (void)writer_.commit();
                else
                    writer_.discard();
            },
            [&] { return survive(rig, reached_ ? after_ : before_, true); });
        if (!done && reached_) rig.fail("a refused publish was seen");
        if (!done && geometry_.readers == 0) rig.fail("a publish was refused without a registered reader");
    }

    void read(store_rig& rig, std::uint64_t what) {
        reader_dies_ = true;
        const auto policy = static_cast<broadcast_policy>(1 + random_.below(3));
        const std::uint64_t from = random_.below(before_ + 2);
        rig.operate(
            [&] {
                if (what == 12)
                    (void)hold_.enrol(random_.one_in(2) ? broadcast_start::oldest() : broadcast_start::sequence(from),
                                      policy, 100, bench_clock::unix_ns());
                else if (what == 13)
                    hold_.leave();
                else
                    for (std::uint64_t i = 0; i < what - 10; ++i)
                        (void)hold_.next([](std::span<const std::byte>, std::uint16_t) { return true; });
            },
            [&] { return survive(rig, before_, true); });
    }

    // What the check and readers find at once; `seen` is the last message.
    std::string looks(std::uint64_t least, std::uint64_t& seen) {
        layout::findings found;
        layout::verify_broadcast(body(), geometry_, found);
        if (!found.empty()) return "verify: " + found.list()[0].what;
        layout::broadcast_read_core oldest(body(), geometry_), latest(body(), geometry_);
        if (oldest.join(broadcast_start::oldest()).status != outcome::ok) return "there is no oldest message";
        std::uint64_t next = oldest.sequence();
        if (std::string why = read_to_end(oldest, next, bytes_max); !why.empty()) return why;
        seen = next - 1;
        if (seen < least || (seen != before_ && seen != after_)) return "the last message is " + std::to_string(seen);
        if (latest.join(broadcast_start::latest()).status != outcome::ok || latest.sequence() != next)
            return "the latest message is another than the last";
        layout::broadcast_read_core living = onlooker_;
        std::uint64_t after = living.sequence();
        if (std::string why = read_to_end(living, after, bytes_max); !why.empty()) return "the onlooker: " + why;
        return after == next ? "" : "the onlooker counts to " + std::to_string(after);
    }

    // `least`: the message that somebody saw. `living`: the operation is under way, not a recovery that died.
    std::string survive(store_rig& rig, std::uint64_t least, bool living) {
        std::uint64_t seen = 0;
        std::string why = looks(least, seen);
        if (!why.empty()) return why;
        if (living && seen != before_) reached_ = true;
        std::optional<layout::broadcast_write_core> writer;
        if (reader_dies_) {
            writer = writer_;  // it lives on
        } else {
            rig.recover([&] { writer.emplace(make_writer()); }, [&] { return survive(rig, seen, false); });
            // A takeover counts itself, and changes nothing else.
            if (rig.changes_by([&] { (void)make_writer(); }) != 1) return "recovery is not idempotent";
        }
        if (writer->published() != seen) return "recovery found message " + std::to_string(writer->published());
        std::uint64_t again = 0;
        if (why = looks(seen, again); !why.empty()) return "recovered: " + why;
        rig.go_on([&] { why = go_on(*writer, seen); });
        return why;
    }
    // The reader is taken for dead: nothing holds the writer up, whatever the slot's word says.
    std::string go_on(layout::broadcast_write_core& writer, std::uint64_t last) {
        one_slot_table now = slots_;
        now.dead = true;
        layout::broadcast_read_core reader = make_reader(broadcast_start::sequence(last + 1));
        std::uint64_t next = reader.sequence();
        if (next != last + 1) return "the place behind the last message is not found";
        for (std::uint64_t i = 1; i <= 3; ++i)
            if (!writer.append(nth_message(last + i, bytes_max), 0, now)) return "the next message does not fit";
        if (writer.commit().count != 3) return "the next batch failed";
        if (std::string why = read_to_end(reader, next, bytes_max); !why.empty()) return "next: " + why;
        if (next != last + 4) return "the next messages are not read";
        layout::findings found;
        layout::verify_broadcast(body(), geometry_, found);
        return found.empty() ? "" : "next, verify: " + found.list()[0].what;
    }

    draws random_;
    layout::broadcast_geometry geometry_;
    aligned_bytes bytes_;
    one_slot_table slots_;
    layout::broadcast_write_core writer_;
    layout::broadcast_read_core onlooker_;
    layout::broadcast_hold_core hold_;
    std::uint64_t before_ = 0, after_ = 0;  // messages published
    bool reader_dies_ = false;
    bool reached_ = false;  // a reader saw the state after
};

}  // namespace holdfast::test
