// SPDX-License-Identifier: Apache-2.0
// put.cpp - changes entries of a hash table or a hash map by text: put and del. The segment's lease is obeyed.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/owner_inbox.hpp"
#include "cli/program.hpp"
#include "cli/write_access.hpp"
#include "holdfast/detail/concat.hpp"
#include "holdfast/detail/spans.hpp"
#include "holdfast/detail/value_tag.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/many.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/inbox.hpp"
#include "holdfast/outcome.hpp"
#include "inspect/attach.hpp"
#include "inspect/entry_codec.hpp"
#include "inspect/json_out.hpp"
#include "inspect/map_keys.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    std::string key;
    std::string value;
    bool change = false;
    bool only_new = false;
    bool json = false;
    std::uint64_t ttl_s = 0;
    write_access access;
};

[[noreturn]] void refuse_damaged(const std::string& uri) {
    throw error(errc::corrupt, uri, "damage was met on the way; holdfast verify says where");
}

/// Says what became of an entry. Returns: the exit code.
int tell(std::string_view result, const std::string& uri, std::uint64_t size, const options& chosen) {
    const bool exists = result == "exists", done = !exists && result != "not_found";
    if (chosen.json) {
        std::string text;
        inspect::json_out out(text);
        out.begin_object().member("uri", uri).member("result", result).member("size", size);
        out.end_object();
        put(text + "\n");
    } else if (!done) {
        say(format("{}: {} {}", uri, inspect::printable(chosen.key), exists ? "is there already" : "is not there"));
    }
    return done ? success : negative;
}

/// What was done, or why nothing was.
template <class Result>
[[nodiscard]] std::string_view name_of(const Result& result) {
    if (result.status == outcome::exists) return "exists";
    if (result.status == outcome::not_found) return "not_found";
    return change_name(result.what);
}

/// `other`: whom the operation waited for, with its `pid`.
template <class Holder>
[[noreturn]] void refuse_contended(const std::string& uri, std::string_view what, const std::optional<Holder>& other) {
    throw error(errc::contended, uri,
                detail::concat("another writer", other ? detail::concat(" (process ", other->pid, ")") : std::string(),
                               " holds that part of the ", what,
                               " and does not go on; nothing was changed: let it go on, or end it, and try again"));
}

// ---- hash tables

template <class Table>
[[nodiscard]] std::vector<std::byte> read_key(const Table& table, const inspect::entry_codec& codec,
                                              const std::string& text) {
    std::vector<std::byte> key(codec.key_bytes());
    if (const auto reason = codec.read_key(text, key))
        throw error(errc::invalid_argument, table.segment().uri(),
                    detail::concat("the key is none of this table's: ", *reason));
    return key;
}

int report(const hash_table_result& result, const dynamic_hash_table& table, const options& chosen) {
    const std::string& uri = table.segment().uri();
    switch (result.status) {
        case outcome::ok:
        case outcome::exists:
        case outcome::not_found: return tell(name_of(result), uri, table.size(), chosen);
        case outcome::full:
            throw error(errc::no_space, uri,
                        table.geometry().writer_slots == 0
                            ? "the table is full; erase entries, or make room (holdfast grow)"
                            : "the table is full; erase entries, or save it and restore it with more room (holdfast "
                              "restore --capacity)");
        case outcome::contended: refuse_contended(uri, "table", table.blocked_by());
        default: refuse_damaged(uri);
    }
}

[[noreturn]] void refuse_value(const std::string& uri, const std::string& reason) {
    throw error(errc::invalid_argument, uri, detail::concat("the value is none of this table's: ", reason));
}

int put_into_table(const options& chosen, const attach_options& how) {
    dynamic_hash_table table = dynamic_hash_table::attach(chosen.segment, how);
    const inspect::entry_codec codec(table.schema());
    const std::vector<std::byte> key = read_key(table, codec, chosen.key);
    std::vector<std::byte> value(codec.value_bytes());
    std::optional<std::string> reason;
    hash_table_result result;
    if (chosen.change)
        result = table.modify(key, value, [&] { return !(reason = codec.change_value(chosen.value, value)); });
    else
        reason = codec.read_value(chosen.value, value);
    if (reason) refuse_value(table.segment().uri(), *reason);
    if (!chosen.change) result = chosen.only_new ? table.try_insert(key, value) : table.insert_or_assign(key, value);
    return report(result, table, chosen);
}

