// SPDX-License-Identifier: Apache-2.0
// tls.cpp - a server's side of TLS: certificates and keys from files, tickets, and the protocol that is agreed on.
// Built without TLS, this file says so to whoever makes credentials.
#include "holdfast/net/tls.hpp"

#include <utility>

#include "holdfast/error.hpp"
#include "tls_session.hpp"

#ifdef HOLDFAST_WITH_TLS

#include <time.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <vector>

#include "tls_openssl.hpp"
#include "tls_ticket_keys.hpp"

namespace holdfast::net {

namespace {

/// What the files said when they were last read. Sessions keep the one they began with.
struct tls_generation : openssl_context {
    tls_generation() : openssl_context(TLS_server_method()) {}
    mutable tls_ticket_keys tickets;  // has a lock of its own
};

std::int64_t seconds_now() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec;
}

// The host of a client's hello; nothing where it names none. What is no such extension OpenSSL refuses by itself.
//   list bytes (2), type (1, 0: a host), name bytes (2), name. Source: RFC 6066 section 3.
std::string_view host_of_hello(SSL* ssl) noexcept {
    const unsigned char* at = nullptr;
    std::size_t bytes = 0;
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &at, &bytes) != 1 || bytes < 5 || at[2] != 0) return {};
    const std::size_t name_bytes = static_cast<std::size_t>(at[3]) << 8U | at[4];
    if (name_bytes != bytes - 5) return {};
    return {reinterpret_cast<const char*>(at + 5), name_bytes};
}

/// Keeps what each of its certificates said when the connection began, and shows one of them.
class server_session final : public openssl_session {
 public:
    explicit server_session(std::vector<std::shared_ptr<const tls_generation>> choice)
        : openssl_session(choice.front(), side::accepts), choice_(std::move(choice)), chosen_(choice_.front().get()) {
        if (*this) SSL_set_app_data(ssl(), this);
    }

    /// Returns: false when the handshake must fail.
    [[nodiscard]] bool choose(std::string_view host) noexcept {
        if (host.empty() || choice_.size() == 1) return true;
        constexpr unsigned names_alone = X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS;
        for (const unsigned how : {names_alone | X509_CHECK_FLAG_NO_WILDCARDS, names_alone})
            for (const auto& each : choice_) {
                X509* const shown = SSL_CTX_get0_certificate(each->ssl.get());
                if (X509_check_host(shown, host.data(), host.size(), how, nullptr) != 1) continue;
                chosen_ = each.get();
                return SSL_set_SSL_CTX(ssl(), each->ssl.get()) != nullptr;
            }
        return true;
    }
    /// The keys go with the certificate: a ticket for one host opens nothing at another.
    [[nodiscard]] tls_ticket_keys& tickets() const noexcept { return chosen_->tickets; }

 private:
    std::vector<std::shared_ptr<const tls_generation>> choice_;
    const tls_generation* chosen_;
};

// Before OpenSSL has looked at anything in the hello, tickets included.
int on_hello(SSL* ssl, int* alert, void* /*unused*/) {
    if (static_cast<server_session*>(SSL_get_app_data(ssl))->choose(host_of_hello(ssl)))
        return SSL_CLIENT_HELLO_SUCCESS;
    *alert = SSL_AD_INTERNAL_ERROR;
    return SSL_CLIENT_HELLO_ERROR;
}

