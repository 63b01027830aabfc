// SPDX-License-Identifier: Apache-2.0
// beast_server.cpp - Boost.Beast as a subject of the websocket suite: websocket_beast_server [version]
//
// /echo sends each message back, /publish to every connection of /subscribe. One thread, and asio is told so: no locks,
// no executor behind a pointer. A message is one frame; no compression, no time-outs. Each takes a call of its own;
// those that wait for a subscriber go behind a cork, and the kernel joins them. Prints "listening PORT".
#include <cstdio>

#if __has_include(<boost/beast/websocket.hpp>)

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/version.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/version.hpp>

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "peer_main.hpp"

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using socket_type = asio::basic_stream_socket<tcp, asio::io_context::executor_type>;
using acceptor_type = asio::basic_socket_acceptor<tcp, asio::io_context::executor_type>;
using error_code = beast::error_code;

class session;
using subscribers = std::unordered_set<session*>;
using shared_text = std::shared_ptr<const std::string>;

class session : public std::enable_shared_from_this<session> {
 public:
    session(socket_type socket, subscribers& all) : stream_(std::move(socket)), all_(all) {}
    ~session() { all_.erase(this); }
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    void run() {
        http::async_read(stream_.next_layer(), buffer_, request_,
                         [self = shared_from_this()](error_code code, std::size_t) {
                             if (!code) self->accept();
                         });
    }

    /// Writing begins a turn later: by then the publisher's next message is here, if it came in the same read.
    void send(const shared_text& message) {
        queue_.push_back(message);
        if (queue_.size() == 1) asio::post(stream_.get_executor(), [self = shared_from_this()] { self->write_next(); });
    }

 private:
    void accept() {
        stream_.auto_fragment(false);
        stream_.binary(true);
        stream_.async_accept(request_, [self = shared_from_this()](error_code code) {
            if (code) return;
            const auto path = self->request_.target();
            self->echoes_ = path == "/echo";
            self->publishes_ = path == "/publish";
            if (path == "/subscribe") self->all_.insert(self.get());
            self->buffer_.consume(self->buffer_.size());
            self->read();
        });
    }

    void read() {
        stream_.async_read(buffer_, [self = shared_from_this()](error_code code, std::size_t) {
            if (!code)
                self->received();
            else
                self->all_.erase(self.get());
        });
    }

    void received() {
        if (echoes_) {
            stream_.async_write(buffer_.data(), [self = shared_from_this()](error_code code, std::size_t) {
                self->buffer_.consume(self->buffer_.size());
                if (!code) self->read();
            });
            return;
        }
        const auto bytes = buffer_.cdata();
        const auto message =
            publishes_ ? std::make_shared<const std::string>(static_cast<const char*>(bytes.data()), bytes.size())
                       : nullptr;
        buffer_.consume(buffer_.size());
        read();  // before the others' writes, so that the next message is queued ahead of them
        if (message)
            for (session* const each : all_) each->send(message);
    }

    /// While it is on, the kernel keeps what fills no segment; what it kept leaves when it goes off.
    void cork(bool on) {
        if (on == corked_) return;
        corked_ = on;
        const int value = on ? 1 : 0;
        (void)::setsockopt(stream_.next_layer().native_handle(), IPPROTO_TCP, TCP_CORK, &value, sizeof value);
    }

    void write_next() {
        if (queue_.size() > 1) cork(true);
        stream_.async_write(asio::buffer(*queue_.front()), [self = shared_from_this()](error_code code, std::size_t) {
            if (code) {
                self->all_.erase(self.get());
                return;
            }
            self->queue_.pop_front();
            if (!self->queue_.empty()) return self->write_next();
            self->cork(false);
        });
    }

    beast::websocket::stream<socket_type> stream_;
    subscribers& all_;
    beast::flat_buffer buffer_;
    http::request<http::empty_body> request_;
    std::deque<shared_text> queue_;
    bool echoes_ = false, publishes_ = false, corked_ = false;
};

class server {
 public:
    explicit server(asio::io_context& loop) : acceptor_(loop) {
        const tcp::endpoint any(asio::ip::address_v4::loopback(), 0);
        acceptor_.open(any.protocol());
        acceptor_.bind(any);
        acceptor_.listen(4096);
    }
    [[nodiscard]] unsigned port() const { return acceptor_.local_endpoint().port(); }

    void accept() {
        acceptor_.async_accept([this](error_code code, socket_type socket) {
            if (!code) {
                error_code ignored;
                socket.set_option(tcp::no_delay(true), ignored);
                std::make_shared<session>(std::move(socket), all_)->run();
            }
            accept();
        });
    }

 private:
    acceptor_type acceptor_;
    subscribers all_;
};

}  // namespace

int main(int count, char** words) {
    const std::string version =
        "Boost.Beast " + std::to_string(BOOST_BEAST_VERSION) + " of " + holdfast::bench::boost_text(BOOST_VERSION);
    return holdfast::bench::peer_main("websocket_beast_server", version, count, words, [] {
        asio::io_context loop(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
        server all(loop);
        all.accept();
        holdfast::bench::announce(all.port());
        loop.run();
        return 0;
    });
}

#else

int main() {
    std::fprintf(stderr, "Boost.Beast was not installed when this was built (packages/bench.txt)\n");
    return 1;
}

#endif
