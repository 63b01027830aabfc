// SPDX-License-Identifier: Apache-2.0
// failure.hpp - why a request is not done, as the status and the words it is answered with.
#pragma once

#include <string>

namespace holdfast::serve {

/// Thrown by whoever finds out; answered by api::answer as an RFC 9457 problem.
struct failure {
    int status = 500;
    std::string detail;
    unsigned retry_after_s = 0;  ///< 0: nothing is said of when to ask again
};

}  // namespace holdfast::serve
