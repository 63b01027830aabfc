// SPDX-License-Identifier: Apache-2.0
// json_keys_fuzz.cpp - any bytes as the list of keys that a client sends, against a second reader written straight from
// the grammar. Both must agree on whether it is such a list, and on each key.
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "holdfast/net/uri.hpp"
#include "inspect/json_keys.hpp"
#include "require.hpp"

namespace {

using holdfast::fuzz::require;

struct key {
    std::string text;
    bool real = false;  // a number with a fraction or an exponent: any text of the same value will do
};

// {"keys": [...]} by RFC 8259, rule by rule. Each function eats what its rule matches, or returns false.
struct reference {
    std::string_view rest;
    std::vector<key> keys;

    bool eat(char c) {
        if (rest.empty() || rest[0] != c) return false;
        rest.remove_prefix(1);
        return true;
    }
    bool eat_one_of(std::string_view characters) {
        return !rest.empty() && characters.find(rest[0]) != std::string_view::npos && eat(rest[0]);
    }
    void blanks() {
        while (eat_one_of(" \t\n\r")) continue;
    }
    bool mark(char c) {
        blanks();
        if (!eat(c)) return false;
        blanks();
        return true;
    }
    bool hex(std::uint32_t& unit) {
        if (rest.size() < 4) return false;
        const auto [end, code] = std::from_chars(rest.data(), rest.data() + 4, unit, 16);
        if (code != std::errc() || end != rest.data() + 4) return false;
        rest.remove_prefix(4);
        return true;
    }
    bool escaped(std::string& into) {
        constexpr std::string_view names = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
        if (rest.empty()) return false;
        if (const std::size_t at = names.find(rest[0]); at != std::string_view::npos) {
            into += values[at];
            return eat(rest[0]);
        }
        std::uint32_t code = 0, low = 0;
        if (!eat('u') || !hex(code)) return false;
        if (code >= 0xDC00 && code < 0xE000) return false;
        if (code >= 0xD800 && code < 0xDC00) {
            if (!eat('\\') || !eat('u') || !hex(low) || low < 0xDC00 || low >= 0xE000) return false;
            code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
        }
        const auto put = [&into](std::uint32_t byte) { into += static_cast<char>(byte); };
        if (code < 0x80) return put(code), true;
        if (code < 0x800) return put(0xC0 | code >> 6U), put(0x80 | (code & 0x3F)), true;
        if (code < 0x10000)
            put(0xE0 | code >> 12U);
        else
            put(0xF0 | code >> 18U), put(0x80 | (code >> 12U & 0x3F));
        return put(0x80 | (code >> 6U & 0x3F)), put(0x80 | (code & 0x3F)), true;
    }
    bool string(std::string& into) {
        if (!eat('"')) return false;
        while (!eat('"')) {
            if (rest.empty() || static_cast<unsigned char>(rest[0]) < 0x20) return false;
            if (eat('\\')) {
                if (!escaped(into)) return false;
                continue;
            }
            into += rest[0];
            rest.remove_prefix(1);
        }
        return true;
    }
    bool digits() {
        constexpr std::string_view ten = "0123456789";
        if (!eat_one_of(ten)) return false;
        while (eat_one_of(ten)) continue;
        return true;
    }
    bool number(key& into) {
        const std::string_view from = rest;
        const bool negative = eat('-');
        if (!eat('0') && !digits()) return false;
        if (eat('.')) {
            into.real = true;
            if (!digits()) return false;
        }
        if (eat_one_of("eE")) {
            into.real = true;
            (void)eat_one_of("+-");
            if (!digits()) return false;
        }
        into.text = from.substr(0, from.size() - rest.size());
        if (into.real) return std::isfinite(std::strtod(into.text.c_str(), nullptr));
        const char *const begin = into.text.data(), *const end = begin + into.text.size();
        std::int64_t small = 0;
        std::uint64_t big = 0;
        if (into.text == "-0") into.text = "0";
        return (negative ? std::from_chars(begin, end, small).ec : std::from_chars(begin, end, big).ec) == std::errc();
    }
    bool list() {
        if (!mark('[')) return false;
        if (eat(']')) return true;
        do {
            key one;
            if (rest.starts_with('"') ? !string(one.text) : !number(one)) return false;
            keys.push_back(one);
        } while (mark(','));
        return eat(']');
    }
    bool read() {
        std::string name;
        if (!mark('{') || !string(name) || name != "keys" || !mark(':') || !list() || !mark('}')) return false;
        return rest.empty();
    }
};

void check(std::string_view text, std::size_t keys_max) {
    std::string why;
    const auto found = holdfast::inspect::parse_json_keys(text, keys_max, why);
    reference expected{.rest = text, .keys = {}};
    // RFC 8259 section 8.1: a reader may ignore a byte order mark.
    if (found && text.starts_with("\xEF\xBB\xBF")) expected.rest.remove_prefix(3);
    const bool whole = holdfast::net::is_utf8(text) && expected.read() && expected.keys.size() <= keys_max;
    require(found.has_value() == whole, "the grammar decides");
    require(found.has_value() == why.empty(), "there is a reason exactly where there is no list");
    if (!found) return;
    require(found->size() == expected.keys.size(), "as many keys");
    for (std::size_t i = 0; i < found->size(); ++i) {
        const key& one = expected.keys[i];
        const std::string& text_found = (*found)[i];
        require(holdfast::net::is_utf8(text_found), "keys are UTF-8");
        if (one.real)
            require(std::strtod(text_found.c_str(), nullptr) == std::strtod(one.text.c_str(), nullptr),
                    "the same number");
        else
            require(text_found == one.text, "the same key");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    const std::string_view text(reinterpret_cast<const char*>(data), bytes);
    check(text, 1000);
    check(text, 3);
    return 0;
}
