// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/chunked_decoder.hpp"

#include <algorithm>
#include <cstring>

#include "characters.hpp"
#include "holdfast/net/request.hpp"

namespace holdfast::net {

using detail::hex_char;
using detail::is;
using detail::is_blank;
using detail::token_char;
using detail::value_char;

enum class chunked_decoder::state : std::uint8_t {
    size_first,         // a chunk's size must begin here
    size,               // more digits, an extension or the line's end
    size_blank,         // BWS after the size or an extension: only ';' may follow (or '=' after a bare name)
    name_blank,         // BWS behind ';'
    name,               // extension name
    name_end_blank,     // BWS behind a name: '=' or ';'
    value_blank,        // BWS behind '='
    value,              // extension value, token
    quoted,             // extension value, quoted-string
    quoted_escape,      // behind a backslash in it
    quoted_end,         // behind the closing quote
    size_line_feed,     //
    data,               //
    data_return,        // CR that ends the data
    data_line_feed,     //
    trailer_start,      // a trailer field or the last empty line
    trailer_name,       //
    trailer_value,      //
    trailer_line_feed,  //
    last_line_feed,     //
    done,
};

chunked_decoder::chunked_decoder(const message_limits& limits) noexcept : limits_(limits), state_(state::size_first) {}

void chunked_decoder::reset() noexcept {
    decoded_ = left_ = 0;
    extension_bytes_ = trailer_bytes_ = 0;
    digits_ = name_bytes_ = 0;
    refusal_status_ = 0;
    refusal_reason_ = {};
    state_ = state::size_first;
}

void chunked_decoder::keep_trailers(std::string* to) {
    to->reserve(to->size() + limits_.trailer_bytes_max);  // decode() cannot throw
    trailers_ = to;
}

bool chunked_decoder::refuse(int code, std::string_view reason) noexcept {
    refusal_status_ = code;
    refusal_reason_ = reason;
    return false;
}

chunked_decoder::status chunked_decoder::decode(std::span<char> bytes, std::size_t& read, std::size_t& write) noexcept {
    if (refusal_status_ != 0) return status::refused;
    while (read < bytes.size()) {
        if (state_ != state::data) {
            if (!step(bytes[read++])) return status::refused;
            if (state_ == state::done) return status::complete;
            continue;
        }
        const std::size_t run = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size() - read));
        if (write != read) std::memmove(bytes.data() + write, bytes.data() + read, run);
        read += run;
        write += run;
        left_ -= run;
        if (left_ == 0) state_ = state::data_return;
    }
    return state_ == state::done ? status::complete : status::need_more;
}

bool chunked_decoder::step(char byte) noexcept {
    if (state_ <= state::size) return step_size(byte);
    if (state_ < state::size_line_feed) return step_extension(byte);
    if (state_ >= state::trailer_start) return step_trailer(byte);
    switch (state_) {
        case state::size_line_feed:
            return byte == '\n' ? end_of_size_line() : refuse(400, "bare CR in a chunk size line");
        case state::data_return:
            state_ = state::data_line_feed;
            return byte == '\r' || refuse(400, "chunk data longer than its size");
        default:  // data_line_feed
            state_ = state::size_first;
            return byte == '\n' || refuse(400, "chunk data not ended by CRLF");
    }
}

bool chunked_decoder::step_size(char byte) noexcept {
    if (is(byte, hex_char)) {
        if (state_ == state::size_first) left_ = digits_ = 0;
        if (++digits_ > 16) return refuse(400, "chunk size of more than 16 digits");
        left_ = left_ << 4U | detail::hex_value(byte);
        state_ = state::size;
        return true;
    }
    if (state_ == state::size_first) return refuse(400, "chunk size is not a hexadecimal number");
    if (byte == '\r') {
        state_ = state::size_line_feed;
        return true;
    }
    state_ = state::size_blank;
    return step_extension(byte);
}

// Judges every byte between a chunk's size and its line's end, the CR included.
bool chunked_decoder::step_extension(char byte) noexcept {
    if (++extension_bytes_ > limits_.chunk_extension_bytes_max) return refuse(413, "chunk extensions too long");
    const auto move_to = [this](state next) { return state_ = next, true; };
    switch (state_) {
        case state::size_blank:
            if (byte == ';') return move_to(state::name_blank);
            if (is_blank(byte)) return true;
            break;
        case state::name_blank:
            if (is_blank(byte)) return true;
            if (is(byte, token_char)) return move_to(state::name);
            break;
        case state::name:
            if (is(byte, token_char)) return true;
            if (byte == '\r') return move_to(state::size_line_feed);
            [[fallthrough]];
        case state::name_end_blank:
            if (byte == '=') return move_to(state::value_blank);
            if (byte == ';') return move_to(state::name_blank);
            if (is_blank(byte)) return move_to(state::name_end_blank);
            break;
        case state::value_blank:
            if (is_blank(byte)) return true;
            if (byte == '"') return move_to(state::quoted);
            if (is(byte, token_char)) return move_to(state::value);
            break;
        case state::quoted:
            if (byte == '"') return move_to(state::quoted_end);
            if (byte == '\\') return move_to(state::quoted_escape);
            if (is(byte, value_char)) return true;
            break;
        case state::quoted_escape:
            if (is(byte, value_char)) return move_to(state::quoted);
            break;
        case state::value:
            if (is(byte, token_char)) return true;
            [[fallthrough]];
        default:  // quoted_end
            if (byte == '\r') return move_to(state::size_line_feed);
            if (byte == ';') return move_to(state::name_blank);
            if (is_blank(byte)) return move_to(state::size_blank);
    }
    return refuse(400, "malformed chunk extension");
}

bool chunked_decoder::end_of_size_line() noexcept {
    if (left_ == 0) {
        state_ = state::trailer_start;
        return true;
    }
    if (left_ > limits_.body_bytes_max - decoded_) return refuse(413, "body too long");
    decoded_ += left_;
    state_ = state::data;
    return true;
}

bool chunked_decoder::step_trailer(char byte) noexcept {
    if (++trailer_bytes_ > limits_.trailer_bytes_max) return refuse(431, "trailer section too long");
    if (trailers_ != nullptr) trailers_->push_back(byte);
    switch (state_) {
        case state::trailer_start:
            name_bytes_ = 0;
            if (byte == '\r') return state_ = state::last_line_feed, true;
            state_ = state::trailer_name;
            if (!is(byte, token_char)) return refuse(400, "malformed trailer field");
            [[fallthrough]];
        case state::trailer_name:
            if (is(byte, token_char)) {
                if (name_bytes_ < sizeof name_) name_[name_bytes_++] = byte;
                return true;
            }
            if (byte != ':') return refuse(400, "malformed trailer field name");
            for (const std::string_view framing : {"content-length", "transfer-encoding", "host", "trailer"})
                if (equal_ignoring_case({name_, name_bytes_}, framing))
                    return refuse(400, "framing field in a trailer");
            state_ = state::trailer_value;
            return true;
        case state::trailer_value:
            if (is(byte, value_char)) return true;
            state_ = state::trailer_line_feed;
            return byte == '\r' || refuse(400, "control character in a trailer field");
        case state::trailer_line_feed:
            state_ = state::trailer_start;
            return byte == '\n' || refuse(400, "bare CR in a trailer");
        default:  // last_line_feed
            state_ = state::done;
            return byte == '\n' || refuse(400, "bare CR in a trailer");
    }
}

}  // namespace holdfast::net
