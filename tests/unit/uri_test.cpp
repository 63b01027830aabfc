// SPDX-License-Identifier: Apache-2.0
#include "holdfast/memory/uri.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace {

using holdfast::errc;
using holdfast::memory::kind;
using holdfast::memory::uri;

TEST(Uri, TextIsCanonicalAndParsesToItself) {
    const std::vector<std::pair<std::string, std::string>> cases{{"sessions", "posix:/sessions"},
                                                                 {"posix:sessions", "posix:/sessions"},
                                                                 {"posix:/sessions", "posix:/sessions"},
                                                                 {"file:/var/x", "file:/var/x"},
                                                                 {"file:///var/x", "file:/var/x"},
                                                                 {"file:x", "file:x"},
                                                                 {"memfd:", "memfd:"},
                                                                 {"memfd:3,4", "memfd:3,4"},
                                                                 {"anon:", "anon:"},
                                                                 {"heap:", "heap:"},
                                                                 {"sysv:77", "sysv:77"},
                                                                 {"sysv:0x4D", "sysv:77"},
                                                                 {"sysv+huge:1", "sysv+huge:1"},
                                                                 {"sysv:2147483647", "sysv:2147483647"}};
    for (const auto& [given, canonical] : cases) {
        EXPECT_EQ(uri::parse(given).text(), canonical) << given;
        EXPECT_EQ(uri::parse(canonical).text(), canonical);
    }
}

TEST(Uri, DirectoryAndFileNameOfPaths) {
    EXPECT_EQ(uri::parse("posix:/a").directory(), "/dev/shm");
    EXPECT_EQ(uri::parse("file:/a").directory(), "/");
    EXPECT_EQ(uri::parse("file:/a/b").directory(), "/a");
    EXPECT_EQ(uri::parse("file:/a/b").file_name(), "b");
    EXPECT_EQ(uri::parse("file:b").directory(), ".");
}

class RefusedUri : public ::testing::TestWithParam<std::string> {};

TEST_P(RefusedUri, ThrowsInvalidNameThatQuotesIt) {
    try {
        (void)uri::parse(GetParam());
        FAIL() << "accepted: " << GetParam();
    } catch (const holdfast::error& refused) {
        EXPECT_EQ(refused.reason(), errc::invalid_name);
        EXPECT_EQ(refused.subject(), GetParam().substr(0, 256));
    }
}

INSTANTIATE_TEST_SUITE_P(All, RefusedUri,
                         ::testing::Values("", "posix:", "posix:/", "posix:/a/b", "posix:/../etc", ".hidden", "-option",
                                           "a b", "a%2e", "a\n", "x.lease", "x.peers", "x.growing", "file:", "file:/",
                                           "file:/a/", "file:/a/.b", "file:/a/b.lease", "heap:x", "anon:x", "memfd:x",
                                           "sysv:", "sysv:0", "sysv:-1", "sysv:x", "sysv:0x", "sysv:2147483648",
                                           "sysv:99999999999999999999", "sysv+huge:0", "http://x",
                                           std::string("a\0b", 3), std::string(221, 'a'),
                                           "file:/" + std::string(5000, 'a')));

TEST(Uri, LongestNameIsAccepted) { EXPECT_EQ(uri::parse(std::string(220, 'a')).name.size(), 220U); }

}  // namespace
