// SPDX-License-Identifier: Apache-2.0
// tls_speaker.hpp - a server's end of TLS, by OpenSSL: one without a socket, and one over the peer of a script.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "support/scripted_server.hpp"
#include "support/tls_peer.hpp"

namespace holdfast::test {

struct tls_server_options {
    int version = 0;                 // TLS1_2_VERSION alone
    const char* protocol = nullptr;  // that it chooses by ALPN, whatever is offered
    X509* clients_issuer = nullptr;  // asks for a certificate of the client, and insists
    std::size_t tickets = 2;
    int level = 2;          // of security
    X509* above = nullptr;  // sent behind the certificate
};

/// What the connections of a server share.
[[nodiscard]] inline tls_ptr<SSL_CTX> make_server_context(const tls_pair& pair, const tls_server_options& wanted = {}) {
    tls_ptr<SSL_CTX> made(SSL_CTX_new(TLS_server_method()));
    SSL_CTX* const context = made.get();
    SSL_CTX_set_security_level(context, wanted.level);
    if (wanted.version != 0) {
        SSL_CTX_set_min_proto_version(context, wanted.version);
        SSL_CTX_set_max_proto_version(context, wanted.version);
    }
    SSL_CTX_set_num_tickets(context, wanted.tickets);
    const unsigned char id[] = "test";
    SSL_CTX_set_session_id_context(context, id, sizeof id);
    if (SSL_CTX_use_certificate(context, pair.certificate.get()) != 1 ||
        SSL_CTX_use_PrivateKey(context, pair.key.get()) != 1)
        throw std::runtime_error("the certificate of the test is refused");
    if (wanted.above != nullptr) SSL_CTX_add1_chain_cert(context, wanted.above);
    if (wanted.protocol != nullptr)
        SSL_CTX_set_alpn_select_cb(
            context,
            [](SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char*, unsigned, void* name) {
                *chosen = static_cast<const unsigned char*>(name);
                *size = static_cast<unsigned char>(std::string_view(static_cast<const char*>(name)).size());
                return SSL_TLSEXT_ERR_OK;
            },
            const_cast<char*>(wanted.protocol));
    if (wanted.clients_issuer != nullptr) {
        X509_STORE_add_cert(SSL_CTX_get_cert_store(context), wanted.clients_issuer);
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    return made;
}

/// A server's end without a socket: bytes in, bytes out.
class tls_server_end {
 public:
    explicit tls_server_end(SSL_CTX* context) : ssl_(SSL_new(context)) {
        SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        SSL_set_accept_state(ssl_.get());
    }

    [[nodiscard]] SSL* get() const noexcept { return ssl_.get(); }
    void feed(std::string_view bytes) {
        if (!bytes.empty()) BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(), static_cast<int>(bytes.size()));
    }
    [[nodiscard]] std::string take() {
        std::string out(BIO_ctrl_pending(SSL_get_wbio(ssl_.get())), ' ');
        if (!out.empty()) BIO_read(SSL_get_wbio(ssl_.get()), out.data(), static_cast<int>(out.size()));
        return out;
    }
    /// Goes on with the handshake. Returns: whether it is made.
    bool shake() { return !failed_ && note(SSL_do_handshake(ssl_.get())); }
    /// `text` as records, which the client has to be sent.
    [[nodiscard]] std::string seal(std::string_view text) {
        std::size_t taken = 0;
        if (SSL_write_ex(ssl_.get(), text.data(), text.size(), &taken) != 1) note(0);
        return take();
    }
    [[nodiscard]] std::string seal_end() {
        (void)SSL_shutdown(ssl_.get());
        return take();
    }
    [[nodiscard]] std::string seal_key_update(bool ask) {
        SSL_key_update(ssl_.get(), ask ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED);
        (void)SSL_do_handshake(ssl_.get());
        return take();
    }
    [[nodiscard]] std::string seal_ticket() {
        SSL_new_session_ticket(ssl_.get());
        (void)SSL_do_handshake(ssl_.get());
        return take();
    }
    /// What has come whole.
    [[nodiscard]] std::string open() {
        std::string all;
        char bytes[16384];
        std::size_t got = 0;
        while (!failed_ && !notified_ && note(SSL_read_ex(ssl_.get(), bytes, sizeof bytes, &got)))
            all.append(bytes, got);
        return all;
    }
    [[nodiscard]] bool notified() const noexcept { return notified_; }
    [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
    bool note(int result) {
        if (result == 1) return true;
        const int why = SSL_get_error(ssl_.get(), result);
        notified_ = notified_ || why == SSL_ERROR_ZERO_RETURN;
        failed_ = failed_ || why == SSL_ERROR_SSL || why == SSL_ERROR_SYSCALL;
        ERR_clear_error();
        return false;
    }

    tls_ptr<SSL> ssl_;
    bool notified_ = false;
    bool failed_ = false;
};

/// The same over the peer of a script. What it waits for comes, or the script ends by a throw.
class tls_speaker {
 public:
    tls_speaker(scripted_peer& peer, SSL_CTX* context) : peer_(peer), end_(context) {}

    [[nodiscard]] tls_server_end& end() noexcept { return end_; }
    [[nodiscard]] SSL* get() const noexcept { return end_.get(); }

    /// Returns: whether the handshake is made.
    bool shake() {
        while (!end_.shake()) {
            peer_.send(end_.take());
            if (end_.failed()) return false;
            const std::string more = peer_.some();
            if (more.empty()) return false;
            end_.feed(more);
        }
        return peer_.send(end_.take());
    }
    std::string read_to(std::string_view mark) {
        std::size_t at = 0;
        while ((at = input_.find(mark)) == std::string::npos)
            if (!fill()) throw std::runtime_error("the client ended first: " + input_);
        std::string taken = input_.substr(0, at + mark.size());
        input_.erase(0, taken.size());
        return taken;
    }
    std::string request() {
        if (SSL_is_init_finished(end_.get()) != 1 && !shake()) throw std::runtime_error("no handshake");
        return read_to("\r\n\r\n");
    }
    bool send(std::string_view text) { return peer_.send(end_.seal(text)); }
    bool notify() { return peer_.send(end_.seal_end()); }
    /// Whether the client says close_notify before it ends the connection.
    bool client_notifies() {
        while (fill()) input_.clear();
        return end_.notified();
    }

 private:
    bool fill() {
        const std::size_t before = input_.size();
        while (true) {
            input_ += end_.open();
            peer_.send(end_.take());
            if (input_.size() != before) return true;
            if (end_.notified() || end_.failed()) return false;
            const std::string more = peer_.some();
            if (more.empty()) return false;
            end_.feed(more);
        }
    }

    scripted_peer& peer_;
    tls_server_end end_;
    std::string input_;
};

}  // namespace holdfast::test
