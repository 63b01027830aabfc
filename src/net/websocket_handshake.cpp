// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/websocket_handshake.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "characters.hpp"
#include "holdfast/error.hpp"
#include "sha1.hpp"

namespace holdfast::net {

namespace {

using detail::all;
using detail::is;
using detail::is_blank;
using detail::is_digit;
using detail::token_char;
using detail::trim_blanks;
using detail::value_char;

constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// The base64 of N bytes, padded. (RFC 4648 section 4)
template <std::size_t N>
std::array<char, (N + 2) / 3 * 4> base64(const std::array<std::uint8_t, N>& bytes) noexcept {
    std::array<char, (N + 2) / 3 * 4> text;
    for (std::size_t i = 0, at = 0; i < N; i += 3, at += 4) {
        const auto byte = [&](std::size_t k) { return k < N ? std::uint32_t{bytes[k]} : 0U; };
        const std::uint32_t group = byte(i) << 16U | byte(i + 1) << 8U | byte(i + 2);
        for (std::size_t k = 0; k < 4; ++k)
            text[at + k] = i + k <= N ? base64_digits[group >> (18 - 6 * k) & 63U] : '=';
    }
    return text;
}

// What the base64 of 16 bytes looks like.
bool is_websocket_key(std::string_view text) noexcept {
    return text.size() == 24 && text.ends_with("==") &&
           text.substr(0, 22).find_first_not_of(base64_digits) == std::string_view::npos;
}

template <std::size_t N>
std::string_view view(const std::array<char, N>& text) noexcept {
    return {text.data(), N};
}

// Calls f with each member of a comma-separated list, without the blanks around it. Empty members are read over
// (RFC 9110 section 5.6.1.2).
template <class F>
void for_each_member(std::string_view list, F&& f) {
    while (true) {
        const std::size_t comma = list.find(',');
        const std::string_view member = trim_blanks(list.substr(0, comma));
        if (!member.empty()) f(member);
        if (comma == std::string_view::npos) return;
        list.remove_prefix(comma + 1);
    }
}

bool names(std::string_view list, std::string_view token) noexcept {
    bool found = false;
    for_each_member(list, [&](std::string_view member) { found |= equal_ignoring_case(member, token); });
    return found;
}

// Calls f with the value of each field of that name.
template <class F>
void for_each_value(const request& asked, std::string_view name, F&& f) {
    if (!asked.header(name)) return;
    for (std::size_t i = 0; i < asked.headers_size(); ++i)
        if (const header_field field = asked.header_at(i); equal_ignoring_case(field.name, name)) f(field.value);
}

bool names(const request& asked, std::string_view name, std::string_view token) noexcept {
    bool found = false;
    for_each_value(asked, name, [&](std::string_view value) { found |= names(value, token); });
    return found;
}

struct extension_parameter {
    std::string_view name;
    std::optional<std::string_view> value;  // of a quoted one what is within the quotes, with its backslashes
};

// extension-list of RFC 6455 section 9.1: tokens with parameters, whose values are tokens, also within quotes. Whoever
// reads it asks for every parameter of each extension.
class extension_list {
 public:
    explicit extension_list(std::string_view text) noexcept : rest_(text) {}

    /// Returns: false at the end of what is well-formed.
    [[nodiscard]] bool next(std::string_view& name) noexcept {
        for (blanks(); eat(','); blanks()) {
        }
        if (rest_.empty()) return false;
        any_ = true;
        return token(name) || fail();
    }
    [[nodiscard]] bool next_parameter(extension_parameter& parameter) noexcept {
        blanks();
        if (rest_.empty() || rest_.front() == ',') return false;
        if (!eat(';')) return fail();
        blanks();
        if (!token(parameter.name)) return fail();
        blanks();
        parameter.value.reset();
        if (!eat('=')) return true;
        blanks();
        return (eat('"') ? quoted(parameter.value.emplace()) : token(parameter.value.emplace())) || fail();
    }
    /// Behind the last extension.
    [[nodiscard]] bool is_well_formed() const noexcept { return any_ && !broken_; }

