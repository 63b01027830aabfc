// SPDX-License-Identifier: Apache-2.0
// tls.cpp - TLS by OpenSSL 3: the one file that includes it.
//
// A session reads and writes through a BIO of ours, which takes bytes from the span of the call under way and appends
// to its output: a pair of OpenSSL's memory BIOs would copy everything once more, and keep the largest buffers that it
// ever needed for as long as the connection lives.
// Built without TLS, this file says so to whoever makes credentials.
#include "tls_session.hpp"

#include <utility>

#include "holdfast/error.hpp"

#ifdef HOLDFAST_WITH_TLS

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "file_descriptor.hpp"
#include "tls_handshake_gate.hpp"
#include "tls_ticket_keys.hpp"

namespace holdfast::net {

namespace {

struct openssl_deleter {
    void operator()(BIO* one) const noexcept { BIO_free(one); }
    void operator()(BIO_METHOD* one) const noexcept { BIO_meth_free(one); }
    void operator()(EVP_PKEY* one) const noexcept { EVP_PKEY_free(one); }
    void operator()(SSL* one) const noexcept { SSL_free(one); }
    void operator()(SSL_CTX* one) const noexcept { SSL_CTX_free(one); }
    void operator()(X509* one) const noexcept { X509_free(one); }
};
template <class Type>
using openssl_ptr = std::unique_ptr<Type, openssl_deleter>;

/// What OpenSSL said last, and forgets by that.
std::string last_words() {
    const char* const said = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return said != nullptr ? said : "no reason given";
}

[[noreturn]] void fail_file(int code, const std::string& path) {
    const std::string text = std::strerror(code);
    if (code == ENOENT || code == ENOTDIR)
        throw error(errc::not_found, path, "no such file; name the PEM file of the server");
    if (code == EACCES || code == EPERM)
        throw error(errc::no_permission, path, "may not be read by this process; let its user or group read it");
    throw error(errc::io, path, "cannot be read: " + text);
}

/// The text of a PEM file, wiped when it goes.
class pem_text {
 public:
    pem_text(const std::string& path, bool secret) {
        const file_descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe must not hold us
        if (!file) fail_file(errno, path);
        struct stat status{};
        if (::fstat(file.get(), &status) != 0) fail_file(errno, path);
        if (!S_ISREG(status.st_mode)) throw error(errc::unsafe_file, path, "is no plain file; name a PEM file");
        if (secret && (status.st_mode & 0027U) != 0)
            throw error(errc::unsafe_file, path,
                        "is a private key that others may read, or its group change: whoever has it can pass for this "
                        "server; chmod 640 or 600 it");
        if (status.st_size > bytes_max)
            throw error(errc::invalid_argument, path, "is too large for a PEM file (1 MiB)");
        text_.resize(static_cast<std::size_t>(status.st_size));
        std::size_t got = 0;
        while (got < text_.size()) {
            const ssize_t n = ::read(file.get(), text_.data() + got, text_.size() - got);
            if (n < 0 && errno != EINTR) fail_file(errno, path);
            if (n == 0) break;
            if (n > 0) got += static_cast<std::size_t>(n);
        }
        text_.resize(got);
    }
    ~pem_text() { OPENSSL_cleanse(text_.data(), text_.size()); }
    pem_text(const pem_text&) = delete;
    pem_text& operator=(const pem_text&) = delete;

    [[nodiscard]] openssl_ptr<BIO> open() const {
        return openssl_ptr<BIO>(BIO_new_mem_buf(text_.data(), static_cast<int>(text_.size())));
    }

