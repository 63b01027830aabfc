// SPDX-License-Identifier: Apache-2.0
#include "http/wrk.hpp"

#include <charconv>

namespace holdfast::bench::http {

double requests_per_second_of(const std::string& wrk_output) {
    if (wrk_output.find("Socket errors") != std::string::npos || wrk_output.find("Non-2xx") != std::string::npos)
        throw child_failed("wrk met errors: " + wrk_output);
    constexpr std::string_view label = "Requests/sec:";
    const std::size_t found = wrk_output.find(label);
    const std::size_t digits =
        found == std::string::npos ? found : wrk_output.find_first_not_of(' ', found + label.size());
    double value = 0;
    if (digits == std::string::npos ||
        std::from_chars(wrk_output.data() + digits, wrk_output.data() + wrk_output.size(), value).ec != std::errc{})
        throw child_failed("wrk said no number of requests: " + wrk_output);
    return value;
}

samples compare_with_wrk(const std::filesystem::path& wrk, const site& where, const contestant& server,
                         const round_options& options) {
    const std::vector<record> first{where.records.front()};
    const std::vector<exchange> exchanges = make_exchanges(where.table, first, false);
    samples found(2);
    for (std::size_t round = 0; round < options.rounds; ++round) {
        load_plan plan{.server = loopback(server.server.port), .connections = 64};
        plan.warm_up = options.warm_up;
        plan.duration = options.duration;
        plan.spin = options.spin;
        const load_outcome ours = run_load(plan, exchanges);
        found[0].push_back(static_cast<double>(ours.answers) / ours.seconds);
        const std::string url =
            "http://127.0.0.1:" + std::to_string(server.server.port) + path_of(where.table, first.front());
        found[1].push_back(requests_per_second_of(output_of(
            {.arguments = {wrk, "-t1", "-c64",
                           "-d" + std::to_string(std::chrono::ceil<std::chrono::seconds>(options.duration).count()) +
                               "s",
                           "-H", "Host: localhost", "-H", "Accept: application/json", url},
             .environment = {},
             .cores = {},  // it inherits ours
             .log = where.scratch / "wrk.log"})));
    }
    return found;
}

}  // namespace holdfast::bench::http
