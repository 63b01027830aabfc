// SPDX-License-Identifier: Apache-2.0
// host_check.hpp - whom a request may call us, against DNS rebinding.
//
// A page of another site can make a browser send requests here by letting its own name resolve to our address. Such a
// request carries that name in Host, so only names that cannot be foreign are answered: literal addresses, localhost,
// and what the operator allowed. Source: RFC 9110 section 7.2 (Host), RFC 6761 section 6.3 (localhost). A page that
// calls us by our right name says so in Origin: what may change something is not answered to a foreign one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::serve {

/// The host part of "host:port" without brackets; empty where the text is not well formed.
[[nodiscard]] std::string_view host_without_port(std::string_view authority) noexcept;

/// Whether a request that calls us `authority` may come from a page of `origin`: from one that we sent under that very
/// name and port. A browser says in Origin which page makes it write. `by_tls`: the request came by TLS, so a page that
/// came without is another's. Without TLS it may have come by a proxy that speaks it, and the page may be either's.
/// Source: RFC 6454 section 7; the fetch standard.
[[nodiscard]] bool is_own_origin(std::string_view origin, std::string_view authority, bool by_tls);

class host_check {
 public:
    /// `allowed` are names without a port; case does not matter.
    explicit host_check(std::vector<std::string> allowed);

    /// Whether a request that calls us `authority` may be answered.
    /// Threads: one. Cost: what the last one accepted was called costs a comparison.
    [[nodiscard]] bool accepts(std::string_view authority);

 private:
    static constexpr std::size_t remembered_bytes_max = 256;

    [[nodiscard]] bool is_ours(std::string_view authority) const;

    std::vector<std::string> allowed_;
    std::string accepted_;  // the last; empty: none
};

}  // namespace holdfast::serve
