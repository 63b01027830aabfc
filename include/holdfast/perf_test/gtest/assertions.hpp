// SPDX-License-Identifier: Apache-2.0
// assertions.hpp - measuring inside an ordinary TEST, and assertions on what was measured.
//
//   const auto found = PERF_RUN { PERF_USE(map.find(7)); };
//   EXPECT_PERF_LT(found.median(), 200ns);                   fails if the whole 95 % interval is at 200 ns or above
//   const auto calls = PERF_LATENCY { server.answer(request); };
//   EXPECT_PERF_LT(calls.p99(), 5us);
//   EXPECT_PERF_RATIO(ours, theirs, < 0.8, 95 %);            fails unless that is shown with 95 % confidence
//   EXPECT_PERF_NOT_SLOWER(before, now, 5 %);                fails only if `now` is shown to be slower by more than 5 %
//
// A limit is a budget: it is broken only when noise cannot explain it, so a busy machine breaks no build. A ratio is a
// claim: it holds only when noise cannot explain it; where it is neither shown nor refuted, the message says so.
// NOT_SLOWER is for builds: its chance of a false alarm is 1 in 1000 for all of them in a program together, and where
// nothing can be told it passes and says so.
// Each of them is in the reports (judgement.hpp), kept or broken, with the numbers it stands on.
// A result of which nothing is left (the compiler removed the body) satisfies none of them.
// EXPECT_PERF_RATIO takes two results, or two callables, which are then run in turn: use that where the ratio matters.
// Of the command line, -time, -seed, -timeout and -pin hold for what is run in turn; the other flags do not.
#pragma once

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/perf_test/compare.hpp"
#include "holdfast/perf_test/environment.hpp"
#include "holdfast/perf_test/gtest/driver.hpp"
#include "holdfast/perf_test/interleaved.hpp"
#include "holdfast/perf_test/judgement.hpp"
#include "holdfast/perf_test/perf_result.hpp"

namespace holdfast::perf_test {

/// Measures a callable that does one operation, prints what was found, and fails the test if the body fails.
/// The flags of the command line beat the options, as they beat what PERF_TEST_OPT says. A name that the test has used
/// already gets a number. Throws: usage_error, and what the body throws.
template <std::invocable Body>
perf_result run(std::string_view name, test_options options, Body&& body) {
    const test_options here = detail::options_here(-1, -1);
    options = session::get().flags().over(std::move(options));
    std::vector<warning> told;
    if (options.count == counting::callgrind) {
        options.count = counting::standard;
        told.push_back({"callgrind", "callgrind counts PERF_TESTs; what is measured inside of a test is not counted"});
    }
    options.suite = here.suite;
    options.name = detail::name_of_run(here.name, name);
    options.parameter = here.parameter;
    looped_body<std::remove_reference_t<Body>> runner(body);
    return perf_result(detail::measure_here(options, runner, told));
}
template <std::invocable Body>
perf_result run(std::string_view name, Body&& body) {
    return run(name, detail::options_here(-1, -1), std::forward<Body>(body));
}

namespace detail {

// What stands before the braces of PERF_RUN: the body is added to it.
struct run_here {
    double hz = -1, milliseconds = -1;
    bool latency = false;

