// SPDX-License-Identifier: Apache-2.0
// text.cpp - a result for people. The first four lines have the form that programs reading such output know.
#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/complexity.hpp"
#include "holdfast/perf_test/output.hpp"
#include "holdfast/perf_test/session.hpp"
#include "holdfast/perf_test/statistics.hpp"

namespace holdfast::perf_test {
namespace {

using holdfast::detail::printable;

constexpr std::string_view yellow = "\033[33m", red = "\033[31m", plain = "\033[0m";

[[gnu::format(printf, 1, 2)]] std::string print(const char* format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    const int length = std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return length > 0 ? std::string(text, std::min<std::size_t>(static_cast<std::size_t>(length), sizeof text - 1))
                      : "";
}

// 25369636 -> 25,369,636; what follows the digits stays.
std::string with_groups(const std::string& number) {
    const std::size_t digits = std::min(number.find_first_not_of("0123456789"), number.size());
    std::string text;
    for (std::size_t at = 0; at < number.size(); ++at) {
        if (at > 0 && at < digits && (digits - at) % 3 == 0) text += ',';
        text += number[at];
    }
    return text;
}

std::string line(const char* name, const std::string& text) { return print("%11s: ", name) + text + "\n"; }

// A time of fitting unit: 4.25 ns, 12.0 us, 3.40 ms.
std::string time_text(double ns) {
    const char* const units[] = {"ns", "us", "ms", "s"};
    std::size_t unit = 0;
    while (std::fabs(ns) >= 1000 && unit < 3) {
        ns /= 1000;
        ++unit;
    }
    return print(std::fabs(ns) < 10 ? "%.3f %s" : std::fabs(ns) < 100 ? "%.2f %s" : "%.1f %s", ns, units[unit]);
}

std::string rough_percent(double part) { return print(std::fabs(part) < 0.995 ? "%.2g %%" : "%.0f %%", part * 100); }

std::string four_lines(const result& r) {
    std::string text = line("count", with_groups(std::to_string(r.count)));
    text += line("time", print("%.6f s", r.seconds));
    text += line("HZ", with_groups(print("%.6f", r.hz())));
    const double each = r.seconds / static_cast<double>(r.count);
    return text +
           line("1/HZ", print(each < 1e-8 ? "%.12f s" : "%.9f s", each));  // a short one would show no digit but 0
}

std::string statistics_lines(const result& r) {
    const summary& t = r.time;
    std::string median =
        time_text(t.median) + "   95 %: " + time_text(t.median_95.low) + " to " + time_text(t.median_95.high);
    if (t.median > 0) median += " (+-" + rough_percent((t.median_95.high - t.median_95.low) / 2 / t.median) + ")";
    std::string text = line("median", median);
    text += line("spread", "MAD " + time_text(t.mad) + ", deviation " + rough_percent(coefficient_of_variation(t)) +
                               ", from " + time_text(t.minimum) + " to " + time_text(t.maximum));
    if (t.outliers.total() > 0) {
        text += line("outliers",
                     print("%zu of %zu (%zu low, %zu high; %zu of them severe)", t.outliers.total(), t.count,
                           t.outliers.low_mild + t.outliers.low_severe, t.outliers.high_mild + t.outliers.high_severe,
                           t.outliers.low_severe + t.outliers.high_severe));
    }
    if (r.batch == 0) return text;  // of several workers, each with its own
    return text + line("batches", print("%zu of %s, ", r.samples.size(), with_groups(std::to_string(r.batch)).c_str()) +
                                      "floor " + time_text(r.floor_ns) + " taken off");
}

// A percentile with the bounds that hold the true one, each on a line of its own below the name.
std::string latency_lines(const char* name, const latency_result& l) {
    std::string text;
    const auto add = [&](const std::string& level, const std::string& value) {
        text += text.empty() ? line(name, level + value) : std::string(13, ' ') + level + value + "\n";
    };
    for (const percentile& p : l.percentiles)
        add(print("p%-5g", p.level * 100),
            time_text(p.estimate) + (p.bounded ? "   95 %: " + time_text(p.lower) + " to " + time_text(p.upper)
                                               : " ? too few calls to tell"));
    add("max   ", time_text(l.maximum) + print("   of %s calls", with_groups(std::to_string(l.count)).c_str()));
    return text;
}

std::string rate_lines(const rate_result& r) {
    std::string text =
        line("rate", print("%s wanted, %s achieved, %s arrivals", with_groups(print("%.1f", r.wanted_hz)).c_str(),
                           with_groups(print("%.1f", r.achieved_hz)).c_str(),
                           r.arrival == arrivals::fixed ? "fixed" : "poisson"));
    std::string late = with_groups(std::to_string(r.late_starts)) + " starts, backlog at most " +
                       with_groups(std::to_string(r.backlog_max));
    if (r.abandoned > 0) late += ", " + with_groups(std::to_string(r.abandoned)) + " due and never begun";
    if (r.start_error_ns > 0) late += ", pacing late by " + time_text(r.start_error_ns);
    return text + line("late", late) + latency_lines("service", r.service) + latency_lines("response", r.response);
}

// A line of text broken at blanks, what follows the first line under its beginning.
std::string wrapped(const std::string& text) {
    constexpr std::size_t width = 105, indent = 13;
    std::string out;
    std::size_t column = 0;
    for (std::size_t from = 0; from < text.size();) {
        const std::size_t to = std::min(text.find(' ', from), text.size());
        if (column > 0 && column + 1 + to - from > width) {
            out.append("\n").append(indent, ' ');
            column = 0;
        } else if (column > 0) {
            out += ' ';
            ++column;
        }
        out.append(text, from, to - from);
        column += to - from;
        from = to + 1;
    }
    return out;
}

std::string workers_lines(const workers_result& w) {
    if (!w.failure.empty())
        return line(w.processes ? "processes" : "threads", print("%zu: ", w.workers) + printable(w.failure));
    std::string each = time_text(w.per_worker_ns.median) + " an operation";
    if (w.workers > 1)
        each += " (" + time_text(w.per_worker_ns.minimum) + " to " + time_text(w.per_worker_ns.maximum) + ")";
    std::string text = line(
        w.processes ? "processes" : "threads",
        print("%zu: %s a second together, a worker ", w.workers, with_groups(print("%.0f", w.wall_hz)).c_str()) + each);
    if (w.latency) text += latency_lines("latency", *w.latency);
    if (w.rate) text += rate_lines(*w.rate);
    return text;
}

}  // namespace

std::string to_text(const result& r, const text_style& style) {
    const auto coloured = [&](std::string_view colour, const std::string& text) {
        return style.colour ? std::string(colour) + text + std::string(plain) : text;
    };
    if (!r.good() || r.count == 0) {
        return coloured(red, line("no result", printable(r.good() ? "the body never ran" : r.failure)));
    }
    std::string text = four_lines(r);
    if (!r.samples.empty()) text += statistics_lines(r);
    if (r.latency) text += latency_lines("latency", *r.latency);
    if (r.rate) text += rate_lines(*r.rate);
    for (const workers_result& one : r.workers) text += workers_lines(one);
    for (const test_scaling& one : scaling_of(r)) text += line("scaling", wrapped(one.found.text));
    for (const counter& one : r.counters)
        if (one.per_operation > 0 || one.source != "rusage")  // no switches and no faults is what one expects
            text += line(one.name.c_str(), print("%.6g an operation", one.per_operation));
    for (const warning& one : r.warnings) text += coloured(yellow, line("warning", wrapped(one.text)));
    return text;
}

std::string to_text(const environment& where, const text_style& style) {
    std::string text = line("machine", wrapped(printable(identity_of(where))));
    for (const warning& one : warnings_of(where)) {
        const std::string told = line("warning", wrapped(printable(one.text)));
        text += style.colour ? std::string(yellow) + told + std::string(plain) : told;
    }
    return text;
}

std::string to_text(const test_growth& growth) {
    return line("growth", wrapped(printable(growth.suite + "." + growth.name) + " over n: " + growth.found.text));
}

}  // namespace holdfast::perf_test
