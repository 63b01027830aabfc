// SPDX-License-Identifier: Apache-2.0
// What is looked at sixteen characters at a time agrees with the table, wherever a character stands.
#include "net/characters.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace {

using namespace holdfast::net;

template <class Skip>
void agrees_with_the_table(Skip by_runs, unsigned classes, const std::string& members) {
    for (const std::size_t size : {1U, 16U, 17U, 33U})
        for (std::size_t at = 0; at < size; ++at)
            for (unsigned value = 0; value < 256; ++value) {
                std::string text;
                while (text.size() < size) text += members[text.size() % members.size()];
                text[at] = static_cast<char>(value);
                for (const std::size_t from : {std::size_t{0}, at / 2, at})
                    ASSERT_EQ(by_runs(text.data(), from, size), detail::skip(text.data(), from, size, classes))
                        << "character " << value << " at " << at << " of " << size << ", from " << from;
            }
}

TEST(Characters, NamesAreSkippedAsTheTableSays) {
    agrees_with_the_table(detail::skip_token, detail::token_char, "azAZ09-.");
    agrees_with_the_table(detail::skip_token, detail::token_char, "a!#$%&'*+^_`|~");
}

TEST(Characters, PathsAreSkippedAsTheTableSays) {
    agrees_with_the_table(detail::skip_path, detail::path_char, "azAZ09-./");
    agrees_with_the_table(detail::skip_path, detail::path_char, "a:@%!$&'()*+,;=_~");
}

TEST(Characters, ValuesAreSkippedAsTheTableSays) {
    agrees_with_the_table(detail::skip_value, detail::value_char, "aZ0 \t\x80\xff");
}

TEST(Characters, NothingIsSkippedOfNothing) {
    const std::string text(20, 'a');
    EXPECT_EQ(detail::skip_token(text.data(), 20, 20), 20U);
    EXPECT_EQ(detail::skip_path(text.data(), 20, 20), 20U);
}

}  // namespace
