// SPDX-License-Identifier: Apache-2.0
// tls_peer.hpp - the other side of TLS, by OpenSSL: certificates made on the spot, a client's end without a socket, and
// a blocking client over one. A server's end: tls_speaker.hpp.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "holdfast/net/tls.hpp"
#include "support/http_client.hpp"

namespace holdfast::test {

struct tls_deleter {
    void operator()(BIO* one) const noexcept { BIO_free(one); }
    void operator()(EVP_PKEY* one) const noexcept { EVP_PKEY_free(one); }
    void operator()(SSL* one) const noexcept { SSL_free(one); }
    void operator()(SSL_CTX* one) const noexcept { SSL_CTX_free(one); }
    void operator()(SSL_SESSION* one) const noexcept { SSL_SESSION_free(one); }
    void operator()(X509* one) const noexcept { X509_free(one); }
};
template <class Type>
using tls_ptr = std::unique_ptr<Type, tls_deleter>;

[[nodiscard]] inline tls_ptr<EVP_PKEY> make_ec_key() { return tls_ptr<EVP_PKEY>(EVP_EC_gen("P-256")); }
[[nodiscard]] inline tls_ptr<EVP_PKEY> make_rsa_key(unsigned bits) {
    return tls_ptr<EVP_PKEY>(EVP_RSA_gen(static_cast<std::size_t>(bits)));
}

/// What is out of the ordinary about a certificate.
struct tls_certificate_options {
    std::string alternatives{};  // "DNS:a.test,IP:127.0.0.1"; empty: none
    long from_s = -3600;         // from now
    long to_s = 24 * 3600;
    X509* issuer = nullptr;  // none: signed by itself
    EVP_PKEY* issuer_key = nullptr;
    bool authority = false;       // may sign others
    const char* usage = nullptr;  // "clientAuth"
};

inline void add_extension(X509* to, int which, const std::string& text) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, which, text.c_str());
    if (extension == nullptr) throw std::runtime_error("no extension: " + text);
    X509_add_ext(to, extension, -1);
    X509_EXTENSION_free(extension);
}

[[nodiscard]] inline tls_ptr<X509> make_certificate_with(EVP_PKEY* key, const std::string& name,
                                                         const tls_certificate_options& wanted) {
    tls_ptr<X509> made(X509_new());
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), wanted.issuer == nullptr ? 1 : 2);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), wanted.from_s);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), wanted.to_s);
    X509_NAME* const subject = X509_get_subject_name(made.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1,
                               -1, 0);
    X509_set_issuer_name(made.get(), wanted.issuer == nullptr ? subject : X509_get_subject_name(wanted.issuer));
    X509_set_pubkey(made.get(), key);
    if (wanted.authority) {
        add_extension(made.get(), NID_basic_constraints, "critical,CA:TRUE");
        add_extension(made.get(), NID_key_usage, "critical,keyCertSign");
    }
    if (wanted.usage != nullptr) add_extension(made.get(), NID_ext_key_usage, wanted.usage);
    if (!wanted.alternatives.empty()) add_extension(made.get(), NID_subject_alt_name, wanted.alternatives);
    if (X509_sign(made.get(), wanted.issuer_key == nullptr ? key : wanted.issuer_key, EVP_sha256()) == 0)
        throw std::runtime_error("no certificate");
    return made;
}

/// A certificate for `name`, good from an hour ago for a day, signed by `issuer`'s key; by its own without one.
[[nodiscard]] inline tls_ptr<X509> make_certificate(EVP_PKEY* key, const std::string& name, X509* issuer = nullptr,
                                                    EVP_PKEY* issuer_key = nullptr) {
    return make_certificate_with(
        key, name, {.alternatives = "DNS:" + name + ",IP:127.0.0.1", .issuer = issuer, .issuer_key = issuer_key});
}

/// A certificate with its key.
struct tls_pair {
    tls_ptr<EVP_PKEY> key;
    tls_ptr<X509> certificate;
};

/// Someone who signs certificates; by itself, or under another.
class tls_authority {
 public:
    explicit tls_authority(const std::string& name, const tls_authority* above = nullptr)
        : own_(issue(above, make_ec_key(), name, {.authority = true})) {}