    template <std::invocable Body>
    perf_result operator+(Body&& body) const {
        test_options options = options_here(hz, milliseconds);
        options.latency = options.latency || latency;
        return run("", options, std::forward<Body>(body));
    }
};

enum class relation : std::uint8_t { less, less_or_equal, greater, greater_or_equal };

inline const char* text_of(relation wanted) {
    constexpr const char* texts[] = {"<", "<=", ">", ">="};
    return texts[static_cast<std::size_t>(wanted)];
}

/// Does the relation hold between two numbers?
inline bool holds(double a, relation wanted, double b) {
    switch (wanted) {
        case relation::less: return a < b;
        case relation::less_or_equal: return a <= b;
        case relation::greater: return a > b;
        case relation::greater_or_equal: return a >= b;
    }
    return false;
}
inline bool wants_less(relation wanted) { return wanted == relation::less || wanted == relation::less_or_equal; }

inline std::string rounded(double number) {
    char text[40];
    std::snprintf(text, sizeof text, "%.4g", number);
    return text;
}

inline std::string shown(const measured& number) {
    std::string text = rounded(number.value);
    if (number.range.low < number.range.high) {
        text.append(" (95 %: ")
            .append(rounded(number.range.low))
            .append(" to ")
            .append(rounded(number.range.high))
            .append(")");
    }
    return text;
}

/// A limit: refuted only if the ends of the intervals that are kindest to it do not satisfy it.
inline testing::AssertionResult within(const char* a_text, const char* b_text, const measured& a, relation wanted,
                                       const measured& b) {
    for (const auto& [text, number] : {std::pair{a_text, &a}, std::pair{b_text, &b}}) {
        if (!number->void_reason.empty()) return testing::AssertionFailure() << text << ": " << number->void_reason;
    }
    const bool possible =
        wants_less(wanted) ? holds(a.range.low, wanted, b.range.high) : holds(a.range.high, wanted, b.range.low);
    if (possible) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "Expected: (" << a_text << ") " << text_of(wanted) << " (" << b_text
                                       << "), actual: " << shown(a) << " against " << shown(b)
                                       << ": more than noise explains";
}

/// Puts an assertion's outcome into the reports and hands it back. An empty outcome means that there was no number.
inline testing::AssertionResult reported(judgement made, testing::AssertionResult result) {
    made.passed = static_cast<bool>(result);
    if (made.outcome.empty()) made.outcome = "void";
    if (made.text.empty()) made.text = made.passed ? made.subject : result.message();
    report(std::move(made));
    return result;
}

/// "a < b" in the words of the source.
inline std::string joined(const char* a_text, const char* relation_text, const char* b_text) {
    return std::string(a_text).append(" ").append(relation_text).append(" ").append(b_text);
}

template <relation Wanted>
struct limit_check {
    template <class A, class B>
    testing::AssertionResult operator()(const char* a_text, const char* b_text, const A& a, const B& b) const {
        const measured left = exactly(a), right = exactly(b);
        testing::AssertionResult result = within(a_text, b_text, left, Wanted, right);
        judgement made;
        made.by = judged_by::limit;
        made.subject = joined(a_text, text_of(Wanted), b_text);
        if (left.void_reason.empty() && right.void_reason.empty()) {
            made.outcome = result ? "kept" : "broken";
            made.value = left.value;
            made.range = left.range;
            if (left.range.low < left.range.high) made.confidence = 0.95;
            made.limit = right.value;
            made.text = joined(shown(left).c_str(), text_of(Wanted), shown(right).c_str());
        }
        return reported(std::move(made), std::move(result));
    }
};

// "any_ratio < 0.8" is what a ratio has to satisfy.
struct ratio_claim {
    relation wanted;
    double limit;
};
struct any_ratio {
    friend ratio_claim operator<(any_ratio, double limit) { return {relation::less, limit}; }
    friend ratio_claim operator<=(any_ratio, double limit) { return {relation::less_or_equal, limit}; }
    friend ratio_claim operator>(any_ratio, double limit) { return {relation::greater, limit}; }
    friend ratio_claim operator>=(any_ratio, double limit) { return {relation::greater_or_equal, limit}; }
};

inline measured ratio_between(const result& a, const result& b, double confidence) {
    return ratio_of(a, b, confidence);
}

/// One side of a comparison in turn: a callable that does one operation, or a subject, which says itself how many it
/// does and what must be made ready before a batch.
template <std::invocable Body>
subject in_turn(const char* text, Body& body) {
    return {.name = text,
            .run = [&body](std::uint64_t operations) { static_cast<void>(run_loop(body, operations)); },
            .prepare = {},
            .empty =
                [](std::uint64_t operations) {
                    empty_body nothing;
                    static_cast<void>(run_loop(nothing, operations));
                }};
}
inline subject in_turn(const char* /*text*/, const subject& given) { return given; }
template <class T>
concept comparable_in_turn = std::invocable<const T&> || std::same_as<T, subject>;

/// What was found in turn, and why it is void; empty if it is good.
struct found_in_turn {
    ab_result ab;
    std::string void_reason;
};

/// Times two sides in turn. Of the command line, -time, -seed, -timeout and -pin hold: the other flags ask for
/// measurements of one side alone.
inline found_in_turn measure_in_turn(const subject& first, const subject& second, const compare_options& compare = {}) {
    const test_options options = options_here(-1, -1);
    body_signals::clear();
    const watchdog guard(options.suite + "." + options.name, 2 * options.timeout());
    std::optional<cpu_pin> tied;
    if (!options.pin.empty()) tied.emplace(options.pin.front());
    found_in_turn found{measure_ab(first, second, {.seconds = options.seconds, .seed = options.seed}, compare),
                        why_void()};
    for (const result& one : found.ab.run.subjects)
        if (found.void_reason.empty()) found.void_reason = why_no_time(one);
    return found;
}

template <comparable_in_turn A, comparable_in_turn B>
measured ratio_between(const A& a, const B& b, double confidence) {
    const found_in_turn found = measure_in_turn(in_turn("the first", a), in_turn("the second", b));
    if (!found.void_reason.empty()) return {.value = 0, .range = {}, .void_reason = found.void_reason};
    return paired_ratio_of(found.ab.run.subjects[0], found.ab.run.subjects[1], confidence);
}

/// Whether a claim that is not shown may be true all the same.
inline bool still_possible(const measured& ratio, ratio_claim claim) {
    return holds(wants_less(claim.wanted) ? ratio.range.low : ratio.range.high, claim.wanted, claim.limit);
}

inline testing::AssertionResult shows(const char* a_text, const char* b_text, const measured& ratio, ratio_claim claim,
                                      const char* claim_text, const char* confidence_text) {
    if (!ratio.void_reason.empty()) return testing::AssertionFailure() << ratio.void_reason;
    const bool less = wants_less(claim.wanted);
    if (holds(less ? ratio.range.high : ratio.range.low, claim.wanted, claim.limit)) return testing::AssertionSuccess();
    const bool possible = still_possible(ratio, claim);
    return testing::AssertionFailure() << "Expected: time of " << a_text << " over time of " << b_text << " "
                                       << claim_text << ", actual: " << rounded(ratio.value) << " (" << confidence_text
                                       << ": " << rounded(ratio.range.low) << " to " << rounded(ratio.range.high)
                                       << "): "
                                       << (possible ? "neither shown nor refuted; measure longer (-time)" : "refuted");
}

/// How the next EXPECT_PERF_NOT_SLOWER judges. The k-th of a pass over the tests is wrong with a chance of at most
/// alpha / (k (k + 1)): together alpha, however many there are.
inline compare_options judged_here(const char* percent_text) {
    init_from_process();
    compare_options judged;
    judged.min_effect = *percent_text == '\0' ? session::get().flags().output.min_effect : percentage_of(percent_text);
    const double k = ++verdicts_of_this_pass;
    judged.alpha /= k * (k + 1);
    return judged;
}

/// A regression is alarmed of only if it is shown.
inline testing::AssertionResult not_slower(const char* base_text, const char* now_text, const comparison& change) {
    if (change.outcome != verdict::slower) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "Expected: " << now_text << " is not slower than " << base_text
                                       << ", actual: " << change.text;
}

/// The judgement of what was timed in turn.
inline judgement judgement_in_turn(const found_in_turn& found, const compare_options& judged, judged_by who,
                                   std::string subject) {
    judgement made = judgement_of(found.ab.change, judged, who);
    made.subject = std::move(subject);
    made.rounds = found.ab.run.rounds;
    if (found.void_reason.empty()) return made;
    judgement nothing;
    nothing.by = who;
    nothing.subject = std::move(made.subject);
    nothing.text = found.void_reason;
    return nothing;
}

struct not_slower_check {
    const char* percent_text;

