// SPDX-License-Identifier: Apache-2.0
// websocket_deflater.cpp - the one file that includes zlib. Built without it, this file says so to whoever makes a
// deflater.
#include "holdfast/net/websocket_deflater.hpp"

#ifdef HOLDFAST_WITH_DEFLATE

#define ZLIB_CONST
#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace holdfast::net {

namespace {

constexpr std::size_t kept_bytes = 32U << 10U;
constexpr std::size_t piece_bytes_max = 1U << 30U;  // zlib counts in 32 bits
constexpr std::size_t ratio_max = 1032;             // 258 bytes for two bits: no byte of deflate says more
constexpr int window_bits_min = 9, window_bits_max = 15;
constexpr int memory_level = 8;  // zlib's own default

// Behind each message stands this, the end of an empty stored block, which is not sent. (RFC 7692 section 7.2.1)
constexpr std::string_view tail{"\x00\x00\xFF\xFF", 4};

struct buffer {
    /// Makes it hold `to` bytes, of which the first `used` stay. Returns: false for lack of memory.
    [[nodiscard]] bool grow(std::size_t to, std::size_t used) noexcept {
        if (to <= bytes) return true;
        std::unique_ptr<char[]> larger(new (std::nothrow) char[to]);
        if (!larger) return false;
        std::copy_n(memory.get(), used, larger.get());
        memory = std::move(larger);
        bytes = to;
        return true;
    }
    void shrink() noexcept {
        if (bytes > kept_bytes) *this = {};
    }

    std::unique_ptr<char[]> memory;
    std::size_t bytes = 0;
};

const Bytef* bytes_of(std::string_view text) noexcept { return reinterpret_cast<const Bytef*>(text.data()); }

}  // namespace

struct websocket_deflater::streams {
    streams() = default;
    streams(const streams&) = delete;
    streams& operator=(const streams&) = delete;
    ~streams() {
        if (in_ready) (void)inflateEnd(&in);
        for (std::size_t i = 0; i < out.size(); ++i)
            if (out_ready[i]) (void)deflateEnd(&out[i]);
    }

    [[nodiscard]] bool begin(std::size_t most_bytes) noexcept;
    [[nodiscard]] outcome feed(std::string_view piece) noexcept;
    [[nodiscard]] outcome feed_message(std::string_view payload) noexcept;
    [[nodiscard]] z_stream* packer(int window_bits) noexcept;

    z_stream in{};
    buffer inflated;
    std::size_t size = 0;  // of the message so far; <= most
    std::size_t most = 0;
    bool whole = false;  // what was fed ends behind a block
    bool in_ready = false;

    std::array<z_stream, window_bits_max - window_bits_min + 1> out{};  // by their windows; made when they are needed
    std::array<bool, window_bits_max - window_bits_min + 1> out_ready{};
    buffer deflated;
};

websocket_deflater::websocket_deflater() : streams_(std::make_unique<streams>()) {}
websocket_deflater::~websocket_deflater() = default;

bool websocket_deflater::streams::begin(std::size_t most_bytes) noexcept {
    inflated.shrink();
    size = 0;
    most = most_bytes;
    whole = false;
    if (in_ready) return inflateReset(&in) == Z_OK;
    in_ready = inflateInit2(&in, -window_bits_max) == Z_OK;
    return in_ready;
}

websocket_deflater::outcome websocket_deflater::streams::feed(std::string_view piece) noexcept {
    in.next_in = bytes_of(piece);
    in.avail_in = static_cast<uInt>(piece.size());
    while (true) {
        const bool full = size == most;  // then one byte more is one too many
        if (!full && size == inflated.bytes && !inflated.grow(size == 0 ? kept_bytes : most, size))
            return outcome::too_big;
        Bytef beyond = 0;
        const std::size_t left = std::min(inflated.bytes, most) - size;
        const uInt room = full ? 1 : static_cast<uInt>(std::min(left, piece_bytes_max));
        in.next_out = full ? &beyond : reinterpret_cast<Bytef*>(inflated.memory.get() + size);
        in.avail_out = room;
        const int told = ::inflate(&in, Z_SYNC_FLUSH);
        const std::size_t made = room - in.avail_out;
        if (full && made != 0) return outcome::too_big;
        size += made;
        switch (told) {
            case Z_STREAM_END:  // a final block, behind which another stream may begin: RFC 7692 section 7.2.3.4
                (void)inflateReset(&in);
                whole = in.avail_in == 0;
                if (whole) return outcome::ok;
                break;
            case Z_OK: whole = (in.data_type & 0xBF) == 0x80; [[fallthrough]];  // no bit is left behind a block
            case Z_BUF_ERROR:  // nothing to do; what zlib says of blocks then is nothing either
                if (in.avail_in == 0 && in.avail_out != 0) return outcome::ok;
                break;
            case Z_MEM_ERROR: return outcome::too_big;
            default: return outcome::corrupt;
        }
    }
}

