// SPDX-License-Identifier: Apache-2.0
// Messages of WebSocket that are deflated: the deflater alone, in frames that are cut at every byte, and between two
// ends. zlib's own compressor makes streams of every kind; a model that knows no zlib (support/inflate_model.hpp) says
// what streams say, right ones and wrong ones.
#include "holdfast/net/websocket_deflater.hpp"

#include <gtest/gtest.h>

#include "holdfast/error.hpp"

#ifdef HOLDFAST_TEST_WITH_DEFLATE

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/net/websocket_frame.hpp"
#include "holdfast/net/websocket_reader.hpp"
#include "holdfast/net/websocket_session.hpp"
#include "holdfast/perf_test/count_allocations.hpp"
#include "support/inflate_model.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/websocket_trace.hpp"

namespace {

using namespace holdfast;
using namespace std::string_literals;
using net::websocket_deflater;
using net::websocket_role;
using net::websocket_sent;
using outcome = net::websocket_deflater::outcome;
using test::deflate_bits;
using test::inflate_model;
using test::inflated;
using test::raw_frame;
using test::websocket_line;

constexpr std::size_t plenty = 1U << 20U;
constexpr unsigned text = 1, binary = 2, last = 0x80, deflated = 0x40, ping = 0x89, pong = 0x8A, close_ = 0x88;

// What a message says, by the deflater; the model has to say the same.
std::string said(websocket_deflater& deflater, std::string_view payload, std::size_t bytes_max = plenty) {
    const outcome told = deflater.inflate(payload, bytes_max);
    const test::inflated_message expected = inflate_model::of(payload, bytes_max);
    EXPECT_EQ(static_cast<int>(told), static_cast<int>(expected.verdict)) << testing::PrintToString(payload);
    if (told != outcome::ok) return told == outcome::corrupt ? "corrupt" : "too big";
    EXPECT_EQ(deflater.message(), expected.message);
    return std::string(deflater.message());
}
static_assert(static_cast<int>(outcome::corrupt) == static_cast<int>(inflated::corrupt) &&
              static_cast<int>(outcome::too_big) == static_cast<int>(inflated::too_big));

// A message by zlib's compressor: in pieces, each behind the last by a flush of any kind.
class compressor {
 public:
    explicit compressor(test::seeded_random& random) : random_(random) {}

    std::string operator()(std::string_view message) {
        constexpr int strategies[] = {Z_DEFAULT_STRATEGY, Z_FILTERED, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED};
        constexpr int flushes[] = {Z_NO_FLUSH, Z_PARTIAL_FLUSH, Z_BLOCK, Z_SYNC_FLUSH, Z_FULL_FLUSH, Z_FINISH};
        std::string out;
        z_stream stream{};
        EXPECT_EQ(deflateInit2(&stream, static_cast<int>(random_.below(10)), Z_DEFLATED,
                               -9 - static_cast<int>(random_.below(7)), 1 + static_cast<int>(random_.below(9)),
                               strategies[random_.below(std::size(strategies))]),
                  Z_OK);
        const auto feed = [&](std::string_view piece, int flush) {
            stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
            stream.avail_in = static_cast<uInt>(piece.size());
            std::string room(2 * piece.size() + 1000, '\0');
            do {
                stream.next_out = reinterpret_cast<Bytef*>(room.data());
                stream.avail_out = static_cast<uInt>(room.size());
                const int told = deflate(&stream, flush);
                EXPECT_TRUE(told == Z_OK || told == Z_BUF_ERROR || told == Z_STREAM_END) << told;
                out.append(room.data(), room.size() - stream.avail_out);
            } while (stream.avail_out == 0);
            if (flush == Z_FINISH) {
                EXPECT_EQ(deflateReset(&stream), Z_OK);
            }
        };
        while (!message.empty() && random_.below(4) != 0) {
            const std::string_view piece = message.substr(0, 1 + random_.below(message.size()));
            feed(piece, flushes[random_.below(std::size(flushes))]);
            message.remove_prefix(piece.size());
        }
        if (random_.below(4) == 0) {  // RFC 7692 section 7.2.3.4
            feed(message, Z_FINISH);
            out.push_back('\0');
        } else {
            feed(message, random_.below(4) == 0 ? Z_FULL_FLUSH : Z_SYNC_FLUSH);
            EXPECT_TRUE(out.ends_with("\x00\x00\xFF\xFF"s));
            out.resize(out.size() - 4);
        }
        deflateEnd(&stream);
        return out;
    }

