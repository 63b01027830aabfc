// SPDX-License-Identifier: Apache-2.0
// main.cpp - http_bench: the http suite with the options of every bench program (--help) and its own in the
// environment.
#include "http/http_suite.hpp"
#include "workload/command.hpp"

int main(int count, char** words) {
    return holdfast::workload::bench_main(count, words, {holdfast::bench::http::http_suite()});
}
