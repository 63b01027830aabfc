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

}  // namespace

void check_multishot(const uring_sizes& sizes) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
        fail(std::string("socketpair: ").append(std::strerror(errno)));
    const file_descriptor here(ends[0]);
    const file_descriptor there(ends[1]);
    std::optional<uring_buffers> buffers;  // outlive the ring
    uring_ring ring(sizes.submissions, sizes.completions);
    buffers.emplace(ring, std::uint16_t{0}, sizes.buffers, sizes.buffer_bytes);
    if (const int code = ring.enable(); code != 0) fail(std::string("cannot be enabled: ").append(std::strerror(code)));
    io_uring_sqe* const receive = ring.next();
    receive->opcode = IORING_OP_RECV;
    receive->fd = here.get();
    receive->ioprio = IORING_RECV_MULTISHOT;
    receive->flags = IOSQE_BUFFER_SELECT;
    for (const char sent : std::string_view("ab")) {
        uring_completion one;
        const bool heard = ring.enter(0, 0) == 0 && ::send(there.get(), &sent, 1, MSG_NOSIGNAL) == 1 &&
                           ring.enter(1, 1000) == 0 && ring.complete(one);
        constexpr unsigned wanted = IORING_CQE_F_MORE | IORING_CQE_F_BUFFER;
        const auto buffer = static_cast<std::uint16_t>(one.flags >> IORING_CQE_BUFFER_SHIFT);
        const std::span<char> bytes = buffers->of(buffer, 1);
        if (!heard || one.result != 1 || (one.flags & wanted) != wanted || bytes.empty() || bytes[0] != sent)
            fail("this kernel's does not receive more than once by one operation; 6.1 is needed");
        buffers->give_back(buffer);
    }
}

}  // namespace holdfast::net
