// SPDX-License-Identifier: Apache-2.0
// Servers that cut, dribble, break the framing or send answers nobody asked for. Attacks I2 of client.hpp: whatever one
// of them does, each request has one end, and no byte of one answer is told as another's.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "holdfast/net/client.hpp"
#include "support/driven_client.hpp"
#include "support/scale.hpp"
#include "support/scripted_server.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using net::client_error;
using net::client_stage;
using test::driven_client;
using test::scripted_peer;
using test::scripted_server;

std::string name_of(const net::client_result& r) {
    return std::string(net::client_error_name(r.error)) + (r.detail.empty() ? "" : ": " + r.detail);
}

std::string answer(std::string_view body) {
    std::string made = "HTTP/1.1 200 OK\r\nContent-Length: ";
    return made.append(std::to_string(body.size())).append("\r\n\r\n").append(body);
}

constexpr std::string_view with_length = "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\n\r\nhello";
constexpr std::string_view chunked =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\nT: 1\r\n\r\n";
constexpr std::string_view to_the_end = "HTTP/1.1 200 OK\r\n\r\nhello";

TEST(ClientHostile, TellsEachCutFromAnAnswer) {
    for (const bool reset : {false, true})
        for (const std::string_view whole : {with_length, chunked, to_the_end}) {
            std::atomic<std::size_t> cut{0};
            scripted_server server([&](scripted_peer& peer, int) {
                peer.request();
                peer.send(whole.substr(0, cut));
                // A reset may destroy what is on its way: all but "not in order" would be a guess then.
                if (reset) peer.reset();
            });
            driven_client client;
            for (cut = 0; cut <= whole.size(); ++cut) {
                const auto result = client.get(server.url());
                const std::size_t head = whole.find("\r\n\r\n") + 4;
                const bool complete = cut == whole.size() || (whole == to_the_end && cut >= head);
                if (!reset) {
                    ASSERT_EQ(result.ok(), complete) << cut << " of " << whole << name_of(result);
                    if (complete) {
                        ASSERT_EQ(result.response.body(),
                                  std::string_view("hello").substr(0, cut - head + (whole == to_the_end ? 0 : 5)));
                    } else {
                        ASSERT_EQ(result.error, cut == 0 ? client_error::closed_unanswered : client_error::truncated);
                    }
                } else if (result.ok()) {
                    ASSERT_EQ(cut, whole.size()) << whole;
                    ASSERT_NE(whole, to_the_end) << "a reset is no end of a body";
                    ASSERT_EQ(result.response.body(), "hello");
                } else {
                    ASSERT_TRUE(result.error == client_error::closed_unanswered ||
                                result.error == client_error::truncated)
                        << name_of(result);
                }
                ASSERT_TRUE(result.sent);
            }
        }
}

TEST(ClientHostile, ReadsAnswersThatComeByteByByte) {
    scripted_server server([](scripted_peer& peer, int) {
        for (const std::string_view whole : {with_length, chunked, with_length}) {
            peer.request();
            for (const char c : whole) peer.send({&c, 1});
        }
        peer.gone();
    });
    driven_client client;
    for (int i = 0; i < 3; ++i) {
        const auto result = client.get(server.url());
        ASSERT_TRUE(result.ok()) << name_of(result);
        EXPECT_EQ(result.response.body(), "hello");
    }
    EXPECT_EQ(client.counters().connected, 1U);
}

