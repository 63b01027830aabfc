// SPDX-License-Identifier: Apache-2.0
// percentile_max_of_n - is a percentile the mean of the maxima of blocks? Repeats the published numbers, and shows for
// which traffic they hold.
//
//   study_percentile_max_of_n [--samples 1000000] [--trials 12] [--out FOLDER] [--check]
//
// Prints four tables and writes them: block_sizes.csv, exponential.csv, bias.csv, merge.csv; and the plots
// exponential.svg, which is the published figure, and bias.svg. --check ends with an error if
// a finding that README.md states does not show; 100,000 samples and 6 trials are enough for it.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/metrics/max_of_n.hpp"
#include "holdfast/metrics/tail_tracker.hpp"
#include "svg.hpp"
#include "workload/latency_shapes.hpp"
#include "workload/metrics_own.hpp"

namespace {

using holdfast::histogram_counts;
using holdfast::max_of_n;
using holdfast::max_of_n_state;
using holdfast::max_of_n_total;
namespace workload = holdfast::workload;

struct options {
    std::size_t samples = 1'000'000;
    std::size_t trials = 12;
    std::string out = ".";
    bool check = false;
};

/// A level and the block size that was published for it.
struct level {
    double p;
    std::uint64_t published;
    const char* name;
};
constexpr std::array levels{level{0.9, 7, "p90"},       level{0.95, 12, "p95"},     level{0.99, 57, "p99"},
                            level{0.995, 113, "p99.5"}, level{0.999, 562, "p99.9"}, level{0.9999, 5616, "p99.99"}};
constexpr std::array shown_levels{levels[0], levels[2], levels[4]};

double harmonic(std::uint64_t n) {
    double sum = 0;
    for (; n > 0; --n) sum += 1.0 / static_cast<double>(n);
    return sum;
}

/// The estimator as it was published: it divides all samples, finished block or not, by n.
struct published_estimator {
    std::uint64_t samples = 0;
    double greatest = 0;
    double sum = 0;

    void record(double sample, std::uint64_t n) {
        greatest = std::max(greatest, sample);
        if (++samples % n == 0) {
            sum += greatest;
            greatest = 0;
        }
    }
};

int failures = 0;

void expect(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "does not show: %s\n", what);
    ++failures;
}

void block_sizes(const options& chosen) {
    std::ofstream csv(chosen.out + "/block_sizes.csv");
    csv << "level,nearest_n,published_n,bias_nearest_percent,bias_published_percent\n";
    std::printf("Block sizes, and the bias on exponential traffic that follows from them alone\n");
    std::printf("%8s %10s %10s %14s %14s\n", "level", "nearest n", "published", "bias nearest", "bias published");
    for (const level& one : levels) {
        const std::uint64_t nearest = holdfast::max_of_n_block(one.p);
        const double truth = -std::log1p(-one.p);
        const double ours = 100 * (harmonic(nearest) / truth - 1);
        const double theirs = 100 * (harmonic(one.published) / truth - 1);
        std::printf("%8s %10llu %10llu %+13.3f%% %+13.3f%%\n", one.name, static_cast<unsigned long long>(nearest),
                    static_cast<unsigned long long>(one.published), ours, theirs);
        csv << one.name << ',' << nearest << ',' << one.published << ',' << ours << ',' << theirs << '\n';
        expect(std::abs(ours) < std::abs(theirs), "the published block size is never the least biased one");
    }
}

/// The published figure: exponential latencies, block maxima beside the methods that keep or count samples.
void exponential(const options& chosen) {
    constexpr double mean_us = 50;
    auto samples = workload::draw_latencies(workload::latency_shape::exponential, chosen.samples, 77);
    std::vector<double> at;
    std::vector<std::string> names;
    std::vector<study::estimate_series> all{{"the distribution itself", "#555", {}},
                                            {"max-of-n as published", "#c62828", {}},
                                            {"partial sort with a heap", "#1565c0", {}},
                                            {"QuickSelect", "#2e7d32", {}},
                                            {"buckets of 1 us", "#f9a825", {}}};
    for (const level& one : levels) {
        published_estimator published;
        for (const std::uint64_t sample : samples) published.record(static_cast<double>(sample), one.published);
        workload::heap_method heap(one.p, samples.size());
        workload::selection_method selection;
        workload::bucket_method buckets;
        at.push_back(one.p);
        names.emplace_back(one.name);
        all[0].values.push_back(-std::log1p(-one.p) * mean_us);
        all[1].values.push_back(published.sum / static_cast<double>(published.samples / one.published) / 1e3);
        std::size_t next = 2;
        for (workload::quantile_method* const method :
             {static_cast<workload::quantile_method*>(&heap), static_cast<workload::quantile_method*>(&selection),
              static_cast<workload::quantile_method*>(&buckets)}) {
            method->record(samples);
            all[next++].values.push_back(method->quantile(one.p) / 1e3);
        }
    }
    std::ofstream csv(chosen.out + "/exponential.csv");
    csv << "level,method,microseconds,off_percent\n";
    std::printf("\nExponential latencies of 50 us on average, %zu of them: the published figure, in microseconds\n",
                chosen.samples);
    for (const study::estimate_series& one : all) {
        std::printf("%-26s", one.name.c_str());
        for (std::size_t i = 0; i < at.size(); ++i) {
            std::printf(" %8.1f", one.values[i]);
            csv << names[i] << ',' << one.name << ',' << one.values[i] << ','
                << 100 * (one.values[i] / all[0].values[i] - 1) << '\n';
        }
        std::printf("\n");
    }
    std::ofstream(chosen.out + "/exponential.svg")
        << study::level_figure("Exponential latencies: block maxima beside exact percentiles", "us", at, names, all);
    for (std::size_t i = 0; i < at.size(); ++i) {
        const double exact = workload::sample_quantile(samples, at[i]) / 1e3;
        expect(all[2].values[i] == exact && all[3].values[i] == exact, "heap and QuickSelect are exact");
        expect(std::abs(all[4].values[i] - exact) <= 1, "buckets are within their width");
        const double off = std::abs(all[1].values[i] / all[0].values[i] - 1);
        expect(off < (at[i] < 0.95 ? 0.15 : 0.05) + 5 / std::sqrt(static_cast<double>(chosen.samples) * (1 - at[i])),
               "on exponential traffic max-of-n follows the percentiles, as published");
    }
}

