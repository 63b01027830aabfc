// SPDX-License-Identifier: Apache-2.0
// websocket_fuzz.cpp - any bytes as frames, to both roles and cut anywhere, against a model that sees them whole.
//
// The first byte chooses the limits, the second the cuts. The same bytes then answer a client's opening handshake.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/net/websocket_handshake.hpp"
#include "holdfast/net/websocket_session.hpp"
#include "require.hpp"
#include "support/websocket_trace.hpp"

namespace {

using namespace holdfast;
using fuzz::require;

// What a session answers is frames that a peer of the other role takes, and closes by the rules.
void answer(std::string_view stream, const net::websocket_limits& limits) {
    net::websocket_session session(limits);
    std::string bytes(stream), out;
    using enum net::websocket_session::event;
    std::size_t pings = 0;
    for (auto what = message; what != need_more;) {
        what = session.next(bytes, out);
        pings += what == ping ? 1 : 0;
        require(!session.done() || !session.may_send(), "who is done sends nothing");
    }
    const std::string answers = test::websocket_model(out, net::websocket_role::client);
    require(answers.find("refused") == std::string::npos, "answers obey the rules");
    require(static_cast<std::size_t>(std::count(out.begin(), out.end(), '\x8A')) >= pings, "each ping is answered");
    require(session.done() == (answers.find("close ") != std::string::npos), "a close is the last answer");
    require(out.size() <= stream.size() + 128, "answers are bounded by what was asked");
}

void open(std::string_view stream) {
    net::websocket_key_source keys;
    net::websocket_opening whole(keys, {.host = "a", .header_bytes_max = 512});
    net::websocket_opening bytewise(whole);
    const auto expected = whole.read(stream);
    auto status = bytewise.read("");
    for (std::size_t known = 1; known <= stream.size() && status == net::websocket_opening::status::need_more; ++known)
        status = bytewise.read(stream.substr(0, known));
    require(status == expected, "cuts do not change the handshake");
    require(whole.consumed() == bytewise.consumed() && whole.reason() == bytewise.reason(), "nor what it says");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    if (bytes < 2) return 0;
    const net::websocket_limits limits =
        data[0] % 2 == 0 ? net::websocket_limits{}
                         : net::websocket_limits{.frame_bytes_max = data[0] / 2U, .message_bytes_max = data[0]};
    const std::size_t step = data[1] + std::size_t{1};
    const std::string stream(data + 2, data + bytes);
    for (const net::websocket_role role : {net::websocket_role::server, net::websocket_role::client}) {
        const std::string expected = test::websocket_model(stream, role, limits);
        for (const std::size_t cut : {stream.size() + 1, step, std::size_t{1}, std::size_t{3}})
            require(test::websocket_trace_in_steps(stream, cut, role, limits) == expected, "reader and model agree");
    }
    answer(stream, limits);
    open(stream);
    return 0;
}
