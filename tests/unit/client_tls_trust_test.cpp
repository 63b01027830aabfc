// SPDX-License-Identifier: Apache-2.0
// Whom a client believes (tls_trust.hpp), by handshakes without a socket: each way in which a certificate is the wrong
// one, what is said of it, and what is remembered for shorter handshakes.
#include <gtest/gtest.h>

#include "holdfast/error.hpp"
#include "holdfast/net/client.hpp"
#include "net/tls_session.hpp"
#include "support/driven_client.hpp"

#ifdef HOLDFAST_TEST_WITH_TLS

#include <sys/stat.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "support/tls_peer.hpp"
#include "support/tls_speaker.hpp"

namespace {

using namespace holdfast;
using net::tls_session;
using net::tls_status;
using net::tls_trust;
using net::tls_trust_options;
using test::tls_authority;
using test::tls_pair;
using test::tls_server_end;

struct said {
    errc reason{};
    std::string what;
};
said refusal(const tls_trust_options& options) {
    try {
        const tls_trust made(options);
        return {};
    } catch (const error& e) {
        return {e.reason(), e.what()};
    }
}
#define EXPECT_SAYS(refused, code, file, words)                         \
    do {                                                                \
        const said got = refused;                                       \
        EXPECT_EQ(got.reason, code) << got.what;                        \
        EXPECT_NE(got.what.find(file), std::string::npos) << got.what;  \
        EXPECT_NE(got.what.find(words), std::string::npos) << got.what; \
    } while (false)

/// A client's session and a server's end, and what goes between them.
class handshake {
 public:
    handshake(const tls_trust& trust, const std::string& host, SSL_CTX* context,
              std::shared_ptr<net::tls_memory> memory = nullptr)
        : client(tls_session::connect(trust, host, std::move(memory))), server(context) {
        std::string to_client;
        for (int flights = 0; flights < 10 && now == tls_status::more; ++flights) {
            std::span<const char> input(to_client);
            std::string out;
            now = client->shake(input, out);
            server.feed(out);
            made = server.shake();
            to_client = server.take();
        }
        if (now == tls_status::done) read(to_client);  // tickets
    }
    std::string read(std::string_view bytes) {
        std::span<const char> input(bytes);
        std::string plain(65536, ' '), out;
        std::size_t got = 0;
        while (true) {
            const auto step = client->read(input, std::span(plain).subspan(got), out);
            got += step.bytes;
            last = step.status;
            if (step.status != tls_status::done) break;
        }
        server.feed(out);
        plain.resize(got);
        return plain;
    }
    [[nodiscard]] std::string verdict() const {
        if (now == tls_status::done) return "good";
        return (client->distrusts() ? "distrusted: " : "failed: ") + client->reason();
    }

    std::unique_ptr<tls_session> client;
    tls_server_end server;
    tls_status now = tls_status::more;
    tls_status last = tls_status::more;
    bool made = false;
};

struct TlsTrust : ::testing::Test {
    std::string verdict(const tls_trust& trust, const std::string& host, const tls_pair& pair,
                        const test::tls_server_options& wanted = {}) {
        const auto context = test::make_server_context(pair, wanted);
        return handshake(trust, host, context.get()).verdict();
    }
    std::string verdict(const std::string& host, test::tls_certificate_options wanted) {
        return verdict(tls_trust({.issuers_file = issuers}), host, root.issue("shown", std::move(wanted)));
    }

