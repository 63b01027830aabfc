// SPDX-License-Identifier: Apache-2.0
// The same command line and the same reports as `holdfast bench`, with peers.
#include "bench/peers.hpp"
#include "workload/command.hpp"

int main(int argc, char** argv) { return holdfast::workload::bench_main(argc, argv, holdfast::bench::suites()); }
