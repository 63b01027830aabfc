// SPDX-License-Identifier: Apache-2.0
#include "serve/exposition.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace holdfast::serve {

namespace {

void append_number(std::string& text, std::uint64_t value) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    text.append(digits.data(), end);
}

// Shortest form that reads back the same, with a point or an exponent so that it is a float in either format.
void append_number(std::string& text, double value) {
    if (std::isinf(value) || std::isnan(value)) {
        text += std::isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
        return;
    }
    std::array<char, 40> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    const std::string_view number(digits.data(), static_cast<std::size_t>(end - digits.data()));
    text += number;
    if (number.find_first_of(".e") == std::string_view::npos) text += ".0";
}

std::string_view without(std::string_view name, std::string_view suffix) noexcept {
    return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

}  // namespace

std::string_view content_type(exposition_format format) noexcept {
    return format == exposition_format::openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                                    : "text/plain; version=0.0.4; charset=utf-8";
}

void exposition::head(std::string_view name, std::string_view type, std::string_view help, std::string_view unit) {
    series_name_ = name;
    if (openmetrics_) name = without(without(name, "_total"), "_info");
    text_.append("# HELP ").append(name).append(" ");
    for (const char c : help) {
        if (c == '\n')
            text_ += "\\n";
        else if (c == '\\' || (c == '"' && openmetrics_))
            (text_ += '\\') += c;
        else
            text_ += c;
    }
    text_.append("\n# TYPE ").append(name).append(" ").append(type).append("\n");
    if (openmetrics_ && !unit.empty()) text_.append("# UNIT ").append(name).append(" ").append(unit).append("\n");
}

void exposition::counters(std::string_view name, std::string_view help) { head(name, "counter", help, {}); }

void exposition::gauges(std::string_view name, std::string_view help, std::string_view unit) {
    head(name, "gauge", help, unit);
}

void exposition::series(std::string_view labels, std::uint64_t value) {
    text_ += series_name_;
    if (!labels.empty()) text_.append("{").append(labels).append("}");
    text_ += ' ';
    append_number(text_, value);
    text_ += '\n';
}

void exposition::series(std::string_view labels, double value) {
    text_ += series_name_;
    if (!labels.empty()) text_.append("{").append(labels).append("}");
    text_ += ' ';
    append_number(text_, value);
    text_ += '\n';
}

void exposition::info(std::string_view name, std::string_view help, std::string_view labels) {
    head(name, openmetrics_ ? "info" : "gauge", help, {});
    series(labels, std::uint64_t{1});
}

void exposition::histogram(std::string_view name, std::string_view help, std::span<const std::uint64_t> bounds_ns,
                           std::span<const std::uint64_t> below, std::uint64_t total, std::uint64_t sum_ns) {
    head(name, "histogram", help, "seconds");
    series_name_ = std::string(name) + "_bucket";
    for (std::size_t i = 0; i < bounds_ns.size(); ++i) {
        std::string label = "le=\"";
        append_number(label, static_cast<double>(bounds_ns[i]) / 1e9);
        series(label + "\"", below[i]);
    }
    series("le=\"+Inf\"", total);
    series_name_ = std::string(name) + "_count";
    series({}, total);
    series_name_ = std::string(name) + "_sum";
    series({}, static_cast<double>(sum_ns) / 1e9);
}

std::string exposition::finish() {
    if (openmetrics_) text_ += "# EOF\n";
    return std::exchange(text_, {});
}

}  // namespace holdfast::serve
