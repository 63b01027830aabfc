// SPDX-License-Identifier: Apache-2.0
// restinio_server.cpp - RESTinio as a subject of the http suite: http_restinio_server computed|lookup CSV THREADS, or
// http_restinio_server version
//
// A thread a core with a loop and a listener of its own (SO_REUSEPORT); the library and asio are told that each has one
// thread: no locks, no strand. No timers, no logging; the text of the date is made once a second. Prints "listening
// PORT".
#include <cstdio>

#if __has_include(<restinio/all.hpp>) && __has_include(<http_parser.h>) && __has_include(<fmt/format.h>) && \
    __has_include(<boost/unordered/unordered_flat_map.hpp>)

#define RESTINIO_USE_BOOST_ASIO shared

#include <sys/socket.h>
#include <boost/version.hpp>
#include <restinio/all.hpp>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/peer_loops.hpp"

namespace {

namespace asio = boost::asio;
using holdfast::bench::http::peer_answers;
using reuse_port = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

constexpr std::size_t pipeline_max = 64;
constexpr std::size_t read_bytes = 16U << 10U;

/// Answers requests. One a loop.
class handler {
 public:
    explicit handler(const peer_answers& answers) : answers_(&answers) {}

    restinio::request_handling_status_t operator()(const restinio::request_handle_t& request) {
        if (const std::time_t now = std::time(nullptr); now != second_) set_date(now);
        std::string body;
        body.reserve(64);
        const auto path = request->header().path();
        const bool found = answers_->append(body, {path.data(), path.size()});
        auto response = request->create_response(found ? restinio::status_ok() : restinio::status_not_found());
        response.append_header(restinio::http_field::date, date_);
        response.append_header(restinio::http_field::content_type, "application/json");
        response.append_header(restinio::http_field::cache_control, "no-store");
        if (!request->header().should_keep_alive()) response.connection_close();
        return response.set_body(std::move(body)).done();
    }

 private:
    void set_date(std::time_t now) {
        std::tm parts{};
        ::gmtime_r(&now, &parts);
        std::array<char, 64> text{};
        date_.assign(text.data(), std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts));
        second_ = now;
    }

    const peer_answers* answers_;
    std::string date_;
    std::time_t second_ = 0;
};

struct traits : restinio::single_thread_traits_t<restinio::null_timer_manager_t, restinio::null_logger_t, handler> {};

class server {
 public:
    server(const peer_answers& answers, unsigned short port)
        : server_(restinio::external_io_context(loop_), settings(answers, port)) {
        asio::post(loop_, [this] { server_.open_sync(); });
        loop_.run_one();
    }
    [[nodiscard]] unsigned short port() const { return port_; }
    void run() { loop_.run(); }

 private:
    restinio::server_settings_t<traits> settings(const peer_answers& answers, unsigned short port) {
        restinio::server_settings_t<traits> chosen;
        chosen.address("127.0.0.1").port(port).request_handler(handler(answers));
        chosen.buffer_size(read_bytes).max_pipelined_requests(pipeline_max);
        chosen.acceptor_options_setter(
            [](restinio::acceptor_options_t& options) { options.set_option(reuse_port(true)); });
        chosen.socket_options_setter(
            [](restinio::socket_options_t& options) { options.set_option(asio::ip::tcp::no_delay(true)); });
        chosen.acceptor_post_bind_hook(
            [this](asio::ip::tcp::acceptor& bound) { port_ = bound.local_endpoint().port(); });
        return chosen;
    }

    asio::io_context loop_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
    unsigned short port_ = 0;
    restinio::http_server_t<traits> server_;
};

}  // namespace

int main(int count, char** words) {
    const std::string version = "RESTinio " + std::to_string(RESTINIO_VERSION_MAJOR) + "." +
                                std::to_string(RESTINIO_VERSION_MINOR) + "." + std::to_string(RESTINIO_VERSION_PATCH) +
                                " on asio of " + holdfast::bench::boost_text(BOOST_VERSION);
    return holdfast::bench::http::peer_main_by_loops<server>("http_restinio_server", version, count, words);
}

#else

int main() {
    std::fprintf(stderr, "RESTinio or what it needs was not there when this was built (packages/bench_headers.txt)\n");
    return 1;
}

#endif
