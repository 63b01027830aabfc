// SPDX-License-Identifier: Apache-2.0
// client_pool.cpp - origins: who waits for a connection, which there are, and how they are made.
//
// What is looked for, in this order: an idle connection, the last used first; room for a new one, for which an idle one
// is given up if need be; the addresses of the name. Waiting requests of an origin are served in order, origins in
// turn.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "client_core.hpp"
#include "holdfast/error.hpp"

namespace holdfast::net {

namespace {

constexpr std::size_t origins_kept = 64;           // swept for empty ones beyond this
constexpr std::size_t spare_buffer_bytes = 16384;  // that an idle connection may keep

socket_address unix_address(const std::string& path) {
    socket_address made;
    auto& where = reinterpret_cast<sockaddr_un&>(made.storage);
    where.sun_family = AF_UNIX;
    std::memcpy(where.sun_path, path.data(), std::min(path.size(), sizeof where.sun_path - 1));
    made.size = sizeof where;
    return made;
}

void set_port(socket_address& where, std::uint16_t port) {
    if (where.storage.ss_family == AF_INET)
        reinterpret_cast<sockaddr_in&>(where.storage).sin_port = htons(port);
    else if (where.storage.ss_family == AF_INET6)
        reinterpret_cast<sockaddr_in6&>(where.storage).sin6_port = htons(port);
}

// Who keeps trying a local port that nobody listens on is in time given that port as its own, and answers itself.
bool leads_to_itself(int socket) noexcept {
    sockaddr_storage here{}, there{};
    socklen_t here_size = sizeof here, there_size = sizeof there;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&here), &here_size) != 0 ||
        ::getpeername(socket, reinterpret_cast<sockaddr*>(&there), &there_size) != 0)
        return false;
    return here.ss_family != AF_UNIX && here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
}

bool is_shortage(int code) noexcept {
    return code == EMFILE || code == ENFILE || code == ENOMEM || code == ENOBUFS || code == ENOSPC;
}

}  // namespace

// The trust of a request is its own, the client's, or the system's. Returns: false where there is none; `wrong` says
// why.
bool client_core::find_trust(client_exchange& x) {
    if (x.asked.tls || options_.tls || system_trust_) return true;
    try {
        system_trust_.emplace();
        return true;
    } catch (const error& lack) {
        x.wrong = lack.what();
        x.wrong_error = lack.reason() == errc::unsupported ? client_error::invalid_request : client_error::tls_failed;
        return false;
    }
}

client_origin& client_core::origin_of(const client_exchange& x) {
    const bool secure = x.url.scheme == "https";
    const bool by_path = !x.asked.unix_socket.empty();
    std::string label = by_path ? x.url.scheme + " by " + x.asked.unix_socket
                                : x.url.scheme + "://" + x.url.host + " port " + std::to_string(x.url.port);
    const tls_trust* const trust = !secure        ? nullptr
                                   : x.asked.tls  ? &*x.asked.tls
                                   : options_.tls ? &*options_.tls
                                                  : &*system_trust_;
    std::string key = label;
    // The host that a certificate has to be for is part of it also where a path leads there. A line break stands in no
    // host, and in front of the last one everything is the path.
    if (trust != nullptr) key += "\n" + x.url.host + " trust " + std::to_string(trust->number_);
    auto& place = origins_[key];
    if (place == nullptr) {
        place = std::make_unique<client_origin>();
        place->key = std::move(key);
        place->label = std::move(label);
        if (trust != nullptr) {
            place->trust = *trust;
            place->memory = tls_session::remember();
        }
        place->host = x.url.host;
        place->port = x.url.port;
        place->unix_socket = x.asked.unix_socket;
        if (!place->unix_socket.empty())
            place->addresses = {unix_address(place->unix_socket)};
        else
            place->addresses = client_resolver::literal(place->host);
        place->addresses_ms = place->addresses.empty() ? 0 : UINT64_MAX;
    }
    return *place;
}

void client_core::queue(client_exchange& x, bool in_front) {
    client_origin& o = *x.origin;
    x.stage = client_stage::waiting;
    set_phase(x, std::chrono::milliseconds{0}, client_error::none);
    if (in_front)
        o.waiting.push_front(&x);
    else
        o.waiting.push_back(&x);
    x.queued = true;
    ++waiting_;
    if (!std::exchange(o.crowded, true)) crowded_.push_back(&o);
    dispatch_due_ = true;
    wake();
}

