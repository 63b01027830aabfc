// SPDX-License-Identifier: Apache-2.0
// zlib's own compressor makes streams of every kind; a model that knows no zlib (support/inflate_model.hpp) says
// what streams say, right ones and wrong ones.
#include "holdfast/net/websocket_deflater.hpp"

#include <gtest/gtest.h>

#include "holdfast/error.hpp"

#ifdef HOLDFAST_TEST_WITH_DEFLATE

#include <zlib.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/inflate_model.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace std::string_literals;
using net::websocket_deflater;
using outcome = net::websocket_deflater::outcome;
using test::deflate_bits;
using test::inflate_model;
using test::inflated;

constexpr std::size_t plenty = 1U << 20U;

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
