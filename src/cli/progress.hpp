// SPDX-License-Identifier: Apache-2.0
// progress.hpp - a line on stderr that says how far long work is; on a terminal only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace holdfast::cli {

class progress_line {
 public:
    explicit progress_line(bool wanted);
    ~progress_line() { clear(); }
    progress_line(const progress_line&) = delete;
    progress_line& operator=(const progress_line&) = delete;

    /// Draws the line anew, at most ten times a second. `total`: of `done`, where it is known.
    void show(std::uint64_t done, std::optional<std::uint64_t> total, std::uint64_t count, std::string_view what);
    /// Takes the line away, before anything else is written.
    void clear();

 private:
    bool wanted_;
    bool drawn_ = false;
    std::uint64_t begin_ns_;
    std::uint64_t shown_ns_ = 0;
};

}  // namespace holdfast::cli
