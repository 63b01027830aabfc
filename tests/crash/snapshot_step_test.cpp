// SPDX-License-Identifier: Apache-2.0
// A death at any instruction of publish, prepare + commit, recovery and pin: the image after each single instruction
// shows the version before or the version after, whole, and the next publish works. (The compiled code's own stores, in
// its own order; layout/snapshot_write.hpp tells what each leaves.)
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "holdfast/layout/snapshot_verify.hpp"
#include "holdfast/sorted_index.hpp"
#include "support/capability.hpp"
#include "support/single_step.hpp"
#include "support/snapshot_bench.hpp"

namespace {

using holdfast::outcome;
using holdfast::layout::findings;
using holdfast::layout::no_hazards;
using holdfast::layout::snapshot_pin_core;
using holdfast::layout::snapshot_read_core;
using holdfast::layout::snapshot_write_core;
using holdfast::test::hazard_bench;
using holdfast::test::is_whole;
using holdfast::test::shared_image;
using holdfast::test::single_step;
using holdfast::test::snapshot_bench;
using holdfast::test::step_report;
using holdfast::test::tell_more;
using holdfast::test::whole_object;

constexpr std::size_t object_bytes = 136;

// Object of version v, all derived from v: one that is in its slot alone, then two that also lie beside `current`.
std::vector<std::byte> object_of(std::uint64_t version) {
    return whole_object(version, version % 3 == 1 ? 100 + version % 36 : 1 + 7 * version % 40);
}

std::string sound(std::span<const std::byte> image, const snapshot_bench& bench) {
    findings found;
    verify_snapshot(image, bench.geometry(), found);
    return found.empty() ? "" : "verify: " + found.list()[0].what;
}

// "" when the image shows version `before` or `after`, whole, alike to all readers; `seen` says which.
std::string shows(std::span<const std::byte> image, const snapshot_bench& bench, std::uint64_t before,
                  std::uint64_t after, std::uint64_t& seen) {
    std::vector<std::byte> out(object_bytes), in_slot(object_bytes);
    const snapshot_read_core reader(image, bench.geometry());
    const auto got = reader.read(out), slot = reader.read_slot(in_slot);
    seen = got.version;
    if (slot.status != got.status || slot.version != got.version || in_slot != out)
        return "the copy beside current is another object";
    if (before == 0 && got.status == outcome::empty) return {};
    if (got.status != outcome::ok) return "a reader gets no object";
    if (got.version != before && got.version != after) return "a reader gets version " + std::to_string(got.version);
    out.resize(static_cast<std::size_t>(got.bytes));
    return out == object_of(got.version) ? "" : "a reader gets a mixed object";
}

// A successor takes over and publishes twice more, through every check.
std::string continues(std::span<std::byte> image, const snapshot_bench& bench, std::uint64_t from) {
    no_hazards nobody;
    snapshot_write_core writer(image, bench.geometry(), "successor");
    if (writer.version() != from) return "recovery found version " + std::to_string(writer.version());
    if (std::string fault = sound(image, bench); !fault.empty()) return "after recovery, " + fault;
    for (std::uint64_t next = from + 1; next <= from + 2; ++next) {
        if (writer.publish(object_of(next), nobody, 0).version != next) return "the next publish failed";
        std::uint64_t seen = 0;
        if (std::string fault = shows(image, bench, next, next, seen); !fault.empty()) return "next: " + fault;
    }
    return sound(image, bench);
}

std::string before_or_after(std::span<std::byte> image, const snapshot_bench& bench, std::uint64_t before) {
    std::uint64_t seen = 0;
    if (std::string fault = sound(image, bench); !fault.empty()) return fault;
    if (std::string fault = shows(image, bench, before, before + 1, seen); !fault.empty()) return fault;
    return continues(image, bench, seen);
}

class SnapshotStep : public ::testing::Test {
 protected:
    void SetUp() override {
        if (!holdfast::test::can_trace() || holdfast::test::sanitized)
            GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    }
    static void report(const step_report& r) {
        EXPECT_TRUE(r.passed()) << r.failure;
        EXPECT_GT(r.images, 5U) << "the stores of a publish were not seen";
        tell_more("steps", r.steps);
        tell_more("images", r.images);
    }
};

TEST_F(SnapshotStep, PublishInEveryStateOfTheSlots) {
    step_report total;
    for (const std::uint64_t slots : {2U, 3U, 5U})
        for (std::uint64_t published = 0; published <= slots + 1; ++published) {
            snapshot_bench bench(slots, object_bytes);
            auto writer = bench.writer();
            no_hazards nobody;
            for (std::uint64_t v = 1; v <= published; ++v) ASSERT_TRUE(writer.publish(object_of(v), nobody, v));
            const auto object = object_of(published + 1);
            total += single_step(
                bench.image(), [&] { (void)writer.publish(object, nobody, 99); },
                [&](std::span<std::byte> image) { return before_or_after(image, bench, published); });
            ASSERT_TRUE(total.passed()) << slots << " slots, " << published << " published: " << total.failure;
        }
    report(total);
}

// One size after another of those that lie beside `current`, up to the first that does not.
TEST_F(SnapshotStep, PublishOfEverySmallSize) {
    step_report total;
    std::uint64_t in_front = 0;
    for (std::size_t bytes = 0; bytes <= 41; bytes += bytes < 8 || bytes > 37 ? 1 : 5) {
        snapshot_bench bench(2, object_bytes);
        auto writer = bench.writer();
        no_hazards nobody;
        ASSERT_TRUE(writer.publish(whole_object(1, 17), nobody, 1));
        const auto object = whole_object(2, bytes);
        total += single_step(
            bench.image(), [&] { (void)writer.publish(object, nobody, 99); },
            [&](std::span<std::byte> image) -> std::string {
                if (std::string fault = sound(image, bench); !fault.empty()) return fault;
                const snapshot_read_core reader(image, bench.geometry());
                std::vector<std::byte> out(object_bytes);
                const auto got = reader.read(out);
                out.resize(static_cast<std::size_t>(got.bytes));
                if (!got || out != (got.version == 1 ? whole_object(1, 17) : object))
                    return "a reader gets a mixed object";
                in_front += got.version == 2 && reader.control().front.word.load() == reader.current();
                // A successor brings it there.
                (void)snapshot_write_core(image, bench.geometry(), "successor");
                if (got.bytes <= holdfast::layout::snapshot_front_bytes &&
                    reader.control().front.word.load() != reader.current())
                    return "the successor did not fill the front";
                return sound(image, bench);
            });
        ASSERT_TRUE(total.passed()) << bytes << " bytes: " << total.failure;
    }
    EXPECT_GT(in_front, 0U);
    report(total);
}

TEST_F(SnapshotStep, PrepareFillCommitAfterADiscardedPrepare) {
    snapshot_bench bench(3, object_bytes);
    auto writer = bench.writer();
    no_hazards nobody;
    for (std::uint64_t v = 1; v <= 4; ++v) ASSERT_TRUE(writer.publish(object_of(v), nobody, v));
    const auto object = object_of(5);
    report(single_step(
        bench.image(),
        [&] {
            auto room = writer.prepare(object_bytes, nobody);
            std::memset(room.bytes.data(), 0x77, room.bytes.size());
            writer.discard();
            room = writer.prepare(object_bytes, nobody);
            std::memcpy(room.bytes.data(), object.data(), object.size());  // the user's own plain stores
            (void)writer.commit(object.size(), 99);
        },
        [&](std::span<std::byte> image) { return before_or_after(image, bench, 4); }));
}

// Death during recovery from a death: every image of a publish is recovered under the stepper, and every image of that
// recovery is recovered again.
TEST_F(SnapshotStep, RecoveryFromEveryStateIsItselfRecoverable) {
    snapshot_bench bench(3, object_bytes);
    std::vector<std::vector<std::byte>> states;
    {
        auto writer = bench.writer();
        no_hazards nobody;
        for (std::uint64_t v = 1; v <= 4; ++v) ASSERT_TRUE(writer.publish(object_of(v), nobody, v));
        const auto object = object_of(5);
        report(single_step(
            bench.image(), [&] { (void)writer.publish(object, nobody, 99); },
            [&](std::span<std::byte> image) -> std::string {
                states.emplace_back(image.begin(), image.end());
                return {};
            }));
    }
    std::uint64_t changed = 0;
    for (const auto& state : states) {
        bench.image().assign(state);
        const step_report r = single_step(
            bench.image(), [&] { (void)bench.writer(); },
            [&](std::span<std::byte> image) { return before_or_after(image, bench, 4); });
        ASSERT_TRUE(r.passed()) << r.failure;
        changed += r.images > 1;
    }
    EXPECT_GT(changed, 0U) << "no state needed recovery: the state between the last two stores is missing";
}

// The image is the hazard word; after each instruction of a pin (and of moving and dropping it) a writer must be able
// to go on, both while the reader lives and after its death, and never write what a living reader holds.
TEST_F(SnapshotStep, PinMoveAndRelease) {
    snapshot_bench bench(3, object_bytes);
    shared_image table(4096);
    auto& cell = *new (table.bytes().data()) std::atomic<std::uint64_t>(0);
    hazard_bench hazards(1);
    auto writer = bench.writer();
    for (std::uint64_t v = 1; v <= 4; ++v) ASSERT_TRUE(writer.publish(object_of(v), hazards, v));
    std::vector<std::byte> body(bench.body().begin(), bench.body().end());
    const step_report r = single_step(
        table,
        [&] {
            snapshot_pin_core pin(bench.reader(), cell);
            (void)pin.pin();
            pin.release();
            (void)pin.pin();
        },
        [&](std::span<std::byte> image) -> std::string {
            const auto word = reinterpret_cast<std::atomic<std::uint64_t>*>(image.data())->load();
            for (const bool lives : {true, false}) {
                shared_image copy(body.size());
                copy.assign(body);
                hazard_bench seen(1);
                seen.cell(0).store(word);
                if (!lives) seen.bury(0);
                snapshot_write_core next(copy.bytes(), bench.geometry(), "writer");
                for (std::uint64_t v = 5; v <= 9; ++v)
                    if (next.publish(object_of(v), seen, 0).version != v) return "publish " + std::to_string(v);
                const snapshot_read_core reader(copy.bytes(), bench.geometry());
                const auto held = object_of(4);
                if (lives && word != 0 && std::memcmp(reader.payload(word), held.data(), held.size()) != 0)
                    return "the writer took a slot that a living reader holds";
            }
            return {};
        });
    EXPECT_TRUE(r.passed()) << r.failure;
    EXPECT_GE(r.images, 4U);
}

// Hazard words behind the body, so that a death shows in both.
struct placed_hazards {
    std::span<std::byte> at;
    std::array<bool, 2> lives;

