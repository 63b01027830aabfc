// SPDX-License-Identifier: Apache-2.0
#include "serve/exposition.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
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

class text_exposition final : public exposition {
 public:
    explicit text_exposition(bool openmetrics) : openmetrics_(openmetrics) {}

    void counters(std::string_view name, std::string_view help) override { head(name, "counter", help, {}); }
    void gauges(std::string_view name, std::string_view help, std::string_view unit) override {
        head(name, "gauge", help, unit);
    }
    void histograms(std::string_view name, std::string_view help) override { head(name, "histogram", help, "seconds"); }
    void summaries(std::string_view name, std::string_view help) override { head(name, "summary", help, "seconds"); }

    void series(std::string_view labels, std::uint64_t value) override { line({}, labels, value); }
    void series(std::string_view labels, double value) override { line({}, labels, value); }
    void series(std::string_view labels, const histogram_counts& value) override {
        if (summary_)
            quantiles(labels, value);
        else
            buckets(labels, value);
        line("_count", labels, value.total());
        line("_sum", labels, static_cast<double>(value.sum()) / 1e9);
    }

    void info(std::string_view name, std::string_view help, std::string_view labels) override {
        head(name, openmetrics_ ? "info" : "gauge", help, {});
        series(labels, std::uint64_t{1});
    }

    [[nodiscard]] std::string finish() override {
        if (openmetrics_) text_ += "# EOF\n";
        return std::exchange(text_, {});
    }

 private:
    void head(std::string_view name, std::string_view type, std::string_view help, std::string_view unit) {
        name_ = name;
        summary_ = type == "summary";
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

    template <class Number>
    void line(std::string_view suffix, std::string_view labels, Number value) {
        text_.append(name_).append(suffix);
        if (!labels.empty()) text_.append("{").append(labels).append("}");
        text_ += ' ';
        append_number(text_, value);
        text_ += '\n';
    }

    /// One line with a label of its own behind the others: name="number".
    template <class Number>
    void labelled(std::string_view suffix, std::string_view labels, std::string_view name, double label, Number value) {
        std::string all(labels);
        if (!all.empty()) all += ',';
        all.append(name).append("=\"");
        append_number(all, label);
        line(suffix, all + "\"", value);
    }

    void buckets(std::string_view labels, const histogram_counts& value) {
        const auto below = value.cumulative(classic_bounds_ns);
        for (std::size_t i = 0; i < below.size(); ++i)
            labelled("_bucket", labels, "le", static_cast<double>(classic_bounds_ns[i]) / 1e9, below[i]);
        labelled("_bucket", labels, "le", std::numeric_limits<double>::infinity(), value.total());
    }

    void quantiles(std::string_view labels, const histogram_counts& value) {
        for (const double q : summary_quantiles) {
            const auto found = value.quantile(q);
            labelled({}, labels, "quantile", q,
                     found ? found->estimate / 1e9 : std::numeric_limits<double>::quiet_NaN());
        }
    }

    bool openmetrics_;
    bool summary_ = false;
    std::string name_;
    std::string text_;
};

}  // namespace

std::string_view content_type(exposition_format format) noexcept {
    switch (format) {
        case exposition_format::text: break;
        case exposition_format::openmetrics: return "application/openmetrics-text; version=1.0.0; charset=utf-8";
        case exposition_format::protobuf:
            return "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
    }
    return "text/plain; version=0.0.4; charset=utf-8";
}

std::unique_ptr<exposition> make_exposition(exposition_format format) {
    if (format == exposition_format::protobuf) return make_protobuf_exposition();
    return std::make_unique<text_exposition>(format == exposition_format::openmetrics);
}

}  // namespace holdfast::serve
