// SPDX-License-Identifier: Apache-2.0
// The parts of TLS that need no connection: credentials and what is wrong with them, keys of tickets, the gate before
// handshake messages.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/error.hpp"
#include "holdfast/net/server.hpp"
#include "holdfast/net/tls.hpp"
#include "net/tls_handshake_gate.hpp"
#include "net/tls_ticket_keys.hpp"
#ifdef HOLDFAST_TEST_WITH_TLS
#include "support/tls_peer.hpp"
#endif

namespace {

using namespace holdfast;
using net::tls_handshake_gate;
using net::tls_ticket_keys;

// --- keys of tickets

constexpr std::int64_t rotation = tls_ticket_keys::rotation_s;

std::span<const unsigned char, 16> name_of(const tls_ticket_keys::key& key) { return key.name; }

TEST(TlsTicketKeys, OneKeySealsUntilItsTimeIsOver) {
    tls_ticket_keys keys;
    const auto first = keys.to_seal(1000);
    ASSERT_TRUE(first);
    EXPECT_EQ(keys.to_seal(1000 + rotation - 1)->name, first->name);
    EXPECT_NE(keys.to_seal(1000 + rotation)->name, first->name);
}

TEST(TlsTicketKeys, ATicketIsOpenedForAsLongAsItIsGood) {
    tls_ticket_keys keys;
    const auto first = *keys.to_seal(0);
    const auto young = keys.to_open(name_of(first), rotation - 1);
    ASSERT_TRUE(young);
    EXPECT_FALSE(young->renew);
    EXPECT_EQ(young->with.cipher, first.cipher);
    const auto old = keys.to_open(name_of(first), 2 * rotation - 1);  // sealed a moment before the rotation
    ASSERT_TRUE(old);
    EXPECT_TRUE(old->renew);
    EXPECT_EQ(old->with.mac, first.mac);
    EXPECT_FALSE(keys.to_open(name_of(first), 4 * rotation));
}

TEST(TlsTicketKeys, AKeyNobodyUsedForTwoRotationsIsGone) {
    tls_ticket_keys keys;
    const auto first = *keys.to_seal(0);
    EXPECT_FALSE(keys.to_open(name_of(first), 2 * rotation));
}

TEST(TlsTicketKeys, NamesOfOthersOpenNothing) {
    tls_ticket_keys keys, others;
    EXPECT_TRUE(keys.to_seal(0));
    EXPECT_FALSE(keys.to_open(name_of(*others.to_seal(0)), 0));
    EXPECT_FALSE(tls_ticket_keys().to_open(name_of(tls_ticket_keys::key{}), 0)) << "not even one of zeros";
}

// --- the gate

std::string record(char type, std::string_view payload) {
    return std::string{type, '\x03', '\x03', static_cast<char>(payload.size() >> 8U),
                       static_cast<char>(payload.size() & 0xFFU)}
        .append(payload);
}
std::string message(std::size_t bytes, char type = 1) {
    std::string text{type, static_cast<char>(bytes >> 16U), static_cast<char>(bytes >> 8U & 0xFFU),
                     static_cast<char>(bytes & 0xFFU)};
    return text.append(bytes, 'm');
}

/// What the gate says of the whole, of it byte by byte, and cut in two anywhere: always the same.
bool passes(std::string_view stream, bool stays_plain = true) {
    const bool whole = tls_handshake_gate().pass(stream, stays_plain);
    for (std::size_t cut = 0; cut <= stream.size(); cut += stream.size() > 4096 ? 509 : 1) {
        tls_handshake_gate gate;
        const bool both = gate.pass(stream.substr(0, cut), stays_plain) && gate.pass(stream.substr(cut), stays_plain);
        EXPECT_EQ(both, whole) << "cut at " << cut;
    }
    tls_handshake_gate bytewise;
    bool all = true;
    for (const char& c : stream) all = all && bytewise.pass({&c, 1}, stays_plain);
    EXPECT_EQ(all, whole);
    return whole;
}

constexpr char handshake = 22, change_of_cipher = 20, encrypted = 23;
constexpr std::size_t most = tls_handshake_gate::client_message_bytes_max;

TEST(TlsHandshakeGate, MessagesOfOrdinaryLengthPass) {
    EXPECT_TRUE(passes(record(handshake, message(300))));
    EXPECT_TRUE(passes(record(handshake, message(100) + message(0) + message(7))));
    EXPECT_TRUE(passes(record(handshake, message(100).substr(0, 2)) + record(handshake, message(100).substr(2))));
    EXPECT_TRUE(passes(record(handshake, "") + record(handshake, message(1))));
    const std::string longest = message(most);
    EXPECT_TRUE(passes(record(handshake, longest.substr(0, 16384)) + record(handshake, longest.substr(16384))));
}

TEST(TlsHandshakeGate, AMessageThatClaimsTooMuchIsStoppedAtItsFourthByte) {
    const std::string head = message(most + 1).substr(0, 4);
    EXPECT_FALSE(passes(record(handshake, head)));
    EXPECT_TRUE(passes(record(handshake, head.substr(0, 3))));
    EXPECT_FALSE(passes(record(handshake, message(20) + head)));
    EXPECT_FALSE(passes(record(handshake, head.substr(0, 1)) + record(handshake, head.substr(1))));
    EXPECT_FALSE(passes(record(handshake, message(20)) + record(change_of_cipher, "\x01") + record(handshake, head)))
        << "a second hello of TLS 1.3";
}

TEST(TlsHandshakeGate, WhatIsEncryptedIsNotLookedAt) {
    const std::string noise = message(most + 1).substr(0, 4) + "noise";
    EXPECT_TRUE(passes(record(encrypted, noise)));
    EXPECT_TRUE(passes(record(change_of_cipher, "\x01") + record(handshake, noise), false)) << "TLS 1.2";
    EXPECT_FALSE(passes(record(handshake, noise) + record(change_of_cipher, "\x01"), false));
}

// --- credentials

#ifdef HOLDFAST_TEST_WITH_TLS

struct said {
    errc reason{};
    std::string what;
};
said refusal(const std::string& certificate, const std::string& key) {
    try {
        const net::tls_credentials made({certificate, key});
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

struct TlsCredentials : ::testing::Test {
    test::tls_folder folder;
    net::tls_files files = folder.write_pair();
};

TEST_F(TlsCredentials, APairIsTaken) {
    EXPECT_EQ(refusal(files.certificate, files.key).what, "");
    const auto key = test::make_rsa_key(2048);
    const std::string both =
        test::pem_of(key.get()) + "text between\n" + test::pem_of(test::make_certificate(key.get(), "both").get());
    EXPECT_EQ(refusal(folder.write("both.pem", both), folder.path("both.pem")).what, "") << "both in one file";
}

TEST_F(TlsCredentials, AFileThatIsNotThereIsNamed) {
    EXPECT_SAYS(refusal(folder.path("none.pem"), files.key), errc::not_found, "none.pem", "no such file");
    EXPECT_SAYS(refusal(files.certificate, folder.path("none.key")), errc::not_found, "none.key", "no such file");
}

TEST_F(TlsCredentials, AKeyThatOthersMayReadIsRefused) {
    for (const mode_t mode : {0604U, 0620U, 0666U}) {
        ::chmod(files.key.c_str(), mode);
        EXPECT_SAYS(refusal(files.certificate, files.key), errc::unsafe_file, "key.pem", "chmod 640 or 600");
    }
    ::chmod(files.key.c_str(), 0640);
    EXPECT_EQ(refusal(files.certificate, files.key).what, "");
}

TEST_F(TlsCredentials, WhatIsNoPlainFileIsRefused) {
    EXPECT_SAYS(refusal("/dev/null", files.key), errc::unsafe_file, "/dev/null", "no plain file");
    ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
    EXPECT_SAYS(refusal(files.certificate, folder.path("pipe")), errc::unsafe_file, "pipe", "no plain file");
}

TEST_F(TlsCredentials, AKeyOfAnotherCertificateIsToldWithBothFiles) {
    const std::string other = folder.write("other.pem", test::pem_of(test::make_ec_key().get()));
    EXPECT_SAYS(refusal(files.certificate, other), errc::invalid_argument, "other.pem", "cert.pem");
    const std::string rsa = folder.write("rsa.pem", test::pem_of(test::make_rsa_key(2048).get()));
    EXPECT_SAYS(refusal(files.certificate, rsa), errc::invalid_argument, "rsa.pem", "cert.pem");
}

TEST_F(TlsCredentials, AnEncryptedKeyIsToldWithItsCure) {
    const std::string locked = folder.write("locked.pem", test::pem_of(test::make_ec_key().get(), "secret"));
    EXPECT_SAYS(refusal(files.certificate, locked), errc::invalid_argument, "locked.pem", "openssl pkey");
}

TEST_F(TlsCredentials, WhatIsNoPemIsToldAsThat) {
    const std::string text = folder.write("text", "hello\n");
    EXPECT_SAYS(refusal(text, files.key), errc::invalid_argument, "text", "BEGIN CERTIFICATE");
    EXPECT_SAYS(refusal(files.certificate, text), errc::invalid_argument, "text", "BEGIN PRIVATE KEY");
    EXPECT_SAYS(refusal(folder.write("empty", ""), files.key), errc::invalid_argument, "empty", "BEGIN CERTIFICATE");
    EXPECT_SAYS(refusal(files.key, files.key), errc::invalid_argument, "key.pem", "BEGIN CERTIFICATE");
}

TEST_F(TlsCredentials, ADamagedCertificateOfTheChainIsNumbered) {
    const auto key = test::make_ec_key();
    std::string text = test::pem_of(test::make_certificate(key.get(), "own").get());
    std::string damaged = text;
    damaged.replace(80, 4, "AAAA");
    EXPECT_SAYS(refusal(folder.write("chain.pem", text + damaged), folder.write("own.pem", test::pem_of(key.get()))),
                errc::invalid_argument, "chain.pem", "certificate 2");
}

TEST_F(TlsCredentials, AWeakKeyIsRefused) {
    const auto key = test::make_rsa_key(1024);
    EXPECT_SAYS(refusal(folder.write("weak.pem", test::pem_of(test::make_certificate(key.get(), "weak").get())),
                        folder.write("weak.key", test::pem_of(key.get()))),
                errc::invalid_argument, "weak.pem", "2048");
}

TEST_F(TlsCredentials, AServerTakesThemForItsOwnListenersAlone) {
    net::server_options options;
    options.tls = {{.listener = 12345, .credentials = net::tls_credentials(files)}};
    try {
        const net::server server({}, options, [](const net::request&, net::response&) {});
        FAIL() << "made all the same";
    } catch (const error& e) {
        EXPECT_EQ(e.reason(), errc::invalid_argument) << e.what();
        EXPECT_NE(std::string_view(e.what()).find("listener 12345"), std::string_view::npos) << e.what();
    }
}

#else

TEST(TlsCredentials, ABuildWithoutTlsSaysHowToGetIt) {
    try {
        const net::tls_credentials made({"cert.pem", "key.pem"});
        FAIL() << "made all the same";
    } catch (const error& e) {
        EXPECT_EQ(e.reason(), errc::unsupported);
        EXPECT_NE(std::string_view(e.what()).find("-DHOLDFAST_NET_TLS=ON"), std::string_view::npos) << e.what();
    }
}

#endif

}  // namespace
