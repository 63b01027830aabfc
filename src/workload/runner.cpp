// SPDX-License-Identifier: Apache-2.0
#include "workload/runner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <iterator>
#include <optional>
#include <utility>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/environment.hpp"
#include "holdfast/perf_test/statistics.hpp"
#include "workload/memory_chase.hpp"

namespace holdfast::workload {

namespace {

[[nodiscard]] bool matches(const std::string& suite, std::string_view experiment, const run_options& options) {
    return options.filter.empty() || (suite + ": " + std::string(experiment)).find(options.filter) != std::string::npos;
}

/// An operation, by a quick sample: no core does any work so fast. The mark `deleted` begins at a cycle (deleted.hpp),
/// and a load from a near cache among others takes no more: 0.28 ns, bench/results/2026-11-25-amd-epyc-2cpu/array.json.
constexpr double removed_below_ns = 0.05;

/// A body whose work is gone has no time, and no ratio to anything.
void refuse_if_removed(perf_test::result& one) {
    if (!one.failure.empty() || one.time.p05 >= removed_below_ns) return;
    one.failure = "an operation takes less time than any work: the compiler removed it; use its results (keep)";
    one.samples.clear();
    one.time = {};
}

/// The filter's answers noted, and nothing else done.
class name_collector final : public recorder {
 public:
    name_collector(std::string suite, const run_options& options) : suite_(std::move(suite)), options_(options) {}
    bool wants(std::string_view name) override {
        if (matches(suite_, name, options_)) names.emplace_back(name);
        return false;
    }
    std::vector<std::vector<double>> run(const experiment&) override { return {}; }
    void add(std::string_view, std::string_view, const std::vector<std::string>&,
             const std::vector<std::vector<double>>&, bool, const sample_context&) override {}
    void skip(std::string_view, std::string_view) override {}
    void version(std::string_view, std::string_view) override {}
    void note(std::string_view) override {}
    const run_options& options() const override { return options_; }

    std::vector<std::string> names;

 private:
    std::string suite_;
    const run_options& options_;
};

/// Draws the progress line from the untimed part of a round, twice a second at most.
class round_progress {
 public:
    round_progress(const run_listener& listener, std::string title) : listener_(listener), title_(std::move(title)) {
        show(0);
    }
    round_progress(const round_progress&) = delete;
    round_progress& operator=(const round_progress&) = delete;
    ~round_progress() {
        if (listener_.progress) listener_.progress("");
    }
    void round() {
        const auto now = clock::now();
        if (++rounds_; now - shown_ < std::chrono::milliseconds(500)) return;
        shown_ = now;
        show(std::chrono::duration<double>(now - begin_).count());
    }

 private:
    using clock = std::chrono::steady_clock;
    void show(double seconds) {
        if (!listener_.progress) return;
        listener_.progress(title_ + (rounds_ == 0 ? std::string(" ...")
                                                  : ", round " + std::to_string(rounds_) + ", " +
                                                        std::to_string(static_cast<int>(seconds)) + " s"));
    }

    const run_listener& listener_;
    std::string title_;
    std::uint64_t rounds_ = 0;
    clock::time_point begin_ = clock::now(), shown_ = begin_;
};

class timing_recorder final : public recorder {
 public:
    timing_recorder(std::string suite, report& all, const run_listener& listener)
        : suite_(std::move(suite)), all_(all), listener_(listener) {}

    bool wants(std::string_view name) override { return matches(suite_, name, all_.options); }

