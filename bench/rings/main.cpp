// SPDX-License-Identifier: Apache-2.0
// main.cpp - rings_bench: the rings suite with the options of every bench program (--help).
#include "rings/rings_suite.hpp"
#include "workload/command.hpp"

int main(int count, char** words) {
    return holdfast::workload::bench_main(count, words, {holdfast::bench::rings::rings_suite()});
}
