// SPDX-License-Identifier: Apache-2.0
// messages.hpp - what is said through an inbox: a command, and its answer. See inbox.hpp.
//
// Command v1, a message of the queue NAME.inbox (little-endian)
//   offset  bytes  field
//        0      8  client        drawn at random by who asks
//        8      8  sequence      its own count
//       16      8  deadline_ns   CLOCK_MONOTONIC: later than that it is not applied
//       24      4  version       1
//       28      4  key_bytes
//       32      4  value_bytes   of a put; else 0
//       36      4  field_offset  in the value, of an increment
//       40      8  by            of an increment
//       48      1  operation     put, erase, increment
//       49      1  condition     none, only_new, tags, any_value
//       50      1  field_type    of an increment
//       51      1  unused
//       52      4  tag_count     0 to 16
//       56    8*n  tags          then the key, then the value; nothing behind it
// Answer v1, a message of the ring NAME.answers; all of one table have one size, and its schema names the fields
//        0     16  client, sequence   those of the command
//       16      4  version       1
//       20      4  value_bytes   of what follows; 0 where there is no value to tell
//       24      1  verdict
//       25      1  change        entry_change; none unless done
//       26      6  unused
//       32      V  value         the entry's behind an increment; zeros where none is told
// (I1) Sizes are checked against the message before anything is read by them; what contradicts them is not understood.
// (I2) Whoever writes either is a peer: both sides copy a message before they look at it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "holdfast/detail/concat.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/record/field.hpp"
#include "holdfast/record/schema.hpp"

namespace holdfast {

/// What a command asks for. Part of the protocol, as are the values of the enums that follow.
enum class inbox_operation : std::uint8_t { put = 1, erase = 2, increment = 3 };

/// What the entry must be like, looked at in the same step as the change.
enum class inbox_condition : std::uint8_t {
    none = 0,
    only_new = 1,   ///< put: the key is not there
    tags = 2,       ///< the key is there, and its value has one of the tags
    any_value = 3,  ///< the key is there
};

/// What became of a command. Only `done` has changed anything.
enum class inbox_verdict : std::uint8_t {
    done = 1,
    exists = 2,          ///< only_new, and the key is there
    stale = 3,           ///< the value has none of the tags
    not_found = 4,       ///< no such key
    out_of_range = 5,    ///< the sum does not fit into the field
    full = 6,            ///< the table has no room
    late = 7,            ///< the owner came to it behind its deadline
    closed = 8,          ///< the owner closed its inbox before it came to it
    not_understood = 9,  ///< another version, or not of this table's keys, values or fields
    damaged = 10,        ///< the table is; nothing may be concluded
};
inline constexpr std::uint8_t inbox_verdict_max = 10;

/// The name of a verdict, for messages and logs; empty for a number that is none.
[[nodiscard]] constexpr std::string_view verdict_name(inbox_verdict what) noexcept {
    switch (what) {
        case inbox_verdict::done: return "done";
        case inbox_verdict::exists: return "exists";
        case inbox_verdict::stale: return "stale";
        case inbox_verdict::not_found: return "not found";
        case inbox_verdict::out_of_range: return "out of range";
        case inbox_verdict::full: return "full";
        case inbox_verdict::late: return "late";
        case inbox_verdict::closed: return "closed";
        case inbox_verdict::not_understood: return "not understood";
        case inbox_verdict::damaged: return "damaged";
    }
    return {};
}

/// Names one command among all that anybody sends.
struct inbox_id {
    std::uint64_t client = 0;
    std::uint64_t sequence = 0;
    friend bool operator==(const inbox_id&, const inbox_id&) = default;
};

/// A change that is asked for. Spans are views: of the caller's bytes, or of those that were decoded.
struct inbox_command {
    inbox_operation operation = inbox_operation::put;
    inbox_condition condition = inbox_condition::none;
    std::span<const std::byte> key;
    std::span<const std::byte> value{};    ///< put: as many bytes as the table's values have
    std::uint32_t field_offset = 0;        ///< increment: of an integer in the value
    field_type counted = field_type::u64;  ///< increment: its type
    std::int64_t by = 0;                   ///< increment

    static constexpr std::size_t tags_max = 16;
    std::array<std::uint64_t, tags_max> tags{};  ///< detail::value_tag() of what the value may be
    std::uint32_t tag_count = 0;

