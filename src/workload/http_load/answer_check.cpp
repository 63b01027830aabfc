// SPDX-License-Identifier: Apache-2.0
#include "workload/http_load/answer_check.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "workload/http_load/load_connection.hpp"

namespace holdfast::workload::http {

std::string shown(std::string_view bytes) {
    std::string text(bytes.substr(0, 200));
    std::ranges::replace_if(text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    std::ranges::replace_if(text, [](char c) { return static_cast<unsigned char>(c) > 0x7e; }, '?');
    return "\"" + text + (bytes.size() > 200 ? "\"..." : "\"");
}

void check_answer(const exchange& wanted, const answer& got) {
    if (got.status == 200 && got.body == wanted.body) return;
    throw wrong_answer("to " + shown(wanted.request.substr(0, wanted.request.find('\r'))) + " the answer was " +
                       std::to_string(got.status) + " " + shown(got.body) + " instead of 200 " + shown(wanted.body));
}

void ask_once(const net::socket_address& server, const exchange& what, std::chrono::milliseconds patience) {
    int code = 0;
    const net::file_descriptor fd = open_connection(server, 0, code);
    if (code == EINPROGRESS) {
        if (!ready_within(fd.get(), POLLOUT, patience)) throw server_failed("no connection in time");
        code = connection_error(fd.get());
    }
    if (code != 0) throw server_failed(connecting_text(code));
    if (::send(fd.get(), what.request.data(), what.request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(what.request.size()))
        throw server_failed("a new connection takes no request");
    std::string bytes;
    while (ready_within(fd.get(), POLLIN, patience)) {
        std::array<char, 4096> part;
        const ssize_t n = ::recv(fd.get(), part.data(), part.size(), 0);
        if (n <= 0) throw server_failed("a connection was lost before its answer");
        bytes.append(part.data(), static_cast<std::size_t>(n));
        answer got;
        switch (scan_answer(bytes, got)) {
            case scan_status::complete: return check_answer(what, got);
            case scan_status::malformed: throw wrong_answer("no answer as the workload wants it: " + shown(bytes));
            case scan_status::need_more: break;
        }
    }
    throw server_failed("no answer in time");
}

}  // namespace holdfast::workload::http
