// SPDX-License-Identifier: Apache-2.0
// EXPECT: bool in a segment may be any byte
#include "holdfast/snapshot.hpp"

struct settings {
    unsigned limit;
#ifdef MUST_FAIL
    bool strict;
#else
    unsigned char strict;
#endif
};

auto look(holdfast::snapshot<settings>::pinned_reader& reader) { return reader.pin()->strict; }
