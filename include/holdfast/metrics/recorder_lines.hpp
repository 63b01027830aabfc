// SPDX-License-Identifier: Apache-2.0
// recorder_lines.hpp - the lines of a handle's recorders, in pages that a forked child finds wiped.
//
// Threads: one at a time. A line is used by its recorder's thread, and given out again only after it came back.
#pragma once

#include <cstddef>
#include <new>
#include <string>
#include <vector>

#include "holdfast/memory/wiped_page.hpp"
#include "holdfast/metrics/latency_shards.hpp"

namespace holdfast::detail {

class recorder_lines {
 public:
    /// A line that holds `value`. Throws: no_space, unsupported, bad_alloc.
    [[nodiscard]] recorder_line* take(const recorder_line& value, const std::string& subject) {
        if (free_.empty()) add_page(subject);
        recorder_line* const line = free_.back();
        free_.pop_back();
        *line = value;
        return line;
    }

    /// Takes back what take() gave.
    void give_back(recorder_line* line) noexcept {
        *line = recorder_line{};
        free_.push_back(line);  // add_page made room for every line there is
    }

 private:
    void add_page(const std::string& subject) {
        constexpr std::size_t lines = memory::wiped_page::bytes / sizeof(recorder_line);
        free_.reserve((pages_.size() + 1) * lines);
        pages_.push_back(memory::wiped_page::make(subject));
        auto* const first = static_cast<recorder_line*>(pages_.back().data());
        for (std::size_t i = lines; i > 0; --i) free_.push_back(::new (first + i - 1) recorder_line);
    }

    std::vector<memory::wiped_page> pages_;
    std::vector<recorder_line*> free_;
};

}  // namespace holdfast::detail
