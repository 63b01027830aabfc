// SPDX-License-Identifier: Apache-2.0
// tls_openssl.cpp - files of keys and certificates, and a session over a BIO of ours. Empty in a build without TLS.
#ifdef HOLDFAST_WITH_TLS

#include "tls_openssl.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "file_descriptor.hpp"
#include "holdfast/error.hpp"

namespace holdfast::net {

namespace {

constexpr off_t pem_bytes_max = 1 << 20;

[[noreturn]] void fail_file(int code, const std::string& path) {
    const std::string text = std::strerror(code);
    if (code == ENOENT || code == ENOTDIR)
        throw error(errc::not_found, path, "no such file; name a PEM file that is there");
    if (code == EACCES || code == EPERM)
        throw error(errc::no_permission, path, "may not be read by this process; let its user or group read it");
    throw error(errc::io, path, "cannot be read: " + text);
}

/// Asked for the pass phrase of an encrypted key: notes that, and has none.
int no_phrase(char* /*into*/, int /*size*/, int /*writing*/, void* asked) {
    if (asked != nullptr) *static_cast<bool*>(asked) = true;
    return -1;
}

openssl_ptr<EVP_PKEY> read_key(const std::string& path) {
    const pem_text text(path, true);
    bool asked = false;
    openssl_ptr<EVP_PKEY> key(PEM_read_bio_PrivateKey(text.open().get(), nullptr, no_phrase, &asked));
    if (asked)
        throw error(errc::invalid_argument, path,
                    "is encrypted, and there is nobody to ask for the pass phrase; write it out by "
                    "`openssl pkey -in FILE -out PLAIN`, readable by its user alone");
    if (!key)
        throw error(errc::invalid_argument, path,
                    "holds no private key in PEM form (" + openssl_last_words() +
                        "); it begins with -----BEGIN PRIVATE KEY-----");
    return key;
}

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

bool configure(SSL_CTX* context, BIO_METHOD* bio) {
    SSL_CTX_set_security_level(context, 2);  // whatever the system's configuration says
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
           BIO_meth_set_create(bio, on_bio_create) == 1 && BIO_meth_set_read_ex(bio, on_bio_read) == 1 &&
           BIO_meth_set_write_ex(bio, on_bio_write) == 1 && BIO_meth_set_ctrl(bio, on_bio_control) == 1;
}

}  // namespace

std::string openssl_last_words() {
    const char* const said = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return said != nullptr ? said : "no reason given";
}

openssl_context::openssl_context(const SSL_METHOD* method) {
    ERR_clear_error();
    bio.reset(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "holdfast"));
    ssl.reset(SSL_CTX_new(method));
    if (!bio || !ssl || !configure(ssl.get(), bio.get()))
        throw error(errc::io, "TLS", "OpenSSL cannot begin: " + openssl_last_words());
}

pem_text::pem_text(const std::string& path, bool secret) {
    const file_descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe must not hold us
    if (!file) fail_file(errno, path);
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) fail_file(errno, path);
    if (!S_ISREG(status.st_mode)) throw error(errc::unsafe_file, path, "is no plain file; name a PEM file");
    if (secret && (status.st_mode & 0027U) != 0)
        throw error(errc::unsafe_file, path,
                    "is a private key that others may read, or its group change: whoever has it can pass for its "
                    "owner; chmod 640 or 600 it");
    if (status.st_size > pem_bytes_max)
        throw error(errc::invalid_argument, path, "is too large for a PEM file (1 MiB)");
    text_.resize(static_cast<std::size_t>(status.st_size));
    std::size_t read_bytes = 0;
    while (read_bytes < text_.size()) {
        const ssize_t n = ::read(file.get(), text_.data() + read_bytes, text_.size() - read_bytes);
        if (n < 0 && errno != EINTR) fail_file(errno, path);
        if (n == 0) break;
        if (n > 0) read_bytes += static_cast<std::size_t>(n);
    }
    text_.resize(read_bytes);
}

pem_text::~pem_text() { OPENSSL_cleanse(text_.data(), text_.size()); }

openssl_ptr<BIO> pem_text::open() const {
    return openssl_ptr<BIO>(BIO_new_mem_buf(text_.data(), static_cast<int>(text_.size())));
}

openssl_ptr<X509> read_first_certificate(BIO* from, const std::string& path) {
    ERR_clear_error();
    openssl_ptr<X509> own(PEM_read_bio_X509(from, nullptr, no_phrase, nullptr));
    if (!own)
        throw error(errc::invalid_argument, path,
                    "holds no certificate in PEM form (" + openssl_last_words() +
                        "); it begins with -----BEGIN CERTIFICATE-----");
    return own;
}

openssl_ptr<X509> read_next_certificate(BIO* from, const std::string& path, int number) {
    ERR_clear_error();
    openssl_ptr<X509> next(PEM_read_bio_X509(from, nullptr, no_phrase, nullptr));
    if (next) return next;
    const unsigned long code = ERR_peek_last_error();
    if (ERR_GET_LIB(code) != ERR_LIB_PEM || ERR_GET_REASON(code) != PEM_R_NO_START_LINE)
        throw error(errc::invalid_argument, path,
                    "certificate " + std::to_string(number) + " in it is damaged (" + openssl_last_words() +
                        "); write each as it was issued, its owner's first, then those above it");
    ERR_clear_error();
    return next;
}

