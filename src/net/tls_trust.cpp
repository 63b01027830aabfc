// SPDX-License-Identifier: Apache-2.0
// tls_trust.cpp - a client's side of TLS: whom it believes, what it asks of a certificate, and what it says of one that
// it does not believe. Built without TLS, this file says so to whoever makes a trust.
#include "holdfast/net/tls_trust.hpp"

#include <utility>

#include "holdfast/error.hpp"
#include "tls_session.hpp"

#ifdef HOLDFAST_WITH_TLS

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "tls_openssl.hpp"
#include "tls_words.hpp"

namespace holdfast::net {

struct tls_trust_state : openssl_context {
    tls_trust_state() : openssl_context(TLS_client_method()) {}
    std::vector<openssl_ptr<X509>> pinned;
    std::string pinned_file;
};

namespace {

constexpr std::string_view http_protocol = "http/1.1";

// --- tickets

std::int64_t time_of_day_s() noexcept { return static_cast<std::int64_t>(::time(nullptr)); }

/// What a handshake may resume, and when the certificate was last shown and verified that it goes back to.
struct known_session {
    openssl_ptr<SSL_SESSION> session;
    std::int64_t verified_s = 0;
};

class openssl_memory final : public tls_memory {
 public:
    explicit openssl_memory(clock by) noexcept : now_s_(by) {}

    [[nodiscard]] std::size_t size() const noexcept override { return kept_.size(); }
    [[nodiscard]] std::int64_t now_s() const { return now_s_(); }

    void keep(known_session fresh) {
        if (kept_.size() == kept_max) kept_.erase(kept_.begin());
        kept_.push_back(std::move(fresh));
    }
    [[nodiscard]] known_session take() {
        std::erase_if(kept_, [now = now_s(), today = time_of_day_s()](const known_session& each) {
            // OpenSSL dates each ticket, also those of resumed handshakes: that is its own age, not its certificate's.
            const std::int64_t age_s = today - SSL_SESSION_get_time(each.session.get());
            const std::int64_t unseen_s = now - each.verified_s;
            return age_s < 0 || age_s >= SSL_SESSION_get_timeout(each.session.get()) || unseen_s < 0 ||
                   unseen_s >= kept_s;
        });
        if (kept_.empty()) return {};
        known_session& newest = kept_.back();
        if (SSL_SESSION_get_protocol_version(newest.session.get()) < TLS1_3_VERSION) {
            (void)SSL_SESSION_up_ref(newest.session.get());
            return {openssl_ptr<SSL_SESSION>(newest.session.get()), newest.verified_s};
        }
        known_session taken = std::move(newest);
        kept_.pop_back();
        return taken;
    }

 private:
    clock now_s_;
    std::vector<known_session> kept_;  // the newest last
};

// --- a session

class client_session final : public openssl_session {
 public:
    client_session(std::shared_ptr<const tls_trust_state> trust, std::string host, std::shared_ptr<tls_memory> memory)
        : openssl_session(trust, side::connects),
          trust_(std::move(trust)),
          memory_(std::static_pointer_cast<openssl_memory>(std::move(memory))),
          host_(std::move(host)) {
        if (host_.ends_with('.')) host_.pop_back();  // "example.com.": certificates and SNI know no root
    }

