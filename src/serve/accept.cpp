// SPDX-License-Identifier: Apache-2.0
// accept.cpp - which form of an answer an Accept field asks for. The field is input: whatever is not well formed is
// passed over.
#include <cstddef>
#include <string_view>

#include "serve/accept.hpp"
#include "serve/exposition.hpp"

namespace holdfast::serve {

namespace {

std::string_view trimmed(std::string_view text) noexcept {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

bool equal_lower(std::string_view a, std::string_view lower) noexcept {
    if (a.size() != lower.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const char c = a[i] >= 'A' && a[i] <= 'Z' ? static_cast<char>(a[i] - 'A' + 'a') : a[i];
        if (c != lower[i]) return false;
    }
    return true;
}

/// Takes the piece up to an unquoted `separator` off the front of `rest`.
std::string_view take_piece(std::string_view& rest, char separator) noexcept {
    bool quoted = false;
    std::size_t end = 0;
    for (; end < rest.size() && (quoted || rest[end] != separator); ++end) {
        if (quoted && rest[end] == '\\' && end + 1 < rest.size())
            ++end;
        else if (rest[end] == '"')
            quoted = !quoted;
    }
    const std::string_view piece = trimmed(rest.substr(0, end));
    rest.remove_prefix(end < rest.size() ? end + 1 : end);
    return piece;
}

/// A weight in thousandths, RFC 9110 section 12.4.2; -1 where it is not well formed.
int weight_of(std::string_view text) noexcept {
    if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1')) return -1;
    if (text.size() > 1 && text[1] != '.') return -1;
    int weight = text[0] == '1' ? 1000 : 0;
    int place = 100;
    for (const char c : text.substr(text.size() > 1 ? 2 : 1)) {
        if (c < '0' || c > '9') return -1;
        weight += (c - '0') * place;
        place /= 10;
    }
    return weight <= 1000 ? weight : -1;
}

struct range {
    std::string_view type;
    std::string_view version;
    std::string_view proto;
    std::string_view encoding;
    int weight = 1000;
};

range parse_range(std::string_view text) noexcept {
    range parsed;
    parsed.type = take_piece(text, ';');
    while (!text.empty()) {
        std::string_view value = take_piece(text, ';');
        const std::size_t equals = value.find('=');
        if (equals == std::string_view::npos) continue;
        const std::string_view name = trimmed(value.substr(0, equals));
        value = trimmed(value.substr(equals + 1));
        if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
        if (equal_lower(name, "q")) parsed.weight = weight_of(value);
        if (equal_lower(name, "version")) parsed.version = value;
        if (equal_lower(name, "proto")) parsed.proto = value;
        if (equal_lower(name, "encoding")) parsed.encoding = value;
    }
    return parsed;
}

/// The best weight of a media type so far, and how exactly it was named: 2 itself, 1 its main type, 0 by */*.
struct preference {
    int exactness = -1;
    int weight = 0;

    void take(int other_exactness, int other_weight) noexcept {
        if (other_exactness < exactness || (other_exactness == exactness && other_weight <= weight)) return;
        exactness = other_exactness;
        weight = other_weight;
    }
};

}  // namespace

exposition_format choose_exposition(std::string_view accept) noexcept {
    preference protobuf;
    preference openmetrics;
    preference text;
    while (!accept.empty()) {
        const range asked = parse_range(take_piece(accept, ','));
        if (asked.weight < 0) continue;
        if (equal_lower(asked.type, "application/vnd.google.protobuf")) {
            if (asked.proto == "io.prometheus.client.MetricFamily" && equal_lower(asked.encoding, "delimited"))
                protobuf.take(2, asked.weight);
        } else if (equal_lower(asked.type, "application/openmetrics-text")) {
            if (asked.version.empty() || asked.version == "1.0.0") openmetrics.take(2, asked.weight);
        } else if (equal_lower(asked.type, "text/plain")) {
            if (asked.version.empty() || asked.version == "0.0.4") text.take(2, asked.weight);
        } else if (equal_lower(asked.type, "text/*")) {
            text.take(1, asked.weight);
        } else if (equal_lower(asked.type, "*/*")) {
            text.take(0, asked.weight);
        }
    }
    if (protobuf.weight > 0 && protobuf.weight >= openmetrics.weight && protobuf.weight >= text.weight)
        return exposition_format::protobuf;
    return openmetrics.weight > 0 && openmetrics.weight >= text.weight ? exposition_format::openmetrics
                                                                       : exposition_format::text;
}

bool asks_for_events(std::string_view accept) noexcept {
    int events = 0, most = 0;
    while (!accept.empty()) {
        const range asked = parse_range(take_piece(accept, ','));
        if (equal_lower(asked.type, "text/event-stream"))
            events = asked.weight;
        else if (equal_lower(asked.type, "application/json"))
            most = asked.weight;
    }
    return events > 0 && events >= most;
}

}  // namespace holdfast::serve
