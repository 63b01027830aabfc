// SPDX-License-Identifier: Apache-2.0
// Any bytes as the body of a queue: verified, taken from, recovered and put into; the same of a queue of elements,
// which are read in place. Then a run of operations by script against a model, with successors on both sides: what was
// committed is what comes out.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "holdfast/layout/queue_elements.hpp"
#include "holdfast/layout/queue_read.hpp"
#include "holdfast/layout/queue_verify.hpp"
#include "holdfast/layout/queue_write.hpp"
#include "holdfast/queue.hpp"
#include "require.hpp"

namespace {

using namespace holdfast::layout;
using holdfast::outcome;
using holdfast::queue_message;
using holdfast::fuzz::require;

struct alignas(64) block {
    std::byte bytes[64];
};

queue_side& consumer_side(std::span<std::byte> body) {
    return *reinterpret_cast<queue_side*>(body.data() + queue_consumer_offset);
}
bool inside(std::span<const std::byte> part, std::span<const std::byte> body) {
    return part.empty() ||
           (part.data() >= body.data() + queue_ring_offset && part.data() + part.size() <= body.data() + body.size());
}

void use_any_bytes(std::span<std::byte> body, const queue_geometry& geometry) {
    bool damaged = !verify_queue(body, geometry, &consumer_side(body)).found.empty();
    try {
        queue_read_core reader(body, geometry, consumer_side(body), "fuzz");
        for (std::uint64_t steps = 0; const queue_message found = reader.front(); ++steps) {
            require(inside(found.bytes, body) && steps <= 3 * geometry.capacity / 8);
            reader.next();
            if (steps % 3 == 0) reader.release();
        }
    } catch (const holdfast::error&) {
        require(damaged);  // a consumer refuses only what verify reports
    }
    damaged = !verify_queue(body, geometry, &consumer_side(body)).found.empty();
    try {
        queue_write_core writer(body, geometry, consumer_side(body), "fuzz");
        for (const std::uint64_t bytes : {0U, 9U, 24U}) {
            const auto room = writer.try_claim(bytes);
            if (!room) continue;
            require(inside(room.bytes, body));
            std::memset(room.bytes.data(), 1, room.bytes.size());
            require(static_cast<bool>(writer.commit(bytes, 1)));
        }
        (void)writer.head_needed(8);
    } catch (const holdfast::error&) {
        require(damaged);
    }
}

/// Eight elements of 8 bytes in a heap: segment, by the handle as it is: positions as the bytes say, and then a tail
/// that a hostile producer moves.
void read_in_place(std::span<const std::uint8_t> script) {
    using elements = holdfast::queue<std::uint64_t>;
    // Made once: it costs more than all that is done with it.
    static const auto producer = elements::producer::create("heap:", {.capacity = 8, .rings = false});
    const std::shared_ptr<const holdfast::segment> segment(std::shared_ptr<void>(), &producer.segment());
    const std::span<std::byte> body(const_cast<std::byte*>(segment->bytes().data()), segment->bytes().size());
    std::memset(body.data(), 0, body.size());
    const auto move = [&](std::uint64_t offset, std::size_t from) {
        if (from + 8 <= script.size()) std::memcpy(body.data() + offset, script.data() + from, 8);
    };
    // A head of any value and mostly a tail that it may have; every fourth time any tail as well.
    move(queue_consumer_offset, 0);
    if (script[0] % 4 == 0) {
        move(queue_producer_offset, 8);
    } else {
        const std::uint64_t tail = consumer_side(body).position.load() + script[script.size() / 2] % 10;
        std::memcpy(body.data() + queue_producer_offset, &tail, sizeof tail);
    }
    const auto seen = verify_queue(body, queue_geometry::of_elements(8, 8, false, "fuzz"), &consumer_side(body));
    try {
        elements::consumer consumer(segment);
        std::uint64_t left = seen.messages;
        for (const std::uint8_t step : script.first(std::min<std::size_t>(script.size(), 64))) {
            if (step >= 0xC0) move(queue_producer_offset, step - std::size_t{0xC0});
            if (step >= 0xC0) left = ~std::uint64_t{0};
            const auto found = consumer.front_block(step % 16);
            require(found.values.size() <= std::min<std::uint64_t>({step % 16U, 8, left}));
            require(inside(std::as_bytes(found.values), body.first(queue_ring_offset + 64)));
            require(found.status != outcome::corrupt || consumer.fault());
            if (!found) continue;
            const std::uint64_t release = 1 + step / 16U % found.values.size();
            require(consumer.pop(release) && !consumer.pop(found.values.size() - release + 1));
            left -= release;
        }
    } catch (const holdfast::error&) {
        require(!seen.found.empty());
    }
}

void run_script(std::span<std::byte> body, const queue_geometry& geometry, std::span<const std::uint8_t> script) {
    std::memset(body.data(), 0, body.size());
    std::optional<queue_write_core> writer(std::in_place, body, geometry, consumer_side(body), "fuzz");
    std::optional<queue_read_core> reader(std::in_place, body, geometry, consumer_side(body), "fuzz");
    std::deque<std::vector<std::byte>> model, open;
    std::uint64_t sent = 0;
    for (const std::uint8_t step : script) {
        const std::size_t bytes = step % 32 % (ring_message_max(geometry.capacity) + 1);
        switch (step >> 5) {
            case 0:
            case 1:
            case 2: {
                const auto room = writer->try_claim(std::max<std::size_t>(bytes, step % 24));
                if (!room) break;
                const std::vector<std::byte> message(bytes, static_cast<std::byte>(++sent));
                if (bytes > room.bytes.size()) break;
                if (bytes != 0) std::memcpy(room.bytes.data(), message.data(), bytes);
                require(static_cast<bool>(writer->commit(bytes, step)));
                (writer->in_batch() ? open : model).push_back(message);
                break;
            }
            case 3:
                if (writer->begin_batch()) break;
                if (step % 2 == 0) {
                    writer->discard_batch();
                } else {
                    require(writer->commit_batch().count == open.size());
                    model.insert(model.end(), open.begin(), open.end());
                }
                open.clear();
                break;
            case 4:  // died; a successor
                writer.emplace(body, geometry, consumer_side(body), "fuzz");
                open.clear();
                break;
            case 5: reader.emplace(body, geometry, consumer_side(body), "fuzz"); break;
            default: {
                const queue_message found = reader->front();
                require(static_cast<bool>(found) == !model.empty());
                if (!found) break;
                require(std::ranges::equal(found.bytes, model.front()));
                require(reader->next() && reader->release());
                model.pop_front();
            }
        }
        const auto seen = verify_queue(body, geometry, &consumer_side(body));
        require(seen.found.empty() && !seen.unsettled && seen.messages == model.size());
    }
    require(!reader->fault() && !writer->fault());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const auto geometry = queue_geometry::of_bytes(std::uint64_t{64} << (data[0] % 3), true, "fuzz");
    const std::span<const std::uint8_t> rest(data + 1, size - 1);
    std::vector<block> memory(static_cast<std::size_t>(geometry.body_bytes() / sizeof(block)));
    const std::span<std::byte> body(memory.data()->bytes, static_cast<std::size_t>(geometry.body_bytes()));
    // Dense input: positions and ledgers of both sides first, then the ring.
    std::size_t used = 0;
    const auto put = [&](std::uint64_t offset, std::size_t bytes) {
        const std::size_t take = std::min(bytes, rest.size() - used);
        std::memcpy(body.data() + offset, rest.data() + used, take);
        used += take;
    };
    put(queue_producer_offset, 56);
    put(queue_consumer_offset, 56);
    put(queue_ring_offset, static_cast<std::size_t>(geometry.capacity));
    use_any_bytes(body, geometry);
    read_in_place(rest);
    run_script(body, geometry, rest.first(std::min<std::size_t>(rest.size(), 400)));
    return 0;
}
