// SPDX-License-Identifier: Apache-2.0
// tls_trust.hpp - TLS for a client: whom it believes, and who it says that it is.
//
// TLS 1.3 and 1.2, nothing older; suites with forward secrecy and authenticated encryption alone; ALPN http/1.1. A
// certificate has to be good at this time, for the host of the URL, by a subjectAltName (a common name does not count),
// and issued by someone who is believed. Whether it was revoked is not asked. The environment (SSL_CERT_FILE) is not
// read.
// A build without TLS (HOLDFAST_NET_TLS=OFF) has these types, and making a trust says how to get it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "holdfast/net/tls.hpp"

namespace holdfast::net {

/// Where PEM files lie. Without issuers and pins, those count whom the system believes.
struct tls_trust_options {
    std::string issuers_file{};    ///< certificates of issuers, or of the servers themselves, that are believed
    std::string issuers_folder{};  ///< the same, each under its hashed name (`openssl rehash FOLDER`)
    /// Certificates of servers: one of these, byte for byte, has to be shown, and needs no issuer. Name and time count
    /// all the same. Alone: not beside issuers.
    std::string pinned_file{};
    std::optional<tls_files> own{};  ///< the client's certificate and key, shown to a server that asks for one
    /// No certificate is looked at: whoever is on the way can read and change everything. For tests.
    bool insecurely_believe_anyone = false;
};

/// Whom a client believes; for any number of clients and requests. Copies are the same trust. Connections are kept
/// apart by it: what was made under one trust never carries a request of another, whose files may be the same.
/// Threads: any.
class tls_trust {
 public:
    /// Reads the files. Throws: error(not_found), error(no_permission) or error(io) where one cannot be read, and where
    /// the system has no issuers; error(unsafe_file) for a key that others may read; error(invalid_argument) for one
    /// that is damaged, or options that contradict each other; error(unsupported) in a build without TLS. Each names
    /// the file and the cure.
    explicit tls_trust(tls_trust_options options = {});

 private:
    friend class client_core;
    friend class tls_session;
    std::shared_ptr<const struct tls_trust_state> state_;
    std::uint64_t number_ = 0;  // of this process alone, and never used again
};

}  // namespace holdfast::net
