// SPDX-License-Identifier: Apache-2.0
// Any bytes as JSON for a record of every type: refused with a place inside the text, or read, and then stable: what is
// written from the record reads back to the same record. Input: JSON, or a field list, a new line and JSON.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/record.hpp"
#include "inspect/record_json.hpp"
#include "require.hpp"

namespace {

using holdfast::fuzz::require;

struct subject {
    explicit subject(holdfast::record_schema s) : schema(std::move(s)), reader(schema) {}
    holdfast::record_schema schema;
    holdfast::inspect::record_json_reader reader;
};

/// The field list in the first line, which is removed.
std::optional<holdfast::record_schema> take_schema(std::string_view& text) {
    const std::size_t line = text.find('\n');
    if (line == std::string_view::npos || text.starts_with('{')) return std::nullopt;
    try {
        holdfast::record_schema schema = holdfast::record_schema::parse_list(text.substr(0, line));
        if (schema.bytes() > 4096) return std::nullopt;
        text.remove_prefix(line + 1);
        return schema;
    } catch (const holdfast::error&) {
        return std::nullopt;  // not a field list: all of it is JSON
    }
}

void check(subject& s, std::string_view text) {
    std::vector<std::byte> record(s.schema.bytes()), copy(s.schema.bytes());
    if (const auto failure = s.reader.read(text, record)) {
        require(failure->position <= text.size());
        require(!failure->message().empty());
        return;
    }
    std::string json;
    holdfast::append_json(json, s.schema, record);
    require(!s.reader.read(json, copy));
    require(copy == record);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    // Made once: a reader keeps its memory, and what one text leaves behind must not matter to the next.
    static subject every_type(holdfast::record_schema::parse_list(
        "a:u8,b:i64,c:u64,d:f32,e:f64,f:bool,g:char[5],h:bytes[2],i:ipv4,j:ipv6,k:timestamp,l:u16<x=1|y=2>,m:i32[2]"));
    std::string_view text(reinterpret_cast<const char*>(data), bytes);
    if (auto schema = take_schema(text)) {
        subject given(std::move(*schema));
        check(given, text);
    } else {
        check(every_type, text);
    }
    return 0;
}