int erase_from_table(const options& chosen, const attach_options& how) {
    dynamic_hash_table table = dynamic_hash_table::attach(chosen.segment, how);
    const inspect::entry_codec codec(table.schema());
    return report(table.erase(read_key(table, codec, chosen.key)), table, chosen);
}

// ---- hash tables that their owner changes for us

int report(const inbox_answer& answer, const owner_inbox& owner, const options& chosen) {
    std::string_view result = change_name(answer.change);
    if (answer.verdict == inbox_verdict::exists) result = "exists";
    if (answer.verdict == inbox_verdict::not_found) result = "not_found";
    return tell(result, owner.table().segment().uri(), owner.table().size(), chosen);
}

/// Refuses where a look found nothing for another reason than that nothing is there.
void require_answer(const dynamic_hash_table_reader& table) {
    const std::string& uri = table.segment().uri();
    if (!table.fault()) return;
    if (table.fault() != errc::contended) refuse_damaged(uri);
    throw error(errc::contended, uri, "the entry changes faster than it can be read; nothing was changed: try again");
}

int put_by_owner(const options& chosen, owner_inbox& owner) {
    const std::vector<std::byte> key = read_key(owner.table(), owner.codec(), chosen.key);
    std::vector<std::byte> value(owner.codec().value_bytes());
    inbox_command command;
    command.key = key;
    command.value = value;
    if (chosen.only_new) command.condition = inbox_condition::only_new;
    // A change is of a value that was read: as often as the owner has meanwhile another one.
    for (unsigned tries = 0; tries < 100; ++tries) {
        std::optional<std::string> reason;
        if (chosen.change) {
            if (!owner.table().find(key, value)) {
                require_answer(owner.table());
                return report({{}, inbox_verdict::not_found}, owner, chosen);
            }
            command.condition = inbox_condition::tags;
            command.tags[0] = detail::value_tag(value);
            command.tag_count = 1;
            reason = owner.codec().change_value(chosen.value, value);
        } else {
            reason = owner.codec().read_value(chosen.value, value);
        }
        if (reason) refuse_value(owner.table().segment().uri(), *reason);
        const inbox_answer answer = owner.ask(command);
        if (answer.verdict != inbox_verdict::stale) return report(answer, owner, chosen);
    }
    throw error(errc::contended, owner.table().segment().uri(),
                "the entry changes faster than it can be changed by others; nothing was changed: try again");
}

int erase_by_owner(const options& chosen, owner_inbox& owner) {
    const std::vector<std::byte> key = read_key(owner.table(), owner.codec(), chosen.key);
    inbox_command command;
    command.operation = inbox_operation::erase;
    command.key = key;
    return report(owner.ask(command), owner, chosen);
}

/// Under the lease where it is free, else through its holder's inbox; without one it is waited for as was said.
template <class UnderLease, class ByOwner>
int change_table(const options& chosen, UnderLease&& under_lease, ByOwner&& by_owner) {
    attach_options at_once = chosen.access.options();
    at_once.lease_timeout = {};
    try {
        return under_lease(chosen, at_once);
    } catch (const error& e) {
        if (e.reason() != errc::writer_alive) throw;
    }
    if (std::optional<owner_inbox> owner = owner_inbox::of(chosen.segment, chosen.access))
        return by_owner(chosen, *owner);
    return under_lease(chosen, chosen.access.options());
}

// ---- hash maps

// Any map's keys are bytes.
using map_of_one = hash_map<std::span<const std::byte>>;
using map_of_many = hash_map<std::span<const std::byte>, writers::many>;

template <class Map>
int report(const hash_map_result& result, const Map& map, const options& chosen) {
    const std::string& uri = map.segment().uri();
    switch (result.status) {
        case outcome::ok:
        case outcome::exists:
        case outcome::not_found: return tell(name_of(result), uri, map.size(), chosen);
        case outcome::full:
            throw error(errc::no_space, uri,
                        "the map is full, and the new value needs room beside the old one; delete entries, or make it "
                        "anew with more room");
        case outcome::too_large:
            throw error(errc::no_space, uri,
                        "key and value are larger than the whole map; make it anew with more room");
        case outcome::no_memory: throw error(errc::no_space, uri, "this process has no memory left; try again");
        case outcome::collision:
            throw error(errc::unsupported, uri, "another key that is there has the same digest; choose another key");
        case outcome::contended:
            if constexpr (std::is_same_v<Map, map_of_many>) refuse_contended(uri, "map", map.blocked_by());
            [[fallthrough]];
        default: refuse_damaged(uri);
    }
}