 private:
    static constexpr off_t bytes_max = 1 << 20;
    std::string text_;
};

/// Asked for the pass phrase of an encrypted key: notes that, and has none.
int no_phrase(char* /*into*/, int /*size*/, int /*writing*/, void* asked) {
    if (asked != nullptr) *static_cast<bool*>(asked) = true;
    return -1;
}

/// What the files said when they were last read. Sessions keep the one they began with.
struct tls_generation {
    openssl_ptr<BIO_METHOD> bio;
    openssl_ptr<SSL_CTX> context;
    tls_ticket_keys tickets;
};

void use_certificate(SSL_CTX* context, X509& own, BIO* following, const std::string& path) {
    if (SSL_CTX_use_certificate(context, &own) != 1)
        throw error(errc::invalid_argument, path,
                    "is no certificate to serve with (" + last_words() +
                        "); RSA needs 2048 bits, elliptic curves 224, and signatures SHA-256");
    for (int number = 2;; ++number) {
        ERR_clear_error();
        openssl_ptr<X509> next(PEM_read_bio_X509(following, nullptr, no_phrase, nullptr));
        if (!next) {
            const unsigned long code = ERR_peek_last_error();
            if (ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE) break;
            throw error(errc::invalid_argument, path,
                        "certificate " + std::to_string(number) + " in it is damaged (" + last_words() +
                            "); write the server's certificate, then those above it, each as it was issued");
        }
        if (SSL_CTX_add0_chain_cert(context, next.get()) != 1)
            throw error(errc::invalid_argument, path,
                        "certificate " + std::to_string(number) + " in it cannot be used: " + last_words());
        (void)next.release();
    }
    ERR_clear_error();
}

openssl_ptr<EVP_PKEY> read_key(const std::string& path) {
    const pem_text text(path, true);
    bool asked = false;
    openssl_ptr<EVP_PKEY> key(PEM_read_bio_PrivateKey(text.open().get(), nullptr, no_phrase, &asked));
    if (asked)
        throw error(errc::invalid_argument, path,
                    "is encrypted, and a server has nobody to ask for the pass phrase; write it out by "
                    "`openssl pkey -in FILE -out PLAIN`, readable by its user alone");
    if (!key)
        throw error(
            errc::invalid_argument, path,
            "holds no private key in PEM form (" + last_words() + "); it begins with -----BEGIN PRIVATE KEY-----");
    return key;
}

int on_bio_create(BIO* bio);
int on_bio_read(BIO* bio, char* into, std::size_t size, std::size_t* got);
int on_bio_write(BIO* bio, const char* from, std::size_t size, std::size_t* taken);
long on_bio_control(BIO* bio, int command, long number, void* pointer);

std::int64_t seconds_now() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec;
}

// Returns what OpenSSL asks for: 1 go on, 2 go on and give a new ticket, 0 no ticket of ours, -1 an error.
int on_ticket(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac, int sealing) {
    auto* const generation = static_cast<tls_generation*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
    tls_ticket_keys::found key;
    if (sealing != 0) {
        const auto current = generation->tickets.to_seal(seconds_now());
        if (!current || RAND_bytes(iv, 16) != 1) return -1;
        key.with = *current;
        std::ranges::copy(key.with.name, name);
    } else {
        const auto known = generation->tickets.to_open(std::span<const unsigned char, 16>(name, 16), seconds_now());
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
    return ready ? (key.renew ? 2 : 1) : -1;
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

bool configure(tls_generation& of) {
    SSL_CTX* const context = of.context.get();
    SSL_CTX_set_app_data(context, &of);
    SSL_CTX_set_security_level(context, 2);  // whatever the system's configuration says
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                     SSL_OP_PRIORITIZE_CHACHA);
    // Tickets are the only memory of sessions: a cache here would be memory that clients decide about.
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_timeout(context, tls_ticket_keys::rotation_s);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(context, on_protocols, nullptr);
    BIO_METHOD* const bio = of.bio.get();
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
           SSL_CTX_set_tlsext_ticket_key_evp_cb(context, on_ticket) == 1 &&
           BIO_meth_set_create(bio, on_bio_create) == 1 && BIO_meth_set_read_ex(bio, on_bio_read) == 1 &&
           BIO_meth_set_write_ex(bio, on_bio_write) == 1 && BIO_meth_set_ctrl(bio, on_bio_control) == 1;
}

std::shared_ptr<tls_generation> read_files(const tls_files& files) {
    ERR_clear_error();
    auto fresh = std::make_shared<tls_generation>();
    fresh->bio.reset(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "holdfast"));
    fresh->context.reset(SSL_CTX_new(TLS_server_method()));
    if (!fresh->bio || !fresh->context || !configure(*fresh))
        throw error(errc::io, "TLS", "OpenSSL cannot begin: " + last_words());

    const pem_text text(files.certificate, false);
    const openssl_ptr<BIO> from = text.open();
    const openssl_ptr<X509> own(PEM_read_bio_X509(from.get(), nullptr, no_phrase, nullptr));
    if (!own)
        throw error(
            errc::invalid_argument, files.certificate,
            "holds no certificate in PEM form (" + last_words() + "); it begins with -----BEGIN CERTIFICATE-----");
    use_certificate(fresh->context.get(), *own, from.get(), files.certificate);
    const openssl_ptr<EVP_PKEY> key = read_key(files.key);
    if (X509_check_private_key(own.get(), key.get()) != 1) {
        ERR_clear_error();
        throw error(errc::invalid_argument, files.key,
                    "is not the key of the first certificate in " + files.certificate +
                        "; `openssl x509 -pubkey -noout -in CERTIFICATE` and `openssl pkey -pubout -in KEY` must say "
                        "the same");
    }
    if (SSL_CTX_use_PrivateKey(fresh->context.get(), key.get()) != 1)
        throw error(errc::invalid_argument, files.key, "is no key to serve with: " + last_words());
    return fresh;
}

class openssl_session final : public tls_session {
 public:
    explicit openssl_session(std::shared_ptr<tls_generation> generation)
        : generation_(std::move(generation)), ssl_(SSL_new(generation_->context.get())) {
        openssl_ptr<BIO> bio(BIO_new(generation_->bio.get()));
        if (!ssl_ || !bio) {
            ssl_.reset();
            return;
        }
        BIO_set_data(bio.get(), this);
        BIO* const both = bio.release();
        SSL_set_bio(ssl_.get(), both, both);
        SSL_set_accept_state(ssl_.get());
    }

