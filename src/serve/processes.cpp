// SPDX-License-Identifier: Apache-2.0
#include "serve/processes.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "holdfast/memory/descriptor.hpp"
#include "holdfast/memory/space.hpp"
#include "serve/serve.hpp"

namespace holdfast::serve {

namespace {

/// The words of a process's command line, each ended by a zero byte; empty when there is no such process.
std::string command_line_of(std::uint64_t pid) {
    return memory::detail::read_small_file("/proc/" + std::to_string(pid) + "/cmdline").value_or("");
}

bool has_word(const std::string& words, std::string_view wanted) {
    return words.find(std::string(1, '\0').append(wanted) + '\0') != std::string::npos;
}

}  // namespace

std::uint64_t parent_of(std::uint64_t pid) {
    const std::string stat = memory::detail::read_small_file("/proc/" + std::to_string(pid) + "/stat").value_or("");
    const std::size_t name_end = stat.rfind(") ");  // then the state, a space, and the parent
    if (name_end == std::string::npos || stat.size() < name_end + 4) return 0;
    return std::strtoull(stat.c_str() + name_end + 4, nullptr, 10);
}

bool is_worker(std::uint64_t pid) { return pid != 0 && has_word(command_line_of(pid), worker_command); }

bool is_kept_worker(std::uint64_t pid) { return is_worker(pid) && has_word(command_line_of(parent_of(pid)), "serve"); }

std::vector<std::string> own_command_line() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    std::vector<std::string> words;
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t end = std::min(all.find('\0', at), all.size());
        words.push_back(all.substr(at, end - at));
        at = end + 1;
    }
    return words;
}

void tell_service_manager(std::string_view state) noexcept {
    const char* const path = std::getenv("NOTIFY_SOCKET");
    if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    const std::size_t length = std::strlen(path);
    if (length >= sizeof to.sun_path) return;
    std::memcpy(to.sun_path, path, length);
    if (path[0] == '@') to.sun_path[0] = '\0';  // of the abstract namespace, whose names have no zero at their end
    const memory::descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return;
    (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
}

}  // namespace holdfast::serve
