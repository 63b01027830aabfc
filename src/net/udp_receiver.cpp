// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/udp_receiver.hpp"

#include <fcntl.h>
#include <linux/sock_diag.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "file_descriptor.hpp"
#include "holdfast/error.hpp"
#include "udp_control.hpp"

namespace holdfast::net {

namespace {

constexpr std::size_t trains_limit = 1024;  // of recvmmsg(2)
constexpr std::size_t train_bytes_limit = 65'536;

/// What the kernel has dropped at the socket so far. Nothing on kernels before 4.12.
[[nodiscard]] std::optional<std::uint32_t> drops_of(int socket) noexcept {
    std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
    socklen_t size = sizeof memory;
    if (::getsockopt(socket, SOL_SOCKET, SO_MEMINFO, memory.data(), &size) != 0 || size != sizeof memory)
        return std::nullopt;
    return memory[SK_MEMINFO_DROPS];
}

[[nodiscard]] bool switch_on(int socket, int level, int option) noexcept {
    const int on = 1;
    return ::setsockopt(socket, level, option, &on, sizeof on) == 0;
}

void check(const udp_receiver_options& options) {
    const auto demand = [](std::size_t value, std::size_t most, const char* name) {
        if (value < 1 || value > most)
            throw error(errc::invalid_argument, name,
                        "is " + std::to_string(value) + "; give 1 to " + std::to_string(most));
    };
    demand(options.trains_max, trains_limit, "trains_max");
    demand(options.train_bytes_max, train_bytes_limit, "train_bytes_max");
}

}  // namespace

struct udp_receiver::state {
    state(file_descriptor owned, const udp_receiver_options& chosen)
        : socket(std::move(owned)),
          options(chosen),
          buffers(new char[options.trains_max * stride()]),
          controls(options.trains_max),
          senders(options.trains_max),
          parts(options.trains_max),
          messages(options.trains_max),
          trains(options.trains_max),
          told(drops_of(socket.get()).value_or(0)),
          queued(told) {
        const int fd = socket.get();
        const std::string subject = "descriptor " + std::to_string(fd);
        int type = 0;
        socklen_t size = sizeof type;
        if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_DGRAM)
            throw error(errc::invalid_argument, subject, "is no datagram socket; bind_udp makes one");
        const int flags = ::fcntl(fd, F_GETFL);
        if (flags < 0 || ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
            throw error(errc::io, subject, std::string("fcntl: ") + std::strerror(errno));
        (void)switch_on(fd, SOL_SOCKET, SO_RXQ_OVFL);  // since 2.6.33
        if (options.receive_times && !switch_on(fd, SOL_SOCKET, SO_TIMESTAMPNS))
            throw error(errc::unsupported, subject, "the kernel gives no receive times; do without receive_times");
        joins = options.join && switch_on(fd, IPPROTO_UDP, udp_gro_option);
        for (std::size_t i = 0; i < options.trains_max; ++i) {
            parts[i] = {.iov_base = buffers.get() + i * stride(), .iov_len = options.train_bytes_max};
            prepare(i);
        }
    }

    /// From buffer to buffer: whole lines and an odd number of them, so that the first lines of all buffers do not meet
    /// in one set of the first cache.
    [[nodiscard]] std::size_t stride() const noexcept {
        constexpr std::size_t line = 64;
        return ((options.train_bytes_max + line - 1) / line | 1U) * line;
    }

    void prepare(std::size_t i) noexcept {
        msghdr& header = messages[i].msg_hdr;
        header.msg_name = senders[i].data();
        header.msg_namelen = udp_address::size_max;
        header.msg_iov = &parts[i];
        header.msg_iovlen = 1;
        header.msg_control = controls[i].data();
        header.msg_controllen = udp_control_bytes;
        header.msg_flags = 0;
    }

    udp_arrivals receive(int flags) noexcept {
        for (std::size_t i = 0; i < used; ++i) prepare(i);
        used = 0;
        ++counters.calls;
        // MSG_TRUNC: the length is that of what came, not of what found room.
        const int came = ::recvmmsg(socket.get(), messages.data(), static_cast<unsigned>(messages.size()),
                                    flags | MSG_TRUNC, nullptr);
        if (came < 0) return {{}, errno == EAGAIN || errno == EINTR ? 0 : errno};
        used = static_cast<std::size_t>(came);
        for (std::size_t i = 0; i < used; ++i) take(i);
        return {{trains.data(), used}, 0};
    }

    void take(std::size_t i) noexcept {
        const udp_control beside = read_udp_control(messages[i].msg_hdr);
        datagram_train& train = trains[i];
        train = make_train(static_cast<const char*>(parts[i].iov_base), messages[i].msg_len, options.train_bytes_max,
                           beside, senders[i]);
        if (beside.drops) {
            train.dropped_before = queued.advance(*beside.drops);
            told.advance(*beside.drops);
        }
        ++counters.trains;
        counters.datagrams += train.count;
        counters.bytes += train.bytes.size();
        if (train.cut_bytes != 0) ++counters.cut;
    }

    file_descriptor socket;
    udp_receiver_options options;
    std::unique_ptr<char[]> buffers;  // not touched before use: pages that no train has reached take no memory
    std::vector<std::array<char, udp_control_bytes>> controls;
    std::vector<udp_address> senders;
    std::vector<iovec> parts;
    std::vector<mmsghdr> messages;
    std::vector<datagram_train> trains;
    std::size_t used = 0;  // messages that the last call filled
    drop_count told;       // the newest that the kernel said, in whatever way
    drop_count queued;     // as of the newest train
    udp_receiver_counters counters;
    std::chrono::milliseconds timeout{0};  // that the socket has; 0: none
    bool joins = false;
};

udp_receiver::udp_receiver(int socket, const udp_receiver_options& options) {
    file_descriptor owned(socket);
    check(options);
    state_ = std::make_unique<state>(std::move(owned), options);
}
udp_receiver::udp_receiver(udp_receiver&&) noexcept = default;
udp_receiver& udp_receiver::operator=(udp_receiver&&) noexcept = default;
udp_receiver::~udp_receiver() = default;

udp_arrivals udp_receiver::try_receive() noexcept { return state_->receive(MSG_DONTWAIT); }

udp_arrivals udp_receiver::wait_receive(std::chrono::milliseconds timeout) noexcept {
    if (timeout.count() <= 0) return try_receive();
    if (timeout != state_->timeout) {
        const timeval until{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
        if (::setsockopt(state_->socket.get(), SOL_SOCKET, SO_RCVTIMEO, &until, sizeof until) != 0) return {{}, errno};
        state_->timeout = timeout;
    }
    return state_->receive(MSG_WAITFORONE);
}

std::uint64_t udp_receiver::dropped() noexcept {
    if (const auto now = drops_of(state_->socket.get())) state_->told.advance(*now);
    return state_->told.total();
}

bool udp_receiver::joins() const noexcept { return state_->joins; }
const udp_receiver_counters& udp_receiver::counters() const noexcept { return state_->counters; }
int udp_receiver::socket() const noexcept { return state_->socket.get(); }

}  // namespace holdfast::net