    test::tls_folder folder;
    tls_authority root{"test root"};
    std::string issuers = folder.write("root.pem", test::pem_of(root.certificate()));
};

#define EXPECT_WORDS(verdict, begin, ...)                                         \
    do {                                                                          \
        const std::string got_verdict = verdict;                                  \
        EXPECT_EQ(got_verdict.substr(0, std::string_view(begin).size()), begin);  \
        for (const std::string_view words : {__VA_ARGS__})                        \
            EXPECT_NE(got_verdict.find(words), std::string::npos) << got_verdict; \
    } while (false)

TEST_F(TlsTrust, ACertificateIsForTheNamesItSays) {
    const test::tls_certificate_options wanted{.alternatives = "DNS:a.test,DNS:*.b.test,DNS:f*.c.test"};
    for (const char* const host : {"a.test", "a.test.", "x.b.test"}) EXPECT_EQ(verdict(host, wanted), "good") << host;
    for (const char* const host : {"b.test", "x.y.b.test", "foo.c.test", "aa.test", "shown"})
        EXPECT_WORDS(verdict(host, wanted), "distrusted: the certificate of ", host,
                     " is for a.test, *.b.test, f*.c.test, not for ", "subjectAltName");
    EXPECT_WORDS(verdict("shown", {}), "distrusted: ", "no host by a subjectAltName");
    EXPECT_WORDS(
        verdict("x.test", {.alternatives = "DNS:1.test,DNS:2.test,DNS:3.test,DNS:4.test,DNS:5.test,DNS:6.test"}),
        "distrusted: ", "1.test, 2.test, 3.test, 4.test and 2 more, not");
}

TEST_F(TlsTrust, AnAddressIsNoName) {
    EXPECT_EQ(verdict("127.0.0.1", {.alternatives = "IP:127.0.0.1"}), "good");
    EXPECT_EQ(verdict("::1", {.alternatives = "IP:::1"}), "good");
    EXPECT_EQ(verdict("0:0:0:0:0:0:0:1", {.alternatives = "IP:::1"}), "good");
    EXPECT_WORDS(verdict("127.0.0.1", {.alternatives = "DNS:127.0.0.1"}), "distrusted: ", "is for 127.0.0.1, not for");
    EXPECT_WORDS(verdict("127.0.0.2", {.alternatives = "IP:127.0.0.1,IP:::1"}), "distrusted: ", "127.0.0.1, ::1, not");
    EXPECT_WORDS(verdict("127.0.0.1", {.alternatives = "DNS:*"}), "distrusted: ", "is for *, not");
}

TEST_F(TlsTrust, SniNamesHostsAndNoAddresses) {
    const auto pair = root.issue("any", {.alternatives = "DNS:a.test,IP:127.0.0.1"});
    const auto context = test::make_server_context(pair);
    const tls_trust trust({.issuers_file = issuers});
    const auto named = [&](const std::string& host) {
        const handshake one(trust, host, context.get());
        const char* const name = SSL_get_servername(one.server.get(), TLSEXT_NAMETYPE_host_name);
        return std::string(name != nullptr ? name : "(none)");
    };
    EXPECT_EQ(named("a.test"), "a.test");
    EXPECT_EQ(named("a.test."), "a.test");
    EXPECT_EQ(named("127.0.0.1"), "(none)");
}

TEST_F(TlsTrust, TimeCounts) {
    const std::string both = "DNS:a.test";
    EXPECT_WORDS(verdict("a.test", {.alternatives = both, .from_s = -7200, .to_s = -3600}),
                 "distrusted: the certificate of a.test expired on ", " UTC; have it renewed");
    EXPECT_WORDS(verdict("a.test", {.alternatives = both, .from_s = 3600, .to_s = 7200}),
                 "distrusted: the certificate of a.test is good from ", " UTC on");
}

TEST_F(TlsTrust, IssuersThatNobodyNamedAreNotBelieved) {
    const tls_trust trust({.issuers_file = issuers});
    const tls_authority stranger("stranger, CN=test root\n");
    EXPECT_WORDS(verdict(trust, "a.test", stranger.issue("a", {.alternatives = "DNS:a.test"})),
                 "distrusted: ", "certificate of a.test has an unknown issuer, CN=stranger", "issuers_file");
    tls_pair self{test::make_ec_key(), nullptr};
    self.certificate = test::make_certificate(self.key.get(), "a.test");
    EXPECT_WORDS(verdict(trust, "a.test", self), "distrusted: ", "is signed by itself", "SHA-256 ", "pinned_file");
    // One between: believed where it is sent, told where it is not.
    const tls_authority between("between", &root);
    const auto pair = between.issue("a", {.alternatives = "DNS:a.test"});
    EXPECT_EQ(verdict(trust, "a.test", pair, {.above = between.certificate()}), "good");
    EXPECT_WORDS(verdict(trust, "a.test", pair), "distrusted: ", "unknown issuer, CN=between", "have the server send");
    // Who may not sign has signed.
    const auto leaf = root.issue("leaf", {.alternatives = "DNS:leaf.test"});
    tls_pair forged{test::make_ec_key(), nullptr};
    forged.certificate = test::make_certificate_with(
        forged.key.get(), "a.test",
        {.alternatives = "DNS:a.test", .issuer = leaf.certificate.get(), .issuer_key = leaf.key.get()});
    EXPECT_WORDS(verdict(trust, "a.test", forged, {.above = leaf.certificate.get()}), "distrusted: ", "a.test");
}

TEST_F(TlsTrust, WhatIsForClientsOrTooWeakIsNotBelieved) {
    const tls_trust trust({.issuers_file = issuers});
    EXPECT_WORDS(verdict("a.test", {.alternatives = "DNS:a.test", .usage = "clientAuth"}),
                 "distrusted: ", "is not for servers");
    tls_pair weak{test::make_rsa_key(1024), nullptr};
    weak.certificate = test::make_certificate(weak.key.get(), "a.test");
    EXPECT_WORDS(verdict(trust, "a.test", weak, {.level = 0}), "distrusted: ", "too weak", "2048");
}

TEST_F(TlsTrust, WhoIsNamedIsBelievedRootOrNot) {
    const tls_authority between("between", &root);
    const auto pair = between.issue("a", {.alternatives = "DNS:a.test"});
    for (X509* const named : {root.certificate(), between.certificate(), pair.certificate.get()}) {
        const tls_trust trust({.issuers_file = folder.write("named.pem", test::pem_of(named))});
        EXPECT_EQ(verdict(trust, "a.test", pair, {.above = between.certificate()}), "good");
        EXPECT_WORDS(verdict(trust, "b.test", pair, {.above = between.certificate()}),
                     "distrusted: ", "not for b.test");
    }
    std::string hashed = folder.path("hashed");
    ASSERT_EQ(::mkdir(hashed.c_str(), 0700), 0);
    char name[32];
    std::snprintf(name, sizeof name, "hashed/%08lx.0",
                  X509_NAME_hash_ex(X509_get_subject_name(root.certificate()), nullptr, nullptr, nullptr));
    folder.write(name, test::pem_of(root.certificate()));
    EXPECT_EQ(verdict(tls_trust({.issuers_folder = hashed}), "a.test", pair, {.above = between.certificate()}), "good");
}

TEST_F(TlsTrust, APinIsTheCertificateItself) {
    const auto one = root.issue("one", {.alternatives = "DNS:a.test"}),
               two = root.issue("two", {.alternatives = "DNS:a.test"});
    const tls_trust pinned({.pinned_file = folder.write("pin.pem", test::pem_of(one.certificate.get()))});
    EXPECT_EQ(verdict(pinned, "a.test", one), "good");
    EXPECT_WORDS(verdict(pinned, "a.test", two), "distrusted: ", "unknown issuer");
    EXPECT_WORDS(verdict(pinned, "b.test", one), "distrusted: ", "not for b.test");
    const tls_trust either({.pinned_file = folder.write("pins.pem", test::pem_of(one.certificate.get()) +
                                                                        test::pem_of(two.certificate.get()))});
    EXPECT_EQ(verdict(either, "a.test", one), "good");
    EXPECT_EQ(verdict(either, "a.test", two), "good");
    const tls_trust issuer({.pinned_file = issuers});
    EXPECT_WORDS(verdict(issuer, "a.test", one), "distrusted: the certificate of a.test (SHA-256 ",
                 ") is none of those in ", "root.pem");
    tls_pair self{test::make_ec_key(), nullptr};
    self.certificate = test::make_certificate(self.key.get(), "a.test");
    const tls_trust itself({.pinned_file = folder.write("self.pem", test::pem_of(self.certificate.get()))});
    EXPECT_EQ(verdict(itself, "a.test", self), "good");
}

TEST_F(TlsTrust, AnyoneIsBelievedOnlyByName) {
    tls_pair old{test::make_ec_key(), nullptr};
    old.certificate = test::make_certificate_with(old.key.get(), "other", {.from_s = -7200, .to_s = -3600});
    EXPECT_EQ(verdict(tls_trust({.insecurely_believe_anyone = true}), "a.test", old), "good");
    EXPECT_EQ(verdict(tls_trust{}, "a.test", old).substr(0, 11), "distrusted:") << "the system's issuers";
}

TEST_F(TlsTrust, WhatDoesNotAgreeIsToldInWords) {
    const tls_trust trust({.issuers_file = issuers});
    const auto pair = root.issue("a", {.alternatives = "DNS:a.test"});
    EXPECT_WORDS(verdict(trust, "a.test", pair, {.version = TLS1_1_VERSION, .level = 0}),
                 "failed: ", "neither TLS 1.3 nor 1.2");
    EXPECT_EQ(verdict(trust, "a.test", pair, {.version = TLS1_2_VERSION}), "good");
    EXPECT_EQ(verdict(trust, "a.test", pair, {.protocol = "http/1.1"}), "good");
    EXPECT_EQ(verdict(trust, "a.test", pair, {.protocol = "h2"}).substr(0, 7), "failed:");
    const tls_authority clients("clients");
    EXPECT_WORDS(verdict(trust, "a.test", pair, {.version = TLS1_2_VERSION, .clients_issuer = clients.certificate()}),
                 "failed: ", "certificate of the client");
}

TEST_F(TlsTrust, AClientShowsItsOwnCertificateWhereOneIsAsked) {
    const tls_authority clients("clients");
    const auto files = folder.write_pair("own", clients.issue("me", {.usage = "clientAuth"}));
    const tls_trust trust({.issuers_file = issuers, .own = files});
    const auto pair = root.issue("a", {.alternatives = "DNS:a.test"});
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        const auto context =
            test::make_server_context(pair, {.version = version, .clients_issuer = clients.certificate()});
        handshake with(trust, "a.test", context.get());
        EXPECT_EQ(with.verdict(), "good");
        EXPECT_TRUE(with.made);
        const test::tls_ptr<X509> shown(SSL_get1_peer_certificate(with.server.get()));
        EXPECT_TRUE(shown);
    }
    // TLS 1.3: the client is through before the server has looked.
    const auto context = test::make_server_context(pair, {.clients_issuer = clients.certificate()});
    handshake without(tls_trust({.issuers_file = issuers}), "a.test", context.get());
    EXPECT_FALSE(without.made);
    EXPECT_EQ(without.last, tls_status::failed);
    EXPECT_NE(without.client->reason().find("tls_trust_options::own"), std::string::npos) << without.client->reason();
}

