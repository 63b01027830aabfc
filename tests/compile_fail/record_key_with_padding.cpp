// SPDX-License-Identifier: Apache-2.0
// EXPECT: record_key|constraints not satisfied
#include "holdfast/record.hpp"

template <holdfast::record_key Key>
struct table {};

struct route {
#ifdef MUST_FAIL
    char kind;
#else
    int kind;
#endif
    int port;
};

table<route> routes;
