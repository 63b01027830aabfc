// SPDX-License-Identifier: Apache-2.0
// sinks.cpp - the sinks that the flags ask for: files that are complete whenever they are there, and the baseline's.
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
#include "perf_test/baseline_sink.hpp"

namespace holdfast::perf_test {

namespace {

/// One file with all results so far. It is replaced whole, so that a program that is killed leaves the last one.
///
/// Each result is written at once, as long as that takes no more than a twentieth of the time: the file grows with
/// every test, and writing it anew for each of thousands of quick ones would take longer than they do.
class file_sink final : public sink {
 public:
    using writer = std::string (*)(const run_record&);
    file_sink(std::string path, writer text, const environment& where) : path_(std::move(path)), text_(text) {
        run_.where = where;
        run_.started = utc_now();
    }

    void add(const result& found) override {
        run_.results.push_back(found);
        write_if_cheap();
    }

    void add_judgement(const judgement& made) override {
        run_.judgements.push_back(made);
        write_if_cheap();
    }

    std::vector<std::string> finish() override {
        write();
        return {};
    }

 private:
    using clock = std::chrono::steady_clock;

    void write_if_cheap() {
        const auto begin = clock::now();
        if (begin < next_) return;
        write();
        const auto end = clock::now();
        next_ = end + 19 * (end - begin);
    }

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
    clock::time_point next_;  ///< the earliest time at which writing is cheap enough
};

}  // namespace

std::vector<std::unique_ptr<sink>> make_sinks(const flag_values& flags, const build_facts& build) {
    const output_options& output = flags.output;
    std::vector<std::unique_ptr<sink>> all;
    if (output.baseline.empty() && output.json.empty() && output.csv.empty() && output.html.empty()) return all;
    const environment where = this_environment(build, {.root = "/", .repository = repository_of_this_program()});
    // The baseline is read before anything is written: it may be the very file.
    if (!output.baseline.empty()) all.push_back(make_baseline_sink(output, where));
    if (!output.json.empty()) all.push_back(std::make_unique<file_sink>(output.json, &to_json, where));
    if (!output.csv.empty())
        all.push_back(
            std::make_unique<file_sink>(output.csv, [](const run_record& run) { return to_csv(run.results); }, where));
    if (!output.html.empty()) all.push_back(std::make_unique<file_sink>(output.html, &to_html, where));
    return all;
}

}  // namespace holdfast::perf_test
