// SPDX-License-Identifier: Apache-2.0
// error_reason.hpp - which errc something ends in.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "holdfast/error.hpp"

namespace holdfast::test {

/// The reason of the holdfast::error that `act` throws, which must name a cure. Fails the test where it throws nothing.
template <class Act>
[[nodiscard]] errc reason_of(Act&& act) {
    try {
        act();
    } catch (const error& e) {
        EXPECT_NE(std::string(e.what()).find(';'), std::string::npos) << "no cure in: " << e.what();
        return e.reason();
    }
    ADD_FAILURE() << "nothing was thrown";
    return errc::io;
}

}  // namespace holdfast::test