constexpr std::array estimators{"max-of-n as published", "max-of-n, nearest n", "tail_tracker", "tail_lanes",
                                "latency_histogram"};
using estimates = std::array<double, estimators.size()>;

estimates estimate_all(const std::vector<std::uint64_t>& samples, const level& at) {
    published_estimator published;
    max_of_n_state state;
    max_of_n corrected(state, holdfast::max_of_n_block(at.p));
    histogram_counts maxima, lane_maxima, all;
    holdfast::tail_state block;
    holdfast::tail_tracker tracker(block, maxima);
    holdfast::tail_lanes lanes(1024, lane_maxima);
    for (const std::uint64_t sample : samples) {
        published.record(static_cast<double>(sample), at.published);
        corrected.record(static_cast<std::int64_t>(sample));
        tracker.record(sample);
        lanes.record(sample);
        all.record(sample);
    }
    lanes.flush();
    return {published.sum / static_cast<double>(published.samples / at.published), corrected.total().estimate().value(),
            holdfast::tail_quantile(maxima, at.p)->estimate,
            holdfast::tail_quantile(lane_maxima, at.p, lanes.partial())->estimate, all.quantile(at.p)->estimate};
}

struct moments {
    double sum = 0, squares = 0;
    int count = 0;
    void add(double x) {
        sum += x;
        squares += x * x;
        ++count;
    }
    [[nodiscard]] double mean() const { return sum / count; }
    [[nodiscard]] double error() const {  // standard error of one trial
        return std::sqrt(std::max(0.0, squares / count - mean() * mean()));
    }
};

/// Percent off the quantile of all trials' samples together.
void bias(const options& chosen) {
    std::ofstream csv(chosen.out + "/bias.csv");
    csv << "shape,level,estimator,bias_percent,standard_error_percent\n";
    std::vector<study::panel> panels;
    const char* colours[] = {"#c62828", "#f9a825", "#6a1b9a", "#1565c0", "#2e7d32"};
    for (const level& at : shown_levels) {
        panels.push_back({at.name, {}, {}});
        for (std::size_t e = 0; e < estimators.size(); ++e)
            panels.back().dots.push_back({estimators[e], colours[e], {}});
    }
    std::printf("\nBias / standard error in %% of the true percentile, %zu samples, %zu trials\n", chosen.samples,
                chosen.trials);
    std::printf("%-15s %-6s", "", "");
    for (const char* name : estimators) std::printf(" %22s", name);
    std::map<std::string, double> found;
    for (const auto shape : workload::latency_shapes) {
        std::vector<std::uint64_t> pooled;
        std::array<std::array<moments, estimators.size()>, shown_levels.size()> seen{};
        for (std::size_t trial = 0; trial < chosen.trials; ++trial) {
            const auto samples = workload::draw_latencies(shape, chosen.samples, 1000 + trial);
            for (std::size_t l = 0; l < shown_levels.size(); ++l) {
                const estimates now = estimate_all(samples, shown_levels[l]);
                for (std::size_t e = 0; e < now.size(); ++e) seen[l][e].add(now[e]);
            }
            pooled.insert(pooled.end(), samples.begin(), samples.end());
        }
        for (std::size_t l = 0; l < shown_levels.size(); ++l) {
            const double truth = workload::sample_quantile(pooled, shown_levels[l].p);
            std::printf("\n%-15s %-6s", std::string(workload::name_of(shape)).c_str(), shown_levels[l].name);
            panels[l].rows.emplace_back(workload::name_of(shape));
            for (std::size_t e = 0; e < estimators.size(); ++e) {
                const double off = 100 * (seen[l][e].mean() / truth - 1);
                const double error = 100 * seen[l][e].error() / truth;
                std::printf("    %+10.2f /%7.2f", off, error);
                csv << workload::name_of(shape) << ',' << shown_levels[l].name << ',' << estimators[e] << ',' << off
                    << ',' << error << '\n';
                panels[l].dots[e].percent.push_back(off);
                found[std::string(workload::name_of(shape)) + " " + shown_levels[l].name + " " + estimators[e]] = off;
                if (e == 4)  // and the samples themselves are only so near to the truth
                    expect(std::abs(off) < 1.6 + 3 * error / std::sqrt(static_cast<double>(chosen.trials)),
                           "the histogram is within 1.6 % on every shape");
            }
        }
    }
    std::printf("\n");
    std::ofstream(chosen.out + "/bias.svg")
        << study::figure("Percentiles from block maxima: how far off, by the shape of the traffic", panels);
    expect(std::abs(found["exponential p99 max-of-n, nearest n"]) < 1.5, "max-of-n is right for exponential traffic");
    expect(found["lognormal(2) p99 max-of-n as published"] > 30, "heavy tails put max-of-n far above");
    expect(found["Pareto(1.5) p99.9 max-of-n, nearest n"] > 30, "the nearest n does not help against heavy tails");
    expect(found["two modes p90 max-of-n as published"] > 200, "two modes defeat max-of-n");
    expect(found["bursts of 500 p99.9 max-of-n as published"] < -30, "bursts defeat max-of-n");
    expect(std::abs(found["lognormal(2) p99 tail_tracker"]) < 6, "tail_tracker does not mind the tail's shape");
    expect(std::abs(found["bursts of 500 p99 tail_lanes"]) < std::abs(found["bursts of 500 p99 tail_tracker"]),
           "lanes get bursts back");
}

