// SPDX-License-Identifier: Apache-2.0
// main.cpp - the program behind `holdfast bench`, of its own so that what serves carries nothing that measures. It
// takes the same command line; the word `bench` may be left out.
#include <string_view>
#include <vector>

#include "cli/bench/bench.hpp"
#include "cli/guarded.hpp"
#include "holdfast/memory/truncation_guard.hpp"

int main(int argc, char** argv) {
    using namespace holdfast;
    return cli::guarded([&] {
        memory::install_truncation_guard();
        char name[] = "bench";
        std::vector<char*> words(argv, argv + argc + 1);  // and the null that ends them
        if (argc < 2 || argv[1] != std::string_view(name)) words.insert(words.begin() + 1, name);
        cli::command_line line("Holdfast: the state of Linux servers in shared memory.", "");
        cli::add_bench(line);
        const int code = line.parse_and_run(static_cast<int>(words.size()) - 1, words.data());
        cli::flush_output();
        return code;
    });
}
