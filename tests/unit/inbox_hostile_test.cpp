// SPDX-License-Identifier: Apache-2.0
// Commands and answers that a peer scribbled: whatever the bytes, nothing is read outside them, an owner goes on, and a
// client believes nothing that is no answer to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "holdfast/inbox.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace std::chrono_literals;
using holdfast::hash_table;
using holdfast::inbox_answer;
using holdfast::inbox_client;
using holdfast::inbox_command;
using holdfast::inbox_condition;
using holdfast::inbox_id;
using holdfast::inbox_operation;
using holdfast::inbox_verdict;
using holdfast::outcome;
using holdfast::table_inbox;
using holdfast::detail::decode_answer;
using holdfast::detail::decode_command;
using holdfast::detail::encode_answer;
using holdfast::detail::encode_command;
using holdfast::test::scaled;
using holdfast::test::seeded_random;
using holdfast::test::unique_posix_name;

constexpr std::uint64_t never = ~std::uint64_t{0};

std::span<const std::byte> view_of(const std::uint64_t& word) { return std::as_bytes(std::span(&word, 1)); }

std::vector<std::byte> encoded(const inbox_command& what, std::uint64_t deadline_ns = never) {
    std::vector<std::byte> room(1000);
    room.resize(encode_command(room, {7, 8}, deadline_ns, what));
    return room;
}
inbox_command put(const std::uint64_t& key, const std::uint64_t& value) {
    inbox_command what;
    what.key = view_of(key), what.value = view_of(value);
    return what;
}

/// Whether what was decoded lies within the message and adds up to it.
bool is_bounded(const holdfast::detail::received_command& got, std::span<const std::byte> message) {
    if (!got.what) return true;
    const auto inside = [&](std::span<const std::byte> part) {
        return part.data() >= message.data() && part.data() + part.size() <= message.data() + message.size();
    };
    return got.id && got.what->tag_count <= inbox_command::tags_max && inside(got.what->key) &&
           inside(got.what->value) &&
           56 + 8 * got.what->tag_count + got.what->key.size() + got.what->value.size() == message.size();
}

TEST(InboxMessages, ACommandComesBackAsItWasSent) {
    const std::uint64_t key = 1, value = 2;
    inbox_command what = put(key, value);
    what.operation = inbox_operation::increment;
    what.condition = inbox_condition::tags;
    what.tag_count = 16;
    for (std::uint32_t i = 0; i < 16; ++i) what.tags[i] = 100 + i;
    what.field_offset = 4, what.counted = holdfast::field_type::i16, what.by = -3;
    const auto message = encoded(what, 99);
    ASSERT_EQ(message.size(), 56U + 16 * 8 + 16);
    const auto got = decode_command(message);
    ASSERT_TRUE(got.what);
    EXPECT_EQ(*got.id, (inbox_id{7, 8}));
    EXPECT_EQ(got.deadline_ns, 99U);
    EXPECT_EQ(got.what->operation, what.operation);
    EXPECT_EQ(got.what->condition, what.condition);
    EXPECT_EQ(got.what->tags, what.tags);
    EXPECT_EQ(got.what->field_offset, 4U);
    EXPECT_EQ(got.what->counted, what.counted);
    EXPECT_EQ(got.what->by, -3);
    EXPECT_TRUE(std::ranges::equal(got.what->key, what.key) && std::ranges::equal(got.what->value, what.value));
    EXPECT_TRUE(what.names(115) && !what.names(99));
}

TEST(InboxMessages, WhatIsTooLongIsNotEncoded) {
    const std::uint64_t key = 1, value = 2;
    inbox_command what = put(key, value);
    std::vector<std::byte> room(56 + 15);
    EXPECT_EQ(encode_command(room, {}, 0, what), 0U);
    room.resize(56 + 16);
    EXPECT_EQ(encode_command(room, {}, 0, what), 72U);
    room.resize(1000);
    what.tag_count = 17;
    EXPECT_EQ(encode_command(room, {}, 0, what), 0U);
}

