// SPDX-License-Identifier: Apache-2.0
// baseline_sink.cpp - every number of a test against the same number of the baseline's runs.
//
// (I1) Nothing is left out in silence: each number is judged, or it is told why not.
// (I2) Where a regression fails the run, so does a test that is in the baseline and cannot be compared with it: a check
//      that compares nothing must not look like one that found nothing.
#include "perf_test/baseline_sink.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/compare.hpp"
#include "holdfast/perf_test/judgement.hpp"
#include "holdfast/perf_test/output.hpp"
#include "perf_test/figures.hpp"

namespace holdfast::perf_test {
namespace {

using figures = std::vector<figure>;

std::string names_of(const figures& all) {
    std::string text;
    for (const figure& one : all)
        if (one.numbers.median > 0) text.append(text.empty() ? "" : ", ").append(one.name);
    return text.empty() ? "no number" : text;
}

class baseline_sink final : public sink {
 public:
    baseline_sink(const output_options& output, const environment& here)
        : runs_(output.baseline, here),
          count_effect_(output.min_effect_instructions),
          fails_(output.fail_on_regression) {
        options_.min_effect = output.min_effect;
    }

    void add(const result& found) override {
        if (!found.good()) return;  // it fails by itself
        const std::string test = found.full_name();
        const std::vector<result> base = runs_.runs_of(test);
        if (base.empty()) return new_.push_back(test);
        std::vector<figures> before;
        for (const result& run : base) before.push_back(figures_of(run));
        const figures now = figures_of(found);
        figures unknown;
        for (const figure& one : now)
            if (!compare(found, one, before)) unknown.push_back(one);
        if (unknown.size() == now.size())
            return refused_.push_back({test, "cannot be compared: measured now: " + names_of(now) +
                                                 "; in the baseline: " + names_of(before.front()) +
                                                 ". Measure both in the same way, or take a new baseline"});
        for (const figure& one : unknown) new_.push_back(std::string(test).append(", ").append(one.name));
    }

    std::vector<std::string> finish() override {
        judge(family_, options_);
        std::vector<std::string> failures;
        judged_.clear();
        for (std::size_t i = 0; i < family_.size(); ++i)
            keep(judgement_of(family_[i], options_, judged_by::baseline), family_tests_[i]);
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            judgement made = judgement_of(counts_[i], options_, judged_by::baseline);
            made.limit = 1 + count_effect_;
            made.alpha = made.p_value = made.confidence = judgement::none;  // no chance is in it
            keep(std::move(made), count_tests_[i]);
        }
        const auto say = [&](const std::string& name, const std::string& text, bool wrong) {
            std::printf("baseline: %s: %s\n", holdfast::detail::printable(name).c_str(),
                        holdfast::detail::printable(text).c_str());
            if (fails_ && wrong) failures.push_back(std::string(name).append(": ").append(text));
        };
        for (const auto* const all : {&family_, &counts_})
            for (const comparison& one : *all) say(one.name, one.text, one.outcome == verdict::slower);
        for (const auto& [name, why] : refused_) say(name, why, true);
        for (const std::string& name : new_) say(name, "not in the baseline", false);
        if (tails_ > 0)
            std::printf("baseline: %zu percentiles above the median were not compared: that takes %zu runs in it\n",
                        tails_, tail_runs_least());
        std::fflush(stdout);
        family_.clear();
        counts_.clear();
        family_tests_.clear();
        count_tests_.clear();
        refused_.clear();
        new_.clear();
        tails_ = 0;
        return failures;
    }

    std::vector<judgement> judged() override { return std::exchange(judged_, {}); }

 private:
    struct test_name {
        std::string suite, name;
    };

    void keep(judgement made, const test_name& test) {
        made.suite = test.suite;
        made.name = test.name;
        made.passed = made.passed || !fails_;
        judged_.push_back(std::move(made));
    }

    // So that their deviation between runs is known: what is assumed for medians is far too little for a tail.
    [[nodiscard]] std::size_t tail_runs_least() const { return options_.degrees_of_freedom + 1; }

    /// Returns: false if no run of the baseline has that number.
    bool compare(const result& found, const figure& now, const std::vector<figures>& before) {
        const std::string test = found.full_name();
        std::vector<summary> base;
        for (const figures& run : before)
            for (const figure& one : run)
                if (one.name == now.name && one.numbers.median > 0) base.push_back(one.numbers);
        if (base.empty()) return false;
        const std::string name = now.name == "median" ? test : std::string(test).append(", ").append(now.name);
        if (!(now.numbers.median > 0)) {
            refused_.push_back({name, "nothing is left to compare: it is 0 now and was above that in the baseline"});
        } else if (now.kind == figure_kind::count) {
            std::vector<double> counts;
            for (const summary& one : base) counts.push_back(one.median);
            counts_.push_back(compare_counts(counts, now.numbers.median, count_effect_));
            counts_.back().name = name;
            count_tests_.push_back({found.suite, found.name});
        } else if (now.kind == figure_kind::tail && base.size() < tail_runs_least()) {
            ++tails_;
        } else {
            family_.push_back(compare_runs(base, {&now.numbers, 1}, options_));
            family_.back().name = name;
            family_tests_.push_back({found.suite, found.name});
        }
        return true;
    }

    struct refusal {
        std::string name, why;
    };
    baseline runs_;
    compare_options options_;
    double count_effect_;
    bool fails_;
    std::vector<comparison> family_, counts_;
    std::vector<test_name> family_tests_, count_tests_;  // of which test each of these is
    std::vector<judgement> judged_;
    std::vector<refusal> refused_;
    std::vector<std::string> new_;
    std::size_t tails_ = 0;
};

}  // namespace

std::unique_ptr<sink> make_baseline_sink(const output_options& output, const environment& here) {
    return std::make_unique<baseline_sink>(output, here);
}

}  // namespace holdfast::perf_test
