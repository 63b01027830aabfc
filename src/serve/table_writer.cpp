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

}  // namespace

table_writer::table_writer(const std::string& uri)
    : table_(attach_to_write(uri, [&](const auto& how) { return dynamic_hash_table::attach(uri, how); })),
      text_(table_.schema(), uri) {
    table_.set_patience(stripe_patience);
    value_.resize(table_.value_bytes());
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
    text_.read_key(key);
    text_.read_value(body);
    const std::span<const std::byte> wanted = text_.value();
    hash_table_result result;
    if (asked.of_value())
        result = table_.modify(text_.key(), value_, [&] {
            if (!asked.allow(value_, text_.tags())) return false;
            std::memcpy(value_.data(), wanted.data(), wanted.size());
            return true;
        });
    else
        result =
            asked.only_new() ? table_.try_insert(text_.key(), wanted) : table_.insert_or_assign(text_.key(), wanted);
    require_match(result, asked);
    require(result);
    return {result.what, text_.key(), wanted};
}

table_writer::written table_writer::erase(std::string_view key, const conditions& asked) {
    refuse_only_new(asked, "taken out");
    text_.read_key(key);
    const hash_table_result result =
        asked.of_value() ? table_.erase_if(text_.key(), value_, [&] { return asked.allow(value_, text_.tags()); })
                         : table_.erase(text_.key());
    require_match(result, asked);
    require(result);
    return {entry_change::erased, text_.key(), {}};
}

table_writer::written table_writer::increment(std::string_view key, std::string_view body, const conditions& asked) {
    refuse_only_new(asked, "counted up");
    text_.read_key(key);
    std::int64_t by = 0;
    const field& counted = text_.counted_field(body, by);
    bool fits = true;
    const hash_table_result result = table_.modify(text_.key(), value_, [&] {
        return asked.allow(value_, text_.tags()) &&
               (fits = detail::add_to(counted.type, value_.data() + counted.offset, by));
    });
    require(result, fits ? 412 : 409);
    return {result.what, text_.key(), value_};
}

}  // namespace holdfast::serve
