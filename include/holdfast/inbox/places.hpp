// SPDX-License-Identifier: Apache-2.0
// places.hpp - where the inbox of a table lies, and how the segments of one are told from others'. See inbox.hpp.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/error.hpp"
#include "holdfast/inbox/messages.hpp"
#include "holdfast/memory/uri.hpp"
#include "holdfast/segment.hpp"

namespace holdfast::detail {

inline constexpr std::string_view inbox_suffix = ".inbox";
inline constexpr std::string_view answers_suffix = ".answers";

/// The names of a table's inbox.
struct inbox_places {
    std::string commands, answers;

    /// Throws: unsupported where memory has no such neighbours; invalid_name where the table's name is too long.
    [[nodiscard]] static inbox_places of(const memory::uri& table) {
        if (!table.is_path())
            throw error(errc::unsupported, table.text(),
                        "only a posix: or file: table has an inbox, which lies beside it; make the table one");
        const std::string stem = table.text();
        inbox_places result{stem + std::string(inbox_suffix), stem + std::string(answers_suffix)};
        for (const std::string& each : {result.commands, result.answers}) (void)memory::uri::parse(each);
        return result;
    }
};

/// Whether a segment holds the answers of an inbox, by its kind and its fields.
[[nodiscard]] inline bool holds_inbox_answers(const segment& s) {
    return s.info().kind == container_kind::broadcast && is_inbox_answer_schema(s.info().schema);
}

}  // namespace holdfast::detail
