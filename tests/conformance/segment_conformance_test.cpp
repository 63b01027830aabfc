// SPDX-License-Identifier: Apache-2.0
// What every kind of memory must do alike: appear whole, have one writer, serve readers, say what it is.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include "holdfast/peers.hpp"
#include "holdfast/segment.hpp"
#include "support/memory_kinds.hpp"
#include "support/process.hpp"

namespace {

using holdfast::access;
using holdfast::container_kind;
using holdfast::errc;
using holdfast::segment;
using holdfast::segment_spec;
using holdfast::test::memory_place;

segment_spec spec_of(std::uint64_t bytes, holdfast::writers policy = holdfast::writers::one) {
    segment_spec spec;
    spec.kind = container_kind::raw;
    spec.container_version = 7;
    spec.schema = "value {number:u64@0}#8";
    spec.geometry = {1, 2, 3};
    spec.body_bytes = bytes;
    spec.policy = policy;
    spec.peer_slots = 3;
    return spec;
}

void fill(std::span<std::byte> body) { std::memset(body.data(), 0x5a, body.size()); }

std::optional<errc> reason_of(const auto& action) {
    try {
        action();
    } catch (const holdfast::error& failure) {
        return failure.reason();
    }
    return std::nullopt;
}

class EveryKind : public ::testing::TestWithParam<std::string> {
 protected:
    memory_place place{GetParam()};
};
class ShareableKind : public EveryKind {};
class NamedKind : public EveryKind {};

TEST_P(EveryKind, CreateGivesTheInitialisedBodyAndItsDescription) {
    segment made = segment::create(place.uri(), spec_of(10'000), {}, fill);
    EXPECT_EQ(made.info().kind, container_kind::raw);
    EXPECT_EQ(made.info().container_version, 7U);
    EXPECT_EQ(made.info().schema, "value {number:u64@0}#8");
    EXPECT_EQ(made.info().geometry[2], 3U);
    EXPECT_EQ(made.info().body_bytes, 10'000U);
    EXPECT_EQ(made.epoch(), 1U);
    EXPECT_EQ(made.owner().pid, static_cast<std::uint64_t>(::getpid()));
    ASSERT_EQ(made.body().size(), 10'000U);
    EXPECT_EQ(made.bytes()[0], std::byte{0x5a});
    EXPECT_EQ(made.bytes()[9'999], std::byte{0x5a});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.bytes().data()) % 4096, 0U);
}

TEST_P(EveryKind, BodyIsZeroBeforeInitialisation) {
    bool zero = true;
    (void)segment::create(place.uri(), spec_of(100'000), {}, [&](std::span<std::byte> body) {
        for (const std::byte b : body) zero = zero && b == std::byte{0};
    });
    EXPECT_TRUE(zero);
}

TEST_P(EveryKind, ForkedChildMayNotStore) {
    segment made = segment::create(place.uri(), spec_of(4096), {}, fill);
    EXPECT_TRUE(made.writable());
    holdfast::test::child_process child(
        [&]() -> std::string { return made.writable() || !made.body().empty() ? "the child may store" : ""; });
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_TRUE(made.writable());
}

TEST_P(EveryKind, ImpossibleSpecificationsAreRefused) {
    segment_spec long_schema = spec_of(1);
    long_schema.schema.assign(holdfast::schema_bytes_max + 1, 'x');
    segment_spec many_slots = spec_of(1);
    many_slots.peer_slots = holdfast::peer_slots_max + 1;
    for (const segment_spec& spec : {spec_of(0), spec_of(std::uint64_t{1} << 60), long_schema, many_slots})
        EXPECT_EQ(reason_of([&] { (void)segment::create(place.uri(), spec, {}, fill); }), errc::invalid_argument);
    holdfast::create_options set_id;
    set_id.mode = 04600;
    EXPECT_EQ(reason_of([&] { (void)segment::create(place.uri(), spec_of(1), set_id, fill); }), errc::invalid_argument);
}

TEST_P(EveryKind, AnInitialiserThatThrowsLeavesNothing) {
    EXPECT_THROW((void)segment::create(place.uri(), spec_of(4096), {},
                                       [](std::span<std::byte>) { throw std::runtime_error("no"); }),
                 std::runtime_error);
    EXPECT_NO_THROW((void)segment::create(place.uri(), spec_of(4096), {}, fill));
}

TEST_P(ShareableKind, ReaderSeesTheBytesAndCannotStore) {
    segment writer = segment::create(place.uri(), spec_of(5'000), {}, fill);
    segment reader = place.attach_again(writer, access::read_only);
    EXPECT_FALSE(reader.writable());
    EXPECT_TRUE(reader.body().empty());
    EXPECT_EQ(reader.info().identity, writer.info().identity);
    EXPECT_EQ(reader.bytes()[4'999], std::byte{0x5a});
    writer.body()[4'999] = std::byte{1};
    EXPECT_EQ(reader.bytes()[4'999], std::byte{1});
}

TEST_P(ShareableKind, SecondWriterIsRefusedAndAdmittedAfterTheFirst) {
    std::optional<segment> writer(segment::create(place.uri(), spec_of(5'000), {}, fill));
    EXPECT_EQ(reason_of([&] { (void)place.attach_again(*writer, access::read_write); }), errc::writer_alive);
    EXPECT_EQ(writer->epoch(), 1U);
    if (writer->name().is_memfd()) return;  // its descriptors go with the first handle
    writer.reset();
    EXPECT_EQ(segment::attach(place.uri(), access::read_write).epoch(), 2U);
}

TEST_P(NamedKind, SecondWriterIsAdmittedAfterTheFirstIsKilled) {
    segment parent_handle = segment::create(place.uri(), spec_of(5'000), {}, fill);
    {
        segment gone = std::move(parent_handle);
    }
    holdfast::test::child_process child([&](holdfast::test::channel& talk) {
        const segment held = segment::attach(place.uri(), access::read_write);
        talk.signal();
        talk.wait();
    });
    ASSERT_TRUE(child.talk().wait());
    EXPECT_EQ(reason_of([&] { (void)segment::attach(place.uri(), access::read_write); }), errc::writer_alive);
    child.kill();
    holdfast::attach_options patient;
    patient.lease_timeout = std::chrono::seconds(2);
    EXPECT_EQ(segment::attach(place.uri(), access::read_write, patient).epoch(), 3U);
}

TEST_P(ShareableKind, ManyWritersShareTheLease) {
    segment first = segment::create(place.uri(), spec_of(5'000, holdfast::writers::many), {}, fill);
    segment second = place.attach_again(first, access::read_write);
    EXPECT_TRUE(second.writable());
    EXPECT_EQ(first.epoch(), 2U);
    if (!first.name().named()) return;
    EXPECT_EQ(reason_of([&] { segment::remove(place.uri()); }), errc::writer_alive);
}

TEST_P(NamedKind, NameIsTakenUntilRemoved) {
    std::optional<segment> writer(segment::create(place.uri(), spec_of(5'000), {}, fill));
    EXPECT_EQ(reason_of([&] { (void)segment::create(place.uri(), spec_of(1), {}, fill); }), errc::already_exists);
    EXPECT_EQ(reason_of([&] { segment::remove(place.uri()); }), errc::writer_alive);
    const segment reader = segment::attach(place.uri(), access::read_only);
    writer.reset();
    EXPECT_EQ(reason_of([&] { (void)segment::create(place.uri(), spec_of(1), {}, fill); }), errc::already_exists);
    EXPECT_FALSE(reader.replaced());
    segment::remove(place.uri());
    EXPECT_TRUE(reader.replaced());
    EXPECT_EQ(reader.bytes()[0], std::byte{0x5a}) << "a reader keeps its mapping";
    EXPECT_EQ(reason_of([&] { (void)segment::attach(place.uri(), access::read_only); }), errc::not_found);
    EXPECT_EQ(reason_of([&] { segment::remove(place.uri()); }), errc::not_found);
    EXPECT_EQ(segment::create(place.uri(), spec_of(1), {}, fill).epoch(), 1U);
    EXPECT_TRUE(reader.replaced());
}

TEST_P(NamedKind, CreationRegistersAndRemovalUnregisters) {
    {
        const segment made = segment::create(place.uri(), spec_of(1), {}, fill);
    }
    EXPECT_EQ(holdfast::registry::list(), std::vector<std::string>{place.uri()});
    segment::remove(place.uri());
    EXPECT_TRUE(holdfast::registry::list().empty());
}

TEST_P(NamedKind, TheNextWriterRegistersWhatAKilledCreatorDidNot) {
    {
        const segment made = segment::create(place.uri(), spec_of(1), {}, fill);
    }
    holdfast::registry::remove(holdfast::memory::uri::parse(place.uri()));
    ASSERT_TRUE(holdfast::registry::list().empty());
    {
        const segment reader = segment::attach(place.uri(), access::read_only);
    }
    EXPECT_TRUE(holdfast::registry::list().empty());
    {
        const segment writer = segment::attach(place.uri(), access::read_write);
    }
    EXPECT_EQ(holdfast::registry::list(), std::vector<std::string>{place.uri()});
}

TEST_P(NamedKind, LeaseStateFollowsTheHolder) {
    const auto name = holdfast::memory::uri::parse(place.uri());
    EXPECT_EQ(holdfast::lease_state_of(name), holdfast::lease_state::none);
    {
        const segment made = segment::create(place.uri(), spec_of(1), {}, fill);
        EXPECT_EQ(holdfast::lease_state_of(name), holdfast::lease_state::held);
    }
    EXPECT_EQ(holdfast::lease_state_of(name), holdfast::lease_state::free);
}

TEST_P(ShareableKind, PeerSlotsBelongToTheLiving) {
    const segment made = segment::create(place.uri(), spec_of(1), {}, fill);
    holdfast::peers observer = holdfast::peers::open(made);
    EXPECT_EQ(observer.size(), 3U);
    {
        holdfast::peers reader = holdfast::peers::open(made);
        ASSERT_EQ(reader.claim(), std::optional<std::uint32_t>(0));
        ASSERT_EQ(reader.claim(), std::optional<std::uint32_t>(1));
        EXPECT_TRUE(observer.alive(0));
        EXPECT_FALSE(observer.alive(2));
        EXPECT_FALSE(observer.alive(3)) << "no such slot";
        ASSERT_EQ(observer.claim(), std::optional<std::uint32_t>(2));
        EXPECT_EQ(reader.claim(), std::nullopt);
        reader.release(1);
        EXPECT_FALSE(observer.alive(1));
    }
    EXPECT_FALSE(observer.alive(0));
}

TEST_P(ShareableKind, PeerSlotOfAKilledProcessIsFree) {
    const segment made = segment::create(place.uri(), spec_of(1), {}, fill);
    holdfast::peers observer = holdfast::peers::open(made);
    holdfast::test::child_process child([&](holdfast::test::channel& talk) {
        holdfast::peers reader = holdfast::peers::open(made);
        talk.send(reader.claim().value_or(99));
        talk.wait();
    });
    ASSERT_EQ(child.talk().receive<std::uint32_t>(), std::optional<std::uint32_t>(0));
    EXPECT_TRUE(observer.alive(0));
    child.kill();
    // The lock goes when the kernel closes the child's files, which the wait for its end has awaited.
    EXPECT_FALSE(observer.alive(0));
}

INSTANTIATE_TEST_SUITE_P(Memory, EveryKind, ::testing::ValuesIn(holdfast::test::every_kind),
                         holdfast::test::kind_case_name);
INSTANTIATE_TEST_SUITE_P(Memory, NamedKind, ::testing::ValuesIn(holdfast::test::named_kinds),
                         holdfast::test::kind_case_name);
INSTANTIATE_TEST_SUITE_P(Memory, ShareableKind, ::testing::ValuesIn(holdfast::test::shareable_kinds),
                         holdfast::test::kind_case_name);

}  // namespace
