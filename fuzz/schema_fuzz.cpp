// SPDX-License-Identifier: Apache-2.0
// Any bytes as schema text: refused, or canonical and safe to show and read records by.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/record.hpp"
#include "require.hpp"

namespace {

using holdfast::fuzz::require;

/// Shows a record made of the input's own bytes, and reads each field back from what was shown.
void use(const holdfast::record_schema& schema, std::string_view bytes) {
    if (schema.bytes() > 65536) return;
    std::vector<std::byte> record(schema.bytes());
    for (std::size_t i = 0; i < record.size() && !bytes.empty(); ++i)
        record[i] = static_cast<std::byte>(bytes[i % bytes.size()]);
    std::string out;
    holdfast::append_json(out, schema, record);
    std::vector<std::byte> copy(record.size());
    for (const holdfast::field& f : schema.fields()) {
        std::string shown, again;
        holdfast::append_text(shown, f, record.data());
        if (holdfast::parse_text(f, shown, copy.data())) {
            require(f.type == holdfast::field_type::boolean);  // a damaged bool is shown as a number that is not read
            continue;
        }
        holdfast::append_text(again, f, copy.data());
        require(shown == again);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    const std::string_view text(reinterpret_cast<const char*>(data), bytes);
    try {
        const holdfast::container_schema schema = holdfast::container_schema::parse(text);
        require(schema.text() == text);
        std::string why;
        require(compare(schema, schema, why) == holdfast::schema_relation::same);
        if (schema.key) use(*schema.key, text);
        if (schema.value) use(*schema.value, text);
    } catch (const holdfast::error& e) {
        require(e.reason() == holdfast::errc::schema_mismatch);
    }
    try {
        const holdfast::record_schema schema = holdfast::record_schema::parse_list(text);
        require(holdfast::record_schema::parse(schema.text()) == schema);
        use(schema, text);
    } catch (const holdfast::error& e) {
        require(e.reason() == holdfast::errc::invalid_argument);
    }
    return 0;
}
