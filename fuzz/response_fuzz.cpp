// SPDX-License-Identifier: Apache-2.0
// response_fuzz.cpp - any bytes as the answers of a server, against a second reader written from the rules.
//
// The first byte says what was asked (bit 0: a HEAD), the rest is the stream up to its end. The reference takes it
// whole, a line at a time; the reader sees pieces, and keeps bodies or drops them as they come. They must agree on each
// response, its end, and whether there is another.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/net/chunked_decoder.hpp"
#include "net/response_reader.hpp"
#include "require.hpp"

namespace {

using namespace holdfast;
using fuzz::require;

constexpr std::uint64_t longest_body = std::uint64_t{1} << 30U;

net::message_limits limits() {
    net::message_limits all = net::response_reader::generous();
    all.chunk_extension_bytes_max = all.trailer_bytes_max = std::size_t{1} << 40U;
    all.body_bytes_max = longest_body;
    return all;
}

std::string described(int code, bool closes, std::string_view body, std::string_view trailers) {
    std::string text = std::to_string(code);
    if (closes) text += '!';
    text.append("[").append(body).append("]");
    if (!trailers.empty()) text.append("{").append(trailers).append("}");
    return text;
}

// --- the reference

struct field {
    std::string name;  // in lower case
    std::string value;
};

std::string lower(std::string_view text) {
    std::string made(text);
    for (char& c : made) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return made;
}

std::string trimmed(std::string_view text) {
    const std::size_t from = text.find_first_not_of(" \t");
    if (from == std::string_view::npos) return {};
    return std::string(text.substr(from, text.find_last_not_of(" \t") - from + 1));
}

bool is_token(std::string_view text) {
    return !text.empty() && text.find_first_not_of(
                                "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string_view::npos;
}

bool is_text(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f); });
}

bool is_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<std::string> split(std::string_view text, std::string_view at) {
    std::vector<std::string> parts;
    while (true) {
        const std::size_t end = text.find(at);
        parts.emplace_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + at.size());
    }
}

struct head {
    int code = 0;
    bool is_1_0 = false;
    std::vector<field> fields;

    [[nodiscard]] std::vector<std::string> values(std::string_view name) const {
        std::vector<std::string> found;
        for (const field& f : fields)
            if (f.name == name) found.push_back(f.value);
        return found;
    }
};

std::optional<head> parse_head(std::string_view text) {
    head made;
    std::vector<std::string> lines;
    for (std::string& line : split(text, "\r\n")) {
        const bool folded = line.starts_with(' ') || line.starts_with('\t');  // RFC 9112 section 5.2
        if (folded && lines.size() > 1)
            lines.back() += ' ' + line;
        else
            lines.push_back(std::move(line));
    }
    const std::string& first = lines[0];
    if (first.size() < 13 || !is_text(first) || first.substr(0, 7) != "HTTP/1." || (first[7] != '0' && first[7] != '1'))
        return std::nullopt;
    if (first[8] != ' ' || first[12] != ' ' || !is_number(first.substr(9, 3))) return std::nullopt;
    made.code = std::stoi(first.substr(9, 3));
    made.is_1_0 = first[7] == '0';
    if (made.code < 100 || made.code > 599 || made.code == 101) return std::nullopt;
    for (std::size_t i = 1; i < lines.size(); ++i) {
        const std::size_t colon = lines[i].find(':');
        if (colon == std::string::npos || !is_token(lines[i].substr(0, colon)) || !is_text(lines[i].substr(colon)))
            return std::nullopt;
        made.fields.push_back({lower(lines[i].substr(0, colon)), trimmed(lines[i].substr(colon + 1))});
    }
    if (made.fields.size() > limits().headers_max) return std::nullopt;
    return made;
}

struct ending {
    bool bodiless = false, chunked = false, closes = false;
    std::optional<std::uint64_t> length;
};

