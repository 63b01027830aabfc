// SPDX-License-Identifier: Apache-2.0
// worker_arguments.hpp - what a supervisor tells a worker: descriptors and settings, as the words of a command line.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/serve.hpp"

namespace holdfast::serve {

/// A byte for each worker in the lifeline, before its end: others have the listeners and accept; or they have those of
/// the address alone, and the unix socket has lost its name.
inline constexpr char lifeline_others_accept = 'h';
inline constexpr char lifeline_others_accept_tcp = 't';

struct worker_arguments {
    unsigned index = 0;
    std::vector<int> listeners;  ///< of the address: this worker alone takes from them
    std::vector<int> cpus;       ///< where it runs; empty: anywhere
    int unix_listener = -1;      ///< the unix socket, which one worker has; -1: not this one
    int lifeline = -1;           ///< reads end of file when the supervisor stops or dies
    int ready = -1;              ///< takes the index, 16 bits, once the worker answers
    serve_options options;

    [[nodiscard]] std::vector<std::string> words() const;
    /// Throws: invalid_argument for anything words() does not make.
    [[nodiscard]] static worker_arguments parse(std::span<const std::string_view> words);
};

}  // namespace holdfast::serve
