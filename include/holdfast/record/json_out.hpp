// SPDX-License-Identifier: Apache-2.0
// json_out.hpp - writes JSON from left to right: commas and colons come by themselves, names are the caller's literals.
//
// For what programs say of segments and of measurements; records have their own writer (record/json.hpp). Numbers that
// JSON cannot hold (NaN, infinity) become null.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/record/fixed_text.hpp"
#include "holdfast/record/number_text.hpp"

namespace holdfast::detail {

/// Appends JSON to a string. Requires: calls that nest as JSON does.
class json_out {
 public:
    explicit json_out(std::string& out) noexcept : out_(out) {}

    json_out& begin_object() { return open('{'); }
    json_out& end_object() { return close('}'); }
    json_out& begin_array() { return open('['); }
    json_out& end_array() { return close(']'); }

    json_out& key(std::string_view name) {
        string(name);
        out_ += ':';
        fresh_ = true;
        return *this;
    }

    /// Text, as RFC 8259 section 7 wants it: bytes that are no UTF-8, as a file's name may hold, become \xHH.
    json_out& string(std::string_view text) {
        separate();
        out_ += '"';
        while (!text.empty()) {
            const std::size_t bytes = utf8_bytes(text);
            if (bytes == 0) {
                out_ += "\\\\x";  // a backslash is escaped in JSON
                append_hex(out_, static_cast<unsigned char>(text.front()));
            } else {
                append_json_character(out_, text.substr(0, bytes));
            }
            text.remove_prefix(bytes == 0 ? 1 : bytes);
        }
        out_ += '"';
        return *this;
    }
    json_out& boolean(bool value) { return raw(value ? "true" : "false"); }
    json_out& null() { return raw("null"); }
    template <std::integral Integer>
    json_out& number(Integer value) {
        return written(value);
    }
    json_out& number(double value) { return std::isfinite(value) ? written(value) : null(); }
    /// A value that is JSON already.
    json_out& raw(std::string_view json) {
        separate();
        out_ += json;
        return *this;
    }

    // A member in one call.
    json_out& member(std::string_view name, std::string_view text) { return key(name).string(text); }
    json_out& member(std::string_view name, const char* text) { return key(name).string(text); }
    json_out& member(std::string_view name, bool value) { return key(name).boolean(value); }
    template <std::integral Integer>
        requires(!std::same_as<Integer, bool>)
    json_out& member(std::string_view name, Integer value) {
        return key(name).number(value);
    }
    json_out& member(std::string_view name, double value) { return key(name).number(value); }
    template <class T>
    json_out& member(std::string_view name, const std::optional<T>& value) {
        return value ? member(name, *value) : key(name).null();
    }

 private:
    template <class T>
    json_out& written(T value) {
        char digits[number_chars_max];
        return raw({digits, static_cast<std::size_t>(write_number(digits, value) - digits)});
    }
    json_out& open(char bracket) {
        separate();
        out_ += bracket;
        fresh_ = true;
        return *this;
    }
    json_out& close(char bracket) {
        out_ += bracket;
        fresh_ = false;
        return *this;
    }
    void separate() {
        if (!fresh_) out_ += ',';
        fresh_ = false;
    }

    std::string& out_;
    bool fresh_ = true;  // nothing stands before the next value in its object or array
};

}  // namespace holdfast::detail
