// SPDX-License-Identifier: Apache-2.0
// Several certificates on one listener, picked by the host that a client names.
#include <gtest/gtest.h>

#ifdef HOLDFAST_TEST_WITH_TLS

#include <string>
#include <thread>

#include "support/tls_client_rig.hpp"

namespace {

using namespace holdfast;
using test::driven_client;
using test::tls_client;
using test::words_of;

/// A server with a certificate for first.host.test, and beside it one for each of several names.
struct TlsNames : ::testing::Test {
    TlsNames() {
        options.engine = test::engine_of_tests::choice();
        options.tls = {{.listener = listener,
                        .credentials = named("first", "DNS:first.host.test,IP:127.0.0.1"),
                        .by_name = {named("wild", "DNS:*.host.test"), named("a", "DNS:a.host.test,DNS:b.host.test"),
                                    named("again", "DNS:a.host.test")}}};
        server = std::make_unique<net::server>(std::vector<int>{listener}, options, test::echo);
        thread = std::thread([this] { server->run(); });
    }
    ~TlsNames() override { stop(); }
    void stop() {
        server->stop();
        if (thread.joinable()) thread.join();
    }

    net::tls_credentials named(const std::string& name, const std::string& alternatives) const {
        return net::tls_credentials(
            world.folder.write_pair(name, world.root.issue(name, {.alternatives = alternatives})));
    }
    std::string url(const std::string& host) const { return "https://" + host + ":" + std::to_string(port) + "/"; }
    /// Whose certificate is shown to who names this host; "" names none.
    std::string shown(const std::string& host, int version = 0) {
        tls_client client(port, {.tls = {.version_max = version}});
        if (!host.empty()) SSL_set_tlsext_host_name(client.end().get(), host.c_str());
        if (!client.shake()) return "refused";
        const test::tls_ptr<X509> certificate(SSL_get1_peer_certificate(client.end().get()));
        char name[64] = {};
        X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name, sizeof name);
        return name;
    }

    test::tls_world world;
    int listener = net::listen_tcp("127.0.0.1:0");
    std::uint16_t port = net::bound_port(listener);
    net::server_options options;
    std::unique_ptr<net::server> server;
    std::thread thread;
};

TEST_F(TlsNames, TheOneThatSaysTheNameIsShown) {
    for (const int version : {0, TLS1_2_VERSION}) {
        EXPECT_EQ(shown("a.host.test", version), "a") << "an exact name before a wildcard, the first of two";
        EXPECT_EQ(shown("B.HOST.test", version), "a");
        EXPECT_EQ(shown("c.host.test", version), "wild");
        EXPECT_EQ(shown("first.host.test", version), "first");
        for (const char* const none : {"", "host.test", "x.y.host.test", "elsewhere", "wild", "*.host.test."})
            EXPECT_EQ(shown(none, version), "first") << none;
        EXPECT_EQ(shown(std::string(255, 'x'), version), "first");
    }
}

TEST_F(TlsNames, EachHostIsBelievedByItsOwn) {
    driven_client client(world.options());
    for (const char* const host : {"a.host.test", "b.host.test", "c.host.test", "first.host.test", "127.0.0.1"}) {
        for (int i = 0; i < 2; ++i) {
            const auto result = client.ask({.url = url(host), .close = true});
            EXPECT_TRUE(result.ok()) << host << words_of(result);
        }
    }
    EXPECT_EQ(client.counters().tls_resumed, 5U);
    const auto wrong = client.get(url("x.y.host.test"));
    EXPECT_EQ(wrong.error, net::client_error::not_trusted);
    EXPECT_NE(wrong.detail.find("is for first.host.test, 127.0.0.1"), std::string::npos) << wrong.detail;
}

TEST_F(TlsNames, ATicketForOneHostOpensNothingAtAnother) {
    for (const int version : {0, TLS1_2_VERSION}) {
        tls_client first(port, {.tls = {.version_max = version}});
        SSL_set_tlsext_host_name(first.end().get(), "a.host.test");
        EXPECT_EQ(first.ask(test::get("/")).status, 200);
        ASSERT_NE(first.end().session(), nullptr);
        for (const char* const host : {"c.host.test", "a.host.test"}) {
            tls_client again(port, {.tls = {.version_max = version, .session = first.end().session()}});
            SSL_set_tlsext_host_name(again.end().get(), host);
            EXPECT_EQ(again.ask(test::get("/")).status, 200);
            EXPECT_EQ(SSL_session_reused(again.end().get()), host[0] == 'a' ? 1 : 0) << host;
        }
    }
}

TEST_F(TlsNames, EachIsReloadedByItself) {
    EXPECT_EQ(shown("a.host.test"), "a");
    (void)named("a", "DNS:d.host.test");  // the files of the second one
    options.tls.front().by_name[1].reload();
    EXPECT_EQ(shown("a.host.test"), "again");
    EXPECT_EQ(shown("d.host.test"), "a");
}

}  // namespace

#else

TEST(TlsNames, AreChosen) { GTEST_SKIP() << "needs: a build with TLS"; }

#endif
