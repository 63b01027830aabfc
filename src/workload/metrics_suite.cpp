// SPDX-License-Identifier: Apache-2.0
#include "workload/metrics_suite.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "holdfast/metrics/latency_shards.hpp"
#include "workload/keep.hpp"
#include "workload/latency_shapes.hpp"
#include "workload/metrics_own.hpp"
#include "workload/quantile_errors.hpp"
#include "workload/recording_companion.hpp"
#include "workload/targets.hpp"

namespace holdfast::workload {

namespace {

constexpr std::size_t stream_size = 8192;  // latencies that lie in the first-level cache beside a histogram

/// Records `operations` latencies of the stream, from its beginning over and over.
template <class Record>
void repeat_stream(const std::vector<std::uint64_t>& stream, std::uint64_t operations, Record record) {
    while (operations > 0) {
        const std::size_t now = static_cast<std::size_t>(std::min<std::uint64_t>(operations, stream.size()));
        record(std::span(stream).first(now));
        operations -= now;
    }
}

constexpr const char* max_of_n_source = "the description of the estimator from block maxima; machine not said";
constexpr const char* hdr_histogram_source = "HdrHistogram's own page: Intel processors of about 2014";

constexpr std::string_view bytes_name = "memory after a million exponential latencies";

class metrics_run {
 public:
    metrics_run(const std::vector<metrics_kind>& kinds, recorder& to) : to_(to) {
        for (const metrics_kind& kind : kinds) {
            to.version(kind.name, kind.version);
            const auto& only = to.options().only;
            if (&kind == &kinds.front() || only.empty() || std::ranges::find(only, kind.name) != only.end())
                kinds_.push_back(&kind);
        }
    }

    void run() {
        record_alone();
        record_together();
        answer();
        whole();
        error_and_memory();
    }

 private:
    void record_alone() {
        experiment e;
        e.name = "record, exponential latencies, one process";
        if (!to_.wants(e.name)) return;
        e.published = {{"max-of-n, at most", 2, "ns", max_of_n_source},
                       {"HdrHistogram, at best", 3, "ns", hdr_histogram_source},
                       {"HdrHistogram, at worst", 6, "ns", hdr_histogram_source}};
        const auto stream = draw_latencies(latency_shape::exponential, stream_size, 1);
        std::vector<std::unique_ptr<quantile_method>> methods;
        // The loop over the stream and one addition: how much of a time is not the record itself.
        auto sum = std::make_shared<std::uint64_t>(0);
        for (const metrics_kind* kind : kinds_) {
            if (!kind->sketch && kind->name.find("max_of_n") == std::string::npos) continue;  // they grow: see whole()
            methods.push_back(kind->make(0.99, stream_size));
            quantile_method* const method = methods.back().get();
            e.subjects.push_back({kind->name,
                                  [method, &stream](std::uint64_t operations) {
                                      repeat_stream(stream, operations, [&](auto part) { method->record(part); });
                                  },
                                  {},
                                  0});
        }
        e.subjects.push_back({"reading and adding up alone",
                              [sum, &stream](std::uint64_t operations) {
                                  repeat_stream(stream, operations, [&](auto part) {
                                      for (const std::uint64_t value : part) keep(*sum += value);
                                  });
                              },
                              {},
                              0});
        const sampled found = run_sampled(to_, e);
        if (!found.timed(0)) return;
        std::optional<double> reading;
        if (const auto alone = found.find(e.subjects.back().name)) reading = median_of(found.samples[*alone]);
        to_.note(record_target_text(median_of(found.samples[0]), reading));
    }

    void record_together() {
        experiment e;
        e.name = "record, exponential latencies, while another process records into the same histogram";
        if (!to_.wants(e.name)) return;
        if (std::thread::hardware_concurrency() < 2)
            return to_.skip(e.name, "one core: two processes would take turns");
        const auto stream = draw_latencies(latency_shape::exponential, stream_size, 1);
        const shared_pages pages(layout::latency_shard_bytes(3));
        const detail::latency_shards shards(pages.bytes(), 3, "anon:");
        detail::recorder_line lines[2] = {shards.line(0), shards.line(1)};
        detail::recorder_line everybody = shards.line(2);
        const auto record = [&stream](detail::recorder_line& line, std::uint64_t operations) {
            repeat_stream(stream, operations, [&](auto part) {
                for (const std::uint64_t value : part) detail::record_value(line, value);
            });
        };
        recording_companion companion(
            {[&] { record(lines[1], stream.size()); }, [&] { record(everybody, stream.size()); }});
        e.subjects.push_back({"latency_histogram, a shard each", [&](std::uint64_t n) { record(lines[0], n); },
                              [&] { companion.choose(1); }, 0});
        e.subjects.push_back({"one shared shard, atomic additions", [&](std::uint64_t n) { record(everybody, n); },
                              [&] { companion.choose(2); }, 0});
        const sampled found = run_sampled(to_, e);
        if (!found.timed(0)) return;
        const double own = median_of(found.samples[0]);
        to_.note("target: a record in at most 2 ns with two processes at once: " + fixed_text(own, 2) +
                 " ns, its reading included" + verdict(own <= 2));
    }

    void answer() {
        experiment e;
        e.name = "answer p99 of a million latencies";
        if (!to_.wants(e.name)) return;
        const auto latencies = draw_latencies(latency_shape::exponential, 1'000'000, 1);
        std::vector<std::unique_ptr<quantile_method>> methods;
        for (const metrics_kind* kind : kinds_) {
            if (!kind->sketch) continue;
            methods.push_back(kind->make(0.99, stream_size));
            quantile_method* const method = methods.back().get();
            method->record(latencies);
            e.subjects.push_back({kind->name,
                                  [method](std::uint64_t operations) {
                                      for (; operations > 0; --operations) keep(method->quantile(0.99));
                                  },
                                  {},
                                  0});
        }
        to_.run(e);
    }

