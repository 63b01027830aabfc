// SPDX-License-Identifier: Apache-2.0
// A consumer's program: it compiles against the installed headers, and what it uses works.
#include <holdfast/error.hpp>
#include <holdfast/version.hpp>

#include <cstdio>
#include <string_view>

int main() {
    static_assert(HOLDFAST_VERSION_MAJOR >= 0);
    const holdfast::error error(holdfast::errc::not_found, "posix:/sessions", "no such segment; create it first");
    if (std::string_view(error.what()).find("posix:/sessions") == std::string_view::npos) return 1;
    std::printf("holdfast %s\n", holdfast::version_text);
    return 0;
}
