// SPDX-License-Identifier: Apache-2.0
#include "http/load_tools.hpp"

#include <charconv>
#include <string_view>

namespace holdfast::bench::http {

namespace {

constexpr std::string_view digits = "0123456789.";

double number_at(const std::string& output, std::size_t at, const char* whose) {
    double value = 0;
    if (at >= output.size() ||
        std::from_chars(output.data() + at, output.data() + output.size(), value).ec != std::errc{})
        throw child_failed(std::string(whose) + " said no number of requests: " + output);
    return value;
}

}  // namespace

double wrk_rate(const std::string& output) {
    if (output.find("Socket errors") != std::string::npos || output.find("Non-2xx") != std::string::npos)
        throw child_failed("wrk met errors: " + output);
    constexpr std::string_view label = "Requests/sec:";
    const std::size_t found = output.find(label);
    return number_at(output, found == std::string::npos ? found : output.find_first_not_of(' ', found + label.size()),
                     "wrk");
}

double h2load_rate(const std::string& output) {
    // "requests: N total, ..., 0 failed, 0 errored, 0 timeout" and "finished in 1.00s, 1234.50 req/s, 1.2MB/s"
    for (const char* const none : {" 0 failed", " 0 errored", " 0 timeout"})
        if (output.find(none) == std::string::npos) throw child_failed("h2load met errors: " + output);
    const std::size_t unit = output.find(" req/s");
    const std::size_t before =
        unit == std::string::npos || unit == 0 ? std::string::npos : output.find_last_not_of(digits, unit - 1);
    return number_at(output, before == std::string::npos ? before : before + 1, "h2load");
}

const std::vector<load_tool>& load_tools() {
    static const std::vector<load_tool> all{
        {"wrk",
         [](const std::string& seconds, const std::string& url) {
             return std::vector<std::string>{
                 "-t1", "-c64", "-d" + seconds + "s", "-H", "Host: localhost", "-H", "Accept: application/json", url};
         },
         wrk_rate},
        {"h2load",
         [](const std::string& seconds, const std::string& url) {
             return std::vector<std::string>{"--h1", "-t1", "-c64", "-D" + seconds, "-H", "Accept: application/json",
                                             url};
         },
         h2load_rate}};
    return all;
}

samples compare_with_tools(const std::vector<found_tool>& tools, const site& where, const contestant& server,
                           const round_options& options) {
    const std::vector<record> first{where.records.front()};
    const std::vector<exchange> exchanges = make_exchanges(where.table, first, false);
    const std::string seconds = std::to_string(std::chrono::ceil<std::chrono::seconds>(options.duration).count());
    const std::string url =
        "http://127.0.0.1:" + std::to_string(server.server.port) + path_of(where.table, first.front());
    samples found(1 + tools.size());
    for (std::size_t round = 0; round < options.rounds; ++round) {
        load_plan plan{.server = loopback(server.server.port), .connections = 64};
        plan.warm_up = options.warm_up;
        plan.duration = options.duration;
        plan.spin = options.spin;
        const load_outcome ours = run_load(plan, exchanges);
        found[0].push_back(static_cast<double>(ours.answers) / ours.seconds);
        for (std::size_t i = 0; i < tools.size(); ++i) {
            std::vector<std::string> words = tools[i].tool->words(seconds, url);
            words.insert(words.begin(), tools[i].program);
            found[i + 1].push_back(
                tools[i].tool->rate_of(output_of({.arguments = std::move(words),
                                                  .environment = {},
                                                  .cores = {},  // it inherits ours
                                                  .log = where.scratch / (tools[i].tool->name + ".log")})));
        }
    }
    return found;
}

}  // namespace holdfast::bench::http
