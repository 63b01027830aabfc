// SPDX-License-Identifier: Apache-2.0
// Any bytes as the body of a snapshot: read, pinned, verified, recovered and published to. Then a run of operations by
// script against a model: what was published is what is read.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "holdfast/layout/snapshot_verify.hpp"
#include "holdfast/layout/snapshot_write.hpp"
#include "require.hpp"

namespace {

using namespace holdfast::layout;
using holdfast::outcome;
using holdfast::fuzz::require;

constexpr std::uint64_t slot_bytes = 64;

struct alignas(64) block {
    std::byte bytes[64];
};

// One registered reader, alive or not as the script says.
struct one_hazard {
    std::atomic<std::uint64_t> word{0};
    bool lives = true;
    [[nodiscard]] static std::uint32_t size() noexcept { return 1; }
    [[nodiscard]] std::atomic<std::uint64_t>& cell(std::uint32_t) noexcept { return word; }
    [[nodiscard]] bool alive(std::uint32_t) const noexcept { return lives; }
};

void use_any_bytes(std::span<std::byte> body, const snapshot_geometry& geometry, std::uint64_t hazard) {
    const snapshot_read_core reader(body, geometry);
    std::vector<std::byte> out(slot_bytes);
    const auto got = reader.read(out);
    require(got.bytes <= slot_bytes && got.status != outcome::contended);
    std::vector<std::byte> slot(slot_bytes);
    const auto in_slot = reader.read_slot(slot);
    // The copy beside `current` is all that a read looks at; who looks into the slot may find that damaged.
    require(in_slot.status == got.status || (got && got.bytes <= 40 && in_slot.status == outcome::corrupt));
    one_hazard hazards;
    snapshot_pin_core pin(reader, hazards.word);
    require(pin.pin().status == in_slot.status);
    pin.release();
    hazards.word.store(hazard);
    findings found;
    verify_snapshot(body, geometry, found);
    if (in_slot.status == outcome::corrupt) require(!found.empty());
    if (got && in_slot && found.empty()) require(got.bytes == in_slot.bytes && out == slot);
    try {
        snapshot_write_core writer(body, geometry, "fuzz");
        const auto next = writer.publish(std::span(out).first(7), hazards, 0);
        if (next) require(reader.read(out).version == next.version);
    } catch (const holdfast::error&) {
        require(!found.empty());  // a writer refuses only what verify reports
    }
}

void run_script(std::span<std::byte> body, const snapshot_geometry& geometry, std::span<const std::uint8_t> script) {
    std::memset(body.data(), 0, body.size());
    one_hazard hazards;
    const snapshot_read_core reader(body, geometry);
    snapshot_pin_core pin(reader, hazards.word);
    snapshot_write_core writer(body, geometry, "fuzz");
    std::vector<std::byte> current, held, out(slot_bytes);
    std::uint64_t version = 0;
    for (const std::uint8_t step : script) {
        const std::vector<std::byte> object(step % (slot_bytes + 1), static_cast<std::byte>(version + 1));
        switch (step >> 6) {
            case 0: {
                const auto result = writer.publish(object, hazards, 0);
                if (!result) break;
                require(result.version == ++version);
                current = object;
                break;
            }
            case 1:
                if (pin.pin().status == outcome::ok) held = current;
                break;
            case 2: pin.release(); break;
            default:
                if (const auto room = writer.prepare(slot_bytes, hazards))
                    std::memset(room.bytes.data(), 0xEE, room.bytes.size());
                writer = snapshot_write_core(body, geometry, "fuzz");  // died; a successor
        }
        const auto got = reader.read(out);
        require(got.version == version && (version == 0 || got.bytes == current.size()));
        require(current.empty() || std::memcmp(out.data(), current.data(), current.size()) == 0);
        if (pin.held().status == outcome::ok)
            require(pin.held().bytes == held.size() &&
                    (held.empty() || std::memcmp(reader.payload(pin.held().word), held.data(), held.size()) == 0));
    }
    findings found;
    verify_snapshot(body, geometry, found);
    require(found.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 9) return 0;
    const auto geometry = snapshot_geometry::make(2 + data[0] % 3, slot_bytes, 0, "fuzz");
    std::uint64_t hazard = 0;
    std::memcpy(&hazard, data + 1, 8);
    const std::span<const std::uint8_t> rest(data + 9, size - 9);
    std::vector<block> memory(static_cast<std::size_t>(geometry.body_bytes() / sizeof(block)));
    const std::span<std::byte> body(memory.data()->bytes, static_cast<std::size_t>(geometry.body_bytes()));
    // Dense input: control and headers first, then the beginnings of the payloads.
    std::size_t used = std::min<std::size_t>(rest.size(), 128 + geometry.slots * sizeof(snapshot_slot));
    std::memcpy(body.data(), rest.data(), used);
    for (std::uint32_t slot = 0; slot < geometry.slots; ++slot) {
        const std::size_t take = std::min<std::size_t>(rest.size() - used, slot_bytes);
        std::memcpy(body.data() + geometry.payload_offset(slot), rest.data() + used, take);
        used += take;
    }
    use_any_bytes(body, geometry, hazard);
    run_script(body, geometry, rest.first(std::min<std::size_t>(rest.size(), 200)));
    return 0;
}
