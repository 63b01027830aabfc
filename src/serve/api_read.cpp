// SPDX-License-Identifier: Apache-2.0
// api_read.cpp - the routes that read entries of tables and indexes.
#include <algorithm>
#include <optional>
#include <utility>

#include "holdfast/error.hpp"
#include "holdfast/net/conditional.hpp"
#include "holdfast/record.hpp"
#include "inspect/entry_codec.hpp"
#include "inspect/json_keys.hpp"
#include "serve/answering.hpp"
#include "serve/api.hpp"
#include "serve/conditions.hpp"
#include "serve/failure.hpp"

namespace holdfast::serve {

namespace {

const net::prepared_header& no_cache() {
    static const net::prepared_header field("Cache-Control", "no-cache");
    return field;
}
const net::prepared_header& of_json() {
    static const net::prepared_header field("Content-Type", json_type);
    return field;
}

/// Ends an answer whose body has been written: 200, or what the request's conditions make of one with this tag.
void finish(net::response& to, const net::request& from, std::string_view tag) {
    const net::condition verdict = net::judge_conditions(from, {.tag = tag});
    if (verdict == net::condition::failed) {
        to.problem(412, "If-Match does not name the tag of what is here");
        return;
    }
    to.header("ETag", tag);
    to.header(no_cache());
    if (verdict == net::condition::not_modified) {
        to.status(304);
        to.body_buffer().clear();
        return;
    }
    to.header(of_json());
}

/// The fields that ?fields=a,b asks for; empty: all.
std::vector<std::string_view> fields_of(const net::query_parameters& query) {
    std::vector<std::string_view> fields;
    std::optional<std::string_view> list = query.get("fields");
    while (list) {
        const std::size_t comma = std::min(list->find(','), list->size());
        fields.push_back(list->substr(0, comma));
        if (comma == list->size()) break;
        list->remove_prefix(comma + 1);
    }
    return fields;
}

/// Writes entries of one source with the fields that a request asks for.
class entry_writer {
 public:
    entry_writer(source& from, const net::query_parameters& query) : all_(&from.writer()) {
        if (const auto fields = fields_of(query); !fields.empty()) chosen_.emplace(from.schema(), fields);
    }
    void append(std::string& out, std::span<const std::byte> key, std::span<const std::byte> value) const {
        (chosen_ ? *chosen_ : *all_).append(out, key, value);
    }

 private:
    const json_writer* all_;
    std::optional<json_writer> chosen_;
};

const record_schema& key_schema(const source& from) {
    if (!from.schema().key) throw failure{404, "this segment has no keys; GET /v1/segments shows its schema"};
    return *from.schema().key;
}

}  // namespace

lookup_counters& api::counters_of(const std::string& segment) {
    if (const auto at = lookups_.find(segment); at != lookups_.end()) return at->second;
    const auto asked = std::ranges::find(count_by_, segment, &count_by::segment);
    return lookups_.try_emplace(segment, counts_.counters, segment, asked != count_by_.end() ? asked->field : "")
        .first->second;
}

void api::read_key(const record_schema& schema, const std::string& text) {
    key_.resize(schema.bytes());
    if (const auto reason = inspect::read_record(schema, text, key_))
        throw failure{400, "key " + text + ": " + *reason};
}

void api::get_index(exchange& it, const std::string& segment, const std::string& key) {
    check_parameters(it.query, {"fields"});
    index_source& index = catalog_.index(segment, it.who);
    read_key(key_schema(index), key);
    // A segment has one name in the counts, however the request spells it.
    lookup_counters& counters = counters_of(catalog::name_of(index.memory().uri()));
    const field* const counted = counters.field().empty() ? nullptr
                                 : index.schema().value   ? index.schema().value->find(counters.field())
                                                          : nullptr;
    const entry_writer writer(index, it.query);
    std::string& body = it.to.body_buffer();
    const index_answer result =
        index.find(key_, [&](std::span<const std::byte> found, std::span<const std::byte> value) {
            writer.append(body, found, value);
            text_.clear();
            if (counted != nullptr) append_text(text_, *counted, value.data());
        });
    check_lookup(result.status, segment);
    if (result.status == lookup::absent) {
        counters.miss();
        it.to.problem(404, "no range of " + segment + " holds " + key);
        return;
    }
    counters.hit();
    if (counted != nullptr) counters.value(text_);
    finish(it.to, it.from, result.tag);
}

void api::get_entry(exchange& it, const std::string& segment, const std::string& key) {
    check_parameters(it.query, {"fields"});
    table_source& table = catalog_.table(segment, it.who);
    read_key(key_schema(table), key);
    const entry_writer writer(table, it.query);
    std::string& body = it.to.body_buffer();
    entity_tag tag;
    const lookup result = table.find(key_, [&](auto found, auto value) {
        tag = table.tags().of(value);
        writer.append(body, found, value);
    });
    check_lookup(result, segment);
    if (result == lookup::absent) {
        it.to.problem(404, segment + " has no entry " + key);
        return;
    }
    finish(it.to, it.from, tag.text());
}

void api::scan_table(exchange& it, const std::string& segment) {
    check_parameters(it.query, {"fields", "cursor", "limit"});
    const std::uint64_t cursor = number_of(it.query, "cursor", 0);
    const std::uint64_t limit = number_of(it.query, "limit", page_default);
    if (limit == 0 || limit > page_max) throw failure{400, "limit lies between 1 and " + std::to_string(page_max)};
    table_source& table = catalog_.table(segment, it.who);
    const entry_writer writer(table, it.query);
    std::string body = "{\"entries\":[";
    bool first = true;
    const auto next = table.scan(cursor, static_cast<std::size_t>(limit), [&](auto key, auto value) {
        if (!std::exchange(first, false)) body += ',';
        writer.append(body, key, value);
    });
    if (table.cut_off()) check_lookup(lookup::cut_off, segment);
    if (table.broken()) check_lookup(lookup::damaged, segment);      // the page may have ended early
    if (table.was_busy()) check_lookup(lookup::contended, segment);  // it lacks an entry
    body.append("],\"next\":").append(next ? "\"" + std::to_string(*next) + "\"" : "null").append("}");
    answer_json(it.to, std::move(body));
}

void api::batch_get(exchange& it, const std::string& segment) {
    check_parameters(it.query, {"fields"});
    table_source& table = catalog_.table(segment, it.who);
    const record_schema& keys = key_schema(table);
    const entry_writer writer(table, it.query);
    std::string why;
    const auto asked = inspect::parse_json_keys(it.from.body(), batch_keys_max, why);
    if (!asked) throw failure{400, why};
    std::string body = "{\"entries\":[";
    bool first = true;
    for (const std::string& text : *asked) {
        if (!std::exchange(first, false)) body += ',';
        read_key(keys, text);
        const lookup result = table.find(key_, [&](auto key, auto value) { writer.append(body, key, value); });
        check_lookup(result, segment);
        if (result == lookup::absent) body += "null";
        if (body.size() > batch_bytes_max)
            throw failure{413, "these entries are more than " + std::to_string(batch_bytes_max >> 20U) +
                                   " MiB together; ask for fewer at once"};
    }
    body += "]}";
    answer_json(it.to, std::move(body));
}

}  // namespace holdfast::serve