    std::vector<std::vector<double>> run(const experiment& given) override {
        experiment_report done{.suite = suite_, .name = given.name, .unit = given.unit, .published = given.published};
        std::optional<round_progress> progress(std::in_place, listener_, done.full_name());
        std::vector<perf_test::subject> subjects = chosen(given.subjects);
        if (!subjects.empty() && listener_.progress)
            subjects.front().prepare = [&progress, own = std::move(subjects.front().prepare)] {
                progress->round();
                if (own) own();
            };
        perf_test::interleaved_result found = perf_test::measure_interleaved(subjects, timing());
        progress.reset();  // its line has to be gone before the table is printed
        for (perf_test::result& one : found.subjects) refuse_if_removed(one);
        done.seed = found.seed;
        done.rounds = found.rounds;
        done.disturbed_rounds = found.disturbed_rounds;
        fill(done, found, true);
        std::vector<std::vector<double>> samples(given.subjects.size());
        for (std::size_t i = 0; i < samples.size(); ++i)
            for (const perf_test::result& one : found.subjects)
                if (one.name == given.subjects[i].name && one.failure.empty()) samples[i] = one.samples;
        return samples;
    }

    void add(std::string_view name, std::string_view unit, const std::vector<std::string>& subjects,
             const std::vector<std::vector<double>>& samples, bool higher_is_better,
             const sample_context& context) override {
        if (subjects.size() != samples.size() ||
            (!context.warnings.empty() && context.warnings.size() != subjects.size()))
            throw error(errc::invalid_argument, std::string(name),
                        "needs the samples and the marks of each subject and of no other");
        experiment_report done{.suite = suite_,
                               .name = std::string(name),
                               .unit = std::string(unit),
                               .higher_is_better = higher_is_better,
                               .published = context.published};
        perf_test::interleaved_result found;
        bool paired = !context.unpaired;
        for (std::size_t i = 0; i < subjects.size(); ++i) {
            if (!is_chosen(subjects[i], subjects.front())) continue;
            perf_test::result one;
            one.name = subjects[i];
            one.samples = samples[i];
            if (!context.warnings.empty()) one.warnings = context.warnings[i];
            const bool finite =
                std::all_of(one.samples.begin(), one.samples.end(), [](double x) { return std::isfinite(x); });
            if (one.samples.empty())
                one.failure = "it gave no sample";
            else if (!finite)
                one.failure = "one of its samples is not a finite number";
            else
                one.time = perf_test::describe(one.samples);
            if (!context.exact) std::ranges::move(perf_test::warnings_of(one.time), std::back_inserter(one.warnings));
            paired = paired && one.samples.size() == samples.front().size();
            found.subjects.push_back(std::move(one));
        }
        done.rounds = paired && !samples.empty() ? samples.front().size() : 0;
        fill(done, found, paired, context.exact);
    }

    void skip(std::string_view subject, std::string_view reason) override {
        all_.skipped.push_back({suite_, std::string(subject), std::string(reason)});
    }
    void version(std::string_view subject, std::string_view version) override {
        for (auto& [name, text] : all_.versions)
            if (name == subject) return void(text = version);
        all_.versions.emplace_back(subject, version);
    }
    void note(std::string_view text) override { all_.notes.push_back({suite_, {}, std::string(text)}); }
    void progress(std::string_view line) override {
        using clock = std::chrono::steady_clock;
        const auto now = clock::now();
        if (!listener_.progress || (!line.empty() && now - told_ < std::chrono::milliseconds(500))) return;
        told_ = line.empty() ? clock::time_point() : now;
        listener_.progress(line);
    }
    const run_options& options() const override { return all_.options; }

 private:
    /// The subject itself, or the same with something added to it or done in another way.
    [[nodiscard]] static bool is_form_of(std::string_view name, const std::string& subject) {
        return name == subject || name.starts_with(subject + ", ") || name.starts_with(subject + " + ");
    }
    /// `first`: a form of ours. All of ours are chosen.
    [[nodiscard]] bool is_chosen(const std::string& name, const std::string& first) const {
        const std::vector<std::string>& only = all_.options.only;
        return only.empty() || is_form_of(name, first.substr(0, first.find(", "))) || name == memory_chase::name ||
               std::any_of(only.begin(), only.end(), [&](const std::string& one) { return is_form_of(name, one); });
    }
    [[nodiscard]] std::vector<perf_test::subject> chosen(const std::vector<perf_test::subject>& all) const {
        std::vector<perf_test::subject> kept;
        for (const perf_test::subject& one : all)
            if (is_chosen(one.name, all.front().name)) kept.push_back(one);
        return kept;
    }
    [[nodiscard]] perf_test::interleaved_options timing() const {
        perf_test::interleaved_options timing;
        timing.seconds = all_.options.quick ? std::min(all_.options.seconds, 0.15) : all_.options.seconds;
        // Fewer than 11 rounds give an interval that a single disturbed one can widen beyond use.
        if (all_.options.quick) timing.rounds_min = 11;
        return timing;
    }

