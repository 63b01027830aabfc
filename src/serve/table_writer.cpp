// SPDX-License-Identifier: Apache-2.0
#include "serve/table_writer.hpp"

#include <chrono>
#include <cstring>
#include <utility>

#include "holdfast/error.hpp"
#include "holdfast/record/add_to.hpp"
#include "serve/failure.hpp"
#include "serve/write_lease.hpp"

namespace holdfast::serve {

namespace {

using namespace std::chrono_literals;

constexpr auto stripe_patience = 20ms;  // of a writer that is stopped

const record_schema& value_schema(const dynamic_hash_table& table) {
    if (!table.schema().value) throw failure{404, table.segment().uri() + " has keys without values"};
    return *table.schema().value;
}

}  // namespace

table_writer::table_writer(const std::string& uri)
    : table_(attach_to_write(uri, [&](const auto& how) { return dynamic_hash_table::attach(uri, how); })),
      codec_(table_.schema()),
      values_(value_schema(table_)),
      entries_(table_.schema()) {
    table_.set_patience(stripe_patience);
    key_.resize(table_.key_bytes());
    other_key_.resize(table_.key_bytes());
    value_.resize(table_.value_bytes());
    wanted_.resize(table_.value_bytes());
}

void table_writer::read_key(std::string_view text) {
    if (const auto reason = codec_.read_key(text, key_))
        throw failure{400, "key " + std::string(text) + ": " + *reason};
}

void table_writer::read_value(std::string_view body) {
    const auto of_value = values_.read(body, wanted_);
    if (!of_value) return;
    if (const auto of_entry = entries_.read(body, other_key_, wanted_))
        throw failure{400, "the body: " + (of_entry->position > of_value->position ? *of_entry : *of_value).message()};
    if (other_key_ != key_) throw failure{400, "the body has another key than the path"};
}

const field& table_writer::counted_field(std::string_view body, std::int64_t& by) const {
    struct request {
        char field[128];
        std::int64_t by;
    } asked{};
    static const record_schema schema = record_schema::parse_list("field:char[128],by:i64");
    static_assert(sizeof asked == 136 && field_name_max == sizeof asked.field);
    inspect::record_json_reader reader(schema);
    if (const auto reason = reader.read(body, std::as_writable_bytes(std::span(&asked, 1))))
        throw failure{400, "the body is not {\"field\": NAME, \"by\": NUMBER}: " + reason->message()};
    const std::string name(asked.field, ::strnlen(asked.field, sizeof asked.field));
    const field* const found = value_schema(table_).find(name);
    if (found == nullptr) throw failure{400, "the table's values have no field " + name};
    if (!detail::is_countable(*found)) throw failure{400, "field " + name + " is no integer to count in"};
    by = asked.by;
    return *found;
}

void table_writer::refuse_contended() const {
    const std::optional<writer_slot_holder> other = table_.blocked_by();
    throw failure{503,
                  table_.segment().uri() + ": another writer" +
                      (other ? " (process " + std::to_string(other->pid) + ")" : std::string()) +
                      " holds that part of the table and does not go on; ask again",
                  1};
}

void table_writer::require(const hash_table_result& result, int denied) const {
    const std::string& uri = table_.segment().uri();
    switch (result.status) {
        case outcome::ok: return;
        case outcome::exists: throw failure{412, uri + ": the entry is there already"};
        case outcome::stale:
            throw failure{denied, denied == 412 ? uri + ": the entry has another value than If-Match names"
                                                : uri + ": the sum does not fit into the field"};
        case outcome::not_found: throw failure{404, uri + " has no such entry"};
        case outcome::full:
            throw failure{507, uri + ": the table is full; erase entries, or make room (holdfast grow)"};
        case outcome::contended: refuse_contended();
        default: throw failure{500, uri + " is damaged; holdfast verify says where"};
    }
}

// RFC 9110 section 13.1.1: nothing that is not there matches.
void table_writer::require_match(const hash_table_result& result, const conditions& asked) const {
    if (asked.of_value() && result.status == outcome::not_found)
        throw failure{412, table_.segment().uri() + " has no such entry to match"};
}

table_writer::written table_writer::put(std::string_view key, std::string_view body, const conditions& asked) {
    read_key(key);
    read_value(body);
    hash_table_result result;
    if (asked.of_value())
        result = table_.modify(key_, value_, [&] {
            if (!asked.allow(value_)) return false;
            std::memcpy(value_.data(), wanted_.data(), wanted_.size());
            return true;
        });
    else
        result = asked.only_new() ? table_.try_insert(key_, wanted_) : table_.insert_or_assign(key_, wanted_);
    require_match(result, asked);
    require(result);
    return {result.what, key_, wanted_};
}

table_writer::written table_writer::erase(std::string_view key, const conditions& asked) {
    if (asked.only_new()) throw failure{400, "If-None-Match: * means nothing for what is taken out"};
    read_key(key);
    const hash_table_result result =
        asked.of_value() ? table_.erase_if(key_, value_, [&] { return asked.allow(value_); }) : table_.erase(key_);
    require_match(result, asked);
    require(result);
    return {entry_change::erased, key_, {}};
}

table_writer::written table_writer::increment(std::string_view key, std::string_view body, const conditions& asked) {
    if (asked.only_new()) throw failure{400, "If-None-Match: * means nothing for what is counted up"};
    read_key(key);
    std::int64_t by = 0;
    const field& counted = counted_field(body, by);
    bool fits = true;
    const hash_table_result result = table_.modify(key_, value_, [&] {
        return asked.allow(value_) && (fits = detail::add_to(counted.type, value_.data() + counted.offset, by));
    });
    require(result, fits ? 412 : 409);
    return {result.what, key_, value_};
}

}  // namespace holdfast::serve
