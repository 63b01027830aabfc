// SPDX-License-Identifier: Apache-2.0
// ab_noise - how often do verdicts about speed cry wolf, and how small a slow-down do they find?
//
//   study_ab_noise [--runs 300] [--trials 20] [--seconds 0.1] [--load 0] [--csv FILE] [--from FILE] [--html FILE]
//   [--check]
//
// A run is a process of its own (so that memory layout is drawn anew) that times three workloads, each against itself
// with data of its own: a chain of multiplications, dependent reads all over 4 MiB, sorting 64 numbers. First `runs` of
// these with nothing changed: every "faster" or "slower" is a false alarm, in turn (paired) and by groups of five
// process runs against the next five (runs). Then `trials` for each slow-down, where the second subject does that much
// more work than it says. --load N starts N rivals that use a CPU and memory in bursts of 5 to 50 ms. --csv writes what
// was measured; --from judges such a file again and measures nothing. --html writes the findings as a page with plots.
// --check, as the last word, ends with an error if a finding that docs/perf_test_noise.md states does not show.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/perf_test/clock.hpp"
#include "holdfast/perf_test/compare.hpp"
#include "noise_page.hpp"
#include "workloads.hpp"

namespace {

using namespace holdfast::perf_test;
using study::body_of, study::workloads;

constexpr std::array<double, 10> slow_downs{0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.10, 0.12, 0.15, 0.20};
constexpr std::size_t group = 5;  // process runs a side

// What one process found about one workload.
struct record {
    summary base, now;
    comparison change;
    std::size_t rounds = 0, disturbed = 0;
};

// Run in the child: a line a workload.
int measure(double seconds, double slow_down) {
    for (std::size_t w = 0; w < workloads.size(); ++w) {
        const auto base = body_of(w), other = body_of(w);
        const auto slowed = [&](std::uint64_t n) {
            other(n + static_cast<std::uint64_t>(static_cast<double>(n) * slow_down + 0.5));
        };
        interleaved_options options;
        options.seconds = seconds;
        // Equal batches: operations that are added by rounding would be a change of their own.
        interleaved_options once = options;
        once.seconds = options.batch_seconds_min;
        once.rounds_min = once.rounds_max = 1;
        const std::uint64_t batch = measure_interleaved({{"calibration", base, {}, 0}}, once).subjects[0].batch;
        const ab_result ab = measure_ab({"base", base, {}, batch}, {"now", slowed, {}, batch}, options);
        const summary &a = ab.run.subjects[0].time, &b = ab.run.subjects[1].time;
        std::printf("%zu %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g %zu %zu\n", w, a.median,
                    a.median_95.low, a.median_95.high, b.median, b.median_95.low, b.median_95.high, ab.change.ratio,
                    ab.change.ratio_95.low, ab.change.ratio_95.high, ab.change.p_value, ab.run.rounds,
                    ab.run.disturbed_rounds);
    }
    return 0;
}

// Streams do not read "inf", which is where an interval of few rounds ends.
double next_number(std::istream& from) {
    std::string word;
    from >> word;
    return std::strtod(word.c_str(), nullptr);
}

std::vector<record> run_process(double seconds, double slow_down) {
    int ends[2];
    if (::pipe(ends) != 0) return {};
    const std::string a = std::to_string(seconds), b = std::to_string(slow_down);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(ends[1], STDOUT_FILENO);
        ::close(ends[0]);
        ::close(ends[1]);
        ::execl("/proc/self/exe", "study_ab_noise", "--child", a.c_str(), b.c_str(), static_cast<char*>(nullptr));
        ::_exit(127);
    }
    ::close(ends[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR);)
        if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
    ::close(ends[0]);
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) return {};
    std::istringstream lines(text);
    std::vector<record> out(workloads.size());
    for (std::size_t i = 0, w = 0; i < workloads.size(); ++i) {
        record r;
        lines >> w;
        for (double* const x : {&r.base.median, &r.base.median_95.low, &r.base.median_95.high, &r.now.median,
                                &r.now.median_95.low, &r.now.median_95.high, &r.change.ratio, &r.change.ratio_95.low,
                                &r.change.ratio_95.high, &r.change.p_value})
            *x = next_number(lines);
        lines >> r.rounds >> r.disturbed;
        if (!lines || w != i) return {};
        r.change.name = workloads[i];
        out[i] = std::move(r);
    }
    return out;
}