void use_tls_files(SSL_CTX* context, const tls_files& files) {
    const pem_text text(files.certificate, false);
    const openssl_ptr<BIO> from = text.open();
    const openssl_ptr<X509> own = read_first_certificate(from.get(), files.certificate);
    if (SSL_CTX_use_certificate(context, own.get()) != 1)
        throw error(errc::invalid_argument, files.certificate,
                    "is no certificate to show (" + openssl_last_words() +
                        "); RSA needs 2048 bits, elliptic curves 224, and signatures SHA-256");
    for (int number = 2;; ++number) {
        openssl_ptr<X509> next = read_next_certificate(from.get(), files.certificate, number);
        if (!next) break;
        if (SSL_CTX_add0_chain_cert(context, next.get()) != 1)
            throw error(errc::invalid_argument, files.certificate,
                        "certificate " + std::to_string(number) + " in it cannot be used: " + openssl_last_words());
        (void)next.release();
    }
    const openssl_ptr<EVP_PKEY> key = read_key(files.key);
    if (X509_check_private_key(own.get(), key.get()) != 1) {
        ERR_clear_error();
        throw error(errc::invalid_argument, files.key,
                    "is not the key of the first certificate in " + files.certificate +
                        "; `openssl x509 -pubkey -noout -in CERTIFICATE` and `openssl pkey -pubout -in KEY` must say "
                        "the same");
    }
    if (SSL_CTX_use_PrivateKey(context, key.get()) != 1)
        throw error(errc::invalid_argument, files.key, "is no key to sign with: " + openssl_last_words());
}

/// For the time of a call there are input and output; and no error of somebody else's call is there before it.
class openssl_session::call {
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

openssl_session::openssl_session(std::shared_ptr<const openssl_context> context, side which)
    : context_(std::move(context)), gated_(which == side::accepts), ssl_(SSL_new(context_->ssl.get())) {
    openssl_ptr<BIO> bio(BIO_new(context_->bio.get()));
    if (!ssl_ || !bio) {
        ssl_.reset();
        return;
    }
    BIO_set_data(bio.get(), this);
    BIO* const both = bio.release();
    SSL_set_bio(ssl_.get(), both, both);
    if (which == side::accepts)
        SSL_set_accept_state(ssl_.get());
    else
        SSL_set_connect_state(ssl_.get());
}

tls_status openssl_session::shake(std::span<const char>& input, std::string& output) noexcept {
    const call now(*this, input, output);
    if (failed_) return tls_status::failed;
    const int result = SSL_do_handshake(ssl_.get());
    if (result != 1) return why(result);
    shaken_ = true;
    silent_records_ = 0;
    return tls_status::done;
}

tls_session::got openssl_session::read(std::span<const char>& input, std::span<char> into,
                                       std::string& output) noexcept {
    const call now(*this, input, output);
    if (failed_) return {tls_status::failed, 0};
    std::size_t bytes = 0;
    const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &bytes);
    if (result != 1) return {why(result), 0};
    silent_records_ = 0;
    return {tls_status::done, bytes};
}

bool openssl_session::write(std::string_view plain, std::string& output) noexcept {
    std::span<const char> nothing;
    const call now(*this, nothing, output);
    if (failed_ || closed_) return false;
    if (plain.empty()) return true;
    std::size_t taken = 0;
    failed_ = SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &taken) != 1 || taken != plain.size();
    return !failed_;
}

void openssl_session::close(std::string& output) noexcept {
    std::span<const char> nothing;
    const call now(*this, nothing, output);
    if (!failed_ && !std::exchange(closed_, true)) (void)SSL_shutdown(ssl_.get());
}

bool openssl_session::give(char* into, std::size_t size, std::size_t& given) noexcept {
    given = std::min(size, input_->size());
    if (given == 0) return true;
    const std::span<const char> bytes = input_->first(given);
    // OpenSSL asks for a record when it is through with those before: by then it knows the version.
    if (gated_ && !shaken_ && !gate_.pass(bytes, SSL_version(ssl_.get()) == TLS1_3_VERSION)) return false;
    if (gated_ && shaken_ && silent_records_ > tls_silent_records_max) return false;
    std::memcpy(into, bytes.data(), given);
    follow(bytes);
    *input_ = input_->subspan(given);
    return true;
}

// A record: type (1), version (2), length (2), so many bytes (RFC 8446 section 5.1).
void openssl_session::follow(std::span<const char> bytes) noexcept {
    while (!bytes.empty()) {
        if (payload_left_ != 0) {
            const std::size_t here = std::min<std::size_t>(payload_left_, bytes.size());
            payload_left_ -= static_cast<std::uint32_t>(here);
            bytes = bytes.subspan(here);
            if (payload_left_ == 0) ++silent_records_;
            continue;
        }
        const auto byte = static_cast<unsigned char>(bytes.front());
        bytes = bytes.subspan(1);
        ++header_bytes_;
        if (header_bytes_ == 4) length_ = byte;
        if (header_bytes_ != 5) continue;
        payload_left_ = length_ << 8U | byte;
        header_bytes_ = 0;
    }
}

bool openssl_session::take(const char* from, std::size_t size) noexcept {
    try {
        output_->append(from, size);
        return true;
    } catch (const std::bad_alloc&) {
        return false;  // (O3)
    }
}

tls_status openssl_session::why(int result) noexcept {
    switch (SSL_get_error(ssl_.get(), result)) {
        case SSL_ERROR_WANT_READ: return tls_status::more;
        case SSL_ERROR_ZERO_RETURN: return tls_status::ended;
        default: note_failure(); return fail();
    }
}

}  // namespace holdfast::net

#endif
