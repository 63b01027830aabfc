// SPDX-License-Identifier: Apache-2.0
// snapshot_interleaving.hpp - two publishes of a snapshot beside a read and a visit, two pins, or a pin that is given
// up (schedule_rig.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/layout/snapshot_verify.hpp"
#include "hooks/interleaving.hpp"
#include "support/hash_table_image.hpp"
#include "support/snapshot_bench.hpp"

namespace holdfast::test {

class snapshot_interleaving final : public interleaving {
 public:
    /// Which objects: those that also lie beside `current`, or those that are in their slots alone.
    enum sizes : std::size_t { small = 24, slots_alone = 48 };

    /// What the reader does first, and then.
    enum class looks : std::uint8_t { read_and_visit, pin_and_pin, pin_and_release, read_and_verify };

    explicit snapshot_interleaving(std::uint64_t slots, looks how, sizes of = slots_alone)
        : object_bytes_(of),
          looks_(how),
          geometry_(layout::snapshot_geometry::make(slots, object_bytes_, 0, "bench")),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes()) + 64) {
        attach();
        for (std::uint64_t version = 1; version <= published; ++version)
            (void)writer_.publish(whole_object(version, object_bytes_), hazard_, 0);
        for (std::uint64_t i = 0; i < objects_.size(); ++i)
            objects_[i] = whole_object(published + 1 + i, object_bytes_);
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
        const publish_result done = successor_.publish(objects_[begun(0) - 1 + refused_offset()], hazard_, 0);
        if (!done) ++refused_;
        return done || done.status == outcome::full ? "" : "the successor's publish failed";
    }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) {
            const publish_result done = writer_.publish(objects_[operation + refused_offset()], hazard_, 0);
            if (!done) ++refused_;
            return done || done.status == outcome::full ? "" : "a publish failed";
        }
        if (looks_ == looks::read_and_verify && operation == 1) {
            layout::findings found;
            verify_snapshot(body(), geometry_, found);
            return found.empty() ? "" : "verify beside a writer: " + found.list()[0].what;
        }
        if (operation == 1 && pin_.held().status == outcome::ok && version_pinned() == 0)
            return "a pinned object was changed";
        if (looks_ == looks::pin_and_release && operation == 1) {
            pin_.release();
            return {};
        }
        std::uint64_t version = 0;
        return look_at_writer([&] { version = pins()           ? pinned()
                                              : operation == 0 ? read()
                                                               : visit(); },
                              [&](unsigned state) { return refused_ != 0 || version == published + state; },
                              "a reader got a version that was not there at the time, or none, or a mix");
    }
    std::string judge(std::optional<unsigned> dead) override {
        if (dead != 1U && pin_.held().status == outcome::ok && version_pinned() == 0)
            return "a pinned object was changed in the end";
        if (dead == 0U) writer_ = {body(), geometry_, "next"};
        if (dead == 1U) hazard_.alive_now = false;
        layout::findings found;
        verify_snapshot(body(), geometry_, found);
        if (!found.empty()) return "verify: " + found.list()[0].what;
        const std::uint64_t least = published + ended(0) - refused_, most = published + begun(0);
        if (writer_.version() < least || writer_.version() > most) return "the version is wrong";
        if (read() != writer_.version()) return "the last version is not read";
        if (pin_.held().status != outcome::ok || dead == 1U || geometry_.slots > 2)
            for (int i = 0; i < 2; ++i)
                if (const std::uint64_t next = writer_.version() + 1;
                    !writer_.publish(whole_object(next, object_bytes_), hazard_, 0) || read() != next)
                    return "the next publish failed";
        return {};
    }

 private:
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
    [[nodiscard]] bool pins() const noexcept {
        return looks_ == looks::pin_and_pin || looks_ == looks::pin_and_release;
    }
    [[nodiscard]] unsigned refused_offset() const noexcept { return 0U - refused_; }
    [[nodiscard]] std::uint64_t version_of(const std::byte* object) const {
        for (std::uint64_t version = 1; version <= published + 4; ++version)
            if (is_whole({object, object_bytes_}, version)) return version;
        return 0;
    }
    std::uint64_t read() {
        std::byte out[slots_alone];
        const auto got = reader_.read(std::span(out).first(object_bytes_));
        return got.status == outcome::ok && version_of(out) == got.version ? got.version : 0;
    }
    std::uint64_t visit() {
        std::byte out[slots_alone];
        const auto got = reader_.visit([&](std::span<const std::byte> object, std::uint64_t) {
            detail::copy_from_shared(out, object.data(), std::min(object.size(), object_bytes_));
        });
        return got.status == outcome::ok && version_of(out) == got.version ? got.version : 0;
    }
    std::uint64_t pinned() {
        const layout::snapshot_located held = pin_.pin();
        if (held.status != outcome::ok) return 0;
        const std::uint64_t version = version_pinned();
        return version == layout::snapshot_version_of(held.word) ? version : 0;
    }
    std::uint64_t version_pinned() {
        std::byte out[slots_alone];
        std::memcpy(out, body().data() + geometry_.payload_offset(layout::snapshot_slot_of(pin_.held().word)),
                    object_bytes_);
        const std::uint64_t version = version_of(out);
        return version == layout::snapshot_version_of(pin_.held().word) ? version : 0;
    }

    const std::size_t object_bytes_;
    looks looks_;
    layout::snapshot_geometry geometry_;
    // Made before: a process that ends for good gives back no memory.
    std::array<std::vector<std::byte>, 2> objects_;
    aligned_bytes bytes_;
    one_hazard hazard_;
    layout::snapshot_write_core writer_, successor_;
    layout::snapshot_read_core reader_;
    layout::snapshot_pin_core pin_;
    unsigned refused_ = 0;
};

}  // namespace holdfast::test
