// SPDX-License-Identifier: Apache-2.0
// client_tls.cpp - a client's bytes by TLS: a session that is blind to sockets (tls_session.hpp) over a socket.
//
// (C1) One record is on its way at a time. Its bytes count as sent when the last of it has left, so a request of which
//      nothing counts as sent cannot have been read by anybody.
// (C2) What is kept: the record on its way and what TLS itself says (own_bytes_max beyond it, or the connection is
// given
//      up), and what came behind a read that was full (receive_bytes at most). Nothing while idle.
// (C3) A handshake takes no more than handshake_bytes_max; its time is the client's connect time-out.
// (C4) TCP's end without close_notify is an error, tls_cut: it may be anybody's on the way.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "client_transport.hpp"
#include "tls_session.hpp"

namespace holdfast::net {

namespace {

constexpr std::size_t record_bytes = 16U << 10U;  // plain, of one record
constexpr std::size_t receive_bytes = 32U << 10U;
constexpr std::size_t own_bytes_max = 16U << 10U;
constexpr std::size_t handshake_bytes_max = 256U << 10U;

class tls_transport final : public client_transport {
 public:
    tls_transport(int socket, std::unique_ptr<tls_session> session) noexcept
        : socket_(socket), session_(std::move(session)) {}
    ~tls_transport() override {
        if (!shaken_ || fault_ != 0) return;
        session_->close(output_);
        (void)flush();
    }
    tls_transport(const tls_transport&) = delete;
    tls_transport& operator=(const tls_transport&) = delete;

    [[nodiscard]] int begin() noexcept override {
        std::array<char, receive_bytes> bytes;
        std::span<const char> input;
        while (true) {
            const tls_status now = session_->shake(input, output_);
            const int sent = flush();
            if (now == tls_status::done) {
                shaken_ = true;
                return keep(input) ? 0 : ENOMEM;
            }
            if (now != tls_status::more) return break_off();
            if (sent == EAGAIN) {
                wanted_ = EPOLLOUT;
                return EAGAIN;
            }
            const ssize_t n = take(bytes);
            // Who refuses says why before it closes; that is worth more than that nothing can be sent.
            if (n < 0 && errno == EAGAIN && sent != 0) return give_up(sent, {});
            if (n < 0 && errno == EAGAIN) {
                wanted_ = EPOLLIN;
                return EAGAIN;
            }
            if (n < 0) return give_up(errno, {});
            if (n == 0) return give_up(tls_cut, "it closed the connection in the middle of the handshake");
            input = std::span<const char>(bytes).first(static_cast<std::size_t>(n));
            handshake_bytes_ += input.size();
            if (handshake_bytes_ > handshake_bytes_max)
                return give_up(tls_broken, "its handshake does not end (256 KiB of it have come)");
        }
    }

    [[nodiscard]] moved receive(std::span<char> into) noexcept override {
        if (early_ && !into.empty()) {
            into[0] = *std::exchange(early_, std::nullopt);
            return {.bytes = 1};
        }
        std::size_t total = 0;
        if (!held_.empty() || full_) {
            std::span<const char> input(held_.data() + held_at_, held_.size() - held_at_);
            total = decrypt(input, into);
            held_at_ = held_.size() - input.size();
            if (input.empty()) {
                held_ = {};
                held_at_ = 0;
            }
        }
        std::array<char, receive_bytes> bytes;
        while (total < into.size() && !ended_ && fault_ == 0) {
            const ssize_t n = take(bytes);
            if (n < 0 && errno != EAGAIN) (void)give_up(errno, {});
            if (n == 0)
                (void)give_up(
                    tls_cut,
                    "the connection was cut without an end of TLS (close_notify), by somebody on the way or a "
                    "careless server");
            if (n <= 0) break;
            std::span<const char> input = std::span<const char>(bytes).first(static_cast<std::size_t>(n));
            total += decrypt(input, into.subspan(total));
            if (!input.empty() && !keep(input)) (void)give_up(ENOMEM, {});
            if (static_cast<std::size_t>(n) < bytes.size()) break;
        }
        full_ = total == into.size();
        const int flushed = flush();
        if (flushed == EAGAIN && output_.size() - output_at_ > own_bytes_max + (in_flight_ != 0 ? 2 * record_bytes : 0))
            (void)give_up(tls_broken, "it makes TLS answer, by key updates, and takes no answer");
        if (total != 0) return {.bytes = total, .ended = ended_ && fault_ == 0};
        if (fault_ != 0) return {.error = fault_};
        return {.error = ended_ ? 0 : EAGAIN, .ended = ended_};
    }

