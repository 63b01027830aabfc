// SPDX-License-Identifier: Apache-2.0
// supervisor_sockets.cpp - the supervisor's listeners: made, or taken over.
#include <sched.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "holdfast/error.hpp"
#include "holdfast/net/hand_over.hpp"
#include "holdfast/net/listener.hpp"
#include "serve/supervisor.hpp"

namespace holdfast::serve {

namespace {

/// `listen`, again for a second while somebody else listens there: the workers of a supervisor that was killed just now
/// still drain, and the kernel takes the ring of a killed process down, with what that accepts from, behind its death.
template <class Listen>
int listen_soon(const Listen& listen) {
    for (const std::uint64_t begin = supervisor::now_ns();;) {
        try {
            return listen();
        } catch (const error& e) {
            if (e.reason() != errc::already_exists || supervisor::now_ns() - begin > 1'000'000'000) throw;
        }
        const struct timespec pause{0, 10'000'000};
        ::nanosleep(&pause, nullptr);
    }
}

/// Listens without sharing the port for a moment: SO_REUSEPORT alone would let two servers of one user answer by turns.
void require_free_port(const std::string& address) {
    const memory::descriptor probe(listen_soon([&] { return net::listen_tcp(address); }));
}

constexpr net::listen_options shared_port{.reuse_port = true};

}  // namespace

void supervisor::make_listeners() {
    const std::size_t digits = options_.listen.rfind(':') + 1;  // 0 where there is no port: listen_tcp says so
    const bool any_port =
        digits < options_.listen.size() && options_.listen.find_first_not_of('0', digits) == std::string::npos;
    if (!any_port) require_free_port(options_.listen);
    while (queues_.size() < workers_.size()) {
        queues_.emplace_back(net::listen_tcp(options_.listen, shared_port));
        port_ = net::bound_port(queues_.front().get());
        // The others join the port that the first one got, and its number is what is announced.
        options_.listen.replace(digits, std::string::npos, std::to_string(port_));
    }
    address_ = net::bound_address(queues_.front().get());
    share_queues();
    if (!cpus_.empty()) steer();
}

// With fewer workers than queues some workers take from several: a queue that is closed resets who waits in it, and the
// kernel goes on filling each that is open. With more workers some take from the same: the kernel would begin to fill
// another queue with its listen(2), at a time when all that is ours may still come to nothing (I1).
void supervisor::share_queues() {
    for (std::size_t i = 0; i < std::max(workers_.size(), queues_.size()); ++i)
        workers_[i % workers_.size()].listeners.push_back(queues_[i % queues_.size()].get());
    for (std::size_t i = 0; i < cpus_.size(); ++i) {
        const int queue = queues_[i % queues_.size()].get();  // as steer() has it
        for (worker& each : workers_)
            if (std::ranges::find(each.listeners, queue) != each.listeners.end())
                each.cpus.push_back(static_cast<int>(cpus_[i]));
    }
}

void supervisor::choose_cpus() {
    if (!options_.steers_by_cpu()) return;
    cpu_set_t usable;
    if (::sched_getaffinity(0, sizeof usable, &usable) != 0)
        memory::throw_errno(errno, "--steer cpu", "sched_getaffinity");
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &usable)) cpus_.push_back(cpu);
    if (options_.workers > cpus_.size())
        throw error(errc::invalid_argument, "--steer cpu",
                    std::to_string(options_.workers) + " workers for " + std::to_string(cpus_.size()) +
                        " CPUs: some would never get a connection; give --workers " + std::to_string(cpus_.size()) +
                        ", or less");
}

// The order of the group is that in which its queues began to listen: ours, since they are made, handed over and taken
// in that order, and none is closed (I1).
void supervisor::steer() const {
    if (cpus_.empty())
        net::steer_by_flow(queues_.front().get());
    else
        net::steer_by_cpu(queues_.front().get(), queues_.size(), cpus_);
}

void supervisor::take_listeners() {
    caller found = ask_to_take_over(address_);
    // Another one, started by hand with its own arguments, has been faster: ours are older.
    if (started_by_ != 0 && found.process != started_by_)
        throw error(errc::already_exists, address_,
                    "process " + std::to_string(found.process) + " serves there by now, not " +
                        std::to_string(started_by_) +
                        ", which started this one to succeed it; send that one SIGUSR2, or use --take-over");
    predecessor_ = std::move(found.link);
    predecessor_pid_ = found.process;
    owner_ = false;
    net::listener_parcel parcel = net::receive_listeners(predecessor_.fd());
    for (const int fd : parcel.take()) {
        memory::descriptor listener(fd);
        const std::string where = net::bound_address(fd);
        if (is_door(fd))
            door_ = std::move(listener);
        else if (where == address_)
            queues_.push_back(std::move(listener));
        else if (!options_.unix_path.empty() && where == options_.unix_path)
            unix_listener_ = std::move(listener);
        // Else: a unix socket that is not to be served any more. Its owner drains it.
    }
    if (queues_.empty())
        throw error(errc::not_found, address_,
                    "the server there handed over no listener; stop it, then start this one");
    unix_taken_ = static_cast<bool>(unix_listener_);
    share_queues();
    options_.listen = address_;
    port_ = net::bound_port(queues_.front().get());
}

// Anybody may connect: what a client may see and do is asked of each segment, and who is to be kept out altogether is
// kept out of the folder. One queue and one worker that takes from it: a second one would only be woken in vain.
void supervisor::make_unix_listener() {
    if (options_.unix_path.empty() || unix_listener_) return;
    const mode_t before = ::umask(0);  // it would take rights from the mode; there is one thread here
    try {
        unix_listener_ = memory::descriptor(listen_soon([&] { return net::listen_unix(options_.unix_path, 0666); }));
    } catch (...) {
        ::umask(before);
        throw;
    }
    ::umask(before);
    remember_unix_file();
}

void supervisor::remember_unix_file() {
    struct stat status{};
    if (unix_listener_ && ::lstat(options_.unix_path.c_str(), &status) == 0) unix_inode_ = status.st_ino;
}

// While the listener is open nobody else takes the name (net::listen_unix), so it is ours unless somebody removed it.
void supervisor::remove_unix_path() const {
    struct stat status{};
    if (unix_listener_ && unix_inode_ != 0 && ::lstat(options_.unix_path.c_str(), &status) == 0 &&
        status.st_ino == unix_inode_)
        ::unlink(options_.unix_path.c_str());
}

void supervisor::make_door() {
    if (door_) return;
    try {
        door_ = open_door(address_);
    } catch (const error& e) {  // serving goes on without
        std::fprintf(stderr, "holdfast serve: %s; no successor can take over from this server\n", e.what());
    }
}

}  // namespace holdfast::serve
