// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cli/format.hpp"
#include "holdfast/segment/lease.hpp"

namespace holdfast::cli {

progress_line::progress_line(bool wanted) : begin_ns_(detail::monotonic_ns()) {
    const char* const terminal = std::getenv("TERM");
    wanted_ = wanted && ::isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

void progress_line::show(std::uint64_t done, std::optional<std::uint64_t> total, std::uint64_t count,
                         std::string_view what) {
    if (!wanted_) return;
    constexpr std::uint64_t pause_ns = 100'000'000;
    const std::uint64_t now = detail::monotonic_ns();
    // Work that is over in a moment needs no line.
    if (now - begin_ns_ < 3 * pause_ns || now - shown_ns_ < pause_ns) return;
    shown_ns_ = now;
    drawn_ = true;
    const double seconds = static_cast<double>(now - begin_ns_) / 1e9;
    std::string line = "\r\033[K";
    if (total && *total != 0) {
        constexpr std::uint64_t width = 30;
        const std::uint64_t filled = std::min(width, done * width / *total);
        line += format("[{:#<{}}{:.<{}}] {:3} %  ", "", filled, "", width - filled,
                       std::min<std::uint64_t>(100, done * 100 / *total));
    } else {
        line += format("{}  ", bytes_text(done));
    }
    line += format("{} {}, {} a second", count_text(count), what,
                   count_text(static_cast<std::uint64_t>(static_cast<double>(count) / seconds)));
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
}

void progress_line::clear() {
    if (!drawn_) return;
    constexpr std::string_view erase = "\r\033[K";
    (void)std::fwrite(erase.data(), 1, erase.size(), stderr);
    drawn_ = false;
}

}  // namespace holdfast::cli
