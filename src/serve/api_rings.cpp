// SPDX-License-Identifier: Apache-2.0
#include "serve/api_rings.hpp"

#include <time.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "holdfast/net/websocket_handshake.hpp"
#include "holdfast/record/time_text.hpp"
#include "inspect/json_out.hpp"
#include "serve/accept.hpp"
#include "serve/answering.hpp"
#include "serve/failure.hpp"
#include "serve/host_check.hpp"

namespace holdfast::serve {

namespace {

using namespace std::chrono_literals;
using inspect::json_out;

constexpr unsigned pause_ms_max = 8;              // between two looks at a ring where nothing happens
constexpr unsigned ticks_between_comments = 300;  // of refresh(), 15 s
constexpr unsigned last_turns_max = 16;           // of a ring that was replaced
constexpr std::size_t cursor_digits = 8;          // of a ring's identity

std::uint64_t monotonic_ns() noexcept {
    struct timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

std::optional<std::uint64_t> number_in(std::string_view text) noexcept {
    std::uint64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// "1a2b3c4d-7": a ring, and a number.
std::optional<std::pair<std::string, std::uint64_t>> cursor_in(std::string_view text) {
    if (text.size() < cursor_digits + 2 || text[cursor_digits] != '-') return std::nullopt;
    const std::string_view ring = text.substr(0, cursor_digits);
    const auto number = number_in(text.substr(cursor_digits + 1));
    if (!number || ring.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
    return std::pair{std::string(ring), *number};
}

std::string page_body(const ring_source& ring, const ring_page& page, bool replaced) {
    std::string text;
    json_out json(text);
    json.begin_object().member("ring", ring.identity());
    if (replaced) json.member("replaced", true);
    if (page.older_gone) json.member("older_gone", true);
    json.member("lost", page.lost).key("messages").begin_array();
    for (std::size_t i = 0; i < page.messages.items.size(); ++i)
        if (!page.messages.items[i].loss) json.raw(page.messages.json(i));
    json.end_array().member("next", ring_id(ring, page.next)).end_object();
    return text;
}

class channel_outlet final : public ring_outlet {
 public:
    channel_outlet(net::channel to, ring_form form) : to_(std::move(to)), form_(form) {}

    [[nodiscard]] std::size_t queued_bytes() const override { return to_.queued_bytes(); }
    // There is room for what a hub sends (ring_hub I4), so it is taken, or the channel has ended.
    bool send(const net::shared_bytes& text) override { return to_.send(text) == net::channel_status::ok; }
    void close(ring_end why) override {
        if (why == ring_end::moved) return send_away();
        const bool gone = why == ring_end::not_served;
        const std::string_view reason = gone ? "no such segment is served" : "the segment is damaged";
        std::string text;
        json_out(text).begin_object().member("event", "ended").member("reason", reason).end_object();
        if (form_ == ring_form::events) {
            to_.send("event: ended\ndata: " + text + "\n\n");
            to_.close();
        } else {
            to_.send(text);
            to_.close(gone ? 4404 : 4500, reason);
        }
    }

 private:
    // No message of its own: what comes next is told by the successor. Browsers wait for seconds unless they are told,
    // and all at once unless they are told different times.
    void send_away() {
        static unsigned sent = 0;
        if (form_ == ring_form::events) {
            to_.send("retry: " + std::to_string(50 + sent++ % 20 * 25) + "\n\n");
            to_.close();
        } else {
            to_.close(net::websocket_code::service_restart, "the server is replaced; connect again");
        }
    }

    net::channel to_;
    ring_form form_;
};

ring_note replaced_note(const ring_source& by) {
    ring_note note{"replaced", ring_id(by, 0), {}};
    json_out(note.json).begin_object().member("event", "replaced").member("ring", by.identity()).end_object();
    return note;
}

}  // namespace

ring_start ring_start::parse(std::string_view text) {
    if (text == "oldest") return {broadcast_start::oldest()};
    if (text == "latest") return {broadcast_start::latest()};
    if (const auto number = number_in(text)) return {broadcast_start::sequence(*number)};
    if (auto cursor = cursor_in(text)) return {broadcast_start::sequence(cursor->second), std::move(cursor->first)};
    timestamp time{};
    if (!parse_timestamp(text, time))
        return {broadcast_start::time(time.ns > 0 ? static_cast<std::uint64_t>(time.ns) : 0)};
    throw failure{400,
                  "from is oldest, latest, the number of a message, what a page told as next, or a time such as "
                  "2026-11-21T08:43:53Z"};
}

ring_start ring_start::behind(std::string_view event_id) {
    auto told = cursor_in(event_id);
    if (!told) throw failure{400, "Last-Event-ID is not the id of an event of this server; leave it out"};
    const std::uint64_t next = told->second == ~std::uint64_t{0} ? told->second : told->second + 1;
    return {broadcast_start::sequence(next), std::move(told->first)};
}

ring_routes::ring_routes(catalog& segments, bool tls, std::function<void(route, int)> counted)
    : segments_(segments), tls_(tls), counted_(std::move(counted)) {}

std::uint64_t ring_routes::subscribers() const noexcept {
    std::uint64_t count = 0;
    for (const followed_ring& each : rings_) count += each->hub.subscribers().size();
    return count;
}

int ring_routes::get(const asked& it, const std::string& segment) {
    if (it.from.method() == net::method::get && net::asks_for_websocket(it.from)) {
        it.which = route::ring_socket;
        return subscribe(it, segment, ring_form::frames);
    }
    if (asks_for_events(it.from.header("Accept").value_or(""))) {
        it.which = route::ring_events;
        return subscribe(it, segment, ring_form::events);
    }
    it.which = route::ring_read;
    return get_page(it, segment);
}

// --- pages

int ring_routes::get_page(const asked& it, const std::string& segment) {
    check_parameters(it.query, {"from", "limit", "wait"});
    const ring_start from = ring_start::parse(it.query.get("from").value_or("oldest"));
    const std::uint64_t limit = number_of(it.query, "limit", page_default);
    const std::uint64_t wait_s = number_of(it.query, "wait", 0);
    if (limit == 0 || limit > page_max) throw failure{400, "limit lies between 1 and " + std::to_string(page_max)};
    if (wait_s > wait_s_max) throw failure{400, "wait is seconds, " + std::to_string(wait_s_max) + " at most"};
    ring_source& ring = segments_.ring(segment, it.who);
    const ring_page page = ring.page(from.in(ring), static_cast<std::size_t>(limit));
    check_lookup(page.status, segment);
    const bool news = !page.messages.items.empty() || page.lost != 0 || page.older_gone || from.is_of_other(ring);
    if (!news && wait_s != 0 && !draining_ && it.from.method() == net::method::get)
        return wait_for_page(it, ring, page.next, static_cast<std::size_t>(limit), wait_s);
    answer_json(it.to, page_body(ring, page, from.is_of_other(ring)));
    return it.to.status();
}

int ring_routes::wait_for_page(const asked& it, ring_source& ring, std::uint64_t next, std::size_t limit,
                               std::uint64_t wait_s) {
    const followed_ring into = hub_of(ring);
    ring_waiter waiter;
    waiter.next = next;
    waiter.deadline_ns = monotonic_ns() + wait_s * 1'000'000'000;
    const auto gone = std::make_shared<bool>(false);
    waiter.gone = gone;
    const net::channel to = it.to.defer({.answer_timeout = std::chrono::seconds(wait_s + 30),
                                         .on_close = [gone](net::channel_end /*why*/) { *gone = true; }});
    waiter.answer = [this, to, limit, who = kept(it.who), name = catalog::name_of(ring.memory().uri()),
                     from = ring_start{broadcast_start::sequence(next), ring.identity()}] {
        net::response late;
        answer_or_refuse(late, [&] { answer_late(late, name, viewer_of(who), from, limit); });
        late.route(static_cast<int>(route::ring_read));
        counted_(route::ring_read, late.status());
        to.answer(std::move(late));
    };
    into->hub.wait(std::move(waiter));
    schedule(into, 1);
    return 0;
}

// By the name: rights, and which ring it leads to, may have changed since it was asked for.
void ring_routes::answer_late(net::response& late, const std::string& name, const viewer& who, const ring_start& from,
                              std::size_t limit) {
    ring_source& ring = segments_.ring(name, who);
    const bool plain = common_ && !from.is_of_other(ring);  // which is then the ring of this turn
    if (plain && common_->next == from.start.value && common_->limit == limit)
        return answer_json(late, std::string(common_->body));
    const ring_page page = ring.page(from.in(ring), limit);
    check_lookup(page.status, name);
    std::string body = page_body(ring, page, from.is_of_other(ring));
    if (plain) *common_ = {.next = from.start.value, .limit = limit, .body = body};
    answer_json(late, std::move(body));
}

// --- subscriptions

net::channel ring_routes::open(const asked& it, ring_form form, net::channel_options options) {
    if (form == ring_form::events) {
        it.to.header("Content-Type", "text/event-stream");
        it.to.header("Cache-Control", "no-store");
        it.to.header("X-Accel-Buffering", "no");  // nginx would keep events back
        return it.to.stream(std::move(options));
    }
    options.on_receive = [](const net::channel& from, net::received_message /*message*/) {
        from.close(net::websocket_code::unsupported_data, "this side only tells; publish by POST");
    };
    constexpr std::size_t said_bytes_max = 4096;
    return it.to.websocket(it.from, std::move(options),
                           {.limits = {.frame_bytes_max = said_bytes_max, .message_bytes_max = said_bytes_max}});
}

int ring_routes::subscribe(const asked& it, const std::string& segment, ring_form form) {
    check_parameters(it.query, {"from"});
    const auto came_back = form == ring_form::events ? it.from.header("Last-Event-ID") : std::nullopt;
    const ring_start from = came_back && !came_back->empty()
                                ? ring_start::behind(*came_back)
                                : ring_start::parse(it.query.get("from").value_or("latest"));
    // Browsers let any page open a WebSocket, and show it what comes; events they show to no foreign page.
    if (form == ring_form::frames && !is_of_own_page(it.from, tls_))
        throw failure{403, "a page of another site may not follow this; only the server's own pages may"};
    ring_source& ring = segments_.ring(segment, it.who);
    const auto who = std::make_shared<ring_subscriber>();
    who->form = form;
    who->who = kept(it.who);
    who->gone = true;  // until it has its channel
    const followed_ring into = hub_of(ring);
    std::vector<ring_note> opening;
    if (from.is_of_other(ring)) opening.push_back(replaced_note(ring));
    into->hub.add(who, from.in(ring), std::move(opening));
    const net::channel to = open(it, form,
                                 {.queue_bytes_max = ring_hub::queue_bytes_max,
                                  .on_close = [weak = std::weak_ptr(who)](net::channel_end /*why*/) {
                                      if (const auto left = weak.lock()) left->gone = true;
                                  }});
    if (!to.is_open()) return it.to.status();
    who->out = std::make_unique<channel_outlet>(to, form);
    who->gone = false;
    into->hub.greet(*who);
    schedule(into, 1);
    return form == ring_form::frames ? 101 : it.to.status();
}

// --- hubs

ring_routes::followed_ring ring_routes::hub_of(ring_source& ring) {
    const auto at = std::ranges::find_if(rings_, [&](const auto& each) { return each->hub.source().get() == &ring; });
    if (at != rings_.end()) return *at;
    return rings_.emplace_back(std::make_shared<followed>(ring.shared_from_this(), counts_));
}

void ring_routes::schedule(const followed_ring& ring, unsigned pause_ms) {
    if (loop_ == nullptr || std::exchange(ring->scheduled, true)) return;
    const auto turn = [this, weak = std::weak_ptr(ring)] {
        if (const followed_ring alive = weak.lock()) run(alive);
    };
    if (pause_ms == 0)
        loop_->post(turn);
    else
        loop_->after(std::chrono::milliseconds(pause_ms), turn);
}

void ring_routes::run(const followed_ring& ring) {
    ring->scheduled = false;
    common_ = common_page();
    ring_hub::pace next = ring_hub::pace::idle;
    try {
        next = ring->hub.turn();
    } catch (const std::exception&) {  // no memory: nobody was told wrongly, and the next turn goes on
    }
    common_.reset();
    if (ring->hub.empty()) return;  // refresh() lets go of it
    switch (next) {
        case ring_hub::pace::at_once: ring->pause_ms = 0; break;
        case ring_hub::pace::soon: ring->pause_ms = 1; break;
        case ring_hub::pace::idle: ring->pause_ms = std::clamp(ring->pause_ms * 2, 1U, pause_ms_max); break;
    }
    schedule(ring, ring->pause_ms);
}

void ring_routes::check_rights(followed& ring) const {
    segment_rights now = segment_rights::of(ring.hub.source()->memory().name());
    if (now == ring.rights) return;
    ring.rights = std::move(now);
    for (const auto& each : ring.hub.subscribers())
        if (!segments_.may_show(ring.rights, viewer_of(each->who))) ring_hub::end(*each, ring_end::not_served);
    ring.hub.release_waiters();  // who may not see it any more is told so; the others ask again
}

// What is left of the old one is told first, as far as connections take it.
void ring_routes::follow_replacement(const followed_ring& old) {
    for (unsigned i = 0; i < last_turns_max && old->hub.turn() == ring_hub::pace::at_once; ++i) {
    }
    old->hub.release_waiters();
    const std::string name = catalog::name_of(old->hub.source()->memory().uri());
    for (const auto& each : old->hub.take_subscribers()) {
        try {
            ring_source& ring = segments_.ring(name, viewer_of(each->who));
            if (&ring == old->hub.source().get()) {  // it was replaced since the catalog looked
                old->hub.put_back(each);
                continue;
            }
            const followed_ring into = hub_of(ring);
            into->hub.add(each, broadcast_start::oldest(), {replaced_note(ring)});
            schedule(into, 1);
        } catch (const failure& e) {
            if (e.status == 503)  // outrun by its writer; or cut off, which the next attaching tells
                old->hub.put_back(each);
            else
                ring_hub::end(*each, ring_end::damaged);
        } catch (const error& e) {
            if (e.reason() == errc::contended || e.reason() == errc::io || e.reason() == errc::not_ready)
                old->hub.put_back(each);  // nobody can tell for now
            else
                ring_hub::end(*each, e.reason() == errc::truncated ? ring_end::damaged : ring_end::not_served);
        }
    }
}

void ring_routes::refresh() {
    const bool comments = ++ticks_ % ticks_between_comments == 0;
    const std::uint64_t now = monotonic_ns();
    for (const followed_ring& each : std::vector(rings_)) {  // a ring that is followed may come to them
        ring_hub& hub = each->hub;
        hub.sweep();
        hub.expire(now);
        if (hub.empty()) continue;
        if (hub.source()->memory().replaced()) {
            follow_replacement(each);
            continue;
        }
        if (hub.source()->broken())
            hub.end_all(ring_end::damaged);
        else
            check_rights(*each);
        if (comments) hub.comment();
    }
    std::erase_if(rings_, [](const followed_ring& each) { return each->hub.empty(); });
}

void ring_routes::drain(bool successor) {
    draining_ = true;
    for (const followed_ring& each : rings_)
        if (successor)
            each->hub.end_all(ring_end::moved);
        else
            each->hub.release_waiters();
}

}  // namespace holdfast::serve
