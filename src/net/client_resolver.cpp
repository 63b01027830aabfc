// SPDX-License-Identifier: Apache-2.0
#include "client_resolver.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace holdfast::net {

namespace {

constexpr std::size_t look_ups_max = 4;  // a name that hangs does not hold up the next ones
constexpr std::chrono::milliseconds lack_pause{10};

std::optional<socket_address> numeric_address(const std::string& text) {
    socket_address made;
    auto& v4 = reinterpret_cast<sockaddr_in&>(made.storage);
    auto& v6 = reinterpret_cast<sockaddr_in6&>(made.storage);
    if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
        made.size = sizeof v4;
    } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
        v6.sin6_family = AF_INET6;
        made.size = sizeof v6;
    } else {
        return std::nullopt;
    }
    return made;
}

resolved_name ask_system(const std::string& name) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    resolved_name result;
    if (const int code = ::getaddrinfo(name.c_str(), nullptr, &hints, &found); code != 0) {
        result.why = code == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(code);
        return result;
    }
    for (const addrinfo* a = found; a != nullptr && result.addresses.size() < client_resolver::addresses_max;
         a = a->ai_next) {
        if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
        socket_address made;
        std::memcpy(&made.storage, a->ai_addr, a->ai_addrlen);
        made.size = a->ai_addrlen;
        result.addresses.push_back(made);
    }
    ::freeaddrinfo(found);
    return result;
}

resolved_name ask_callers(const client_resolver::look_up& find, const std::string& name) {
    resolved_name result;
    try {
        for (const std::string& text : find(name))
            if (const auto made = numeric_address(text);
                made && result.addresses.size() < client_resolver::addresses_max)
                result.addresses.push_back(*made);
    } catch (const std::exception& thrown) {
        result.addresses.clear();
        result.why = thrown.what();
    } catch (...) {
        result.addresses.clear();
    }
    return result;
}

}  // namespace

struct client_resolver::shared {
    look_up find;
    deliver done;
    std::mutex lock;
    struct job {
        std::uint64_t ticket = 0;
        std::string key, name;
    };
    std::deque<job> jobs;     // under the lock
    std::size_t threads = 0;  // under the lock
    bool ended = false;       // under the lock
    std::condition_variable ends;

    // Works without the lock. Returns: false where memory lacked.
    bool tell(const job& asked, std::unique_lock<std::mutex>& guard) {
        guard.unlock();
        bool told = true;
        try {
            resolved_name found = find ? ask_callers(find, asked.name) : ask_system(asked.name);
            if (found.addresses.empty() && found.why.empty()) found.why = "the name has no address";
            done(asked.ticket, asked.key, std::move(found));
        } catch (...) {
            told = false;
        }
        guard.lock();
        return told;
    }

    // Nobody asks for a name again while it is asked for. So none is given up for lack of memory.
    void work() {
        std::unique_lock guard(lock);
        while (!ended && !jobs.empty()) {
            const job next = std::move(jobs.front());
            jobs.pop_front();
            while (!ended && !tell(next, guard)) ends.wait_for(guard, lack_pause, [this] { return ended; });
        }
        --threads;
    }
};

client_resolver::client_resolver(look_up find, deliver done) : shared_(std::make_shared<shared>()) {
    shared_->find = std::move(find);
    shared_->done = std::move(done);
}

client_resolver::~client_resolver() {
    const std::lock_guard guard(shared_->lock);
    shared_->ended = true;
    shared_->ends.notify_all();
}

void client_resolver::ask(std::uint64_t ticket, std::string key, std::string name) {
    const std::lock_guard guard(shared_->lock);
    shared_->jobs.push_back({ticket, std::move(key), std::move(name)});
    if (shared_->threads == look_ups_max) return;
    try {
        std::thread([mine = shared_] { mine->work(); }).detach();
        ++shared_->threads;
    } catch (...) {
        if (shared_->threads != 0) return;  // a later turn of one that works already
        shared_->jobs.pop_back();
        throw;
    }
}

bool client_resolver::drop(std::uint64_t ticket) {
    const std::lock_guard guard(shared_->lock);
    return std::erase_if(shared_->jobs, [ticket](const auto& each) { return each.ticket == ticket; }) != 0;
}

std::vector<socket_address> client_resolver::literal(const std::string& host) {
    if (const auto made = numeric_address(host)) return {*made};
    if (host != "localhost" && host != "localhost." && !host.ends_with(".localhost")) return {};
    return {*numeric_address("127.0.0.1"), *numeric_address("::1")};
}

}  // namespace holdfast::net
