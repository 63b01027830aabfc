// SPDX-License-Identifier: Apache-2.0
#include "uring_probe.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "file_descriptor.hpp"
#include "holdfast/error.hpp"
#include "uring_buffers.hpp"
#include "uring_ring.hpp"

namespace holdfast::net {

namespace {

[[noreturn]] void fail(const std::string& why) { throw error(errc::unsupported, "io_uring", why); }

struct connected {
    connected() {
        std::array<int, 2> ends{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
            fail(std::string("socketpair: ").append(std::strerror(errno)));
        here = file_descriptor(ends[0]);
        there = file_descriptor(ends[1]);
    }
    file_descriptor here;
    file_descriptor there;
};

}  // namespace

void check_multishot(const uring_sizes& sizes) {
    const connected pair;
    std::optional<uring_buffers> buffers;  // outlive the ring
    uring_ring ring(sizes.submissions, sizes.completions);
    buffers.emplace(ring, std::uint16_t{0}, sizes.buffers, sizes.buffer_bytes);
    if (const int code = ring.enable(); code != 0) fail(std::string("cannot be enabled: ").append(std::strerror(code)));
    io_uring_sqe* const receive = ring.next();
    receive->opcode = IORING_OP_RECV;
    receive->fd = pair.here.get();
    receive->ioprio = IORING_RECV_MULTISHOT;
    receive->flags = IOSQE_BUFFER_SELECT;
    for (const char sent : std::string_view("ab")) {
        uring_completion one;
        const bool heard = ring.enter(0, 0) == 0 && ::send(pair.there.get(), &sent, 1, MSG_NOSIGNAL) == 1 &&
                           ring.enter(1, 1000) == 0 && ring.complete(one);
        constexpr unsigned wanted = IORING_CQE_F_MORE | IORING_CQE_F_BUFFER;
        const auto buffer = static_cast<std::uint16_t>(one.flags >> IORING_CQE_BUFFER_SHIFT);
        const std::span<char> bytes = buffers->of(buffer, 1);
        if (!heard || one.result != 1 || (one.flags & wanted) != wanted || bytes.empty() || bytes[0] != sent)
            fail("this kernel's does not receive more than once by one operation; 6.1 is needed");
        buffers->give_back(buffer);
    }
}

void check_direct() {
    char byte = 0;  // outlives the ring
    connected waiting;
    connected closed;
    uring_ring ring(4, 8);
    if (const int code = ring.enable(); code != 0) fail(std::string("cannot be enabled: ").append(std::strerror(code)));
    std::array<int, 2> sockets{waiting.here.get(), closed.here.get()};
    if (const int code = ring.configure(IORING_REGISTER_FILES, sockets.data(), 2); code < 0)
        fail(std::string("no table of sockets: ").append(uring_ring::reason(-code)));
    closed.here.reset();
    io_uring_sqe* const receive = ring.next();
    receive->opcode = IORING_OP_RECV;
    receive->flags = IOSQE_FIXED_FILE;
    receive->addr = reinterpret_cast<std::uint64_t>(&byte);
    receive->len = 1;
    int no_socket = -1;
    io_uring_files_update update{};
    update.offset = 1;
    update.fds = reinterpret_cast<std::uint64_t>(&no_socket);
    const bool removed = ring.enter(0, 0) == 0 && ring.configure(IORING_REGISTER_FILES_UPDATE, &update, 1) == 1;
    if (!removed || ::recv(closed.there.get(), &no_socket, 1, MSG_DONTWAIT) != 0)
        fail("this kernel's keeps what leaves a table open for as long as older operations wait; 6.13 is needed");
}

}  // namespace holdfast::net
