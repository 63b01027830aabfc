// SPDX-License-Identifier: Apache-2.0
// trial_recorder.hpp - runs the experiments of a suite once, without a clock, and remembers what it was told.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workload/suite.hpp"

namespace holdfast::test {

class trial_recorder : public workload::recorder {
 public:
    explicit trial_recorder(workload::run_options options, std::uint64_t operations = 1000)
        : options_(std::move(options)), operations_(operations) {}

    bool wants(std::string_view name) override {
        const bool wanted = name.find(options_.filter) != std::string_view::npos;
        if (wanted) asked.insert(std::string(name));
        return wanted && !list_only;
    }
    /// As if each subject had taken one unit.
    std::vector<std::vector<double>> run(const workload::experiment& e) override {
        std::vector<std::string>& names = ran[e.name];
        for (int round = 0; round < 2; ++round)
            for (const perf_test::subject& s : e.subjects) {
                if (s.prepare) s.prepare();
                s.run(s.batch != 0 ? s.batch : operations_);
                if (round == 0) names.push_back(s.name);
            }
        published += e.published.size();
        return std::vector<std::vector<double>>(e.subjects.size(), {1.0});
    }
    void add(std::string_view name, std::string_view unit, const std::vector<std::string>& subjects,
             const std::vector<std::vector<double>>& samples, bool, const workload::sample_context& context) override {
        published += context.published.size();
        ran[std::string(name)] = subjects;
        for (std::size_t i = 0; i < subjects.size(); ++i)
            added[std::string(name) + " " + subjects[i]] = samples.at(i).at(0);
        units.insert(std::string(unit));
    }
    void skip(std::string_view subject, std::string_view reason) override {
        skipped[std::string(subject)] = std::string(reason);
    }
    void version(std::string_view subject, std::string_view text) override {
        versions[std::string(subject)] = std::string(text);
    }
    void note(std::string_view text) override { notes.emplace_back(text); }
    const workload::run_options& options() const override { return options_; }

    bool list_only = false;
    std::set<std::string> asked, units;
    std::map<std::string, std::vector<std::string>> ran;  ///< experiment -> subjects
    std::map<std::string, double> added;
    std::map<std::string, std::string> skipped, versions;
    std::vector<std::string> notes;
    std::size_t published = 0;

 private:
    workload::run_options options_;
    std::uint64_t operations_;
};

}  // namespace holdfast::test
