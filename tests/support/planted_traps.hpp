// SPDX-License-Identifier: Apache-2.0
// planted_traps.hpp - what somebody may plant at a name that a segment or its companions are to have, and who does so.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <ostream>
#include <string>
#include <utility>

#include "support/process.hpp"

namespace holdfast::test {

/// Two users that nobody trusts, beside root.
inline constexpr uid_t stranger = 65534, third_user = 65533;

/// What a child says that acts as that user: "" where all is well. Requires: root, for another user.
template <class Act>
[[nodiscard]] std::string as_user(uid_t user, Act&& act) {
    const ended end = in_child([&]() -> std::string {
        if (user != 0 && (::setresgid(user, user, user) != 0 || ::setresuid(user, user, user) != 0))
            return "cannot become another user";
        return act();
    });
    return end.success() ? "" : end.text();
}

[[nodiscard]] inline std::string content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// What an attacker may plant at a path; `victim` is an existing file that must not change.
struct planted {
    const char* name;
    std::function<bool(const std::string& path, const std::string& victim)> plant;
    friend std::ostream& operator<<(std::ostream& out, const planted& p) { return out << p.name; }
};

[[nodiscard]] inline bool bind_socket(const std::string& path) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const bool bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(fd);
    return bound;
}

inline const planted traps[] = {
    {"symlink_to_a_file",
     [](const auto& path, const auto& victim) { return ::symlink(victim.c_str(), path.c_str()) == 0; }},
    {"dangling_symlink",
     [](const auto& path, const auto& victim) { return ::symlink((victim + ".none").c_str(), path.c_str()) == 0; }},
    {"fifo", [](const auto& path, const auto&) { return ::mkfifo(path.c_str(), 0666) == 0; }},
    {"directory", [](const auto& path, const auto&) { return ::mkdir(path.c_str(), 0777) == 0; }},
    {"socket", [](const auto& path, const auto&) { return bind_socket(path); }},
    {"device", [](const auto& path, const auto&) { return ::mknod(path.c_str(), S_IFCHR | 0666, makedev(1, 5)) == 0; }},
};
/// Those that need no root: all but the device.
[[nodiscard]] inline const planted* traps_of_anybody_end() { return std::prev(std::end(traps)); }

}  // namespace holdfast::test