    // OpenSSL takes back what was given for later handshakes where a connection goes without close_notify. That is a
    // rule of old versions: what was agreed on is no less secret for it.
    ~client_session() override {
        if (ssl() != nullptr && shaken_ && openssl_code_ == 0)
            SSL_set_shutdown(ssl(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    }
    client_session(const client_session&) = delete;
    client_session& operator=(const client_session&) = delete;

    /// Returns: false where memory lacks.
    [[nodiscard]] bool prepare() {
        SSL_set_app_data(ssl(), this);
        X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl());
        X509_VERIFY_PARAM_set_hostflags(wanted,
                                        X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
        in6_addr address{};
        const bool literal =
            ::inet_pton(AF_INET, host_.c_str(), &address) == 1 || ::inet_pton(AF_INET6, host_.c_str(), &address) == 1;
        const bool set = literal ? X509_VERIFY_PARAM_set1_ip_asc(wanted, host_.c_str()) == 1
                                 : X509_VERIFY_PARAM_set1_host(wanted, host_.data(), host_.size()) == 1 &&
                                       SSL_set_tlsext_host_name(ssl(), host_.c_str()) == 1;  // RFC 6066: names alone
        if (set && memory_) {
            begun_s_ = memory_->now_s();
            const known_session known = memory_->take();
            verified_s_ = known.verified_s;
            if (known.session) (void)SSL_set_session(ssl(), known.session.get());
        }
        ERR_clear_error();
        return set;
    }

    [[nodiscard]] tls_status shake(std::span<const char>& input, std::string& output) noexcept override {
        const tls_status now = openssl_session::shake(input, output);
        if (now != tls_status::done) return now;
        const unsigned char* chosen = nullptr;
        unsigned size = 0;
        SSL_get0_alpn_selected(ssl(), &chosen, &size);
        // None is HTTP/1.1, too: servers older than ALPN.
        shaken_ = size == 0 || std::string_view(reinterpret_cast<const char*>(chosen), size) == http_protocol;
        if (shaken_) return now;
        wrong_protocol_ = true;
        return fail();
    }

    [[nodiscard]] bool distrusts() const noexcept override { return verify_error_ != X509_V_OK; }
    [[nodiscard]] std::string reason() const override {
        if (distrusts()) {
            std::string words = words_of_distrust();
            ERR_clear_error();  // (O2) of a name or a time that is none
            return words;
        }
        if (wrong_protocol_) return "it agrees on another protocol than http/1.1, which alone was offered";
        return words_of_failure();
    }

    /// Looks at what OpenSSL thinks of the certificate at hand. Returns: 1 to go on, 0 to fail.
    int judge(int good, X509_STORE_CTX* store) noexcept {
        X509* const at_hand = X509_STORE_CTX_get_current_cert(store);
        if (good == 1 && X509_STORE_CTX_get_error_depth(store) == 0 && !trust_->pinned.empty() &&
            std::ranges::none_of(trust_->pinned, [&](const auto& pin) {
                return at_hand != nullptr && X509_cmp(pin.get(), at_hand) == 0;
            })) {
            X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
            good = 0;
        }
        if (good == 1) return 1;
        verify_error_ = X509_STORE_CTX_get_error(store);
        verify_depth_ = X509_STORE_CTX_get_error_depth(store);
        if (at_hand != nullptr && X509_up_ref(at_hand) == 1) wrong_.reset(at_hand);
        return 0;
    }

    void remember(SSL_SESSION* given) {
        openssl_ptr<SSL_SESSION> fresh(given);
        if (memory_ && SSL_SESSION_is_resumable(given) == 1)
            memory_->keep({std::move(fresh), resumed() ? verified_s_ : begun_s_});
    }

 private:
    void note_failure() noexcept override { openssl_code_ = ERR_peek_last_error(); }

    [[nodiscard]] std::string words_of_distrust() const {
        const std::string which = verify_depth_ == 0 ? "the certificate of " + host_
                                                     : "a certificate above that of " + host_ + " (" + subject() + ")";
        switch (verify_error_) {
            case X509_V_ERR_HOSTNAME_MISMATCH:
            case X509_V_ERR_IP_ADDRESS_MISMATCH:
                return which + " is for " + (wrong_ ? words_of_hosts(wrong_.get()) : "?") + ", not for " + host_ +
                       "; ask by a name that it is for, or have one issued with this name as subjectAltName";
            case X509_V_ERR_CERT_HAS_EXPIRED:
                return which + " expired on " + (wrong_ ? words_of_time(X509_get0_notAfter(wrong_.get())) : "?") +
                       "; have it renewed there, or set the clock here right";
            case X509_V_ERR_CERT_NOT_YET_VALID:
                return which + " is good from " + (wrong_ ? words_of_time(X509_get0_notBefore(wrong_.get())) : "?") +
                       " on; is the clock here right?";
            case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
                return which + " is signed by itself and nobody here believes it (SHA-256 " + fingerprint() +
                       "); if it is the right one, name it in pinned_file";
            case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
            case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
            case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
            case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
                return which + " has an unknown issuer, " +
                       (wrong_ ? words_of_name(X509_get_issuer_name(wrong_.get())) : "?") +
                       "; name its certificate in issuers_file, or have the server send those between it and a known "
                       "one";
            case X509_V_ERR_APPLICATION_VERIFICATION:
                return which + " (SHA-256 " + fingerprint() + ") is none of those in " + trust_->pinned_file +
                       "; if it was replaced in order, add the new one there";
            case X509_V_ERR_EE_KEY_TOO_SMALL:
            case X509_V_ERR_CA_KEY_TOO_SMALL:
            case X509_V_ERR_CA_MD_TOO_WEAK:
                return which + " is too weak (" + X509_verify_cert_error_string(verify_error_) +
                       "); RSA needs 2048 bits, elliptic curves 224, and signatures SHA-256";
            case X509_V_ERR_INVALID_PURPOSE: return which + " is not for servers; have one issued for serverAuth";
            default: return which + " is not believed: " + X509_verify_cert_error_string(verify_error_);
        }
    }

    [[nodiscard]] std::string words_of_failure() const {
        constexpr int alert = 1000;  // SSL_AD_REASON_OFFSET: what the other side said, RFC 8446 section 6
        const int code = ERR_GET_LIB(openssl_code_) == ERR_LIB_SSL ? ERR_GET_REASON(openssl_code_) : 0;
        const char* const said = ERR_reason_error_string(openssl_code_);
        const std::string words = said != nullptr ? said : "no reason given";
        switch (code) {
            case SSL_R_WRONG_VERSION_NUMBER: return "it does not speak TLS on this port; is it meant to be http://?";
            case SSL_R_UNSUPPORTED_PROTOCOL:
            case alert + SSL_AD_PROTOCOL_VERSION:
                return "it speaks neither TLS 1.3 nor 1.2, and what is older is not safe (" + words + ")";
            case alert + SSL_AD_NO_APPLICATION_PROTOCOL: return "it does not speak HTTP/1.1 (" + words + ")";
            case alert + SSL_AD_HANDSHAKE_FAILURE:
                return "it found nothing to agree on: suites, groups, or a certificate of the client (" + words + ")";
            case alert + SSL_AD_UNRECOGNIZED_NAME: return "it knows no host " + host_ + " (" + words + ")";
            case alert + TLS13_AD_CERTIFICATE_REQUIRED:
                return "it asks for a certificate of the client; give one by tls_trust_options::own (" + words + ")";
            case alert + SSL_AD_BAD_CERTIFICATE:
            case alert + SSL_AD_UNSUPPORTED_CERTIFICATE:
            case alert + SSL_AD_CERTIFICATE_REVOKED:
            case alert + SSL_AD_CERTIFICATE_EXPIRED:
            case alert + SSL_AD_CERTIFICATE_UNKNOWN:
            case alert + SSL_AD_UNKNOWN_CA:
            case alert + SSL_AD_ACCESS_DENIED: return "it refuses the certificate of the client (" + words + ")";
            default: break;
        }
        if (code >= alert) return "it refused TLS (" + words + ")";
        return "what came breaks the rules of TLS (" + words + ")";
    }

    [[nodiscard]] std::string subject() const {
        return wrong_ ? words_of_name(X509_get_subject_name(wrong_.get())) : "?";
    }
    [[nodiscard]] std::string fingerprint() const { return wrong_ ? fingerprint_of(wrong_.get()) : "?"; }

    std::shared_ptr<const tls_trust_state> trust_;
    std::shared_ptr<openssl_memory> memory_;
    std::string host_;
    openssl_ptr<X509> wrong_;      // that verify_error_ is about
    std::int64_t begun_s_ = 0;     // this handshake,
    std::int64_t verified_s_ = 0;  // and the last look at a certificate before it: what a resumed one goes back to
    unsigned long openssl_code_ = 0;
    int verify_error_ = X509_V_OK;
    int verify_depth_ = 0;
    bool shaken_ = false;
    bool wrong_protocol_ = false;
};

int on_verify(int good, X509_STORE_CTX* store) {
    auto* const ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    return static_cast<client_session*>(SSL_get_app_data(ssl))->judge(good, store);
}

// Returns 1 when it has taken the session.
int on_session(SSL* ssl, SSL_SESSION* given) {
    try {
        static_cast<client_session*>(SSL_get_app_data(ssl))->remember(given);
    } catch (const std::bad_alloc&) {
        // (O3). It is gone by then: the next handshake is a whole one.
    }
    return 1;
}

// --- whom to believe

[[noreturn]] void fail_to_begin() { throw error(errc::io, "TLS", "OpenSSL cannot begin: " + openssl_last_words()); }

void believe_file(X509_STORE* store, const std::string& path, std::vector<openssl_ptr<X509>>* also) {
    const pem_text text(path, false);
    const openssl_ptr<BIO> from = text.open();
    openssl_ptr<X509> each = read_first_certificate(from.get(), path);
    for (int number = 2; each; ++number) {
        if (X509_STORE_add_cert(store, each.get()) != 1) fail_to_begin();
        if (also != nullptr) also->push_back(std::move(each));
        each = read_next_certificate(from.get(), path, number);
    }
}

void believe_folder(X509_STORE* store, const std::string& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
        throw error(errc::not_found, path, "no such folder; name one that `openssl rehash` has been over");
    if (X509_STORE_load_path(store, path.c_str()) != 1) fail_to_begin();
}

// Where OpenSSL was told to look when it was built. What the environment says is not asked: it may come from whoever
// started this process.
void believe_system(X509_STORE* store) {
    struct stat status{};
    const char* const file = X509_get_default_cert_file();
    const char* const folder = X509_get_default_cert_dir();
    const bool has_file = ::stat(file, &status) == 0 && S_ISREG(status.st_mode);
    const bool has_folder = ::stat(folder, &status) == 0 && S_ISDIR(status.st_mode);
    if (has_file && X509_STORE_load_file(store, file) != 1) fail_to_begin();
    if (has_folder && X509_STORE_load_path(store, folder) != 1) fail_to_begin();
    if (!has_file && !has_folder)
        throw error(errc::not_found, folder,
                    "this system has no list of issuers to believe; install it (Debian: ca-certificates), or name one "
                    "in tls_trust_options::issuers_file");
}

void check_trust_options(const tls_trust_options& options) {
    const bool issuers = !options.issuers_file.empty() || !options.issuers_folder.empty();
    const bool pins = !options.pinned_file.empty();
    if (issuers && pins)
        throw error(errc::invalid_argument, "tls_trust_options",
                    "pins beside issuers; with a pin no issuer counts, so name one or the other");
    if (options.insecurely_believe_anyone && (issuers || pins))
        throw error(errc::invalid_argument, "tls_trust_options",
                    "says whom to believe, and to believe anyone; leave one of them out");
}

std::shared_ptr<const tls_trust_state> make_trust(const tls_trust_options& options) {
    check_trust_options(options);
    auto made = std::make_shared<tls_trust_state>();
    SSL_CTX* const context = made->ssl.get();
    X509_STORE* const store = SSL_CTX_get_cert_store(context);
    if (!options.insecurely_believe_anyone) {
        if (!options.issuers_file.empty()) believe_file(store, options.issuers_file, nullptr);
        if (!options.issuers_folder.empty()) believe_folder(store, options.issuers_folder);
        if (!options.pinned_file.empty()) believe_file(store, options.pinned_file, &made->pinned);
        made->pinned_file = options.pinned_file;
        if (options.issuers_file.empty() && options.issuers_folder.empty() && options.pinned_file.empty())
            believe_system(store);
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, on_verify);
        // Who is named is believed, be it a root, one between, or a server itself.
        if (X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN) != 1) fail_to_begin();
    }
    if (options.own) use_tls_files(context, *options.own);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, on_session);
    std::string offered(1, static_cast<char>(http_protocol.size()));
    offered += http_protocol;
    if (SSL_CTX_set_alpn_protos(context, reinterpret_cast<const unsigned char*>(offered.data()),
                                static_cast<unsigned>(offered.size())) != 0)
        fail_to_begin();
    return made;
}

}  // namespace

