// SPDX-License-Identifier: Apache-2.0
// sinks.cpp - the sinks that the flags ask for: files that are complete after every test, and the baseline's verdicts.
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/output.hpp"
#include "holdfast/perf_test/session.hpp"

namespace holdfast::perf_test {

namespace {

/// One file with all results so far. It is replaced whole, so that a program that is killed leaves the last one.
class file_sink final : public sink {
 public:
    using writer = std::string (*)(const run_record&);
    file_sink(std::string path, writer text, const build_facts& build) : path_(std::move(path)), text_(text) {
        run_.where = this_environment(build);
        run_.started = utc_now();
    }

    void add(const result& found) override {
        run_.results.push_back(found);
        // A test lasts a second or more; results that come faster than that are written together.
        if (const auto now = clock::now(); now - written_ > std::chrono::seconds(1)) {
            write();
            written_ = now;
        }
    }

    std::vector<std::string> finish() override {
        write();
        return {};
    }

 private:
    using clock = std::chrono::steady_clock;

    void write() const {
        const std::string text = text_(run_);
        const std::string making = std::string(path_).append(".new");
        // What is no plain file, as /dev/stdout, is written in place.
        struct stat status{};
        const bool in_place = ::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
        const std::string& target = in_place ? path_ : making;
        std::FILE* const file = std::fopen(target.c_str(), "we");
        bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
        if (file != nullptr) written = std::fclose(file) == 0 && written;
        if (written && !in_place) written = std::rename(making.c_str(), path_.c_str()) == 0;
        if (written) return;
        const int reason = errno;
        if (!in_place) std::remove(making.c_str());
        throw error(errc::io, path_, std::string("was not written: ").append(std::strerror(reason)));
    }

    std::string path_;
    writer text_;
    run_record run_;
    clock::time_point written_ = clock::now();
};

/// Compares each test of a pass with the baseline, and says the verdicts at its end.
class baseline_sink final : public sink {
 public:
    baseline_sink(const output_options& output, const build_facts& build)
        : runs_(output.baseline, this_environment(build)), fails_(output.fail_on_regression) {
        options_.min_effect = output.min_effect;
    }

    void add(const result& found) override {
        if (!found.good() || found.time.count == 0) return;
        const std::vector<summary> base = runs_.runs_of(found.full_name());
        if (base.empty() || !(found.time.median > 0)) {
            new_.push_back(found.full_name());
            return;
        }
        comparison one = compare_runs(base, {&found.time, 1}, options_);
        one.name = found.full_name();
        family_.push_back(std::move(one));
    }

    std::vector<std::string> finish() override {
        std::vector<std::string> failures;
        judge(family_, options_);
        for (const comparison& one : family_) {
            std::printf("baseline: %s: %s\n", one.name.c_str(), one.text.c_str());
            if (fails_ && one.outcome == verdict::slower)
                failures.push_back(std::string(one.name).append(": ").append(one.text));
        }
        for (const std::string& name : new_) std::printf("baseline: %s: not in the baseline\n", name.c_str());
        std::fflush(stdout);
        family_.clear();
        new_.clear();
        return failures;
    }

 private:
    baseline runs_;
    compare_options options_;
    bool fails_;
    std::vector<comparison> family_;
    std::vector<std::string> new_;
};

}  // namespace

std::vector<std::unique_ptr<sink>> make_sinks(const flag_values& flags, const build_facts& build) {
    const output_options& output = flags.output;
    std::vector<std::unique_ptr<sink>> all;
    // The baseline is read before anything is written: it may be the very file.
    if (!output.baseline.empty()) all.push_back(std::make_unique<baseline_sink>(output, build));
    if (!output.json.empty()) all.push_back(std::make_unique<file_sink>(output.json, &to_json, build));
    if (!output.csv.empty())
        all.push_back(
            std::make_unique<file_sink>(output.csv, [](const run_record& run) { return to_csv(run.results); }, build));
    if (!output.html.empty()) all.push_back(std::make_unique<file_sink>(output.html, &to_html, build));
    return all;
}

}  // namespace holdfast::perf_test