    template <comparable_in_turn Base, comparable_in_turn Now>
    testing::AssertionResult operator()(const char* base_text, const char* now_text, const Base& base,
                                        const Now& now) const {
        const compare_options judged = judged_here(percent_text);
        const found_in_turn found = measure_in_turn(in_turn(base_text, base), in_turn(now_text, now), judged);
        judgement made =
            judgement_in_turn(found, judged, judged_by::not_slower, joined(now_text, "against", base_text));
        if (!found.void_reason.empty())
            return reported(std::move(made), testing::AssertionFailure() << found.void_reason);
        std::printf("%11s: %s: %s\n", "in turn", made.subject.c_str(), found.ab.change.text.c_str());
        return reported(std::move(made), not_slower(base_text, now_text, found.ab.change));
    }
};

/// A predicate for EXPECT_PRED_FORMAT2.
struct ratio_check {
    ratio_claim claim;
    const char *claim_text, *confidence_text;

    template <class A, class B>
    testing::AssertionResult operator()(const char* a_text, const char* b_text, const A& a, const B& b) const {
        const double confidence = confidence_of(confidence_text);
        const measured ratio = ratio_between(a, b, confidence);
        testing::AssertionResult result = shows(a_text, b_text, ratio, claim, claim_text, confidence_text);
        judgement made;
        made.by = judged_by::ratio;
        made.subject = joined(joined("time of", a_text, "over time of").c_str(), b_text, claim_text);
        if (ratio.void_reason.empty()) {
            made.outcome = result ? "shown" : still_possible(ratio, claim) ? "undecided" : "refuted";
            made.value = ratio.value;
            made.range = ratio.range;
            made.confidence = confidence;
            made.limit = claim.limit;
        }
        return reported(std::move(made), std::move(result));
    }
};

}  // namespace detail

/// Puts what measure_ab found in a test into the reports, as `options` had it judged. It fails nothing.
inline void report_comparison(std::string_view name, const ab_result& found, const compare_options& options = {}) {
    judgement made = judgement_of(found.change, options, judged_by::comparison);
    made.subject = name;
    made.rounds = found.run.rounds;
    detail::report(std::move(made));
}

}  // namespace holdfast::perf_test

