// SPDX-License-Identifier: Apache-2.0
// websocket_frames_test.cpp - reader, frames and session of WebSocket: the case families of the Autobahn suite (1
// framing, 2 pings and pongs, 3 reserved bits, 4 opcodes, 5 fragmentation, 6 UTF-8, 7 closing, 9 limits, 10 automatic
// fragmentation), both roles, each stream cut at every byte; random streams against a model and against libwslay.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/net/utf8_checker.hpp"
#include "holdfast/net/websocket_frame.hpp"
#include "holdfast/net/websocket_reader.hpp"
#include "holdfast/net/websocket_session.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/websocket_trace.hpp"

#ifdef HOLDFAST_TEST_WITH_WSLAY
#include <wslay/wslay.h>
#endif

namespace {

using namespace holdfast;
using namespace std::string_literals;
using net::websocket_role;
using net::websocket_sent;
using test::raw_frame;
using test::websocket_line;
using test::websocket_trace_in_steps;

constexpr net::websocket_limits limits{.frame_bytes_max = 70000, .message_bytes_max = 200000};

struct frame {
    unsigned first;  // 0x80 last, 0x40 to 0x10 reserved, opcode
    std::string payload{};
    int length_form = -1;
};

struct frame_case {
    std::string name;
    std::vector<frame> frames;
    std::string expected;
};

constexpr unsigned more = 0x00, text = 0x01, binary = 0x02, last = 0x80, close_ = 0x88, ping = 0x89, pong = 0x8A;

std::string close_body(unsigned code, std::string_view reason = {}) {
    return std::string{static_cast<char>(code >> 8U), static_cast<char>(code & 0xFFU)}.append(reason);
}

const std::string greek = "Hello-\xCE\xBA\xE1\xBD\xB9\xCF\x83\xCE\xBC\xCE\xB5-UTF-8!!";

std::vector<frame_case> framing_cases() {
    std::vector<frame_case> cases;
    for (const std::size_t size : {0U, 1U, 3U, 4U, 7U, 8U, 17U, 125U, 126U, 127U, 128U, 65535U, 65536U}) {
        const std::string payload(size, '*');
        cases.push_back({"text of " + std::to_string(size), {{last | text, payload}}, websocket_line("text", payload)});
        const std::string bytes(size, '\xFE');
        cases.push_back(
            {"binary of " + std::to_string(size), {{last | binary, bytes}}, websocket_line("binary", bytes)});
        if (size <= 125) {
            cases.push_back({"ping of " + std::to_string(size), {{ping, bytes}}, websocket_line("ping", bytes)});
            cases.push_back({"pong of " + std::to_string(size), {{pong, bytes}}, websocket_line("pong", bytes)});
        } else {
            cases.push_back({"ping of " + std::to_string(size), {{ping, bytes}}, "refused 1002\n"});
            cases.push_back({"pong of " + std::to_string(size), {{pong, bytes}}, "refused 1002\n"});
            cases.push_back({"close of " + std::to_string(size), {{close_, bytes}}, "refused 1002\n"});
        }
    }
    const std::string short_text(125, 'a'), middle_text(65535, 'a');
    cases.push_back({"length 125 in two bytes", {{last | text, short_text, 2}}, "refused 1002\n"});
    cases.push_back({"length 0 in two bytes", {{last | binary, "", 2}}, "refused 1002\n"});
    cases.push_back({"length 125 in eight bytes", {{last | text, short_text, 8}}, "refused 1002\n"});
    cases.push_back({"length 65535 in eight bytes", {{last | text, middle_text, 8}}, "refused 1002\n"});
    cases.push_back({"ping with a length of two bytes", {{ping, "", 2}}, "refused 1002\n"});
    cases.push_back({"ten pings", std::vector<frame>(10, frame{ping, "payload"}), ""});
    for (int i = 0; i < 10; ++i) cases.back().expected += "ping payload\n";
    cases.push_back({"a pong, then a ping", {{pong, "x"}, {ping, "y"}}, "pong x\nping y\n"});
    return cases;
}

std::vector<frame_case> reserved_cases() {
    std::vector<frame_case> cases;
    for (unsigned bits = 1; bits < 8; ++bits)
        for (const unsigned first : {last | text, text, ping, close_}) {
            const std::string name = "reserved bits " + std::to_string(bits) + " on " + std::to_string(first);
            cases.push_back({name, {{first | bits << 4U, "a"}}, "refused 1002\n"});
            cases.push_back({name + " behind a text",
                             {{last | text, "a"}, {first | bits << 4U, "b"}, {ping, ""}},
                             "text a\nrefused 1002\n"});
        }
    for (const unsigned opcode : {3U, 4U, 5U, 6U, 7U, 11U, 12U, 13U, 14U, 15U})
        for (const std::string& payload : {""s, "a"s}) {
            const std::string name = "opcode " + std::to_string(opcode) + " with " + std::to_string(payload.size());
            cases.push_back({name, {{last | opcode, payload}}, "refused 1002\n"});
            cases.push_back({name + " behind a text",
                             {{last | text, "a"}, {last | opcode, payload}, {ping, ""}},
                             "text a\nrefused 1002\n"});
            cases.push_back({name + " within a text", {{text, "a"}, {last | opcode, payload}}, "refused 1002\n"});
        }
    return cases;
}

std::vector<frame_case> fragment_cases() {
    return {
        {"ping in fragments", {{0x09, "a"}, {last | more, "b"}}, "refused 1002\n"},
        {"pong in fragments", {{0x0A, "a"}, {last | more, "b"}}, "refused 1002\n"},
        {"close in fragments", {{0x08, close_body(1000)}, {last | more, "b"}}, "refused 1002\n"},
        {"text in two", {{text, "ab"}, {last | more, "cd"}}, "text abcd\n"},
        {"binary in three", {{binary, "ab"}, {more, "cd"}, {last | more, "\xFF"}}, "binary abcd\xFF\n"},
        {"empty fragments", {{text, ""}, {more, ""}, {last | more, ""}}, "text \n"},
        {"empty around one", {{text, ""}, {more, "mid"}, {last | more, ""}}, "text mid\n"},
        {"ping between", {{text, "ab"}, {ping, "p"}, {last | more, "cd"}}, "ping p\ntext abcd\n"},
        {"pings between, of all sizes",
         {{text, "ab"}, {ping, std::string(125, 'p')}, {more, "cd"}, {ping, ""}, {pong, "q"}, {last | more, "ef"}},
         "ping " + std::string(125, 'p') + "\nping \npong q\ntext abcdef\n"},
        {"ping before the first byte", {{text, ""}, {ping, "p"}, {last | more, "cd"}}, "ping p\ntext cd\n"},
        {"close between", {{text, "ab"}, {close_, close_body(1000, "bye")}, {last | more, "cd"}}, "close 1000 bye\n"},
        {"continuation of nothing", {{last | more, "a"}}, "refused 1002\n"},
        {"continuation of nothing, not the last", {{more, "a"}, {last | text, "b"}}, "refused 1002\n"},
        {"continuation behind a whole text", {{last | text, "a"}, {last | more, "b"}}, "text a\nrefused 1002\n"},
        {"text within a text", {{text, "a"}, {last | text, "b"}}, "refused 1002\n"},
        {"binary within a text", {{text, "a"}, {last | binary, "b"}}, "refused 1002\n"},
        {"text begun within a text", {{text, "a"}, {text, "b"}}, "refused 1002\n"},
        {"text within a text behind a ping", {{text, "a"}, {ping, "p"}, {last | text, "b"}}, "ping p\nrefused 1002\n"},
        {"two messages in fragments",
         {{text, "a"}, {last | more, "b"}, {binary, "\x80"}, {ping, ""}, {last | more, "c"}},
         "text ab\nping \nbinary \x80"
         "c\n"},
        {"an unfinished message", {{text, "ab"}, {more, "cd"}, {ping, "p"}}, "ping p\n"},
    };
}

std::vector<frame_case> utf8_cases() {
    std::vector<frame_case> cases;
    const auto good = [&](std::string_view t) {
        cases.push_back({"good " + std::string(t), {{last | text, std::string(t)}}, websocket_line("text", t)});
        // The same, a byte a fragment, with pings between.
        frame_case split{"good, in bytes: " + std::string(t), {{text, ""}}, ""};
        for (const char c : t) {
            split.frames.push_back({more, std::string(1, c)});
            split.frames.push_back({ping, ""});
            split.expected += "ping \n";
        }
        split.frames.push_back({last | more, ""});
        split.expected += websocket_line("text", t);
        cases.push_back(split);
    };
    const auto bad = [&](std::string_view t) {
        cases.push_back({"bad " + std::string(t), {{last | text, std::string(t)}, {ping, ""}}, "refused 1007\n"});
        cases.push_back({"bad in fragments " + std::string(t),
                         {{text, std::string(t.substr(0, t.size() / 2))},
                          {last | more, std::string(t.substr(t.size() / 2))},
                          {ping, ""}},
                         "refused 1007\n"});
    };
    good(greek);
    for (const std::string_view t : {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                                     "\xEF\xBF\xBD", "\xEF\xBF\xBE", "\xEF\xBF\xBF", "\xF0\x90\x80\x80",
                                     "\xF0\x9F\xBF\xBE", "\xF4\x8F\xBF\xBF", "\xF0\x9F\x98\x80 and ASCII"})
        good(t);
    good("\0"s);
    for (const std::string_view t : {"\x80",
                                     "\xBF",
                                     "\xBF\x80",
                                     "\xFE",
                                     "\xFF",
                                     "\xC0\xAF",
                                     "\xC1\xBF",
                                     "\xE0\x80\xAF",
                                     "\xE0\x9F\xBF",
                                     "\xF0\x80\x80\xAF",
                                     "\xF0\x8F\xBF\xBF",
                                     "\xF8\x88\x80\x80\x80",
                                     "\xFC\x84\x80\x80\x80\x80",
                                     "\xED\xA0\x80",
                                     "\xED\xAF\xBF\xED\xBF\xBF",
                                     "\xF4\x90\x80\x80",
                                     "\xF5\x80\x80\x80",
                                     "\xC2",
                                     "\xE1\xBD",
                                     "\xF0\x90\x80",
                                     "abc\xC3(",
                                     "\xE2\x28\xA1",
                                     "\xF0\x28\x8C\xBC",
                                     "a run of sixteen bytes and more, then \xFF"})
        bad(t);
    cases.push_back(
        {"not UTF-8 in a binary and in a ping", {{last | binary, "\xFF"}, {ping, "\xFF"}}, "binary \xFF\nping \xFF\n"});
    cases.push_back(
        {"state does not go over to the next text", {{last | text, "\xC2"}, {last | text, "\x80"}}, "refused 1007\n"});
    return cases;
}

std::vector<frame_case> close_cases() {
    std::vector<frame_case> cases{
        {"without a body", {{close_, ""}}, "close 1005 \n"},
        {"one byte", {{close_, "\x03"}}, "refused 1002\n"},
        {"with a reason", {{close_, close_body(1000, greek)}}, "close 1000 " + greek + "\n"},
        {"the longest reason",
         {{close_, close_body(1000, std::string(123, '*'))}},
         "close 1000 " + std::string(123, '*') + "\n"},
        {"a reason too long", {{close_, close_body(1000, std::string(124, '*'))}}, "refused 1002\n"},
        {"a reason that is not UTF-8", {{close_, close_body(1000, "ok\xED\xA0\x80")}}, "refused 1007\n"},
        {"a reason cut within a character", {{close_, close_body(1000, "ok\xE1\xBD")}}, "refused 1007\n"},
        {"twice", {{close_, close_body(1000)}, {close_, close_body(1001)}}, "close 1000 \n"},
        {"a text behind", {{close_, close_body(1000)}, {last | text, "a"}}, "close 1000 \n"},
        {"a ping behind", {{close_, close_body(1000)}, {ping, "a"}}, "close 1000 \n"},
        {"nonsense behind", {{close_, close_body(1000)}, {0x7F, "a"}}, "close 1000 \n"},
    };
    for (const unsigned code : {1000U, 1001U, 1002U, 1003U, 1007U, 1008U, 1009U, 1010U, 1011U, 1012U, 1013U, 1014U,
                                3000U, 3999U, 4000U, 4999U})
        cases.push_back(
            {"code " + std::to_string(code), {{close_, close_body(code)}}, "close " + std::to_string(code) + " \n"});
    for (const unsigned code : {0U, 1U, 999U, 1004U, 1005U, 1006U, 1015U, 1016U, 1100U, 2000U, 2999U, 5000U, 65535U})
        cases.push_back({"code " + std::to_string(code), {{close_, close_body(code, "r")}}, "refused 1002\n"});
    return cases;
}

std::vector<frame_case> limit_cases() {
    const std::string frame_max(limits.frame_bytes_max, 'x');
    std::vector<frame_case> cases{
        {"the largest frame", {{last | binary, frame_max}}, websocket_line("binary", frame_max)},
        {"a frame beyond the largest", {{last | binary, frame_max + "x"}}, "refused 1009\n"},
        {"a message beyond the largest",
         {{binary, frame_max}, {more, frame_max}, {last | more, frame_max}},
         "refused 1009\n"},
        {"the largest message",
         {{text, frame_max}, {more, frame_max}, {ping, "p"}, {last | more, frame_max.substr(0, 60000)}},
         "ping p\n" + websocket_line("text", std::string(200000, 'x'))},
        {"the largest message and one byte",
         {{text, frame_max}, {more, frame_max}, {last | more, std::string(60001, 'x')}},
         "refused 1009\n"},
    };
    // Performance shapes: a message in many small frames; and a text in frames of 1300 as libraries make them.
    for (const std::size_t piece : {1U, 64U, 256U, 1300U}) {
        const std::string whole(piece == 1 ? 1000 : piece < 1000 ? 8192 : 65536, 'y');
        frame_case c{"frames of " + std::to_string(piece), {}, websocket_line("text", whole)};
        for (std::size_t at = 0; at < whole.size(); at += piece)
            c.frames.push_back(
                {(at == 0 ? text : more) | (at + piece >= whole.size() ? last : 0U), whole.substr(at, piece)});
        cases.push_back(c);
    }
    return cases;
}

std::string stream_of(const frame_case& c, bool masked) {
    std::string stream;
    for (const frame& f : c.frames) stream += raw_frame(f.first, f.payload, masked, f.length_form);
    return stream;
}

// Each case to both roles: whole, cut at every byte (of a long stream: at its ends and here and there), in small steps.
void expect_all(const std::vector<frame_case>& cases) {
    for (const frame_case& c : cases)
        for (const websocket_role role : {websocket_role::server, websocket_role::client}) {
            SCOPED_TRACE(c.name + (role == websocket_role::server ? ", to a server" : ", to a client"));
            const std::string stream = stream_of(c, role == websocket_role::server);
            ASSERT_EQ(websocket_trace_in_steps(stream, stream.size() + 1, role, limits), c.expected);
            ASSERT_EQ(test::websocket_model(stream, role, limits), c.expected) << "the model is wrong";
            const bool is_long = stream.size() > 2000;
            for (std::size_t cut = 1; cut < stream.size();
                 cut += is_long && cut > 15 && cut + 3 < stream.size() ? stream.size() / 4 : 1) {
                test::websocket_trace trace(role, limits);
                trace.feed(std::string_view(stream).substr(0, cut));
                trace.feed(std::string_view(stream).substr(cut));
                ASSERT_EQ(trace.text(), c.expected) << "cut at " << cut;
            }
            for (const std::size_t step :
                 is_long ? std::vector<std::size_t>{1021, 4099} : std::vector<std::size_t>{1, 2, 3, 7})
                ASSERT_EQ(websocket_trace_in_steps(stream, step, role, limits), c.expected) << "steps of " << step;
        }
}

TEST(WebsocketReader, TakesFramesOfEverySize) { expect_all(framing_cases()); }
TEST(WebsocketReader, RefusesReservedBitsAndOpcodes) { expect_all(reserved_cases()); }
TEST(WebsocketReader, JoinsFragmentsWithControlFramesBetween) { expect_all(fragment_cases()); }
TEST(WebsocketReader, ChecksTextByteByByte) { expect_all(utf8_cases()); }
TEST(WebsocketReader, JudgesCloseFrames) { expect_all(close_cases()); }
TEST(WebsocketReader, KeepsToItsLimits) { expect_all(limit_cases()); }

TEST(WebsocketReader, DemandsMasksOfClientsAndRefusesThoseOfServers) {
    for (const unsigned first : {last | text, text, last | binary, ping, pong, close_}) {
        EXPECT_EQ(websocket_trace_in_steps(raw_frame(first, "", false), 9, websocket_role::server), "refused 1002\n");
        EXPECT_EQ(websocket_trace_in_steps(raw_frame(first, "", true), 9, websocket_role::client), "refused 1002\n");
    }
}

TEST(WebsocketReader, RefusesTextAtItsFirstWrongByte) {
    for (const std::string_view start : {"\xC0", "\xE0\x9F", "\xED\xA0", "\xF4\x90", "\xF5", "ok\xFF"}) {
        const std::string whole = raw_frame(text, greek + std::string(start) + std::string(60, 'x'), true);
        const std::string_view known = std::string_view(whole).substr(0, 6 + greek.size() + start.size());
        EXPECT_EQ(websocket_trace_in_steps(known, 1, websocket_role::server), "refused 1007\n");
        EXPECT_EQ(websocket_trace_in_steps(known.substr(0, known.size() - 1), 1, websocket_role::server), "");
    }
}

TEST(WebsocketReader, RefusesAHeaderAtTheByteThatSettlesIt) {
    const auto refused_at = [](std::string_view bytes) {
        for (std::size_t known = 1; known <= bytes.size(); ++known)
            if (!websocket_trace_in_steps(bytes.substr(0, known), known, websocket_role::server, limits).empty())
                return known;
        return std::size_t{0};
    };
    EXPECT_EQ(refused_at("\xC1\x80"s), 1U);                                       // reserved bit
    EXPECT_EQ(refused_at("\x83\x80"s), 1U);                                       // opcode
    EXPECT_EQ(refused_at("\x09\x80"s), 1U);                                       // ping that is not the last
    EXPECT_EQ(refused_at("\x80\x80"s), 1U);                                       // continuation of nothing
    EXPECT_EQ(refused_at("\x81\x05"s), 2U);                                       // no mask
    EXPECT_EQ(refused_at("\x89\xFE"s), 2U);                                       // ping of more than 125
    EXPECT_EQ(refused_at("\x88\x81"s), 2U);                                       // close of one byte
    EXPECT_EQ(refused_at("\x82\xFE\x00\x7D...."s), 4U);                           // 125 in two bytes
    EXPECT_EQ(refused_at("\x82\xFF\x80\0\0\0\0\0\0\0"s), 3U);                     // 2^63
    EXPECT_EQ(refused_at("\x82\xFF\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF...."s), 10U);  // 2^63 - 1, beyond the limit
    EXPECT_EQ(refused_at("\x82\xFF\0\0\0\0\0\x01\x11\x71...."s), 10U);            // 70001
}

TEST(WebsocketReader, TellsItsRefusalInWordsThatFitACloseFrame) {
    for (const auto& cases : {reserved_cases(), fragment_cases(), utf8_cases(), close_cases(), limit_cases()})
        for (const frame_case& c : cases) {
            test::websocket_trace trace(websocket_role::server, limits);
            trace.feed(stream_of(c, true));
            EXPECT_EQ(trace.reason().empty(), c.expected.find("refused") == std::string::npos) << c.name;
            EXPECT_LE(trace.reason().size(), net::websocket_close_reason_bytes_max);
        }
}

TEST(WebsocketReader, LeavesAWholeMessageWhereItCame) {
    std::string bytes =
        raw_frame(ping, "first", true) + raw_frame(last | text, "second", true) + raw_frame(last | text, "x", true);
    const std::string behind = bytes.substr(bytes.size() - 7);
    net::websocket_reader reader(websocket_role::server);
    ASSERT_EQ(reader.next(bytes), net::websocket_reader::event::ping);
    ASSERT_EQ(reader.next(bytes), net::websocket_reader::event::message);
    EXPECT_EQ(reader.payload(bytes).data(), bytes.data() + 11 + 6);
    EXPECT_EQ(bytes.substr(bytes.size() - 7), behind) << "bytes behind the frame are not its own";
}

TEST(WebsocketReader, KeepsNothingOfFraming) {
    // 50 empty fragments and pings, and then the half of a header: nothing is held for them.
    std::string bytes = raw_frame(text, "ab", true);
    for (int i = 0; i < 50; ++i) bytes += raw_frame(more, "", true) + raw_frame(ping, "ping", true);
    bytes += raw_frame(last | more, "cd", true).substr(0, 4);
    net::websocket_reader reader(websocket_role::server);
    for (int i = 0; i < 50; ++i) ASSERT_EQ(reader.next(bytes), net::websocket_reader::event::ping);
    ASSERT_EQ(reader.next(bytes), net::websocket_reader::event::need_more);
    EXPECT_EQ(std::string_view(reader.kept(bytes).data(), reader.kept(bytes).size()), "ab");
}

TEST(WebsocketMask, IsTheSameAsByteByByteAtEverySizeAndPhase) {
    const net::websocket_key key{0x12, 0x00, 0xFF, 0xA5};
    for (std::size_t size = 0; size < 70; ++size)
        for (std::size_t phase = 0; phase < 4; ++phase)
            for (std::size_t offset = 0; offset < 3; ++offset) {
                std::string bytes(offset + size + 1, 'm'), expected = bytes;
                for (std::size_t i = 0; i < size; ++i)
                    expected[offset + i] = static_cast<char>(expected[offset + i] ^ key[(phase + i) % 4]);
                net::mask_websocket_bytes(std::span(bytes).subspan(offset, size), key, phase);
                ASSERT_EQ(bytes, expected) << size << " from " << offset << " at phase " << phase;
            }
}

TEST(WebsocketFrame, IsWrittenAsTheExamplesOfTheStandard) {
    std::string out;
    net::append_websocket_frame(out, net::websocket_opcode::text, true, "Hello");
    EXPECT_EQ(out, "\x81\x05Hello");
    out.clear();
    const net::websocket_key key{0x37, 0xFA, 0x21, 0x3D};
    net::append_websocket_frame(out, net::websocket_opcode::text, true, "Hello", &key);
    EXPECT_EQ(out, "\x81\x85\x37\xFA\x21\x3D\x7F\x9F\x4D\x51\x58");
    out.clear();
    net::append_websocket_frame(out, net::websocket_opcode::text, false, "Hel");
    net::append_websocket_frame(out, net::websocket_opcode::continuation, true, "lo");
    EXPECT_EQ(out, "\x01\x03Hel\x80\x02lo"s);
    for (const std::size_t size : {0U, 125U, 126U, 256U, 65535U, 65536U, 70000U}) {
        out = "before";
        net::append_websocket_frame(out, net::websocket_opcode::binary, true, std::string(size, 'b'), &key);
        EXPECT_EQ(out, "before" + raw_frame(0x82, std::string(size, 'b'), true)) << size;
    }
}

TEST(WebsocketKeySource, RepeatsNothing) {
    net::websocket_key_source source;
    std::vector<net::websocket_key> keys;
    for (int i = 0; i < 200; ++i) keys.push_back(source.next());
    std::ranges::sort(keys);
    // Of 200 random keys of 32 bits two are alike once in 200,000 runs; two such pairs never are.
    EXPECT_LE(keys.end() - std::unique(keys.begin(), keys.end()), 1);
    EXPECT_NE(source.next_nonce(), source.next_nonce());
}

TEST(Utf8Checker, AgreesWithTheTableOnEveryTextOfFourOddBytes) {
    // Bytes at the borders of every row of the table, in all combinations, behind ASCII of two lengths.
    const std::string odd =
        "\x00\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5\xFF"s;
    for (const char a : odd)
        for (const char b : odd)
            for (const char c : odd)
                for (const char d : "a\x80\xBF"s) {
                    const std::string four{a, b, c, d};
                    net::utf8_checker checker;
                    const bool can_go_on = checker.take(four);
                    ASSERT_EQ(can_go_on, test::model_utf8(four, false)) << testing::PrintToString(four);
                    ASSERT_EQ(can_go_on && checker.whole(), test::model_utf8(four, true));
                    net::utf8_checker bytewise;
                    bool good = true;
                    for (const char byte : four) good = bytewise.take({&byte, 1});
                    ASSERT_EQ(good, can_go_on) << "a false stays false";
                }
    net::utf8_checker checker;
    ASSERT_TRUE(checker.take(std::string(33, 'a') + "\xC3"));
    EXPECT_FALSE(checker.whole());
    EXPECT_TRUE(checker.take("\xA9" + std::string(40, 'b')));
    EXPECT_TRUE(checker.whole());
}

// --- sessions

// What arrives is read as a connection reads it: kept bytes, then new ones.
class end {
 public:
    explicit end(const net::websocket_limits& l = limits) : session(l) {}
    explicit end(net::websocket_key_source& keys, const net::websocket_limits& l = limits) : session(keys, l) {}

