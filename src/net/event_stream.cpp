// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/event_stream.hpp"

#include <algorithm>

#include "holdfast/error.hpp"

namespace holdfast::net {

namespace {

constexpr std::string_view line_ends = "\r\n";

void check_line(std::string_view text, const char* what) {
    using namespace std::string_view_literals;
    if (text.find_first_of("\r\n\0"sv) != std::string_view::npos)
        throw error(errc::invalid_argument, what, "holds a line break or a NUL; an event's id and type are one line");
}

}  // namespace

void append_event(std::string& out, const server_event& said) {
    check_line(said.event, "server_event::event");
    if (said.id) check_line(*said.id, "server_event::id");
    if (said.retry && said.retry->count() < 0)
        throw error(errc::invalid_argument, "server_event::retry", "is negative; give milliseconds");
    if (!said.event.empty()) out.append("event: ").append(said.event).append("\n");
    if (said.id) out.append("id: ").append(*said.id).append("\n");
    if (said.retry) out.append("retry: ").append(std::to_string(said.retry->count())).append("\n");
    std::string_view rest = said.data;
    while (true) {
        const std::size_t end = rest.find_first_of(line_ends);
        out.append("data: ").append(rest.substr(0, end)).append("\n");
        if (end == std::string_view::npos) break;
        rest.remove_prefix(end + (rest.substr(end).starts_with(line_ends) ? 2 : 1));
    }
    out.append("\n");
}

void append_event_comment(std::string& out, std::string_view text) {
    const std::size_t begin = out.append(": ").size();
    out.append(text);
    std::replace_if(
        out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), [](char c) { return c == '\r' || c == '\n'; },
        ' ');
    out.append("\n\n");
}

}  // namespace holdfast::net