TEST_F(TlsTrust, TicketsAreUsedOnceAndBounded) {
    const tls_trust trust({.issuers_file = issuers});
    const auto pair = root.issue("a", {.alternatives = "DNS:a.test"});
    const auto context = test::make_server_context(pair, {.tickets = 10});
    const auto memory = tls_session::remember();
    EXPECT_FALSE(handshake(trust, "a.test", context.get(), memory).client->resumed());
    EXPECT_EQ(memory->size(), net::tls_memory::kept_max);
    SSL_CTX_set_num_tickets(context.get(), 0);
    for (std::size_t left = net::tls_memory::kept_max; left-- > 0;) {
        const handshake again(trust, "a.test", context.get(), memory);
        EXPECT_EQ(again.verdict(), "good");
        EXPECT_TRUE(again.client->resumed());
        EXPECT_EQ(memory->size(), left);
    }
    EXPECT_FALSE(handshake(trust, "a.test", context.get(), memory).client->resumed());

    // TLS 1.2: one for as often as it is taken.
    const auto older = test::make_server_context(pair, {.version = TLS1_2_VERSION});
    EXPECT_FALSE(handshake(trust, "a.test", older.get(), memory).client->resumed());
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(handshake(trust, "a.test", older.get(), memory).client->resumed());
    // Tickets that a server does not know cost a whole handshake.
    const auto other = test::make_server_context(pair);
    const handshake anew(trust, "a.test", other.get(), memory);
    EXPECT_EQ(anew.verdict(), "good");
    EXPECT_FALSE(anew.client->resumed());
}

