// SPDX-License-Identifier: Apache-2.0
// exposition.hpp - writes metrics as text, in the two forms that collectors read.
//
//   text 0.0.4       counters are named with their _total in TYPE and HELP; an "info" is a gauge of 1
//   OpenMetrics 1.0  TYPE and HELP name the family without _total or _info, units have a line, the end is marked
// Series names and label values are the same in both, so that a collector that changes its mind keeps its history.
// Source: Prometheus text exposition format 0.0.4; OpenMetrics 1.0, sections "Text Format" and "Metric Types".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::serve {

enum class exposition_format : std::uint8_t { text, openmetrics };

/// The media type to answer with, parameters included.
[[nodiscard]] std::string_view content_type(exposition_format format) noexcept;

/// What a field value of Accept asks for: OpenMetrics only where it is named and weighs at least as much as plain text,
/// which is also the answer to no field, to wildcards, to malformed ones, and to those that take neither. Source: RFC
/// 9110 section 12.5.1.
[[nodiscard]] exposition_format choose_exposition(std::string_view accept) noexcept;

/// Builds one exposition: a family, then its series, then the next family.
class exposition {
 public:
    explicit exposition(exposition_format format) : openmetrics_(format == exposition_format::openmetrics) {}

    /// Begins a family of counters. Requires: the name ends in _total.
    void counters(std::string_view name, std::string_view help);
    /// Begins a family of gauges. `unit` is empty or what the name ends in.
    void gauges(std::string_view name, std::string_view help, std::string_view unit = {});
    /// One series of the family begun last; `labels` is a list without braces, as metric_name.hpp describes.
    void series(std::string_view labels, std::uint64_t value);
    void series(std::string_view labels, double value);
    /// A family of one series with the value 1, whose labels are the message. Requires: the name ends in _info.
    void info(std::string_view name, std::string_view help, std::string_view labels);
    /// A classic histogram in seconds. `below` holds the cumulative counts at `bounds_ns`, `total` and `sum_ns` all
    /// samples.
    void histogram(std::string_view name, std::string_view help, std::span<const std::uint64_t> bounds_ns,
                   std::span<const std::uint64_t> below, std::uint64_t total, std::uint64_t sum_ns);

    /// The whole text; the object is empty afterwards.
    [[nodiscard]] std::string finish();

 private:
    void head(std::string_view name, std::string_view type, std::string_view help, std::string_view unit);

    bool openmetrics_;
    std::string series_name_;
    std::string text_;
};

}  // namespace holdfast::serve
