// SPDX-License-Identifier: Apache-2.0
// snapshot_interleaving.hpp - two publishes of a snapshot beside two reads, or two pins (schedule_rig.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "holdfast/layout/snapshot_verify.hpp"
#include "hooks/interleaving.hpp"
#include "support/hash_table_image.hpp"
#include "support/snapshot_bench.hpp"

namespace holdfast::test {

class snapshot_interleaving final : public interleaving {
 public:
    /// `verifies`: what comes after the first read is a check of the whole.
    snapshot_interleaving(std::uint64_t slots, bool pins, bool verifies = false)
        : pins_(pins),
          verifies_(verifies),
          geometry_(layout::snapshot_geometry::make(slots, object_bytes, 0, "bench")),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes()) + 64) {
        attach();
        for (std::uint64_t version = 1; version <= published; ++version)
            (void)writer_.publish(whole_object(version, object_bytes), hazard_, 0);
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        hazard_ = {reinterpret_cast<std::atomic<std::uint64_t>*>(image().data() + geometry_.body_bytes()), true};
        writer_ = {body(), geometry_, "bench"};
        reader_ = {body(), geometry_};
        pin_ = {reader_, *hazard_.word};
        successor_ = {};
        refused_ = 0;
    }
    // Publishes what was lost.
    std::string succeed() override {
        successor_ = {body(), geometry_, "next"};
        if (successor_.version() == published + begun(0) - refused_) return {};
        const publish_result done = successor_.publish(objects()[begun(0) - 1 + refused_offset()], hazard_, 0);
        if (!done) ++refused_;
        return done || done.status == outcome::full ? "" : "the successor's publish failed";
    }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) {
            const publish_result done = writer_.publish(objects()[operation + refused_offset()], hazard_, 0);
            if (!done) ++refused_;
            return done || done.status == outcome::full ? "" : "a publish failed";
        }
        if (verifies_ && operation == 1) {
            layout::findings found;
            verify_snapshot(body(), geometry_, found);
            return found.empty() ? "" : "verify beside a writer: " + found.list()[0].what;
        }
        if (pins_ && operation == 1 && pin_.held().status == outcome::ok && version_pinned() == 0)
            return "a pinned object was changed";
        std::uint64_t version = 0;
        return look_at_writer([&] { version = pins_ ? pinned() : read(); },
                              [&](unsigned state) { return refused_ != 0 || version == published + state; },
                              "a reader got a version that was not there at the time, or none, or a mix");
    }
    std::string judge(std::optional<unsigned> dead) override {
        if (dead != 1U && pins_ && pin_.held().status == outcome::ok && version_pinned() == 0)
            return "a pinned object was changed in the end";
        if (dead == 0U) writer_ = {body(), geometry_, "next"};
        if (dead == 1U) hazard_.alive_now = false;
        layout::findings found;
        verify_snapshot(body(), geometry_, found);
        if (!found.empty()) return "verify: " + found.list()[0].what;
        const std::uint64_t least = published + ended(0) - refused_, most = published + begun(0);
        if (writer_.version() < least || writer_.version() > most) return "the version is wrong";
        if (read() != writer_.version()) return "the last version is not read";
        if (!pins_ || dead == 1U || geometry_.slots > 2)
            for (int i = 0; i < 2; ++i)
                if (const std::uint64_t next = writer_.version() + 1;
                    !writer_.publish(whole_object(next, object_bytes), hazard_, 0) || read() != next)
                    return "the next publish failed";
        return {};
    }

 private:
    static constexpr std::size_t object_bytes = 24;
    static constexpr std::uint64_t published = 4;

    struct one_hazard {
        std::atomic<std::uint64_t>* word = nullptr;
        bool alive_now = true;
        [[nodiscard]] static std::uint32_t size() noexcept { return 1; }
        [[nodiscard]] std::atomic<std::uint64_t>& cell(std::uint32_t) const noexcept { return *word; }
        [[nodiscard]] bool alive(std::uint32_t) const noexcept { return alive_now; }
    };
    [[nodiscard]] std::span<std::byte> body() {
        return image().first(static_cast<std::size_t>(geometry_.body_bytes()));
    }
    // Made before: a process that ends for good gives back no memory.
    static const std::array<std::vector<std::byte>, 2>& objects() {
        static const std::array<std::vector<std::byte>, 2> made{whole_object(published + 1, object_bytes),
                                                                whole_object(published + 2, object_bytes)};
        return made;
    }
    [[nodiscard]] unsigned refused_offset() const noexcept { return 0U - refused_; }
    static std::uint64_t version_of(const std::byte* object) {
        for (std::uint64_t version = 1; version <= published + 4; ++version)
            if (is_whole({object, object_bytes}, version)) return version;
        return 0;
    }
    std::uint64_t read() {
        std::byte out[object_bytes];
        const auto got = reader_.read(out);
        return got.status == outcome::ok && version_of(out) == got.version ? got.version : 0;
    }
    std::uint64_t pinned() {
        const layout::snapshot_located held = pin_.pin();
        if (held.status != outcome::ok) return 0;
        const std::uint64_t version = version_pinned();
        return version == layout::snapshot_version_of(held.word) ? version : 0;
    }
    std::uint64_t version_pinned() {
        std::byte out[object_bytes];
        std::memcpy(out, body().data() + geometry_.payload_offset(layout::snapshot_slot_of(pin_.held().word)),
                    sizeof out);
        const std::uint64_t version = version_of(out);
        return version == layout::snapshot_version_of(pin_.held().word) ? version : 0;
    }

    bool pins_, verifies_;
    layout::snapshot_geometry geometry_;
    aligned_bytes bytes_;
    one_hazard hazard_;
    layout::snapshot_write_core writer_, successor_;
    layout::snapshot_read_core reader_;
    layout::snapshot_pin_core pin_;
    unsigned refused_ = 0;
};

}  // namespace holdfast::test
