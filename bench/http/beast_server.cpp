// SPDX-License-Identifier: Apache-2.0
// beast_server.cpp - Boost.Beast as a subject of the http suite: http_beast_server computed|lookup CSV THREADS, or
// http_beast_server version
//
// A thread a core with a loop and a listener of its own (SO_REUSEPORT), and asio is told that it has one thread: no
// locks, no executor behind a pointer. All requests that came together are answered in one write. Fields of a request
// are kept in memory that stays; the response is one for all, its fixed fields set once, its date once a second. No
// time-outs. Prints "listening PORT".
#include <cstdio>

#if __has_include(<boost/beast/http.hpp>) && __has_include(<boost/unordered/unordered_flat_map.hpp>)

#include <sys/socket.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/version.hpp>
#include <boost/version.hpp>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "http/peer_loops.hpp"

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using holdfast::bench::http::peer_answers;
using tcp = asio::ip::tcp;
using socket_type = asio::basic_stream_socket<tcp, asio::io_context::executor_type>;
using acceptor_type = asio::basic_socket_acceptor<tcp, asio::io_context::executor_type>;
using reuse_port = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;
using parser_type = http::request_parser<http::empty_body, std::pmr::polymorphic_allocator<char>>;
using error_code = beast::error_code;

constexpr std::size_t read_bytes = 16U << 10U;

/// Writes responses one behind the other. One a loop.
class response_writer {
 public:
    explicit response_writer(const peer_answers& answers) : answers_(answers) {
        response_.set(http::field::content_type, "application/json");
        response_.set(http::field::cache_control, "no-store");
    }

    void append(std::string& output, std::string_view path, bool keep_alive) {
        if (const std::time_t now = std::time(nullptr); now != second_) set_date(now);
        std::string& body = response_.body();
        body.clear();
        response_.result(answers_.append(body, path) ? http::status::ok : http::status::not_found);
        response_.content_length(body.size());
        if (!keep_alive) response_.keep_alive(false);
        http::response_serializer<http::string_body> serializer(response_);
        error_code code;
        while (!code && !serializer.is_done())
            serializer.next(code, [&](error_code&, const auto& buffers) {
                std::size_t bytes = 0;
                for (const asio::const_buffer piece : beast::buffers_range_ref(buffers)) {
                    output.append(static_cast<const char*>(piece.data()), piece.size());
                    bytes += piece.size();
                }
                serializer.consume(bytes);
            });
        if (!keep_alive) response_.keep_alive(true);
    }

 private:
    void set_date(std::time_t now) {
        std::tm parts{};
        ::gmtime_r(&now, &parts);
        std::array<char, 64> text{};
        const std::size_t size = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
        response_.set(http::field::date, beast::string_view(text.data(), size));
        second_ = now;
    }

    const peer_answers& answers_;
    http::response<http::string_body> response_{http::status::ok, 11};
    std::time_t second_ = 0;
};

class session : public std::enable_shared_from_this<session> {
 public:
    session(socket_type socket, response_writer& writer) : socket_(std::move(socket)), writer_(writer) {}

    void read() {
        socket_.async_read_some(input_.prepare(read_bytes),
                                [self = shared_from_this()](error_code code, std::size_t bytes) {
                                    if (code) return;
                                    self->input_.commit(bytes);
                                    if (self->answer_all()) self->write();
                                });
    }

 private:
    /// Whether the connection goes on.
    bool answer_all() {
        while (input_.size() != 0 && !ends_) {
            if (!parser_) begin_request();
            error_code code;
            input_.consume(parser_->put(input_.cdata(), code));
            if (code == http::error::need_more) break;
            if (code) return false;
            if (!parser_->is_done()) continue;
            const auto& request = parser_->get();
            ends_ = !request.keep_alive();
            writer_.append(output_, {request.target().data(), request.target().size()}, !ends_);
            parser_.reset();
        }
        return true;
    }

    void begin_request() {
        memory_.release();
        parser_.emplace(std::piecewise_construct, std::make_tuple(),
                        std::make_tuple(std::pmr::polymorphic_allocator<char>(&memory_)));
        parser_->eager(true);
    }

    void write() {
        if (output_.empty()) return read();
        asio::async_write(socket_, asio::buffer(output_), [self = shared_from_this()](error_code code, std::size_t) {
            self->output_.clear();
            if (code) return;
            if (!self->ends_) return self->read();
            self->socket_.shutdown(tcp::socket::shutdown_send, code);
        });
    }

    socket_type socket_;
    response_writer& writer_;
    beast::flat_buffer input_;
    std::array<std::byte, 2048> fields_;
    std::pmr::monotonic_buffer_resource memory_{fields_.data(), fields_.size()};
    std::optional<parser_type> parser_;  // of the request that has begun
    std::string output_;
    bool ends_ = false;
};

class server {
 public:
    server(const peer_answers& answers, unsigned short port) : writer_(answers), acceptor_(loop_) {
        const tcp::endpoint address(asio::ip::address_v4::loopback(), port);
        acceptor_.open(address.protocol());
        acceptor_.set_option(reuse_port(true));
        acceptor_.bind(address);
        acceptor_.listen(4096);
        accept();
    }
    [[nodiscard]] unsigned short port() const { return acceptor_.local_endpoint().port(); }
    void run() { loop_.run(); }

 private:
    void accept() {
        acceptor_.async_accept([this](error_code code, socket_type socket) {
            if (!code) {
                error_code ignored;
                socket.set_option(tcp::no_delay(true), ignored);
                std::make_shared<session>(std::move(socket), writer_)->read();
            }
            accept();
        });
    }

    asio::io_context loop_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
    response_writer writer_;
    acceptor_type acceptor_;
};

}  // namespace

int main(int count, char** words) {
    const std::string version =
        "Boost.Beast " + std::to_string(BOOST_BEAST_VERSION) + " of " + holdfast::bench::boost_text(BOOST_VERSION);
    return holdfast::bench::http::peer_main_by_loops<server>("http_beast_server", version, count, words);
}

#else

int main() {
    std::fprintf(stderr, "Boost.Beast was not installed when this was built (packages/bench.txt)\n");
    return 1;
}

#endif
