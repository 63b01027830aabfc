// SPDX-License-Identifier: Apache-2.0
// event_stream.hpp - server-sent events as text, for a stream of Content-Type text/event-stream.
//
// Source: the HTML standard, section 9.2, "Server-sent events".
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::net {

struct server_event {
    std::string_view data;                             ///< any lines; CR, LF and CR LF all end one
    std::string_view event{};                          ///< its type; empty: "message"
    std::optional<std::string_view> id{};              ///< what a client that comes back says in Last-Event-ID
    std::optional<std::chrono::milliseconds> retry{};  ///< how long a client waits before it comes back
};

/// Appends an event. Data without a line is an event all the same, with empty data.
/// Throws: error(invalid_argument) for an id or a type with a line break or a NUL, which would be another event, and
/// for a negative `retry`; `out` is then unchanged.
void append_event(std::string& out, const server_event& said);

/// Appends a comment, which clients pass over: a sign of life that keeps what is between alive. Its line breaks become
/// spaces.
void append_event_comment(std::string& out, std::string_view text = {});

}  // namespace holdfast::net
