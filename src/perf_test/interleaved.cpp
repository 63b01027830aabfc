// SPDX-License-Identifier: Apache-2.0
// interleaved.cpp - calibration, rounds in balanced order, repetition of disturbed rounds.
#include "holdfast/perf_test/interleaved.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/clock.hpp"
#include "holdfast/perf_test/disturbance.hpp"
#include "holdfast/perf_test/statistics.hpp"
#include "perf_test/deleted.hpp"

namespace holdfast::perf_test {

namespace {

constexpr std::uint64_t operations_max = std::uint64_t{1} << 40;  // that take no time: the body was deleted

struct split_mix {  // Steele, Lea, Flood, OOPSLA 2014
    std::uint64_t state;
    std::uint64_t operator()() noexcept {
        std::uint64_t x = state += 0x9E3779B97F4A7C15U;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
        return x ^ (x >> 31);
    }
    template <typename T>
    void shuffle(std::vector<T>& v) {
        for (std::size_t i = v.size(); i > 1; --i) std::swap(v[i - 1], v[(*this)() % i]);
    }
};

struct calibrated {
    const subject* what = nullptr;
    std::uint64_t batch = 0, warm = 0;
    std::string failure;
};

void demand(bool right, const std::string& subject, const char* what) {
    if (!right) throw error(errc::invalid_argument, subject, what);
}

void check(const std::vector<subject>& subjects, const interleaved_options& o) {
    demand(!subjects.empty(), "measure_interleaved", "there is nothing to measure: name at least one subject");
    for (const subject& s : subjects) {
        demand(!s.name.empty(), "measure_interleaved", "a subject has no name");
        demand(static_cast<bool>(s.run), s.name, "the subject has no body to run");
    }
    demand(o.seconds > 0 && o.seconds <= 1e6, "seconds", "must be above 0 and at most 1000000");
    demand(o.batch_seconds_min > 0 && o.batch_seconds_min <= 1e3, "batch_seconds_min",
           "must be above 0 and at most 1000");
    demand(o.rounds_min >= 1 && o.rounds_min <= o.rounds_max, "rounds_min",
           "must be at least 1 and at most rounds_max");
    demand(o.rounds_max <= 10'000'000, "rounds_max", "must be at most 10000000");
    demand(o.warm_part >= 0 && o.warm_part <= 1, "warm_part", "must lie in 0 to 1");
}

double time_batch(const subject& s, std::uint64_t operations, std::uint64_t warm) {
    if (s.prepare) s.prepare();
    if (warm > 0) s.run(warm);
    const std::uint64_t from = monotonic_ns();
    s.run(operations);
    return static_cast<double>(monotonic_ns() - from);
}

// Operations that take target_ns. A time that reaches it counts only if two more do: an interruption is no operation.
std::uint64_t calibrate(const subject& s, double target_ns) {
    std::uint64_t operations = 1;
    for (;;) {
        double ns = time_batch(s, operations, 0);
        for (int again = 0; again < 2 && ns >= target_ns; ++again) ns = std::min(ns, time_batch(s, operations, 0));
        if (ns >= 1.5 * target_ns && operations > 1) {  // leapt too far: caches were warm before and are too small now
            const double less = std::ceil(static_cast<double>(operations) * 1.1 * target_ns / ns);
            if (time_batch(s, static_cast<std::uint64_t>(less), 0) >= target_ns)
                return static_cast<std::uint64_t>(less);
        }
        if (ns >= target_ns) return operations;
        if (operations >= operations_max) return 0;
        const double factor = ns > 0 ? std::clamp(1.1 * target_ns / ns, 1.2, 10.0) : 10.0;
        const double next = std::ceil(static_cast<double>(operations) * factor);
        operations =
            std::max(operations + 1, static_cast<std::uint64_t>(std::min(next, static_cast<double>(operations_max))));
    }
}

std::vector<calibrated> calibrate_all(const std::vector<subject>& subjects, const interleaved_options& o) {
    const double grain = tick_clock::kernel().granularity_ns();
    const double target =
        std::max({o.batch_seconds_min * 1e9, 1000 * grain, o.seconds * 1e9 / static_cast<double>(o.rounds_max)});
    std::vector<calibrated> out;
    for (const subject& s : subjects) {
        calibrated c{.what = &s, .batch = s.batch, .failure = {}};
        if (s.batch != 0) {
            (void)time_batch(s, s.batch, 0);  // warms up; a subject that uses itself up is given its fixed number alone
        } else if ((c.batch = calibrate(s, target)) == 0) {
            c.failure = std::to_string(operations_max) +
                        " operations took no time: the compiler deleted the body; use its results (do_not_optimize)";
        } else {
            c.warm = static_cast<std::uint64_t>(static_cast<double>(c.batch) * o.warm_part);
        }
        out.push_back(std::move(c));
    }
    return out;
}

// The rounds of a run: which subject when, and when enough have been kept.
class rounds {
 public:
    rounds(const std::vector<calibrated>& subjects, const interleaved_options& o, std::uint64_t seed)
        : subjects_(subjects),
          options_(o),
          random_{seed},
          times_(subjects.size()),
          floors_(subjects.size()),
          total_ns_(subjects.size(), 0.0) {}

