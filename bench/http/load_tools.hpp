// SPDX-License-Identifier: Apache-2.0
// load_tools.hpp - the load generator beside wrk and h2load, which many trust, on the same server: is it our client
// that we measure?
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "http/rounds.hpp"

namespace holdfast::bench::http {

/// Another load generator.
struct load_tool {
    std::string name;  ///< of its program
    /// What it is called with, behind its path, for one thread, 64 connections and so many seconds.
    std::function<std::vector<std::string>(const std::string& seconds, const std::string& url)> words;
    /// Requests a second by its output. Throws: child_failed for one that saw errors, or for what is not its output.
    double (*rate_of)(const std::string& output);
};

/// wrk, and h2load over HTTP/1.1.
[[nodiscard]] const std::vector<load_tool>& load_tools();

/// One that is here.
struct found_tool {
    const load_tool* tool = nullptr;
    std::filesystem::path program;
};

/// Answers a second as this client ([0]) and as each tool gets them from `server`, in turn: 64 connections, one thread,
/// the JSON reply. Throws: child_failed, and what run_load throws.
[[nodiscard]] samples compare_with_tools(const std::vector<found_tool>& tools, const site& where,
                                         const contestant& server, const round_options& options);

/// "Requests/sec:" of wrk's output.
[[nodiscard]] double wrk_rate(const std::string& output);
/// "... req/s" of h2load's.
[[nodiscard]] double h2load_rate(const std::string& output);

}  // namespace holdfast::bench::http
