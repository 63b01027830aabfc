// SPDX-License-Identifier: Apache-2.0
// client_pool.cpp - origins: who waits for a connection, and which there are. How they are made: client_connect.cpp.
//
// What is looked for, in this order: an idle connection, the last used first; room for a new one, for which an idle one
// is given up if need be; the addresses of the name. Waiting requests of an origin are served in order, origins in
// turn.
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

// The family of the first, which is thought the best, begins: one whose packets get lost hides the other for one
// address_delay alone, however many addresses it has.
std::vector<socket_address> families_in_turn(const std::vector<socket_address>& found) {
    std::vector<socket_address> one, other;
    for (const socket_address& each : found)
        (each.storage.ss_family == found.front().storage.ss_family ? one : other).push_back(each);
    std::vector<socket_address> made;
    for (std::size_t i = 0; i < std::max(one.size(), other.size()); ++i) {
        if (i < one.size()) made.push_back(one[i]);
        if (i < other.size()) made.push_back(other[i]);
    }
    return made;
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
    client_origin& o = *x.origin;
    o.waiting.erase(std::find(o.waiting.begin(), o.waiting.end(), &x));
    --waiting_;
    // Behind names that hang there may be many that everybody has given up by the time it is their turn.
    if (o.ticket != 0 && o.waiting.empty() && resolver_->drop(o.ticket)) end_look_up(o);
}

void client_core::dispatch() {
    dispatch_due_ = false;
    // Who is told of a failure may ask anew, this origin or another. Those behind the ones of now wait for the next
    // round of settle(), and then for the next turn: else who fails at once would keep the loop for ever.
    std::size_t origins = crowded_.size();
    for (auto at = crowded_.begin(); origins != 0; --origins) {
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
    for (std::size_t left = o.waiting.size(); left != 0 && !o.waiting.empty(); --left) {
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
    if (o.ticket == 0 && looking_up_ >= options_.limits.look_ups_max) {
        if (o.connections != 0) return;  // one of these will be free
        return fail_waiting(o, client_error::overloaded, o.host + ": too many names are being looked up");
    }
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
        ++looking_up_;
    } catch (const std::exception& lack) {
        fail_waiting(o, client_error::overloaded, std::string("no thread to look a name up: ") + lack.what());
    }
}

void client_core::take_addresses(std::uint64_t ticket, const std::string& key, const resolved_name& found) {
    const auto at = origins_.find(key);
    if (at == origins_.end() || at->second->ticket != ticket) return;
    client_origin& o = *at->second;
    end_look_up(o);
    if (found.addresses.empty()) return fail_waiting(o, client_error::not_resolved, o.host + ": " + found.why);
    o.addresses = families_in_turn(found.addresses);
    o.addresses_ms = now_ms_ + static_cast<std::uint64_t>(options_.limits.name_kept.count());
    dispatch_due_ = true;
}

void client_core::end_look_up(client_origin& o) noexcept {
    o.ticket = 0;
    --looking_up_;
}

void client_core::fail_waiting(client_origin& o, client_error error, const std::string& detail) {
    std::vector<std::uint64_t> numbers;  // callbacks may start and end others
    for (const client_exchange* const w : o.waiting) numbers.push_back(w->number);
    for (const std::uint64_t number : numbers)
        if (client_exchange* const w = find({number})) end_exchange(*w, error, detail);
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
    tell_epoll(c, c.fd.get(), operation, events);
}

void client_core::tell_epoll(const client_connection& c, int fd, int operation, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = (std::uint64_t{c.generation} << 32U) | c.place;
    // What the kernel refuses here, for lack of memory, ends by its time-out.
    (void)::epoll_ctl(epoll_.get(), operation, fd, &event);
}

}  // namespace holdfast::net
