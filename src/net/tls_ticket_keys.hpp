// SPDX-License-Identifier: Apache-2.0
// tls_ticket_keys.hpp - the keys under which a server gives its memory of a session to the client.
//
// (K1) A key seals for rotation_s from its making on, and opens as long again: a ticket, which is good for rotation_s,
//      can be opened whenever it was made.
// (K2) Keys are never stored. A process that ends, and a reload, takes them with it; a client then shakes hands anew.
// Threads: any. Source: RFC 5077 section 5.5; RFC 8446 section 4.6.1.
#pragma once

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

namespace holdfast::net {

class tls_ticket_keys {
 public:
    static constexpr std::int64_t rotation_s = 4 * 3600;

    struct key {
        std::array<unsigned char, 16> name;    // stands in front of the ticket
        std::array<unsigned char, 32> cipher;  // of AES-256-CBC
        std::array<unsigned char, 32> mac;     // of HMAC-SHA-256
    };
    struct found {
        key with;
        bool renew = false;  // sealed under the key before: the client deserves a fresh one
    };

    /// What seals a ticket at `now_s`, a clock that never goes back. Returns: nothing where the kernel gives no random
    /// bytes.
    [[nodiscard]] std::optional<key> to_seal(std::int64_t now_s) {
        const std::lock_guard held(lock_);
        if (!rotate(now_s)) return std::nullopt;
        return keys_[0];
    }
    /// What opens a ticket that begins with `name`. Returns: nothing where no key of ours, or none any more, has made
    /// it.
    [[nodiscard]] std::optional<found> to_open(std::span<const unsigned char, 16> name, std::int64_t now_s) {
        const std::lock_guard held(lock_);
        if (!rotate(now_s)) return std::nullopt;
        for (std::size_t i = 0; i < there_; ++i)
            if (std::ranges::equal(keys_[i].name, name)) return found{keys_[i], i != 0};
        return std::nullopt;
    }

 private:
    // Makes the key of this time the first one. One that nobody has sealed under for a whole rotation is not kept.
    bool rotate(std::int64_t now_s) {
        if (there_ != 0 && now_s < made_s_ + rotation_s) return true;
        const bool keep = there_ != 0 && now_s < made_s_ + 2 * rotation_s;
        key fresh;
        if (::getrandom(&fresh, sizeof fresh, 0) != static_cast<ssize_t>(sizeof fresh)) return false;
        keys_[1] = keep ? keys_[0] : key{};
        keys_[0] = fresh;
        there_ = keep ? 2 : 1;
        made_s_ = now_s;
        return true;
    }

    std::mutex lock_;
    std::array<key, 2> keys_{};
    std::size_t there_ = 0;
    std::int64_t made_s_ = 0;
};

}  // namespace holdfast::net