    void run_all(interleaved_result& out) {
        (void)meter_.since_last();
        while (!enough(out.rounds)) {
            const std::vector<double> ns = one(next_order());
            const bool disturbed = meter_.since_last().any();
            if (disturbed) {
                ::sched_yield();  // whoever waits for this CPU has it now and not within the next round
                (void)meter_.since_last();
                if (options_.rerun_disturbed && out.rerun_rounds < reruns_max(out)) {
                    ++out.rerun_rounds;
                    continue;
                }
            }
            if (out.rounds++ % samples_a_floor == 0) {
                time_floors();
                (void)meter_.since_last();
            }
            out.disturbed_rounds += disturbed ? 1 : 0;
            for (std::size_t i = 0; i < ns.size(); ++i) {
                times_[i].push_back(ns[i]);
                total_ns_[i] += ns[i];
            }
        }
    }

    [[nodiscard]] const std::vector<double>& times(std::size_t i) const { return times_[i]; }
    /// Of the subject's empty loop, ns a batch; none for one that has no such loop.
    [[nodiscard]] const std::vector<double>& floors(std::size_t i) const { return floors_[i]; }
    [[nodiscard]] double total_ns(std::size_t i) const { return total_ns_[i]; }

 private:
    [[nodiscard]] bool enough(std::size_t kept) const {
        if (kept < options_.rounds_min) return false;
        return kept >= options_.rounds_max ||
               *std::max_element(total_ns_.begin(), total_ns_.end()) >= options_.seconds * 1e9;
    }

    // As many as undisturbed rounds were kept, so that where all are disturbed next to no time is lost.
    static std::size_t reruns_max(const interleaved_result& run) { return 5 + run.rounds - run.disturbed_rounds; }

    const std::vector<std::size_t>& next_order() {
        if (at_ == orders_.size()) {
            orders_ = balanced_orders(subjects_.size(), random_());
            at_ = 0;
        }
        return orders_[at_++];
    }

    std::vector<double> one(const std::vector<std::size_t>& order) {
        std::vector<double> ns(subjects_.size(), 0.0);
        for (const std::size_t i : order)
            if (subjects_[i].failure.empty())
                ns[i] = time_batch(*subjects_[i].what, subjects_[i].batch, subjects_[i].warm);
        return ns;
    }

    void time_floors() {
        for (std::size_t i = 0; i < subjects_.size(); ++i) {
            if (!subjects_[i].failure.empty() || !subjects_[i].what->empty) continue;
            const std::uint64_t from = monotonic_ns();
            subjects_[i].what->empty(subjects_[i].batch);
            floors_[i].push_back(static_cast<double>(monotonic_ns() - from));
        }
    }

