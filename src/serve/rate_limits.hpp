// SPDX-License-Identifier: Apache-2.0
// rate_limits.hpp - how many requests a second are answered: of one client, and of all.
//
// A token bucket each: a second's worth may come at once. Kept as the time at which the bucket is full again (the
// generic cell rate algorithm, ITU-T I.371), one number a client. Each worker counts for itself.
// (I1) Memory is bounded: clients beyond clients_max share one bucket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "holdfast/net/peer.hpp"

namespace holdfast::serve {

class token_bucket {
 public:
    /// Nanoseconds until a request may be let in; 0: now. Requires: rate > 0 requests a second.
    [[nodiscard]] std::uint64_t wait_ns(std::uint64_t rate, std::uint64_t now_ns) const noexcept;
    void take(std::uint64_t rate, std::uint64_t now_ns) noexcept;
    [[nodiscard]] bool full(std::uint64_t now_ns) const noexcept { return full_at_ns_ <= now_ns; }

 private:
    std::uint64_t full_at_ns_ = 0;
};

class rate_limits {
 public:
    /// Requests a second; 0: as many as come.
    rate_limits(std::uint64_t of_one, std::uint64_t of_all) noexcept : of_one_(of_one), of_all_(of_all) {}

    [[nodiscard]] bool any() const noexcept { return of_one_ != 0 || of_all_ != 0; }
    /// Lets a request in, or not. Returns: nanoseconds to wait before asking again; 0 where it is let in.
    [[nodiscard]] std::uint64_t admit(const net::peer* client, std::uint64_t now_ns);

    static constexpr std::size_t clients_max = 4096;

 private:
    [[nodiscard]] token_bucket& bucket_of(const net::peer* client, std::uint64_t now_ns);

    std::uint64_t of_one_, of_all_;
    token_bucket all_, others_;
    std::unordered_map<std::string, token_bucket> clients_;
    std::uint64_t swept_ns_ = 0;
};

}  // namespace holdfast::serve
