// SPDX-License-Identifier: Apache-2.0
// Well-behaved clients beside hostile ones that speak TLS, or pretend to (support/flood_rig.hpp).
#include <gtest/gtest.h>

#ifdef HOLDFAST_TEST_WITH_TLS

#include <cstddef>
#include <cstdint>
#include <list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/flood_rig.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/seed.hpp"
#include "support/tls_peer.hpp"

namespace {

using namespace holdfast;
using test::flooded;
using test::get;
using test::http_client;
using test::tls_client;
using test::withstand;

std::string first_flight() {
    test::tls_client_end end;
    (void)end.shake();
    return end.take();
}

// Beginnings of handshakes, each held until the server gives it up.
void handshakes_that_stand_still(const flooded& at) {
    const std::string hello = first_flight();
    std::list<http_client> clients;
    for (std::size_t i = 0; i < 150; ++i)
        (void)clients.emplace_back(at.tls_port)
            .send_while_possible(std::string_view(hello).substr(0, 1 + i * (hello.size() - 1) / 150));
    for (http_client& client : clients) (void)client.gone();
}

// Requests without TLS, noise, and hellos with a byte changed.
void what_is_no_handshake(const flooded& at) {
    test::seeded_random random;
    const std::string hello = first_flight();
    for (int i = 0; i < 100; ++i) {
        std::string noise(1 + random.below(3000), '\0');
        for (char& c : noise) c = static_cast<char>(random.below(256));
        std::string changed = hello;
        changed[random.below(changed.size())] ^= static_cast<char>(1 + random.below(255));
        for (const std::string& bytes : {get("/"), noise, changed, std::string("\x16\x03\x01\xff\xff", 5)}) {
            http_client client(at.tls_port);
            (void)client.send_while_possible(bytes);
            if (i % 8 == 0)
                client.shutdown_send();
            else
                client.reset();
            if (i % 8 == 0) (void)client.gone();
        }
    }
}

// Handshakes made, as fast as one client can, and thrown away; some with a record that was tampered with.
void handshakes_for_nothing(const flooded& at) {
    for (int i = 0; i < 60; ++i) {
        tls_client client(at.tls_port);
        if (!client.shake()) throw std::runtime_error("no handshake: " + client.end().reason());
        if (i % 3 == 0) client.send_raw(std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x'));
        if (i % 3 == 1) client.send(get("/"));
        if (i == 0) (void)client.gone();  // the record was read; of the others the reset may come first
    }
}

// Updates of keys, each of which asks for an answer, as fast as they can be sent, until each client has been given up.
void key_updates_without_end(const flooded& at) {
    for (int i = 0; i < 20; ++i) {
        tls_client client(at.tls_port);
        if (!client.shake()) throw std::runtime_error("no handshake: " + client.end().reason());
        for (int k = 0; k < 500; ++k) {
            if (SSL_key_update(client.end().get(), SSL_KEY_UPDATE_REQUESTED) != 1) break;
            (void)client.end().shake();
        }
        client.push();
        (void)client.gone();
    }
}

TEST(ServerFloodTls, HandshakesThatStandStill) { EXPECT_GE(withstand(handshakes_that_stand_still).tls_timeouts, 100U); }
TEST(ServerFloodTls, WhatIsNoHandshake) {
    const auto counters = withstand(what_is_no_handshake);
    EXPECT_GE(counters.tls_plain, 10U);
    EXPECT_GE(counters.tls_failures, 10U);
}
TEST(ServerFloodTls, HandshakesForNothing) {
    const auto counters = withstand(handshakes_for_nothing);
    EXPECT_GE(counters.tls_handshakes, 60U);
    EXPECT_GE(counters.tls_failures, 1U);
}
TEST(ServerFloodTls, KeyUpdatesWithoutEnd) { EXPECT_GE(withstand(key_updates_without_end).tls_failures, 20U); }

}  // namespace

#else

TEST(ServerFloodTls, NeedsTls) { GTEST_SKIP() << "needs: a build with TLS"; }

#endif
