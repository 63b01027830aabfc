// SPDX-License-Identifier: Apache-2.0
#include "serve/take_over.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "holdfast/error.hpp"

namespace holdfast::serve {

namespace {

constexpr std::string_view magic("HFSERVE\0", 8);
constexpr std::chrono::milliseconds patience{10'000};

struct door_name {
    sockaddr_un name{};
    socklen_t size = 0;
};

door_name name_of(const std::string& address) {
    const std::string text = std::string(1, '\0') + "holdfast-serve/" + address;
    door_name result;
    result.name.sun_family = AF_UNIX;
    if (text.size() > sizeof result.name.sun_path)
        throw error(errc::invalid_name, address, "is too long for an address");
    std::memcpy(result.name.sun_path, text.data(), text.size());
    result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size());
    return result;
}

memory::descriptor make_socket(int flags) {
    memory::descriptor fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
    if (!fd) memory::throw_errno(errno, "taking over", "socket");
    return fd;
}

std::optional<ucred> user_of(int socket) noexcept {
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return std::nullopt;
    return who;
}

}  // namespace

std::array<char, take_over_message::bytes> take_over_message::encode() const noexcept {
    std::array<char, bytes> out{};
    const std::array<std::uint32_t, 4> numbers{version, static_cast<std::uint32_t>(word), number, 0};
    std::memcpy(out.data(), magic.data(), magic.size());
    std::memcpy(out.data() + magic.size(), numbers.data(), sizeof numbers);
    return out;
}

std::optional<take_over_message> take_over_message::decode(std::string_view text) noexcept {
    std::array<std::uint32_t, 4> numbers{};
    if (text.size() != bytes || !text.starts_with(magic)) return std::nullopt;
    std::memcpy(numbers.data(), text.data() + magic.size(), sizeof numbers);
    const take_over_message read{numbers[0], static_cast<take_over_word>(numbers[1]), numbers[2]};
    if (read.version != version_now) return read;
    if (numbers[1] < 1 || numbers[1] > static_cast<std::uint32_t>(take_over_word::refused) || numbers[3] != 0)
        return std::nullopt;
    return read;
}

take_over_link take_over_link::to(const std::string& address) {
    const door_name name = name_of(address);
    memory::descriptor socket = make_socket(SOCK_NONBLOCK);  // a full queue answers EAGAIN, at once
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.name), name.size) != 0) {
        if (errno == ECONNREFUSED)
            throw error(errc::not_found, address,
                        "no server that hands over serves there; start this one without --take-over");
        memory::throw_errno(errno, address, "connecting to the server there", "try again");
    }
    const auto who = user_of(socket.get());
    if (!who || who->uid != ::geteuid())
        throw error(errc::no_permission, address,
                    "the server there is another user's; only the same user takes over from it");
    return take_over_link(std::move(socket));
}

bool take_over_link::say(take_over_word word, std::uint32_t number) const noexcept {
    const auto text = take_over_message{.word = word, .number = number}.encode();
    ssize_t sent = -1;
    do sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == static_cast<ssize_t>(text.size());
}

take_over_link::state take_over_link::hear(take_over_message& into) const noexcept {
    std::array<char, take_over_message::bytes + 1> text{};  // one more: a longer message is none
    ssize_t n = -1;
    // ECONNRESET, once: the other one closed before it had read all of ours. What it said before is still there.
    do n = ::recv(socket_.get(), text.data(), text.size(), MSG_DONTWAIT);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n < 0) return errno == EAGAIN ? state::silent : state::away;
    if (n == 0) return state::away;
    const auto read = take_over_message::decode({text.data(), static_cast<std::size_t>(n)});
    if (!read) return state::nonsense;
    into = *read;
    return into.version == take_over_message::version_now ? state::said : state::otherwise;
}

take_over_link::state take_over_link::hear(take_over_message& into, std::chrono::milliseconds most) const noexcept {
    using clock = std::chrono::steady_clock;
    for (const clock::time_point end = clock::now() + most;;) {
        if (const state now = hear(into); now != state::silent) return now;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()).count();
        if (left <= 0) return state::silent;
        pollfd one{socket_.get(), POLLIN, 0};
        (void)::poll(&one, 1, static_cast<int>(left));
    }
}

bool take_over_link::alive() const noexcept {
    char byte = 0;
    const ssize_t n = ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

caller ask_to_take_over(const std::string& address) {
    take_over_link link = take_over_link::to(address);
    take_over_message answer;
    // One that is away cannot have heard it, and is heard to be away.
    (void)link.say(take_over_word::take_over);
    switch (link.hear(answer, patience)) {
        case take_over_link::state::said: break;
        case take_over_link::state::silent:
            throw error(errc::io, address, "the server there does not answer; look whether it is stopped");
        case take_over_link::state::away:
            throw error(errc::not_found, address, "the server there went away; start this one without --take-over");
        case take_over_link::state::otherwise:
            throw error(errc::version_mismatch, address,
                        "the server there hands over by version " + std::to_string(answer.version) + ", this one by " +
                            std::to_string(take_over_message::version_now) + "; stop it, then start this one");
        case take_over_link::state::nonsense:
            throw error(errc::corrupt, address,
                        "what answers there is no holdfast serve; stop it, then start this one");
    }
    if (answer.word == take_over_word::busy)
        throw error(errc::already_exists, address,
                    "another process is about to take over there, or it is stopping; try again");
    if (answer.word != take_over_word::accepted)
        throw error(errc::corrupt, address,
                    "the server there answered what makes no sense; stop it, then start this one");
    return {std::move(link), answer.number};
}

memory::descriptor open_door(const std::string& address) {
    const door_name name = name_of(address);
    memory::descriptor door = make_socket(SOCK_NONBLOCK);
    if (::bind(door.get(), reinterpret_cast<const sockaddr*>(&name.name), name.size) != 0 ||
        ::listen(door.get(), 8) != 0)
        memory::throw_errno(errno, address, "opening the door for a successor");
    return door;
}

bool is_door(int listener) noexcept {
    int type = 0;
    socklen_t size = sizeof type;
    return ::getsockopt(listener, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

std::optional<caller> answer_door(int door) noexcept {
    memory::descriptor socket(::accept4(door, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return std::nullopt;
    const auto who = user_of(socket.get());
    if (!who || who->uid != ::geteuid()) {
        socket.reset();
        errno = EACCES;
        return std::nullopt;
    }
    return caller{take_over_link(std::move(socket)), static_cast<std::uint64_t>(who->pid)};
}

}  // namespace holdfast::serve