    [[nodiscard]] static std::uint32_t size() noexcept { return 2; }
    [[nodiscard]] std::atomic<std::uint64_t>& cell(std::uint32_t i) const noexcept {
        return reinterpret_cast<std::atomic<std::uint64_t>*>(at.data())[i];
    }
    [[nodiscard]] bool alive(std::uint32_t i) const noexcept { return lives[i]; }
};

// Versions 1 and 2 with a reader on each, and what must hold wherever a publish of version 3 ends.
struct pinned_bench {
    pinned_bench(std::uint64_t slots, std::array<bool, 2> lives)
        : geometry(holdfast::layout::snapshot_geometry::make(slots, object_bytes, 0, "bench")),
          image(static_cast<std::size_t>(geometry.body_bytes()) + 64),
          living(lives),
          writer(body(image.bytes()), geometry, "bench") {
        placed_hazards hazards = hazards_in(image.bytes());
        for (std::uint32_t i = 0; i < 2; ++i) {
            (void)writer.publish(object_of(i + 1), hazards, i);
            (void)snapshot_pin_core({body(image.bytes()), geometry}, hazards.cell(i)).pin();
            pins[i] = hazards.cell(i).load();
        }
        before.assign(image.bytes().begin(), image.bytes().end());
    }

    [[nodiscard]] std::span<std::byte> body(std::span<std::byte> of) const {
        return of.first(static_cast<std::size_t>(geometry.body_bytes()));
    }
    [[nodiscard]] placed_hazards hazards_in(std::span<std::byte> of) const { return {of.last(64), living}; }
    // Whether the writer has a slot for the next version: any that is neither current nor a living reader's.
    [[nodiscard]] bool has_room(std::uint64_t current) const {
        std::uint32_t taken = 1;
        for (std::uint32_t i = 0; i < 2; ++i) taken += living[i] && i + 1 != current;
        return taken < geometry.slots;
    }

