// SPDX-License-Identifier: Apache-2.0
// websocket_messages.hpp - the messages that every subject is sent, and frames taken off what comes back.
//
// Like the answers of the http suite, frames are read by less than the library has, so that the client costs less than
// any server: one frame a message, binary, no mask, lengths in their shortest form; anything else fails the run.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "http/load.hpp"

namespace holdfast::bench::websocket {

/// The opening handshake for a path, and frames in place of answers.
[[nodiscard]] http::load_protocol protocol_of(std::string_view path);

/// The opening handshake's request.
[[nodiscard]] std::string opening_of(std::string_view path);

/// Masked frames of `bytes` random bytes, a few different ones, and what is to come back.
[[nodiscard]] std::vector<http::exchange> make_messages(std::size_t bytes);

/// As scan_answer: the frame at the front of `bytes`; the status of one that is as it should be is 200.
[[nodiscard]] workload::http::scan_status scan_frame(std::string_view bytes, workload::http::answer& out) noexcept;

}  // namespace holdfast::bench::websocket