// The three workloads of a process are one family.
std::vector<comparison> verdicts(const std::vector<record>& process) {
    std::vector<comparison> family;
    for (const record& r : process) family.push_back(r.change);
    judge(family);
    return family;
}

comparison verdict_of_groups(const std::vector<std::vector<record>>& processes, std::size_t first, std::size_t w,
                             double slow_down, std::size_t groups_later = 1) {
    std::vector<summary> base, now;
    for (std::size_t i = 0; i < group; ++i) {
        base.push_back(processes[first + i][w].base);
        now.push_back(processes[first + groups_later * group + i][w].base);
        for (double* x : {&now.back().median, &now.back().median_95.low, &now.back().median_95.high})
            *x *= 1 + slow_down;
    }
    return compare_runs(base, now);
}

[[noreturn]] void be_a_rival(unsigned seed) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::mt19937 random(seed);
    std::vector<std::uint64_t> memory(1U << 20);
    for (;;) {
        const std::uint64_t until = monotonic_ns() + 1'000'000U * (5 + random() % 46);
        while (monotonic_ns() < until)
            for (std::size_t i = 0; i < memory.size(); i += 8) memory[i] += i;
        ::usleep(1000 * (5 + static_cast<unsigned>(random() % 46)));
    }
}

struct arguments {
    std::size_t runs = 300, trials = 20, load = 0;
    double seconds = 0.1;
    std::string csv, from, html;
    bool check = false;
};

int failures = 0;
study::noise_findings findings;  // of this program, for the page

void expect(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "does not show: %s\n", what);
    ++failures;
}

std::string ratio_text(double ratio) {
    char text[40];
    std::snprintf(text, sizeof text, "%.4f", ratio);
    return text;
}

void print_alarms(const std::vector<std::vector<record>>& quiet) {
    std::size_t rounds = 0, disturbed = 0, paired = 0, groups = 0, group_alarms = 0, again = 0;
    std::array<std::size_t, 4> counts{};
    std::printf(
        "\n| workload | A/A ratio: 1 %% | median | 99 %% | same | too noisy | false alarms | by runs | twice in a row "
        "|\n"
        "|---|---|---|---|---|---|---|---|---|\n");
    for (std::size_t w = 0; w < workloads.size(); ++w) {
        std::vector<double> ratios;
        counts = {};
        for (const auto& process : quiet) {
            ratios.push_back(process[w].change.ratio);
            ++counts[static_cast<std::size_t>(verdicts(process)[w].outcome)];
            rounds += process[w].rounds;
            disturbed += process[w].disturbed;
        }
        std::sort(ratios.begin(), ratios.end());
        std::size_t here = 0, alarms = 0, twice = 0;
        for (std::size_t first = 0; first + 3 * group <= quiet.size(); ++first, ++here) {
            const verdict v = verdict_of_groups(quiet, first, w, 0).outcome;
            const bool alarm = v == verdict::faster || v == verdict::slower;
            alarms += alarm ? 1 : 0;
            twice += alarm && verdict_of_groups(quiet, first, w, 0, 2).outcome == v ? 1 : 0;
        }
        const std::size_t wrong =
            counts[static_cast<std::size_t>(verdict::faster)] + counts[static_cast<std::size_t>(verdict::slower)];
        const auto of = [](std::size_t part, std::size_t all) {
            return std::to_string(part) + " of " + std::to_string(all);
        };
        const std::vector<std::string> row{workloads[w],
                                           ratio_text(ratios[ratios.size() / 100]),
                                           ratio_text(ratios[ratios.size() / 2]),
                                           ratio_text(ratios[ratios.size() - 1 - ratios.size() / 100]),
                                           std::to_string(counts[0]),
                                           std::to_string(counts[3]),
                                           of(wrong, quiet.size()),
                                           of(alarms, here),
                                           of(twice, here)};
        for (const std::string& cell : row) std::printf("| %s ", cell.c_str());
        std::printf("|\n");
        findings.alarms.push_back(row);
        findings.ratios.push_back({workloads[w], ratios, w});
        paired += wrong;
        groups += here;
        group_alarms += alarms;
        again += twice;
    }
    char text[300];
    std::snprintf(
        text, sizeof text,
        "false alarms: %zu in %zu A/A runs of %zu comparisons, in turn; %zu in %zu comparisons of %zu process runs "
        "with the next %zu\n"
        "rounds with steal or an involuntary switch that were kept: %.1f %%",
        paired, quiet.size(), workloads.size(), group_alarms, groups, group, group,
        100.0 * static_cast<double>(disturbed) / static_cast<double>(std::max<std::size_t>(1, rounds)));
    std::printf("\n%s\n", text);
    findings.summary = text;
    expect(paired == 0, "in turn there is no false alarm");
    expect(group_alarms * 50 <= groups, "by process runs at most one comparison in 50 is a false alarm");
    expect(again * 200 <= groups, "twice in a row at most one in 200 is");
}