TEST(ClientHostile, EndsRequestsWhoseAnswerBreaksTheRules) {
    std::mutex lock;
    std::string next;
    scripted_server server([&](scripted_peer& peer, int) {
        while (!peer.request().empty()) {
            std::string bytes;
            {
                const std::lock_guard guard(lock);
                bytes = next;
            }
            peer.send(bytes);
        }
    });
    driven_client client({.limits = {.answer = {.header_bytes_max = 4096, .headers_max = 20, .body_bytes_max = 100}}});
    const auto error_for = [&](std::string bytes) {
        {
            const std::lock_guard guard(lock);
            next = std::move(bytes);
        }
        return client.get(server.url()).error;
    };
    const std::string ok = "HTTP/1.1 200 OK\r\n";
    for (const std::string& bytes :
         {std::string("SSH-2.0-x\r\n"), std::string("\x15\x03\x01\x02"), std::string("HTTP/2 200\r\n\r\n"),
          std::string("HTTP/1.1 000 x\r\n\r\n"), std::string("HTTP/1.1 101 x\r\n\r\n"),
          ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
          ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", ok + "Transfer-Encoding: x\r\n\r\n",
          ok + "A: b\nContent-Length: 0\r\n\r\n", ok + "Transfer-Encoding: chunked\r\n\r\nx\r\n",
          ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n",
          std::string("HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n")})
        EXPECT_EQ(error_for(bytes), client_error::malformed) << bytes;
    EXPECT_EQ(error_for(ok + "A: " + std::string(5000, 'a')), client_error::head_too_large);
    std::string many = ok;
    for (int i = 0; i < 30; ++i) many += "A: b\r\n";
    EXPECT_EQ(error_for(many + "\r\n"), client_error::head_too_large);
    EXPECT_EQ(error_for(ok + "Content-Length: 101\r\n\r\n"), client_error::body_too_large);
    EXPECT_EQ(error_for(ok + "\r\n" + std::string(101, 'x')), client_error::body_too_large);
    EXPECT_EQ(error_for(ok + "Transfer-Encoding: chunked\r\n\r\n65\r\n"), client_error::body_too_large);
    EXPECT_EQ(client.counters().open, 0U) << "a connection in doubt was kept";
    // The limit is the request's own where it has one.
    EXPECT_EQ(error_for(answer(std::string(100, 'x'))), client_error::none);
    EXPECT_EQ(client.ask({.url = server.url(), .body_bytes_max = 99}).error, client_error::body_too_large);
}

TEST(ClientHostile, TakesNoAnswerThatComesBehindAnother) {
    scripted_server server([](scripted_peer& peer, int number) {
        peer.request();
        peer.send(answer("own " + std::to_string(number)) + answer("poison"));
        peer.gone();
    });
    driven_client client;
    for (int i = 0; i < 10; ++i) {
        const auto result = client.get(server.url());
        EXPECT_EQ(result.response.body(), "own " + std::to_string(i)) << name_of(result);
        EXPECT_EQ(client.counters().open, 0U);
    }
    EXPECT_EQ(client.counters().unasked_bytes, 10U);
    EXPECT_EQ(client.counters().connected, 10U);
}

TEST(ClientHostile, TakesNoAnswerThatComesLaterOnAnIdleConnection) {
    std::promise<void> told;
    const auto poison_now = told.get_future().share();
    std::atomic<bool> poisoned{false};
    scripted_server server([&](scripted_peer& peer, int number) {
        peer.request();
        peer.send(answer("own " + std::to_string(number)));
        if (number == 0) {
            poison_now.wait();
            peer.send(answer("poison"));
            poisoned = true;
        }
        peer.gone();
    });
    driven_client client;
    EXPECT_EQ(client.get(server.url()).response.body(), "own 0");
    told.set_value();
    // The client makes no turn meanwhile: what has come is found when the connection is about to be used again.
    while (!poisoned) std::this_thread::yield();
    const auto second = client.get(server.url());
    EXPECT_EQ(second.response.body(), "own 1") << name_of(second);
    EXPECT_EQ(client.counters().unasked_bytes, 1U);
}

// What comes within a turn, behind the look for events, is found before the connection is used.
TEST(ClientHostile, TakesNoAnswerThatComesJustBeforeARequest) {
    std::atomic<bool> told{false}, poisoned{false};
    scripted_server server([&](scripted_peer& peer, int number) {
        peer.request();
        peer.send(answer("own " + std::to_string(number)));
        while (number == 0 && !told) std::this_thread::yield();
        if (number == 0) poisoned = peer.send(answer("poison"));
        peer.gone();
    });
    scripted_server other([](scripted_peer& peer, int) {
        peer.request();
        peer.send(answer("other"));
        peer.gone();
    });
    driven_client client;
    EXPECT_EQ(client.get(server.url()).response.body(), "own 0");
    net::request_id second{};
    client.get().get(other.url(), [&](net::client_result&&) {
        told = true;
        while (!poisoned) std::this_thread::yield();
        second = client.start({.url = server.url()});
    });
    client.turn_until([&] { return second.number != 0; });
    const auto result = client.end_of(second);
    EXPECT_EQ(result.response.body(), "own 1") << name_of(result);
    EXPECT_EQ(client.counters().unasked_bytes, 1U);
}

