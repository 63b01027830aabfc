// SPDX-License-Identifier: Apache-2.0
// http_trace.hpp - what the request parser makes of a stream of bytes, as text, however the stream is cut.
//
// It drives the parser by its contract alone: keeps what kept() says, moves the bytes to fresh memory of exactly their
// size between calls (a read past them or through a stale pointer shows under the address sanitizer), and goes on with
// the next request behind consumed().
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/net/http_parser.hpp"

namespace holdfast::test {

/// Every property of a parsed request, one text.
[[nodiscard]] inline std::string describe(const net::request& r) {
    std::string text(net::method_name(r.method()));
    const auto part = [&text](std::string_view name, std::string_view value) {
        text.append(" ").append(name).append("=").append(value);
    };
    part("target", r.target());
    part("form", std::to_string(static_cast<int>(r.form())));
    part("path", r.path());
    part("query", r.query());
    part("host", r.host());
    part("minor", std::to_string(r.minor_version()));
    part("keep", r.keep_alive() ? "yes" : "no");
    part("continue", r.expects_continue() ? "yes" : "no");
    part("wire", std::to_string(r.wire_bytes()));
    for (std::size_t i = 0; i < r.headers_size(); ++i) part(r.header_at(i).name, r.header_at(i).value);
    part("body", r.body());
    return text + "\n";
}

class http_trace {
 public:
    explicit http_trace(const net::message_limits& limits = {}) : parser_(limits) {}

    /// The next bytes of the stream, as one arrival.
    void feed(std::string_view bytes) {
        if (refused_) return;
        held_.append(bytes);
        std::size_t used = 0;
        while (used < held_.size()) {
            const std::size_t size = held_.size() - used;
            const auto exact = std::make_unique<char[]>(size);
            held_.copy(exact.get(), size, used);
            const net::parse_status status = parser_.parse({exact.get(), size});
            if (status == net::parse_status::need_more) {
                if (parser_.kept() > size) std::abort();
                held_.assign(exact.get(), parser_.kept());
                return;
            }
            if (status == net::parse_status::refused) {
                refused_ = true;
                text_ += "refused " + std::to_string(parser_.refusal_status()) + " " +
                         std::string(parser_.refusal_reason()) + "\n";
                return;
            }
            if (parser_.consumed() == 0 || parser_.consumed() > size) std::abort();
            text_ += describe(parser_.message());
            used += parser_.consumed();
            parser_.reset();
            ++requests_;
        }
        held_.clear();
    }

    /// All that was understood so far, and the refusal that ended it, if one did.
    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] int requests() const { return requests_; }
    /// 0 while nothing has been refused.
    [[nodiscard]] int refusal() const { return refused_ ? parser_.refusal_status() : 0; }
    [[nodiscard]] std::string_view reason() const { return parser_.refusal_reason(); }
    [[nodiscard]] std::size_t held() const { return held_.size(); }

 private:
    net::request_parser parser_;
    std::string held_;
    std::string text_;
    int requests_ = 0;
    bool refused_ = false;
};

[[nodiscard]] inline std::string trace_whole(std::string_view stream, const net::message_limits& limits = {}) {
    http_trace trace(limits);
    trace.feed(stream);
    return trace.text();
}

/// Fed in pieces of `step` bytes.
[[nodiscard]] inline std::string trace_in_steps(std::string_view stream, std::size_t step,
                                                const net::message_limits& limits = {}) {
    http_trace trace(limits);
    for (std::size_t at = 0; at < stream.size(); at += step) trace.feed(stream.substr(at, step));
    return trace.text();
}

/// Fed in two pieces.
[[nodiscard]] inline std::string trace_cut_at(std::string_view stream, std::size_t cut,
                                              const net::message_limits& limits = {}) {
    http_trace trace(limits);
    trace.feed(stream.substr(0, cut));
    trace.feed(stream.substr(cut));
    return trace.text();
}

}  // namespace holdfast::test
