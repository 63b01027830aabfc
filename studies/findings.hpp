// SPDX-License-Identifier: Apache-2.0
// findings.hpp - what a study prints, draws and asserts, collected once: tables go to stdout as Markdown and to the
// page, charts to files of their own and to the page, and a claim that does not show is counted.
#pragma once

#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "line_chart.hpp"
#include "page.hpp"

namespace study {

[[nodiscard]] inline std::string number(double value, const char* format = "%.2f") {
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), format, value);
    return text.data();
}

/// 1e6 and the like.
[[nodiscard]] inline std::string power_of_ten(double value) {
    std::string text = number(value, "%.0e");
    return text.erase(text.find('+'), 2);
}

class findings {
 public:
    /// `folder`: where page and charts go; empty: nowhere.
    findings(std::string folder, std::string title) : folder_(std::move(folder)), title_(std::move(title)) {}

    void table(const std::string& heading, const std::vector<std::string>& headings,
               const std::vector<std::vector<std::string>>& rows) {
        std::printf("\n%s\n\n", heading.c_str());
        print_row(headings);
        print_row(std::vector<std::string>(headings.size(), "---"));
        for (const std::vector<std::string>& row : rows) print_row(row);
        std::fflush(stdout);
        page_ += card(heading, study::table(headings, rows));
    }

    /// Adds the chart to the page and writes it to NAME.svg.
    void chart(const std::string& name, const line_chart& drawn) {
        const std::string svg = svg_of(drawn);
        page_ += card(drawn.title, svg);
        if (folder_.empty()) return;
        const std::string path = folder_ + "/" + name + ".svg";
        std::ofstream file(path, std::ios::binary);
        file << svg;
        file.close();
        if (file) return;
        std::fprintf(stderr, "%s could not be written\n", path.c_str());
        written_ = false;
    }

    void text(const std::string& words) {
        std::printf("\n%s\n", words.c_str());
        page_ += element("p", words);
    }

    /// What the study is about, in front of all that it counts.
    void about(const std::string& published, const std::string& found, const std::string& follows) {
        text("What was published: " + published);
        text("What we find: " + found);
        text("What follows: " + follows);
    }

    /// Where timed numbers were taken, and what makes that place doubtful.
    void where(const holdfast::perf_test::environment& machine) {
        text(holdfast::perf_test::identity_of(machine));
        for (const holdfast::perf_test::warning& one : holdfast::perf_test::warnings_of(machine)) text(one.text);
    }

    void expect(bool holds, const std::string& what) {
        if (holds) return;
        std::fprintf(stderr, "does not show: %s\n", what.c_str());
        ++failures_;
    }

    /// Writes the page as NAME.html. Returns: the program's exit code, 1 for a claim that does not show if `check`.
    [[nodiscard]] int finish(const std::string& name, bool check) {
        if (!folder_.empty()) written_ &= write_page(folder_ + "/" + name + ".html", title_, page_);
        if (!written_) return 2;
        return check && failures_ > 0 ? 1 : 0;
    }

 private:
    static void print_row(const std::vector<std::string>& cells) {
        for (const std::string& cell : cells) std::printf("| %s ", cell.c_str());
        std::printf("|\n");
    }

    std::string folder_, title_, page_;
    bool written_ = true;
    int failures_ = 0;
};

}  // namespace study
