// SPDX-License-Identifier: Apache-2.0
// problem.hpp - an error as data: its code's stable name, and the fact and cure it states.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/error.hpp"

namespace holdfast::inspect {

/// What kept a segment from being read. A public format: code_name appears in JSON.
struct problem {
    errc code = errc::io;
    std::string text;  ///< "fact; cure"
};

/// The name of a code as JSON shows it: `writer_alive`.
[[nodiscard]] std::string_view code_name(errc code) noexcept;

/// The error without its subject and its code's message, which stand apart in a description.
[[nodiscard]] problem problem_of(const error& failure);

}  // namespace holdfast::inspect