    // Bytes from the peer as one arrival. Returns: what came of it, as a trace.
    std::string take(std::string_view bytes) {
        held_.append(bytes);
        const auto exact = std::make_unique<char[]>(held_.size());
        held_.copy(exact.get(), held_.size());
        const std::span<char> all{exact.get(), held_.size()};
        std::string trace;
        using enum net::websocket_session::event;
        while (true) switch (session.next(all, out)) {
                case need_more: held_.assign(session.kept(all).begin(), session.kept(all).end()); return trace;
                case message:
                    trace += websocket_line(session.is_text() ? "text" : "binary", session.payload(all));
                    break;
                case ping: trace += websocket_line("ping", session.payload(all)); break;
                case pong: trace += websocket_line("pong", session.payload(all)); break;
                case close: trace += websocket_line("close", session.payload(all)); break;
                case refused: trace += "refused\n"; break;
            }
    }
    // What it has appended since the last call.
    std::string sent() { return std::exchange(out, {}); }
    // The same, as the peer's model reads it.
    std::string said(websocket_role to = websocket_role::client) { return test::websocket_model(sent(), to, limits); }

    net::websocket_session session;
    std::string out;

 private:
    std::string held_;
};

TEST(WebsocketSession, AnswersEachPingWithItsPayload) {
    end server;
    EXPECT_EQ(server.take(raw_frame(ping, "a", true) + raw_frame(ping, "", true)), "ping a\nping \n");
    EXPECT_EQ(server.sent(), raw_frame(pong, "a", false) + raw_frame(pong, "", false));
    EXPECT_EQ(server.take(raw_frame(pong, "unasked", true)), "pong unasked\n");
    EXPECT_EQ(server.sent(), "");
}

TEST(WebsocketSession, AnswersAPingBetweenThePiecesOfItsOwnMessage) {
    end server;
    EXPECT_EQ(server.session.send(server.out, true, "ab", false), websocket_sent::ok);
    (void)server.take(raw_frame(ping, "p", true));
    EXPECT_EQ(server.session.send(server.out, true, "cd"), websocket_sent::ok);
    EXPECT_EQ(server.said(), "pong p\ntext abcd\n");
}

TEST(WebsocketSession, EchoesTheCodeOfAClose) {
    for (const auto& [body, code] : {std::pair{close_body(1000, "bye"), 1000}, {close_body(4321), 4321}, {""s, 1005}}) {
        end server;
        EXPECT_EQ(server.take(raw_frame(close_, body, true) + raw_frame(ping, "late", true)),
                  body.size() > 2 ? "close bye\n" : "close \n");
        EXPECT_EQ(server.sent(), raw_frame(close_, body.substr(0, 2), false));
        EXPECT_TRUE(server.session.done() && server.session.clean() && !server.session.may_send());
        EXPECT_EQ(server.session.code(), code);
        server.session.lost();
        EXPECT_EQ(server.session.code(), code) << "the end of the connection is as it should be";
    }
}

TEST(WebsocketSession, WaitsForThePeersCloseAndSendsNothingMore) {
    end server;
    EXPECT_EQ(server.session.close(server.out, 1001, "going"), websocket_sent::ok);
    EXPECT_EQ(server.said(), "close 1001 going\n");
    EXPECT_FALSE(server.session.done() || server.session.may_send());
    EXPECT_EQ(server.take(raw_frame(last | text, "late", true) + raw_frame(ping, "p", true)), "text late\nping p\n");
    EXPECT_EQ(server.session.send(server.out, true, "x"), websocket_sent::closing);
    EXPECT_EQ(server.session.ping(server.out), websocket_sent::closing);
    EXPECT_EQ(server.session.pong(server.out), websocket_sent::closing);
    EXPECT_EQ(server.session.close(server.out), websocket_sent::closing);
    EXPECT_EQ(server.session.code(), 0);
    EXPECT_EQ(server.take(raw_frame(close_, close_body(1001), true)), "close \n");
    EXPECT_EQ(server.sent(), "") << "behind a close frame there is nothing";
    EXPECT_TRUE(server.session.done() && server.session.clean());
    EXPECT_EQ(server.session.code(), 1001);
}

TEST(WebsocketSession, TellsThePeerWhatItDidWrong) {
    for (const auto& [bytes, code] : {std::pair{raw_frame(0xC1, "a", true), 1002},
                                      {raw_frame(0x81, "\xFF", true), 1007},
                                      {raw_frame(0x82, std::string(limits.frame_bytes_max + 1, 'x'), true), 1009},
                                      {raw_frame(close_, close_body(1005), true), 1002}}) {
        end server;
        EXPECT_EQ(server.take(bytes + raw_frame(ping, "late", true)), "refused\n");
        const std::string said = server.said();
        EXPECT_TRUE(said.starts_with("close " + std::to_string(code) + " ")) << said;
        EXPECT_TRUE(server.session.done() && !server.session.clean() && !server.session.may_send());
        EXPECT_EQ(server.session.code(), code);
        EXPECT_EQ(server.take(raw_frame(ping, "later", true)), "");
        EXPECT_EQ(server.sent(), "");
    }
}

TEST(WebsocketSession, SaysNothingOfWrongsBehindItsOwnClose) {
    end server;
    ASSERT_EQ(server.session.close(server.out), websocket_sent::ok);
    (void)server.sent();
    EXPECT_EQ(server.take(raw_frame(0xC1, "a", true)), "refused\n");
    EXPECT_EQ(server.sent(), "");
    EXPECT_TRUE(server.session.done() && !server.session.clean());
}

TEST(WebsocketSession, CallsAConnectionThatEndsWithoutACloseAbnormal) {
    end server;
    server.session.lost();
    EXPECT_TRUE(server.session.done() && !server.session.clean());
    EXPECT_EQ(server.session.code(), 1006);
    EXPECT_EQ(server.session.send(server.out, true, "x"), websocket_sent::closing);
    EXPECT_EQ(server.take(raw_frame(ping, "p", true)), "");
    EXPECT_EQ(server.sent(), "");
}

TEST(WebsocketSession, SendsNothingThatItWouldRefuse) {
    end server;
    EXPECT_EQ(server.session.send(server.out, true, "\xFF"), websocket_sent::not_utf8);
    EXPECT_EQ(server.session.send(server.out, true, "ab\xC3"), websocket_sent::not_utf8) << "ends within a character";
    EXPECT_EQ(server.session.ping(server.out, std::string(126, 'p')), websocket_sent::too_long);
    EXPECT_EQ(server.session.close(server.out, 1000, std::string(124, 'r')), websocket_sent::too_long);
    EXPECT_EQ(server.session.close(server.out, 1000, "\xED\xA0\x80"), websocket_sent::not_utf8);
    EXPECT_EQ(server.session.close(server.out, 1006), websocket_sent::bad_code);
    EXPECT_EQ(server.session.close(server.out, 1005, "reason"), websocket_sent::bad_code);
    EXPECT_EQ(server.sent(), "");
    EXPECT_EQ(server.session.send(server.out, true, "ab\xC3", false), websocket_sent::ok);
    EXPECT_EQ(server.session.send(server.out, false, "x"), websocket_sent::out_of_order);
    EXPECT_EQ(server.session.send(server.out, true, "x"), websocket_sent::not_utf8) << "the character has to go on";
    EXPECT_EQ(server.session.send(server.out, true, "\xA9"), websocket_sent::ok) << "what was refused left no trace";
    EXPECT_EQ(server.session.close(server.out, 1005), websocket_sent::ok);
    EXPECT_EQ(server.said(), "text ab\xC3\xA9\nclose 1005 \n");
}

// Random messages, pieces, pings and pongs from each end to the other, over a connection that cuts anywhere; what
// arrives is what was sent, in order.
TEST(WebsocketSession, WhatIsSentArrivesHoweverItIsCut) {
    test::seeded_random random;
    net::websocket_key_source keys;
    for (std::uint64_t round = test::scaled(300); round-- != 0;) {
        end server, client(keys);
        end* const ends[] = {&server, &client};
        std::string expected[2], arrived[2],
            under_way[2];  // under_way: pieces of a message, text from an even number on
        bool is_text[2] = {}, open[2] = {};
        std::string wire[2];
        const auto deliver = [&](std::size_t to, std::size_t bytes) {
            arrived[to] += ends[to]->take(wire[to].substr(0, bytes));
            wire[to].erase(0, bytes);
        };
        for (int step = 0; step < 60; ++step) {
            const std::size_t from = random.below(2), to = 1 - from;
            end& sender = *ends[from];
            switch (random.below(6)) {
                case 0: {
                    const std::string payload(random.below(126), 'p');
                    ASSERT_EQ(sender.session.pong(sender.out, payload), websocket_sent::ok);
                    expected[to] += websocket_line("pong", payload);
                    break;
                }
                case 1: deliver(to, std::min<std::size_t>(wire[to].size(), 1 + random.below(40))); break;
                case 2: deliver(to, random.below(wire[to].size() + 1)); break;
                default: {
                    if (!open[from]) is_text[from] = random.below(2) == 0;
                    const bool ends_here = random.below(3) != 0;
                    std::string piece;
                    for (std::size_t size = random.below(random.below(20) == 0 ? 70000 : 300); size != 0; --size)
                        piece.push_back(static_cast<char>(random.below(is_text[from] ? 128 : 256)));
                    if (piece.size() > limits.frame_bytes_max ||
                        under_way[from].size() + piece.size() > limits.message_bytes_max)
                        piece.clear();
                    ASSERT_EQ(sender.session.send(sender.out, is_text[from], piece, ends_here), websocket_sent::ok);
                    under_way[from] += piece;
                    open[from] = !ends_here;
                    if (!ends_here) break;
                    expected[to] += websocket_line(is_text[from] ? "text" : "binary", under_way[from]);
                    under_way[from].clear();
                }
            }
            wire[to] += sender.sent();
        }
        for (const std::size_t to : {0U, 1U}) {
            deliver(to, wire[to].size());
            ASSERT_EQ(arrived[to], expected[to]) << "at the " << (to == 0 ? "server" : "client");
        }
        // Either closes; both end by the rules.
        const std::size_t first = random.below(2);
        ASSERT_EQ(ends[first]->session.close(ends[first]->out, 3000, "bye"), websocket_sent::ok);
        ASSERT_EQ(ends[1 - first]->take(ends[first]->sent()), "close bye\n");
        ASSERT_EQ(ends[first]->take(ends[1 - first]->sent()), "close \n");
        ASSERT_TRUE(server.session.clean() && client.session.clean() && server.session.done() && client.session.done());
        ASSERT_EQ(server.session.code(), 3000);
        ASSERT_EQ(client.session.code(), 3000);
    }
}

// --- random streams, mostly right: against the model, and against a library

class random_stream {
 public:
    explicit random_stream(test::seeded_random& random) : random_(random) {}

