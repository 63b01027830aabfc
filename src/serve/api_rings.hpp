// SPDX-License-Identifier: Apache-2.0
// api_rings.hpp - the three ways to follow a broadcast ring: GET /v1/rings/{segment}.
//
//   a page      ?from=&limit=   {"ring":"1a2b3c4d","messages":[...],"lost":0,"next":"1a2b3c4d-8"}; with ?wait=SECONDS
//   it
//                               waits for a message where there is none (long poll)
//   events      Accept: text/event-stream; ?from=, or Last-Event-ID of who comes back
//   WebSocket   Upgrade: websocket; ?from=
// `from` is oldest, latest, a number, a time, or a cursor: what `next` said, or an event's id with its number one up. A
// cursor names the ring it is of, so that who comes back to another ring of that name is told. Without `from` a page
// begins with the oldest message, a subscription with the next to come.
//
// Subscriptions of one ring share a hub (ring_hub.hpp), which lives while there are any and is looked after by timers
// of the loop. A ring that was replaced under its name is followed: who may see the new one is told and goes on there.
// Threads: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/net/request.hpp"
#include "holdfast/net/response.hpp"
#include "holdfast/net/server.hpp"
#include "holdfast/net/uri.hpp"
#include "serve/catalog.hpp"
#include "serve/ring_hub.hpp"
#include "serve/shared_counts.hpp"

namespace holdfast::serve {

/// Where a client wants to begin.
struct ring_start {
    broadcast_start start = broadcast_start::oldest();
    std::string ring{};  ///< the ring that a cursor is of; empty: no cursor

    /// Reads `from`. Throws: failure 400.
    [[nodiscard]] static ring_start parse(std::string_view text);
    /// Reads Last-Event-ID. Throws: failure 400.
    [[nodiscard]] static ring_start behind(std::string_view event_id);
    /// Whether it is a place in another ring.
    [[nodiscard]] bool is_of_other(const ring_source& than) const { return !ring.empty() && ring != than.identity(); }
    /// As a place in this ring: of another one, all of this is new.
    [[nodiscard]] broadcast_start in(const ring_source& of) const {
        return is_of_other(of) ? broadcast_start::oldest() : start;
    }
};

class ring_routes {
 public:
    /// `tls`: whether TCP connections speak TLS. `counted` is told of each answer that comes later than its handler.
    /// `segments` must outlive this.
    ring_routes(catalog& segments, bool tls, std::function<void(route, int)> counted);

    /// Says whose timers to use. Before the first request, and it must outlive the last.
    void run_on(net::server& loop) noexcept { loop_ = &loop; }

    struct asked {
        const net::request& from;
        net::response& to;
        viewer who;
        const net::query_parameters& query;
        route& which;
    };
    /// Answers a GET or HEAD. Returns: the status to be counted; 0: later. Throws: failure, error.
    [[nodiscard]] int get(const asked& it, const std::string& segment);

    /// Call it some times a second, behind catalog::refresh: follows replacements, ends what may not be shown any more.
    void refresh();
    /// Answers all who wait; nobody waits from now on. With `successor`, subscribers are told to come back.
    void drain(bool successor);

    [[nodiscard]] const ring_counts& counts() const noexcept { return counts_; }
    [[nodiscard]] std::uint64_t subscribers() const noexcept;

    static constexpr std::size_t page_default = 100;
    static constexpr std::size_t page_max = 1000;
    static constexpr std::uint64_t wait_s_max = 60;

 private:
    /// A ring that somebody follows.
    struct followed {
        followed(const std::shared_ptr<ring_source>& ring, ring_counts& counts)
            : hub(ring, counts), rights(segment_rights::of(ring->memory().name())) {}
        ring_hub hub;
        segment_rights rights;
        unsigned pause_ms = 1;
        bool scheduled = false;
    };
    using followed_ring = std::shared_ptr<followed>;
    /// A page that several wait for.
    struct common_page {
        std::uint64_t next = 0, limit = 0;
        std::string body;
    };

    [[nodiscard]] int get_page(const asked& it, const std::string& segment);
    [[nodiscard]] int wait_for_page(const asked& it, ring_source& ring, std::uint64_t next, std::size_t limit,
                                    std::uint64_t wait_s);
    void answer_late(net::response& late, const std::string& name, const viewer& who, const ring_start& from,
                     std::size_t limit);
    [[nodiscard]] int subscribe(const asked& it, const std::string& segment, ring_form form);
    [[nodiscard]] net::channel open(const asked& it, ring_form form, net::channel_options options);

    followed_ring hub_of(ring_source& ring);
    void schedule(const followed_ring& ring, unsigned pause_ms);
    void run(const followed_ring& ring);
    void follow_replacement(const followed_ring& old);
    void check_rights(followed& ring) const;

    catalog& segments_;
    bool tls_;
    std::function<void(route, int)> counted_;
    net::server* loop_ = nullptr;
    ring_counts counts_;
    std::vector<followed_ring> rings_;
    std::optional<common_page> common_;  // there during a turn of a hub, so of one ring; limit 0: nobody asked yet
    unsigned ticks_ = 0;
    bool draining_ = false;
};

}  // namespace holdfast::serve
