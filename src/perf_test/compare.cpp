// SPDX-License-Identifier: Apache-2.0
// compare.cpp - intervals of ratios and verdicts about them.
#include "holdfast/perf_test/compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/statistics.hpp"

namespace holdfast::perf_test {

namespace {

constexpr std::size_t blocks_least = 16, blocks_max = 32;  // of at least three rounds each

void require(bool right, const std::string& subject, const char* what) {
    if (!right) throw error(errc::invalid_argument, subject, what);
}

void check(const compare_options& o) {
    require(o.min_effect >= 0 && o.min_effect <= 10, "min_effect", "must lie in 0 to 10, as a part: 0.03 for 3 %");
    require(o.alpha > 0 && o.alpha < 0.5, "alpha", "must be above 0 and below 0.5");
    require(o.assumed_run_deviation > 0 && o.assumed_run_deviation <= 1, "assumed_run_deviation",
            "must be above 0, at most 1");
    require(o.least_run_deviation >= 0 && o.least_run_deviation <= 1, "least_run_deviation", "must lie in 0 to 1");
    require(o.degrees_of_freedom >= 1, "degrees_of_freedom", "must be at least 1");
}

double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return percentile_of_sorted(values, 0.5);
}

// P(B >= k) for B binomial (n, 1/2); n is below 50, so every term is exact.
double coins_at_least(std::size_t n, std::size_t k) noexcept {
    double chance = std::ldexp(1.0, -static_cast<int>(n)), sum = 0;
    for (std::size_t i = 0; i <= n; ++i) {
        if (i >= k) sum += chance;
        chance = chance * static_cast<double>(n - i) / static_cast<double>(i + 1);
    }
    return std::min(1.0, sum);
}

std::vector<double> log_ratios(std::span<const double> base, std::span<const double> now) {
    require(base.size() == now.size(), "compare_paired", "paired samples are equally many");
    std::vector<double> out;
    for (std::size_t i = 0; i < base.size(); ++i) {
        require(std::isfinite(base[i]) && std::isfinite(now[i]) && base[i] >= 0 && now[i] >= 0,
                "sample " + std::to_string(i), "is not a time");
        if (base[i] > 0 && now[i] > 0) out.push_back(std::log(now[i]) - std::log(base[i]));
    }
    return out;
}

// How many of these rounds are independent, if each resembles the one before by r: n (1 - r) / (1 + r). r is taken of
// values moved to within 3 MAD of the median, lest interruptions hide it, and 1.5 standard errors are added to it.
std::size_t independent_rounds(const std::vector<double>& values) {
    const auto n = static_cast<double>(values.size());
    const double middle = median_of(values);
    std::vector<double> clipped;
    for (const double x : values) clipped.push_back(std::fabs(x - middle));
    const double reach = 3 * median_of(clipped);
    for (std::size_t i = 0; i < values.size(); ++i) clipped[i] = std::clamp(values[i] - middle, -reach, reach);
    double squares = 0, products = 0;
    for (std::size_t i = 0; i < clipped.size(); ++i) {
        squares += clipped[i] * clipped[i];
        if (i > 0) products += clipped[i] * clipped[i - 1];
    }
    const double r = std::clamp((squares > 0 ? products / squares : 0) + 1.5 / std::sqrt(n), 0.0, 1.0);
    return static_cast<std::size_t>(n * (1 - r) / (1 + r));
}

// What the sign test is about: block medians, or the rounds themselves where blocks of three would be too few.
struct evidence {
    std::vector<double> sorted;
    std::size_t independent = 0;

    // How many count as beyond a limit, of `independent`.
    template <typename Beyond>
    [[nodiscard]] std::size_t counted(Beyond beyond) const {
        const auto all = static_cast<std::size_t>(std::count_if(sorted.begin(), sorted.end(), beyond));
        return all * independent / sorted.size();
    }

