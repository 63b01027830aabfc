// SPDX-License-Identifier: Apache-2.0
#include "cli/program.hpp"

#include <string_view>
#include <vector>

#include "cli/guarded.hpp"
#include "holdfast/memory/truncation_guard.hpp"
#ifdef HOLDFAST_WITH_SERVE
#include "serve/serve.hpp"
#endif

namespace holdfast::cli {

namespace {

constexpr const char* summary = "Holdfast: the state of Linux servers in shared memory.";
constexpr const char* details =
    "A SEGMENT is posix:/name (a bare name means this), file:/path, sysv:KEY or sysv+huge:KEY.\n"
    "Data goes to stdout, messages to stderr. Exit codes: 0 done; 1 the answer is no; 2 usage; 3 not there;\n"
    "4 not usable (damaged, other kind, version or schema); 5 refused (living writer, permission, name taken);\n"
    "6 no room; 7 bad input data; 8 system failure.";

int run(int argc, char** argv) {
    memory::install_truncation_guard();
#ifdef HOLDFAST_WITH_SERVE
    // Workers of the server are this program run anew; their words are no command line for people.
    if (argc > 1 && argv[1] == serve::worker_command) {
        const std::vector<std::string_view> words(argv + 2, argv + argc);
        return serve::run_worker(words);
    }
#endif
#ifdef HOLDFAST_WITH_BENCH
    if (argc > 1 && argv[1] == bench_command) return become_bench(argv);
#endif
    command_line line(summary, details);
    add_ls(line);
    add_stat(line);
    add_get(line);
    add_put(line);
    add_del(line);
    add_scan(line);
    add_tail(line);
    add_load(line);
    add_dump(line);
    add_save(line);
    add_restore(line);
    add_verify(line);
    add_repair(line);
    add_grow(line);
    add_who(line);
    add_top(line);
    add_rm(line);
#ifdef HOLDFAST_WITH_SERVE
    add_serve(line);
#endif
#ifdef HOLDFAST_WITH_BENCH
    add_bench(line);
#endif
    add_version(line);
    const int code = line.parse_and_run(argc, argv);
    flush_output();
    return code;
}

}  // namespace

int run_program(int argc, char** argv) noexcept {
    return guarded([&] { return run(argc, argv); });
}

}  // namespace holdfast::cli