[[nodiscard]] std::vector<std::byte> read_key(const segment& map, const options& chosen) {
    std::vector<std::byte> key;
    if (const auto reason = inspect::map_keys(map).read(chosen.key, key))
        throw error(errc::invalid_argument, map.uri(), detail::concat("the key is none of this map's: ", *reason));
    return key;
}

int put_into_map(const options& chosen) {
    auto map = map_of_one::attach(chosen.segment, chosen.access.options());
    const std::vector<std::byte> key = read_key(map.segment(), chosen);
    const auto value = std::as_bytes(std::span(chosen.value));
    const hash_map_entry_options how{.ttl = detail::span_of<std::chrono::seconds>(chosen.ttl_s)};
    return report(chosen.only_new ? map.insert(key, value, how) : map.set(key, value, how), map, chosen);
}

int put_into_map_of_many(const options& chosen) {
    if (chosen.ttl_s != 0)
        throw error(errc::invalid_argument, chosen.segment,
                    "nothing expires in a hash_map of many writers; leave --ttl out");
    auto map = map_of_many::attach(chosen.segment, chosen.access.options());
    const std::vector<std::byte> key = read_key(map.segment(), chosen);
    const auto value = std::as_bytes(std::span(chosen.value));
    return report(chosen.only_new ? map.insert(key, value) : map.set(key, value), map, chosen);
}

template <class Map>
int erase_from_map(const options& chosen) {
    auto map = Map::attach(chosen.segment, chosen.access.options());
    return report(map.erase(read_key(map.segment(), chosen)), map, chosen);
}

// ---- both

int put_entry(const options& chosen) {
    const segment_info info = inspect::attach_to_look(chosen.segment)->info();
    const bool map = info.kind == container_kind::hash_map;
    if (map && chosen.change)
        throw error(errc::invalid_argument, chosen.segment, "a hash_map's values have no fields; leave --change out");
    if (!map && chosen.ttl_s != 0)
        throw error(errc::invalid_argument, chosen.segment, "only a hash_map's entries expire; leave --ttl out");
    if (!map) return change_table(chosen, put_into_table, put_by_owner);
    return info.policy == writers::many ? put_into_map_of_many(chosen) : put_into_map(chosen);
}

int erase_entry(const options& chosen) {
    const segment_info info = inspect::attach_to_look(chosen.segment)->info();
    if (info.kind != container_kind::hash_map) return change_table(chosen, erase_from_table, erase_by_owner);
    return info.policy == writers::many ? erase_from_map<map_of_many>(chosen) : erase_from_map<map_of_one>(chosen);
}

constexpr const char* lease_note =
    "Takes the segment's lease for the moment, so it is refused (5) while another process writes it, unless that has\n"
    "an inbox open for its table: then it is asked, for 5 s at most (8). A table or map of many writers is changed\n"
    "beside the others; one that is stopped and holds the entry is waited for, 1 s at most (8).";

}  // namespace

void add_put(command_line& line) {
    const auto chosen = std::make_shared<options>();
    command entry = line.add("put", "Give a key of a hash table or a hash map a value");
    entry.positional("SEGMENT", chosen->segment, "the table or map")
        .positional("KEY", chosen->key, "the key; of several fields FIELD=TEXT,... or TEXT,TEXT")
        .positional("VALUE", chosen->value, "the value, likewise, or a JSON object; of a map any text")
        .flag("--change", chosen->change, "change the named fields (FIELD=TEXT,...) of a table's entry that is there")
        .option("--ttl", chosen->ttl_s, "S", "a map's entry lives for so many seconds; default: for ever")
        .flag("--new", chosen->only_new, "only if the key is not there yet")
        .flag("--json", chosen->json, "print what was done")
        .details(lease_note)
        .run([chosen] { return put_entry(*chosen); });
    chosen->access.declare(entry);
}

void add_del(command_line& line) {
    const auto chosen = std::make_shared<options>();
    command entry = line.add("del", "Remove a key from a hash table or a hash map");
    entry.positional("SEGMENT", chosen->segment, "the table or map")
        .positional("KEY", chosen->key, "the key, as for put")
        .flag("--json", chosen->json, "print what was done")
        .details(lease_note)
        .run([chosen] { return erase_entry(*chosen); });
    chosen->access.declare(entry);
}

}  // namespace holdfast::cli