void client_core::leave_queue(client_exchange& x) {
    if (!std::exchange(x.queued, false)) return;
    auto& waiting = x.origin->waiting;
    waiting.erase(std::find(waiting.begin(), waiting.end(), &x));
    --waiting_;
}

void client_core::dispatch() {
    dispatch_due_ = false;
    for (auto at = crowded_.begin(); at != crowded_.end();) {
        client_origin& o = **at;
        dispatch(o);
        if (o.waiting.empty()) {
            o.crowded = false;
            at = crowded_.erase(at);
        } else {
            ++at;
        }
    }
    if (crowded_.size() > 1) crowded_.splice(crowded_.end(), crowded_, crowded_.begin());
    if (origins_.size() < sweep_at_) return;
    std::erase_if(origins_, [](const auto& entry) {
        const client_origin& o = *entry.second;
        return o.connections == 0 && o.waiting.empty() && o.ticket == 0 && !o.crowded;
    });
    sweep_at_ = std::max(origins_kept, origins_.size() * 2);
}

void client_core::dispatch(client_origin& o) {
    while (!o.waiting.empty()) {
        client_exchange& x = *o.waiting.front();
        if (client_connection* const kept = x.fresh ? nullptr : take_idle(o)) {
            leave_queue(x);
            carry(*kept, x);
            continue;
        }
        const bool known = !o.addresses.empty() && now_ms_ < o.addresses_ms;
        if (known ? !have_room(o) : !may_have_room(o)) {
            if (!std::exchange(o.looked_up, false)) return;
            for (client_exchange* const w : o.waiting)
                if (std::exchange(w->stage, client_stage::waiting) != client_stage::waiting)
                    set_phase(*w, std::chrono::milliseconds{0}, client_error::none);
            return;
        }
        if (!known) return look_up(o);
        leave_queue(x);
        connect(x);
    }
}

client_connection* client_core::take_idle(client_origin& o) {
    while (!o.idle.empty()) {
        client_connection& c = *o.idle.back();
        // What has come unasked, or ended, since epoll was last asked.
        if (!c.transport->is_quiet()) {
            give_up(c);
            continue;
        }
        o.idle.pop_back();
        idle_.erase(c.idle_at);
        connection_wheel_.disarm(c.place);
        return &c;
    }
    return nullptr;
}

bool client_core::may_have_room(const client_origin& o) const noexcept {
    const bool of_its_own = o.connections < options_.limits.connections_per_origin_max || !o.idle.empty();
    return of_its_own && (counters_.open < options_.limits.connections_max || !idle_.empty());
}

bool client_core::have_room(client_origin& o) {
    if (!may_have_room(o)) return false;
    if (o.connections >= options_.limits.connections_per_origin_max) close(*o.idle.front());
    if (counters_.open >= options_.limits.connections_max) close(*idle_.front());
    return true;
}

void client_core::look_up(client_origin& o) {
    o.looked_up = true;
    for (client_exchange* const w : o.waiting)
        if (std::exchange(w->stage, client_stage::resolving) == client_stage::waiting)
            set_phase(*w, wait_of(*w, &client_timeouts::connect), client_error::connect_timeout);
    if (o.ticket != 0) return;
    const std::uint64_t ticket = ++tickets_;
    try {
        if (!resolver_)
            resolver_ = std::make_unique<client_resolver>(
                options_.resolve,
                [this, inbox = inbox_](std::uint64_t asked, const std::string& key, resolved_name found) {
                    // Runs on a helper thread: `this` is only carried to the loop, which is there when tasks run.
                    auto shared = std::make_shared<resolved_name>(std::move(found));
                    inbox->post([this, asked, shared, key] { take_addresses(asked, key, *shared); });
                });
        resolver_->ask(ticket, o.key, o.host);
        o.ticket = ticket;
    } catch (const std::exception& lack) {
        fail_waiting(o, client_error::overloaded, std::string("no thread to look a name up: ") + lack.what());
    }
}

