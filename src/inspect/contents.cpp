// SPDX-License-Identifier: Apache-2.0
#include "inspect/contents.hpp"

namespace holdfast::inspect {

contents contents_of(const segment&) { return {}; }

}  // namespace holdfast::inspect