    std::string check(std::span<std::byte> of) const {
        const snapshot_read_core reader(body(of), geometry);
        findings found;
        verify_snapshot(body(of), geometry, found);
        if (!found.empty()) return "verify: " + found.list()[0].what;
        std::vector<std::byte> out(object_bytes);
        const auto got = reader.read(out);
        out.resize(static_cast<std::size_t>(got.bytes));
        const std::uint64_t last = has_room(2) ? 3 : 2;
        if (!got || got.version < 2 || got.version > last)
            return "a reader gets version " + std::to_string(got.version);
        if (out != object_of(got.version)) return "a reader gets a mixed object";
        for (std::uint32_t i = 0; i < 2; ++i) {
            if (!living[i]) continue;
            if (hazards_in(of).cell(i).load() != pins[i]) return "the hazard of a living reader was changed";
            const auto held = object_of(i + 1);
            if (std::memcmp(reader.payload(pins[i]), held.data(), held.size()) != 0)
                return "the writer took a slot that a living reader holds";
        }
        return {};
    }
    // As above, then a successor that publishes twice, or is refused where the living leave it no slot.
    std::string check_and_go_on(std::span<std::byte> of) const {
        if (std::string fault = check(of); !fault.empty()) return fault;
        placed_hazards hazards = hazards_in(of);
        snapshot_write_core next(body(of), geometry, "successor");
        for (int i = 0; i < 2; ++i) {
            const std::uint64_t current = next.version();
            const auto done = next.publish(object_of(current + 1), hazards, 0);
            if (done.status != (has_room(current) ? outcome::ok : outcome::full)) return "the next publish";
            if (done && done.version != current + 1) return "the next version";
            for (std::uint32_t r = 0; r < 2; ++r) {
                const auto held = object_of(r + 1);
                const snapshot_read_core reader(body(of), geometry);
                if (living[r] && std::memcmp(reader.payload(pins[r]), held.data(), held.size()) != 0)
                    return "the successor took a slot that a living reader holds";
            }
        }
        return {};
    }

