// SPDX-License-Identifier: Apache-2.0
// perf_results.hpp - made-up results of performance tests, and a folder for the files that are made of them.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/perf_test/output.hpp"
#include "holdfast/perf_test/result.hpp"
#include "holdfast/perf_test/statistics.hpp"

namespace holdfast::test {

using perf_test::describe, perf_test::latency_result, perf_test::result, perf_test::run_record;

inline const std::string hostile_text = "\"<&>,\r\n\x1b[31m\xff'";

/// Whether the result carries a warning of that code.
inline bool warns(const result& found, const std::string& code) {
    return std::any_of(found.warnings.begin(), found.warnings.end(),
                       [&](const perf_test::warning& one) { return one.code == code; });
}

inline result measured_result(std::string name, double median) {
    result r;
    r.suite = "Suite";
    r.name = std::move(name);
    r.count = 1000;
    r.seconds = 0.5;
    r.batch = 10;
    for (int i = 0; i < 41; ++i) r.samples.push_back(median * (0.9 + 0.005 * i));
    r.time = describe(r.samples);
    r.latency = latency_result{.count = 9,
                               .percentiles = {{0.5, 10, 9, 11, true}, {0.99, 90, 80, 99, false}},
                               .minimum = 1,
                               .mean = 12,
                               .maximum = 99};
    r.counters = {{"instructions", 42.5, "perf_event"}};
    r.warnings = {{"drift", "it became slower"}};
    return r;
}

inline result failed_result(std::string why) {
    result r = measured_result("Fails", 7);
    r.failure = std::move(why);
    return r;
}

inline run_record example() {
    run_record run;
    run.where.cpu = "Some CPU";
    run.where.cpus_usable = 4;
    run.where.memory_bytes = 8ULL << 30U;
    run.where.machine = "x86_64";
    run.where.build.optimised = true;
    run.started = "2026-01-02T03:04:05Z";
    run.results = {measured_result("Fast", 10), measured_result("Slow", 2e6), failed_result("it threw")};
    return run;
}

/// A folder that goes away with everything in it.
class scratch_folder {
 public:
    scratch_folder() {
        char name[] = "/tmp/holdfast-output-XXXXXX";
        folder_ = ::mkdtemp(name);
    }
    scratch_folder(const scratch_folder&) = delete;
    scratch_folder& operator=(const scratch_folder&) = delete;
    ~scratch_folder() {
        for (const std::string& file : files_) ::unlink(file.c_str());
        ::rmdir(folder_.c_str());
    }
    std::string file(const std::string& name, const std::string& text) {
        const std::string path = path_of(name);
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }
    std::string path_of(const std::string& name) {
        files_.push_back(std::string(folder_).append("/").append(name));
        return files_.back();
    }
    const std::string& folder() const { return folder_; }

 private:
    std::string folder_;
    std::vector<std::string> files_;
};

}  // namespace holdfast::test