/// p99.9 of exponential traffic from many hosts with few samples each.
void merging(const options& chosen) {
    std::ofstream csv(chosen.out + "/merge.csv");
    csv << "samples_a_host,published_percent,finished_blocks_percent\n";
    std::printf("\nMerging p99.9 of exponential traffic over hosts\n%15s %12s %17s\n", "samples a host", "published",
                "finished blocks");
    const level at = levels[4];
    const double truth = -std::log1p(-at.p) * 50e3;
    for (const std::size_t each : {600U, 1100U, 5000U, 50000U}) {
        const std::size_t hosts = std::max<std::size_t>(40, chosen.samples * chosen.trials / each / 4);
        published_estimator published;
        max_of_n_total corrected;
        for (std::size_t host = 0; host < hosts; ++host) {
            const auto samples = workload::draw_latencies(workload::latency_shape::exponential, each, 5000 + host);
            published_estimator one;
            max_of_n_state state;
            max_of_n ours(state, holdfast::max_of_n_block(at.p));
            for (const std::uint64_t sample : samples) {
                one.record(static_cast<double>(sample), at.published);
                ours.record(static_cast<std::int64_t>(sample));
            }
            published.samples += one.samples;
            published.sum += one.sum;
            corrected.merge(ours.total());
        }
        const double theirs = 100 * (published.sum / static_cast<double>(published.samples / at.published) / truth - 1);
        const double ours = 100 * (*corrected.estimate() / truth - 1);
        std::printf("%15zu %+11.1f%% %+16.2f%%\n", each, theirs, ours);
        csv << each << ',' << theirs << ',' << ours << '\n';
        if (each == 1100) expect(theirs < -40, "adding up unfinished blocks halves the estimate");
        expect(std::abs(ours) < 4, "adding up finished blocks does not");
    }
}

std::optional<options> parse(int argc, char** argv) {
    options chosen;
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        if (name == "--check") {
            chosen.check = true;
            continue;
        }
        if (i + 1 == argc) return std::nullopt;
        const char* value = argv[++i];
        if (name == "--out") {
            chosen.out = value;
            continue;
        }
        char* end = nullptr;
        const unsigned long long number = std::strtoull(value, &end, 10);
        if (*end != '\0' || number == 0 || number > 100'000'000) return std::nullopt;
        if (name == "--samples" && number >= 20'000)
            chosen.samples = number;
        else if (name == "--trials")
            chosen.trials = number;
        else
            return std::nullopt;
    }
    return chosen;
}

}  // namespace

int main(int argc, char** argv) {
    const std::optional<options> chosen = parse(argc, argv);
    if (!chosen) {
        std::fprintf(stderr, "usage: %s [--samples N (20000 or more)] [--trials N] [--out FOLDER] [--check]\n",
                     argv[0]);
        return 2;
    }
    block_sizes(*chosen);
    exponential(*chosen);
    bias(*chosen);
    merging(*chosen);
    if (!std::ifstream(chosen->out + "/merge.csv")) {
        std::fprintf(stderr, "nothing could be written to %s; give a folder that can be with --out\n",
                     chosen->out.c_str());
        return 2;
    }
    return chosen->check && failures > 0 ? 1 : 0;
}
