// SPDX-License-Identifier: Apache-2.0
// answer_scanner.hpp - takes one HTTP answer off the front of received bytes, in tens of nanoseconds.
//
// The load generator looks at every answer of every subject, and must not become what is measured. So this knows less
// than net::response_reader and refuses the rest: a status line of HTTP/1.1, fields each ended by CRLF, exactly one
// Content-Length (204 and 304 have no body and need none), no Transfer-Encoding, no interim answers. All subjects are
// set up to answer like that (I1); one that does not fails the run instead of being compared by another kind of answer.
// Threads: a pure function, and plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace holdfast::workload::http {

struct answer {
    int status = 0;
    std::string_view body;  ///< of the bytes that were scanned
    std::size_t bytes = 0;  ///< of head and body
    bool closes = false;    ///< "Connection: close"
};

enum class scan_status : std::uint8_t { complete, need_more, malformed };

/// Looks for one whole answer at the front of `bytes`; fills `out` when it is complete.
[[nodiscard]] scan_status scan_answer(std::string_view bytes, answer& out) noexcept;

/// The same for the answers of one server, whose heads are mostly the bytes of the one before: they are compared with
/// it, and looked at only where they differ.
class answer_heads {
 public:
    [[nodiscard]] scan_status scan(std::string_view bytes, answer& out) noexcept;

 private:
    std::array<char, 512> head_{};
    std::size_t head_bytes_ = 0, body_bytes_ = 0;  // 0: none is known
    answer known_{};
};

}  // namespace holdfast::workload::http
