// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/udp_receiver.hpp"

#include <fcntl.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "file_descriptor.hpp"
#include "holdfast/error.hpp"
#include "udp_control.hpp"
#include "udp_source.hpp"

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
        source =
            options.carrier == udp_carrier::io_uring ? make_uring_source(fd, options) : make_call_source(fd, options);
    }

    udp_arrivals receive(std::chrono::milliseconds wait) noexcept {
        const udp_source::taken came = source->receive(wait);
        counters.calls = source->calls();
        for (std::size_t i = 0; i < came.count; ++i) take(i);
        return {{trains.data(), came.count}, came.error};
    }

    void take(std::size_t i) noexcept {
        const udp_message message = source->at(i);
        datagram_train& train = trains[i];
        train = make_train(message.base, message.wire_bytes, options.train_bytes_max, message.beside, *message.from);
        if (message.beside.drops) {
            train.dropped_before = queued.advance(*message.beside.drops);
            told.advance(*message.beside.drops);
        }
        ++counters.trains;
        counters.datagrams += train.count;
        counters.bytes += train.bytes.size();
        if (train.cut_bytes != 0) ++counters.cut;
    }

    file_descriptor socket;
    udp_receiver_options options;
    std::vector<datagram_train> trains;
    drop_count told;    // the newest that the kernel said, in whatever way
    drop_count queued;  // as of the newest train
    udp_receiver_counters counters;
    std::unique_ptr<udp_source> source;
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

udp_arrivals udp_receiver::try_receive() noexcept { return state_->receive(std::chrono::milliseconds::zero()); }
udp_arrivals udp_receiver::wait_receive(std::chrono::milliseconds timeout) noexcept { return state_->receive(timeout); }

std::uint64_t udp_receiver::dropped() noexcept {
    if (const auto now = drops_of(state_->socket.get())) state_->told.advance(*now);
    return state_->told.total();
}

udp_carrier udp_receiver::carrier() const noexcept { return state_->options.carrier; }
bool udp_receiver::joins() const noexcept { return state_->joins; }
const udp_receiver_counters& udp_receiver::counters() const noexcept { return state_->counters; }
int udp_receiver::socket() const noexcept { return state_->socket.get(); }

}  // namespace holdfast::net
