// SPDX-License-Identifier: Apache-2.0
// put.cpp - changes entries of a hash table by text: put and del. The table's lease is obeyed.
#include <algorithm>
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "cli/write_access.hpp"
#include "holdfast/detail/concat.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "inspect/entry_codec.hpp"
#include "inspect/json_out.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    std::string key;
    std::string value;
    bool change = false;
    bool only_new = false;
    bool json = false;
    write_access access;
};

[[nodiscard]] std::vector<std::byte> read_key(const dynamic_hash_table& table, const inspect::entry_codec& codec,
                                              const std::string& text) {
    std::vector<std::byte> key(codec.key_bytes());
    if (const auto reason = codec.read_key(text, key))
        throw error(errc::invalid_argument, table.segment().uri(),
                    detail::concat("the key is none of this table's: ", *reason));
    return key;
}

[[nodiscard]] std::string_view name_of(hash_table_status status) {
    switch (status) {
        case hash_table_status::inserted: return "inserted";
        case hash_table_status::updated: return "updated";
        case hash_table_status::erased: return "erased";
        case hash_table_status::exists: return "exists";
        case hash_table_status::not_found: return "not_found";
        default: return "refused";
    }
}

int report(hash_table_status status, const dynamic_hash_table& table, const options& chosen) {
    const std::string& uri = table.segment().uri();
    if (status == hash_table_status::full)
        throw error(errc::no_space, uri, "the table is full; erase entries, or load it anew with a greater --capacity");
    if (status == hash_table_status::read_only || status == hash_table_status::corrupt)
        throw error(errc::corrupt, uri, "damage was met on the way; holdfast verify says where");
    if (chosen.json) {
        std::string text;
        inspect::json_out out(text);
        out.begin_object().member("uri", uri).member("result", name_of(status)).member("size", table.size());
        out.end_object();
        put(text + "\n");
    }
    if (status == hash_table_status::exists || status == hash_table_status::not_found) {
        if (!chosen.json)
            say(format("{}: {} {}", uri, inspect::printable(chosen.key),
                       status == hash_table_status::exists ? "is there already" : "is not there"));
        return negative;
    }
    return success;
}

int put_entry(const options& chosen) {
    dynamic_hash_table table = dynamic_hash_table::attach(chosen.segment, chosen.access.options());
    const inspect::entry_codec codec(table.schema());
    const std::vector<std::byte> key = read_key(table, codec, chosen.key);
    std::vector<std::byte> value(codec.value_bytes());
    if (chosen.change && !table.find(key, value)) return report(hash_table_status::not_found, table, chosen);
    const auto reason = chosen.change ? codec.change_value(chosen.value, value) : codec.read_value(chosen.value, value);
    if (reason)
        throw error(errc::invalid_argument, table.segment().uri(),
                    detail::concat("the value is none of this table's: ", *reason));
    const hash_table_result result =
        chosen.only_new ? table.try_insert(key, value) : table.insert_or_assign(key, value);
    return report(result.status, table, chosen);
}

int erase_entry(const options& chosen) {
    dynamic_hash_table table = dynamic_hash_table::attach(chosen.segment, chosen.access.options());
    const inspect::entry_codec codec(table.schema());
    return report(table.erase(read_key(table, codec, chosen.key)), table, chosen);
}

constexpr const char* lease_note =
    "Takes the table's lease for the moment, so it is refused (5) while another process writes the table.";

}  // namespace

void add_put(command_line& line) {
    const auto chosen = std::make_shared<options>();
    command entry = line.add("put", "Give a key of a hash table a value");
    entry.positional("SEGMENT", chosen->segment, "the table")
        .positional("KEY", chosen->key, "the key; of several fields FIELD=TEXT,... or TEXT,TEXT")
        .positional("VALUE", chosen->value, "the value, likewise, or a JSON object")
        .flag("--change", chosen->change, "change the named fields (FIELD=TEXT,...) of an entry that is there")
        .flag("--new", chosen->only_new, "only if the key is not there yet")
        .flag("--json", chosen->json, "print what was done")
        .details(lease_note)
        .run([chosen] { return put_entry(*chosen); });
    chosen->access.declare(entry);
}

void add_del(command_line& line) {
    const auto chosen = std::make_shared<options>();
    command entry = line.add("del", "Remove a key from a hash table");
    entry.positional("SEGMENT", chosen->segment, "the table")
        .positional("KEY", chosen->key, "the key, as for put")
        .flag("--json", chosen->json, "print what was done")
        .details(lease_note)
        .run([chosen] { return erase_entry(*chosen); });
    chosen->access.declare(entry);
}

}  // namespace holdfast::cli
