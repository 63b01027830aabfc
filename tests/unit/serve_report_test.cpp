// SPDX-License-Identifier: Apache-2.0
// What a server tells of itself and of all its segments: to each client of those that it may know of, and while it
// looks at them others are answered.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "holdfast/broadcast/writer.hpp"
#include "holdfast/net/peer.hpp"
#include "serve/api.hpp"
#include "serve/catalog.hpp"
#include "serve/report.hpp"
#include "serve/shared_counts.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;

// The segments of these tests are registered beside nobody else's.
const test::unique_directory registry("registry");
const test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());

/// A segment of this mode in which something was looked up.
class looked_up {
 public:
    looked_up(const counter_set& counters, mode_t mode) {
        (void)broadcast_writer::create(name_.uri(), {.capacity_bytes = 2048});
        ::chmod(name_.path().c_str(), mode);
        serve::lookup_counters counted(counters, serve::catalog::name_of(name_.uri()), "country");
        counted.hit();
        counted.value("US");
    }
    [[nodiscard]] std::string uri() const { return name_.uri(); }
    void remove() const { name_.remove(); }
    /// Whether a client is told of it; the same by each of the routes.
    [[nodiscard]] bool is_told(const serve::shared_counts& counts, const serve::catalog& by, serve::viewer to) const {
        const std::string stats = serve::render_stats(counts, by, to);
        serve::survey seen(by, to);
        while (!seen.go_on(0ns)) {
        }
        const std::string metrics = serve::render_metrics(counts, by, seen, serve::exposition_format::text, to);
        const bool told = stats.find(name_.token()) != std::string::npos;
        EXPECT_EQ(metrics.find("lookups_total{segment=\"" + name_.token()) != std::string::npos, told) << metrics;
        EXPECT_EQ(metrics.find("by_value_total{segment=\"" + name_.token()) != std::string::npos, told) << metrics;
        return told;
    }

 private:
    test::unique_posix_name name_{"looked-up"};
};

TEST(Report, NamesASegmentToWhoMayKnowOfIt) {
    const test::unique_posix_name name("counts");
    const auto counts = serve::shared_counts::open_or_create(name.uri(), 1);
    const looked_up open(counts.counters, 0644), mine(counts.counters, 0600), gone(counts.counters, 0644);
    gone.remove();
    net::peer owner, other;
    owner.way = other.way = net::peer_way::unix_socket;
    owner.user = ::geteuid();
    other.user = other.group = 70001;
    const serve::viewer stranger, me{&owner}, another{&other};
    using told = std::vector<bool>;
    const auto of_each = [&](const serve::catalog& by, serve::viewer to) {
        return told{open.is_told(counts, by, to), mine.is_told(counts, by, to), gone.is_told(counts, by, to)};
    };
    const serve::catalog readable({}), whatever({}, true), named({mine.uri()});
    EXPECT_EQ(of_each(readable, stranger), (told{true, false, false}));
    EXPECT_EQ(of_each(readable, another), (told{true, false, false}));
    EXPECT_EQ(of_each(readable, me), (told{true, true, false}));
    EXPECT_EQ(of_each(whatever, stranger), (told{true, true, true}));
    EXPECT_EQ(of_each(whatever, another), (told{true, false, false}));
    EXPECT_EQ(of_each(named, stranger), (told{false, true, false}));
    EXPECT_EQ(of_each(named, another), (told{false, false, false}));
}

std::size_t times_in(std::string_view text, std::string_view part) {
    std::size_t times = 0;
    for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
        ++times;
    return times;
}

// Both requests lie there when the loop begins, the one that takes many turns first.
TEST(Report, OfManySegmentsLetsOthersInBetween) {
    const test::unique_posix_name name("counts");
    const auto counts = serve::shared_counts::open_or_create(name.uri(), 1);
    std::list<test::unique_posix_name> rings;
    for (int i = 0; i < 300; ++i)
        (void)broadcast_writer::create(rings.emplace_back("many").uri(), {.capacity_bytes = 2048});
    serve::serve_options served;
    served.allowed_hosts = {"test"};
    served.private_too = true;
    serve::api routes(served, 0, counts);
    for (const auto& [target, which, each] :
         {std::tuple("/metrics", serve::route::metrics, "holdfast_segment_up{segment=\"hf-many"),
          std::tuple("/v1/segments", serve::route::segments, "{\"name\":\"hf-many")}) {
        std::vector<serve::route> answered;
        net::server_options options;
        options.on_response = [&](const net::response_event& event) {
            answered.push_back(static_cast<serve::route>(event.route));
        };
        test::running_server server([&](const net::request& from, net::response& to) { routes.answer(from, to); },
                                    std::move(options));
        routes.run_on(server.get());
        test::http_client much(server.port()), little(server.port());
        much.send(test::get(target));
        little.send(test::get("/healthz"));
        server.start();
        EXPECT_EQ(little.reply().status, 200);
        const auto reply = much.reply();
        EXPECT_EQ(reply.status, 200);
        EXPECT_EQ(times_in(reply.body, each), rings.size()) << target;
        EXPECT_EQ(much.ask(test::get("/healthz")).status, 200) << "the connection goes on";
        server.stop();
        EXPECT_EQ(answered, (std::vector{serve::route::health, which, serve::route::health})) << target;
    }
}

}  // namespace
