// SPDX-License-Identifier: Apache-2.0
// version.cpp - which program and layout this is.
#include "holdfast/version.hpp"

#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "holdfast/layout/segment_header.hpp"
#include "inspect/json_out.hpp"

namespace holdfast::cli {

void add_version(command_line& line) {
    const auto json = std::make_shared<bool>(false);
    line.add("version", "Show the version of the program and of the segment layout it reads")
        .flag("--json", *json, "one JSON object")
        .run([json] {
            if (*json) {
                std::string text;
                inspect::json_out out(text);
                out.begin_object().member("version", version_text).member("layout", layout::segment_layout_version);
                out.end_object();
                put(text + "\n");
            } else {
                put(format("holdfast {}, segment layout {}\n", version_text, layout::segment_layout_version));
            }
            return static_cast<int>(success);
        });
}

}  // namespace holdfast::cli