void client_core::take_addresses(std::uint64_t ticket, const std::string& key, const resolved_name& found) {
    const auto at = origins_.find(key);
    if (at == origins_.end() || at->second->ticket != ticket) return;
    client_origin& o = *at->second;
    o.ticket = 0;
    if (found.addresses.empty()) return fail_waiting(o, client_error::not_resolved, o.host + ": " + found.why);
    o.addresses = found.addresses;
    o.addresses_ms = now_ms_ + static_cast<std::uint64_t>(options_.limits.name_kept.count());
    dispatch_due_ = true;
}

void client_core::fail_waiting(client_origin& o, client_error error, const std::string& detail) {
    std::vector<std::uint64_t> numbers;  // callbacks may start and end others
    for (const client_exchange* const w : o.waiting) numbers.push_back(w->number);
    for (const std::uint64_t number : numbers)
        if (client_exchange* const w = find({number})) end_exchange(*w, error, detail);
}

void client_core::connect(client_exchange& x) {
    if (free_connections_.empty()) {
        const auto place = static_cast<std::uint32_t>(connections_.size());
        connections_.emplace_back();
        generations_.push_back(0);
        connection_wheel_.grow(connections_.size());
        free_connections_.push_back(place);
    }
    const std::uint32_t place = free_connections_.back();
    free_connections_.pop_back();
    connections_[place] = std::make_unique<client_connection>(options_.limits.answer);
    client_connection& c = *connections_[place];
    c.place = place;
    c.generation = generations_[place];
    c.origin = x.origin;
    c.carries = &x;
    ++c.origin->connections;
    ++counters_.open;
    x.on = &c;
    if (std::exchange(x.stage, client_stage::connecting) == client_stage::waiting)
        set_phase(x, wait_of(x, &client_timeouts::connect), client_error::connect_timeout);
    connect_next(c);
}

// The next address of those left. A part of the time that is left is each one's, so that one that is silent does not
// hide the others.
void client_core::connect_next(client_connection& c) {
    while (c.next_address < c.origin->addresses.size()) {
        const std::size_t left = c.origin->addresses.size() - c.next_address;
        const socket_address where = c.origin->addresses[c.next_address++];
        const int code = try_address(c, where);
        if (code == 0) return begin_transport(c);
        if (code == EINPROGRESS) {
            const std::uint64_t until_ms = c.carries->phase_ms;
            if (left > 1 && until_ms > now_ms_)
                connection_wheel_.arm(c.place, now_ms_ + (until_ms - now_ms_) / left);
            else
                connection_wheel_.disarm(c.place);
            return watch(c, EPOLLOUT);
        }
        c.last_error = code;
        if (is_shortage(code)) break;
    }
    end_connecting(c, c.last_error);
}

