// SPDX-License-Identifier: Apache-2.0
// complexity.cpp - least squares over a handful of columns.
#include "holdfast/perf_test/complexity.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <optional>
#include <set>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/compare.hpp"

namespace holdfast::perf_test {

namespace {

constexpr std::array shapes{growth::constant, growth::logarithmic, growth::linear, growth::linear_logarithmic,
                            growth::quadratic};
constexpr std::size_t columns_max = 3;
constexpr double least_relative_error = 1e-9;  // of data without noise: keeps logarithms finite

double value_of(growth shape, double n) noexcept {
    switch (shape) {
        case growth::constant: break;
        case growth::logarithmic: return std::log2(n);
        case growth::linear: return n;
        case growth::linear_logarithmic: return n * std::log2(n);
        case growth::quadratic: return n * n;
    }
    return 1;
}

// Columns and the observed value of each point, divided by the observed value: relative errors.
struct equations {
    std::vector<std::array<double, columns_max>> rows;
    std::size_t columns = 0;
};

struct solution {
    std::array<double, columns_max> coefficients{}, errors{};  // errors: standard ones
    double squares = 0;                                        // sum of squared relative errors
};

// Solves for coefficients that make each row's sum 1, by Gram-Schmidt, which is as exact as the data at 3 columns.
std::optional<solution> solve(const equations& e) {
    const std::size_t n = e.rows.size(), k = e.columns;
    std::vector<std::array<double, columns_max>> q = e.rows;
    std::array<std::array<double, columns_max>, columns_max> r{};
    std::array<double, columns_max> qy{};
    for (std::size_t j = 0; j < k; ++j) {
        double before = 0;
        for (const auto& row : q) before += row[j] * row[j];
        for (int pass = 0; pass < 2; ++pass)  // twice is enough
            for (std::size_t i = 0; i < j; ++i) {
                double dot = 0;
                for (const auto& row : q) dot += row[i] * row[j];
                for (auto& row : q) row[j] -= dot * row[i];
                r[i][j] += dot;
            }
        double norm = 0;
        for (const auto& row : q) norm += row[j] * row[j];
        if (!(norm > before * 1e-24) || !std::isfinite(norm)) return std::nullopt;  // a column is a mix of others
        r[j][j] = std::sqrt(norm);
        for (auto& row : q) {
            row[j] /= r[j][j];
            qy[j] += row[j];
        }
    }
    solution out;
    std::array<std::array<double, columns_max>, columns_max> inverse{};
    for (std::size_t j = k; j-- > 0;) {
        inverse[j][j] = 1 / r[j][j];
        for (std::size_t c = j + 1; c < k; ++c)
            for (std::size_t i = j + 1; i <= c; ++i) inverse[j][c] -= r[j][i] * inverse[i][c] / r[j][j];
        for (std::size_t c = j; c < k; ++c) out.coefficients[j] += inverse[j][c] * qy[c];
    }
    for (const auto& row : e.rows) {
        double error = -1;
        for (std::size_t j = 0; j < k; ++j) error += row[j] * out.coefficients[j];
        out.squares += error * error;
    }
    const double variance = n > k ? out.squares / static_cast<double>(n - k) : 0;
    for (std::size_t j = 0; j < k; ++j) {
        double sum = 0;
        for (std::size_t c = j; c < k; ++c) sum += inverse[j][c] * inverse[j][c];
        out.errors[j] = std::sqrt(variance * sum);
    }
    return out;
}

double corrected_aic(double squares, std::size_t points, std::size_t columns) {
    const auto n = static_cast<double>(points), k = static_cast<double>(columns + 1);  // and the size of the errors
    if (n - k - 1 <= 0) return std::numeric_limits<double>::infinity();
    const double mean = std::max(squares / n, least_relative_error * least_relative_error);
    return n * std::log(mean) + 2 * k + 2 * k * (k + 1) / (n - k - 1);
}

// The better of with and without a constant; none if time would have to fall with size.
std::optional<growth_fit> fit_shape(std::span<const size_and_time> points, growth shape) {
    std::optional<growth_fit> best;
    for (const bool with_constant : {false, true}) {
        if (with_constant && shape == growth::constant) continue;
        equations e;
        e.columns = with_constant ? 2 : 1;
        for (const size_and_time& p : points) e.rows.push_back({value_of(shape, p.n) / p.ns, 1 / p.ns, 0});
        const std::optional<solution> s = solve(e);
        if (!s || s->coefficients[0] <= 0 || (with_constant && s->coefficients[1] < 0)) continue;
        growth_fit fit;
        fit.shape = shape;
        fit.aicc = corrected_aic(s->squares, points.size(), e.columns);
        if (best ? fit.aicc >= best->aicc : !std::isfinite(fit.aicc)) continue;
        fit.relative_rms = std::sqrt(s->squares / static_cast<double>(points.size()));
        fit.constant = shape == growth::constant ? s->coefficients[0] : s->coefficients[1];
        if (shape != growth::constant) {
            const double reach = student_quantile(0.05, static_cast<double>(points.size() - e.columns)) * s->errors[0];
            fit.factor = s->coefficients[0];
            fit.factor_95 = {fit.factor - reach, fit.factor + reach};
        }
        best = fit;
    }
    return best;
}

std::string text_of(const growth_result& r) {
    const growth_fit& f = r.best;
    char text[300];
    if (f.shape == growth::constant)
        std::snprintf(text, sizeof text, "1: %.4g ns at any size (error %.1f %%)", f.constant, f.relative_rms * 100);
    else
        std::snprintf(text, sizeof text, "%s: %.4g ns times it (95 %%: %.4g to %.4g), plus %.4g ns (error %.1f %%)",
                      to_string(f.shape), f.factor, f.factor_95.low, f.factor_95.high, f.constant,
                      f.relative_rms * 100);
    std::string out = text;
    for (const growth_fit& other : r.fits)
        if (other.shape != f.shape && other.aicc < f.aicc + 4)
            out +=
                std::string("; ") + to_string(other.shape) + " fits about as well: measure more sizes, farther apart";
    return out;
}

void require(bool right, const char* subject, const char* what) {
    if (!right) throw error(errc::invalid_argument, subject, what);
}

constexpr double more_than_all = 1.05;  // an efficiency that noise does not explain

std::string text_of(const scalability_fit& f) {
    char text[300];
    std::snprintf(text, sizeof text, "one worker %.4g a second, contention %.2f %%, coherency %.3g %%", f.rate,
                  f.contention * 100, f.coherency * 100);
    std::string out = text;
    const bool one_is_best = f.best_workers < 1.5;
    if (one_is_best)
        out += f.contention > 1 ? ": more than 100 % contention, so that two workers together do less than one alone"
                                : ": best with one worker, more of them do less";
    else if (std::isfinite(f.best_workers))
        std::snprintf(text, sizeof text, ": best with %.0f workers, %.1f times one", f.best_workers, f.limit);
    else if (std::isfinite(f.limit))
        std::snprintf(text, sizeof text, ": never more than %.1f times one", f.limit);
    else
        std::snprintf(text, sizeof text, ": no limit in sight");
    if (!one_is_best) out += text;
    if (f.efficiency > more_than_all) {
        std::snprintf(
            text, sizeof text,
            "; with %.0f workers each does %.0f %% of one in the smallest group: more than 100 %% means that the "
            "small group was held up (cold caches, a slow clock, waiting) and not that workers help each other; "
            "the law has no room for it, so do not read its coefficients",
            f.efficiency_workers, f.efficiency * 100);
        out += text;
    }
    return out;
}

// The best throughput of a worker in any group larger than the smallest, over that in the smallest.
void find_efficiency(std::span<const workers_and_rate> points, scalability_fit& fit) {
    const auto each = [](const workers_and_rate& p) { return p.hz / p.workers; };
    double smallest = std::numeric_limits<double>::infinity(), of_smallest = 0;
    for (const workers_and_rate& p : points)
        if (p.workers < smallest || (p.workers == smallest && each(p) > of_smallest)) {
            smallest = p.workers;
            of_smallest = each(p);
        }
    for (const workers_and_rate& p : points)
        if (p.workers > smallest && each(p) / of_smallest > fit.efficiency) {
            fit.efficiency = each(p) / of_smallest;
            fit.efficiency_workers = p.workers;
        }
}

}  // namespace

const char* to_string(growth shape) noexcept {
    switch (shape) {
        case growth::constant: break;
        case growth::logarithmic: return "log n";
        case growth::linear: return "n";
        case growth::linear_logarithmic: return "n log n";
        case growth::quadratic: return "n^2";
    }
    return "1";
}

double time_at(const growth_fit& fit, double n) noexcept { return fit.constant + fit.factor * value_of(fit.shape, n); }

growth_result fit_growth(std::span<const size_and_time> points) {
    std::set<double> sizes;
    for (const size_and_time& p : points) {
        require(p.n >= 1 && p.n <= 1e18, "fit_growth", "a size does not lie in 1 to 1e18");
        require(p.ns >= 1e-9 && p.ns <= 1e18, "fit_growth", "a time does not lie in 1e-9 to 1e18 ns");
        sizes.insert(p.n);
    }
    require(sizes.size() >= 4, "fit_growth", "needs at least 4 different sizes");
    growth_result out;
    for (const growth shape : shapes)
        if (const std::optional<growth_fit> fit = fit_shape(points, shape)) out.fits.push_back(*fit);
    require(!out.fits.empty(), "fit_growth", "no shape fits these times");
    std::sort(out.fits.begin(), out.fits.end(), [](const growth_fit& a, const growth_fit& b) {
        return a.aicc != b.aicc ? a.aicc < b.aicc : a.shape < b.shape;
    });
    double total = 0;
    for (growth_fit& f : out.fits) total += f.weight = std::exp((out.fits.front().aicc - f.aicc) / 2);
    for (growth_fit& f : out.fits) f.weight /= total;
    out.best = out.fits.front();
    for (const growth_fit& f : out.fits)
        if (f.aicc <= out.fits.front().aicc + 2 && f.shape < out.best.shape) out.best = f;
    out.text = text_of(out);
    return out;
}

scalability_fit fit_scalability(std::span<const workers_and_rate> points) {
    std::set<double> numbers;
    for (const workers_and_rate& p : points) {
        require(p.workers >= 1 && p.workers <= 1e9, "fit_scalability", "a number of workers does not lie in 1 to 1e9");
        require(p.hz >= 1e-18 && p.hz <= 1e18, "fit_scalability", "a rate does not lie in 1e-18 to 1e18 a second");
        numbers.insert(p.workers);
    }
    require(numbers.size() >= 4, "fit_scalability", "needs at least 4 different numbers of workers");
    // N / throughput = (1 + contention (N - 1) + coherency N (N - 1)) / rate: linear in the unknown.
    std::optional<scalability_fit> best;
    double least = std::numeric_limits<double>::infinity();
    for (const unsigned kept : {3U, 1U, 2U, 0U}) {  // which of the two coefficients are not zero
        equations e;
        for (const workers_and_rate& p : points) {
            const double y = p.workers / p.hz;
            std::array<double, columns_max> row{1 / y, 0, 0};
            e.columns = 1;
            if ((kept & 1U) != 0) row[e.columns++] = (p.workers - 1) / y;
            if ((kept & 2U) != 0) row[e.columns++] = p.workers * (p.workers - 1) / y;
            e.rows.push_back(row);
        }
        const std::optional<solution> s = solve(e);
        if (!s || s->coefficients[0] <= 0 || s->coefficients[1] < 0 || s->coefficients[2] < 0 || s->squares >= least)
            continue;
        least = s->squares;
        scalability_fit f;
        f.rate = 1 / s->coefficients[0];
        f.contention = (kept & 1U) != 0 ? s->coefficients[1] * f.rate : 0;
        f.coherency = (kept & 2U) != 0 ? s->coefficients[kept == 3 ? 2 : 1] * f.rate : 0;
        f.relative_rms = std::sqrt(s->squares / static_cast<double>(points.size()));
        best = f;
    }
    require(best.has_value(), "fit_scalability", "no law of scalability fits these rates");
    const double infinite = std::numeric_limits<double>::infinity();
    best->best_workers = best->coherency > 1e-12
                             ? std::max(1.0, std::sqrt(std::max(0.0, 1 - best->contention) / best->coherency))
                             : infinite;
    if (best->contention >= 1) best->best_workers = 1;
    const double n = best->best_workers;
    best->limit = std::isfinite(n) ? n / (1 + best->contention * (n - 1) + best->coherency * n * (n - 1))
                                   : (best->contention > 1e-12 ? 1 / best->contention : infinite);
    find_efficiency(points, *best);
    best->text = text_of(*best);
    return *best;
}

}  // namespace holdfast::perf_test
