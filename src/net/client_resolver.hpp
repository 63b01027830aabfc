// SPDX-License-Identifier: Apache-2.0
// client_resolver.hpp - the addresses of names, found on helper threads: getaddrinfo blocks, for as long as it likes.
//
// A thread lives while there are names to look up and ends with the last; nobody waits for one, so a client ends at
// once beside a resolver that hangs. What its threads share outlives it (R1), and they touch nothing else but the
// inbox.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "socket_address.hpp"

namespace holdfast::net {

/// Port 0 each; none: `why` says why.
struct resolved_name {
    std::vector<socket_address> addresses;
    std::string why;
};

class client_resolver {
 public:
    static constexpr std::size_t addresses_max = 8;  // more of a name are not tried
    using look_up = std::function<std::vector<std::string>(const std::string& name)>;
    using deliver = std::function<void(std::uint64_t ticket, const std::string& key, resolved_name found)>;

    /// `done` is called on the helper threads, once for each name that is asked for before this goes and not dropped,
    /// and again after a moment where it throws, for lack of memory.
    client_resolver(look_up find, deliver done);
    ~client_resolver();
    client_resolver(const client_resolver&) = delete;
    client_resolver& operator=(const client_resolver&) = delete;

    /// `ticket` and `key` come back with what is found.
    /// Throws: std::system_error where there is no thread to be had and none works already.
    void ask(std::uint64_t ticket, std::string key, std::string name);
    /// Takes a name back that nobody wants any more. Returns: false where its look-up has begun; it comes back then.
    bool drop(std::uint64_t ticket);

    /// Of a literal address, and of localhost, which is loopback whatever a resolver says (RFC 6761); none for a name.
    [[nodiscard]] static std::vector<socket_address> literal(const std::string& host);

 private:
    struct shared;
    std::shared_ptr<shared> shared_;
};

}  // namespace holdfast::net
