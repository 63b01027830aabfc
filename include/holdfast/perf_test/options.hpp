// SPDX-License-Identifier: Apache-2.0
// options.hpp - how a body is measured and where results go: the structures, and the flags that fill them.
//
// (I1) What counts: a flag on the command line, else what the test itself says (PERF_TEST_OPT, test_options), else the
//      default. -1 always means "as if not said".
// (I2) There is one table of flags (flag_table()): parsing, --perf_help, the near-miss suggestions and the
//      documentation's table all come from it.
// Threads: plain values; no shared state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

/// What is counted beside time.
enum class counting : std::uint8_t {
    standard,   ///< what costs nothing: context switches, page faults
    perf,       ///< instructions, cycles, misses by perf_event_open where the kernel allows it
    callgrind,  ///< instructions by valgrind: the same on every run and machine, slow
};

/// How one body is measured. The defaults are those of a test without any option.
struct test_options {
    std::string suite, name, parameter;  ///< of the test, for the result and for messages

    double hz = 0;                          ///< operations a second by a fixed schedule; 0: as fast as it goes
    double seconds = 1.5;                   ///< timed seconds, about
    std::optional<double> warmup_seconds;   ///< most that warming up may take; none: a fifth of seconds
    std::optional<double> timeout_seconds;  ///< the test is ended as hanging after this; 0: never; none: see timeout()
    double precision = 0;          ///< stops early once the median's interval is within this part of it; 0: never
    std::uint64_t batch = 0;       ///< operations a batch; 0: calibrated
    std::size_t batches_min = 30;  ///< as long as they take no more than three times `seconds`

    bool latency = false;  ///< time each call
    arrivals arrival = arrivals::fixed;
    pacing pace = pacing::spin;
    std::vector<std::size_t> threads;    ///< one measurement for each number of threads; empty: the calling thread
    std::vector<std::size_t> processes;  ///< likewise of forked processes
    std::vector<unsigned> pin;           ///< CPUs that workers are tied to, in turn; empty: not tied
    counting count = counting::standard;
    std::uint64_t seed = 0;  ///< of everything drawn at random; 0: taken from the clock

    /// Longest that the measurement may take, seconds; 0: as long as it likes. Generous: it is there for hanging.
    [[nodiscard]] double timeout() const noexcept;
};

/// Where results go beside the terminal, and what they are compared with.
struct output_options {
    std::string json, csv, html;            ///< files; empty: not written
    bool junit = false;                     ///< numbers become properties of GoogleTest's own XML and JSON reports
    std::string baseline;                   ///< a file written by --perf_json earlier
    double min_effect = 0.03;               ///< slower by less than this part is no regression
    double min_effect_instructions = 0.01;  ///< likewise, more instructions as callgrind counts them
    bool fail_on_regression = false;
};

/// All that the command line says.
struct flag_values {
    test_options test;  ///< what flags did not name has its default
    output_options output;
    /// These are from the command line, so that they beat the test's own also where they say the default.
    bool hz_given = false, seconds_given = false, arrival_given = false, pace_given = false;
    bool help = false;
    std::size_t flags_given = 0;

    /// I1 for one measurement whose test asks for `own`: what the command line names replaces it. A wish of the test's
    /// own that has no sense any more goes: -hz=0 takes arrivals and pacing with it, a mode the precision.
    [[nodiscard]] test_options over(test_options own) const;

    /// I1 for one test: opt_hz and opt_milliseconds are what the test says, negative if it does not.
    /// Throws: usage_error for a rate or time outside the limits.
    [[nodiscard]] test_options for_test(double opt_hz, double opt_milliseconds) const;
};

/// The command line makes no sense; the text says which part and what is expected.
struct usage_error : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

/// One flag. It is accepted with one or two dashes.
struct flag {
    std::string_view name;  ///< "hz"
    std::string_view
        value;  ///< form of its value, "" for none; in brackets if it may be left out: "[CPU,...]", a number then
    std::string_view help;                                     ///< one sentence
    void (*take)(flag_values& values, std::string_view text);  ///< throws usage_error
};
[[nodiscard]] std::span<const flag> flag_table() noexcept;

/// Usage text of all flags.
[[nodiscard]] std::string flag_help();

/// What to do with an argument that is none of ours.
enum class unknown_arguments : std::uint8_t {
    keep,    ///< it stays; refused is only what begins with "perf_" or is a long name's near miss: surely a slip
    refuse,  ///< every one that begins with a dash is refused, with the flag that was probably meant
};

/// Reads our flags and removes them from argv. GoogleTest's own (--gtest_...) are never touched.
/// Throws: usage_error; argv is unchanged then.
[[nodiscard]] flag_values parse_flags(int& argc, char** argv, unknown_arguments unknown);

/// The same from a list, first element the program's name; returns what is left in `arguments`.
[[nodiscard]] flag_values parse_flags(std::vector<std::string>& arguments, unknown_arguments unknown);

/// Finds out before the run what would fail after it: files that cannot be written, a baseline that cannot be read.
/// Throws: usage_error naming the file and the reason.
void check_outputs(const output_options& output);

}  // namespace holdfast::perf_test
