// SPDX-License-Identifier: Apache-2.0
// serve.hpp - `holdfast serve`: segments over HTTP from one worker process per core, counted in shared memory.
//
// A supervisor makes the listeners, starts the workers and starts them again when they die; it serves nothing itself. A
// worker is this same program run anew with `worker_command` as its first argument: a bare fork would share the
// supervisor's descriptors. The program's main function must hand such a call to run_worker before it looks at any
// option.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/net/limits.hpp"
#include "holdfast/net/server.hpp"

namespace holdfast::serve {

/// Count lookups in a served index by the text of one field of what was found.
struct count_by {
    std::string segment;  ///< as in URLs: "geo4", "file:/srv/x"
    std::string field;

    /// Reads "SEGMENT=FIELD". Throws: invalid_argument.
    [[nodiscard]] static count_by parse(std::string_view text);
};

struct serve_options {
    std::string listen = "127.0.0.1:8080";   ///< ADDRESS:PORT; port 0 takes a free one
    std::string unix_path;                   ///< also a unix socket there; empty: none
    unsigned workers = 0;                    ///< 0: one for each core this process may use
    std::vector<std::string> segments;       ///< what is served; empty: what is registered and everybody may read
    std::string tls_certificate;             ///< PEM file; then the address, not the unix socket, speaks TLS
    std::string tls_key;                     ///< of the same
    bool private_too = false;                ///< without `segments`: also what not everybody may read
    bool write = false;                      ///< entries may be changed, by who may: docs/design/0031-serving-writes.md
    std::string audit_log;                   ///< a line for each change goes there; empty: nowhere
    std::uint64_t rate_of_one = 0;           ///< requests a second of one client and each worker; 0: no limit
    std::uint64_t rate_of_all = 0;           ///< the same of all clients together
    std::string token_file;                  ///< holds what lets clients of TCP write; empty: they may not
    std::vector<std::string> allowed_hosts;  ///< names beside addresses and localhost by which requests may call us
    std::vector<count_by> counts;
    std::string name;             ///< segment of the counts; empty: holdfast-serve-PORT
    bool take_over = false;       ///< from the server at `listen`, which then finishes: docs/design/0037-hot-restart.md
    std::string engine = "auto";  ///< io_uring where it is to be had, else epoll; or one of them by name
    std::string steer = "flow";   ///< or cpu: workers are pinned, and get the connections that their CPUs handle
    net::limits limits{};

    /// Throws: invalid_argument for another word.
    [[nodiscard]] bool steers_by_cpu() const;
    /// Likewise.
    [[nodiscard]] net::engine_choice engine_choice() const;
};

/// Sets the limit that "NAME=VALUE" names; NAME is a member of net::limits with - for _, as in header-timeout-ms=5000.
/// Throws: invalid_argument that lists the names; also for a value of 0.
void set_limit(net::limits& limits, std::string_view text);

/// The hidden first argument of a worker process.
inline constexpr std::string_view worker_command = "serve-worker";

/// Serves until SIGTERM or SIGINT, or until a successor has taken over (SIGUSR2 starts one), then drains. Prints one
/// line to standard output once every worker answers and all is ours. Returns: the exit code: 0 after a drain, 1 when a
/// worker cannot start (the reason is on standard error). Throws: error when the options, the address or the counters'
/// segments cannot be used.
int run(const serve_options& options);

/// The body of a worker process. `arguments` are those behind worker_command. Returns: the exit code.
int run_worker(std::span<const std::string_view> arguments);

}  // namespace holdfast::serve
