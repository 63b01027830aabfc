// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/websocket_handshake.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/http_parser.hpp"
#include "net/sha1.hpp"

namespace {

using namespace holdfast;

std::string hex(const auto& bytes) {
    std::string text;
    for (const std::uint8_t byte : bytes) {
        text.push_back("0123456789abcdef"[byte >> 4U]);
        text.push_back("0123456789abcdef"[byte & 15U]);
    }
    return text;
}

// FIPS 180-4's examples, and lengths on both sides of where the padding needs another block.
TEST(Sha1, GivesTheDigestsOfTheStandard) {
    const auto digest = [](std::string_view message) { return hex(net::detail::sha1(message)); };
    EXPECT_EQ(digest(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    EXPECT_EQ(digest("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    EXPECT_EQ(digest(std::string(1000000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    EXPECT_EQ(digest(std::string(55, 'a')), "c1c8bbdc22796e28c0e15163d20899b65621d65a");
    EXPECT_EQ(digest(std::string(56, 'a')), "c2db330f6083854c99d4b5bfb6e8f29f201be699");
    EXPECT_EQ(digest(std::string(63, 'a')), "03f09f5b158a7a8cdad920bddc29b81c18a551f5");
    EXPECT_EQ(digest(std::string(64, 'a')), "0098ba824b5c16427bd7a1122a5a442a25ec644d");
    EXPECT_EQ(digest(std::string(65, 'a')), "11655326c708d70319be2610e8a57d9a5b959d3b");
}

std::string_view view(const std::array<char, 28>& text) { return {text.data(), text.size()}; }

TEST(WebsocketAccept, IsThatOfTheStandardsExamples) {
    EXPECT_EQ(view(net::websocket_accept("dGhlIHNhbXBsZSBub25jZQ==")), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    EXPECT_EQ(view(net::websocket_accept("x3JJHMbDL1EzLkh9GBhXDw==")), "HSmrc0sMlYUkAGmm5OPpG2HaGWk=");
}

// --- the server's end

using fields = std::vector<std::pair<std::string, std::string>>;

const fields plain{{"Host", "a"},
                   {"Upgrade", "websocket"},
                   {"Connection", "Upgrade"},
                   {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="},
                   {"Sec-WebSocket-Version", "13"}};

// The fields of a good request, with one of them as `value` instead ("" leaves it out), and more behind them.
fields but(std::string_view name, std::string_view value, const fields& others = {}) {
    fields changed;
    for (const auto& [n, v] : plain)
        if (n != name)
            changed.emplace_back(n, v);
        else if (!value.empty())
            changed.emplace_back(n, value);
    changed.insert(changed.end(), others.begin(), others.end());
    return changed;
}

fields with(const fields& others) { return but("", "", others); }

struct judged_request {
    explicit judged_request(const fields& sent, std::string_view line = "GET /chat HTTP/1.1",
                            std::string_view body = {}, std::vector<std::string_view> ours = {"chat", "superchat"})
        : protocols(std::move(ours)) {
        bytes.append(line).append("\r\n");
        for (const auto& [name, value] : sent) bytes.append(name).append(": ").append(value).append("\r\n");
        bytes.append("\r\n").append(body);
        EXPECT_EQ(parser.parse(bytes), net::parse_status::complete) << bytes;
        verdict = net::judge_websocket_upgrade(parser.message(), protocols);
    }
    std::vector<std::string_view> protocols;
    std::string bytes;
    net::request_parser parser;
    net::websocket_upgrade verdict;
};

int status_of(const fields& sent, std::string_view line = "GET /chat HTTP/1.1", std::string_view body = {}) {
    const judged_request asked(sent, line, body);
    EXPECT_EQ(asked.verdict.reason.empty(), asked.verdict.status == 101);
    return asked.verdict.status;
}

TEST(WebsocketUpgrade, AcceptsWhatTheStandardAsksFor) {
    const judged_request asked(plain);
    ASSERT_EQ(asked.verdict.status, 101);
    EXPECT_TRUE(net::asks_for_websocket(asked.parser.message()));
    std::string out = "before";
    net::append_websocket_accept(out, asked.parser.message(), asked.verdict);
    EXPECT_EQ(out,
              "beforeHTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
    EXPECT_EQ(status_of(but("Upgrade", "WebSocket")), 101);
    EXPECT_EQ(status_of(but("Upgrade", "h2c, websocket")), 101);
    EXPECT_EQ(status_of(but("Connection", "keep-alive, Upgrade")), 101) << "as Firefox asks";
    EXPECT_EQ(status_of(but("Connection", "keep-alive", {{"Connection", ",upgrade ,"}})), 101);
    EXPECT_EQ(status_of(with({{"Origin", "http://example.org"}, {"Sec-WebSocket-Accept", "x"}})), 101);
}

TEST(WebsocketUpgrade, RefusesWhatIsMalformed) {
    EXPECT_EQ(status_of(plain, "GET /chat HTTP/1.0"), 400);
    EXPECT_EQ(status_of(but("Sec-WebSocket-Key", "")), 400);
    for (const char* key : {"dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZQA=", "AAAA",
                            "dGhlIHNhbXBsZSBub25j*Q==", "dGhlIHNhbXBsZSBub25jZ===", "dGhlIHNhbXBsZSBub25jZUFBQUFB",
                            "dGhlIHNhbXBsZSBub25jZQ==, dGhlIHNhbXBsZSBub25jZQ=="})
        EXPECT_EQ(status_of(but("Sec-WebSocket-Key", key)), 400) << key;
    EXPECT_EQ(status_of(with({{"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}})), 400);
    EXPECT_EQ(status_of(with({{"Sec-WebSocket-Version", "13"}})), 400);
    EXPECT_EQ(status_of(with({{"Content-Length", "1"}}), "GET /chat HTTP/1.1", "x"), 400);
}

TEST(WebsocketUpgrade, TellsAnotherVersionTheOneItSpeaks) {
    for (const char* version : {"0", "7", "8", "12", "14", "013", "13, 8", "thirteen", ""}) {
        const judged_request asked(but("Sec-WebSocket-Version", version));
        EXPECT_EQ(asked.verdict.status, 426) << version;
        net::response answer;
        net::refuse_websocket(answer, asked.verdict);
        EXPECT_EQ(answer.status(), 426);
        EXPECT_NE(answer.fields().find("Sec-WebSocket-Version: 13\r\n"), std::string_view::npos);
        EXPECT_NE(answer.fields().find("Upgrade: websocket\r\n"), std::string_view::npos);
    }
}

TEST(WebsocketUpgrade, TellsAPlainRequestToUpgrade) {
    for (const auto& [name, value] : {std::pair{"Upgrade", ""},
                                      {"Upgrade", "h2c"},
                                      {"Upgrade", "websockets"},
                                      {"Connection", "keep-alive"},
                                      {"Connection", ""}})
        EXPECT_EQ(status_of(but(name, value)), 426) << name << ": " << value;
    EXPECT_FALSE(net::asks_for_websocket(judged_request(but("Upgrade", "")).parser.message()));
    EXPECT_FALSE(net::asks_for_websocket(judged_request(but("Upgrade", "x-websocket")).parser.message()));
}

TEST(WebsocketUpgrade, IsAGet) {
    for (const char* line : {"HEAD / HTTP/1.1", "POST / HTTP/1.1", "PUT / HTTP/1.1"}) {
        const judged_request asked(plain, line);
        EXPECT_EQ(asked.verdict.status, 405);
        net::response answer;
        net::refuse_websocket(answer, asked.verdict);
        EXPECT_NE(answer.fields().find("Allow: GET\r\n"), std::string_view::npos);
    }
}

TEST(WebsocketUpgrade, AgreesOnTheFirstSubprotocolOfTheClientThatIsSpokenHere) {
    const auto chosen = [](const fields& others) {
        const judged_request asked(with(others));
        EXPECT_EQ(asked.verdict.status, 101);
        std::string out;
        net::append_websocket_accept(out, asked.parser.message(), asked.verdict);
        EXPECT_EQ(out.find("Sec-WebSocket-Protocol") == std::string::npos, asked.verdict.protocol.empty());
        return std::string(asked.verdict.protocol);
    };
    EXPECT_EQ(chosen({}), "");
    EXPECT_EQ(chosen({{"Sec-WebSocket-Protocol", "chat"}}), "chat");
    EXPECT_EQ(chosen({{"Sec-WebSocket-Protocol", "mqtt, superchat, chat"}}), "superchat");
    EXPECT_EQ(chosen({{"Sec-WebSocket-Protocol", "mqtt"}, {"sec-websocket-protocol", "chat"}}), "chat");
    EXPECT_EQ(chosen({{"Sec-WebSocket-Protocol", "mqtt"}}), "");
    EXPECT_EQ(chosen({{"Sec-WebSocket-Protocol", "CHAT"}}), "") << "compared with regard to case";
}

TEST(WebsocketUpgrade, RefusesAMalformedListOfSubprotocols) {
    for (const char* list : {"chat, chat", "a b", "chat;x", ",", "chat, (x)", "\"chat\""})
        EXPECT_EQ(status_of(with({{"Sec-WebSocket-Protocol", list}})), 400) << list;
    EXPECT_EQ(status_of(with({{"Sec-WebSocket-Protocol", "chat"}, {"Sec-WebSocket-Protocol", "chat"}})), 400);
    const auto many = [](int count) {
        std::string list;
        for (int i = 0; i < count; ++i) list += "p" + std::to_string(i) + ",";
        return status_of(with({{"Sec-WebSocket-Protocol", list}}));
    };
    EXPECT_EQ(many(32), 101);
    EXPECT_EQ(many(33), 400);
}

TEST(WebsocketUpgrade, DeclinesExtensionsButNotTheirGrammar) {
    for (const char* list : {"permessage-deflate", "permessage-deflate; client_max_window_bits", "x;a=1;b=\"2\", y ;c",
                             "foo; bar; baz=qux , ,permessage-deflate;a=\"\\b\""}) {
        const judged_request asked(with({{"Sec-WebSocket-Extensions", list}}));
        ASSERT_EQ(asked.verdict.status, 101) << list;
        std::string out;
        net::append_websocket_accept(out, asked.parser.message(), asked.verdict);
        EXPECT_EQ(out.find("Extensions"), std::string::npos);
    }
    for (const char* list : {"", ",", ";", "x;", "x;=1", "x;a=", "x;a=\"", "x;a=\"\"", "x;a=\"b", "x;a=\"b c\"", "x y",
                             "x;a b", "x;a=b=c", "x, ;a", "\"x\""})
        EXPECT_EQ(status_of(with({{"Sec-WebSocket-Extensions", list}})), 400) << list;
}

// Offers of permessage-deflate, and what is said to them where it is spoken here: empty, it is declined.
struct offer_case {
    std::string_view offers;
    std::string_view parameters;  // of the answer, behind those that it always has; "-": it is declined
    unsigned window_bits = 15;
};
constexpr offer_case offer_cases[] = {
    {"permessage-deflate", ""},
    {"permessage-deflate; client_max_window_bits", ""},  // as browsers offer it
    {"permessage-deflate; client_max_window_bits=8", ""},
    {"permessage-deflate; client_max_window_bits=15;server_no_context_takeover ; client_no_context_takeover", ""},
    {"permessage-deflate; server_max_window_bits=15", "; server_max_window_bits=15"},
    {"permessage-deflate; server_max_window_bits=9", "; server_max_window_bits=9", 9},
    {"permessage-deflate; server_max_window_bits=\"10\"", "; server_max_window_bits=10", 10},
    {"permessage-deflate; server_max_window_bits=\"1\\1\"", "; server_max_window_bits=11", 11},
    {"permessage-deflate; server_max_window_bits=12; client_max_window_bits", "; server_max_window_bits=12", 12},
    {"x-webkit-deflate-frame, permessage-deflate", ""},
    {"permessage-deflate; unknown, permessage-deflate; server_max_window_bits=9, permessage-deflate",
     "; server_max_window_bits=9", 9},
    {"permessage-deflate; server_max_window_bits=8, permessage-deflate", ""},
    {"permessage-deflate, permessage-deflate; server_max_window_bits=9", ""},
    {"", "-"},
    {"permessage-deflate; unknown", "-"},
    {"permessage-deflate; server_max_window_bits", "-"},
    {"permessage-deflate; server_max_window_bits=8", "-"},  // as the standard has it, but not zlib
    {"permessage-deflate; server_max_window_bits=7", "-"},
    {"permessage-deflate; server_max_window_bits=16", "-"},
    {"permessage-deflate; server_max_window_bits=010", "-"},
    {"permessage-deflate; server_max_window_bits=100", "-"},
    {"permessage-deflate; server_max_window_bits=4294967305", "-"},
    {"permessage-deflate; server_max_window_bits=1x", "-"},
    {"permessage-deflate; server_max_window_bits=+9", "-"},
    {"permessage-deflate; server_max_window_bits=10; server_max_window_bits=10", "-"},
    {"permessage-deflate; server_max_window_bits; server_max_window_bits=10", "-"},
    {"permessage-deflate; client_max_window_bits=7", "-"},
    {"permessage-deflate; client_max_window_bits=16", "-"},
    {"permessage-deflate; client_max_window_bits=08", "-"},
    {"permessage-deflate; client_max_window_bits; client_max_window_bits", "-"},
    {"permessage-deflate; server_no_context_takeover=1", "-"},
    {"permessage-deflate; client_no_context_takeover=\"true\"", "-"},
    {"permessage-deflate; server_no_context_takeover; server_no_context_takeover", "-"},
    {"permessage-deflate; client_no_context_takeover; client_no_context_takeover", "-"},
    {"permessage-deflate; Server_no_context_takeover", "-"},
    {"Permessage-deflate", "-"},
    {"permessage-deflate2", "-"},
    {"permessage-bzip2, foo; server_max_window_bits=10", "-"},
};

std::string answer_to_offers(const fields& offers, bool spoken, unsigned* window_bits = nullptr) {
    const judged_request asked(with(offers));
    const auto verdict = net::judge_websocket_upgrade(asked.parser.message(), asked.protocols, spoken);
    EXPECT_EQ(verdict.status, 101);
    if (window_bits != nullptr) *window_bits = verdict.window_bits;
    std::string out;
    net::append_websocket_accept(out, asked.parser.message(), verdict);
    constexpr std::string_view field = "Sec-WebSocket-Extensions: ";
    const std::size_t at = out.find(field);
    if (at == std::string::npos) return "-";
    return out.substr(at + field.size(), out.find("\r\n", at) - at - field.size());
}

TEST(WebsocketUpgrade, AgreesOnPermessageDeflateWhereThatIsWanted) {
    constexpr std::string_view always = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    for (const offer_case& c : offer_cases) {
        SCOPED_TRACE(c.offers);
        const fields offers = c.offers.empty() ? fields{} : fields{{"Sec-WebSocket-Extensions", std::string(c.offers)}};
        const bool declined = c.parameters == "-";
        unsigned window_bits = 0;
        EXPECT_EQ(answer_to_offers(offers, true, &window_bits),
                  declined ? "-" : std::string(always).append(c.parameters));
        EXPECT_EQ(window_bits, declined ? 0 : c.window_bits);
        EXPECT_EQ(answer_to_offers(offers, false, &window_bits), "-") << "off by default";
        EXPECT_EQ(window_bits, 0U);
    }
    EXPECT_EQ(answer_to_offers({{"Sec-WebSocket-Extensions", "permessage-deflate; x"},
                                {"sec-websocket-extensions", "permessage-deflate; server_max_window_bits=13"}},
                               true),
              std::string(always).append("; server_max_window_bits=13"))
        << "of several fields";
    EXPECT_EQ(status_of(with({{"Sec-WebSocket-Extensions", "permessage-deflate, permessage-deflate; ="}})), 400);
}

TEST(WebsocketUpgrade, MalformedOutranksAllElse) {
    EXPECT_EQ(status_of(but("Sec-WebSocket-Version", "8", {{"Sec-WebSocket-Extensions", ";"}})), 400);
    EXPECT_EQ(status_of(but("Upgrade", "h2c", {{"Sec-WebSocket-Protocol", "a b"}})), 400);
    EXPECT_EQ(status_of(but("Sec-WebSocket-Key", "x"), "POST / HTTP/1.1"), 400);
}

// --- the client's end

using status = net::websocket_opening::status;
constexpr std::string_view ours[] = {"chat", "superchat"};

std::string key_of(const net::websocket_opening& opening) {
    constexpr std::string_view field = "Sec-WebSocket-Key: ";
    const std::string_view bytes = opening.request_bytes();
    return std::string(bytes.substr(bytes.find(field) + field.size(), 24));
}

// The answer of a server to this request, with fields replaced ("" leaves one out) or added.
std::string answer_to(const net::websocket_opening& opening, const std::map<std::string, std::string>& changes = {},
                      std::string_view line = "HTTP/1.1 101 Switching Protocols") {
    std::map<std::string, std::string> sent{
        {"Upgrade", "websocket"},
        {"Connection", "Upgrade"},
        {"Sec-WebSocket-Accept", std::string(view(net::websocket_accept(key_of(opening))))}};
    for (const auto& [name, value] : changes) sent[name] = value;
    std::string bytes = std::string(line) + "\r\n";
    for (const auto& [name, value] : sent)
        if (!value.empty()) bytes.append(name).append(": ").append(value).append("\r\n");
    return bytes + "\r\n";
}

TEST(WebsocketOpening, IsAcceptedByTheServersEnd) {
    net::websocket_key_source keys;
    const net::header_field others[] = {{"Origin", "http://example.org"}};
    net::websocket_opening opening(keys,
                                   {.host = "example.org:81", .target = "/a?b=c", .protocols = ours, .fields = others});
    std::string bytes(opening.request_bytes());
    net::request_parser parser;
    ASSERT_EQ(parser.parse(bytes), net::parse_status::complete);
    EXPECT_EQ(parser.consumed(), bytes.size());
    EXPECT_EQ(parser.message().target(), "/a?b=c");
    EXPECT_EQ(parser.message().host(), "example.org:81");
    EXPECT_EQ(parser.message().header("Origin"), "http://example.org");
    constexpr std::string_view spoken[] = {"superchat"};
    const auto verdict = net::judge_websocket_upgrade(parser.message(), spoken);
    ASSERT_EQ(verdict.status, 101) << verdict.reason;
    std::string answer;
    net::append_websocket_accept(answer, parser.message(), verdict);
    ASSERT_EQ(opening.read(answer + "\x81\x05Hello"), status::complete) << opening.reason();
    EXPECT_EQ(opening.consumed(), answer.size());
    EXPECT_EQ(opening.protocol(), "superchat");
    EXPECT_EQ(opening.code(), 101);
}

TEST(WebsocketOpening, ReadsTheAnswerHoweverItIsCut) {
    net::websocket_key_source keys;
    const net::websocket_opening fresh(keys, {.host = "a"});
    for (const std::string& answer : {answer_to(fresh), answer_to(fresh, {{"Upgrade", "h2c"}}),
                                      std::string("HTTP/1.1 403 Forbidden\r\nX: y\r\n\r\n")}) {
        net::websocket_opening whole(fresh);
        const status expected = whole.read(answer + "behind");
        ASSERT_NE(expected, status::need_more);
        net::websocket_opening bytewise(fresh);
        for (std::size_t known = 0; known < answer.size(); ++known)
            ASSERT_EQ(bytewise.read(std::string_view(answer).substr(0, known)), status::need_more);
        EXPECT_EQ(bytewise.read(answer), expected);
        EXPECT_EQ(bytewise.reason(), whole.reason());
        EXPECT_EQ(bytewise.consumed(), whole.consumed());
        EXPECT_EQ(bytewise.read(answer), expected) << "the verdict is final";
    }
}

TEST(WebsocketOpening, TakesAnswersInOtherSpellings) {
    net::websocket_key_source keys;
    for (const std::map<std::string, std::string>& changes :
         {std::map<std::string, std::string>{{"Upgrade", "WebSocket"}},
          {{"Connection", "keep-alive, upgrade"}},
          {{"Server", "x"}, {"Date", "y"}}}) {
        net::websocket_opening opening(keys, {.host = "a"});
        EXPECT_EQ(opening.read(answer_to(opening, changes)), status::complete) << opening.reason();
    }
    net::websocket_opening opening(keys, {.host = "a"});
    EXPECT_EQ(opening.read(answer_to(opening, {}, "HTTP/1.1 101 ")), status::complete) << "a reason may be empty";
}

// RFC 9110 section 15.2: a client parses any number of interim answers before the final one.
TEST(WebsocketOpening, ReadsOverInterimAnswers) {
    net::websocket_key_source keys;
    const net::websocket_opening fresh(keys, {.host = "a"});
    const std::string interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 \r\n\r\n";
    const std::string answer = interim + answer_to(fresh);
    net::websocket_opening whole(fresh);
    ASSERT_EQ(whole.read(answer + "behind"), status::complete) << whole.reason();
    EXPECT_EQ(whole.consumed(), answer.size());
    EXPECT_EQ(whole.code(), 101);
    net::websocket_opening bytewise(fresh);
    for (std::size_t known = 0; known < answer.size(); ++known) {
        ASSERT_EQ(bytewise.read(std::string_view(answer).substr(0, known)), status::need_more) << known;
        ASSERT_EQ(bytewise.code(), 0) << "no answer yet";
    }
    EXPECT_EQ(bytewise.read(answer), status::complete);
    EXPECT_EQ(bytewise.consumed(), answer.size());

    net::websocket_opening forbidden(fresh);
    EXPECT_EQ(forbidden.read(interim + "HTTP/1.1 403 Forbidden\r\n\r\n"), status::refused);
    EXPECT_EQ(forbidden.code(), 403);
    net::websocket_opening malformed(fresh);
    EXPECT_EQ(malformed.read("HTTP/1.1 103 x\r\n folded\r\n\r\n"), status::refused);
    for (const std::size_t limit : {answer.size() - 1, answer.size()}) {
        net::websocket_opening limited(keys, {.host = "a", .header_bytes_max = limit});
        EXPECT_EQ(limited.read(interim + answer_to(limited)),
                  limit == answer.size() ? status::complete : status::refused);
    }
}

TEST(WebsocketOpening, RefusesAnswersThatBreakARule) {
    net::websocket_key_source keys;
    const auto refused = [&](const std::map<std::string, std::string>& changes,
                             std::string_view line = "HTTP/1.1 101 Switching Protocols") {
        net::websocket_opening opening(keys, {.host = "a", .protocols = ours});
        EXPECT_EQ(opening.read(answer_to(opening, changes, line)), status::refused);
        EXPECT_EQ(opening.consumed(), 0U);
        return std::string(opening.reason());
    };
    EXPECT_EQ(refused({{"Upgrade", ""}}), "Upgrade is not websocket");
    EXPECT_EQ(refused({{"Upgrade", "websocket, h2c"}}), "Upgrade is not websocket");
    EXPECT_EQ(refused({{"upgrade", "websocket"}}), "Upgrade is not websocket") << "twice";
    EXPECT_EQ(refused({{"Connection", ""}}), "Connection does not name upgrade");
    EXPECT_EQ(refused({{"Connection", "keep-alive"}}), "Connection does not name upgrade");
    EXPECT_EQ(refused({{"Sec-WebSocket-Accept", ""}}), "Sec-WebSocket-Accept does not fit the key");
    EXPECT_EQ(refused({{"Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="}}),
              "Sec-WebSocket-Accept does not fit the key");
    EXPECT_EQ(refused({{"sec-websocket-accept", "x"}}), "Sec-WebSocket-Accept does not fit the key") << "twice";
    EXPECT_EQ(refused({{"Sec-WebSocket-Extensions", "permessage-deflate"}}), "extension that was not offered");
    EXPECT_EQ(refused({{"Sec-WebSocket-Protocol", "mqtt"}}), "subprotocol that was not offered");
    EXPECT_EQ(refused({{"Sec-WebSocket-Protocol", "chat, superchat"}}), "subprotocol that was not offered");
    EXPECT_EQ(refused({{"Sec-WebSocket-Protocol", "chat"}, {"sec-websocket-protocol", "chat"}}),
              "repeated Sec-WebSocket-Protocol");
    EXPECT_EQ(refused({}, "HTTP/1.0 101 Switching Protocols"), "101 in HTTP/1.0");
    for (const char* line : {"HTTP/1.1 200 OK", "HTTP/1.1 403 Forbidden", "HTTP/1.1 301 Moved", "HTTP/1.1 600 x"})
        EXPECT_EQ(refused({}, line), "the server does not change to WebSocket") << line;
    for (const char* line : {"HTTP/2 101 x", "HTTP/1.1 101x", "HTTP/1.1  101", "HTTP/1.1 10", "http/1.1 101 x", "",
                             "HTTP/1.x 101 a", "HTTP/1.1 1O1 x", "HTTP/1.1 101 a\rb"})
        EXPECT_EQ(refused({}, line), "answer is not HTTP/1") << line;
    for (const auto& [name, value] :
         {std::pair{"a b", "x"}, {"a ", "x"}, {" folded", "x"}, {"a", "x\ry"}, {"a", "x\ny"}, {"a", "\x01"}})
        EXPECT_EQ(refused({{name, value}}), "malformed field in the answer") << name;
}

TEST(WebsocketOpening, OffersPermessageDeflateWhereThatIsWanted) {
    net::websocket_key_source keys;
    net::websocket_opening opening(keys, {.host = "a", .permessage_deflate = true});
    std::string bytes(opening.request_bytes());
    net::request_parser parser;
    ASSERT_EQ(parser.parse(bytes), net::parse_status::complete);
    for (const bool spoken : {true, false}) {
        const auto verdict = net::judge_websocket_upgrade(parser.message(), {}, spoken);
        ASSERT_EQ(verdict.status, 101);
        std::string answer;
        net::append_websocket_accept(answer, parser.message(), verdict);
        net::websocket_opening asked(opening);
        ASSERT_EQ(asked.read(answer), status::complete) << asked.reason();
        EXPECT_EQ(asked.permessage_deflate(), spoken);
    }
    net::websocket_opening without(keys, {.host = "a"});
    EXPECT_EQ(without.request_bytes().find("Sec-WebSocket-Extensions"), std::string_view::npos);
    ASSERT_EQ(without.read(answer_to(without)), status::complete);
    EXPECT_FALSE(without.permessage_deflate());
}

TEST(WebsocketOpening, TakesNoAnswerThatItDidNotOffer) {
    net::websocket_key_source keys;
    const auto agreed = [&](const std::map<std::string, std::string>& changes) {
        net::websocket_opening opening(keys, {.host = "a", .permessage_deflate = true});
        const status told = opening.read(answer_to(opening, changes));
        EXPECT_EQ(told == status::complete, opening.permessage_deflate()) << "refused, or agreed on";
        if (told != status::complete) {
            EXPECT_EQ(opening.reason(), "permessage-deflate was not answered as it was offered");
        }
        return opening.permessage_deflate();
    };
    const auto extension = [&](std::string_view answer) {
        return agreed({{"Sec-WebSocket-Extensions", std::string(answer)}});
    };
    for (const char* answer : {"permessage-deflate; server_no_context_takeover",
                               "permessage-deflate; client_no_context_takeover; server_no_context_takeover",
                               "permessage-deflate; server_no_context_takeover; server_max_window_bits=8",
                               "permessage-deflate;server_max_window_bits=\"15\" ;server_no_context_takeover",
                               " , permessage-deflate; server_no_context_takeover ,"})
        EXPECT_TRUE(extension(answer)) << answer;
    for (const char* answer :
         {"permessage-deflate",  // would have us keep a window
          "permessage-deflate; client_no_context_takeover",
          "permessage-deflate; server_no_context_takeover; client_max_window_bits=15",  // was not offered
          "permessage-deflate; server_no_context_takeover; client_max_window_bits",
          "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
          "permessage-deflate; server_no_context_takeover=1",
          "permessage-deflate; server_no_context_takeover; server_max_window_bits",
          "permessage-deflate; server_no_context_takeover; server_max_window_bits=7",
          "permessage-deflate; server_no_context_takeover; server_max_window_bits=16",
          "permessage-deflate; server_no_context_takeover; unknown",
          "permessage-deflate; server_no_context_takeover, permessage-deflate; server_no_context_takeover",
          "permessage-deflate; server_no_context_takeover, x", "x, permessage-deflate; server_no_context_takeover", "x",
          "permessage-deflate; server_no_context_takeover;", ";", ","})
        EXPECT_FALSE(extension(answer)) << answer;
    EXPECT_FALSE(agreed({{"Sec-WebSocket-Extensions", "permessage-deflate; server_no_context_takeover"},
                         {"sec-websocket-extensions", "permessage-deflate; server_no_context_takeover"}}));
}

TEST(WebsocketOpening, TellsTheStatusOfARefusal) {
    net::websocket_key_source keys;
    net::websocket_opening opening(keys, {.host = "a"});
    EXPECT_EQ(opening.read("HTTP/1.1 401 Unauthorized\r\n\r\n"), status::refused);
    EXPECT_EQ(opening.code(), 401);
    net::websocket_opening other(keys, {.host = "a"});
    EXPECT_EQ(other.read("SSH-2.0-OpenSSH\r\n\r\n"), status::refused);
    EXPECT_EQ(other.code(), 0);
}

TEST(WebsocketOpening, KeepsToItsLimit) {
    net::websocket_key_source keys;
    const net::websocket_opening fresh(keys, {.host = "a"});
    const std::size_t size = answer_to(fresh).size();
    for (const std::size_t limit : {size - 1, size}) {
        net::websocket_opening opening(keys, {.host = "a", .header_bytes_max = limit});
        const std::string answer = answer_to(opening);
        ASSERT_EQ(answer.size(), size);
        EXPECT_EQ(opening.read(answer), limit == size ? status::complete : status::refused);
    }
    net::websocket_opening endless(keys, {.host = "a", .header_bytes_max = 100});
    EXPECT_EQ(endless.read(std::string(99, 'x')), status::need_more);
    EXPECT_EQ(endless.read(std::string(100, 'x')), status::refused);
}

TEST(WebsocketOpening, IsNotMadeOfWhatWouldForgeARequest) {
    net::websocket_key_source keys;
    const auto throws = [&](const net::websocket_opening::options& chosen) {
        try {
            net::websocket_opening opening(keys, chosen);
            return false;
        } catch (const error& e) {
            return e.reason() == errc::invalid_argument;
        }
    };
    for (const char* host : {"", "a b", "a\r\nX: y", "a/b", "user@a", "\xC3\xA9"})
        EXPECT_TRUE(throws({.host = host})) << host;
    for (const char* target : {"", "x", "/a b", "/\r\nX: y", "/%2", "/\xC3\xA9", "http://a/"})
        EXPECT_TRUE(throws({.host = "a", .target = target})) << target;
    constexpr std::string_view twice[] = {"a", "a"}, blank[] = {"a b"}, empty[] = {""};
    EXPECT_TRUE(throws({.host = "a", .protocols = twice}));
    EXPECT_TRUE(throws({.host = "a", .protocols = blank}));
    EXPECT_TRUE(throws({.host = "a", .protocols = empty}));
    for (const net::header_field field : {net::header_field{"a b", "x"},
                                          {"", "x"},
                                          {"a", "x\r\nb: y"},
                                          {"Host", "b"},
                                          {"upgrade", "h2c"},
                                          {"SEC-WEBSOCKET-KEY", "x"},
                                          {"Content-Length", "1"}})
        EXPECT_TRUE(throws({.host = "a", .fields = {&field, 1}})) << field.name;
    EXPECT_FALSE(throws({.host = "[::1]:80", .target = "/?q"}));
}

}  // namespace
