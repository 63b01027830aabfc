// SPDX-License-Identifier: Apache-2.0
// Any bytes as JSON for a record of every type: refused with a place inside the text, or read, and then stable: what is
// written from the record reads back to the same record. Input: JSON, or a field list, a new line and JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/record.hpp"
#include "inspect/record_json.hpp"

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

holdfast::record_schema choose_schema(std::string_view& text) {
    const std::size_t line = text.find('\n');
    if (line != std::string_view::npos && !text.starts_with('{')) {
        try {
            holdfast::record_schema schema = holdfast::record_schema::parse_list(text.substr(0, line));
            if (schema.bytes() <= 4096) {
                text.remove_prefix(line + 1);
                return schema;
            }
        } catch (const holdfast::error&) {  // not a field list: all of it is JSON
        }
    }
    return holdfast::record_schema::parse_list(
        "a:u8,b:i64,c:u64,d:f32,e:f64,f:bool,g:char[5],h:bytes[2],i:ipv4,j:ipv6,k:timestamp,l:u16<x=1|y=2>,m:i32[2]");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    std::string_view text(reinterpret_cast<const char*>(data), bytes);
    const holdfast::record_schema schema = choose_schema(text);
    holdfast::inspect::record_json_reader reader(schema);
    std::vector<std::byte> record(schema.bytes()), copy(schema.bytes());
    if (const auto failure = reader.read(text, record)) {
        require(failure->position <= text.size());
        require(!failure->message().empty());
        return 0;
    }
    std::string json;
    holdfast::append_json(json, schema, record);
    require(!reader.read(json, copy));
    require(copy == record);
    return 0;
}