TEST(InboxMessages, NoByteLeadsOutsideACommand) {
    const std::uint64_t key = 1, value = 2;
    inbox_command what = put(key, value);
    what.tag_count = 2;
    const auto sound = encoded(what);
    for (std::size_t size = 0; size < sound.size(); ++size) {
        const auto got = decode_command(std::span(sound).first(size));
        EXPECT_FALSE(got.what) << size;
        EXPECT_EQ(got.id.has_value(), size >= 56) << size;
    }
    for (std::size_t at = 0; at < sound.size(); ++at)
        for (unsigned byte = 0; byte < 256; ++byte) {
            auto bent = sound;
            bent[at] = std::byte(byte);
            EXPECT_TRUE(is_bounded(decode_command(bent), bent)) << at << " " << byte;
        }
    seeded_random random;
    for (std::uint64_t round = 0; round < scaled(200'000); ++round) {
        auto bent = sound;
        for (std::uint64_t i = random() % 8; i < 8; ++i) bent[24 + random() % 32] = std::byte(random() & 0xff);
        EXPECT_TRUE(is_bounded(decode_command(bent), bent));
    }
}

TEST(InboxMessages, SizesThatOverflowAreNoCommand) {
    const std::uint64_t key = 1, value = 2;
    auto message = encoded(put(key, value));
    const std::uint32_t huge[] = {0xffff'fff0U, 0x20U};  // their sum is 16 in 32 bits
    std::memcpy(message.data() + 28, huge, sizeof huge);
    EXPECT_FALSE(decode_command(message).what);
}

TEST(InboxMessages, NoByteLeadsOutsideAnAnswer) {
    const std::uint64_t value = 5;
    std::vector<std::byte> sound(48, std::byte{0xee});
    encode_answer(sound, {{7, 8}, inbox_verdict::done, holdfast::entry_change::updated, view_of(value)});
    EXPECT_EQ(sound[47], std::byte{0}) << "nothing of what lay there before is told";
    const auto got = decode_answer(sound);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->id, (inbox_id{7, 8}));
    EXPECT_EQ(got->verdict, inbox_verdict::done);
    EXPECT_EQ(got->change, holdfast::entry_change::updated);
    EXPECT_TRUE(std::ranges::equal(got->value, view_of(value)));
    for (std::size_t size = 0; size < 32; ++size) EXPECT_FALSE(decode_answer(std::span(sound).first(size))) << size;
    for (std::size_t at = 16; at < 32; ++at)
        for (unsigned byte = 0; byte < 256; ++byte) {
            auto bent = sound;
            bent[at] = std::byte(byte);
            const auto answer = decode_answer(bent);
            if (!answer) continue;
            EXPECT_LE(answer->value.size(), 16U) << at << " " << byte;
            EXPECT_FALSE(verdict_name(answer->verdict).empty()) << at << " " << byte;
        }
}

TEST(InboxMessages, AnswersAreToldFromOtherRingsByTheirFields) {
    using holdfast::detail::inbox_answer_schema;
    using holdfast::detail::is_inbox_answer_schema;
    for (const std::size_t bytes : {1UL, 8UL, 20UL, 65536UL}) {
        EXPECT_TRUE(is_inbox_answer_schema(inbox_answer_schema(bytes).text())) << bytes;
        EXPECT_EQ(inbox_answer_schema(bytes).value->bytes(), holdfast::detail::inbox_answer_bytes(bytes)) << bytes;
    }
    EXPECT_FALSE(is_inbox_answer_schema(""));
    EXPECT_FALSE(is_inbox_answer_schema("value {value:u64@0}#8"));
    EXPECT_FALSE(is_inbox_answer_schema("value {value:bytes[8]@0}#8"));
}

class InboxHostile : public ::testing::Test {
 protected:
    using table = hash_table<std::uint64_t, std::uint64_t>;

    void send(std::span<const std::byte> message) {
        ASSERT_TRUE(holdfast::queue_producer::attach(name_.uri() + ".inbox").try_push(message));
    }
    /// A ring and a queue as an inbox has them, of an owner that says what it likes.
    struct scripted_owner {
        holdfast::broadcast_writer ring;
        holdfast::queue_consumer consumer;
    };
    [[nodiscard]] scripted_owner script() const {
        auto ring = holdfast::broadcast_writer::create(
            name_.uri() + ".answers",
            {.capacity_bytes = 1 << 16, .schema = holdfast::detail::inbox_answer_schema(8).text()});
        (void)holdfast::queue_producer::create(name_.uri() + ".inbox");
        return {std::move(ring), holdfast::queue_consumer::attach(name_.uri() + ".inbox")};
    }
    unique_posix_name name_{"inbox"};
    table table_ = table::create(name_.uri(), {.capacity = 100});
};

TEST_F(InboxHostile, AnOwnerGoesOnBehindWhateverIsInItsQueue) {
    table_inbox inbox(table_);
    auto client = inbox_client::attach(name_.uri());
    ASSERT_TRUE(client);
    seeded_random random;
    const std::uint64_t key = 1, value = 2;
    const auto sound = encoded(put(key, value));
    for (std::uint64_t round = 0; round < scaled(3000); ++round) {
        std::vector<std::byte> message(random() % 300);
        for (std::byte& each : message) each = std::byte(random() & 0xff);
        if (round % 2 == 0) std::copy_n(sound.begin(), std::min(message.size(), sound.size()), message.begin());
        send(message);
        if (round % 16 == 0) send(std::vector<std::byte>(20'000, std::byte{1}));
        const auto applied = inbox.apply();
        EXPECT_EQ(applied.count, round % 16 == 0 ? 2U : 1U);
    }
    for (std::uint64_t k = 2; k < 100; ++k) EXPECT_FALSE(table_.find(k));
    ASSERT_TRUE(client->send(put(key, value), 10s));
    EXPECT_EQ(inbox.apply().count, 1U);
    std::optional<inbox_answer> answer = client->next();
    for (int i = 0; i < 100 && !answer; ++i) answer = client->next();  // behind those to others
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->verdict, inbox_verdict::done);
}

TEST_F(InboxHostile, WhatIsLongerThanAnyCommandIsAnsweredAndNotApplied) {
    table_inbox inbox(table_);
    auto ring = holdfast::broadcast_reader::attach(name_.uri() + ".answers");
    const std::uint64_t key = 1, value = 2;
    auto longer = encoded(put(key, value));
    longer.resize(500);
    send(longer);
    EXPECT_EQ(inbox.apply().count, 1U);
    std::vector<std::byte> bytes;
    ASSERT_TRUE(ring.read(bytes));
    const auto answer = decode_answer(bytes);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->id, (inbox_id{7, 8}));
    EXPECT_EQ(answer->verdict, inbox_verdict::not_understood);
    EXPECT_FALSE(table_.find(1));
}

TEST_F(InboxHostile, AClientPassesOverWhatIsNoAnswerToIt) {
    scripted_owner owner = script();
    auto client = inbox_client::attach(name_.uri());
    ASSERT_TRUE(client);
    const std::uint64_t key = 1, value = 2;
    const auto sent = client->send(put(key, value), 10s);
    ASSERT_TRUE(sent);
    std::vector<std::byte> bytes(40);
    const auto say = [&](const inbox_id& id, auto&& bend) {
        encode_answer(bytes, {id, inbox_verdict::done, holdfast::entry_change::none, view_of(value)});
        bend();
        ASSERT_TRUE(owner.ring.publish(bytes));
    };
    const inbox_id ours{client->client(), sent.count};
    say({client->client() + 1, sent.count}, [] {});
    say(ours, [&] { bytes[24] = std::byte{200}; });  // no verdict
    say(ours, [&] { bytes[16] = std::byte{2}; });    // another version
    say(ours, [&] { bytes[20] = std::byte{9}; });    // more value than there is
    ASSERT_TRUE(owner.ring.publish(std::span(bytes).first(31)));
    say(ours, [&] { bytes[24] = std::byte(static_cast<unsigned>(inbox_verdict::full)); });
    const auto answer = client->next();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->verdict, inbox_verdict::full);
    EXPECT_EQ(answer->value.size(), 8U);
    EXPECT_FALSE(client->next());
}

// Answers without end to a command that the client never sent: it waits for its own as long as it said, and no longer.
TEST_F(InboxHostile, AFloodOfAnswersKeepsNobodyBeyondHisTime) {
    scripted_owner owner = script();
    auto client = inbox_client::attach(name_.uri());
    ASSERT_TRUE(client);
    std::atomic<bool> stop{false};
    std::thread flood([&] {
        const std::uint64_t value = 2;
        std::vector<std::byte> bytes(40);
        encode_answer(bytes,
                      {{client->client(), 0}, inbox_verdict::done, holdfast::entry_change::none, view_of(value)});
        while (!stop.load()) (void)owner.ring.publish(bytes);
    });
    const std::uint64_t key = 1, value = 2;
    const auto begin = std::chrono::steady_clock::now();
    const holdfast::inbox_reply reply = client->ask(put(key, value), 200ms);
    const auto took = std::chrono::steady_clock::now() - begin;
    stop.store(true);
    flood.join();
    EXPECT_EQ(reply.status, outcome::timed_out);
    EXPECT_LT(took, 5s);
}

}  // namespace