 private:
    void blanks() noexcept {
        while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
    }
    bool eat(char c) noexcept {
        if (rest_.empty() || rest_.front() != c) return false;
        rest_.remove_prefix(1);
        return true;
    }
    bool token(std::string_view& found) noexcept {
        found = rest_.substr(0, detail::skip(rest_.data(), 0, rest_.size(), token_char));
        rest_.remove_prefix(found.size());
        return !found.empty();
    }
    // A quoted-string whose value, without its backslashes, is a token.
    bool quoted(std::string_view& found) noexcept {
        const std::string_view begin = rest_;
        while (!rest_.empty() && rest_.front() != '"') {
            (void)eat('\\');
            if (rest_.empty() || !is(rest_.front(), token_char)) return false;
            rest_.remove_prefix(1);
        }
        found = begin.substr(0, begin.size() - rest_.size());
        return !found.empty() && eat('"');
    }
    bool fail() noexcept {
        broken_ = true;
        rest_ = {};
        return false;
    }

    std::string_view rest_;
    bool any_ = false;
    bool broken_ = false;
};

constexpr std::string_view deflate_name = "permessage-deflate";

// 8 to 15, without leading zeros.
std::optional<std::uint8_t> window_bits_of(std::string_view value) noexcept {
    unsigned bits = 0;
    for (const char c : value) {
        if (c == '\\') continue;
        if (!is_digit(c) || (bits == 0 && c == '0') || bits > 15) return std::nullopt;
        bits = bits * 10 + static_cast<unsigned>(c - '0');
    }
    if (bits < 8 || bits > 15) return std::nullopt;
    return static_cast<std::uint8_t>(bits);
}

// The parameters of permessage-deflate, in an offer or its answer. (RFC 7692 section 7.1)
class deflate_parameters {
 public:
    void take(const extension_parameter& parameter) noexcept {
        const auto [name, value] = parameter;
        if (name == "server_no_context_takeover")
            good_ &= !value && !std::exchange(server_forgets_, true);
        else if (name == "client_no_context_takeover")
            good_ &= !value && !std::exchange(client_forgets_, true);
        else if (name == "server_max_window_bits")
            good_ &= value && !std::exchange(server_bits_, window_bits_of(*value)) && server_bits_;
        else if (name == "client_max_window_bits")  // of an offer also without a value: may be asked for
            good_ &= !std::exchange(client_bits_, true) && (!value || window_bits_of(*value));
        else
            good_ = false;
    }

    // What a server makes of an offer. zlib has no window of 8 bits: such an offer is declined, as it may be.
    [[nodiscard]] bool is_acceptable() const noexcept { return good_ && server_bits_.value_or(15) > 8; }
    [[nodiscard]] std::optional<std::uint8_t> server_bits() const noexcept { return server_bits_; }

    // Whether it answers our offer. What the server sends we inflate whatever its window; ours was not up for
    // negotiation.
    [[nodiscard]] bool is_our_answer() const noexcept { return good_ && server_forgets_ && !client_bits_; }

