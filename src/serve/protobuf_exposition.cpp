// SPDX-License-Identifier: Apache-2.0
// protobuf_exposition.cpp - metrics as messages of Prometheus' client_model. The wrapper of protozero.
//
// Numbers of fields are those of io/prometheus/client/metrics.proto.
#include <cstdint>
#include <limits>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/metrics/exponential_buckets.hpp"
#include "holdfast/metrics/metric_name.hpp"
#include "serve/exposition.hpp"

namespace holdfast::serve {

namespace {

using protozero::pbf_writer;

enum class metric_type : std::int32_t { counter = 0, gauge = 1, summary = 2, histogram = 4 };

class protobuf_exposition final : public exposition {
 public:
    void counters(std::string_view name, std::string_view help) override { head(name, help, metric_type::counter); }
    void gauges(std::string_view name, std::string_view help, std::string_view) override {
        head(name, help, metric_type::gauge);
    }
    void histograms(std::string_view name, std::string_view help) override { head(name, help, metric_type::histogram); }
    void summaries(std::string_view name, std::string_view help) override { head(name, help, metric_type::summary); }

    void series(std::string_view labels, std::uint64_t value) override { series(labels, static_cast<double>(value)); }

    void series(std::string_view labels, double value) override {
        pbf_writer family(family_);
        pbf_writer metric(family, 4);
        add_labels(metric, labels);
        pbf_writer number(metric, type_ == metric_type::counter ? 3 : 2);
        number.add_double(1, value);
        any_ = true;
    }

    void series(std::string_view labels, const histogram_counts& value) override {
        pbf_writer family(family_);
        pbf_writer metric(family, 4);
        add_labels(metric, labels);
        if (type_ == metric_type::summary)
            add_summary(metric, value);
        else
            add_histogram(metric, value);
        any_ = true;
    }

    void info(std::string_view name, std::string_view help, std::string_view labels) override {
        head(name, help, metric_type::gauge);
        series(labels, 1.0);
    }

    [[nodiscard]] std::string finish() override {
        end_family();
        return std::exchange(whole_, {});
    }

 private:
    void head(std::string_view name, std::string_view help, metric_type type) {
        end_family();
        type_ = type;
        pbf_writer family(family_);
        family.add_string(1, name.data(), name.size());
        family.add_string(2, help.data(), help.size());
        family.add_enum(3, static_cast<std::int32_t>(type));
    }

    /// Puts the family behind its length; a family without series says nothing and is left out.
    void end_family() {
        if (any_) {
            protozero::add_varint_to_buffer(&whole_, family_.size());
            whole_ += family_;
        }
        family_.clear();
        any_ = false;
    }

    static void add_labels(pbf_writer& metric, std::string_view labels) {
        std::string_view rest = labels;
        std::string_view name;
        std::string_view escaped;
        while (detail::take_label(rest, name, escaped)) {
            pbf_writer pair(metric, 1);
            pair.add_string(1, name.data(), name.size());
            pair.add_string(2, metric_label_value(labels, name).value_or(""));
            if (!rest.empty()) rest.remove_prefix(1);
        }
    }

    static void add_summary(pbf_writer& metric, const histogram_counts& value) {
        pbf_writer summary(metric, 4);
        summary.add_uint64(1, value.total());
        summary.add_double(2, static_cast<double>(value.sum()) / 1e9);
        for (const double q : summary_quantiles) {
            const std::optional<quantile_estimate> found = value.quantile(q);
            pbf_writer quantile(summary, 3);
            quantile.add_double(1, q);
            quantile.add_double(2, found ? found->estimate / 1e9 : std::numeric_limits<double>::quiet_NaN());
        }
    }

    static void add_histogram(pbf_writer& metric, const histogram_counts& value) {
        pbf_writer histogram(metric, 7);
        histogram.add_uint64(1, value.total());
        histogram.add_double(2, static_cast<double>(value.sum()) / 1e9);
        const auto below = value.cumulative(classic_bounds_ns);
        for (std::size_t i = 0; i < below.size(); ++i) {
            pbf_writer bucket(histogram, 3);
            bucket.add_uint64(1, below[i]);
            bucket.add_double(2, static_cast<double>(classic_bounds_ns[i]) / 1e9);
        }
        const exponential_buckets native = to_exponential(value);
        histogram.add_sint32(5, native.schema);
        histogram.add_double(6, native.zero_threshold);
        histogram.add_uint64(7, native.zero_count);
        for (const exponential_span& one : native.spans) {
            pbf_writer span(histogram, 12);
            span.add_sint32(1, one.offset);
            span.add_uint32(2, one.length);
        }
        for (const std::int64_t delta : native.deltas) histogram.add_sint64(13, delta);
    }

    metric_type type_ = metric_type::gauge;
    bool any_ = false;
    std::string family_;
    std::string whole_;
};

}  // namespace

std::unique_ptr<exposition> make_protobuf_exposition() { return std::make_unique<protobuf_exposition>(); }

}  // namespace holdfast::serve
