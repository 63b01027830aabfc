// SPDX-License-Identifier: Apache-2.0
// accept.hpp - what else an Accept field may ask for; of expositions: exposition.hpp.
#pragma once

#include <string_view>

namespace holdfast::serve {

/// Whether a field value of Accept names text/event-stream and nothing that it would rather have: a wildcard asks for
/// no stream, which never ends. Source: RFC 9110 section 12.5.1.
[[nodiscard]] bool asks_for_events(std::string_view accept) noexcept;

}  // namespace holdfast::serve
