// SPDX-License-Identifier: Apache-2.0
// lws_server.cpp - libwebsockets as a subject of the websocket suite: websocket_lws_server [version]
//
// /echo sends each message back, /publish to every connection of /subscribe. One service thread, its own loop (poll),
// receive buffers of a whole message, no extensions, no logging. All that waits for a connection is written in one turn
// of the loop and behind a cork: each frame takes a call of its own, and the kernel joins them.
// Prints "listening PORT".
#include <cstdio>

#if __has_include(<libwebsockets.h>)

#include <libwebsockets.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

namespace {

constexpr std::size_t message_bytes_max = (64U << 10U) + LWS_PRE;
constexpr std::size_t service_bytes = 128U << 10U;

/// LWS_PRE bytes for the frame's header, and the message behind them.
using frame = std::shared_ptr<std::string>;

struct session {
    bool echoes = false, publishes = false;
    frame receiving;
    std::deque<frame> queue;
};

/// What libwebsockets keeps for us: zeroed memory, so a pointer.
struct kept {
    session* it;
};

std::unordered_set<lws*> subscribers;

void note_path(lws* connection, session& s) {
    std::array<char, 64> path{};
    if (lws_hdr_copy(connection, path.data(), path.size(), WSI_TOKEN_GET_URI) < 0) return;
    s.echoes = std::string_view(path.data()) == "/echo";
    s.publishes = std::string_view(path.data()) == "/publish";
    if (std::string_view(path.data()) == "/subscribe") subscribers.insert(connection);
}

void queue(lws* connection, const frame& message) {
    auto* const holder = static_cast<kept*>(lws_wsi_user(connection));
    holder->it->queue.push_back(message);
    lws_callback_on_writable(connection);
}

void receive(lws* connection, session& s, std::string_view piece) {
    if (!s.receiving) s.receiving = std::make_shared<std::string>(LWS_PRE, '\0');
    s.receiving->append(piece);
    if (lws_is_final_fragment(connection) == 0 || lws_remaining_packet_payload(connection) != 0) return;
    const frame message = std::move(s.receiving);
    s.receiving.reset();
    if (s.echoes) queue(connection, message);
    // A frame of a server has no key: its header, which is written before it anew each time, is the same for all.
    if (s.publishes)
        for (lws* const each : subscribers) queue(each, message);
}

/// While it is on, the kernel keeps what fills no segment; what it kept leaves when it goes off.
void cork(lws* connection, int on) {
    (void)::setsockopt(lws_get_socket_fd(connection), IPPROTO_TCP, TCP_CORK, &on, sizeof on);
}

bool write_next(lws* connection, session& s) {
    const frame message = s.queue.front();
    s.queue.pop_front();
    auto* const at = reinterpret_cast<unsigned char*>(message->data()) + LWS_PRE;
    return lws_write(connection, at, message->size() - LWS_PRE, LWS_WRITE_BINARY) >= 0;
}

int write(lws* connection, session& s) {
    const bool several = s.queue.size() > 1;  // two more calls for one message would join nothing
    if (several) cork(connection, 1);
    while (!s.queue.empty()) {
        if (!write_next(connection, s)) return -1;
        // The socket took less: nothing may follow in this turn. lws_send_pipe_choked would ask the kernel each time.
        if (lws_partial_buffered(connection) != 0) break;
    }
    if (several) cork(connection, 0);
    if (!s.queue.empty()) lws_callback_on_writable(connection);
    return 0;
}

int callback(lws* connection, lws_callback_reasons reason, void* user, void* in, size_t size) {
    auto* const holder = static_cast<kept*>(user);
    switch (reason) {
        case LWS_CALLBACK_ESTABLISHED:
            holder->it = new session;
            note_path(connection, *holder->it);
            break;
        case LWS_CALLBACK_CLOSED:
            subscribers.erase(connection);
            delete holder->it;
            holder->it = nullptr;
            break;
        case LWS_CALLBACK_RECEIVE: receive(connection, *holder->it, {static_cast<const char*>(in), size}); break;
        case LWS_CALLBACK_SERVER_WRITEABLE: return write(connection, *holder->it);
        default: break;
    }
    return 0;
}

const std::array<lws_protocols, 2> protocols{
    {{"holdfast", callback, sizeof(kept), message_bytes_max, 0, nullptr, 0}, {nullptr, nullptr, 0, 0, 0, nullptr, 0}}};

}  // namespace

int main(int count, char** words) {
    if (count == 2 && std::string_view(words[1]) == "version") {
        std::printf("libwebsockets %s\n", lws_get_library_version());
        return 0;
    }
    lws_set_log_level(LLL_ERR, nullptr);
    lws_context_creation_info info{};
    info.port = 0;
    info.iface = "127.0.0.1";
    info.protocols = protocols.data();
    info.options = LWS_SERVER_OPTION_DISABLE_IPV6;
    info.pt_serv_buf_size = service_bytes;
    info.max_http_header_pool = 4096;
    info.keepalive_timeout = 600;
    lws_context* const context = lws_create_context(&info);
    lws_vhost* const host = context != nullptr ? lws_get_vhost_by_name(context, "default") : nullptr;
    if (host == nullptr) {
        std::fprintf(stderr, "websocket_lws_server: no context\n");
        return 1;
    }
    std::printf("listening %d\n", lws_get_vhost_listen_port(host));
    std::fflush(stdout);
    while (lws_service(context, 0) >= 0) {
    }
    lws_context_destroy(context);
    return 0;
}

#else

int main() {
    std::fprintf(stderr, "libwebsockets was not there when this was built (packages/bench_headers.txt)\n");
    return 1;
}

#endif
