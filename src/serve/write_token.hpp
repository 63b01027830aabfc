// SPDX-License-Identifier: Apache-2.0
// write_token.hpp - the secret by which clients of TCP may write: the one line of a file that nobody else may read.
//
// (I1) How long a comparison takes tells nothing of where two texts differ.
// (I2) A file that others may read, or that is no such line any more, lets nobody in.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "holdfast/net/request.hpp"

namespace holdfast::serve {

class write_token {
 public:
    /// Throws: not_found, no_permission, unsafe_file (others may read it), invalid_argument (too short, or not one
    /// line of printable characters).
    explicit write_token(std::string path);

    /// Reads the file again if it has changed. Call it now and then.
    void refresh() noexcept;
    /// Whether the request carries the token, once: RFC 6750 section 2.1.
    [[nodiscard]] bool is_in(const net::request& from) const noexcept;

    static constexpr std::size_t characters_min = 16;
    static constexpr std::size_t characters_max = 1024;

 private:
    void read();

    std::string path_;
    std::string token_;  // empty: nobody gets in
    struct stat seen_{};
};

}  // namespace holdfast::serve
