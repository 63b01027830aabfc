// SPDX-License-Identifier: Apache-2.0
// tls_client_rig.hpp - a client, servers that speak TLS, and an issuer that the client believes: what tests of https
// share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/net/client.hpp"
#include "holdfast/net/listener.hpp"
#include "holdfast/net/server.hpp"
#include "support/driven_client.hpp"
#include "support/http_server.hpp"
#include "support/scripted_server.hpp"
#include "support/tls_peer.hpp"
#include "support/tls_speaker.hpp"

namespace holdfast::test {

/// An issuer, a pair of it for every name of the tests, and a trust in it.
struct tls_world {
    tls_folder folder;
    tls_authority root{"test root"};
    tls_pair pair = root.issue("server", {.alternatives = "DNS:localhost,DNS:*.host.test,IP:127.0.0.1,IP:::1"});
    std::string issuers = folder.write("root.pem", pem_of(root.certificate()));
    net::tls_files files = folder.write_pair("server", pair);
    net::tls_trust trust{net::tls_trust_options{.issuers_file = issuers}};

    /// Of a client that believes the issuer. Every name of ".test" is this machine.
    [[nodiscard]] net::client_options options() const {
        net::client_options made;
        made.tls = trust;
        made.resolve = [](const std::string&) { return std::vector<std::string>{"127.0.0.1"}; };
        return made;
    }
};

/// A server of ours with one listener, which speaks TLS, in a thread of the test.
class running_tls_server {
 public:
    running_tls_server(const tls_world& world, net::handler answer, net::server_options options = {})
        : credentials(world.files),
          listener_(net::listen_tcp("127.0.0.1:0")),
          port_(net::bound_port(listener_)),
          server_({listener_}, with_tls(std::move(options)), std::move(answer)),
          thread_([this] { server_.run(); }) {}
    ~running_tls_server() { stop(); }
    running_tls_server(const running_tls_server&) = delete;
    running_tls_server& operator=(const running_tls_server&) = delete;

    /// Ends it. Returns: what it counted.
    const net::server_counters& stop() {
        server_.stop();
        if (thread_.joinable()) thread_.join();
        return server_.counters();
    }
    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    [[nodiscard]] std::string url(std::string_view target = "/", std::string_view host = "localhost") const {
        std::string made("https://");
        return made.append(host).append(":").append(std::to_string(port_)).append(target);
    }

    net::tls_credentials credentials;

 private:
    net::server_options with_tls(net::server_options options) const {
        options.engine = engine_of_tests::choice();
        options.tls = {{.listener = listener_, .credentials = credentials}};
        return options;
    }

    int listener_;
    std::uint16_t port_;
    net::server server_;
    std::thread thread_;
};

/// A scripted server whose peers get a speaker of TLS.
class scripted_tls_server {
 public:
    using script = std::function<void(tls_speaker& tls, scripted_peer& peer, int number)>;

    scripted_tls_server(const tls_world& world, script each, const tls_server_options& wanted = {})
        : context_(make_server_context(world.pair, wanted)),
          server_([this, each = std::move(each)](scripted_peer& peer, int number) {
              tls_speaker tls(peer, context_.get());
              each(tls, peer, number);
          }) {}

    [[nodiscard]] SSL_CTX* context() const noexcept { return context_.get(); }
    [[nodiscard]] std::string url(std::string_view target = "/") const {
        return server_.url(target, "https://localhost:");
    }
    [[nodiscard]] int connections() const noexcept { return server_.connections(); }

 private:
    tls_ptr<SSL_CTX> context_;
    scripted_server server_;
};

[[nodiscard]] inline std::string words_of(const net::client_result& r) {
    return std::string(net::client_error_name(r.error)) + (r.detail.empty() ? "" : ": " + r.detail);
}

}  // namespace holdfast::test