    explicit operator bool() const noexcept { return static_cast<bool>(ssl_); }

    [[nodiscard]] tls_status shake(std::span<const char>& input, std::string& output) noexcept override {
        const call now(*this, input, output);
        if (failed_) return tls_status::failed;
        const int result = SSL_do_handshake(ssl_.get());
        if (result != 1) return why(result);
        shaken_ = true;
        return tls_status::done;
    }

    [[nodiscard]] bool resumed() const noexcept override { return SSL_session_reused(ssl_.get()) == 1; }

    [[nodiscard]] got read(std::span<const char>& input, std::span<char> into, std::string& output) noexcept override {
        const call now(*this, input, output);
        if (failed_) return {tls_status::failed, 0};
        std::size_t bytes = 0;
        const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &bytes);
        return result == 1 ? got{tls_status::done, bytes} : got{why(result), 0};
    }

    [[nodiscard]] bool write(std::string_view plain, std::string& output) noexcept override {
        std::span<const char> nothing;
        const call now(*this, nothing, output);
        if (failed_ || closed_) return false;
        if (plain.empty()) return true;
        std::size_t taken = 0;
        failed_ = SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &taken) != 1 || taken != plain.size();
        return !failed_;
    }

    void close(std::string& output) noexcept override {
        std::span<const char> nothing;
        const call now(*this, nothing, output);
        if (!failed_ && !std::exchange(closed_, true)) (void)SSL_shutdown(ssl_.get());
    }

    // --- what the BIO asks for; each returns false when the session must fail

    [[nodiscard]] bool give(char* into, std::size_t size, std::size_t& given) noexcept {
        given = std::min(size, input_->size());
        if (given == 0) return true;
        const std::span<const char> bytes = input_->first(given);
        // OpenSSL asks for a record when it is through with those before: by then it knows the version.
        if (!shaken_ && !gate_.pass(bytes, SSL_version(ssl_.get()) == TLS1_3_VERSION)) return false;
        std::memcpy(into, bytes.data(), given);
        *input_ = input_->subspan(given);
        return true;
    }
    [[nodiscard]] bool take(const char* from, std::size_t size) noexcept {
        try {
            output_->append(from, size);
            return true;
        } catch (const std::bad_alloc&) {
            return false;  // an exception may not pass through OpenSSL
        }
    }

 private:
    /// For the time of a call there are input and output; and no error of somebody else's call is there before it.
    class call {
     public:
        call(openssl_session& of, std::span<const char>& input, std::string& output) noexcept : of_(of) {
            of_.input_ = &input;
            of_.output_ = &output;
            ERR_clear_error();
        }
        ~call() {
            of_.input_ = nullptr;
            of_.output_ = nullptr;
            ERR_clear_error();
        }
        call(const call&) = delete;
        call& operator=(const call&) = delete;

     private:
        openssl_session& of_;
    };

    tls_status why(int result) noexcept {
        switch (SSL_get_error(ssl_.get(), result)) {
            case SSL_ERROR_WANT_READ: return tls_status::more;
            case SSL_ERROR_ZERO_RETURN: return tls_status::ended;
            default: failed_ = true; return tls_status::failed;
        }
    }

    std::shared_ptr<tls_generation> generation_;  // the callbacks of its context point at it
    std::span<const char>* input_ = nullptr;
    std::string* output_ = nullptr;
    tls_handshake_gate gate_;
    bool shaken_ = false;
    bool failed_ = false;
    bool closed_ = false;
    openssl_ptr<SSL> ssl_;
};

int on_bio_create(BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
}

int on_bio_read(BIO* bio, char* into, std::size_t size, std::size_t* got) {
    BIO_clear_retry_flags(bio);
    *got = 0;
    if (!static_cast<openssl_session*>(BIO_get_data(bio))->give(into, size, *got)) return 0;
    if (*got == 0) BIO_set_retry_read(bio);
    return *got != 0 ? 1 : 0;
}

int on_bio_write(BIO* bio, const char* from, std::size_t size, std::size_t* taken) {
    BIO_clear_retry_flags(bio);
    const bool done = static_cast<openssl_session*>(BIO_get_data(bio))->take(from, size);
    *taken = done ? size : 0;
    return done ? 1 : 0;
}

long on_bio_control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

}  // namespace

struct tls_store {
    tls_files files;
    std::mutex lock;
    std::shared_ptr<tls_generation> generation;
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

std::unique_ptr<tls_session> tls_session::begin(const tls_credentials& credentials) {
    std::shared_ptr<tls_generation> generation;
    {
        const std::lock_guard held(credentials.store_->lock);
        generation = credentials.store_->generation;
    }
    auto session = std::make_unique<openssl_session>(std::move(generation));
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

std::unique_ptr<tls_session> tls_session::begin(const tls_credentials& /*credentials*/) { return nullptr; }

}  // namespace holdfast::net

#endif