    // Bytes that repeat themselves now and then, or do not at all.
    std::string some(std::size_t size_max) {
        std::string made;
        const std::size_t size = random_.below(size_max + 1),
                          kinds = 1 + random_.below(random_.below(2) == 0 ? 4 : 256);
        while (made.size() < size)
            if (made.empty() || random_.below(30) != 0)
                made.push_back(static_cast<char>(random_.below(kinds) + 32));
            else
                made += std::string(made.substr(random_.below(made.size()), random_.below(300)));
        made.resize(size);
        return made;
    }

 private:
    test::seeded_random& random_;
};

// --- the deflater alone

TEST(WebsocketDeflater, InflatesTheExamplesOfTheStandard) {
    websocket_deflater deflater;
    EXPECT_EQ(said(deflater, "\xF2\x48\xCD\xC9\xC9\x07\x00"s), "Hello");
    EXPECT_EQ(said(deflater, "\x00\x05\x00\xFA\xFFHello\x00"s), "Hello");
    EXPECT_EQ(said(deflater, "\xF3\x48\xCD\xC9\xC9\x07\x00\x00"s), "Hello") << "a final block";
    EXPECT_EQ(said(deflater, "\xF2\x48\x05\x00\x00\x00\xFF\xFF\xCA\xC9\xC9\x07\x00"s), "Hello") << "two blocks";
    EXPECT_EQ(said(deflater, "\x00"s), "");
    EXPECT_EQ(said(deflater, ""), "") << "as zlib makes it of nothing behind nothing";
    EXPECT_EQ(said(deflater, "\xF2\x00\x11\x00\x00"s), "corrupt") << "looks back into the message before";
}

TEST(WebsocketDeflater, TakesBlocksOfEveryKindOneBehindAnother) {
    websocket_deflater deflater;
    EXPECT_EQ(said(deflater, deflate_bits().stored(false, "ab").stored(false, "").stored(false, "cd").payload()),
              "abcd");
    EXPECT_EQ(said(deflater, deflate_bits().stored(true, "ab").stored(true, "cd").payload()), "abcd");
    const std::string eaten =
        "\x00\x07\x00\xF8\xFF"
        "abc"s;  // a stored block that has the tail for its last bytes
    EXPECT_EQ(said(deflater, eaten), "abc\x00\x00\xFF\xFF"s);
    EXPECT_EQ(said(deflater, eaten, 7), "abc\x00\x00\xFF\xFF"s);
    EXPECT_EQ(said(deflater, eaten, 6), "too big");
    EXPECT_EQ(said(deflater, "\x01"s), "") << "what is sent begins an empty final block that the tail ends";
    EXPECT_EQ(said(deflater, deflate_bits()
                                 .begin_block(false, 1)
                                 .fixed('x')
                                 .fixed(285)  // 258 bytes
                                 .code(0, 5)  // from one back
                                 .fixed(256)
                                 .stored(false, "y")
                                 .begin_block(false, 1)
                                 .fixed(257)  // 3 bytes
                                 .code(1, 5)  // from two back
                                 .fixed(256)
                                 .payload()),
              std::string(259, 'x') + "yxyx");
    // A code of a single symbol, whose other half is free: the end of the block, at once.
    EXPECT_EQ(said(deflater, deflate_bits()
                                 .begin_block(false, 2)
                                 .bits(0, 5)
                                 .bits(0, 5)
                                 .bits(14, 4)  // 18 lengths of codes of lengths: 18 has one of 1 bit, 0 and 1 of 2
                                 .bits(0, 6)
                                 .bits(1, 3)
                                 .bits(2, 3)
                                 .bits(0, 30)
                                 .bits(0, 9)
                                 .bits(2, 3)
                                 .code(0, 1)
                                 .bits(127, 7)  // 138 literals that do not occur
                                 .code(0, 1)
                                 .bits(107, 7)  // and 118
                                 .code(3, 2)    // the end of the block does, by 1 bit
                                 .code(2, 2)    // the one distance does not
                                 .code(0, 1)
                                 .payload()),
              "");
}

TEST(WebsocketDeflater, RefusesWhatIsNoSeriesOfWholeBlocks) {
    websocket_deflater deflater;
    const auto corrupt = [&](const std::string& payload) { return said(deflater, payload) == "corrupt"; };
    EXPECT_TRUE(corrupt(deflate_bits().begin_block(false, 3).bytes())) << "a kind of block that is none";
    EXPECT_TRUE(
        corrupt("\x00\x02\x00\xFD\xFE"
                "ab\x00"s))
        << "a stored size that is not said twice";
    EXPECT_TRUE(corrupt(deflate_bits().begin_block(false, 1).fixed(286).payload()));
    EXPECT_TRUE(corrupt(deflate_bits().begin_block(false, 1).fixed('a').fixed(257).code(30, 5).payload()));
    EXPECT_TRUE(corrupt(deflate_bits().begin_block(false, 1).fixed('a').fixed(257).code(1, 5).fixed(256).payload()))
        << "looks back behind the beginning";
    EXPECT_TRUE(
        corrupt(deflate_bits().stored(true, "abc").begin_block(false, 1).fixed(257).code(0, 5).fixed(256).payload()))
        << "behind a final block another stream begins";
    EXPECT_TRUE(corrupt(deflate_bits().begin_block(false, 2).bits(30, 5).payload())) << "287 symbols";
    EXPECT_TRUE(corrupt(deflate_bits().begin_block(false, 2).bits(0, 5).bits(30, 5).payload())) << "31 distances";
    EXPECT_TRUE(corrupt("\xF3\x48\xCD\xC9\xC9\x07\x00"s)) << "the byte behind a final block is missing";
    EXPECT_TRUE(corrupt("\xF2\x48\xCD\xC9\xC9\x07"s)) << "the end of the block is missing";
    EXPECT_TRUE(corrupt("\xF2\x48\xCD\xC9\xC9\x07\x00\x00"s)) << "and a byte too many";
    EXPECT_TRUE(corrupt("\xFF"s));
    EXPECT_EQ(said(deflater, "\xF2\x48\xCD\xC9\xC9\x07\x00"s), "Hello") << "nothing of it stays";
}

TEST(WebsocketDeflater, InflatesWhateverZlibMakes) {
    test::seeded_random random;
    compressor make(random);
    websocket_deflater deflater;
    for (std::uint64_t round = test::scaled(2000); round-- != 0;) {
        const std::string message = make.some(round % 100 == 0 ? 100'000 : round % 20 == 0 ? 20'000 : 300);
        ASSERT_EQ(said(deflater, make(message)), message);
    }
}

TEST(WebsocketDeflater, AgreesWithTheModelOnDamagedStreamsAndAnyLimit) {
    test::seeded_random random;
    compressor make(random);
    websocket_deflater deflater;
    for (std::uint64_t round = test::scaled(20000); round-- != 0;) {
        const std::string message = make.some(random.below(20) == 0 ? 3000 : 100);
        std::string payload = make(message);
        for (std::uint64_t wrongs = random.below(4); wrongs-- != 0 && !payload.empty();) {
            const std::size_t at = random.below(payload.size());
            switch (random.below(4)) {
                case 0: payload[at] = static_cast<char>(payload[at] ^ 1 << random.below(8)); break;
                case 1: payload.erase(at, 1 + random.below(4)); break;
                case 2: payload.insert(at, 1, static_cast<char>(random())); break;
                default: payload.resize(at); break;
            }
        }
        const std::size_t around = message.size() + 3 - std::min<std::size_t>(message.size() + 3, random.below(7));
        (void)said(deflater, payload, random.below(2) == 0 ? around : random.below(200));
        if (testing::Test::HasFailure()) return;
    }
}

TEST(WebsocketDeflater, HoldsToItsLimitAtTheByte) {
    test::seeded_random random;
    compressor make(random);
    websocket_deflater deflater;
    for (const std::size_t size : {0U, 1U, 100U, 32767U, 32768U, 32769U, 65536U, 1000000U}) {
        std::string message(size, 'a');
        for (char& c : message) c = static_cast<char>('a' + random.below(2));
        const std::string payload = make(message);
        EXPECT_EQ(deflater.inflate(payload, size), outcome::ok);
        EXPECT_EQ(deflater.message(), message);
        if (size == 0) continue;
        EXPECT_EQ(deflater.inflate(payload, size - 1), outcome::too_big) << size;
        EXPECT_EQ(deflater.inflate(payload, 0), outcome::too_big);
    }
}

TEST(WebsocketDeflater, MakesMessagesShorterOrLeavesThemAsTheyAre) {
    test::seeded_random random;
    compressor make(random);
    websocket_deflater deflater;
    std::size_t shorter = 0;
    for (std::uint64_t round = test::scaled(1500); round-- != 0;) {
        const std::string message = make.some(round % 50 == 0 ? 70'000 : 500);
        const unsigned bits = 9 + static_cast<unsigned>(random.below(7));
        const std::string payload(deflater.deflate(message, bits));
        if (payload.empty()) continue;
        ++shorter;
        ASSERT_LT(payload.size(), message.size());
        const test::inflated_message model = inflate_model::of(payload);
        ASSERT_EQ(model.verdict, inflated::ok);
        ASSERT_EQ(model.message, message);
        ASSERT_LE(model.distance_max, std::size_t{1} << bits);
        ASSERT_EQ(deflater.deflate(message, bits), payload) << "what was before it has no part in it";
    }
    EXPECT_GT(shorter, test::scaled(200));
    EXPECT_EQ(deflater.deflate("", 15), "");
    EXPECT_EQ(deflater.deflate("short", 15), "");
    std::string noise;
    for (int i = 0; i < 100'000; ++i) noise.push_back(static_cast<char>(random()));
    EXPECT_EQ(deflater.deflate(noise, 15), "");
    EXPECT_EQ(said(deflater, deflater.deflate(std::string(1000, 'x'), 15)), std::string(1000, 'x'));
}

// Each size of window is made use of: what repeats just within it is found.
TEST(WebsocketDeflater, LooksBackAsFarAsThePeerCan) {
    test::seeded_random random;
    websocket_deflater deflater;
    for (unsigned bits = 9; bits <= 15; ++bits) {
        std::string once;
        for (std::size_t i = 0; i < (std::size_t{1} << bits) - 300; ++i) once.push_back(static_cast<char>(random()));
        const std::string message = once + once;
        EXPECT_LT(deflater.deflate(message, bits).size(), once.size() + once.size() / 4) << bits;
        if (bits != 9) {
            EXPECT_EQ(deflater.deflate(message, bits - 1), "") << bits;
        }
    }
}

// --- frames

constexpr net::websocket_limits limits{.frame_bytes_max = 7000, .message_bytes_max = 20000};

struct deflate_case {
    std::string name;
    std::vector<std::pair<unsigned, std::string>> frames;  // first byte, payload
    std::string expected;
};

// To both roles: whole, cut at every byte (of a long stream here and there), in small steps.
void expect_all(const std::vector<deflate_case>& cases) {
    websocket_deflater deflater;
    for (const deflate_case& c : cases)
        for (const websocket_role role : {websocket_role::server, websocket_role::client}) {
            SCOPED_TRACE(c.name + (role == websocket_role::server ? ", to a server" : ", to a client"));
            std::string stream;
            for (const auto& [first, payload] : c.frames)
                stream += raw_frame(first, payload, role == websocket_role::server);
            ASSERT_EQ(test::websocket_model(stream, role, limits, true), c.expected) << "the model is wrong";
            for (const std::size_t step : {stream.size() + 1, std::size_t{1}, std::size_t{7}, std::size_t{100}}) {
                if (stream.size() > 1000 && step < 100) continue;
                ASSERT_EQ(test::websocket_trace_in_steps(stream, step, role, limits, &deflater), c.expected) << step;
            }
            for (std::size_t cut = 1; cut < stream.size(); cut += 1 + stream.size() / 500) {
                test::websocket_trace trace(role, limits, &deflater);
                trace.feed(std::string_view(stream).substr(0, cut));
                trace.feed(std::string_view(stream).substr(cut));
                ASSERT_EQ(trace.text(), c.expected) << "cut at " << cut;
            }
        }
}

const std::string hello = "\xF2\x48\xCD\xC9\xC9\x07\x00"s;

TEST(WebsocketReader, InflatesMessagesWhereThatWasAgreedOn) {
    const auto stored = [](std::string_view says) { return deflate_bits().stored(false, says).payload(); };
    expect_all({
        {"a text", {{last | deflated | text, hello}}, "text Hello\n"},
        {"a binary, and others that are not deflated",
         {{last | binary, "\xFF"}, {last | deflated | binary, hello}, {last | text, "Hi"}},
         "binary \xFF\nbinary Hello\ntext Hi\n"},
        {"two", {{last | deflated | text, hello}, {last | deflated | text, hello}}, "text Hello\ntext Hello\n"},
        {"in fragments, one of them empty, with pings between",
         {{deflated | text, hello.substr(0, 3)},
          {ping, "p"},
          {0, ""},
          {0, hello.substr(3, 2)},
          {pong, "q"},
          {last, hello.substr(5)},
          {ping, ""}},
         "ping p\npong q\ntext Hello\nping \n"},
        {"empty ones", {{last | deflated | text, ""}, {last | deflated | binary, "\x00"s}}, "text \nbinary \n"},
        {"an empty last fragment", {{deflated | text, hello}, {last, ""}}, "text Hello\n"},
        {"a message that is not deflated, in fragments, behind one that is",
         {{last | deflated | text, hello}, {text, "a"}, {last, "b"}},
         "text Hello\ntext ab\n"},
        {"a close in the midst of one",
         {{deflated | text, hello.substr(0, 3)}, {close_, "\x03\xE8"}, {last, hello.substr(3)}},
         "close 1000 \n"},
        {"of UTF-8, whose bytes are no UTF-8 as they come",
         {{last | deflated | text, stored("K\u00E4se")}, {last | deflated | text, "\xF2\x48\x05\x00"s}},
         "text K\u00E4se\ntext He\n"},
    });
}

TEST(WebsocketReader, RefusesTheDeflateBitWhereItMayNotBe) {
    expect_all({
        {"on a ping", {{deflated | ping, "p"}}, "refused 1002\n"},
        {"on a pong", {{deflated | pong, ""}}, "refused 1002\n"},
        {"on a close", {{deflated | close_, "\x03\xE8"}}, "refused 1002\n"},
        {"on a later fragment",
         {{deflated | text, hello.substr(0, 3)}, {deflated | last, hello.substr(3)}},
         "refused 1002\n"},
        {"on a later fragment of one that is not deflated", {{text, "a"}, {deflated | last, hello}}, "refused 1002\n"},
        {"on a continuation of nothing", {{deflated | last, hello}}, "refused 1002\n"},
        {"on a reserved opcode", {{deflated | last | 3, hello}}, "refused 1002\n"},
        {"beside the second", {{last | 0x60 | text, hello}}, "refused 1002\n"},
        {"beside the third", {{last | 0x50 | text, hello}}, "refused 1002\n"},
        {"the second alone", {{last | 0x20 | text, "a"}}, "refused 1002\n"},
        {"within a message", {{deflated | text, hello}, {last | deflated | text, hello}}, "refused 1002\n"},
    });
}

TEST(WebsocketReader, RefusesDeflatedMessagesThatSayWhatNoneMay) {
    const auto stored = [](std::string_view says) { return deflate_bits().stored(false, says).payload(); };
    const auto repeated = [](std::size_t size) {
        return std::string(websocket_deflater().deflate(std::string(size, 'r'), 15));
    };
    expect_all({
        {"corrupt", {{last | deflated | binary, "\xFF"}, {ping, ""}}, "refused 1007\n"},
        {"cut short", {{last | deflated | binary, hello.substr(0, 5)}}, "refused 1007\n"},
        {"corrupt in the first fragment",
         {{deflated | binary, "\xFF"}, {ping, ""}, {last, ""}},
         "ping \nrefused 1007\n"},
        {"a text that is no UTF-8", {{last | deflated | text, stored("ab\xFF")}}, "refused 1007\n"},
        {"a text that ends within a character", {{last | deflated | text, stored("ab\xC3")}}, "refused 1007\n"},
        {"no UTF-8, but binary", {{last | deflated | binary, stored("\xFF")}}, "binary \xFF\n"},
        {"too long as it comes", {{last | deflated | binary, std::string(7001, 'x')}}, "refused 1009\n"},
        {"too long as it comes, in fragments",
         {{deflated | binary, std::string(7000, 'x')}, {0, std::string(7000, 'x')}, {last, std::string(6001, 'x')}},
         "refused 1009\n"},
        {"as long as it may be",
         {{last | deflated | text, repeated(20000)}},
         websocket_line("text", std::string(20000, 'r'))},
        {"longer by a byte", {{last | deflated | text, repeated(20001)}, {ping, ""}}, "refused 1009\n"},
    });
}

// What operator new was asked for in `work`, all together. (Of zlib's own memory nothing depends on messages.)
template <class Work>
std::size_t bytes_allocated_by(Work&& work) {
    const auto before = perf_test::allocations_of_this_thread().bytes;
    std::forward<Work>(work)();
    return static_cast<std::size_t>(perf_test::allocations_of_this_thread().bytes - before);
}

TEST(WebsocketReader, ABombTakesNoMoreMemoryThanAMessageMay) {
    std::string bomb;
    {
        z_stream stream{};
        ASSERT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY), Z_OK);
        std::string zeros(1U << 20U, '\0'), room(1U << 16U, '\0');
        for (int i = 0; i < 6; ++i) {
            stream.next_in = reinterpret_cast<Bytef*>(zeros.data());
            stream.avail_in = static_cast<uInt>(zeros.size());
            stream.next_out = reinterpret_cast<Bytef*>(room.data());
            stream.avail_out = static_cast<uInt>(room.size());
            ASSERT_EQ(deflate(&stream, Z_SYNC_FLUSH), Z_OK);
            bomb.append(room.data(), room.size() - stream.avail_out);
        }
        deflateEnd(&stream);
        bomb.resize(bomb.size() - 4);
    }
    std::string stream = raw_frame(last | deflated | binary, bomb, true);
    websocket_deflater deflater;
    net::websocket_limits wide = {.frame_bytes_max = 20000, .message_bytes_max = 1U << 20U};
    net::websocket_reader reader(websocket_role::server, wide, &deflater);
    constexpr std::size_t kept = 32U << 10U;
    const std::size_t taken =
        bytes_allocated_by([&] { EXPECT_EQ(reader.next(stream), net::websocket_reader::event::refused); });
    EXPECT_EQ(reader.refusal_code(), 1009);
    EXPECT_GT(taken, kept) << "nobody looks";
    EXPECT_LE(taken, wide.message_bytes_max + kept);
    // And where a message may be very large, no more than such a payload can say.
    EXPECT_LE(bytes_allocated_by(
                  [&] { EXPECT_EQ(deflater.inflate(bomb.substr(0, 100), std::size_t{1} << 60U), outcome::corrupt); }),
              1032U * 104 + kept + 1000);
}

TEST(WebsocketReader, GivesBackWhatALargeMessageTook) {
    websocket_deflater deflater;
    const std::string says(100'000, 'x');
    std::string stream = raw_frame(last | deflated | text, deflater.deflate(says, 15), true);
    net::websocket_reader reader(websocket_role::server, {}, &deflater);
    ASSERT_EQ(reader.next(stream), net::websocket_reader::event::message);
    EXPECT_EQ(reader.payload(stream), says);
    ASSERT_EQ(reader.next(stream), net::websocket_reader::event::need_more);
    EXPECT_EQ(deflater.message(), "") << "what was handed out is gone";
    const std::string payload(deflater.deflate(says, 15));
    ASSERT_EQ(deflater.inflate(payload + '\xFF', plenty), outcome::corrupt);
    EXPECT_EQ(deflater.message(), "") << "and what was refused";
}

TEST(WebsocketReader, AgreesWithTheModelOnRandomDeflatedStreams) {
    test::seeded_random random;
    compressor make(random);
    websocket_deflater deflater;
    constexpr net::websocket_limits small{.frame_bytes_max = 500, .message_bytes_max = 900};
    for (std::uint64_t round = test::scaled(6000); round-- != 0;) {
        const websocket_role role = random.below(2) == 0 ? websocket_role::server : websocket_role::client;
        std::string stream;
        for (std::uint64_t messages = 1 + random.below(5); messages-- != 0;) {
            const std::string says = make.some(random.below(6) == 0 ? 1200 : 100);
            const bool packed = random.below(4) != 0;
            std::string payload = packed ? make(says) : says;
            if (random.below(20) == 0 && !payload.empty())
                payload[random.below(payload.size())] = static_cast<char>(random());
            unsigned first = (packed ? deflated : 0U) | (random.below(2) == 0 ? text : binary);
            while (random.below(3) == 0) {
                const std::size_t cut = random.below(payload.size() + 1);
                stream += raw_frame(first, payload.substr(0, cut), role == websocket_role::server);
                if (random.below(3) == 0) stream += raw_frame(ping, "p", role == websocket_role::server);
                payload.erase(0, cut);
                first = random.below(40) == 0 ? deflated : 0;
            }
            stream += raw_frame(last | first, payload, role == websocket_role::server);
        }
        const std::string expected = test::websocket_model(stream, role, small, true);
        test::websocket_trace trace(role, small, &deflater);
        for (std::size_t at = 0; at < stream.size();) {
            const std::size_t size = 1 + random.below(60);
            trace.feed(std::string_view(stream).substr(at, size));
            at += size;
        }
        ASSERT_EQ(trace.text(), expected) << testing::PrintToString(stream);
        ASSERT_EQ(test::websocket_trace_in_steps(stream, stream.size(), role, small, &deflater), expected);
    }
}

// --- sessions

class end {
 public:
    explicit end(const net::websocket_deflate& agreed) : session({}, agreed) {}
    end(net::websocket_key_source& keys, const net::websocket_deflate& agreed) : session(keys, {}, agreed) {}

    // Bytes from the peer. Returns: what came of them, as a trace. `echo`: messages are sent back.
    std::string take(std::string_view bytes, bool echo = false) {
        held_.append(bytes);
        std::string all = std::exchange(held_, {});
        std::string trace;
        using enum net::websocket_session::event;
        while (true) switch (session.next(all, out)) {
                case need_more: held_.assign(session.kept(all).begin(), session.kept(all).end()); return trace;
                case message:
                    trace += websocket_line(session.is_text() ? "text" : "binary", session.payload(all));
                    if (echo) {
                        EXPECT_EQ(session.send(out, session.is_text(), session.payload(all)), websocket_sent::ok);
                    }
                    break;
                case ping: trace += websocket_line("ping", session.payload(all)); break;
                case pong: trace += websocket_line("pong", session.payload(all)); break;
                case close: trace += websocket_line("close", session.payload(all)); break;
                case refused: trace += "refused " + std::to_string(session.code()) + "\n"; break;
            }
    }
    std::string sent() { return std::exchange(out, {}); }

    net::websocket_session session;
    std::string out;

 private:
    std::string held_;
};

TEST(WebsocketSession, DeflatesWhatGetsShorterByIt) {
    test::seeded_random random;
    websocket_deflater deflater;
    end server({.deflater = &deflater, .bytes_min = 100});
    const auto sent_as = [&](std::string_view payload, bool last_piece = true, bool as_it_is = false) {
        EXPECT_EQ(server.session.send(server.out, true, payload, last_piece, as_it_is), websocket_sent::ok);
        return static_cast<unsigned char>(server.sent().at(0));
    };
    EXPECT_EQ(sent_as(std::string(99, 'x')), 0x81) << "below what is worth it";
    EXPECT_EQ(sent_as(std::string(100, 'x')), 0xC1);
    EXPECT_EQ(sent_as(std::string(100, 'x'), true, true), 0x81);
    std::string ascii;
    for (int i = 0; i < 200; ++i) ascii.push_back(static_cast<char>(random.below(128)));
    EXPECT_EQ(sent_as(ascii), 0x81) << "would not be shorter";
    EXPECT_EQ(sent_as(std::string(100, 'x'), false), 0x01) << "pieces go as they are";
    EXPECT_EQ(sent_as(std::string(100, 'x'), false), 0x00);
    EXPECT_EQ(sent_as(std::string(100, 'x')), 0x80);
    EXPECT_EQ(server.session.send(server.out, true, std::string(100, '\xFF')), websocket_sent::not_utf8);
    end plain(net::websocket_deflate{});
    EXPECT_EQ(plain.session.send(plain.out, true, std::string(100, 'x')), websocket_sent::ok);
    EXPECT_EQ(plain.sent().at(0), '\x81');
    EXPECT_EQ(plain.take(raw_frame(last | deflated | text, hello, true)), "refused 1002\n");
}

// What an echo is handed over lies in the deflater that its answer goes through.
TEST(WebsocketSession, EchoesWhatWasInflated) {
    websocket_deflater deflater;
    end server({.deflater = &deflater});
    test::seeded_random random;
    compressor make(random);
    for (const std::size_t size : {100U, 32768U, 100000U}) {
        std::string message;
        while (message.size() < size) message += std::to_string(message.size());
        EXPECT_EQ(server.take(raw_frame(last | deflated | text, make(message), true), true),
                  websocket_line("text", message));
        const std::string answer = server.sent();
        EXPECT_EQ(answer.at(0), '\xC1');
        EXPECT_EQ(test::websocket_model(answer, websocket_role::client, {}, true), websocket_line("text", message));
    }
}

// Random messages between the two ends of several connections, which share one deflater, cut anywhere.
TEST(WebsocketSession, WhatIsDeflatedArrivesHoweverItIsCut) {
    test::seeded_random random;
    compressor make(random);
    net::websocket_key_source keys;
    for (std::uint64_t round = test::scaled(100); round-- != 0;) {
        websocket_deflater deflater;
        struct connection {
            std::unique_ptr<end> ends[2];
            std::string wire[2], expected[2], arrived[2];
        };
        std::vector<connection> all(3);
        for (connection& c : all) {
            const net::websocket_deflate agreed{.deflater = &deflater,
                                                .bytes_min = static_cast<std::uint32_t>(random.below(200)),
                                                .window_bits = static_cast<std::uint8_t>(9 + random.below(7))};
            c.ends[0] = std::make_unique<end>(agreed);
            c.ends[1] = std::make_unique<end>(keys, agreed);
        }
        for (int step = 0; step < 60; ++step) {
            connection& c = all[random.below(all.size())];
            const std::size_t from = random.below(2), to = 1 - from;
            if (random.below(2) == 0) {
                const std::string says = make.some(random.below(20) == 0 ? 60'000 : 400);
                const bool is_text = test::model_utf8(says, true) && random.below(2) == 0;
                ASSERT_EQ(c.ends[from]->session.send(c.ends[from]->out, is_text, says), websocket_sent::ok);
                c.expected[to] += websocket_line(is_text ? "text" : "binary", says);
                c.wire[to] += c.ends[from]->sent();
            } else {
                const std::size_t bytes = random.below(c.wire[to].size() + 1);
                c.arrived[to] += c.ends[to]->take(c.wire[to].substr(0, bytes));
                c.wire[to].erase(0, bytes);
            }
        }
        for (connection& c : all)
            for (const std::size_t to : {0U, 1U}) {
                c.arrived[to] += c.ends[to]->take(c.wire[to]);
                ASSERT_EQ(c.arrived[to], c.expected[to]);
            }
    }
}

}  // namespace

#else

TEST(WebsocketDeflater, SaysThatItWasBuiltWithoutZlib) {
    try {
        holdfast::net::websocket_deflater deflater;
        FAIL() << "made of nothing";
    } catch (const holdfast::error& e) {
        EXPECT_EQ(e.reason(), holdfast::errc::unsupported);
        EXPECT_NE(std::string(e.what()).find("HOLDFAST_NET_DEFLATE"), std::string::npos);
    }
}

#endif