websocket_deflater::outcome websocket_deflater::streams::feed_message(std::string_view payload) noexcept {
    if (payload.empty()) return outcome::ok;
    for (; !payload.empty(); payload.remove_prefix(std::min(payload.size(), piece_bytes_max)))
        if (const outcome told = feed(payload.substr(0, piece_bytes_max)); told != outcome::ok) return told;
    if (const outcome told = feed(tail); told != outcome::ok) return told;
    return whole ? outcome::ok : outcome::corrupt;
}

websocket_deflater::outcome websocket_deflater::inflate(std::string_view payload, std::size_t bytes_max) noexcept {
    const std::size_t bound = (payload.size() + tail.size()) * ratio_max;
    if (!streams_->begin(std::min(bytes_max, bound))) return outcome::too_big;
    const outcome told = streams_->feed_message(payload);
    if (told != outcome::ok) forget();
    return told;
}

std::string_view websocket_deflater::message() const noexcept {
    return {streams_->inflated.memory.get(), streams_->size};
}

void websocket_deflater::forget() noexcept {
    streams_->size = 0;
    streams_->inflated.shrink();
}

z_stream* websocket_deflater::streams::packer(int window_bits) noexcept {
    const auto index = static_cast<std::size_t>(window_bits - window_bits_min);
    z_stream& stream = out[index];
    if (out_ready[index]) return deflateReset(&stream) == Z_OK ? &stream : nullptr;
    // The fastest: a loop that compresses serves nobody else meanwhile.
    out_ready[index] =
        deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, -window_bits, memory_level, Z_DEFAULT_STRATEGY) == Z_OK;
    return out_ready[index] ? &stream : nullptr;
}

std::string_view websocket_deflater::deflate(std::string_view message, unsigned window_bits) noexcept {
    if (message.empty() || message.size() > piece_bytes_max) return {};
    buffer& into = streams_->deflated;
    into.shrink();
    const std::size_t room = message.size() + tail.size();  // whoever fills it is not shorter
    z_stream* const stream = streams_->packer(static_cast<int>(window_bits));
    if (stream == nullptr || !into.grow(std::max(room, kept_bytes), 0)) return {};
    stream->next_in = bytes_of(message);
    stream->avail_in = static_cast<uInt>(message.size());
    stream->next_out = reinterpret_cast<Bytef*>(into.memory.get());
    stream->avail_out = static_cast<uInt>(room);
    if (::deflate(stream, Z_SYNC_FLUSH) != Z_OK || stream->avail_in != 0 || stream->avail_out == 0) return {};
    return {into.memory.get(), room - stream->avail_out - tail.size()};
}

}  // namespace holdfast::net

#else

#include "holdfast/error.hpp"

namespace holdfast::net {

struct websocket_deflater::streams {};

websocket_deflater::websocket_deflater() {
    throw error(errc::unsupported, "permessage-deflate",
                "this build of holdfast::net has no zlib; configure it with -DHOLDFAST_NET_DEFLATE=ON where zlib is "
                "installed (Debian: zlib1g-dev)");
}
websocket_deflater::~websocket_deflater() = default;
websocket_deflater::outcome websocket_deflater::inflate(std::string_view /*payload*/,
                                                        std::size_t /*bytes_max*/) noexcept {
    return outcome::too_big;
}
std::string_view websocket_deflater::message() const noexcept { return {}; }
void websocket_deflater::forget() noexcept {}
std::string_view websocket_deflater::deflate(std::string_view /*message*/, unsigned /*window_bits*/) noexcept {
    return {};
}

}  // namespace holdfast::net

#endif
