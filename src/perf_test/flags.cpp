// SPDX-License-Identifier: Apache-2.0
// flags.cpp - the one table of flags.
#include <algorithm>
#include <array>
#include <string>

#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/workers.hpp"
#include "perf_test/flag_values.hpp"

namespace holdfast::perf_test {
namespace {

constexpr std::uint64_t cpus_max = 1 << 16;

std::vector<std::size_t> workers_of(std::string_view text) {
    const auto numbers = wholes_of(text, 1, workers_max);
    return {numbers.begin(), numbers.end()};
}

void take_hz(flag_values& v, std::string_view text) {
    v.hz_given = text != "-1";
    v.test.hz = v.hz_given ? rate_of(text) : test_options{}.hz;
}
void take_time(flag_values& v, std::string_view text) {
    v.seconds_given = text != "-1";
    v.test.seconds = v.seconds_given ? seconds_of(text, false) : test_options{}.seconds;
}
void take_pin(flag_values& v, std::string_view text) {
    const auto cpus = text.empty() ? wholes_of("0", 0, cpus_max) : wholes_of(text, 0, cpus_max);
    v.test.pin.assign(cpus.begin(), cpus.end());
}
void take_arrival(flag_values& v, std::string_view text) {
    v.arrival_given = true;
    v.test.arrival = word_of(text, {"fixed", "poisson"}) == 0 ? arrivals::fixed : arrivals::poisson;
}
void take_pace(flag_values& v, std::string_view text) {
    v.pace_given = true;
    v.test.pace = word_of(text, {"spin", "sleep"}) == 0 ? pacing::spin : pacing::sleep;
}
void take_count(flag_values& v, std::string_view text) {
    v.test.count = word_of(text, {"perf", "callgrind"}) == 0 ? counting::perf : counting::callgrind;
}

constexpr std::array table{
    flag{"hz", "RATE", "operations a second by a fixed schedule; 0: as fast as it goes (default)", take_hz},
    flag{"time", "MS", "time measured for each test in milliseconds, or with a unit: 500, 2s (default 1500)",
         take_time},
    flag{"warmup", "MS", "most that warming up may take; 0: none (default: a fifth of -time)",
         [](flag_values& v, std::string_view t) { v.test.warmup_seconds = seconds_of(t, true); }},
    flag{"precision", "PART", "stop early once the median is known to within this part of it, like 1%",
         [](flag_values& v, std::string_view t) { v.test.precision = part_of(t); }},
    flag{"batch", "N", "operations between two readings of the clock (default: calibrated)",
         [](flag_values& v, std::string_view t) { v.test.batch = whole_of(t, 1, 1'000'000'000'000); }},
    flag{"timeout", "MS",
         "a test that lives longer hangs: the program ends with status 3; 0: never (default: 6 times -time and 30 s)",
         [](flag_values& v, std::string_view t) { v.test.timeout_seconds = seconds_of(t, true); }},
    flag{"latency", "", "time each call and show percentiles",
         [](flag_values& v, std::string_view) { v.test.latency = true; }},
    flag{"arrival", "fixed|poisson", "with -hz: how starts are spread over time (default fixed)", take_arrival},
    flag{"pace", "spin|sleep", "with -hz: how the next start is waited for (default spin)", take_pace},
    flag{"threads", "N,...", "the body in so many threads at once, one measurement for each number",
         [](flag_values& v, std::string_view t) { v.test.threads = workers_of(t); }},
    flag{"procs", "N,...", "likewise in forked processes",
         [](flag_values& v, std::string_view t) { v.test.processes = workers_of(t); }},
    flag{"pin", "[CPU,...]", "tie workers to these CPUs in turn (without a value: CPU 0)", take_pin},
    flag{"count", "perf|callgrind", "count instructions too: by the CPU's counters, or by valgrind (exact, slow)",
         take_count},
    flag{"seed", "N", "of everything that is drawn at random (default: from the clock, and shown)",
         [](flag_values& v, std::string_view t) { v.test.seed = whole_of(t, 0, ~std::uint64_t{0}); }},
    flag{"perf_json", "FILE", "write all results as JSON",
         [](flag_values& v, std::string_view t) { v.output.json = file_of(t); }},
    flag{"perf_csv", "FILE", "write all results as comma-separated values",
         [](flag_values& v, std::string_view t) { v.output.csv = file_of(t); }},
    flag{"perf_html", "FILE", "write all results as one page with plots",
         [](flag_values& v, std::string_view t) { v.output.html = file_of(t); }},
    flag{"perf_junit", "", "put the numbers into GoogleTest's own report (--gtest_output) as properties",
         [](flag_values& v, std::string_view) { v.output.junit = true; }},
    flag{"perf_baseline", "FILE", "compare with results that --perf_json wrote",
         [](flag_values& v, std::string_view t) { v.output.baseline = file_of(t); }},
    flag{"min_effect", "PART", "slower by less than this is no regression (default 3%)",
         [](flag_values& v, std::string_view t) { v.output.min_effect = part_of(t); }},
    flag{"min_effect_instructions", "PART", "likewise, more instructions counted by -count=callgrind (default 1%)",
         [](flag_values& v, std::string_view t) { v.output.min_effect_instructions = part_of(t); }},
    flag{"perf_fail_on_regression", "", "a regression against the baseline fails the program",
         [](flag_values& v, std::string_view) { v.output.fail_on_regression = true; }},
    flag{"perf_help", "", "show these flags", [](flag_values& v, std::string_view) { v.help = true; }},
};

}  // namespace

std::span<const flag> flag_table() noexcept { return table; }

std::string flag_help() {
    std::string text =
        "Flags of performance tests (one or two dashes; a flag beats what a test itself asks for; -1 is the "
        "default):\n";
    for (const flag& one : table) {
        std::string head("  -");
        head += one.name;
        if (one.value.starts_with('[')) {
            head.append("[=").append(one.value.substr(1));
        } else if (!one.value.empty()) {
            head.append("=").append(one.value);
        }
        head.resize(std::max<std::size_t>(head.size() + 2, 30), ' ');
        text.append(head).append(one.help).append("\n");
    }
    return text;
}

}  // namespace holdfast::perf_test
