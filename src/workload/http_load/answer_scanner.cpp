// SPDX-License-Identifier: Apache-2.0
#include "workload/http_load/answer_scanner.hpp"

#include <cstring>

namespace holdfast::workload::http {

namespace {

constexpr std::size_t head_bytes_max = std::size_t{16} << 10U;
constexpr std::size_t body_bytes_max = std::size_t{1} << 20U;

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// `name` in lower case, as long as `field`.
bool is_name(std::string_view field, std::string_view name) noexcept {
    for (std::size_t i = 0; i < name.size(); ++i) {
        const char c = field[i];
        if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != name[i]) return false;
    }
    return true;
}

std::string_view trimmed(std::string_view value) noexcept {
    while (value.starts_with(' ') || value.starts_with('\t')) value.remove_prefix(1);
    while (value.ends_with(' ') || value.ends_with('\t')) value.remove_suffix(1);
    return value;
}

struct framing {
    std::size_t length = 0;
    bool known = false;
    bool closes = false;
};

/// False for a field that makes the answer malformed here (I1).
bool read_field(std::string_view line, framing& out) noexcept {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) return false;
    const std::string_view value = trimmed(line.substr(colon + 1));
    switch (colon) {  // by the length of the name: nearly all fields end here
        case 10:
            if (is_name(line, "connection")) out.closes = out.closes || (value.size() == 5 && is_name(value, "close"));
            return true;
        case 14: {
            if (!is_name(line, "content-length")) return true;
            if (out.known || value.empty() || value.size() > 7) return false;
            for (const char c : value) {
                if (!is_digit(c)) return false;
                out.length = out.length * 10 + static_cast<std::size_t>(c - '0');
            }
            out.known = true;
            return out.length <= body_bytes_max;
        }
        case 17: return !is_name(line, "transfer-encoding");
        default: return true;
    }
}

}  // namespace

scan_status scan_answer(std::string_view bytes, answer& out) noexcept {
    constexpr std::string_view version = "HTTP/1.1 ";
    if (const std::size_t seen = bytes.size() < version.size() ? bytes.size() : version.size();
        bytes.substr(0, seen) != version.substr(0, seen))
        return scan_status::malformed;
    framing frame;
    bool bodiless = false;  // whatever length the fields tell
    std::size_t at = 0;
    while (true) {
        const void* const newline =
            bytes.size() > at ? std::memchr(bytes.data() + at, '\n', bytes.size() - at) : nullptr;
        if (newline == nullptr) return bytes.size() > head_bytes_max ? scan_status::malformed : scan_status::need_more;
        const auto end = static_cast<std::size_t>(static_cast<const char*>(newline) - bytes.data());
        if (end == at || bytes[end - 1] != '\r') return scan_status::malformed;
        const std::string_view line = bytes.substr(at, end - 1 - at);
        const bool first = at == 0;
        at = end + 1;
        if (first) {
            if (line.size() < 13 || !is_digit(line[9]) || !is_digit(line[10]) || !is_digit(line[11]) || line[12] != ' ')
                return scan_status::malformed;
            out.status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
            if (out.status < 200) return scan_status::malformed;
            bodiless = out.status == 204 || out.status == 304;
        } else if (line.empty()) {
            break;
        } else if (!read_field(line, frame)) {
            return scan_status::malformed;
        }
    }
    if (bodiless) frame = {.length = 0, .known = true, .closes = frame.closes};
    if (!frame.known || at > head_bytes_max) return scan_status::malformed;
    if (bytes.size() - at < frame.length) return scan_status::need_more;
    out.body = bytes.substr(at, frame.length);
    out.bytes = at + frame.length;
    out.closes = frame.closes;
    return scan_status::complete;
}

scan_status answer_heads::scan(std::string_view bytes, answer& out) noexcept {
    if (head_bytes_ != 0 && bytes.size() >= head_bytes_ + body_bytes_ &&
        std::memcmp(bytes.data(), head_.data(), head_bytes_) == 0) {
        out = known_;
        out.body = bytes.substr(head_bytes_, body_bytes_);
        return scan_status::complete;
    }
    const scan_status status = scan_answer(bytes, out);
    if (status != scan_status::complete || out.bytes - out.body.size() > head_.size()) return status;
    known_ = out;
    body_bytes_ = out.body.size();
    head_bytes_ = out.bytes - body_bytes_;
    std::memcpy(head_.data(), bytes.data(), head_bytes_);
    return status;
}

}  // namespace holdfast::workload::http
