// SPDX-License-Identifier: Apache-2.0
// Any bytes as the body of a broadcast ring: joined, read, registered with, verified, recovered and published to. Then
// a run of operations by script against a model: each number is given once, as the message published or as one of a
// count.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "holdfast/layout/broadcast_read.hpp"
#include "holdfast/layout/broadcast_slots.hpp"
#include "holdfast/layout/broadcast_verify.hpp"
#include "holdfast/layout/broadcast_write.hpp"
#include "require.hpp"

namespace {

using namespace holdfast::layout;
using holdfast::broadcast_policy;
using holdfast::broadcast_start;
using holdfast::outcome;
using holdfast::fuzz::require;

struct alignas(64) block {
    std::byte bytes[64];
};

// One registered reader, alive or not as the script says.
struct one_slot {
    broadcast_slot only{};
    bool lives = true;
    [[nodiscard]] static std::uint32_t size() noexcept { return 1; }
    [[nodiscard]] broadcast_slot& slot(std::uint32_t) noexcept { return only; }
    [[nodiscard]] bool seize(std::uint32_t) const noexcept { return !lives; }
    void give_back(std::uint32_t) noexcept { only.held.store(0); }
};

std::uint64_t no_time() noexcept { return 7; }
constexpr broadcast_clocks clocks{no_time, no_time};

template <class Reader>
void drain(Reader& reader, std::span<const std::byte> body, const broadcast_geometry& geometry) {
    for (std::uint64_t answers = 0;; ++answers) {
        require(answers < geometry.capacity);
        const auto got = reader.next([&](std::span<const std::byte> message, std::uint16_t) noexcept {
            require(message.size() <= geometry.message_max() && message.data() >= body.data() &&
                    message.data() + message.size() <= body.data() + body.size());
            return true;
        });
        if (got.status != outcome::ok && got.status != outcome::lapped) return;
    }
}

/// By batches, into a room of an odd size, where the end of the room ends a batch as well.
template <class Reader>
void drain_by_batches(Reader& reader, const broadcast_geometry& geometry, std::uint64_t most) {
    std::vector<std::byte> memory(static_cast<std::size_t>(geometry.message_max()) + 3);
    for (std::uint64_t answers = 0;; ++answers) {
        require(answers < geometry.capacity);
        const std::span<std::byte> room = std::span(memory).first(answers % 2 == 0 ? memory.size() : 77);
        broadcast_batch batch;
        const auto got = reader.next_batch(room, most, batch);
        std::uint64_t messages = 0;
        const std::byte* behind = room.data();
        batch.for_each(room, [&](std::span<const std::byte> message, std::uint16_t) {
            require(message.data() >= behind && message.data() + message.size() <= room.data() + room.size());
            behind = message.data() + message.size();
            ++messages;
        });
        require(messages == (got ? got.count : 0) && messages <= std::min<std::uint64_t>(most, batch.size_max));
        // What is too large for the small room comes with the next turn.
        const bool waits = got.status == outcome::too_small && room.size() < memory.size();
        if (got.status != outcome::ok && got.status != outcome::lapped && !waits) return;
    }
}

void use_any_bytes(std::span<std::byte> body, const broadcast_geometry& geometry, std::uint64_t word) {
    findings found;
    require(verify_broadcast(body, geometry, found).quiet);  // nothing is at work here
    for (const auto& start : {broadcast_start::oldest(), broadcast_start::latest(), broadcast_start::sequence(word),
                              broadcast_start::time(word)}) {
        broadcast_read_core reader(body, geometry);
        (void)reader.join(start);
        broadcast_read_core by_batches = reader;
        drain(reader, body, geometry);
        drain_by_batches(by_batches, geometry, 1 + word % 70);
        // One look at the horizon for several messages: of a damaged one each may come a little further.
        require(!found.empty() ||
                (by_batches.position() == reader.position() && by_batches.sequence() == reader.sequence()));
        one_slot slots;
        broadcast_hold_core hold(broadcast_read_core(body, geometry), slots.only);
        (void)hold.enrol(start, broadcast_policy::block, word, 1);
        drain(hold, body, geometry);
        (void)hold.enrol(start, broadcast_policy::block, word, 1);
        drain_by_batches(hold, geometry, 64);
    }
    try {
        broadcast_write_core writer(body, geometry, clocks, "fuzz");
        one_slot slots;
        slots.only.held.store(word);
        const std::vector<std::byte> message(static_cast<std::size_t>(word % (geometry.message_max() + 1)));
        for (int i = 0; i < 20 && writer.append(message, 0, slots); ++i) (void)writer.commit();
    } catch (const holdfast::error&) {
        require(!found.empty());  // a writer refuses only what verify reports
    }
}

/// A reader and what it must be given next.
struct follower {
    broadcast_read_core core;
    std::uint64_t next = 1;
};

/// One by one, or as many at once as fit.
void follow(follower& reader, const std::vector<std::vector<std::byte>>& published, std::uint64_t messages,
            bool at_once) {
    std::vector<std::byte> out(1024);
    while (messages-- > 0) {
        broadcast_batch batch;
        const auto got = at_once ? reader.core.next_batch(out, 1 + messages % 5, batch) : reader.core.read(out);
        require(got.status != outcome::corrupt && got.status != outcome::too_small);
        if (got.status == outcome::lapped) reader.next += got.count;
        if (got.status == outcome::empty) require(reader.next == published.size() + 1);
        if (got.status != outcome::ok) continue;
        require(got.sequence == reader.next);
        const auto look = [&](std::span<const std::byte> given) {
            const auto& message = published[static_cast<std::size_t>(reader.next++ - 1)];
            require(std::ranges::equal(given, message));
        };
        if (at_once)
            batch.for_each(out, [&](std::span<const std::byte> given, std::uint16_t) { look(given); });
        else
            look(std::span(out).first(static_cast<std::size_t>(got.count)));
        if (at_once) require(reader.next == got.sequence + got.count);
    }
}

void run_script(std::span<std::byte> body, const broadcast_geometry& geometry, std::span<const std::uint8_t> script) {
    std::memset(body.data(), 0, body.size());
    broadcast_write_core::format(body, geometry, 1);
    no_broadcast_slots nobody;
    broadcast_write_core writer(body, geometry, clocks, "fuzz");
    follower reader{broadcast_read_core(body, geometry)};
    std::vector<std::vector<std::byte>> published, staged;
    for (const std::uint8_t step : script) {
        switch (step >> 6) {
            case 0:
            case 1: {  // stage; every other time publish
                const std::vector<std::byte> message(step % 64 * 8 + step % 7,
                                                     static_cast<std::byte>(published.size() + staged.size()));
                if (writer.append(message, 0, nobody)) staged.push_back(message);
                if (step >> 6 == 1 || staged.empty()) break;
                require(writer.commit().count == staged.size());
                published.insert(published.end(), staged.begin(), staged.end());
                staged.clear();
                break;
            }
            case 2: follow(reader, published, step % 64, step % 2 != 0); break;
            default:
                if (const auto room = writer.claim(geometry.message_max(), nobody))
                    std::memset(room.bytes.data(), 0xEE, room.bytes.size());
                writer = broadcast_write_core(body, geometry, clocks, "fuzz");  // died; a successor
                staged.clear();
        }
        require(writer.published() == published.size());
    }
    follow(reader, published, published.size() + 2, published.size() % 2 != 0);
    findings found;
    verify_broadcast(body, geometry, found);
    require(found.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 9) return 0;
    const auto geometry = broadcast_geometry::make(2048, 1, "fuzz");
    std::uint64_t word = 0;
    std::memcpy(&word, data + 1, 8);
    const std::span<const std::uint8_t> rest(data + 9, size - 9);
    std::vector<block> memory(static_cast<std::size_t>(geometry.body_bytes() / sizeof(block)));
    const std::span<std::byte> body(memory.data()->bytes, static_cast<std::size_t>(geometry.body_bytes()));
    // Half of the inputs lay their bytes over a sound ring that has gone round, so that they get past the first look.
    if (data[0] % 2 == 0) {
        broadcast_write_core::format(body, geometry, 1);
        broadcast_write_core writer(body, geometry, clocks, "fuzz");
        no_broadcast_slots nobody;
        for (std::size_t i = 0; i < 60; ++i) {
            (void)writer.append(std::vector<std::byte>(i), 0, nobody);
            (void)writer.commit();
        }
    }
    // Dense input: pairs of a place and a word, or the words of control and index in order.
    for (std::size_t at = 0, next = 0; at + 10 <= rest.size(); at += 10, ++next) {
        std::uint64_t value = 0;
        std::uint16_t place = 0;
        std::memcpy(&place, rest.data() + at, 2);
        std::memcpy(&value, rest.data() + at + 2, 8);
        const std::size_t words = body.size() / 8;
        std::memcpy(body.data() + 8 * (data[0] % 4 < 2 ? place % words : next % words), &value, 8);
    }
    use_any_bytes(body, geometry, word);
    run_script(body, geometry, rest.first(std::min<std::size_t>(rest.size(), 300)));
    return 0;
}