// A resumed handshake shows no certificate, and gives new tickets all the same: by them alone a certificate that has
// expired since would be believed for ever.
TEST_F(TlsTrust, TicketsOfResumedHandshakesDoNotPutOffTheNextLook) {
    constexpr std::int64_t day_s = net::tls_memory::kept_s;
    static std::int64_t now_s;
    const tls_trust trust({.issuers_file = issuers});
    const auto pair = root.issue("a", {.alternatives = "DNS:a.test"});
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        const auto context = test::make_server_context(pair, {.version = version});
        const auto other = test::make_server_context(pair, {.version = version});
        const auto memory = tls_session::remember([] { return now_s; });
        const auto resumed = [&](SSL_CTX* server, std::int64_t at_s) {
            now_s = at_s;
            const handshake one(trust, "a.test", server, memory);
            EXPECT_EQ(one.verdict(), "good");
            return one.client->resumed();
        };
        EXPECT_FALSE(resumed(context.get(), 1000));
        EXPECT_TRUE(resumed(context.get(), 1000 + day_s / 2));
        EXPECT_TRUE(resumed(context.get(), 1000 + day_s - 1));
        EXPECT_FALSE(resumed(context.get(), 1000 + day_s)) << "a day without a look at the certificate";
        EXPECT_TRUE(resumed(context.get(), 1000 + 2 * day_s - 1)) << "it was shown a day ago";
        EXPECT_FALSE(resumed(other.get(), 1000 + 2 * day_s - 1)) << "a ticket that it does not know";
        EXPECT_TRUE(resumed(other.get(), 1000 + 2 * day_s)) << "it was shown for want of one";
        EXPECT_FALSE(resumed(other.get(), 0)) << "the clock was set back";
    }
}