    [[nodiscard]] interval median_95() const {
        const rank_interval ranks = quantile_ranks(independent, 0.5);
        if (!ranks.low) return {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
        const std::size_t left_out = (*ranks.low - 1) * sorted.size() / independent;
        return {sorted[left_out], sorted[sorted.size() - 1 - left_out]};
    }
};

evidence evidence_of(std::vector<double> rounds) {
    const std::size_t n = rounds.size(), independent = independent_rounds(rounds);
    evidence out{std::move(rounds), independent};
    if (n >= 3 * blocks_least) {
        const std::size_t blocks = std::clamp<std::size_t>(std::min(n / 3, independent), 1, blocks_max);
        std::vector<double> medians;
        for (std::size_t b = 0; b < blocks; ++b)
            medians.push_back(median_of({out.sorted.begin() + static_cast<std::ptrdiff_t>(b * n / blocks),
                                         out.sorted.begin() + static_cast<std::ptrdiff_t>((b + 1) * n / blocks)}));
        out = {std::move(medians), blocks};
    }
    std::sort(out.sorted.begin(), out.sorted.end());
    return out;
}

std::string percent(double ratio) {
    char text[40];
    if (ratio >= 10)
        std::snprintf(text, sizeof text, "%.3g times", ratio);
    else
        std::snprintf(text, sizeof text, "%+.1f %%", (ratio - 1) * 100);
    return text;
}

std::string describe_verdict(const comparison& c, std::size_t family, const compare_options& o) {
    char limit[80], chance[120];
    std::snprintf(limit, sizeof limit, "%.3g %%", o.min_effect * 100);
    std::snprintf(chance, sizeof chance, "p = %.2g after correction for %zu test%s", c.p_adjusted, family,
                  family == 1 ? "" : "s");
    const std::string found =
        percent(c.ratio) + " time (95 %: " + percent(c.ratio_95.low) + " to " + percent(c.ratio_95.high) + ")";
    switch (c.outcome) {
        case verdict::same: return "same: " + found + ", within " + limit;
        case verdict::faster: return "faster: " + found + ", all beyond " + limit + "; " + chance;
        case verdict::slower: return "slower: " + found + ", all beyond " + limit + "; " + chance;
        case verdict::too_noisy: break;
    }
    return "too noisy to tell a change of " + std::string(limit) + ": " + found + "; " + chance +
           "; measure longer, or more process runs, or on a quieter machine";
}

double deviation_of_logs(const std::vector<double>& base, const std::vector<double>& now) {
    double squares = 0;
    for (const auto* side : {&base, &now}) {
        double mean = 0;
        for (const double x : *side) mean += x / static_cast<double>(side->size());
        for (const double x : *side) squares += (x - mean) * (x - mean);
    }
    return std::sqrt(squares / static_cast<double>(base.size() + now.size() - 2));
}

double mean_of(const std::vector<double>& values) {
    double mean = 0;
    for (const double x : values) mean += x / static_cast<double>(values.size());
    return mean;
}

std::vector<double> logs_of_medians(std::span<const summary> runs) {
    require(!runs.empty(), "compare_runs", "a side has no run");
    std::vector<double> out;
    for (const summary& s : runs) {
        require(s.median > 0 && std::isfinite(s.median), "compare_runs", "a run has no median above zero");
        out.push_back(std::log(s.median));
    }
    return out;
}

// Standard error of the logarithm of a run's median within the run: its 95 % interval is four of them wide, about. Of
// logarithms, as all here: a busy machine makes intervals whose upper end is a hundred times the median.
double error_within(std::span<const summary> runs) {
    double squares = 0;
    for (const summary& s : runs) {
        const interval around = s.median_95;
        const double width = around.low > 0 && around.high >= around.low ? std::log(around.high / around.low)
                                                                         : (around.high - around.low) / s.median;
        const double part = width / 3.92;
        if (std::isfinite(part)) squares += part * part / static_cast<double>(runs.size());
    }
    return std::sqrt(squares);
}

}  // namespace

const char* to_string(verdict v) noexcept {
    switch (v) {
        case verdict::same: return "same";
        case verdict::faster: return "faster";
        case verdict::slower: return "slower";
        case verdict::too_noisy: break;
    }
    return "too_noisy";
}

comparison compare_paired(std::span<const double> base, std::span<const double> now, const compare_options& options) {
    check(options);
    const std::vector<double> ratios = log_ratios(base, now);
    comparison out;
    if (!ratios.empty()) {
        const evidence found = evidence_of(ratios);
        const interval around = found.median_95();
        out.ratio = std::exp(percentile_of_sorted(found.sorted, 0.5));
        out.ratio_95 = {std::exp(around.low), std::exp(around.high)};
        const double limit = std::log1p(options.min_effect);
        const std::size_t slow = found.counted([&](double x) { return x > limit; });
        const std::size_t fast = found.counted([&](double x) { return x < -limit; });
        const double tail = std::min(coins_at_least(found.independent, slow), coins_at_least(found.independent, fast));
        out.p_value = std::min(1.0, 2 * tail);
    }
    judge({&out, 1}, options);
    return out;
}

comparison compare_runs(std::span<const summary> base, std::span<const summary> now, const compare_options& options) {
    check(options);
    const std::vector<double> before = logs_of_medians(base), after = logs_of_medians(now);
    const auto freedom = base.size() + now.size() - 2;
    const bool known = freedom >= options.degrees_of_freedom;
    double deviation = options.assumed_run_deviation, df = std::numeric_limits<double>::infinity();
    if (known) {
        deviation = std::max(deviation_of_logs(before, after), options.least_run_deviation);
        df = static_cast<double>(freedom);
    } else {
        deviation = std::hypot(deviation, std::max(error_within(base), error_within(now)));
    }
    const double error =
        deviation * std::sqrt(1 / static_cast<double>(base.size()) + 1 / static_cast<double>(now.size()));
    const double difference = mean_of(after) - mean_of(before), reach = student_quantile(0.05, df) * error;
    comparison out;
    out.ratio = std::exp(difference);
    out.ratio_95 = {std::exp(difference - reach), std::exp(difference + reach)};
    const double beyond = std::fabs(difference) - std::log1p(options.min_effect);
    out.p_value = beyond > 0 ? student_two_sided(beyond / error, df) : 1;
    if (!known) {
        char text[200];
        std::snprintf(
            text, sizeof text,
            "; with so few process runs a deviation of %.3g %% between them is assumed: take 3 or more on each side",
            options.assumed_run_deviation * 100);
        out.note = text;
    }
    judge({&out, 1}, options);
    return out;
}

comparison compare_counts(std::span<const double> base, double now, double min_effect) {
    require(!base.empty(), "compare_counts", "the base has no run");
    require(min_effect >= 0 && min_effect <= 10, "min_effect", "must lie in 0 to 10, as a part: 0.01 for 1 %");
    const auto is_count = [](double count) { return count > 0 && std::isfinite(count); };
    require(is_count(now) && std::all_of(base.begin(), base.end(), is_count), "compare_counts",
            "a count is not above zero");
    const auto [least, most] = std::minmax_element(base.begin(), base.end());
    comparison out;
    out.ratio = now / median_of({base.begin(), base.end()});
    out.ratio_95 = {now / *most, now / *least};
    out.outcome = now > *most * (1 + min_effect)    ? verdict::slower
                  : now < *least / (1 + min_effect) ? verdict::faster
                                                    : verdict::same;
    out.p_value = out.p_adjusted = out.outcome == verdict::same ? 1 : 0;
    char text[160];
    std::snprintf(text, sizeof text, "%s: %.6g an operation, %s against the %.6g of the baseline; the limit is %.3g %%",
                  to_string(out.outcome), now, percent(out.ratio).c_str(), now / out.ratio, min_effect * 100);
    out.text = text;
    return out;
}

void judge(std::span<comparison> family, const compare_options& options) {
    check(options);
    std::vector<double> p;
    for (const comparison& c : family) p.push_back(c.p_value);
    const std::vector<double> adjusted = holm_adjusted(p);
    const double high = 1 + options.min_effect, low = 1 / high;
    for (std::size_t i = 0; i < family.size(); ++i) {
        comparison& c = family[i];
        c.p_adjusted = adjusted[i];
        c.outcome = verdict::too_noisy;
        if (c.p_adjusted < options.alpha)
            c.outcome = c.ratio > 1 ? verdict::slower : verdict::faster;
        else if (c.ratio > 0 && c.ratio_95.low >= low && c.ratio_95.high <= high)
            c.outcome = verdict::same;
        c.text = c.ratio > 0 ? describe_verdict(c, family.size(), options)
                             : "there is no round in which both took measurable time";
        c.text += c.note;
    }
}

ab_result measure_ab(const subject& base, const subject& now, const interleaved_options& run,
                     const compare_options& compare) {
    check(compare);
    ab_result out;
    out.run = measure_interleaved({base, now}, run);
    for (const result& r : out.run.subjects)
        if (!r.good()) {
            out.change.text = r.name + ": " + r.failure;
            out.change.name = now.name;
            return out;
        }
    out.change = compare_paired(out.run.subjects[0].samples, out.run.subjects[1].samples, compare);
    out.change.name = now.name;
    return out;
}

}  // namespace holdfast::perf_test