    const std::vector<calibrated>& subjects_;
    const interleaved_options& options_;
    split_mix random_;
    std::vector<std::vector<double>> times_, floors_;
    std::vector<double> total_ns_;
    std::vector<std::vector<std::size_t>> orders_;
    std::size_t at_ = 0;
    disturbance_meter meter_;
};

std::string disturbed_text(const interleaved_result& run) {
    char text[300];
    std::snprintf(text, sizeof text,
                  "%zu of %zu rounds had steal time or an involuntary context switch and could not be run again "
                  "undisturbed: something "
                  "else uses this machine; medians and ratios bear it, means and maxima do not",
                  run.disturbed_rounds, run.rounds);
    return text;
}

result result_of(const calibrated& c, const rounds& all, std::size_t i, const interleaved_result& run) {
    result out;
    out.name = c.what->name;
    out.batch = c.batch;
    out.failure = c.failure;
    if (!out.failure.empty()) return out;
    out.count = c.batch * static_cast<std::uint64_t>(all.times(i).size());
    out.seconds = all.total_ns(i) * 1e-9;
    out.samples = all.times(i);
    for (double& x : out.samples) x /= static_cast<double>(c.batch);
    out.time = describe(out.samples);
    if (out.time.median <= 0) {
        out.failure = "a batch of " + std::to_string(c.batch) +
                      " operations is shorter than the clock's step: do more in a batch";
        out.samples.clear();
        out.time = {};
        return out;
    }
    out.warnings = warnings_of(out.time);
    warn_if_deleted(left_of(all.times(i), all.floors(i)) / static_cast<double>(c.batch), out.warnings);
    if (run.disturbed_rounds * 10 > run.rounds) out.warnings.push_back({"disturbed", disturbed_text(run)});
    return out;
}

}  // namespace

std::vector<std::vector<std::size_t>> balanced_orders(std::size_t n, std::uint64_t seed) {
    split_mix random{seed};
    std::vector<std::size_t> first, label(n);
    for (std::size_t i = 0; i < n; ++i) {  // 0, 1, n-1, 2, n-2, ...: every difference modulo n comes up once
        first.push_back(i % 2 == 1 ? (i + 1) / 2 : (n - i / 2) % n);
        label[i] = i;
    }
    random.shuffle(label);
    std::vector<std::vector<std::size_t>> out;
    for (std::size_t row = 0; row < n; ++row) {
        std::vector<std::size_t> order;
        for (const std::size_t i : first) order.push_back(label[(i + row) % n]);
        out.push_back(order);
        if (n % 2 == 1 && n > 1) {
            std::reverse(order.begin(), order.end());
            out.push_back(std::move(order));
        }
    }
    random.shuffle(out);
    return out;
}

paired_ratio ratio_of_pairs(std::span<const double> a, std::span<const double> b) {
    demand(a.size() == b.size(), "ratio_of_pairs", "paired samples are equally many");
    std::vector<double> ratios, logarithms;
    for (std::size_t i = 0; i < a.size(); ++i) {
        demand(std::isfinite(a[i]) && std::isfinite(b[i]) && a[i] >= 0 && b[i] >= 0, "sample " + std::to_string(i),
               "is not a time");
        const double ratio = a[i] > 0 ? b[i] / a[i] : 0;
        if (!(ratio > 0) || !std::isfinite(ratio)) continue;
        ratios.push_back(ratio);
        logarithms.push_back(std::log(ratio));
    }
    paired_ratio out;
    if (ratios.empty()) return out;
    out.ratio_95 = median_interval(ratios);
    out.p_value = wilcoxon_signed_rank(logarithms);
    std::sort(ratios.begin(), ratios.end());
    out.ratio = percentile_of_sorted(ratios, 0.5);
    return out;
}

paired_ratio interleaved_result::ratio(std::size_t a, std::size_t b) const {
    demand(a < subjects.size() && b < subjects.size(), "ratio", "there is no subject of that index");
    if (!subjects[a].good() || !subjects[b].good()) return {};
    return ratio_of_pairs(subjects[a].samples, subjects[b].samples);
}

interleaved_result measure_interleaved(const std::vector<subject>& subjects, const interleaved_options& options) {
    check(subjects, options);
    interleaved_result out;
    out.seed = options.seed;
    while (out.seed == 0) out.seed = split_mix{monotonic_ns()}();
    const std::vector<calibrated> ready = calibrate_all(subjects, options);
    rounds all(ready, options, out.seed);
    const bool any = std::any_of(ready.begin(), ready.end(), [](const calibrated& c) { return c.failure.empty(); });
    if (any) all.run_all(out);
    for (std::size_t i = 0; i < ready.size(); ++i) out.subjects.push_back(result_of(ready[i], all, i, out));
    return out;
}

}  // namespace holdfast::perf_test
