// SPDX-License-Identifier: Apache-2.0
#include "holdfast/error.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace {

using holdfast::errc;

TEST(Error, WhatNamesSubjectExplanationAndCode) {
    const holdfast::error e(errc::not_found, "posix:/sessions", "no such segment; create it first");
    EXPECT_STREQ(e.what(), "posix:/sessions: no such segment; create it first (not found)");
    EXPECT_EQ(e.reason(), errc::not_found);
    EXPECT_EQ(e.subject(), "posix:/sessions");
}

TEST(Error, WhatShowsControlBytesOfNamesAsText) {
    const holdfast::error e(errc::not_found, "file:/a\n\x1b[2J\x7f", "no \"b\tc\" in it");
    EXPECT_STREQ(e.what(), "file:/a\\x0a\\x1b[2J\\x7f: no \"b\\x09c\" in it (not found)");
    EXPECT_EQ(e.subject(), "file:/a\n\x1b[2J\x7f");
}

TEST(Error, CodeComparesWithErrc) {
    const holdfast::error e(errc::writer_alive, "x", "y");
    EXPECT_EQ(e.code(), errc::writer_alive);
    EXPECT_NE(e.code(), errc::corrupt);
}

TEST(Error, EveryCodeHasItsOwnMessage) {
    std::set<std::string> messages;
    int count = 0;
    for (int value = 1; value <= static_cast<int>(errc::io); ++value, ++count)
        messages.insert(holdfast::make_error_code(static_cast<errc>(value)).message());
    EXPECT_EQ(messages.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(messages.count("unknown error"), 0U);
}

}  // namespace
