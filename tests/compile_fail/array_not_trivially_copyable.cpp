// SPDX-License-Identifier: Apache-2.0
// EXPECT: constraints? not satisfied|template constraint failure
#include <string>

#include "holdfast/array.hpp"

struct session {
    int id;
#ifdef MUST_FAIL
    std::string name;
#endif
};

auto make() { return holdfast::array<session>::create("heap:", {.size = 1}); }