int client_core::try_address(client_connection& c, const socket_address& where) {
    socket_address to = where;
    set_port(to, c.origin->port);
    c.events = 0;  // closing the socket before takes it from epoll
    c.fd.reset(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!c.fd) return errno;
    if (to.storage.ss_family != AF_UNIX) {
        const int on = 1;
        (void)::setsockopt(c.fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    const int result = ::connect(c.fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.size);
    return result == 0 ? 0 : errno;
}

void client_core::handle_connecting(client_connection& c, std::uint32_t events) {
    int code = 0;
    socklen_t size = sizeof code;
    (void)::getsockopt(c.fd.get(), SOL_SOCKET, SO_ERROR, &code, &size);
    if (code == 0 && (events & EPOLLOUT) == 0) return;
    if (code == 0 && leads_to_itself(c.fd.get())) code = ECONNREFUSED;
    if (code == 0) return begin_transport(c);
    c.last_error = code;
    connect_next(c);
}

void client_core::expire_connection(std::uint32_t place) {
    client_connection* const c = connections_[place].get();
    if (c == nullptr) return;
    if (c->at == step::idle) return close(*c);
    if (c->at != step::connecting) return;
    c->last_error = ETIMEDOUT;
    connect_next(*c);
}

void client_core::end_connecting(client_connection& c, int code) {
    client_exchange& x = *c.carries;
    const client_error error = is_shortage(code) ? client_error::overloaded : client_error::not_connected;
    const client_origin& o = *c.origin;
    end_exchange(x, error, (o.unix_socket.empty() ? o.label : o.unix_socket) + ": " + std::strerror(code));
}

void client_core::end_securing(client_connection& c, int code) {
    const client_error error = code == tls_distrusted ? client_error::not_trusted
                               : is_shortage(code)    ? client_error::overloaded
                                                      : client_error::tls_failed;
    if (error != client_error::overloaded) ++counters_.tls_failures;
    std::string why = c.transport != nullptr ? c.transport->reason() : std::string();
    if (why.empty()) why = std::string(std::strerror(code)) + ", in the handshake of TLS";
    end_exchange(*c.carries, error, c.origin->label + ": " + why);
}

void client_core::begin_transport(client_connection& c) {
    if (c.at == step::connecting) {
        connection_wheel_.disarm(c.place);
        c.at = step::beginning;
        ++counters_.connected;
        if (c.origin->trust) {
            c.carries->stage = client_stage::securing;
            auto session = tls_session::connect(*c.origin->trust, c.origin->host, c.origin->memory);
            if (session == nullptr) return end_securing(c, ENOMEM);
            c.transport = make_tls_transport(c.fd.get(), std::move(session));
        } else {
            c.transport = make_plain_transport(c.fd.get());
        }
    }
    const int code = c.transport->begin();
    if (code == EAGAIN) return watch(c, c.transport->wants() != 0 ? c.transport->wants() : EPOLLIN);
    if (code != 0) return end_securing(c, code);
    if (c.origin->trust) {
        ++counters_.tls_handshakes;
        if (c.transport->resumed()) ++counters_.tls_resumed;
    }
    carry(c, *c.carries);
}

void client_core::carry(client_connection& c, client_exchange& x) {
    c.at = step::busy;
    c.carries = &x;
    c.blocked = false;
    const std::size_t body_bytes_max =
        x.asked.body_bytes_max != 0 ? x.asked.body_bytes_max : options_.limits.answer.body_bytes_max;
    c.reader.limit_body(body_bytes_max);
    x.on = &c;
    x.reused = c.served;
    ++x.attempts;
    if (c.served) ++counters_.reused;
    x.stage = client_stage::sending;
    renew_phase(x);
    if (!send(c)) return;
    watch_busy(c);
    if (c.transport->holds_input()) touch(x);  // came with the end of a handshake: epoll does not know of it
}

void client_core::keep(client_connection& c) {
    c.at = step::idle;
    c.served = true;
    if (c.reader.buffer().capacity() > spare_buffer_bytes) c.reader.buffer().shrink_to_fit();
    c.origin->idle.push_back(&c);
    c.idle_at = idle_.insert(idle_.end(), &c);
    connection_wheel_.arm(c.place, now_ms_ + static_cast<std::uint64_t>(options_.limits.idle.count()));
    watch(c, EPOLLIN);
}

// Something has come on a connection that nobody asks anything on: its end, or bytes that are no answer.
void client_core::give_up(client_connection& c) {
    char byte = 0;
    const bool bytes = c.transport->receive({&byte, 1}).bytes != 0;
    ++(bytes ? counters_.unasked_bytes : counters_.closed_idle);
    close(c);
}

void client_core::close(client_connection& c) {
    if (c.at == step::idle) {
        idle_.erase(c.idle_at);
        std::erase(c.origin->idle, &c);
    }
    if (c.carries != nullptr) c.carries->on = nullptr;
    connection_wheel_.disarm(c.place);
    --c.origin->connections;
    --counters_.open;
    dispatch_due_ = true;
    const std::uint32_t place = c.place;
    ++generations_[place];
    free_connections_.push_back(place);
    connections_[place].reset();
}

void client_core::watch(client_connection& c, std::uint32_t events) {
    if (c.events == events) return;
    const int operation = c.events == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    c.events = events;
    epoll_event event{};
    event.events = events;
    event.data.u64 = (std::uint64_t{c.generation} << 32U) | c.place;
    // What the kernel refuses here, for lack of memory, ends by its time-out.
    (void)::epoll_ctl(epoll_.get(), operation, c.fd.get(), &event);
}

}  // namespace holdfast::net
