// SPDX-License-Identifier: Apache-2.0
// websocket_fuzz.cpp - any bytes as frames, to both roles and cut anywhere, against a model that sees them whole.
//
// The first byte chooses the limits, the second the cuts. Messages may be deflated, or may not: both are tried. The
// same bytes then answer a client's opening handshake.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/net/websocket_deflater.hpp"
#include "holdfast/net/websocket_handshake.hpp"
#include "holdfast/net/websocket_session.hpp"
#include "require.hpp"
#include "support/websocket_trace.hpp"

namespace {

using namespace holdfast;
using fuzz::require;

// Of a build without zlib: none.
net::websocket_deflater* deflater() {
#ifdef HOLDFAST_TEST_WITH_DEFLATE
    static net::websocket_deflater one;
    return &one;
#else
    return nullptr;
#endif
}

// What came is said again as it came, deflated where that was agreed on.
void echo(net::websocket_session& session, std::span<const char> bytes, net::websocket_deflater* packer) {
    std::string out;
    const std::string payload(session.payload(bytes));
    require(session.send(out, session.is_text(), payload) == net::websocket_sent::ok, "what may come may be sent");
    require(test::websocket_model(out, net::websocket_role::client, {}, packer != nullptr) ==
                test::websocket_line(session.is_text() ? "text" : "binary", payload),
            "what is sent says the same");
}

// What a session answers is frames that a peer of the other role takes, and closes by the rules.
void answer(std::string_view stream, const net::websocket_limits& limits, net::websocket_deflater* packer) {
    net::websocket_session session(limits, {.deflater = packer});
    std::string bytes(stream), out;
    using enum net::websocket_session::event;
    std::size_t pings = 0;
    for (auto what = message; what != need_more;) {
        what = session.next(bytes, out);
        pings += what == ping ? 1 : 0;
        require(!session.done() || !session.may_send(), "who is done sends nothing");
        if (what == message && session.may_send()) echo(session, bytes, packer);
    }
    const std::string answers = test::websocket_model(out, net::websocket_role::client);
    require(answers.find("refused") == std::string::npos, "answers obey the rules");
    require(static_cast<std::size_t>(std::count(out.begin(), out.end(), '\x8A')) >= pings, "each ping is answered");
    require(session.done() == (answers.find("close ") != std::string::npos), "a close is the last answer");
    require(out.size() <= stream.size() + 128, "answers are bounded by what was asked");
}

void open(std::string_view stream, bool deflate) {
    net::websocket_key_source keys;
    net::websocket_opening whole(keys, {.host = "a", .header_bytes_max = 512, .permessage_deflate = deflate});
    net::websocket_opening bytewise(whole);
    const auto expected = whole.read(stream);
    auto status = bytewise.read("");
    for (std::size_t known = 1; known <= stream.size() && status == net::websocket_opening::status::need_more; ++known)
        status = bytewise.read(stream.substr(0, known));
    require(status == expected, "cuts do not change the handshake");
    require(whole.consumed() == bytewise.consumed() && whole.reason() == bytewise.reason(), "nor what it says");
    require(deflate || !whole.permessage_deflate(), "nothing is agreed on that was not offered");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    if (bytes < 2) return 0;
    net::websocket_limits limits =
        data[0] % 2 == 0 ? net::websocket_limits{}
                         : net::websocket_limits{.frame_bytes_max = data[0] / 2U, .message_bytes_max = data[0]};
    const std::size_t step = data[1] + std::size_t{1};
    const std::string stream(data + 2, data + bytes);
    for (net::websocket_deflater* const packer : {static_cast<net::websocket_deflater*>(nullptr), deflater()}) {
        if (packer != nullptr) limits.message_bytes_max = std::min(limits.message_bytes_max, std::size_t{1} << 14U);
        for (const net::websocket_role role : {net::websocket_role::server, net::websocket_role::client}) {
            const std::string expected = test::websocket_model(stream, role, limits, packer != nullptr);
            for (const std::size_t cut : {stream.size() + 1, step, std::size_t{1}, std::size_t{3}})
                require(test::websocket_trace_in_steps(stream, cut, role, limits, packer) == expected,
                        "reader and model agree");
        }
        answer(stream, limits, packer);
        open(stream, packer != nullptr);
    }
    return 0;
}