    [[nodiscard]] bool names(std::uint64_t tag) const noexcept {
        return std::ranges::find(tags.begin(), tags.begin() + tag_count, tag) != tags.begin() + tag_count;
    }
};

/// What the owner said. `value`: the entry's behind an increment, in the reader's buffer; else empty.
struct inbox_answer {
    inbox_id id;
    inbox_verdict verdict = inbox_verdict::not_understood;
    entry_change change = entry_change::none;
    std::span<const std::byte> value{};
};

namespace detail {

inline constexpr std::uint32_t inbox_version = 1;

struct inbox_command_head {
    inbox_id id;
    std::uint64_t deadline_ns;
    std::uint32_t version;
    std::uint32_t key_bytes;
    std::uint32_t value_bytes;
    std::uint32_t field_offset;
    std::int64_t by;
    std::uint8_t operation;
    std::uint8_t condition;
    std::uint8_t field_type;
    std::uint8_t unused;
    std::uint32_t tag_count;
};
static_assert(sizeof(inbox_command_head) == 56 && std::is_trivially_copyable_v<inbox_command_head>);
static_assert(offsetof(inbox_command_head, deadline_ns) == 16 && offsetof(inbox_command_head, version) == 24 &&
              offsetof(inbox_command_head, key_bytes) == 28 && offsetof(inbox_command_head, value_bytes) == 32 &&
              offsetof(inbox_command_head, field_offset) == 36 && offsetof(inbox_command_head, by) == 40 &&
              offsetof(inbox_command_head, operation) == 48 && offsetof(inbox_command_head, condition) == 49 &&
              offsetof(inbox_command_head, field_type) == 50 && offsetof(inbox_command_head, tag_count) == 52);

struct inbox_answer_head {
    inbox_id id;
    std::uint32_t version;
    std::uint32_t value_bytes;
    std::uint8_t verdict;
    std::uint8_t change;
    std::array<std::uint8_t, 6> unused;
};
static_assert(sizeof(inbox_answer_head) == 32 && std::is_trivially_copyable_v<inbox_answer_head>);
static_assert(offsetof(inbox_answer_head, version) == 16 && offsetof(inbox_answer_head, value_bytes) == 20 &&
              offsetof(inbox_answer_head, verdict) == 24 && offsetof(inbox_answer_head, change) == 25);

[[nodiscard]] constexpr std::size_t inbox_command_bytes_max(std::size_t key_bytes, std::size_t value_bytes) noexcept {
    return sizeof(inbox_command_head) + inbox_command::tags_max * sizeof(std::uint64_t) + key_bytes + value_bytes;
}
/// Rounded up as a record of 8-byte words is.
[[nodiscard]] constexpr std::size_t inbox_answer_bytes(std::size_t value_bytes) noexcept {
    return (sizeof(inbox_answer_head) + value_bytes + 7) / 8 * 8;
}

/// What answers look like to whoever reads the ring without knowing of inboxes.
[[nodiscard]] inline container_schema inbox_answer_schema(std::size_t value_bytes) {
    return {std::nullopt,
            record_schema::parse_list(concat("client:u64,sequence:u64,version:u32,value_bytes:u32,verdict:u8,"
                                             "change:u8,unused:bytes[6],value:bytes[",
                                             value_bytes, "]"))};
}
/// Whether a ring's schema is that, for values of whatever size: nobody else has such a ring.
[[nodiscard]] inline bool is_inbox_answer_schema(std::string_view text) {
    try {
        const container_schema stored = container_schema::parse(text);
        if (stored.key || !stored.value || stored.value->fields().empty()) return false;
        return stored.value->fields().back().type == field_type::bytes &&
               text == inbox_answer_schema(stored.value->fields().back().bytes).text();
    } catch (const error&) {
        return false;
    }
}

inline void append_bytes(std::span<std::byte> room, std::size_t& at, const void* from, std::size_t bytes) noexcept {
    if (bytes != 0) std::memcpy(room.data() + at, from, bytes);
    at += bytes;
}

/// Returns: the bytes of the message; 0 where it is longer than `room` or has too many tags.
[[nodiscard]] inline std::size_t encode_command(std::span<std::byte> room, const inbox_id& id,
                                                std::uint64_t deadline_ns, const inbox_command& what) noexcept {
    if (what.tag_count > inbox_command::tags_max) return 0;
    const std::size_t tag_bytes = what.tag_count * sizeof(std::uint64_t);
    if (sizeof(inbox_command_head) + tag_bytes + what.key.size() + what.value.size() > room.size()) return 0;
    inbox_command_head head{};
    head.id = id;
    head.deadline_ns = deadline_ns;
    head.version = inbox_version;
    head.key_bytes = static_cast<std::uint32_t>(what.key.size());
    head.value_bytes = static_cast<std::uint32_t>(what.value.size());
    head.field_offset = what.field_offset;
    head.by = what.by;
    head.operation = static_cast<std::uint8_t>(what.operation);
    head.condition = static_cast<std::uint8_t>(what.condition);
    head.field_type = static_cast<std::uint8_t>(what.counted);
    head.tag_count = what.tag_count;
    std::size_t at = 0;
    append_bytes(room, at, &head, sizeof head);
    append_bytes(room, at, what.tags.data(), tag_bytes);
    append_bytes(room, at, what.key.data(), what.key.size());
    append_bytes(room, at, what.value.data(), what.value.size());
    return at;
}

/// A command as its owner has it. Without an id there is nobody to answer.
struct received_command {
    std::optional<inbox_id> id{};
    std::uint64_t deadline_ns = 0;
    std::optional<inbox_command> what{};  ///< nothing: it is not understood
};

/// Returns: what a message says, as far as it says anything. Requires: nobody else writes the bytes (I2).
[[nodiscard]] inline received_command decode_command(std::span<const std::byte> message) noexcept {
    received_command result;
    inbox_command_head head;
    if (message.size() < sizeof head) return result;
    std::memcpy(&head, message.data(), sizeof head);
    result.id = head.id;
    result.deadline_ns = head.deadline_ns;
    const bool known = head.version == inbox_version && head.operation >= 1 &&
                       head.operation <= static_cast<std::uint8_t>(inbox_operation::increment) &&
                       head.condition <= static_cast<std::uint8_t>(inbox_condition::any_value) &&
                       head.field_type < type_table.size() && head.tag_count <= inbox_command::tags_max;
    if (!known) return result;
    // 64 bits wide: no sum of these overflows (I1).
    const std::uint64_t tag_bytes = std::uint64_t{head.tag_count} * sizeof(std::uint64_t);
    if (sizeof head + tag_bytes + head.key_bytes + head.value_bytes != message.size()) return result;
    inbox_command& what = result.what.emplace();
    what.operation = static_cast<inbox_operation>(head.operation);
    what.condition = static_cast<inbox_condition>(head.condition);
    what.field_offset = head.field_offset;
    what.counted = static_cast<field_type>(head.field_type);
    what.by = head.by;
    what.tag_count = head.tag_count;
    if (tag_bytes != 0) std::memcpy(what.tags.data(), message.data() + sizeof head, tag_bytes);
    what.key = message.subspan(sizeof head + tag_bytes, head.key_bytes);
    what.value = message.subspan(sizeof head + tag_bytes + head.key_bytes, head.value_bytes);
    return result;
}

/// Requires: room for inbox_answer_bytes(answer.value.size()); bytes behind the value become zero.
inline void encode_answer(std::span<std::byte> room, const inbox_answer& answer) noexcept {
    inbox_answer_head head{};
    head.id = answer.id;
    head.version = inbox_version;
    head.value_bytes = static_cast<std::uint32_t>(answer.value.size());
    head.verdict = static_cast<std::uint8_t>(answer.verdict);
    head.change = static_cast<std::uint8_t>(answer.change);
    std::size_t at = 0;
    append_bytes(room, at, &head, sizeof head);
    append_bytes(room, at, answer.value.data(), answer.value.size());
    std::memset(room.data() + at, 0, room.size() - at);
}

/// Returns: the answer, with its value within `message`; nothing where it is none.
[[nodiscard]] inline std::optional<inbox_answer> decode_answer(std::span<const std::byte> message) noexcept {
    inbox_answer_head head;
    if (message.size() < sizeof head) return std::nullopt;
    std::memcpy(&head, message.data(), sizeof head);
    if (head.version != inbox_version || head.verdict == 0 || head.verdict > inbox_verdict_max ||
        head.change > entry_change_max || head.value_bytes > message.size() - sizeof head)
        return std::nullopt;
    return inbox_answer{head.id, static_cast<inbox_verdict>(head.verdict), static_cast<entry_change>(head.change),
                        message.subspan(sizeof head, head.value_bytes)};
}

}  // namespace detail
}  // namespace holdfast