tls_trust::tls_trust(tls_trust_options options) : state_(make_trust(options)) {
    static std::atomic<std::uint64_t> made{0};
    number_ = made.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: only that no two are alike matters
}

std::unique_ptr<tls_session> tls_session::connect(const tls_trust& trust, const std::string& host,
                                                  std::shared_ptr<tls_memory> memory) {
    auto session = std::make_unique<client_session>(trust.state_, host, std::move(memory));
    if (!*session || !session->prepare()) return nullptr;
    return session;
}

std::shared_ptr<tls_memory> tls_session::remember(tls_memory::clock now_s) {
    return std::make_shared<openssl_memory>(now_s != nullptr ? now_s : time_of_day_s);
}

}  // namespace holdfast::net

#else

namespace holdfast::net {

struct tls_trust_state {};

tls_trust::tls_trust(tls_trust_options /*options*/) {
    throw error(errc::unsupported, "https",
                "this build of holdfast::net has no TLS; configure it with -DHOLDFAST_NET_TLS=ON where OpenSSL 3 is "
                "installed (Debian: libssl-dev)");
}

std::unique_ptr<tls_session> tls_session::connect(const tls_trust& /*trust*/, const std::string& /*host*/,
                                                  std::shared_ptr<tls_memory> /*memory*/) {
    return nullptr;
}

std::shared_ptr<tls_memory> tls_session::remember(tls_memory::clock /*now_s*/) { return nullptr; }

}  // namespace holdfast::net

#endif
