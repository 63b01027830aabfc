// SPDX-License-Identifier: Apache-2.0
// The inbox of a served table whose name leads to another table than the worker knows: a catalog's view of a name may
// be one refresh old, and an owner opens its inbox at any moment.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/hash_table/growing.hpp"
#include "holdfast/inbox.hpp"
#include "holdfast/net/listener.hpp"
#include "holdfast/net/server.hpp"
#include "holdfast/segment.hpp"
#include "serve/owner_desk.hpp"
#include "serve/sources.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;

// The segments of these tests are registered beside nobody else's.
const test::unique_directory registry("registry");
const test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());

struct two {
    std::uint32_t a, b;
};

class OwnerDesk : public ::testing::Test {
 protected:
    dynamic_hash_table make(std::string_view fields) const {
        const container_schema schema{record_schema::parse_list("id:u64"), record_schema::parse_list(fields)};
        return dynamic_hash_table::create(name_.uri(), schema, {.capacity = 8});
    }
    /// The two integers of the value that the body means.
    static std::vector<std::uint32_t> read(serve::owner_desk::table& owner, std::string_view body) {
        owner.text().read_key("1");
        owner.text().read_value(body);
        std::vector<std::uint32_t> value(owner.text().value().size() / sizeof(std::uint32_t));
        std::ranges::copy(owner.text().value(), std::as_writable_bytes(std::span(value)).begin());
        return value;
    }

    test::unique_posix_name name_{"owned"};
    serve::owner_desk desk_;
};

TEST_F(OwnerDesk, ReadsWhatIsAskedByTheFieldsOfTheTableThatTheInboxIsOf) {
    {
        (void)make("a:u32,b:u32");
    }
    const auto known = serve::table_source::attach(name_.uri());
    segment::remove(name_.uri());
    auto fresh = make("b:u32,a:u32");
    const table_inbox inbox(fresh);
    const auto newly_known = serve::table_source::attach(name_.uri());
    for (const segment* const as : {&known->memory(), &newly_known->memory()}) {
        const auto owner = desk_.of(*as);
        ASSERT_TRUE(owner);
        EXPECT_EQ(read(*owner, R"({"a":1,"b":2})"), (std::vector<std::uint32_t>{2, 1}));
    }
}

TEST_F(OwnerDesk, ATableThatHasGrownHasTheSameOwner) {
    auto growing = growing_hash_table<std::uint64_t, two>::create(name_.uri(), {.capacity = 8});
    const table_inbox inbox(growing);
    const auto known = serve::table_source::attach(name_.uri());
    growing.grow(1000);
    while (growing.advance(1000)) continue;
    ASSERT_TRUE(known->memory().replaced());
    const auto owner = desk_.of(known->memory());
    ASSERT_TRUE(owner);
    EXPECT_EQ(read(*owner, R"({"a":1,"b":2})"), (std::vector<std::uint32_t>{1, 2}));
    const auto newly_known = serve::table_source::attach(name_.uri());
    EXPECT_EQ(desk_.of(newly_known->memory()), owner);
}

// It answers more than are taken in a turn, and ends.
TEST_F(OwnerDesk, AnOwnersLastWordsAreReadBeforeItCountsAsGone) {
    constexpr std::size_t commands = 1500;
    auto owned = make("a:u32,b:u32");
    auto inbox = std::make_unique<table_inbox<dynamic_hash_table>>(owned);
    const auto known = serve::table_source::attach(name_.uri());
    net::server loop({net::listen_tcp("127.0.0.1:0")}, net::server_options(),
                     [](const net::request&, net::response&) {});
    desk_.run_on(loop);
    std::size_t answered = 0, told_gone = 0;
    const std::uint64_t key = 1;
    inbox_command what;
    what.operation = inbox_operation::erase;
    what.key = std::as_bytes(std::span(&key, 1));
    (void)loop.after(0ns, [&] {
        const auto owner = desk_.of(known->memory());
        for (std::size_t i = 0; i < commands; ++i)
            EXPECT_EQ(desk_.ask(owner, what,
                                [&](const serve::owner_reply& reply) {
                                    ++(reply.answer != nullptr ? answered : told_gone);
                                    if (answered + told_gone == commands) loop.stop();
                                }),
                      outcome::ok);
        EXPECT_EQ(inbox->apply(commands).count, commands);
        inbox.reset();
        std::this_thread::sleep_for(30ms);  // the next turn looks after the owner
    });
    loop.run();
    EXPECT_EQ(answered, commands);
    EXPECT_EQ(told_gone, 0U);
}

}  // namespace
