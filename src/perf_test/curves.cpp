// SPDX-License-Identifier: Apache-2.0
// curves.cpp - which results belong together as one curve over a size, or over a number of workers.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/complexity.hpp"
#include "perf_test/deleted.hpp"

namespace holdfast::perf_test {
namespace {

constexpr std::size_t points_least = 4;
constexpr double most = 1e18, least_ns = 1e-9;  // what fit_growth takes

/// A parameter as GoogleTest prints it, if it is a size.
std::optional<double> size_of(const std::string& parameter) {
    double value = 0;
    const char* const end = parameter.data() + parameter.size();
    const auto [rest, failed] = std::from_chars(parameter.data(), end, value);
    if (failed != std::errc() || rest != end || !(value >= 1 && value <= most)) return std::nullopt;
    return value;
}

std::optional<double> time_of(const result& found) {
    if (!found.good() || found.aborted || found.rate || !found.workers.empty() || is_deleted(found))
        return std::nullopt;
    double ns = found.time.count != 0 ? found.time.median : 0;
    if (found.latency)
        for (const percentile& p : found.latency->percentiles)
            if (p.bounded && std::fabs(p.level - 0.5) < 1e-9) ns = p.estimate;
    if (!(ns >= least_ns && ns <= most)) return std::nullopt;
    return ns;
}

/// "Sort/3" is "Sort" with the third parameter; "Sort/3/twice" is what "Sort/3" measured under a name of its own.
std::string name_without_number(const std::string& name) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos) return name;
    const std::size_t behind = std::min(name.find('/', slash + 1), name.size());
    return name.substr(0, slash).append(name, behind);
}

template <class Points, class Key>
std::size_t different(const Points& points, Key key) {
    std::set<double> all;
    for (const auto& one : points) all.insert(one.*key);
    return all.size();
}

}  // namespace

std::vector<test_growth> growth_of(std::span<const result> results) {
    std::vector<test_growth> all;
    for (const result& one : results) {
        const std::optional<double> n = size_of(one.parameter), ns = time_of(one);
        if (!n || !ns || one.name.find('/') == std::string::npos) continue;
        const std::string name = name_without_number(one.name);
        auto same = std::find_if(all.begin(), all.end(), [&](const test_growth& other) {
            return other.suite == one.suite && other.name == name;
        });
        if (same == all.end()) same = all.insert(all.end(), {one.suite, name, {}, {}});
        same->points.push_back({*n, *ns});
    }
    std::erase_if(all, [](test_growth& curve) {
        if (different(curve.points, &size_and_time::n) < points_least) return true;
        try {
            curve.found = fit_growth(curve.points);
        } catch (const error&) {  // no shape fits
            return true;
        }
        return false;
    });
    return all;
}

std::vector<std::pair<std::string, std::string>> properties_of(const test_growth& curve) {
    const growth_fit& fit = curve.found.best;
    const auto number = [](double value) {
        std::array<char, 40> text{};
        std::snprintf(text.data(), text.size(), "%.6g", value);
        return std::string(text.data());
    };
    std::vector<std::pair<std::string, std::string>> all{{"shape", to_string(fit.shape)}};
    if (fit.shape != growth::constant) {
        all.emplace_back("factor_ns", number(fit.factor));
        all.emplace_back("factor_low", number(fit.factor_95.low));
        all.emplace_back("factor_high", number(fit.factor_95.high));
    }
    all.emplace_back("constant_ns", number(fit.constant));
    all.emplace_back("error", number(fit.relative_rms));
    return all;
}

std::vector<test_scaling> scaling_of(const result& found) {
    std::vector<test_scaling> all;
    for (const bool processes : {false, true}) {
        test_scaling curve{processes, {}, {}};
        for (const workers_result& one : found.workers)
            if (one.processes == processes && !one.rate && one.failure.empty() && one.workers > 0 && one.wall_hz > 0)
                curve.points.push_back({static_cast<double>(one.workers), one.wall_hz});
        if (different(curve.points, &workers_and_rate::workers) < points_least) continue;
        try {
            curve.found = fit_scalability(curve.points);
        } catch (const error&) {  // no law fits
            continue;
        }
        all.push_back(std::move(curve));
    }
    return all;
}

}  // namespace holdfast::perf_test
