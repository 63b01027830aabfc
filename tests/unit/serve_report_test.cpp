// SPDX-License-Identifier: Apache-2.0
// What a server tells of its counts: to each client those of the segments that it may know of.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "holdfast/broadcast/writer.hpp"
#include "holdfast/net/peer.hpp"
#include "serve/catalog.hpp"
#include "serve/report.hpp"
#include "serve/shared_counts.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;

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
        const std::string metrics = serve::render_metrics(counts, by, serve::exposition_format::text, to);
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

}  // namespace