    /// A certificate signed by it.
    [[nodiscard]] tls_pair issue(const std::string& name, tls_certificate_options wanted) const {
        return issue(this, make_ec_key(), name, std::move(wanted));
    }
    [[nodiscard]] X509* certificate() const noexcept { return own_.certificate.get(); }

 private:
    static tls_pair issue(const tls_authority* by, tls_ptr<EVP_PKEY> key, const std::string& name,
                          tls_certificate_options wanted) {
        if (by != nullptr) wanted.issuer = by->own_.certificate.get();
        if (by != nullptr) wanted.issuer_key = by->own_.key.get();
        tls_ptr<X509> made = make_certificate_with(key.get(), name, wanted);
        return {std::move(key), std::move(made)};
    }

    tls_pair own_;
};

[[nodiscard]] inline std::string pem_of(X509* certificate) {
    const tls_ptr<BIO> text(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(text.get(), certificate);
    char* data = nullptr;
    const long size = BIO_get_mem_data(text.get(), &data);
    return {data, static_cast<std::size_t>(size)};
}
[[nodiscard]] inline std::string pem_of(EVP_PKEY* key, const char* phrase = nullptr) {
    const tls_ptr<BIO> text(BIO_new(BIO_s_mem()));
    PEM_write_bio_PKCS8PrivateKey(text.get(), key, phrase != nullptr ? EVP_aes_256_cbc() : nullptr, nullptr, 0, nullptr,
                                  const_cast<char*>(phrase));
    char* data = nullptr;
    const long size = BIO_get_mem_data(text.get(), &data);
    return {data, static_cast<std::size_t>(size)};
}

/// A folder of its own with files of certificates and keys, gone with it.
class tls_folder {
 public:
    tls_folder() {
        std::string name = (std::filesystem::temp_directory_path() / "holdfast-tls-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp");
        path_ = name;
    }
    ~tls_folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    tls_folder(const tls_folder&) = delete;
    tls_folder& operator=(const tls_folder&) = delete;

    [[nodiscard]] std::string path(const std::string& name) const { return path_ / name; }
    /// Writes a file. Returns: its path.
    std::string write(const std::string& name, std::string_view text, mode_t mode = 0600) const {
        const std::string where = path(name);
        ::unlink(where.c_str());
        const int fd = ::open(where.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, mode);
        const bool written = fd >= 0 && ::fchmod(fd, mode) == 0 &&
                             ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
        if (fd >= 0) ::close(fd);
        if (!written) throw std::system_error(errno, std::generic_category(), where);
        return where;
    }
    /// A pair as NAME.pem and NAME.key, with those above it behind.
    net::tls_files write_pair(const std::string& name, const tls_pair& pair, const std::string& above = {}) const {
        return {write(name + ".pem", pem_of(pair.certificate.get()) + above, 0644),
                write(name + ".key", pem_of(pair.key.get()))};
    }
    /// A key and a certificate of that name, signed by itself, as cert.pem and key.pem.
    net::tls_files write_pair(const std::string& name = "localhost") const {
        const auto key = make_ec_key();
        return {write("cert.pem", pem_of(make_certificate(key.get(), name).get()), 0644),
                write("key.pem", pem_of(key.get()))};
    }

 private:
    std::filesystem::path path_;
};

struct tls_client_options {
    int version_max = 0;             // TLS1_2_VERSION
    std::string protocols{};         // ALPN: "http/1.1", or more with a blank between
    SSL_SESSION* session = nullptr;  // to be resumed
    const char* groups = nullptr;    // of key shares
};

/// A client's end of TLS without a socket: bytes in, bytes out.
class tls_client_end {
 public:
    explicit tls_client_end(const tls_client_options& wanted = {}) : context_(SSL_CTX_new(TLS_client_method())) {
        SSL_CTX_set_app_data(context_.get(), this);
        SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(context_.get(), on_session);
        if (wanted.version_max != 0 && wanted.version_max < TLS1_2_VERSION) {  // offers what nobody should take
            SSL_CTX_set_security_level(context_.get(), 0);
            SSL_CTX_set_min_proto_version(context_.get(), 0);
        }
        if (wanted.version_max != 0) SSL_CTX_set_max_proto_version(context_.get(), wanted.version_max);
        if (wanted.groups != nullptr) SSL_CTX_set1_groups_list(context_.get(), wanted.groups);
        ssl_.reset(SSL_new(context_.get()));
        SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        std::string list;
        for (std::string_view left = wanted.protocols; !left.empty();) {
            const std::string_view one = left.substr(0, left.find(' '));
            list.append(1, static_cast<char>(one.size())).append(one);
            left.remove_prefix(std::min(left.size(), one.size() + 1));
        }
        if (!list.empty())
            SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(list.data()),
                                static_cast<unsigned>(list.size()));
        if (wanted.session != nullptr) SSL_set_session(ssl_.get(), wanted.session);
        SSL_set_connect_state(ssl_.get());
    }
    tls_client_end(const tls_client_end&) = delete;
    tls_client_end& operator=(const tls_client_end&) = delete;

    [[nodiscard]] SSL* get() const noexcept { return ssl_.get(); }
    /// The newest session that the server has given a ticket for.
    [[nodiscard]] SSL_SESSION* session() const noexcept { return session_.get(); }

    /// Takes what the server sent.
    void feed(std::string_view bytes) {
        if (!bytes.empty()) BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(), static_cast<int>(bytes.size()));
    }
    /// What is to be sent to it.
    [[nodiscard]] std::string take() {
        std::string out(BIO_ctrl_pending(SSL_get_wbio(ssl_.get())), ' ');
        if (!out.empty()) BIO_read(SSL_get_wbio(ssl_.get()), out.data(), static_cast<int>(out.size()));
        return out;
    }
    /// Goes on with the handshake. Returns: whether it is made.
    bool shake() { return failed_ ? false : note(SSL_do_handshake(ssl_.get())); }
    [[nodiscard]] bool shaken() const noexcept { return SSL_is_init_finished(ssl_.get()) == 1; }
    /// Encrypts.
    void write(std::string_view text) {
        std::size_t taken = 0;
        if (!text.empty() && SSL_write_ex(ssl_.get(), text.data(), text.size(), &taken) != 1) note(0);
    }
    /// Takes what has come whole into received().
    void read() {
        char bytes[16384];
        std::size_t got = 0;
        while (!failed_ && !notified_ && note(SSL_read_ex(ssl_.get(), bytes, sizeof bytes, &got)))
            received_.append(bytes, got);
    }
    /// Says close_notify.
    void notify() { (void)SSL_shutdown(ssl_.get()); }

    [[nodiscard]] std::string& received() noexcept { return received_; }
    /// The server said close_notify.
    [[nodiscard]] bool notified() const noexcept { return notified_; }
    [[nodiscard]] bool failed() const noexcept { return failed_; }
    /// Why, in OpenSSL's words.
    [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

 private:
    static int on_session(SSL* ssl, SSL_SESSION* session) {
        static_cast<tls_client_end*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)))->session_.reset(session);
        return 1;
    }

    bool note(int result) {
        if (result == 1) return true;
        const int why = SSL_get_error(ssl_.get(), result);
        if (why == SSL_ERROR_ZERO_RETURN) notified_ = true;
        if (why == SSL_ERROR_SSL || why == SSL_ERROR_SYSCALL) {
            failed_ = true;
            const char* const text = ERR_reason_error_string(ERR_peek_error());
            reason_ = text != nullptr ? text : "no reason";
        }
        ERR_clear_error();
        return false;
    }

    tls_ptr<SSL_CTX> context_;
    tls_ptr<SSL> ssl_;
    tls_ptr<SSL_SESSION> session_;
    std::string received_;
    std::string reason_;
    bool notified_ = false;
    bool failed_ = false;
};

