// SPDX-License-Identifier: Apache-2.0
// report.hpp - lines of text about a segment's contents. Longer than any sound one's is refused: who scribbles on a
// segment may have the same value told a hundred times.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "holdfast/segment.hpp"

namespace holdfast::test {

class report {
 public:
    static constexpr std::size_t text_bytes_max = 16 << 10;

    template <class... Part>
    void line(const Part&... part) {
        (add(part), ...);
        text_ += '\n';
    }
    [[nodiscard]] std::string text() const { return text_; }

 private:
    void require_room(std::size_t bytes) const {
        if (bytes > text_bytes_max - std::min(text_.size(), text_bytes_max))
            throw std::runtime_error("more contents than any sound segment of the subjects has");
    }
    void add(std::string_view part) {
        require_room(part.size());
        text_ += part;
    }
    template <class Number>
        requires(std::integral<Number> || std::floating_point<Number>)
    void add(Number number) {
        if constexpr (std::same_as<Number, bool>) {
            text_ += number ? "yes" : "no";
        } else {
            char digits[40];
            const auto end = std::to_chars(digits, digits + sizeof digits, number);
            text_.append(digits, end.ptr);
        }
    }
    // Printable bytes as they are, others as \xNN.
    void add(std::span<const std::byte> bytes) {
        constexpr std::string_view hex = "0123456789abcdef";
        require_room(4 * bytes.size());
        for (const std::byte b : bytes) {
            const auto c = static_cast<unsigned char>(b);
            if (c >= ' ' && c <= '~' && c != '\\') {
                text_ += static_cast<char>(c);
            } else {
                text_ += "\\x";
                text_ += hex[c >> 4];
                text_ += hex[c & 15];
            }
        }
    }

    std::string text_;
};

/// What a segment's header says to every reader. The identity is left out: it is random.
inline void describe_header(report& out, const segment& s) {
    const segment_info& info = s.info();
    out.line("kind ", kind_name(info.kind), ", container version ", info.container_version, ", writers ",
             info.policy == writers::one ? "one" : "many");
    out.line("schema ", info.schema);
    out.line("body ", info.body_bytes, " bytes, peer slots ", info.peer_slots, ", created ", info.created_ns);
    for (std::size_t i = 0; i < info.geometry.size(); ++i)
        if (info.geometry[i] != 0) out.line("geometry ", i, ": ", info.geometry[i]);
}

}  // namespace holdfast::test
