// SPDX-License-Identifier: Apache-2.0
// plot_page.cpp - the page around the charts, its style sheet, and the escaping of everything foreign.
#include "holdfast/record/json_out.hpp"
#include "perf_test/plot.hpp"

namespace holdfast::perf_test::plot {

namespace {

// The colours c0 to c7 reach a contrast of 4.5 to their backgrounds (WCAG 2.2, 1.4.3), because legends write with them
// in view; a chart tells its lines apart by dashes as well.
constexpr std::string_view style = R"(
:root{color-scheme:light dark;--back:#fff;--card:#f6f7f9;--text:#1b1f24;--faint:#57606a;--line:#d0d7de;--good:#116329;--bad:#b42318;
--c0:#0b5cd0;--c1:#b93d09;--c2:#0f6d66;--c3:#951aa3;--c4:#47720d;--c5:#b01c1c;--c6:#8a3d0e;--c7:#46536a}
@media (prefers-color-scheme:dark){:root{--back:#0d1117;--card:#161b22;--text:#e6edf3;--faint:#9aa5b1;--line:#30363d;--good:#56d364;--bad:#ff8f85;
--c0:#6cacff;--c1:#ff9d5c;--c2:#3fd6c6;--c3:#ea8df7;--c4:#a9e34b;--c5:#ff8f8f;--c6:#f2c14e;--c7:#a3b1c6}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.6rem;margin:0 0 .25rem}h2{font-size:1.25rem;margin:2.5rem 0 .5rem;border-bottom:1px solid var(--line);padding-bottom:.25rem}
h3{font-size:1rem;margin:0 0 .5rem}p{margin:.4rem 0}
.faint{color:var(--faint)}.good{color:var(--good)}.bad{color:var(--bad)}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:1rem;margin:1rem 0}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.25rem .6rem;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:0;white-space:normal}th{color:var(--faint);font-weight:600}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.5rem 0;font-size:.9rem}dt{color:var(--faint)}dd{margin:0;overflow-wrap:anywhere}
ul{padding-left:1.2rem;margin:.4rem 0}
summary{cursor:pointer;color:var(--faint);font-size:.9rem;margin:.5rem 0}
svg{display:block;width:100%;min-width:34rem;height:auto;margin:.25rem 0}
svg text{fill:var(--text);font:13px system-ui,sans-serif}svg text.small{fill:var(--faint);font-size:12px}
.grid{stroke:var(--line);stroke-width:1}.axis{stroke:var(--faint);stroke-width:1}.whisker{stroke:var(--text);stroke-width:1.5}
.curve{fill:none;stroke-width:1.8}.curve.o{stroke-width:2.8}
.d1{stroke-dasharray:7 3}.d2{stroke-dasharray:2 3}.d3{stroke-dasharray:9 3 2 3}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;padding:0;margin:.4rem 0;font-size:.9rem}
.legend svg{display:inline-block;width:28px;min-width:0;height:10px;margin:0 .4rem 0 0;vertical-align:middle}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}.f6{fill:var(--c6)}.f7{fill:var(--c7)}
.k0{stroke:var(--c0)}.k1{stroke:var(--c1)}.k2{stroke:var(--c2)}.k3{stroke:var(--c3)}.k4{stroke:var(--c4)}.k5{stroke:var(--c5)}.k6{stroke:var(--c6)}
.k7{stroke:var(--c7)}.better{fill:var(--good);stroke:var(--good)}.worse{fill:var(--bad);stroke:var(--bad)}.same{fill:var(--faint);stroke:var(--faint)}
)";

}  // namespace

std::string escaped(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const std::size_t bytes = holdfast::detail::utf8_bytes(text);
        const std::string_view character = text.substr(0, bytes == 0 ? 1 : bytes);
        text.remove_prefix(character.size());
        const char c = character.front();
        // XML 1.0, section 2.2: no control characters but these three, no U+FFFE, no U+FFFF.
        const bool control = bytes == 1 && static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
        if (bytes == 0 || control || character == "\xef\xbf\xbe" || character == "\xef\xbf\xbf") {
            for (const char byte : character) {
                out += "\\x";
                holdfast::detail::append_hex(out, static_cast<unsigned char>(byte));
            }
            continue;
        }
        switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '"': out += "&quot;"; break;
            case '\'': out += "&#39;"; break;
            default: out += character;
        }
    }
    return out;
}

std::string legend(const std::vector<legend_entry>& all) {
    std::string out = "<ul class=\"legend\">";
    for (const legend_entry& entry : all) {
        const std::string colour = std::to_string(entry.colour % 8);
        out += "<li><svg viewBox=\"0 0 28 10\" aria-hidden=\"true\"><path class=\"curve" +
               std::string(entry.colour == 0 ? " o" : "") + " k" + colour + " d" + std::to_string(entry.colour % 4) +
               "\" d=\"M0 5H28\"/></svg>" + escaped(entry.name) + "</li>";
    }
    return out + "</ul>\n";
}

std::string page(std::string_view title, std::string_view body) {
    std::string out =
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "img-src data:\"/>\n<link rel=\"icon\" href=\"data:,\"/>\n<title>";
    out += escaped(title);
    out += "</title>\n<style>";
    out += style;
    out += "</style></head>\n<body><main>\n";
    out += body;
    return out + "</main></body></html>\n";
}

}  // namespace holdfast::perf_test::plot
