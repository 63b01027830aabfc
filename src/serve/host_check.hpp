// SPDX-License-Identifier: Apache-2.0
// host_check.hpp - whom a request may call us, against DNS rebinding.
//
// A page of another site can make a browser send requests here by letting its own name resolve to our address. Such a
// request carries that name in Host, so only names that cannot be foreign are answered: literal addresses, localhost,
// and what the operator allowed. Source: RFC 9110 section 7.2 (Host), RFC 6761 section 6.3 (localhost).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::serve {

/// The host part of "host:port" without brackets; empty where the text is not well formed.
[[nodiscard]] std::string_view host_without_port(std::string_view authority) noexcept;

class host_check {
 public:
    /// `allowed` are names without a port; case does not matter.
    explicit host_check(std::vector<std::string> allowed);

    /// Whether a request that calls us `authority` may be answered.
    [[nodiscard]] bool accepts(std::string_view authority) const;

 private:
    std::vector<std::string> allowed_;
};

}  // namespace holdfast::serve