 private:
    std::optional<std::uint8_t> server_bits_;
    bool server_forgets_ = false, client_forgets_ = false, client_bits_ = false;
    bool good_ = true;  // each known, once, with a value that it may have
};

// Whether the list is well-formed. Where `judged` is given, the first acceptable offer of permessage-deflate goes
// there.
bool read_offers(std::string_view list, websocket_upgrade* judged) noexcept {
    extension_list offers(list);
    std::string_view name;
    while (offers.next(name)) {
        deflate_parameters asked;
        for (extension_parameter each; offers.next_parameter(each);) asked.take(each);
        if (judged == nullptr || judged->window_bits != 0 || name != deflate_name || !asked.is_acceptable()) continue;
        judged->window_bits = asked.server_bits().value_or(15);
        judged->window_bits_asked = asked.server_bits().has_value();
    }
    return offers.is_well_formed();
}

bool is_answer_to_our_offer(std::string_view list) noexcept {
    extension_list answer(list);
    std::string_view name;
    if (!answer.next(name) || name != deflate_name) return false;
    deflate_parameters agreed;
    for (extension_parameter each; answer.next_parameter(each);) agreed.take(each);
    return !answer.next(name) && answer.is_well_formed() && agreed.is_our_answer();
}

// Subprotocols a request may list. No client needs a part of it, and each is compared with all before it.
constexpr std::size_t protocols_max = 32;

// Whether the client's lists are of different tokens; the first that is ours goes to `chosen`.
bool choose_protocol(const request& asked, std::span<const std::string_view> ours, std::string_view& chosen) noexcept {
    std::array<std::string_view, protocols_max> listed;
    std::size_t count = 0;
    bool good = true;
    for_each_value(asked, "Sec-WebSocket-Protocol", [&](std::string_view value) {
        for_each_member(value, [&](std::string_view member) {
            const auto end = listed.begin() + static_cast<std::ptrdiff_t>(count);
            good = good && count < listed.size() && all(member, token_char) &&
                   std::find(listed.begin(), end, member) == end;
            if (good) listed[count++] = member;
        });
    });
    if (!good || (count == 0 && asked.header("Sec-WebSocket-Protocol"))) return false;
    for (std::size_t i = 0; i < count && chosen.empty(); ++i)
        if (const auto found = std::ranges::find(ours, listed[i]); found != ours.end()) chosen = *found;
    return true;
}

}  // namespace

std::array<char, 28> websocket_accept(std::string_view key) noexcept {
    constexpr std::string_view identifier = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    std::array<char, 64> text;
    const std::size_t size = key.copy(text.data(), text.size() - identifier.size());
    identifier.copy(text.data() + size, identifier.size());
    return base64(detail::sha1({text.data(), size + identifier.size()}));
}

bool asks_for_websocket(const request& asked) noexcept { return names(asked, "Upgrade", "websocket"); }

websocket_upgrade judge_websocket_upgrade(const request& asked, std::span<const std::string_view> protocols,
                                          bool permessage_deflate) noexcept {
    const auto refusal = [](int status, std::string_view reason) {
        return websocket_upgrade{.status = status, .reason = reason, .protocol = {}};
    };
    // Malformed (400) outranks all else, so that a status never depends on which check runs first.
    websocket_upgrade judged;
    const auto key = asked.header("Sec-WebSocket-Key");
    if (asked.minor_version() < 1) return refusal(400, "WebSocket needs HTTP/1.1");
    if (!asked.body().empty()) return refusal(400, "a request for WebSocket has no body");
    if (asked.header_count("Sec-WebSocket-Version") > 1) return refusal(400, "repeated Sec-WebSocket-Version");
    if (asked.header_count("Sec-WebSocket-Key") > 1) return refusal(400, "repeated Sec-WebSocket-Key");
    if (key && !is_websocket_key(*key)) return refusal(400, "Sec-WebSocket-Key is not 16 bytes in base64");
    if (!choose_protocol(asked, protocols, judged.protocol)) return refusal(400, "malformed Sec-WebSocket-Protocol");
    bool extensions = true;
    for_each_value(asked, "Sec-WebSocket-Extensions", [&](std::string_view value) {
        extensions &= read_offers(value, permessage_deflate ? &judged : nullptr);
    });
    if (!extensions) return refusal(400, "malformed Sec-WebSocket-Extensions");
    if (asked.method() != method::get) return refusal(405, "a request for WebSocket is a GET");
    if (!asks_for_websocket(asked) || !names(asked, "Connection", "upgrade"))
        return refusal(426, "ask with Upgrade: websocket and Connection: Upgrade");
    if (asked.header("Sec-WebSocket-Version") != "13") return refusal(426, "version 13 of WebSocket is spoken here");
    if (!key) return refusal(400, "missing Sec-WebSocket-Key");
    return judged;
}

void append_websocket_accept(std::string& out, const request& asked, const websocket_upgrade& judged) {
    out.append(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ");
    out.append(view(websocket_accept(asked.header("Sec-WebSocket-Key").value_or(""))));
    if (!judged.protocol.empty()) out.append("\r\nSec-WebSocket-Protocol: ").append(judged.protocol);
    if (judged.window_bits != 0) {
        out.append("\r\nSec-WebSocket-Extensions: ").append(deflate_name);
        out.append("; server_no_context_takeover; client_no_context_takeover");
        if (judged.window_bits_asked)
            out.append("; server_max_window_bits=").append(std::to_string(unsigned{judged.window_bits}));
    }
    out.append("\r\n\r\n");
}

void refuse_websocket(response& answer, const websocket_upgrade& judged) {
    answer.problem(judged.status, judged.reason);
    if (judged.status == 405) answer.header("Allow", "GET");
    if (judged.status == 426) answer.header("Upgrade", "websocket").header("Sec-WebSocket-Version", "13");
}

namespace {

bool owned_by_the_handshake(std::string_view name) noexcept {
    for (const std::string_view own : {"Host", "Upgrade", "Connection", "Content-Length", "Transfer-Encoding"})
        if (equal_ignoring_case(name, own)) return true;
    return equal_ignoring_case(name.substr(0, 14), "Sec-WebSocket-");
}

void require(bool holds, std::string_view subject, std::string_view explanation) {
    if (!holds) throw error(errc::invalid_argument, std::string(subject), explanation);
}

}  // namespace

websocket_opening::websocket_opening(websocket_key_source& keys, const options& chosen)
    : header_bytes_max_(chosen.header_bytes_max), deflate_offered_(chosen.permessage_deflate) {
    require(!chosen.host.empty() && chosen.host.find_first_of("/?@") == std::string_view::npos &&
                all(chosen.host, detail::target_char),
            "WebSocket host", "not HOST or HOST:PORT as in a Host field; mend it");
    require(chosen.target.starts_with('/') && all(chosen.target, detail::target_char) &&
                detail::escapes_are_whole(chosen.target),
            "WebSocket target", "not an encoded path that begins with '/'; encode it");
    const std::array<char, 24> key = base64(keys.next_nonce());
    accept_ = websocket_accept(view(key));
    request_.append("GET ").append(chosen.target).append(" HTTP/1.1\r\nHost: ").append(chosen.host);
    request_.append(
        "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ");
    request_.append(view(key)).append("\r\n");
    for (const std::string_view protocol : chosen.protocols) {
        require(!protocol.empty() && all(protocol, token_char) &&
                    std::ranges::find(protocols_, protocol) == protocols_.end(),
                "WebSocket subprotocol", "not a token, or listed twice; mend the list");
        request_.append(protocols_.empty() ? "Sec-WebSocket-Protocol: " : ", ").append(protocol);
        protocols_.emplace_back(protocol);
    }
    if (!protocols_.empty()) request_.append("\r\n");
    if (deflate_offered_)
        request_.append("Sec-WebSocket-Extensions: ")
            .append(deflate_name)
            .append("; server_no_context_takeover; client_no_context_takeover\r\n");
    for (const header_field& field : chosen.fields) {
        require(!field.name.empty() && all(field.name, token_char) && all(field.value, value_char), "WebSocket field",
                "the name is no token or the value holds a control character; mend it");
        require(!owned_by_the_handshake(field.name), field.name, "the handshake sets this field itself; leave it out");
        request_.append(field.name).append(": ").append(field.value).append("\r\n");
    }
    request_.append("\r\n");
}

websocket_opening::status websocket_opening::refuse(std::string_view reason) noexcept {
    reason_ = reason;
    return status::refused;
}

websocket_opening::status websocket_opening::read(std::string_view bytes) {
    if (!reason_.empty()) return status::refused;
    if (consumed_ != 0) return status::complete;
    const std::string_view in_limit = bytes.substr(0, header_bytes_max_);
    std::size_t end = 0;
    while ((end = in_limit.find("\r\n\r\n", scanned_)) != std::string_view::npos) {
        const status verdict = read_head(in_limit.substr(head_at_, end + 2 - head_at_));
        if (verdict != status::need_more) return verdict;
        head_at_ = scanned_ = end + 4;
    }
    if (in_limit.size() > head_at_ + 3) scanned_ = in_limit.size() - 3;
    return in_limit.size() < header_bytes_max_ ? status::need_more : refuse("head of the answer too long");
}

// Each line of the head ends in CRLF. Returns: need_more behind an interim answer (RFC 9110 section 15.2).
websocket_opening::status websocket_opening::read_head(std::string_view head) {
    std::string_view rest = head;
    const auto take_line = [&rest] {
        const std::size_t end = rest.find("\r\n");
        const std::string_view line = rest.substr(0, end);
        rest.remove_prefix(end + 2);
        return line;
    };
    const std::string_view first = take_line();
    if (first.size() < 12 || !first.starts_with("HTTP/1.") || !is_digit(first[7]) || first[8] != ' ' ||
        !std::all_of(first.begin() + 9, first.begin() + 12, is_digit) || (first.size() > 12 && first[12] != ' ') ||
        !all(first.substr(12), value_char))
        return refuse("answer is not HTTP/1");
    struct single_field {
        std::string_view name;
        int count = 0;
        std::string_view value{};
    };
    single_field upgrade{"Upgrade"}, accept{"Sec-WebSocket-Accept"}, protocol{"Sec-WebSocket-Protocol"},
        extensions{"Sec-WebSocket-Extensions"};
    bool connection = false;
    while (!rest.empty()) {
        const std::string_view line = take_line();
        const std::string_view name = line.substr(0, line.find(':'));
        if (name.empty() || name.size() == line.size() || !all(name, token_char) ||
            !all(line.substr(name.size() + 1), value_char))
            return refuse("malformed field in the answer");
        const std::string_view value = trim_blanks(line.substr(name.size() + 1));
        if (equal_ignoring_case(name, "Connection")) connection |= names(value, "upgrade");
        for (single_field* const field : {&upgrade, &accept, &protocol, &extensions}) {
            if (!equal_ignoring_case(name, field->name)) continue;
            ++field->count;
            field->value = value;
        }
    }
    const int code = (first[9] - '0') * 100 + (first[10] - '0') * 10 + (first[11] - '0');
    if (code / 100 == 1 && code != 101) return status::need_more;
    code_ = code;
    if (code_ != 101) return refuse("the server does not change to WebSocket");
    if (first[7] == '0') return refuse("101 in HTTP/1.0");
    if (upgrade.count != 1 || !equal_ignoring_case(upgrade.value, "websocket"))
        return refuse("Upgrade is not websocket");
    if (!connection) return refuse("Connection does not name upgrade");
    if (accept.count != 1 || accept.value != view(accept_)) return refuse("Sec-WebSocket-Accept does not fit the key");
    if (extensions.count != 0 && !deflate_offered_) return refuse("extension that was not offered");
    if (extensions.count > 1 || (extensions.count == 1 && !is_answer_to_our_offer(extensions.value)))
        return refuse("permessage-deflate was not answered as it was offered");
    if (protocol.count > 1) return refuse("repeated Sec-WebSocket-Protocol");
    if (protocol.count == 1 && std::ranges::find(protocols_, protocol.value) == protocols_.end())
        return refuse("subprotocol that was not offered");
    protocol_ = protocol.value;
    deflates_ = extensions.count == 1;
    consumed_ = head_at_ + head.size() + 2;
    return status::complete;
}

}  // namespace holdfast::net
