// SPDX-License-Identifier: Apache-2.0
// exposition.hpp - writes metrics in the three forms that collectors read.
//
//   text 0.0.4       counters are named with their _total in TYPE and HELP; an "info" is a gauge of 1
//   OpenMetrics 1.0  TYPE and HELP name the family without _total or _info, units have a line, the end is marked
//   protobuf         messages of io.prometheus.client.MetricFamily, each behind its length; histograms are native
//                    (exponential) ones, with the classic buckets beside them
// Series names and label values are the same in all, so that a collector that changes its mind keeps its history.
// Source: Prometheus text exposition format 0.0.4; OpenMetrics 1.0, sections "Text Format" and "Metric Types";
// Prometheus' client_model, io/prometheus/client/metrics.proto.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "holdfast/metrics/histogram_counts.hpp"

namespace holdfast::serve {

enum class exposition_format : std::uint8_t { text, openmetrics, protobuf };

/// The media type to answer with, parameters included.
[[nodiscard]] std::string_view content_type(exposition_format format) noexcept;

/// What a field value of Accept asks for: protobuf or OpenMetrics only where they are named and weigh at least as much
/// as what is simpler. Plain text is also the answer to no field, to wildcards, to malformed ones, and to those that
/// take nothing we have. Source: RFC 9110 section 12.5.1.
[[nodiscard]] exposition_format choose_exposition(std::string_view accept) noexcept;

/// Bounds of classic histograms: every power of two from 1 us to 17 s, which are edges of our buckets. As latencies are
/// whole nanoseconds cut off, "less than the bound" and "at most the bound" are the same.
inline constexpr auto classic_bounds_ns = [] {
    std::array<std::uint64_t, 25> all{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::uint64_t{1} << (10 + i);
    return all;
}();

/// The quantiles of summaries.
inline constexpr std::array summary_quantiles{0.5, 0.9, 0.99, 0.999};

/// Builds one exposition: a family, then its series, then the next family.
class exposition {
 public:
    virtual ~exposition() = default;

    /// Begins a family of counters. Requires: the name ends in _total.
    virtual void counters(std::string_view name, std::string_view help) = 0;
    /// Begins a family of gauges. `unit` is empty or what the name ends in.
    virtual void gauges(std::string_view name, std::string_view help, std::string_view unit = {}) = 0;
    /// Begins a family of histograms, or of summaries, in seconds. Requires: the name ends in _seconds.
    virtual void histograms(std::string_view name, std::string_view help) = 0;
    virtual void summaries(std::string_view name, std::string_view help) = 0;

    /// One series of the family begun last; `labels` is a list without braces, as metric_name.hpp describes.
    virtual void series(std::string_view labels, std::uint64_t value) = 0;
    virtual void series(std::string_view labels, double value) = 0;
    virtual void series(std::string_view labels, const histogram_counts& value) = 0;

    /// A family of one series with the value 1, whose labels are the message. Requires: the name ends in _info.
    virtual void info(std::string_view name, std::string_view help, std::string_view labels) = 0;

    /// The whole of it; the object is empty afterwards.
    [[nodiscard]] virtual std::string finish() = 0;
};

[[nodiscard]] std::unique_ptr<exposition> make_exposition(exposition_format format);

/// Of make_exposition, in a file of its own.
[[nodiscard]] std::unique_ptr<exposition> make_protobuf_exposition();

}  // namespace holdfast::serve