    // `damaged`: any bit or byte may be wrong, and the end may be missing; else only whole frames break rules.
    std::string make(bool masked, bool damaged) {
        std::string stream;
        bool open = false;
        for (std::uint64_t frames = 1 + random_.below(12); frames-- != 0;) {
            unsigned first = 0;
            std::string payload;
            const std::uint64_t kind = random_.below(20);
            if (kind < 4) {
                first = kind < 2 ? ping : pong;
                payload = std::string(random_.below(126), 'c');
            } else if (kind == 4) {
                first = close_;
                const unsigned told = code();
                const bool known = net::is_websocket_close_code(static_cast<std::uint16_t>(told));
                if (random_.below(4) != 0) payload = close_body(told, known || damaged ? some_text() : "");
            } else {
                const bool ends_here = random_.below(3) != 0;
                first = (open ? more : 1 + static_cast<unsigned>(random_.below(2))) | (ends_here ? last : 0U);
                payload = random_.below(10) == 0 ? std::string(random_.below(700), 'z') : some_text();
                open = !ends_here;
            }
            if (random_.below(40) == 0) first ^= damaged ? 1U << random_.below(8) : 0x10U << random_.below(4);
            if (random_.below(40) == 0) first |= 3U;  // a reserved opcode
            const int form = random_.below(40) == 0 ? 2 : random_.below(40) == 0 ? 8 : -1;
            stream += raw_frame(first, payload, masked != (random_.below(60) == 0), form);
        }
        if (!damaged) return stream + raw_frame(ping, "the end", masked);
        if (random_.below(4) == 0 && !stream.empty())
            stream[random_.below(stream.size())] = static_cast<char>(random_.below(256));
        if (random_.below(4) == 0) stream.resize(random_.below(stream.size() + 1));
        return stream;
    }

