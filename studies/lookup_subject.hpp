// SPDX-License-Identifier: Apache-2.0
// lookup_subject.hpp - a way to look up keys, timed over a list of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "holdfast/perf_test/do_not_optimize.hpp"
#include "holdfast/perf_test/interleaved.hpp"

namespace study {

/// `run` looks up a stretch of keys and returns something that all of its answers are part of. `asked` is used as long
/// as the subject is.
[[nodiscard]] inline holdfast::perf_test::subject lookup_subject(
    std::string name, std::span<const std::uint64_t> asked,
    std::function<std::uint64_t(std::span<const std::uint64_t>)> run) {
    return {std::move(name),
            [asked, run = std::move(run), at = std::size_t{0}](std::uint64_t n) mutable {
                std::uint64_t sum = 0;
                while (n > 0) {  // to the end of the list, then from its beginning
                    const std::size_t now = std::min<std::uint64_t>(n, asked.size() - at);
                    sum += run(asked.subspan(at, now));
                    at = (at + now) % asked.size();
                    n -= now;
                }
                holdfast::perf_test::do_not_optimize(sum);
            },
            {},
            0};
}

}  // namespace study
