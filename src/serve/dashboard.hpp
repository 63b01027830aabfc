// SPDX-License-Identifier: Apache-2.0
// dashboard.hpp - web/dashboard.html, embedded at build.
#pragma once

#include <string_view>

namespace holdfast::serve {

[[nodiscard]] std::string_view dashboard_html() noexcept;

}  // namespace holdfast::serve
