// SPDX-License-Identifier: Apache-2.0
// page.hpp - a study's findings as one page that loads nothing: tables, and charts of perf_test's plots.
#pragma once

#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/perf_test/environment.hpp"
#include "holdfast/perf_test/output.hpp"
#include "perf_test/plot.hpp"

namespace study {

namespace plot = holdfast::perf_test::plot;

[[nodiscard]] inline std::string element(std::string_view name, std::string_view text) {
    std::string out = "<";
    out.append(name).append(">").append(plot::escaped(text)).append("</").append(name).append(">");
    return out;
}

[[nodiscard]] inline std::string table(const std::vector<std::string>& headings,
                                       const std::vector<std::vector<std::string>>& rows) {
    std::string out = "<div class=\"wide\"><table><thead><tr>";
    for (const std::string& heading : headings) out += element("th", heading);
    out += "</tr></thead><tbody>\n";
    for (const std::vector<std::string>& row : rows) {
        out += "<tr>";
        for (const std::string& cell : row) out += element("td", cell);
        out += "</tr>\n";
    }
    return out.append("</tbody></table></div>\n");
}

/// A box with a heading. `body` is markup already.
[[nodiscard]] inline std::string card(std::string_view heading, std::string_view body) {
    std::string out = "<section class=\"card\">";
    return out.append(element("h3", heading)).append(body).append("</section>\n");
}

/// Where it was measured, and what makes that place doubtful.
[[nodiscard]] inline std::string where_text(const holdfast::perf_test::environment& where) {
    std::string out = element("p", holdfast::perf_test::identity_of(where));
    for (const holdfast::perf_test::warning& one : holdfast::perf_test::warnings_of(where))
        out += element("p", one.text);
    return out;
}

/// Writes the page, with the title as its heading. Returns: whether it could be written; says why not on stderr.
inline bool write_page(const std::string& path, std::string_view title, std::string_view body) {
    std::ofstream file(path, std::ios::binary);
    file << plot::page(title, element("h1", title).append(body));
    file.close();
    if (!file) std::fprintf(stderr, "%s could not be written\n", path.c_str());
    return static_cast<bool>(file);
}

}  // namespace study
