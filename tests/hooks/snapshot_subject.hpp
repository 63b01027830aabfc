// SPDX-License-Identifier: Apache-2.0
// snapshot_subject.hpp - random histories of a snapshot under store_rig.hpp: publishes, prepared and dropped ones,
// takeovers, and two readers that pin, move and release. Either side dies; what a living reader holds stays whole.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/layout/snapshot_verify.hpp"
#include "hooks/store_rig.hpp"
#include "support/hash_table_image.hpp"
#include "support/snapshot_bench.hpp"

namespace holdfast::test {

class snapshot_subject {
 public:
    static constexpr unsigned length = 800;
    static constexpr std::uint32_t readers = 2;

    explicit snapshot_subject(std::uint64_t seed)
        : random_(seed),
          geometry_(layout::snapshot_geometry::make(2 + random_.below(4), object_bytes, 0, "bench")),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes()) + 64),
          hazards_{reinterpret_cast<std::atomic<std::uint64_t>*>(image().data() + geometry_.body_bytes()), {}},
          writer_(make_writer()) {
        for (std::uint32_t i = 0; i < readers; ++i) pins_[i] = {make_reader(), hazards_.cell(i)};
    }

    [[nodiscard]] std::span<std::byte> image() noexcept { return bytes_.bytes(); }

    std::string next(store_rig& rig) {
        before_ = writer_.version();
        reached_ = false;
        dying_reader_ = readers;
        const std::uint64_t what = random_.below(16);
        if (what < 9) return publish(rig, random_.below(3));
        if (what == 9) {
            after_ = before_;
            rig.operate([&] { writer_ = make_writer(); }, [&] { return survive(rig, before_, true); });
            return {};
        }
        after_ = before_;
        const auto index = static_cast<std::uint32_t>(random_.below(readers));
        dying_reader_ = index;
        rig.operate(
            [&] {
                if (what < 14)
                    (void)pins_[index].pin();
                else
                    pins_[index].release();
            },
            [&] { return survive(rig, before_, true); });
        const bool holds = static_cast<bool>(pins_[index].held().status == outcome::ok);
        if (holds != (what < 14 && before_ != 0)) return "a pin failed beside a resting writer";
        return holds && !is_object(pins_[index].held().word) ? "a pinned object is not whole" : "";
    }

 private:
    static constexpr std::size_t object_bytes = 56;

    // Both hazards, and which of their readers died.
    struct hazard_table {
        std::atomic<std::uint64_t>* cells;
        std::array<bool, readers> dead;
        [[nodiscard]] static std::uint32_t size() noexcept { return readers; }
        [[nodiscard]] std::atomic<std::uint64_t>& cell(std::uint32_t index) const noexcept { return cells[index]; }
        [[nodiscard]] bool alive(std::uint32_t index) const noexcept { return !dead[index]; }
    };

    [[nodiscard]] std::span<std::byte> body() noexcept {
        return image().first(static_cast<std::size_t>(geometry_.body_bytes()));
    }
    [[nodiscard]] layout::snapshot_write_core make_writer() { return {body(), geometry_, "bench"}; }
    [[nodiscard]] layout::snapshot_read_core make_reader() { return {body(), geometry_}; }
    static std::size_t length_of(std::uint64_t version) { return 17 + version % 40; }
    [[nodiscard]] bool is_object(std::uint64_t word) {
        const std::uint64_t version = layout::snapshot_version_of(word);
        const std::byte* at = body().data() + geometry_.payload_offset(layout::snapshot_slot_of(word));
        return is_whole({at, length_of(version)}, version);
    }

    std::string publish(store_rig& rig, std::uint64_t how) {
        after_ = before_ + 1;
        const auto object = whole_object(after_, length_of(after_));
        bool done = false;
        rig.operate(
            [&] {
                if (how == 1) {  // prepared for nothing, filled by plain stores
                    const auto room = writer_.prepare(object_bytes, hazards_);
                    if (room) std::memset(room.bytes.data(), 0x77, room.bytes.size());
                    writer_.discard();
                }
                if (how != 2) {
                    done = static_cast<bool>(writer_.publish(object, hazards_, after_));
                    return;
                }
                const auto room = writer_.prepare(object.size(), hazards_);
                if (!room) return;
                std::memcpy(room.bytes.data(), object.data(), object.size());
                done = static_cast<bool>(writer_.commit(object.size(), after_));
            },
            [&] { return survive(rig, reached_ ? after_ : before_, true); });
        if (!done && reached_) return "a refused publish was seen";
        if (!done && geometry_.slots > readers + 1) return "a publish was refused with a slot free";
        return done == (writer_.version() == after_) ? "" : "the version is another";
    }

    // `least`: the version that somebody saw. `living`: the operation is under way, not a recovery that died.
    std::string survive(store_rig& rig, std::uint64_t least, bool living) {
        std::uint64_t seen = 0;
        std::string why = looks(least, seen);
        if (!why.empty()) return why;
        if (living && seen == after_ && after_ != before_) reached_ = true;
        for (std::uint32_t i = 0; i < readers; ++i)
            if (i != dying_reader_ && pins_[i].held().status == outcome::ok && !is_object(pins_[i].held().word))
                return "what a living reader holds was changed";
        std::optional<layout::snapshot_write_core> writer;
        if (dying_reader_ == readers) {
            rig.recover([&] { writer.emplace(make_writer()); }, [&] { return survive(rig, seen, false); });
            if (rig.changes_by([&] { (void)make_writer(); }) != 0) return "recovery is not idempotent";
        } else {
            writer = writer_;  // it lives on
        }
        if (writer->version() != seen) return "recovery found version " + std::to_string(writer->version());
        std::uint64_t again = 0;
        if (why = looks(seen, again); !why.empty()) return "recovered: " + why;
        rig.go_on([&] { why = go_on(*writer, seen); });
        return why;
    }
    std::string looks(std::uint64_t least, std::uint64_t& seen) {
        layout::findings found;
        verify_snapshot(body(), geometry_, found);
        if (!found.empty()) return "verify: " + found.list()[0].what;
        std::byte out[object_bytes];
        const auto got = make_reader().read(out);
        seen = got.version;
        if (least == 0 && got.status == outcome::empty) return {};
        if (got.status != outcome::ok) return "a reader gets no object";
        if (got.version < least || (got.version != before_ && got.version != after_))
            return "a reader gets version " + std::to_string(got.version);
        return got.bytes == length_of(seen) && is_whole({out, static_cast<std::size_t>(got.bytes)}, seen)
                   ? ""
                   : "a reader gets a mixed object";
    }
    // The dead reader's slot must not be lost, and a living reader's pin must stand.
    std::string go_on(layout::snapshot_write_core& writer, std::uint64_t from) {
        hazard_table now = hazards_;
        if (dying_reader_ != readers) now.dead[dying_reader_] = true;
        const bool room = geometry_.slots > (dying_reader_ != readers ? readers : readers + 1);
        for (std::uint64_t version = from + 1; version <= from + 2; ++version) {
            const bool done = writer.publish(whole_object(version, length_of(version)), now, 0).version == version;
            if (!done && room) return "the next publish failed";
            if (!done) return {};
        }
        for (std::uint32_t i = 0; i < readers; ++i)
            if (i != dying_reader_ && pins_[i].held().status == outcome::ok && !is_object(pins_[i].held().word))
                return "the next publish changed what a living reader holds";
        layout::findings found;
        verify_snapshot(body(), geometry_, found);
        if (!found.empty()) return "next, verify: " + found.list()[0].what;
        std::byte out[object_bytes];
        return make_reader().read(out).version == from + 2 ? "" : "the next object is not read";
    }

    draws random_;
    layout::snapshot_geometry geometry_;
    aligned_bytes bytes_;
    hazard_table hazards_;
    layout::snapshot_write_core writer_;
    std::array<layout::snapshot_pin_core, readers> pins_;
    std::uint64_t before_ = 0, after_ = 0;  // versions
    std::uint32_t dying_reader_ = readers;  // readers: it is the writer who dies
    bool reached_ = false;                  // a reader saw the version after
};

}  // namespace holdfast::test