// Returns what OpenSSL asks for: 1 go on, 2 go on and give a new ticket, 0 no ticket of ours, -1 an error.
int on_ticket(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac, int sealing) {
    tls_ticket_keys& keys = static_cast<server_session*>(SSL_get_app_data(ssl))->tickets();
    tls_ticket_keys::found key;
    if (sealing != 0) {
        const auto current = keys.to_seal(seconds_now());
        if (!current || RAND_bytes(iv, 16) != 1) return -1;
        key.with = *current;
        std::ranges::copy(key.with.name, name);
    } else {
        const auto known = keys.to_open(std::span<const unsigned char, 16>(name, 16), seconds_now());
        if (!known) return 0;
        key = *known;
    }
    char digest[] = "SHA256";
    const OSSL_PARAM of_mac[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key.with.mac.data(), key.with.mac.size()),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end()};
    const bool ready =
        EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), nullptr, key.with.cipher.data(), iv, sealing != 0 ? 1 : 0) == 1 &&
        EVP_MAC_CTX_set_params(mac, of_mac) == 1;
    OPENSSL_cleanse(&key, sizeof key);
    // By TLS 1.3 a client uses a ticket once (RFC 8446 section C.4): who comes with one gets the next.
    return ready ? (key.renew || (sealing == 0 && SSL_version(ssl) == TLS1_3_VERSION) ? 2 : 1) : -1;
}

// ALPN: http/1.1, or a refusal (RFC 7301 section 3.2). A client that does not speak ALPN does not come here.
int on_protocols(SSL* /*ssl*/, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                 unsigned offered_bytes, void* /*unused*/) {
    constexpr std::string_view ours = "http/1.1";
    for (unsigned at = 0; at < offered_bytes; at += 1U + offered[at]) {  // OpenSSL has checked that lengths fit
        const std::string_view each(reinterpret_cast<const char*>(offered + at + 1), offered[at]);
        if (each != ours) continue;
        *chosen = offered + at + 1;
        *size = offered[at];
        return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

std::shared_ptr<const tls_generation> read_files(const tls_files& files) {
    auto fresh = std::make_shared<tls_generation>();
    SSL_CTX* const context = fresh->ssl.get();
    SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    // Tickets are the only memory of sessions: a cache here would be memory that clients decide about.
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_timeout(context, tls_ticket_keys::rotation_s);
    SSL_CTX_set_alpn_select_cb(context, on_protocols, nullptr);
    SSL_CTX_set_client_hello_cb(context, on_hello, nullptr);
    if (SSL_CTX_set_tlsext_ticket_key_evp_cb(context, on_ticket) != 1)
        throw error(errc::io, "TLS", "OpenSSL cannot begin: " + openssl_last_words());
    use_tls_files(context, files);
    return fresh;
}

}  // namespace

struct tls_store {
    tls_files files;
    std::mutex lock;
    std::shared_ptr<const tls_generation> generation;
};

tls_credentials::tls_credentials(tls_files files) : store_(std::make_shared<tls_store>()) {
    store_->files = std::move(files);
    store_->generation = read_files(store_->files);
}

void tls_credentials::reload() const {
    auto fresh = read_files(store_->files);
    const std::lock_guard held(store_->lock);
    store_->generation.swap(fresh);
}

std::unique_ptr<tls_session> tls_session::begin(const tls_listener& listener) {
    std::vector<std::shared_ptr<const tls_generation>> choice;
    choice.reserve(1 + listener.by_name.size());
    const auto add = [&choice](tls_store& store) {
        const std::lock_guard held(store.lock);
        choice.push_back(store.generation);
    };
    add(*listener.credentials.store_);
    for (const tls_credentials& each : listener.by_name) add(*each.store_);
    auto session = std::make_unique<server_session>(std::move(choice));
    if (!*session) return nullptr;
    return session;
}

}  // namespace holdfast::net

#else

namespace holdfast::net {

struct tls_store {};

tls_credentials::tls_credentials(tls_files files) {
    throw error(errc::unsupported, files.certificate,
                "this build of holdfast::net has no TLS; configure it with -DHOLDFAST_NET_TLS=ON where OpenSSL 3 is "
                "installed (Debian: libssl-dev)");
}

void tls_credentials::reload() const {}  // there are none

std::unique_ptr<tls_session> tls_session::begin(const tls_listener& /*listener*/) { return nullptr; }

}  // namespace holdfast::net

#endif
