// SPDX-License-Identifier: Apache-2.0
// main.cpp - websocket_bench: the websocket suite with the options of every bench program (--help) and those of the
// http suite in the environment.
#include "websocket/websocket_suite.hpp"
#include "workload/command.hpp"

int main(int count, char** words) {
    return holdfast::workload::bench_main(count, words, {holdfast::bench::websocket::websocket_suite()});
}
