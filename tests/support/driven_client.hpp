// SPDX-License-Identifier: Apache-2.0
// driven_client.hpp - a client whose turns the test itself makes, so that nothing happens beside it.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "holdfast/net/client.hpp"

namespace holdfast::test {

class driven_client {
 public:
    explicit driven_client(net::client_options options = {}) : client_(std::move(options)) {}

    [[nodiscard]] net::client& get() noexcept { return client_; }
    [[nodiscard]] const net::client_counters& counters() const { return client_.counters(); }

    /// Begins a request whose end is kept for end_of().
    net::request_id start(net::client_request asked, net::client_callbacks calls = {}) {
        calls.on_done = [this](net::client_result&& r) {
            const std::uint64_t number = r.id.number;
            if (!results_.emplace(number, std::move(r)).second) throw std::logic_error("two ends of one request");
        };
        return client_.start(std::move(asked), std::move(calls));
    }
    [[nodiscard]] bool has_ended(net::request_id request) const { return results_.contains(request.number); }

    /// Makes turns until the request has ended.
    net::client_result end_of(net::request_id request) {
        turn_until([&] { return has_ended(request); });
        return std::move(results_.extract(request.number).mapped());
    }
    net::client_result ask(net::client_request asked, net::client_callbacks calls = {}) {
        return end_of(start(std::move(asked), std::move(calls)));
    }
    net::client_result get(std::string url) {
        net::client_request asked;
        asked.url = std::move(url);
        return ask(std::move(asked));
    }

    /// Makes turns, each when the client asks for it, until `reached`. Throws when that takes too long.
    void turn_until(const std::function<bool()>& reached) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (!reached()) {
            pollfd p{client_.fd(), POLLIN, 0};
            if (::poll(&p, 1, 30) > 0) client_.turn();
            if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("deadline passed");
        }
    }

 private:
    std::map<std::uint64_t, net::client_result> results_;
    net::client client_;  // ends first: its last callbacks go into what stands above
};

}  // namespace holdfast::test