TEST_F(TlsTrust, NothingIsRememberedOfAServerThatIsNotBelieved) {
    const tls_authority stranger("stranger");
    const auto pair = stranger.issue("a", {.alternatives = "DNS:a.test"});
    const auto context = test::make_server_context(pair);
    const auto memory = tls_session::remember();
    EXPECT_EQ(handshake(tls_trust({.issuers_file = issuers}), "a.test", context.get(), memory).now, tls_status::failed);
    EXPECT_EQ(memory->size(), 0U);
}

TEST_F(TlsTrust, HalfARecordIsToldFromNone) {
    const auto context = test::make_server_context(root.issue("a", {.alternatives = "DNS:a.test"}));
    handshake one(tls_trust({.issuers_file = issuers}), "a.test", context.get());
    EXPECT_TRUE(one.client->is_between_records());
    const std::string record = one.server.seal("hello");
    for (std::size_t i = 0; i + 1 < record.size(); ++i) {
        EXPECT_EQ(one.read(record.substr(i, 1)), "");
        ASSERT_FALSE(one.client->is_between_records()) << i;
    }
    EXPECT_EQ(one.read(record.substr(record.size() - 1)), "hello");
    EXPECT_TRUE(one.client->is_between_records());
}

TEST_F(TlsTrust, FilesThatAreNotRightAreNamedWithTheCure) {
    EXPECT_SAYS(refusal({.issuers_file = folder.path("none.pem")}), errc::not_found, "none.pem", "no such file");
    EXPECT_SAYS(refusal({.issuers_folder = folder.path("none")}), errc::not_found, "none", "openssl rehash");
    EXPECT_SAYS(refusal({.issuers_folder = issuers}), errc::not_found, "root.pem", "no such folder");
    EXPECT_SAYS(refusal({.pinned_file = folder.write("empty", "")}), errc::invalid_argument, "empty",
                "BEGIN CERTIFICATE");
    std::string damaged = test::pem_of(root.certificate());
    damaged.replace(80, 4, "AAAA");
    EXPECT_SAYS(refusal({.issuers_file = folder.write("two.pem", test::pem_of(root.certificate()) + damaged)}),
                errc::invalid_argument, "two.pem", "certificate 2");
    const auto pair = folder.write_pair();
    EXPECT_SAYS(refusal({.own = net::tls_files{pair.certificate, pair.certificate}}), errc::unsafe_file, "cert.pem",
                "chmod");
    ::chmod(pair.certificate.c_str(), 0600);
    EXPECT_SAYS(refusal({.own = net::tls_files{pair.certificate, pair.certificate}}), errc::invalid_argument,
                "cert.pem", "BEGIN PRIVATE KEY");
    EXPECT_SAYS(refusal({.issuers_file = issuers, .pinned_file = issuers}), errc::invalid_argument, "tls_trust_options",
                "pins beside issuers");
    EXPECT_SAYS(refusal({.issuers_file = issuers, .insecurely_believe_anyone = true}), errc::invalid_argument,
                "tls_trust_options", "leave one of them out");
    EXPECT_EQ(refusal({}).what, "");
}

}  // namespace

#else

namespace {

using namespace holdfast;

TEST(TlsTrust, ABuildWithoutTlsSaysHowToGetIt) {
    try {
        const net::tls_trust made;
        FAIL() << "made all the same";
    } catch (const error& e) {
        EXPECT_EQ(e.reason(), errc::unsupported);
        EXPECT_NE(std::string_view(e.what()).find("-DHOLDFAST_NET_TLS=ON"), std::string_view::npos) << e.what();
    }
    test::driven_client client;
    const auto result = client.get("https://127.0.0.1/");
    EXPECT_EQ(result.error, net::client_error::invalid_request);
    EXPECT_NE(result.detail.find("-DHOLDFAST_NET_TLS=ON"), std::string::npos) << result.detail;
}

}  // namespace

#endif