    [[nodiscard]] moved send(std::span<const iovec> parts) noexcept override {
        if (fault_ != 0) return {.error = fault_};
        if (const int code = flush(); code != 0) return {.error = code};
        if (in_flight_ == 0) {
            std::array<char, record_bytes> gathered;
            const std::string_view plain = gather(parts, gathered);
            if (!session_->write(plain, output_)) return {.error = break_off()};
            in_flight_ = plain.size();
            if (const int code = flush(); code != 0) return {.error = code};
        }
        return {.bytes = std::exchange(in_flight_, 0)};
    }

    [[nodiscard]] int flush() noexcept override {
        if (send_fault_ != 0) {
            output_ = {};  // reading may go on, and make TLS answer
            output_at_ = 0;
            return send_fault_;
        }
        while (output_at_ < output_.size()) {
            const ssize_t n =
                ::send(socket_, output_.data() + output_at_, output_.size() - output_at_, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (n >= 0) {
                output_at_ += static_cast<std::size_t>(n);
            } else if (errno == EAGAIN) {
                return EAGAIN;
            } else if (errno != EINTR) {
                return send_fault_ = errno;  // for good: what was in flight has not left
            }
        }
        output_at_ = 0;
        output_ = {};
        return 0;
    }

    [[nodiscard]] std::uint32_t wants() const noexcept override {
        if (!shaken_) return wanted_;
        return output_.empty() || send_fault_ != 0 ? 0U : static_cast<std::uint32_t>(EPOLLOUT);
    }

    [[nodiscard]] bool holds_input() const noexcept override {
        return full_ || !held_.empty() || early_.has_value() || fault_ != 0;
    }

    // Tickets and key updates may come at any time, and are nobody's answer. Half a record may become one.
    [[nodiscard]] bool is_quiet() noexcept override {
        if (early_ || ended_ || fault_ != 0) return false;
        char byte = 0;
        const moved now = receive({&byte, 1});
        if (now.bytes != 0) early_ = byte;
        return now.error == EAGAIN && session_->is_between_records();
    }

    [[nodiscard]] std::string reason() const override { return reason_; }
    [[nodiscard]] bool resumed() const noexcept override { return session_->resumed(); }

 private:
    // Returns what the kernel did; errno is set where that is -1.
    ssize_t take(std::span<char> into) const noexcept {
        ssize_t n = 0;
        do n = ::recv(socket_, into.data(), into.size(), MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        return n;
    }

    // Reads what is whole, as much as `into` holds. Returns how much that is.
    std::size_t decrypt(std::span<const char>& input, std::span<char> into) noexcept {
        std::size_t total = 0;
        while (total < into.size()) {
            const tls_session::got got = session_->read(input, into.subspan(total), output_);
            if (got.status == tls_status::done) {
                total += got.bytes;
                continue;
            }
            if (got.status == tls_status::ended) ended_ = true;
            if (got.status == tls_status::failed) (void)break_off();
            if (got.status != tls_status::more) input = {};
            break;
        }
        return total;
    }

    bool keep(std::span<const char> input) noexcept {
        try {
            held_.assign(input.data(), input.size());
            held_at_ = 0;
            return true;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }

    static std::string_view gather(std::span<const iovec> parts, std::array<char, record_bytes>& into) noexcept {
        std::size_t total = 0;
        for (const iovec& part : parts) {
            const std::size_t here = std::min(part.iov_len, into.size() - total);
            if (here != 0) std::memcpy(into.data() + total, part.iov_base, here);
            total += here;
        }
        return {into.data(), total};
    }

    int break_off() noexcept {
        (void)give_up(session_->distrusts() ? tls_distrusted : tls_broken, {});
        try {
            reason_ = session_->reason();
        } catch (const std::bad_alloc&) {
            reason_.clear();
        }
        return fault_;
    }
    int give_up(int code, std::string_view why) noexcept {
        if (fault_ != 0) return fault_;
        fault_ = code;
        try {
            reason_ = why;
        } catch (const std::bad_alloc&) {
            reason_.clear();
        }
        return fault_;
    }

    int socket_;
    int fault_ = 0;       // nothing more comes but this
    int send_fault_ = 0;  // nothing more leaves
    std::uint32_t wanted_ = EPOLLIN;
    bool shaken_ = false;
    bool ended_ = false;         // close_notify has come
    bool full_ = false;          // the last read was full: the session may hold more
    std::optional<char> early_;  // what is_quiet() found
    std::size_t handshake_bytes_ = 0;
    std::size_t in_flight_ = 0;  // plain bytes of the record in output_
    std::string output_;
    std::size_t output_at_ = 0;
    std::string held_;
    std::size_t held_at_ = 0;
    std::string reason_;
    std::unique_ptr<tls_session> session_;
};

}  // namespace

std::unique_ptr<client_transport> make_tls_transport(int socket, std::unique_ptr<tls_session> session) {
    return std::make_unique<tls_transport>(socket, std::move(session));
}

}  // namespace holdfast::net