    void whole() {
        experiment e;
        e.name = "p99 of 100,000 latencies from nothing to the answer, a latency";
        if (!to_.wants(e.name)) return;
        const auto latencies = draw_latencies(latency_shape::exponential, 100'000, 1);
        for (const metrics_kind* kind : kinds_) {
            e.subjects.push_back({kind->name,
                                  [kind, &latencies](std::uint64_t operations) {
                                      for (std::uint64_t done = 0; done < operations; done += latencies.size()) {
                                          const auto method = kind->make(0.99, latencies.size());
                                          method->record(latencies);
                                          keep(method->quantile(0.99));
                                      }
                                  },
                                  {},
                                  latencies.size()});
        }
        to_.run(e);
    }

    void error_and_memory() {
        double worst = 0;
        std::string worst_at;
        for (const latency_shape shape : latency_shapes) {
            const std::string name = "error of p90, p99 and p99.9, a million latencies, " + std::string(name_of(shape));
            const bool memory = shape == latency_shape::exponential && to_.wants(bytes_name);
            const bool wanted = to_.wants(name);
            if (!wanted && !memory) continue;
            const shape_trials found = try_shape(shape);
            if (wanted) {
                std::vector<std::vector<double>> errors;
                for (const quantile_errors& of_method : found.errors) errors.push_back(of_method.worst_of_trials());
                to_.add(name, "%", found.names, errors, false);
                if (const auto ours = found.errors.front().worst_rms(); ours.rms >= worst) {
                    worst = ours.rms;
                    worst_at = std::string(ours.level) + " of " + std::string(name_of(shape));
                }
            }
            if (memory) {
                to_.add(bytes_name, "bytes", found.names, found.bytes, false,
                        {.published = {{"max-of-n, three words", 24, "bytes", max_of_n_source}}, .exact = true});
                to_.note("target: at most 9 KiB a shard: " + fixed_text(found.bytes[0][0], 0) + " bytes" +
                         verdict(found.bytes[0][0] <= 9216));
            }
        }
        if (!worst_at.empty())
            to_.note("target: root mean square error at most 0.2 % at each level of each shape: " +
                     fixed_text(worst, 3) + " % at worst, " + worst_at + verdict(worst <= 0.2));
    }

    /// What the sketches said of one shape, by method and trial.
    struct shape_trials {
        std::vector<std::string> names;
        std::vector<quantile_errors> errors;
        std::vector<std::vector<double>> bytes;
    };
    [[nodiscard]] shape_trials try_shape(latency_shape shape) const {
        shape_trials found;
        std::vector<const metrics_kind*> sketches;
        for (const metrics_kind* kind : kinds_) {
            if (!kind->sketch) continue;
            sketches.push_back(kind);
            found.names.push_back(kind->name);
        }
        found.errors.resize(sketches.size());
        found.bytes.resize(sketches.size());
        const std::size_t trials = to_.options().quick ? 2 : 24;
        for (std::size_t trial = 0; trial < trials; ++trial) {
            auto samples = draw_latencies(shape, 1'000'000, 100 + trial);
            std::vector<std::unique_ptr<quantile_method>> methods;
            for (const metrics_kind* kind : sketches) methods.push_back(kind->make(0.99, stream_size));
            for (const auto& method : methods) method->record(samples);
            std::array<double, error_levels.size()> exact{};
            for (std::size_t i = 0; i < exact.size(); ++i) exact[i] = sample_quantile(samples, error_levels[i].q);
            for (std::size_t m = 0; m < methods.size(); ++m) {
                quantile_errors::percents off{};
                for (std::size_t i = 0; i < off.size(); ++i)
                    off[i] = 100 * (methods[m]->quantile(error_levels[i].q) / exact[i] - 1);
                found.errors[m].add(off);
                found.bytes[m].push_back(static_cast<double>(methods[m]->bytes()));
            }
        }
        return found;
    }

    std::vector<const metrics_kind*> kinds_;
    recorder& to_;
};

template <class Method>
[[nodiscard]] metrics_kind any_level(std::string name) {
    return {std::move(name), "this tree", true, [](double, std::size_t) { return std::make_unique<Method>(); }};
}

}  // namespace

std::vector<metrics_kind> own_metrics_kinds() {
    return {
        any_level<own_latency_histogram>("latency_histogram"),
        any_level<own_tail_tracker>("tail_tracker"),
        {"max_of_n", "this tree", false,
         [](double level, std::size_t) { return std::make_unique<own_max_of_n>(level); }},
        {"heap", "std::priority_queue", false,
         [](double level, std::size_t expected) { return std::make_unique<heap_method>(level, expected); }},
        {"QuickSelect", "std::nth_element", false,
         [](double, std::size_t) { return std::make_unique<selection_method>(); }},
        {"buckets of 1 us", "this tree", false, [](double, std::size_t) { return std::make_unique<bucket_method>(); }}};
}

std::string record_target_text(double record_ns, std::optional<double> reading_ns) {
    const std::string text =
        "target: a record in at most 1.5 ns, the reading of its value included: " + fixed_text(record_ns, 2) + " ns" +
        verdict(record_ns <= 1.5);
    if (!reading_ns) return text;
    return text + ", of which reading and adding up takes " + fixed_text(*reading_ns, 2) + " ns";
}

suite metrics_suite(std::vector<metrics_kind> kinds) {
    suite s;
    s.name = "metrics";
    s.description = "percentiles of latencies: time a record and a query, error on nine shapes of traffic, memory";
    s.run = [kinds = std::move(kinds)](recorder& to) { metrics_run(kinds, to).run(); };
    return s;
}

}  // namespace holdfast::workload