void print_found(double slow_down, const std::vector<std::vector<record>>& slowed,
                 const std::vector<std::vector<record>>& quiet) {
    std::printf("| %.0f %% |", slow_down * 100);
    for (std::size_t w = 0; w < workloads.size(); ++w) {
        std::size_t found = 0, by_runs = 0, groups = 0;
        for (const auto& process : slowed) found += verdicts(process)[w].outcome == verdict::slower ? 1 : 0;
        for (std::size_t first = 0; first + 2 * group <= quiet.size(); ++first, ++groups)
            by_runs += verdict_of_groups(quiet, first, w, slow_down).outcome == verdict::slower ? 1 : 0;
        if (!slowed.empty() && ((w == 0 && slow_down >= 0.04) || (w == 2 && slow_down >= 0.06)))
            expect(found * 10 >= slowed.size() * 9,
                   "slow-downs are found in turn 9 times in 10, of the chain from 4 % on and of sorting from 6 % on");
        const double share = groups > 0 ? 100.0 * static_cast<double>(by_runs) / static_cast<double>(groups) : 0;
        std::printf(" %zu of %zu | %.0f %% |", found, slowed.size(), share);
        if (findings.power.size() <= w) findings.power.push_back({workloads[w], {}});
        findings.power[w].second.push_back({slow_down, found, slowed.size(), share});
    }
    std::printf("\n");
    std::fflush(stdout);
}

void write_csv(std::ofstream& out, double slow_down, const std::vector<record>& process) {
    for (std::size_t w = 0; out && w < process.size(); ++w)
        out << slow_down << ',' << workloads[w] << ',' << process[w].base.median << ',' << process[w].now.median << ','
            << process[w].change.ratio << ',' << process[w].change.ratio_95.low << ','
            << process[w].change.ratio_95.high << ',' << process[w].change.p_value << ',' << process[w].rounds << ','
            << process[w].disturbed << '\n';
}

// What write_csv wrote; a last process that is not complete is left out. The times' own intervals are not in the file:
// they matter to single runs, which are not judged here.
bool read_csv(const std::string& path, std::vector<std::pair<double, std::vector<record>>>& out) {
    std::ifstream file(path);
    std::string line;
    if (!std::getline(file, line)) return false;
    std::vector<record> process;
    while (std::getline(file, line)) {
        std::replace(line.begin(), line.end(), ',', ' ');
        std::istringstream fields(line);
        record r;
        double slow_down = 0;
        fields >> slow_down >> r.change.name;
        for (double* const x : {&r.base.median, &r.now.median, &r.change.ratio, &r.change.ratio_95.low,
                                &r.change.ratio_95.high, &r.change.p_value})
            *x = next_number(fields);
        fields >> r.rounds >> r.disturbed;
        if (!fields || r.change.name != workloads[process.size()]) return false;
        process.push_back(std::move(r));
        if (process.size() == workloads.size()) out.emplace_back(slow_down, std::exchange(process, {}));
    }
    return true;
}

