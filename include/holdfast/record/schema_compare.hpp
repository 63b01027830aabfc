// SPDX-License-Identifier: Apache-2.0
// schema_compare.hpp - whether a program may read what a segment stores, and the sentence that says why not.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/record/schema.hpp"

namespace holdfast {

namespace detail {

[[nodiscard]] inline std::string field_text(const field& f) {
    return f.name + ':' + type_text(f) + '@' + std::to_string(f.offset);
}

[[nodiscard]] inline bool same_field(const field& a, const field& b, bool compare_names) {
    return a.type == b.type && a.offset == b.offset && a.bytes == b.bytes && a.count == b.count &&
           a.enumerators == b.enumerators && (!compare_names || a.name == b.name);
}

/// The first difference in words, or nothing if `wanted` is `stored` or its beginning.
[[nodiscard]] inline std::string first_difference(const record_schema& stored, const record_schema& wanted) {
    const auto &have = stored.fields(), &want = wanted.fields();
    for (std::size_t i = 0; i < want.size(); ++i) {
        if (i >= have.size()) return concat("the segment lacks field ", field_text(want[i]));
        if (!same_field(have[i], want[i], !wanted.scalar()))
            return concat("field ", i + 1, " is ", field_text(have[i]), " in the segment and ", field_text(want[i]),
                          " in the program");
    }
    if (stored.alignment() < wanted.alignment())
        return concat("the segment aligns records to ", stored.alignment(), " bytes, the program to ",
                      wanted.alignment());
    if (have.size() > want.size())
        return wanted.scalar() ? "the segment stores records, the program a single value" : std::string();
    if (stored.bytes() != wanted.bytes())
        return concat("a record takes ", stored.bytes(), " bytes in the segment and ", wanted.bytes(),
                      " in the program");
    if (stored.alignment() != wanted.alignment()) return "the alignments differ";
    return {};
}

[[nodiscard]] inline std::string both_schemas(std::string_view stored, std::string_view wanted) {
    return concat("; the segment stores ", stored, ", the program wants ", wanted);
}

}  // namespace detail

inline schema_relation compare(const record_schema& stored, const record_schema& wanted, std::string& why) {
    const std::string difference = detail::first_difference(stored, wanted);
    if (!difference.empty()) {
        why = difference + detail::both_schemas(stored.text(), wanted.text());
        return schema_relation::different;
    }
    if (stored.fields().size() == wanted.fields().size()) return schema_relation::same;
    if (stored.bytes() < wanted.bytes()) {  // cannot be by C++'s rules, but stored text is input
        why = detail::concat("the segment's records are shorter", detail::both_schemas(stored.text(), wanted.text()));
        return schema_relation::different;
    }
    why = detail::concat("the segment has fields the program does not know, from ",
                         detail::field_text(stored.fields()[wanted.fields().size()]), " on",
                         detail::both_schemas(stored.text(), wanted.text()));
    return schema_relation::stored_has_more_fields_at_end;
}

inline schema_relation compare(const container_schema& stored, const container_schema& wanted, std::string& why) {
    if (stored.key.has_value() != wanted.key.has_value() || stored.value.has_value() != wanted.value.has_value()) {
        const auto parts = [](const container_schema& s) {
            return s.key ? (s.value ? "keys and values" : "keys only") : "values only";
        };
        why = detail::concat("the segment has ", parts(stored), ", the program wants ", parts(wanted),
                             detail::both_schemas(stored.text(), wanted.text()));
        return schema_relation::different;
    }
    if (stored.key) {
        const schema_relation relation = compare(*stored.key, *wanted.key, why);
        if (relation != schema_relation::same) {
            why = detail::concat("key: ", why);
            return schema_relation::different;
        }
    }
    if (!stored.value) return schema_relation::same;
    const schema_relation relation = compare(*stored.value, *wanted.value, why);
    if (relation != schema_relation::same) why = detail::concat("value: ", why);
    return relation;
}

}  // namespace holdfast
