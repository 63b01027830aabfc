// SPDX-License-Identifier: Apache-2.0
// bench.cpp - the suites that need nothing but this program, on the machine it is installed on.
#include <memory>

#include "cli/bench/bench.hpp"
#include "cli/bench/load_server.hpp"
#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "inspect/json_out.hpp"
#include "workload/command.hpp"
#include "workload/suites.hpp"

namespace holdfast::cli {

namespace {

struct options {
    workload::bench_request request;
    std::uint64_t time_ms = 1500;
    bool json = false;
    http_load_options load;
};

/// `bench http URL`; that suite itself is none of this program.
bool is_load(const workload::bench_request& request) {
    return !request.suites.empty() && request.suites.front() == "http";
}

int load(const options& chosen) {
    const std::vector<std::string>& words = chosen.request.suites;
    if (words.size() != 2)
        throw workload::usage_error("http: takes one URL, as holdfast bench http http://127.0.0.1:8080/");
    http_load_options load = chosen.load;
    load.url = words.back();
    load.json = chosen.json;
    return load_server(load);
}

void print_list_json() {
    std::string text;
    inspect::json_out out(text);
    out.begin_array();
    for (const workload::suite& one : workload::suites())
        out.begin_object().member("name", one.name).member("description", one.description).end_object();
    out.end_array();
    text += '\n';
    put(text);
}

int bench(const options& chosen) {
    workload::bench_request request = chosen.request;
    if (is_load(request)) {
        try {
            return load(chosen);
        } catch (const workload::usage_error& wrong) {
            say(wrong.what());
            return usage;
        }
    }
    if (chosen.time_ms < 1 || chosen.time_ms > 3'600'000) {
        say("--time: is a number of milliseconds from 1 to 3600000");
        return usage;
    }
    request.options.seconds = static_cast<double>(chosen.time_ms) / 1000;
    if (chosen.json && (request.list || request.suites.empty())) {
        print_list_json();
        return success;
    }
    if (chosen.json) request.json_file.assign(1, '-');
    try {
        workload::run_bench(request, workload::suites());
    } catch (const workload::usage_error& wrong) {
        say(wrong.what());
        return usage;
    }
    return success;
}

}  // namespace

void add_bench(command_line& line) {
    const auto chosen = std::make_shared<options>();
    workload::bench_request& request = chosen->request;
    line.add("bench", "Measure the containers on this machine, beside what the standard library has")
        .positionals("SUITE", request.suites,
                     "what is measured; all: every suite; none: their list; http URL: a server", false)
        .flag("--quick", request.options.quick, "small and short, about a minute a suite")
        .flag("--json", chosen->json, "the results, or the list, as JSON instead of tables")
        .option("--html", request.html_file, "FILE", "also write a page with charts")
        .option("--filter", request.options.filter, "TEXT", "only experiments whose name holds TEXT")
        .option("--time", chosen->time_ms, "MS", "for each subject of an experiment; default 1500")
        .flag("--list", request.list, "the suites, or the experiments of those named")
        .option("--rate", chosen->load.rate_hz, "HZ",
                "http URL: requests a second by a schedule; default: as fast as it answers")
        .option("--connections", chosen->load.connections, "N", "http URL: connections; default 64")
        .option("--pipeline", chosen->load.pipeline, "N", "http URL: requests under way on each; default 1")
        .option("--duration", chosen->load.seconds, "S", "http URL: seconds; default 10")
        .details(
            "Subjects of one experiment take turns, so that what disturbs the machine disturbs them alike.\n"
            "A ratio above 1 means that ours is better. docs/bench.md explains tables, ratios and the JSON.")
        .run([chosen] { return bench(*chosen); });
}

}  // namespace holdfast::cli