    holdfast::layout::snapshot_geometry geometry;
    shared_image image;
    std::array<bool, 2> living;
    snapshot_write_core writer;
    std::array<std::uint64_t, 2> pins{};
    std::vector<std::byte> before;
};

// With a slot to spare, with none, and with the slot of a reader that has died: its hazard is taken back on the way.
TEST_F(SnapshotStep, PublishBesidePinnedReaders) {
    step_report total;
    unsigned reclaimed = 0;
    for (const std::uint64_t slots : {2U, 3U, 4U})
        for (const std::array<bool, 2> lives : {std::array{true, true}, {false, true}, {true, false}, {false, false}}) {
            pinned_bench bench(slots, lives);
            if (!bench.has_room(2)) continue;  // the next test
            const auto object = object_of(3);
            placed_hazards hazards = bench.hazards_in(bench.image.bytes());
            total += single_step(
                bench.image, [&] { (void)bench.writer.publish(object, hazards, 99); },
                [&](std::span<std::byte> image) {
                    reclaimed += bench.hazards_in(image).cell(0).load() == 0;
                    return bench.check_and_go_on(image);
                });
            ASSERT_TRUE(total.passed()) << slots << " slots, readers live " << lives[0] << lives[1] << ": "
                                        << total.failure;
        }
    EXPECT_GT(reclaimed, 0U) << "no publish needed the slot of a dead reader";
    report(total);
}

// Each image that such a publish leaves is recovered under the stepper, and each image of that again.
TEST_F(SnapshotStep, RecoveryBesidePinnedReaders) {
    step_report total;
    std::uint64_t changed = 0;
    for (const std::uint64_t slots : {2U, 3U, 4U})
        for (const std::array<bool, 2> lives : {std::array{true, true}, {false, true}, {true, false}, {false, false}}) {
            pinned_bench bench(slots, lives);
            if (!bench.has_room(2)) continue;
            std::vector<std::vector<std::byte>> states;
            placed_hazards hazards = bench.hazards_in(bench.image.bytes());
            const auto object = object_of(3);
            total += single_step(
                bench.image, [&] { (void)bench.writer.publish(object, hazards, 99); },
                [&](std::span<std::byte> image) -> std::string {
                    states.emplace_back(image.begin(), image.end());
                    return {};
                });
            for (const auto& state : states) {
                bench.image.assign(state);
                const step_report recovery = single_step(
                    bench.image,
                    [&] { (void)snapshot_write_core(bench.body(bench.image.bytes()), bench.geometry, "successor"); },
                    [&](std::span<std::byte> image) { return bench.check_and_go_on(image); });
                ASSERT_TRUE(recovery.passed())
                    << slots << " slots, readers live " << lives[0] << lives[1] << ": " << recovery.failure;
                changed += recovery.images - 1;
                total += recovery;
            }
        }
    EXPECT_GT(changed, 0U) << "no recovery had anything to do";
    report(total);
}

TEST_F(SnapshotStep, ARefusedPublishChangesNothingButItsCount) {
    for (const bool other : {true, false}) {
        pinned_bench bench(2, {true, other});
        ASSERT_FALSE(bench.has_room(2));
        const auto object = object_of(3);
        placed_hazards hazards = bench.hazards_in(bench.image.bytes());
        const step_report r = single_step(
            bench.image, [&] { (void)bench.writer.publish(object, hazards, 99); },
            [&](std::span<std::byte> image) -> std::string {
                const auto& control = *reinterpret_cast<const holdfast::layout::snapshot_control*>(image.data());
                if (control.refused.load() > 1) return "refused is " + std::to_string(control.refused.load());
                std::vector<std::byte> rest(image.begin(), image.end());
                std::memcpy(rest.data() + offsetof(holdfast::layout::snapshot_control, refused),
                            bench.before.data() + offsetof(holdfast::layout::snapshot_control, refused), 8);
                if (rest != bench.before) return "a refused publish changed something";
                return bench.check_and_go_on(image);
            });
        EXPECT_TRUE(r.passed()) << r.failure;
        EXPECT_EQ(r.images, 2U) << "before and after its one store";
    }
}

struct country_range {
    holdfast::ipv4 high;
    char country[2];
};
using geo = holdfast::sorted_index<holdfast::ipv4, country_range, &country_range::high>;

// An index laid straight into a slot: every image shows the former index or the new one, both in perfect order.
TEST_F(SnapshotStep, PublishingASortedIndexInPlace) {
    const auto filled = [](std::uint32_t step) {
        geo::builder records;
        for (std::uint32_t i = 6; i-- > 0;) records.add({i * step}, {{i * step + step / 2}, {'A', 'B'}});
        records.finish();
        return records;
    };
    geo::builder first = filled(10), second = filled(1000);
    snapshot_bench bench(2, geo::builder::image_bytes_of(6), holdfast::sorted_index_payload_format);
    auto writer = bench.writer();
    no_hazards nobody;
    const auto put = [&](geo::builder& records) {
        const auto room = writer.prepare(records.image_bytes(), nobody);
        records.write(room.bytes);
        (void)writer.commit(room.bytes.size(), 0);
    };
    put(first);
    put(first);
    std::uint64_t before = 0, after = 0;
    report(single_step(
        bench.image(), [&] { put(second); },
        [&](std::span<std::byte> image) -> std::string {
            std::string fault = sound(image, bench);
            const snapshot_read_core reader(image, bench.geometry());
            const auto got = reader.visit([&](std::span<const std::byte> object, std::uint64_t version) {
                findings found;
                holdfast::layout::verify_sorted_index(object, nullptr, found);
                if (!found.empty()) fault = found.list()[0].what;
                const auto view = geo::view::over(object);
                const bool is_new = view.find_covering({2100}) != view.end();
                if (view.size() != 6 || is_new != (version == 3)) fault = "another index than published";
                ++(version == 3 ? after : before);
            });
            return got ? fault : "no index";
        }));
    EXPECT_GT(before, 0U);
    EXPECT_GT(after, 0U);
}

// ---- the rig's own teeth: writers that do it in a wrong order, each found.

enum class part { empty, payload, header, version, current, front_empty, front, front_word };

/// Steps a publish of version 5, small enough for the front, whose parts are stored in the order given.
std::string failure_of_publish(const std::vector<part>& order) {
    using holdfast::layout::snapshot_control;
    using holdfast::layout::snapshot_geometry;
    using holdfast::layout::snapshot_slot;
    snapshot_bench bench(3, object_bytes);
    auto writer = bench.writer();
    no_hazards nobody;
    for (std::uint64_t v = 1; v <= 4; ++v) (void)writer.publish(object_of(v), nobody, v);
    const auto object = object_of(5);
    std::byte* const body = bench.body().data();
    auto& control = *reinterpret_cast<snapshot_control*>(body);
    const auto slot_at = [&](std::uint32_t i) -> snapshot_slot& {
        return *reinterpret_cast<snapshot_slot*>(body + snapshot_geometry::header_offset(i));
    };
    std::uint32_t oldest = 0;
    for (std::uint32_t i = 1; i < 3; ++i)
        if (slot_at(i).version < slot_at(oldest).version) oldest = i;
    snapshot_slot& slot = slot_at(oldest);
    const std::uint64_t word = holdfast::layout::snapshot_word(5, oldest);
    const auto store = [](std::atomic<std::uint64_t>& at, std::uint64_t value) {
        at.store(value, std::memory_order_release);
    };
    return single_step(
               bench.image(),
               [&] {
                   for (const part next : order) {
                       std::atomic_signal_fence(std::memory_order_seq_cst);
                       if (next == part::empty) store(slot.version, 0);
                       if (next == part::payload)
                           std::memcpy(body + bench.geometry().payload_offset(oldest), object.data(), object.size());
                       if (next == part::header) {
                           store(slot.bytes, object.size());
                           store(slot.checksum, holdfast::detail::checksum(object));
                       }
                       if (next == part::version) store(slot.version, 5);
                       if (next == part::current) store(control.current, word);
                       if (next == part::front_empty) store(control.front.word, 0);
                       if (next == part::front) {
                           store(control.front.bytes, object.size());
                           std::memcpy(control.front.data, object.data(), object.size());
                       }
                       if (next == part::front_word) store(control.front.word, word);
                   }
               },
               [&](std::span<std::byte> image) { return before_or_after(image, bench, 4); })
        .failure;
}

class SnapshotStepTeeth : public SnapshotStep {};

TEST_F(SnapshotStepTeeth, APublishInTheRightOrderIsFoundSound) {
    EXPECT_EQ(failure_of_publish({part::empty, part::payload, part::header, part::version, part::current,
                                  part::front_empty, part::front, part::front_word}),
              "");
}

TEST_F(SnapshotStepTeeth, CurrentBeforeTheVersionIsFound) {
    const std::string failure = failure_of_publish({part::empty, part::payload, part::header, part::current,
                                                    part::version, part::front_empty, part::front, part::front_word});
    EXPECT_NE(failure.find("names no whole object"), std::string::npos) << failure;
}

TEST_F(SnapshotStepTeeth, AVersionBeforeItsPayloadIsFound) {
    const std::string failure = failure_of_publish({part::empty, part::header, part::version, part::payload,
                                                    part::current, part::front_empty, part::front, part::front_word});
    EXPECT_NE(failure.find("payload or its checksum"), std::string::npos) << failure;
}

TEST_F(SnapshotStepTeeth, ASlotThatIsFilledWithoutBeingEmptiedIsFound) {
    const std::string failure = failure_of_publish(
        {part::payload, part::header, part::version, part::current, part::front_empty, part::front, part::front_word});
    EXPECT_NE(failure.find("payload or its checksum"), std::string::npos) << failure;
}

TEST_F(SnapshotStepTeeth, AFrontThatIsFilledBehindItsWordIsFound) {
    const std::string failure = failure_of_publish(
        {part::empty, part::payload, part::header, part::version, part::current, part::front_word, part::front});
    EXPECT_NE(failure.find("beside current"), std::string::npos) << failure;
}

TEST_F(SnapshotStepTeeth, AWriterThatForgetsTheReadersIsFound) {
    pinned_bench bench(2, {true, true});
    const auto object = object_of(3);
    no_hazards nobody;
    const step_report r = single_step(
        bench.image, [&] { (void)bench.writer.publish(object, nobody, 99); },
        [&](std::span<std::byte> image) { return bench.check_and_go_on(image); });
    EXPECT_NE(r.failure.find("the next publish"), std::string::npos) << r.failure;
}

}  // namespace
