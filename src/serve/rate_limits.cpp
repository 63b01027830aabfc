// SPDX-License-Identifier: Apache-2.0
#include "serve/rate_limits.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

namespace holdfast::serve {

namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;
constexpr std::uint64_t sweep_ns = 100'000'000;

/// Whom a bucket belongs to: a user, or an address; of IPv6 the network, which one client may have whole.
std::string name_of(const net::peer* client) {
    if (client == nullptr || client->way == net::peer_way::unknown) return {};
    if (client->way == net::peer_way::unix_socket) return "user " + std::to_string(client->user);
    std::array<char, 16> bytes{};
    if (::inet_pton(AF_INET6, client->address.c_str(), bytes.data()) != 1) return client->address;
    return {bytes.data(), 8};
}

}  // namespace

std::uint64_t token_bucket::wait_ns(std::uint64_t rate, std::uint64_t now_ns) const noexcept {
    const std::uint64_t interval = std::max<std::uint64_t>(1, second_ns / rate);
    const std::uint64_t behind = std::max(full_at_ns_, now_ns) - now_ns;  // what taking away has cost so far
    const std::uint64_t room = std::max(second_ns, interval) - interval;
    return behind > room ? behind - room : 0;
}

void token_bucket::take(std::uint64_t rate, std::uint64_t now_ns) noexcept {
    full_at_ns_ = std::max(full_at_ns_, now_ns) + std::max<std::uint64_t>(1, second_ns / rate);
}

token_bucket& rate_limits::bucket_of(const net::peer* client, std::uint64_t now_ns) {
    const std::string name = name_of(client);
    if (const auto at = clients_.find(name); at != clients_.end()) return at->second;
    if (clients_.size() >= clients_max && now_ns - swept_ns_ >= sweep_ns) {
        swept_ns_ = now_ns;
        std::erase_if(clients_, [&](const auto& each) { return each.second.full(now_ns); });
    }
    return clients_.size() >= clients_max ? others_ : clients_[name];
}

std::uint64_t rate_limits::admit(const net::peer* client, std::uint64_t now_ns) {
    token_bucket* const own = of_one_ != 0 ? &bucket_of(client, now_ns) : nullptr;
    const std::uint64_t wait =
        std::max(own != nullptr ? own->wait_ns(of_one_, now_ns) : 0, of_all_ != 0 ? all_.wait_ns(of_all_, now_ns) : 0);
    if (wait != 0) return wait;
    if (own != nullptr) own->take(of_one_, now_ns);
    if (of_all_ != 0) all_.take(of_all_, now_ns);
    return 0;
}

}  // namespace holdfast::serve