 private:
    unsigned code() {
        constexpr unsigned codes[] = {1000, 1001, 1002, 1003, 1007, 1011, 3000, 4999,
                                      999,  1004, 1005, 1006, 1016, 2999, 5000};
        return codes[random_.below(std::size(codes))];
    }
    std::string some_text() {
        constexpr std::string_view parts[] = {
            "a", "plain text", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "0123456789abcdef"};
        constexpr std::string_view odd[] = {"\xC3", "\xA9", "\xED\xA0\x80", "\xE2\x82", "\xF4\x90", "\xFF"};
        std::string made;
        for (std::uint64_t n = random_.below(6); n-- != 0;) made += parts[random_.below(std::size(parts))];
        if (random_.below(20) == 0) made += odd[random_.below(std::size(odd))];
        return made;
    }

    test::seeded_random& random_;
};

TEST(WebsocketReader, AgreesWithTheModelOnRandomStreams) {
    test::seeded_random random;
    random_stream streams(random);
    constexpr net::websocket_limits small{.frame_bytes_max = 500, .message_bytes_max = 900};
    for (std::uint64_t round = test::scaled(20000); round-- != 0;) {
        const websocket_role role = random.below(2) == 0 ? websocket_role::server : websocket_role::client;
        const std::string stream = streams.make(role == websocket_role::server, random.below(4) != 0);
        const std::string expected = test::websocket_model(stream, role, small);
        test::websocket_trace trace(role, small);
        for (std::size_t at = 0; at < stream.size();) {
            const std::size_t size = 1 + random.below(30);
            trace.feed(std::string_view(stream).substr(at, size));
            at += size;
        }
        ASSERT_EQ(trace.text(), expected) << testing::PrintToString(stream);
        ASSERT_EQ(websocket_trace_in_steps(stream, stream.size() + 1, role, small), expected);
    }
}

#ifdef HOLDFAST_TEST_WITH_WSLAY

// What libwslay makes of a stream, in the words of websocket_trace.
class wslay_trace {
 public:
    wslay_trace(websocket_role role, std::string_view stream) : rest_(stream) {
        wslay_event_callbacks callbacks{};
        callbacks.recv_callback = receive;
        callbacks.send_callback = send;
        callbacks.genmask_callback = [](wslay_event_context_ptr, std::uint8_t* into, std::size_t size, void*) {
            std::fill_n(into, size, std::uint8_t{0});
            return 0;
        };
        callbacks.on_msg_recv_callback = take_message;
        wslay_event_context_ptr context = nullptr;
        const bool to_server = role == websocket_role::server;
        const int made = to_server ? wslay_event_context_server_init(&context, &callbacks, this)
                                   : wslay_event_context_client_init(&context, &callbacks, this);
        if (made != 0) throw std::bad_alloc();
        while (wslay_event_get_read_enabled(context) != 0 && !rest_.empty())
            if (wslay_event_recv(context) != 0) break;
        while (wslay_event_want_write(context) != 0)
            if (wslay_event_send(context) != 0) break;
        const std::string said =
            test::websocket_model(sent_, to_server ? websocket_role::client : websocket_role::server);
        if (const std::size_t close = said.find("close "); !closed_ && close != std::string::npos)
            // A malformed frame it answers with a close frame without a code.
            text_ += "refused " + (said.substr(close + 6, 4) == "1005" ? "1002" : said.substr(close + 6, 4)) + "\n";
        wslay_event_context_free(context);
    }
    [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
    static ssize_t receive(wslay_event_context_ptr context, std::uint8_t* into, std::size_t size, int, void* self) {
        std::string_view& rest = static_cast<wslay_trace*>(self)->rest_;
        if (rest.empty()) {
            wslay_event_set_error(context, WSLAY_ERR_WOULDBLOCK);
            return -1;
        }
        const std::size_t taken = rest.copy(reinterpret_cast<char*>(into), size);
        rest.remove_prefix(taken);
        return static_cast<ssize_t>(taken);
    }
    static ssize_t send(wslay_event_context_ptr, const std::uint8_t* from, std::size_t size, int, void* self) {
        static_cast<wslay_trace*>(self)->sent_.append(reinterpret_cast<const char*>(from), size);
        return static_cast<ssize_t>(size);
    }
    static void take_message(wslay_event_context_ptr, const wslay_event_on_msg_recv_arg* m, void* self) {
        auto& trace = *static_cast<wslay_trace*>(self);
        std::string_view payload(reinterpret_cast<const char*>(m->msg), m->msg_length);
        switch (m->opcode) {
            case WSLAY_TEXT_FRAME: trace.text_ += websocket_line("text", payload); break;
            case WSLAY_BINARY_FRAME: trace.text_ += websocket_line("binary", payload); break;
            case WSLAY_PING: trace.text_ += websocket_line("ping", payload); break;
            case WSLAY_PONG: trace.text_ += websocket_line("pong", payload); break;
            default:
                trace.closed_ = true;
                trace.text_ += websocket_line("close " + std::to_string(m->status_code == 0 ? 1005 : m->status_code),
                                              payload.substr(std::min<std::size_t>(2, payload.size())));
        }
    }

    std::string_view rest_;
    std::string text_;
    std::string sent_;
    bool closed_ = false;
};

// Of undamaged streams only: it judges a header when the whole of it has come, and text of a close before its code.
TEST(WebsocketReader, AgreesWithLibwslay) {
    test::seeded_random random;
    random_stream streams(random);
    for (std::uint64_t round = test::scaled(20000); round-- != 0;) {
        const websocket_role role = random.below(2) == 0 ? websocket_role::server : websocket_role::client;
        const std::string stream = streams.make(role == websocket_role::server, false);
        ASSERT_EQ(websocket_trace_in_steps(stream, stream.size() + 1, role,
                                           {.frame_bytes_max = 1U << 30U, .message_bytes_max = 1U << 30U}),
                  wslay_trace(role, stream).text())
            << testing::PrintToString(stream);
    }
}

#else

TEST(WebsocketReader, AgreesWithLibwslay) { GTEST_SKIP() << "needs libwslay-dev, against which this was not built"; }

#endif

}  // namespace
