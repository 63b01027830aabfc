// SPDX-License-Identifier: Apache-2.0
// report.cpp - the scale as a table, as comma-separated values, as figures, and as one page; and what must hold of it.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "../page.hpp"
#include "figures.hpp"
#include "scale.hpp"

namespace study {
namespace {

namespace perf = holdfast::perf_test;

std::string print_number(const char* format, double value) {
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), format, value);
    return text.data();
}

/// What a step would take if a cycle took a second.
std::string human_text(double cycles) {
    constexpr double minute = 60, hour = 60 * minute, day = 24 * hour, year = 365.25 * day;
    if (cycles < 2 * minute) return print_number("%.0f s", cycles);
    if (cycles < 2 * hour) return print_number("%.0f min", cycles / minute);
    if (cycles < 2 * day) return print_number("%.0f h", cycles / hour);
    if (cycles < year) return print_number("%.0f days", cycles / day);
    return print_number("%.3g years", cycles / year);
}

std::string published_text(const step& one) {
    std::string text;
    for (const published_time& p : one.published) {
        text.append(text.empty() ? "" : "; ").append(time_text(p.low));
        if (p.high > p.low) text.append(" to ").append(time_text(p.high));
        text.append(" (").append(p.source).append(")");
    }
    return text;
}

std::string remarks_text(const step& one) {
    std::string text = one.measured() ? "" : "not measured: ";
    text += one.missing;
    for (const std::string& remark : one.remarks) text.append(text.empty() ? "" : ", ").append(remark);
    return text;
}

std::vector<std::vector<std::string>> rows_of(const scale& all) {
    const step* const cycle = all.find("processor cycle");
    std::vector<std::vector<std::string>> rows;
    for (const step& one : all.steps()) {
        const bool known = one.measured();
        const double cycles = known && cycle != nullptr ? one.time.median / cycle->time.median : 0;
        rows.push_back({one.name, known ? time_text(one.time.median) : "",
                        known ? time_text(one.time.median_95.low) + " to " + time_text(one.time.median_95.high) : "",
                        cycles > 0 ? print_number("%.3g", cycles) : "", cycles > 0 ? human_text(cycles) : "",
                        published_text(one), remarks_text(one)});
    }
    return rows;
}

const std::vector<std::string> headings{
    "step", "here", "95 % interval", "cycles", "if a cycle took a second", "published, other machines", "remarks"};

bool write(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file) std::fprintf(stderr, "%s could not be written\n", path.c_str());
    return static_cast<bool>(file);
}

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) out.append(c == '"' ? 2 : 1, c);
    return out += '"';
}

std::string csv_of(const scale& all) {
    std::string out = "step,how,median_ns,low_95_ns,high_95_ns,p05_ns,p95_ns,samples,published,remarks\n";
    for (const step& one : all.steps()) {
        out.append(quoted(one.name)).append(",").append(quoted(one.how));
        const perf::summary& t = one.time;
        for (const double value : {t.median, t.median_95.low, t.median_95.high, t.p05, t.p95})
            out.append(",").append(one.measured() ? print_number("%.6g", value) : std::string());
        out.append(",").append(std::to_string(t.count)).append(",").append(quoted(published_text(one)));
        out.append(",").append(quoted(remarks_text(one))).append("\n");
    }
    return out;
}

std::string page_body(const scale& all) {
    std::string body = where_text(perf::this_environment(perf::this_build()));
    body += card("The scale", scale_figure(all) + table(headings, rows_of(all)));
    if (!all.stairs().empty()) body += card("A dependent read by the size of the set", stairs_figure(all));
    std::vector<std::vector<std::string>> how;
    for (const step& one : all.steps())
        if (!one.how.empty()) how.push_back({one.name, one.how});
    return body + card("What was timed", table({"step", "how"}, how));
}

int failures = 0;

void expect(bool holds, const std::string& what) {
    if (holds) return;
    std::fprintf(stderr, "does not show: %s\n", what.c_str());
    ++failures;
}

/// Only where both were measured: what is missing has its reason.
void expect_less(const scale& all, const char* less, const char* more, double factor) {
    const step *const a = all.find(less), *const b = all.find(more);
    if (a == nullptr || b == nullptr) return;
    expect(a->time.median * factor < b->time.median,
           std::string(more) + " takes longer than " + print_number("%.3g", factor) + " times " + less);
}

}  // namespace

std::string time_text(double ns) {
    constexpr std::array units{"ns", "us", "ms", "s"};
    std::size_t unit = 0;
    for (; std::fabs(ns) >= 1000 && unit + 1 < units.size(); ++unit) ns /= 1000;
    return print_number(std::fabs(ns) < 10 ? "%.2f " : std::fabs(ns) < 100 ? "%.1f " : "%.0f ", ns) + units[unit];
}

void print(const scale& all) {
    std::printf("| %s | %s | %s | %s | %s | %s | %s |\n|---|---|---|---|---|---|---|\n", headings[0].c_str(),
                headings[1].c_str(), headings[2].c_str(), headings[3].c_str(), headings[4].c_str(), headings[5].c_str(),
                headings[6].c_str());
    for (const std::vector<std::string>& row : rows_of(all)) {
        for (const std::string& cell : row) std::printf("| %s ", cell.c_str());
        std::printf("|\n");
    }
}

bool write_files(const scale& all, const std::string& folder) {
    bool good = write(folder + "/latency_scale.csv", csv_of(all));
    good = write(folder + "/latency_scale.svg", scale_figure(all)) && good;
    if (!all.stairs().empty()) good = write(folder + "/cache_stairs.svg", stairs_figure(all)) && good;
    return write_page(folder + "/latency_scale.html", "The latency scale of this machine", page_body(all)) && good;
}

int check(const scale& all) {
    std::size_t measured = 0;
    for (const step& one : all.steps()) {
        if (one.measured()) ++measured;
        expect(one.measured() ? one.time.median > 0 : !one.missing.empty(), one.name + " has a time or a reason");
    }
    expect(all.stairs().size() >= 4 && all.stairs().front().ns < all.stairs().back().ns,
           "a read takes longer in a larger set");
    expect(measured >= 15, "most steps that one machine has can be timed");
    expect_less(all, "processor cycle", "L1 cache read", 2);
    expect_less(all, "L1 cache read", "L2 cache read", 1.5);
    expect_less(all, "L2 cache read", "memory read", 1.5);
    expect_less(all, "processor cycle", "branch guessed wrong", 4);
    expect_less(all, "L1 cache read", "line from core to core", 3);
    expect_less(all, "L1 cache read", "system call", 5);
    expect_less(all, "system call", "switch between threads", 2);
    expect_less(all, "L1 cache read", "page fault", 20);
    expect_less(all, "page fault", "process forked and ended", 10);
    expect_less(all, "thread started and joined", "program started and ended", 2);
    expect_less(all, "system call", "TCP round trip on loopback", 4);
    expect_less(all, "system call", "shortest sleep", 4);
    expect_less(all, "processor cycle", "4 KiB written and on the disk", 100);
    return failures;
}

}  // namespace study