TEST(ClientHostile, KeepsNoConnectionThatMayBeOutOfStep) {
    const std::string_view ends[] = {
        "HTTP/1.1 200 OK\r\nConnection: x, close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 304 x\r\nTransfer-Encoding: chunked\r\n\r\n",
    };
    for (const std::string_view end : ends) {
        scripted_server server([&](scripted_peer& peer, int) {
            peer.request();
            peer.send(end);
            peer.gone();
        });
        driven_client client;
        EXPECT_TRUE(client.get(server.url()).ok()) << end;
        EXPECT_EQ(client.counters().open, 0U) << end;
    }
    scripted_server server([&](scripted_peer& peer, int) {
        EXPECT_NE(peer.request().find("Connection: close\r\n"), std::string::npos);
        peer.send(answer("x"));
        peer.gone();
    });
    driven_client client;
    EXPECT_TRUE(client.ask({.url = server.url(), .close = true}).ok());
    EXPECT_EQ(client.counters().open, 0U);
}

// A server that does anything at all, by a seed. Each answer carries the number of the request it answers; whatever is
// told as an answer to a request has to carry that number.
TEST(ClientHostile, NeverMixesAnswersUpWhateverAServerDoes) {
    test::seeded_random random;
    std::mutex lock;
    const auto draw = [&](unsigned below) {
        const std::lock_guard guard(lock);
        return static_cast<unsigned>(random.below(below));
    };
    scripted_server server([&](scripted_peer& peer, int) {
        while (true) {
            const std::string head = peer.request();
            const std::string number = head.substr(5, head.find(' ', 5) - 5);
            std::string bytes;
            switch (draw(4)) {
                case 0:
                    bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + std::to_string(number.size()) +
                            "\r\n" + number + "\r\n0\r\n\r\n";
                    break;
                case 1: bytes = "HTTP/1.1 103 x\r\n\r\n" + answer(number); break;
                default: bytes = answer(number);
            }
            const std::size_t whole_bytes = bytes.size();
            const unsigned step = draw(7) + draw(2) * 7;  // as often none of these
            switch (step) {
                case 0: bytes += answer("poison"); break;
                case 1: bytes += "garbage"; break;
                case 2: peer.send(std::string_view(bytes).substr(0, draw(static_cast<unsigned>(bytes.size())))); return;
                case 3: return;
                case 4: peer.reset(); return;
                case 5: bytes.insert(draw(static_cast<unsigned>(bytes.size())), 1, "!\r\n \0:"[draw(6)]); break;
                case 6: bytes = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + number; break;
                default: break;
            }
            // What comes behind an answer comes with its end. Once it has gone alone and the next request is sent, no
            // client can tell a late answer from the next one.
            const std::size_t cut = draw(static_cast<unsigned>(std::min(whole_bytes, bytes.size())));
            if (!peer.send(std::string_view(bytes).substr(0, cut)) || !peer.send(std::string_view(bytes).substr(cut)))
                return;
            if (step == 5 || step == 6) return;
        }
    });
    driven_client client({.limits = {.connections_per_origin_max = 4},
                          .timeouts = {.connect = 20s, .first_byte = 1s, .silence = 1s, .whole = 20s}});
    const int most = static_cast<int>(test::scaled(400));
    int right = 0;
    for (int begun = 0; begun < most;) {
        std::vector<std::pair<int, net::request_id>> asked;
        for (int i = 0; i < 8 && begun < most; ++i, ++begun) {
            std::string target = "/";
            target += std::to_string(begun);
            asked.emplace_back(begun, client.start({.url = server.url(target)}));
        }
        for (const auto& [number, id] : asked) {
            const auto result = client.end_of(id);
            if (!result.ok()) continue;
            ++right;
            // What was put in is no digit: a body of digits alone is an answer as it was meant.
            const std::string& body = result.response.body();
            ASSERT_EQ(body.find("poison"), std::string::npos);
            if (body.find_first_not_of("0123456789") == std::string::npos && !body.empty()) {
                ASSERT_EQ(body, std::to_string(number));
            }
        }
    }
    EXPECT_GT(right, most / 3);
}

}  // namespace
