// SPDX-License-Identifier: Apache-2.0
// figures.hpp - the figures of the study. They stand alone, so colours are their own.
#pragma once

#include <string>

#include "scale.hpp"

namespace study {

/// "0.28 ns", "12.3 us".
[[nodiscard]] std::string time_text(double ns);

/// All steps on one logarithmic axis, by time: a dot here, a ring or a bar for what was published of other machines.
[[nodiscard]] std::string scale_figure(const scale& all);

/// The time of a read over the size of the set, both logarithmic. Requires: a stair.
[[nodiscard]] std::string stairs_figure(const scale& all);

}  // namespace study