int run_study(const arguments& a) {
    std::vector<pid_t> rivals;
    for (std::size_t i = 0; i < a.load; ++i) {
        const pid_t rival = ::fork();
        if (rival == 0) be_a_rival(static_cast<unsigned>(i));
        if (rival > 0) rivals.push_back(rival);
    }
    std::ofstream csv;
    if (!a.csv.empty()) csv.open(a.csv);
    std::vector<std::pair<double, std::vector<record>>> recorded;
    if ((!a.csv.empty() && !csv) || (!a.from.empty() && !read_csv(a.from, recorded))) {
        std::fprintf(stderr, "ab_noise: %s cannot be used\n", a.csv.empty() ? a.from.c_str() : a.csv.c_str());
        return 1;
    }
    csv << "slow_down,workload,base_ns,now_ns,ratio,low_95,high_95,p_value,rounds,disturbed\n";
    const auto some = [&](std::size_t count, double slow_down) {
        std::vector<std::vector<record>> out;
        for (auto& [part, process] : recorded)
            if (std::fabs(part - slow_down) < 1e-9) out.push_back(process);
        for (std::size_t i = 0; i < count && a.from.empty(); ++i) {
            std::vector<record> process = run_process(a.seconds, slow_down);
            if (process.empty()) {
                std::fprintf(stderr, "ab_noise: a measuring process failed\n");
                std::exit(1);
            }
            write_csv(csv, slow_down, process);
            out.push_back(std::move(process));
        }
        return out;
    };
    const auto quiet = some(a.runs, 0);
    if (!quiet.empty()) print_alarms(quiet);
    std::printf(
        "\n| slow-down | chain: found in turn | by runs | reads: in turn | by runs | sort: in turn | by runs "
        "|\n|---|---|---|---|---|---|---|\n");
    for (const double slow_down : slow_downs) print_found(slow_down, some(a.trials, slow_down), quiet);
    for (const pid_t rival : rivals) {
        ::kill(rival, SIGKILL);
        ::waitpid(rival, nullptr, 0);
    }
    const std::string place = a.from.empty() ? study::where_text(this_environment(this_build()))
                                             : study::element("p", "Judged anew from " + a.from);
    if (!a.html.empty() && !study::write_noise_page(a.html, findings, place)) return 1;
    return a.check && failures > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 4 && std::strcmp(argv[1], "--child") == 0) return measure(std::atof(argv[2]), std::atof(argv[3]));
    arguments a;
    if (argc > 1 && std::strcmp(argv[argc - 1], "--check") == 0) {
        a.check = true;
        --argc;
    }
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        char* end = nullptr;
        const double value = std::strtod(argv[i + 1], &end);
        const bool number = *end == '\0' && end != argv[i + 1] && value >= 0 && value < 1e6;
        if (name == "--csv")
            a.csv = argv[i + 1];
        else if (name == "--from")
            a.from = argv[i + 1];
        else if (name == "--html")
            a.html = argv[i + 1];
        else if (name == "--runs" && number && value >= 1)
            a.runs = static_cast<std::size_t>(value);
        else if (name == "--trials" && number && value >= 1)
            a.trials = static_cast<std::size_t>(value);
        else if (name == "--load" && number)
            a.load = static_cast<std::size_t>(value);
        else if (name == "--seconds" && number && value > 0)
            a.seconds = value;
        else
            argc = 0;
    }
    if (argc % 2 == 0) {
        std::fprintf(
            stderr,
            "usage: study_ab_noise [--runs 300] [--trials 20] [--seconds 0.1] [--load 0] [--csv FILE] [--from FILE] "
            "[--html FILE] [--check]\n");
        return 2;
    }
    return run_study(a);
}
