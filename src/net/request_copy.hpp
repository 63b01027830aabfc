// SPDX-License-Identifier: Apache-2.0
// request_copy.hpp - a request that outlives the bytes it came in and the connection that brought them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "holdfast/net/peer.hpp"
#include "holdfast/net/request.hpp"

namespace holdfast::net {

class request_copy {
 public:
    /// `bytes`: what the request takes of the buffer that it stands in (request_parser::consumed).
    request_copy(const request& whole, std::size_t bytes) : bytes_(whole.base_, bytes), view_(whole) {
        view_.base_ = bytes_.data();
        if (whole.peer_ == nullptr) return;
        peer_ = *whole.peer_;
        view_.peer_ = &*peer_;
    }
    request_copy(const request_copy&) = delete;
    request_copy& operator=(const request_copy&) = delete;

    [[nodiscard]] const request& view() const noexcept { return view_; }

 private:
    const std::string bytes_;
    std::optional<peer> peer_;
    request view_;
};

}  // namespace holdfast::net