// RFC 9112 sections 6.3 and 9.3, rule by rule.
std::optional<ending> judge(const head& h, bool to_head) {
    ending e;
    bool keep_alive = false;
    for (const std::string& list : h.values("connection"))
        for (const std::string& member : split(list, ",")) {
            const std::string option = lower(trimmed(member));
            if (!option.empty() && !is_token(option)) return std::nullopt;
            e.closes |= option == "close";
            keep_alive |= option == "keep-alive";
        }
    e.closes |= h.is_1_0 && !keep_alive;
    const auto lengths = h.values("content-length");
    const auto codings = h.values("transfer-encoding");
    if (lengths.size() > 1 || codings.size() > 1 || (!lengths.empty() && !codings.empty())) return std::nullopt;
    if (!codings.empty()) {
        if (h.is_1_0 || lower(codings[0]) != "chunked") return std::nullopt;
        e.chunked = true;
    }
    if (!lengths.empty()) {
        std::string digits = lengths[0];
        if (!is_number(digits)) return std::nullopt;
        digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
        if (digits.size() > 20 || (digits.size() == 20 && digits > "18446744073709551615")) return std::nullopt;
        e.length = std::stoull(digits);
    }
    if ((h.code < 200 || h.code == 204) && (e.chunked || e.length.value_or(0) != 0)) return std::nullopt;
    e.bodiless = to_head || h.code < 200 || h.code == 204 || h.code == 304;
    if (e.bodiless)
        e.closes |= e.chunked && !to_head;
    else if (!e.chunked && !e.length)
        e.closes = true;
    else if (e.length.value_or(0) > longest_body)
        return std::nullopt;
    return e;
}

std::string reference(std::string_view rest, bool to_head) {
    std::string text;
    for (unsigned interim = 0; !rest.empty();) {
        constexpr std::string_view begin = "HTTP/1.";
        if (rest.substr(0, begin.size()) != begin.substr(0, rest.size())) return text + "refused";
        const std::size_t end = rest.find("\r\n\r\n");
        if (end == std::string_view::npos) {
            for (std::size_t i = 0; i < rest.size(); ++i) {
                const bool stray_feed = rest[i] == '\n' && (i == 0 || rest[i - 1] != '\r');
                const bool stray_return = rest[i] == '\r' && i + 1 < rest.size() && rest[i + 1] != '\n';
                if (stray_feed || stray_return || rest[i] == '\0') return text + "refused";
            }
            return text + "cut off";
        }
        const auto h = parse_head(rest.substr(0, end));
        const auto e = h ? judge(*h, to_head) : std::nullopt;
        if (!e) return text + "refused";
        rest.remove_prefix(end + 4);
        if (h->code < 200) {
            if (++interim > net::response_reader::interim_max) return text + "refused";
            continue;
        }
        interim = 0;
        std::string body, trailers;
        if (e->bodiless) {
        } else if (e->chunked) {
            net::chunked_decoder decoder(limits());
            body = rest;
            std::size_t read = 0, write = 0;
            const auto status = decoder.decode(body, read, write);
            if (status == net::chunked_decoder::status::refused) return text + "refused";
            if (status == net::chunked_decoder::status::need_more) return text + "cut off";
            body.resize(write);
            const std::size_t last = decoder.trailer_bytes();
            trailers = rest.substr(read - last, last - 2);
            rest.remove_prefix(read);
        } else {
            const std::uint64_t bytes = e->length.value_or(rest.size());
            if (bytes > rest.size()) return text + "cut off";
            body = rest.substr(0, bytes);
            rest.remove_prefix(bytes);
        }
        text += described(h->code, e->closes, body, trailers);
    }
    return text;
}

// --- the reader

std::string read_in_steps(std::string_view stream, std::size_t step, bool to_head, bool dropping) {
    net::response_reader reader(limits());
    std::string text, body;
    for (std::size_t at = 0; at <= stream.size(); at += step) {
        const bool ended = at + step > stream.size();
        reader.buffer().append(stream.substr(at, step));
        while (!reader.buffer().empty()) {
            const auto now = reader.next(to_head, ended);
            if (now == net::response_reader::status::malformed) {
                require(reader.fault() != net::response_fault::none && !reader.reason().empty(), "a reason");
                return text + "refused";
            }
            if (dropping && reader.has_head()) {
                body += reader.body();
                reader.drop_body();
            }
            if (now == net::response_reader::status::need_more) break;
            if (!dropping) body = reader.body();
            text += described(reader.code(), reader.closes(), body, reader.trailers());
            body.clear();
            reader.drop();
        }
    }
    return text + (reader.buffer().empty() ? "" : "cut off");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    if (bytes == 0) return 0;
    const bool to_head = (data[0] & 1U) != 0;
    const std::string stream(data + 1, data + bytes);
    const std::string expected = reference(stream, to_head);
    for (const std::size_t step : {stream.size() + 1, std::size_t{1}, std::size_t{3}, std::size_t{17}})
        for (const bool dropping : {false, true})
            require(read_in_steps(stream, step, to_head, dropping) == expected, "the rules decide, however cut");
    return 0;
}
