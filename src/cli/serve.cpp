// SPDX-License-Identifier: Apache-2.0
// serve.cpp - the command line of the server; the server itself is src/serve.
#ifdef HOLDFAST_WITH_SERVE

#include "serve/serve.hpp"

#include <charconv>
#include <memory>

#include "cli/program.hpp"
#include "holdfast/error.hpp"

namespace holdfast::cli {

namespace {

struct options {
    serve::serve_options serve;
    std::string workers = "auto";
    std::vector<std::string> counts;
    std::vector<std::string> limits;
};

[[nodiscard]] unsigned workers_of(const std::string& text) {
    if (text == "auto") return 0;
    unsigned count = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (status != std::errc() || end != text.data() + text.size() || count == 0 || count > 1024)
        throw error(errc::invalid_argument, "--workers", "is auto, or a number from 1 to 1024");
    return count;
}

int start(const options& chosen) {
    serve::serve_options all = chosen.serve;
    all.workers = workers_of(chosen.workers);
    if (all.tls_certificate.empty() != all.tls_key.empty())
        throw error(errc::invalid_argument, all.tls_key.empty() ? "--tls-key" : "--tls-certificate",
                    "is missing: TLS needs both files; one file may be both");
    // Once and here, so that what is wrong with them is said once.
    if (!all.tls_certificate.empty()) const net::tls_credentials tried({all.tls_certificate, all.tls_key});
    for (const std::string& text : chosen.counts) all.counts.push_back(serve::count_by::parse(text));
    for (const std::string& text : chosen.limits) serve::set_limit(all.limits, text);
    return serve::run(all);
}

}  // namespace

void add_serve(command_line& line) {
    const auto chosen = std::make_shared<options>();
    line.add("serve", "Serve segments over HTTP from one worker process per core")
        .positionals("SEGMENT", chosen->serve.segments,
                     "what is served; default: what is registered and everybody may read", false)
        .option("--listen", chosen->serve.listen, "ADDRESS:PORT", "default 127.0.0.1:8080; port 0 takes a free one")
        .flag("--take-over", chosen->serve.take_over,
              "take over from the server at that address, which then finishes: no request is lost")
        .option("--unix", chosen->serve.unix_path, "PATH",
                "also a unix socket: its clients see what they may read themselves, whatever is named or private")
        .option("--tls-certificate", chosen->serve.tls_certificate, "FILE",
                "speak TLS at the address: PEM of the certificate and those above it; SIGHUP has it read again")
        .option("--tls-key", chosen->serve.tls_key, "FILE", "PEM of its private key; not readable by others")
        .option("--workers", chosen->workers, "N|auto", "worker processes; default auto: one for each core")
        .option("--engine", chosen->serve.engine, "epoll|io_uring|auto",
                "what carries connections; default auto: io_uring where this system allows it, else epoll")
        .option(
            "--steer", chosen->serve.steer, "flow|cpu",
            "which worker gets a connection; default flow: by a hash; cpu: workers are pinned, each gets what its CPU "
            "handles")
        .option("--count", chosen->counts, "SEGMENT=FIELD", "count lookups by this field of what was found")
        .flag("--private", chosen->serve.private_too,
              "serve also what is registered and not everybody may read: whoever reaches the address sees it")
        .flag("--write", chosen->serve.write,
              "let clients change entries of hash tables, and publish to rings and snapshots: by the unix socket who "
              "may write the segment, by TCP who has the token")
        .option("--token-file", chosen->serve.token_file, "FILE",
                "the token of TCP clients that write; readable by you alone")
        .option("--audit-log", chosen->serve.audit_log, "FILE",
                "append a line of JSON for each change before it is made")
        .option("--rate", chosen->serve.rate_of_one, "N",
                "answer one client N requests a second and worker at most; default: as many as come")
        .option("--rate-all", chosen->serve.rate_of_all, "N", "the same of all clients together")
        .option("--allow-host", chosen->serve.allowed_hosts, "NAME",
                "a name beside addresses and localhost by which requests may call this server")
        .option("--limit", chosen->limits, "NAME=VALUE",
                "bound what a client may cost a worker, as connections-max=50000; docs/cli.md lists them")
        .option("--counters", chosen->serve.name, "NAME", "segment of the counts; default holdfast-serve-PORT")
        .details(
            "Runs until SIGTERM or SIGINT, then finishes the requests that it has. SIGUSR2 runs the program anew,\n"
            "as it lies at its path by then, which takes over. GET / is the dashboard, GET /metrics the counts,\n"
            "GET /v1/segments the list of what is served.")
        .run([chosen] { return start(*chosen); });
}

}  // namespace holdfast::cli

#endif
