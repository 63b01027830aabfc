// SPDX-License-Identifier: Apache-2.0
// What a supervisor and its successor say to each other; both of them: tests/e2e/restart_test.py.
#include "serve/take_over.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "holdfast/error.hpp"
#include "holdfast/net/listener.hpp"
#include "support/error_reason.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using serve::take_over_link;
using serve::take_over_message;
using serve::take_over_word;
using test::reason_of;

std::string text_of(const take_over_message& message) {
    const auto bytes = message.encode();
    return {bytes.data(), bytes.size()};
}

TEST(TakeOverMessage, ReadsBackWhatWasWritten) {
    for (const auto word : {take_over_word::take_over, take_over_word::ready, take_over_word::refused}) {
        const auto read = take_over_message::decode(text_of({.word = word, .number = 77}));
        ASSERT_TRUE(read);
        EXPECT_EQ(read->version, take_over_message::version_now);
        EXPECT_EQ(read->word, word);
        EXPECT_EQ(read->number, 77U);
    }
}

TEST(TakeOverMessage, IsNothingWhereAByteIsWrong) {
    const std::string good = text_of({.word = take_over_word::ready, .number = 1});
    for (std::size_t size = 0; size < good.size(); ++size)
        EXPECT_FALSE(take_over_message::decode(std::string_view(good).substr(0, size))) << size;
    EXPECT_FALSE(take_over_message::decode(good + "x"));
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 0x40);
        const auto read = take_over_message::decode(bad);
        const bool of_version = at >= 8 && at < 12, of_number = at >= 16 && at < 20;
        EXPECT_EQ(read.has_value(), of_version || of_number) << at;
        if (of_version) {
            EXPECT_NE(read->version, take_over_message::version_now);
        }
    }
    EXPECT_FALSE(take_over_message::decode(text_of({.word = take_over_word(0)})));
    EXPECT_FALSE(take_over_message::decode(text_of({.word = take_over_word(8)})));
}

/// A door at an address that is nobody else's, before which a test plays the server.
class played_server {
 public:
    played_server() : listener_(net::listen_tcp("127.0.0.1:0")), address_(net::bound_address(listener_.get())) {
        door_ = serve::open_door(address_);
    }
    [[nodiscard]] const std::string& address() const { return address_; }
    [[nodiscard]] int door() const { return door_.get(); }
    [[nodiscard]] int listener() const { return listener_.get(); }
    void shut() { door_.reset(); }

    /// What asking ends in when the server answers by `act`.
    errc refusal(const std::function<void(take_over_link&)>& act) {
        errc reason{};
        std::thread asking([&] { reason = reason_of([&] { (void)serve::ask_to_take_over(address_); }); });
        auto came = serve::answer_door(door_.get());
        while (!came) {
            std::this_thread::yield();
            came = serve::answer_door(door_.get());
        }
        EXPECT_EQ(came->process, static_cast<std::uint64_t>(::getpid()));
        act(came->link);
        came.reset();
        asking.join();
        return reason;
    }

 private:
    memory::descriptor listener_;
    std::string address_;
    memory::descriptor door_;
};

TEST(TakeOver, SaysWhyItCannot) {
    played_server server;
    EXPECT_EQ(server.refusal([](const take_over_link& link) { (void)link.say(take_over_word::busy); }),
              errc::already_exists);
    EXPECT_EQ(server.refusal([](const take_over_link& link) { (void)link.say(take_over_word::yours); }), errc::corrupt);
    EXPECT_EQ(server.refusal([](const take_over_link&) {}), errc::not_found) << "it went away";
    EXPECT_EQ(server.refusal([](const take_over_link& link) {
        const auto other = take_over_message{.version = 9, .word = take_over_word(99)}.encode();
        (void)::send(link.fd(), other.data(), other.size(), MSG_NOSIGNAL);
    }),
              errc::version_mismatch);
    EXPECT_EQ(
        server.refusal([](const take_over_link& link) { (void)::send(link.fd(), "HTTP/1.1 400", 12, MSG_NOSIGNAL); }),
        errc::corrupt);
    server.shut();
    EXPECT_EQ(reason_of([&] { (void)serve::ask_to_take_over(server.address()); }), errc::not_found);
}

TEST(TakeOver, ADoorStandsOnceForAnAddress) {
    const played_server server;
    EXPECT_THROW((void)serve::open_door(server.address()), error);
    EXPECT_TRUE(serve::is_door(server.door()));
    EXPECT_FALSE(serve::is_door(server.listener()));
    EXPECT_FALSE(serve::answer_door(server.door())) << "nobody stands there";
}

TEST(TakeOver, WhoCannotBeTakenOffTheDoorIsToldApartFromNobody) {
    const played_server server;
    const bool nobody = !serve::answer_door(server.door());
    const int why_nobody = errno;
    EXPECT_TRUE(nobody);
    EXPECT_EQ(why_nobody, EAGAIN);
    const take_over_link to = take_over_link::to(server.address());
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const bool came = serve::answer_door(server.door()).has_value();
    const int why = errno;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_FALSE(came);
    EXPECT_EQ(why, EMFILE);
    EXPECT_TRUE(serve::answer_door(server.door())) << "it still stands there";
}

TEST(TakeOverLink, TellsWhatItHears) {
    const played_server server;
    const take_over_link to = take_over_link::to(server.address());
    auto came = serve::answer_door(server.door());
    ASSERT_TRUE(came);
    take_over_message said;
    EXPECT_EQ(came->link.hear(said), take_over_link::state::silent);
    EXPECT_EQ(came->link.hear(said, 1ms), take_over_link::state::silent);
    EXPECT_TRUE(came->link.alive());
    ASSERT_TRUE(to.say(take_over_word::ready, 1));
    EXPECT_TRUE(came->link.alive());
    EXPECT_EQ(came->link.hear(said, 1s), take_over_link::state::said);
    EXPECT_EQ(said.word, take_over_word::ready);
    EXPECT_EQ(said.number, 1U);
    const std::string long_one(1000, 'x');
    ASSERT_GT(::send(to.fd(), long_one.data(), long_one.size(), MSG_NOSIGNAL), 0);
    EXPECT_EQ(came->link.hear(said), take_over_link::state::nonsense);
    came.reset();
    EXPECT_FALSE(to.alive());
    EXPECT_EQ(to.hear(said), take_over_link::state::away);
    EXPECT_FALSE(to.say(take_over_word::ready));
}

}  // namespace
