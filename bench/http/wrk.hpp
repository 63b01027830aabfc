// SPDX-License-Identifier: Apache-2.0
// wrk.hpp - the load generator beside wrk, which many trust, on the same server: is it our client that we measure?
#pragma once

#include <filesystem>

#include "http/rounds.hpp"

namespace holdfast::bench::http {

/// Answers a second as this client ([0]) and as wrk ([1]) get them from `server`, in turn: 64 connections, one thread,
/// the fixed answer. Throws: child_failed, and what run_load throws.
[[nodiscard]] samples compare_with_wrk(const std::filesystem::path& wrk, const site& where, const contestant& server,
                                       const round_options& options);

/// "Requests/sec:" of its output; and whether it saw errors. Throws: child_failed for output that is not wrk's.
[[nodiscard]] double requests_per_second_of(const std::string& wrk_output);

}  // namespace holdfast::bench::http