    /// Takes over what is good and says of the rest why it is not there (I1 of report.hpp).
    void fill(experiment_report& done, const perf_test::interleaved_result& found, bool paired, bool exact = false) {
        std::vector<std::size_t> places;
        for (std::size_t i = 0; i < found.subjects.size(); ++i) {
            const perf_test::result& one = found.subjects[i];
            std::string failure = one.failure;
            if (failure.empty() && !(one.time.median > 0)) failure = "its median is not above zero";
            if (!failure.empty()) {
                skip(one.name, done.name + ": " + failure);
                continue;
            }
            places.push_back(i);
            done.subjects.push_back({.name = one.name,
                                     .samples = one.samples,
                                     .described = one.time,
                                     .bounded = exact || one.time.count >= perf_test::warning_limits::samples_least,
                                     .batch = one.batch,
                                     .warnings = one.warnings});
        }
        if (!places.empty() && places.front() == 0)
            for (std::size_t k = 1; k < places.size(); ++k) add_ratio(done, found, places[k], k, paired);
        all_.experiments.push_back(std::move(done));
        if (listener_.done) listener_.done(all_);
    }

    static void add_ratio(experiment_report& done, const perf_test::interleaved_result& found, std::size_t place,
                          std::size_t peer, bool paired) {
        ratio_report r{.subject = done.subjects.front().name, .peer = done.subjects[peer].name, .paired = paired};
        r.bounded = done.subjects.front().bounded && done.subjects[peer].bounded;
        if (paired) {
            const perf_test::paired_ratio p = done.higher_is_better ? found.ratio(place, 0) : found.ratio(0, place);
            r.ratio = p.ratio;
            r.range = p.ratio_95;
        } else {
            const perf_test::summary &ours = done.subjects.front().described, &theirs = done.subjects[peer].described;
            const perf_test::summary &over = done.higher_is_better ? ours : theirs,
                                     &under = done.higher_is_better ? theirs : ours;
            r.ratio = over.median / under.median;
            // Both true medians lie in their intervals with at least 0.95 squared; wider than needed, never narrower.
            r.range = {over.median_95.low / under.median_95.high, over.median_95.high / under.median_95.low};
        }
        if (std::isfinite(r.ratio) && r.ratio > 0 && std::isfinite(r.range.low) && std::isfinite(r.range.high))
            done.ratios.push_back(std::move(r));
    }

    std::string suite_;
    report& all_;
    const run_listener& listener_;
    std::chrono::steady_clock::time_point told_{};  // when progress was last shown
};

}  // namespace

report run_suites(const std::vector<const suite*>& suites, const run_options& options, const run_listener& listener) {
    report all{.machine = this_machine(), .started = perf_test::utc_now(), .options = options};
    for (const suite* const one : suites) {
        timing_recorder into(one->name, all, listener);
        try {
            one->run(into);
        } catch (const std::bad_alloc&) {
            all.failures.push_back({one->name, {}, "the system gave no more memory; free some, or use --quick"});
        } catch (const std::exception& failure) {
            all.failures.push_back({one->name, {}, failure.what()});
        } catch (...) {
            all.failures.push_back({one->name, {}, "it threw something that is no std::exception"});
        }
    }
    return all;
}

std::vector<std::string> experiment_names(const suite& one, const run_options& options) {
    name_collector collector(one.name, options);
    one.run(collector);
    return std::move(collector.names);
}

}  // namespace holdfast::workload