/// Measures the block that follows: const auto found = PERF_RUN { body };
#define PERF_RUN ::holdfast::perf_test::detail::run_here{} + [&]
#define PERF_RUN_OPT(rate, time_ms) \
    ::holdfast::perf_test::detail::run_here{.hz = (rate), .milliseconds = (time_ms), .latency = false} + [&]
/// Likewise, each call timed by itself: the result has percentiles.
#define PERF_LATENCY ::holdfast::perf_test::detail::run_here{.hz = -1, .milliseconds = -1, .latency = true} + [&]

#define HOLDFAST_PERF_LIMIT(how, a, wanted, b)                                                                        \
    how##_PRED_FORMAT2(::holdfast::perf_test::detail::limit_check<::holdfast::perf_test::detail::relation::wanted>{}, \
                       a, b)
#define EXPECT_PERF_LT(a, b) HOLDFAST_PERF_LIMIT(EXPECT, a, less, b)
#define EXPECT_PERF_LE(a, b) HOLDFAST_PERF_LIMIT(EXPECT, a, less_or_equal, b)
#define EXPECT_PERF_GT(a, b) HOLDFAST_PERF_LIMIT(EXPECT, a, greater, b)
#define EXPECT_PERF_GE(a, b) HOLDFAST_PERF_LIMIT(EXPECT, a, greater_or_equal, b)
#define ASSERT_PERF_LT(a, b) HOLDFAST_PERF_LIMIT(ASSERT, a, less, b)
#define ASSERT_PERF_LE(a, b) HOLDFAST_PERF_LIMIT(ASSERT, a, less_or_equal, b)
#define ASSERT_PERF_GT(a, b) HOLDFAST_PERF_LIMIT(ASSERT, a, greater, b)
#define ASSERT_PERF_GE(a, b) HOLDFAST_PERF_LIMIT(ASSERT, a, greater_or_equal, b)

#define HOLDFAST_PERF_RATIO(how, a, b, claim, confidence)                                                            \
    how##_PRED_FORMAT2((::holdfast::perf_test::detail::ratio_check{::holdfast::perf_test::detail::any_ratio{} claim, \
                                                                   #claim, #confidence}),                            \
                       a, b)
/// Time of a over time of b: EXPECT_PERF_RATIO(ours, theirs, < 0.8, 95 %);
#define EXPECT_PERF_RATIO(a, b, claim, confidence) HOLDFAST_PERF_RATIO(EXPECT, a, b, claim, confidence)
#define ASSERT_PERF_RATIO(a, b, claim, confidence) HOLDFAST_PERF_RATIO(ASSERT, a, b, claim, confidence)

#define HOLDFAST_PERF_NOT_SLOWER(how, base, now, ...) \
    how##_PRED_FORMAT2((::holdfast::perf_test::detail::not_slower_check{#__VA_ARGS__}), base, now)
/// Two callables (or subjects), timed in turn: EXPECT_PERF_NOT_SLOWER(before, now); slower by up to -min_effect, 3 %
/// unless said otherwise, is not slower. A part behind them is a limit of this assertion alone: ..., now, 5 %);
#define EXPECT_PERF_NOT_SLOWER(base, now, ...) HOLDFAST_PERF_NOT_SLOWER(EXPECT, base, now __VA_OPT__(, ) __VA_ARGS__)
#define ASSERT_PERF_NOT_SLOWER(base, now, ...) HOLDFAST_PERF_NOT_SLOWER(ASSERT, base, now __VA_OPT__(, ) __VA_ARGS__)
