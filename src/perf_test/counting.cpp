// SPDX-License-Identifier: Apache-2.0
#include "perf_test/counting.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "holdfast/perf_test/counters.hpp"
#include "holdfast/perf_test/options.hpp"
#include "perf_test/command_line.hpp"

namespace holdfast::perf_test {
namespace {

constexpr std::uint64_t callgrind_operations = 1000;  // enough to divide by; valgrind makes each fifty times as long
constexpr const char* floor_variable = "HOLDFAST_PERF_COUNT_FLOOR";

// An environment variable that is another one for the life of the object; null: none.
class scoped_variable {
 public:
    scoped_variable(const char* name, const char* value) : name_(name) {
        if (const char* before = std::getenv(name)) before_ = before, had_ = true;
        set(value);
    }
    ~scoped_variable() { set(had_ ? before_.c_str() : nullptr); }
    scoped_variable(const scoped_variable&) = delete;
    scoped_variable& operator=(const scoped_variable&) = delete;

 private:
    void set(const char* value) noexcept {
        if (value == nullptr) {
            ::unsetenv(name_);
        } else {
            ::setenv(name_, value, 1);
        }
    }
    const char* name_;
    std::string before_;
    bool had_ = false;
};

void count_usage(body_runner& body, std::uint64_t operations, result& found) {
    body.prepare(operations);
    usage_counters usage;
    const allocation_totals allocated = allocations_of_this_thread();
    const std::uint64_t done = body.run_batch(operations);
    const std::vector<counter> counts = usage.stop(done);
    const std::vector<counter> allocations = allocations_since(allocated, done);
    body.finish();
    found.counters.insert(found.counters.end(), counts.begin(), counts.end());
    found.counters.insert(found.counters.end(), allocations.begin(), allocations.end());
}

void count_events(body_runner& body, std::uint64_t operations, result& found) {
    event_counters events;
    if (!events.available()) {
        found.warnings.push_back({"counters", events.reason()});
        return;
    }
    body.prepare(operations);
    events.start();
    const std::uint64_t done = body.run_batch(operations);
    std::vector<counter> counts = events.stop(done);
    body.finish();
    events.start();
    const std::vector<counter> floor = events.stop(body.run_floor(operations));
    for (counter& one : counts) {
        const auto same =
            std::find_if(floor.begin(), floor.end(), [&](const counter& f) { return f.name == one.name; });
        if (same != floor.end()) one.per_operation = std::max(0.0, one.per_operation - same->per_operation);
        found.counters.push_back(one);
    }
}

std::string own_program() {
    char path[4096];
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
    return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
}

// What this program was given that is neither ours nor GoogleTest's: its tests may need it.
std::vector<std::string> arguments_of_others() {
    std::vector<std::string> arguments = command_line();
    if (arguments.empty()) return {};
    try {
        static_cast<void>(parse_flags(arguments, unknown_arguments::keep));
    } catch (const usage_error&) {
        return {};  // main() took away what we do not understand, before we were asked
    }
    arguments.erase(arguments.begin());
    const auto others = std::find(arguments.begin(), arguments.end(), "--");  // behind it nothing is a flag
    const auto kept = std::remove_if(arguments.begin(), others, [](const std::string& one) {
        return one.starts_with("--gtest_") || one.starts_with("-gtest_");
    });
    arguments.erase(kept, others);
    return arguments;
}

// The command that runs this test alone and counts so many operations of it.
std::vector<std::string> counting_command(const test_options& options, std::uint64_t operations) {
    std::vector<std::string> command{own_program(),
                                     "--gtest_filter=" + options.suite + "." + options.name,
                                     "--gtest_also_run_disabled_tests",
                                     "--gtest_repeat=1",
                                     "-count=callgrind",
                                     "-timeout=0",
                                     "-batch=" + std::to_string(operations)};
    const std::vector<std::string> others = arguments_of_others();
    command.insert(command.end(), others.begin(), others.end());
    return command;
}

// Operations of the pass that counts. Where calls were timed one by one: what takes about 10 ms, never more than those.
std::uint64_t operations_to_count(const body_runner& body, const result& found) {
    if (found.batch != 0) return found.batch;
    if (body.batch() != 0) return body.batch();
    const latency_result* const calls = found.rate ? &found.rate->service : found.latency ? &*found.latency : nullptr;
    if (calls == nullptr || calls->count == 0) return 0;
    const double most = std::min(1e7 / std::max(calls->mean, 1.0), static_cast<double>(calls->count));
    return static_cast<std::uint64_t>(std::max(1.0, most));
}

void count_instructions(const test_options& options, std::uint64_t operations, result& found) {
    const std::vector<std::string> command = counting_command(options, operations);
    const double patience = options.timeout() > 0 ? options.timeout() / 3 : 600;
    const scoped_variable shards("GTEST_TOTAL_SHARDS", nullptr),
        output("GTEST_OUTPUT", nullptr);  // not for the children
    const callgrind_result whole = count_with_callgrind(command, patience);
    const scoped_variable floor_only(floor_variable, "1");
    const callgrind_result floor = whole.failure.empty() ? count_with_callgrind(command, patience) : whole;
    for (const callgrind_result* one : {&whole, &floor}) {
        if (one->failure.empty()) continue;
        found.warnings.push_back({"callgrind", "no instructions were counted: " + one->failure});
        return;
    }
    const auto difference = static_cast<double>(whole.instructions) - static_cast<double>(floor.instructions);
    found.counters.push_back(
        {"instructions", std::max(0.0, difference / static_cast<double>(operations)), "callgrind"});
}

}  // namespace

void count_beside(const test_options& options, body_runner& body, result& found) {
    const std::uint64_t operations = operations_to_count(body, found);
    if (!found.good() || found.aborted || operations == 0) return;
    if (options.count == counting::callgrind) {
        count_instructions(options, body.batch() != 0 ? body.batch() : std::min(operations, callgrind_operations),
                           found);
    }
    count_usage(body, operations, found);
    if (options.count == counting::perf && !stop_sign::is_raised()) count_events(body, operations, found);
    found.aborted = stop_sign::is_raised();
}

bool is_counted_child(const test_options& options) noexcept {
    return options.count == counting::callgrind && under_valgrind();
}

result run_counted_child(const test_options& options, body_runner& body) {
    result found;
    found.suite = options.suite;
    found.name = options.name;
    const std::uint64_t operations = options.batch != 0 ? options.batch : callgrind_operations;
    body.prepare(operations);
    run_counted([&] {
        found.count = std::getenv(floor_variable) != nullptr ? body.run_floor(operations) : body.run_batch(operations);
    });
    body.finish();
    found.aborted = stop_sign::is_raised();
    return found;
}

}  // namespace holdfast::perf_test
