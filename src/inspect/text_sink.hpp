// SPDX-License-Identifier: Apache-2.0
// text_sink.hpp - where text of any length goes, piece by piece.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::inspect {

/// Takes a piece of the text.
using text_sink = std::function<void(std::string_view)>;

/// Gathers lines for a sink, which gets them in pieces of 64 KiB or so. What was not flushed is never written.
class text_pieces {
 public:
    explicit text_pieces(text_sink sink) : sink_(std::move(sink)) {}

    /// To append to.
    [[nodiscard]] std::string& text() noexcept { return text_; }
    /// A line was appended: gives the piece away when it is large enough.
    void line_done() {
        if (text_.size() >= piece_bytes) flush();
    }
    void flush() {
        if (!text_.empty()) sink_(text_);
        text_.clear();
    }

 private:
    static constexpr std::size_t piece_bytes = std::size_t{64} << 10;

    text_sink sink_;
    std::string text_;
};

}  // namespace holdfast::inspect