/// A blocking client over TLS, each wait with a deadline.
class tls_client {
 public:
    struct options {
        tls_client_options tls{};
        int receive_buffer = 0;
    };

    /// Connects; shakes hands with the first call that needs it.
    explicit tls_client(std::uint16_t port) : tls_client(port, options{}) {}
    tls_client(std::uint16_t port, const options& wanted)
        : end_(wanted.tls), fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        if (wanted.receive_buffer != 0)
            ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &wanted.receive_buffer, sizeof wanted.receive_buffer);
        const int on = 1;
        ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (fd_ < 0 || ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
            throw std::system_error(errno, std::generic_category(), "connect");
        ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
    }
    ~tls_client() { close(); }
    tls_client(const tls_client&) = delete;
    tls_client& operator=(const tls_client&) = delete;

    [[nodiscard]] tls_client_end& end() noexcept { return end_; }

    /// Returns: whether the handshake was made; end().reason() says why not.
    bool shake() {
        while (!end_.shake()) {
            push();
            if (end_.failed() || !pull()) return false;
        }
        push();
        return true;
    }
    void send(std::string_view text) {
        if (!end_.shaken() && !shake()) throw std::runtime_error("no handshake: " + end_.reason());
        end_.write(text);
        push();
    }
    /// Sends bytes as they are, beside TLS.
    void send_raw(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
            if (n < 0 && errno == EAGAIN) await(POLLOUT);
            if (n < 0 && errno != EAGAIN && errno != EINTR) return;  // the server has closed: seen when reading
        }
    }
    /// Sends what end() has to say.
    void push() { send_raw(end_.take()); }

    /// What was said up to and with `mark`.
    std::string read_to(std::string_view mark) {
        std::size_t at = 0;
        while ((at = end_.received().find(mark)) == std::string::npos)
            if (!more()) throw std::runtime_error("ended before what was waited for: " + end_.received());
        return cut(at + mark.size());
    }
    std::string take(std::size_t bytes) {
        while (end_.received().size() < bytes)
            if (!more()) throw std::runtime_error("ended before what was waited for");
        return cut(bytes);
    }
    http_reply reply() {
        http_reply got;
        got.head = read_to("\r\n\r\n");
        got.status = std::atoi(got.head.c_str() + 9);
        got.body = take(std::strtoull(got.field("Content-Length").c_str(), nullptr, 10));
        return got;
    }
    http_reply ask(std::string_view request) {
        send(request);
        return reply();
    }
    /// Whether the server says close_notify, and nothing before it.
    bool notified() {
        while (more() && end_.received().empty()) {
        }
        return end_.received().empty() && end_.notified();
    }
    /// Whether the connection itself ends, in whichever way.
    bool gone() {
        while (pull()) {
        }
        return true;
    }
    /// Takes some of what comes. Returns: false when nothing comes any more.
    bool pull() {
        char bytes[65536];
        while (true) {
            const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
            if (n > 0) end_.feed({bytes, static_cast<std::size_t>(n)});
            if (n >= 0) return n > 0;
            if (errno == EAGAIN)
                await(POLLIN);
            else if (errno != EINTR)
                return false;
        }
    }
    /// Whether the server has reset the connection; nothing is read.
    bool cut_off() const {
        pollfd p{fd_, 0, 0};
        return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)) != 0;
    }
    void shutdown_send() const { ::shutdown(fd_, SHUT_WR); }
    void close() {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }
    void reset() {
        const linger abort{1, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
        close();
    }

 private:
    std::string cut(std::size_t bytes) {
        std::string taken = end_.received().substr(0, bytes);
        end_.received().erase(0, bytes);
        return taken;
    }
    // Reads more. Returns false when nothing comes any more.
    bool more() {
        const std::size_t before = end_.received().size();
        while (true) {
            end_.read();
            push();
            if (end_.received().size() > before) return true;
            if (end_.failed() || end_.notified() || !pull()) return false;
        }
    }
    void await(short events) const {
        pollfd p{fd_, events, 0};
        const int ready = ::poll(&p, 1, static_cast<int>(std::chrono::milliseconds(http_client::deadline).count()));
        if (ready == 0) throw std::runtime_error("deadline passed");
    }

    tls_client_end end_;
    int fd_;
};

}  // namespace holdfast::test
