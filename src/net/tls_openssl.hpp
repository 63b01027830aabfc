// SPDX-License-Identifier: Apache-2.0
// tls_openssl.hpp - the one file that includes OpenSSL 3; what servers (tls.cpp) and clients (tls_trust.cpp) share of
// it.
//
// (O1) A session reads and writes through a BIO of ours, which takes bytes from the span of the call under way and
//      appends to its output: a pair of OpenSSL's memory BIOs would copy everything once more, and keep the largest
//      buffers that it ever needed for as long as the connection lives.
// (O2) OpenSSL keeps errors a thread: whoever calls it here leaves none behind.
// (O3) No exception passes through OpenSSL.
// Nothing but tls*.cpp includes this, and only in a build with TLS.
#pragma once

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tls_handshake_gate.hpp"
#include "tls_session.hpp"

namespace holdfast::net {

struct openssl_deleter {
    void operator()(BIO* one) const noexcept { BIO_free(one); }
    void operator()(BIO_METHOD* one) const noexcept { BIO_meth_free(one); }
    void operator()(EVP_PKEY* one) const noexcept { EVP_PKEY_free(one); }
    void operator()(GENERAL_NAMES* one) const noexcept { GENERAL_NAMES_free(one); }
    void operator()(SSL* one) const noexcept { SSL_free(one); }
    void operator()(SSL_CTX* one) const noexcept { SSL_CTX_free(one); }
    void operator()(SSL_SESSION* one) const noexcept { SSL_SESSION_free(one); }
    void operator()(X509* one) const noexcept { X509_free(one); }
};
template <class Type>
using openssl_ptr = std::unique_ptr<Type, openssl_deleter>;

/// What OpenSSL said last, and forgets by that.
[[nodiscard]] std::string openssl_last_words();

/// What the sessions of one configuration share, and keep alive: callbacks of OpenSSL point at it.
struct openssl_context {
    openssl_ptr<BIO_METHOD> bio;
    openssl_ptr<SSL_CTX> ssl;

    /// With what servers and clients have alike: versions, suites, level of security.
    /// Throws: error(io) where OpenSSL cannot begin.
    explicit openssl_context(const SSL_METHOD* method);
    openssl_context(const openssl_context&) = delete;
    openssl_context& operator=(const openssl_context&) = delete;
};

/// The text of a PEM file, wiped when it goes.
class pem_text {
 public:
    /// Throws: error, with file and cure, for one that cannot be read, is no plain file or too large, or is `secret`
    /// and not kept so.
    pem_text(const std::string& path, bool secret);
    ~pem_text();
    pem_text(const pem_text&) = delete;
    pem_text& operator=(const pem_text&) = delete;

    [[nodiscard]] openssl_ptr<BIO> open() const;

 private:
    std::string text_;
};

/// The first certificate of a PEM file. Throws: error(invalid_argument) where there is none.
[[nodiscard]] openssl_ptr<X509> read_first_certificate(BIO* from, const std::string& path);
/// The next one, `number` for who reads the error; nothing behind the last. Throws: error(invalid_argument) for one
/// that is damaged.
[[nodiscard]] openssl_ptr<X509> read_next_certificate(BIO* from, const std::string& path, int number);
/// Has a context show the certificate, with those above it, and sign with the key.
/// Throws: error, with file and cure, as tls_credentials says.
void use_tls_files(SSL_CTX* context, const tls_files& files);

/// One connection's TLS by OpenSSL; what a server's and a client's have alike.
class openssl_session : public tls_session {
 public:
    enum class side : bool { accepts, connects };

    openssl_session(std::shared_ptr<const openssl_context> context, side which);

    /// False where memory lacked.
    explicit operator bool() const noexcept { return static_cast<bool>(ssl_); }

    [[nodiscard]] tls_status shake(std::span<const char>& input, std::string& output) noexcept override;
    [[nodiscard]] bool resumed() const noexcept override { return SSL_session_reused(ssl_.get()) == 1; }
    [[nodiscard]] got read(std::span<const char>& input, std::span<char> into, std::string& output) noexcept override;
    [[nodiscard]] bool write(std::string_view plain, std::string& output) noexcept override;
    void close(std::string& output) noexcept override;
    [[nodiscard]] bool is_between_records() const noexcept override {
        return header_bytes_ == 0 && payload_left_ == 0 && SSL_has_pending(ssl_.get()) == 0;
    }

    // --- what the BIO asks for; each returns false when the session must fail
    [[nodiscard]] bool give(char* into, std::size_t size, std::size_t& given) noexcept;
    [[nodiscard]] bool take(const char* from, std::size_t size) noexcept;

 protected:
    [[nodiscard]] SSL* ssl() const noexcept { return ssl_.get(); }
    tls_status fail() noexcept {
        failed_ = true;
        return tls_status::failed;
    }
    /// The session has just failed; OpenSSL still knows why.
    virtual void note_failure() noexcept {}

 private:
    class call;
    [[nodiscard]] tls_status why(int result) noexcept;
    void follow(std::span<const char> bytes) noexcept;

    std::shared_ptr<const openssl_context> context_;
    std::span<const char>* input_ = nullptr;
    std::string* output_ = nullptr;
    tls_handshake_gate gate_;
    // Where in a record what was given ends: OpenSSL tells of half a record, but not of one whose header alone has
    // come.
    std::uint32_t header_bytes_ = 0;
    std::uint32_t length_ = 0;
    std::uint32_t payload_left_ = 0;
    std::uint32_t silent_records_ = 0;  // given since the last one that brought something (T5)
    bool gated_;  // a server's: looks at what comes in the handshake, and whether it brings anything later
    bool shaken_ = false;
    bool failed_ = false;
    bool closed_ = false;
    openssl_ptr<SSL> ssl_;
};

}  // namespace holdfast::net
