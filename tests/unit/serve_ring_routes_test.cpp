// SPDX-License-Identifier: Apache-2.0
// Subscribers whose ring is replaced under its name: catalog and routes look when the test says so, in tasks of a
// running loop.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/broadcast/writer.hpp"
#include "holdfast/net/uri.hpp"
#include "holdfast/segment.hpp"
#include "serve/api_rings.hpp"
#include "serve/catalog.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;

// The segments of these tests are registered beside nobody else's.
const test::unique_directory registry("registry");
const test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());

std::size_t count_of(std::string_view what, std::string_view in) {
    std::size_t count = 0;
    for (std::size_t at = in.find(what); at != std::string_view::npos; at = in.find(what, at + 1)) ++count;
    return count;
}

class FollowedRing : public ::testing::Test {
 protected:
    FollowedRing() {
        rings_.run_on(server_.get());
        server_.start();
    }
    /// Another ring of the name, with these messages.
    void put(std::initializer_list<std::string_view> messages) {
        if (writer_) {
            writer_.reset();
            segment::remove(name_.uri());
        }
        writer_.emplace(broadcast_writer::create(name_.uri(), {.capacity_bytes = 4096}));
        for (const std::string_view each : messages) ASSERT_TRUE(writer_->publish(std::as_bytes(std::span(each))));
    }
    void subscribe() {
        client_.emplace(server_.port());
        client_->send(test::get("/?from=oldest", "Accept: text/event-stream\r\n"));
        (void)client_->read_to("\r\n\r\n");
    }
    /// What the subscriber is told, up to this or the end.
    std::string told_up_to(std::string_view last) {
        std::string told;
        while (told.find(last) == std::string::npos) {
            const std::string piece = client_->chunk();
            if (piece.empty()) break;
            told += piece;
        }
        return told;
    }
    void on_loop(const std::function<void()>& task) {
        std::packaged_task<void()> run(task);
        ASSERT_TRUE(server_.get().post([&run] { run(); }));
        run.get_future().get();
    }

    test::unique_posix_name name_{"followed"};
    std::optional<broadcast_writer> writer_;
    serve::catalog catalog_{{name_.uri()}};
    serve::ring_routes rings_{catalog_, false, [](serve::route, int) {}};
    test::running_server server_{[this](const net::request& from, net::response& to) {
        const auto query = net::query_parameters::parse(from.query()).value();
        serve::route which{};
        (void)rings_.get({from, to, {}, query, which}, name_.token());
    }};
    std::optional<test::http_client> client_;
};

TEST_F(FollowedRing, ReplacedSinceTheCatalogLookedIsLeftOnce) {
    put({"one", "two"});
    subscribe();
    std::string told = told_up_to("two");
    put({"three"});
    on_loop([&] { rings_.refresh(); });
    on_loop([&] {
        catalog_.refresh();
        rings_.refresh();
    });
    told += told_up_to("three");
    for (const char* const once : {R"("text":"one")", R"("text":"two")", R"("text":"three")", "event: replaced"})
        EXPECT_EQ(count_of(once, told), 1U) << once << " in " << told;
    EXPECT_EQ(count_of("event: joined", told), 2U) << told;
}

// A ring whose file has lost its end cannot be joined for now, like one whose writer outruns every attempt: 503. The
// catalog, which would let go of it, has looked before.
TEST_F(FollowedRing, ReplacedByOneThatCannotBeJoinedForNowIsLeftLater) {
    put({"one"});
    subscribe();
    std::string told = told_up_to("one");
    put({"two"});
    on_loop([&] {
        catalog_.refresh();
        const auto bytes = static_cast<off_t>(catalog_.ring(name_.token()).memory().info().total_bytes);
        ASSERT_EQ(::truncate(name_.path().c_str(), bytes - 1), 0);
        rings_.refresh();
        ASSERT_EQ(::truncate(name_.path().c_str(), bytes), 0);
    });
    on_loop([&] { rings_.refresh(); });
    told += told_up_to("two");
    EXPECT_EQ(count_of("event: ended", told), 0U) << told;
    EXPECT_EQ(count_of("event: replaced", told), 1U) << told;
}

TEST_F(FollowedRing, ReplacedByOneThatIsCutOffEndsWhatFollowsIt) {
    put({"one"});
    subscribe();
    (void)told_up_to("one");
    put({"two"});
    on_loop([&] {
        catalog_.refresh();
        const auto bytes = static_cast<off_t>(catalog_.ring(name_.token()).memory().info().total_bytes);
        ASSERT_EQ(::truncate(name_.path().c_str(), bytes - 1), 0);
        for (int looks = 0; looks < 2; ++looks) {
            rings_.refresh();
            catalog_.refresh();
        }
    });
    const std::string told = told_up_to("two");
    EXPECT_NE(told.find(R"("reason":"the segment is damaged")"), std::string::npos) << told;
}

}  // namespace
