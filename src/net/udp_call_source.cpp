// SPDX-License-Identifier: Apache-2.0
// udp_call_source.cpp - trains by recvmmsg into fixed buffers.
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "udp_source.hpp"

namespace holdfast::net {

namespace {

class call_source final : public udp_source {
 public:
    call_source(int socket, const udp_receiver_options& options)
        : socket_(socket),
          stride_(udp_stride(options.train_bytes_max)),
          buffers_(new char[options.trains_max * stride_]),
          controls_(options.trains_max),
          senders_(options.trains_max),
          parts_(options.trains_max),
          messages_(options.trains_max) {
        for (std::size_t i = 0; i < messages_.size(); ++i) {
            parts_[i] = {.iov_base = buffers_.get() + i * stride_, .iov_len = options.train_bytes_max};
            prepare(i);
        }
    }

    [[nodiscard]] taken receive(std::chrono::milliseconds wait) noexcept override {
        const bool waits = wait.count() > 0;
        if (waits && wait != timeout_) {
            const timeval until{.tv_sec = wait.count() / 1000, .tv_usec = wait.count() % 1000 * 1000};
            if (::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &until, sizeof until) != 0) return {0, errno};
            timeout_ = wait;
        }
        for (std::size_t i = 0; i < used_; ++i) prepare(i);
        used_ = 0;
        ++calls_;
        // MSG_TRUNC: the length is that of what came, not of what found room.
        const int came = ::recvmmsg(socket_, messages_.data(), static_cast<unsigned>(messages_.size()),
                                    (waits ? MSG_WAITFORONE : MSG_DONTWAIT) | MSG_TRUNC, nullptr);
        if (came < 0) return {0, errno == EAGAIN || errno == EINTR ? 0 : errno};
        used_ = static_cast<std::size_t>(came);
        return {used_, 0};
    }

    [[nodiscard]] udp_message at(std::size_t i) noexcept override {
        return {static_cast<const char*>(parts_[i].iov_base), messages_[i].msg_len,
                read_udp_control(messages_[i].msg_hdr), &senders_[i]};
    }

 private:
    void prepare(std::size_t i) noexcept {
        msghdr& header = messages_[i].msg_hdr;
        header.msg_name = senders_[i].data();
        header.msg_namelen = udp_address::size_max;
        header.msg_iov = &parts_[i];
        header.msg_iovlen = 1;
        header.msg_control = controls_[i].data();
        header.msg_controllen = udp_control_bytes;
        header.msg_flags = 0;
    }

    int socket_;
    std::size_t stride_;
    std::unique_ptr<char[]> buffers_;  // not touched before use: pages that no train has reached take no memory
    std::vector<std::array<char, udp_control_bytes>> controls_;
    std::vector<udp_address> senders_;
    std::vector<iovec> parts_;
    std::vector<mmsghdr> messages_;
    std::size_t used_ = 0;                  // messages that the last call filled
    std::chrono::milliseconds timeout_{0};  // that the socket has; 0: none
};

}  // namespace

std::unique_ptr<udp_source> make_call_source(int socket, const udp_receiver_options& options) {
    return std::make_unique<call_source>(socket, options);
}

}  // namespace holdfast::net
