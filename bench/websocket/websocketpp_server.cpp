// SPDX-License-Identifier: Apache-2.0
// websocketpp_server.cpp - websocketpp as a subject of the websocket suite: websocket_websocketpp_server [version]
//
// /echo sends each message back, /publish to every connection of /subscribe. One thread, and both the library and asio
// are told so: no locks, no strand. No logging, no time-outs, no compression, receive buffers as large as the largest
// message. A message that is sent on is the received one with the header of a server's frame, and counts as prepared:
// nothing is copied, and all subscribers share it. What waits for a connection the library joins in one write of its
// own. Prints "listening PORT".
#include <cstdio>

#if __has_include(<websocketpp/server.hpp>) && __has_include(<boost/asio/io_context.hpp>)

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/version.hpp>
#include <websocketpp/concurrency/none.hpp>
#include <websocketpp/config/asio_no_tls.hpp>
#include <websocketpp/frame.hpp>
#include <websocketpp/logger/stub.hpp>
#include <websocketpp/server.hpp>
#include <websocketpp/version.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include "peer_main.hpp"

namespace {

namespace asio = boost::asio;

struct settings : websocketpp::config::asio {
    using type = settings;
    using concurrency_type = websocketpp::concurrency::none;
    using alog_type = websocketpp::log::stub;
    using elog_type = websocketpp::log::stub;
    struct transport_config : websocketpp::config::asio::transport_config {
        using concurrency_type = type::concurrency_type;
        using alog_type = type::alog_type;
        using elog_type = type::elog_type;
        static constexpr bool enable_multithreading = false;
        static constexpr long timeout_socket_post_init = 0;
    };
    using transport_type = websocketpp::transport::asio::endpoint<transport_config>;
    static constexpr bool enable_multithreading = false;
    static constexpr long timeout_open_handshake = 0;
    static constexpr long timeout_close_handshake = 0;
    static constexpr std::size_t connection_read_buffer_size = 64U << 10U;
};

using endpoint = websocketpp::server<settings>;
using connection = endpoint::connection_type;
using message = endpoint::message_ptr;

/// The message as a frame of a server's: one, without a key.
void prepare(message& received) {
    const std::size_t bytes = received->get_payload().size();
    const websocketpp::frame::basic_header header(received->get_opcode(), bytes, true, false);
    received->set_header(websocketpp::frame::prepare_header(header, websocketpp::frame::extended_header(bytes)));
    received->set_prepared(true);
}

class server {
 public:
    explicit server(asio::io_context& loop) {
        endpoint_.init_asio(&loop);
        endpoint_.set_listen_backlog(4096);
        endpoint_.set_tcp_pre_init_handler([this](websocketpp::connection_hdl handle) {
            boost::system::error_code ignored;
            endpoint_.get_con_from_hdl(handle)->get_raw_socket().set_option(asio::ip::tcp::no_delay(true), ignored);
        });
        endpoint_.set_open_handler(
            [this](websocketpp::connection_hdl handle) { opened(*endpoint_.get_con_from_hdl(handle)); });
        endpoint_.set_close_handler([this](websocketpp::connection_hdl handle) {
            subscribers_.erase(endpoint_.get_con_from_hdl(handle).get());
        });
        endpoint_.listen(asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
        endpoint_.start_accept();
    }
    [[nodiscard]] unsigned port() {
        boost::system::error_code code;
        return endpoint_.get_local_endpoint(code).port();
    }

 private:
    /// Each connection gets a handler of its path's own; it lives as long as the connection that it is given.
    void opened(connection& one) {
        const std::string& path = one.get_resource();
        if (path == "/subscribe") subscribers_.insert(&one);
        if (path == "/echo")
            one.set_message_handler([&one](const websocketpp::connection_hdl&, message received) {
                prepare(received);
                (void)one.send(received);
            });
        if (path == "/publish")
            one.set_message_handler([this](const websocketpp::connection_hdl&, message received) {
                prepare(received);
                for (connection* const each : subscribers_) (void)each->send(received);
            });
    }

    endpoint endpoint_;
    std::unordered_set<connection*> subscribers_;
};

}  // namespace

int main(int count, char** words) {
    const std::string version =
        "websocketpp " + std::to_string(websocketpp::major_version) + "." + std::to_string(websocketpp::minor_version) +
        "." + std::to_string(websocketpp::patch_version) + " on asio of " + holdfast::bench::boost_text(BOOST_VERSION);
    return holdfast::bench::peer_main("websocket_websocketpp_server", version, count, words, [] {
        asio::io_context loop(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
        server all(loop);
        holdfast::bench::announce(all.port());
        loop.run();
        return 0;
    });
}

#else

int main() {
    std::fprintf(stderr, "websocketpp was not there when this was built (packages/bench_headers.txt)\n");
    return 1;
}

#endif
