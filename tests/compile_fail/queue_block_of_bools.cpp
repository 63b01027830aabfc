// SPDX-License-Identifier: Apache-2.0
// EXPECT: must not be read in place
#include "holdfast/queue.hpp"

struct order {
    long id;
    long amount;
#ifdef MUST_FAIL
    bool bid;
#else
    char bid;
#endif
    char rest[7];
};

std::size_t count(holdfast::queue<order>::consumer& from) { return from.front_block().values.size(); }
