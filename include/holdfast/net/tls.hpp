// SPDX-License-Identifier: Apache-2.0
// tls.hpp - TLS for the listeners of a server: which certificate answers on which of them. A client's: tls_trust.hpp.
//
// TLS 1.3 and 1.2, nothing older; suites with forward secrecy and authenticated encryption alone. ALPN knows http/1.1,
// and who insists on another protocol is refused. No renegotiation, no compression, no early data. Sessions are resumed
// by tickets under keys that live in memory alone and are replaced every four hours, and with each reload().
// A build without TLS (HOLDFAST_NET_TLS=OFF) has these types, and making credentials says how to get them.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace holdfast::net {

/// Where a certificate and its key lie, as PEM. Both may be in one file.
struct tls_files {
    std::string certificate;  ///< the owner's, then those between it and a root that the other side knows
    std::string key;          ///< not encrypted; neither readable by others nor changeable by the group
};

/// A certificate with its key, for any number of listeners and servers. Copies share them.
/// Threads: any, also beside servers that use it.
class tls_credentials {
 public:
    /// Reads both files. Throws: error(not_found), error(no_permission) or error(io) where one cannot be read;
    /// error(unsafe_file) for a key that others may read; error(invalid_argument) for one that is damaged, encrypted,
    /// too weak (RSA below 2048 bits), or not that of the certificate; error(unsupported) in a build without TLS. Each
    /// names the file and the cure.
    explicit tls_credentials(tls_files files);

    /// Reads the files again. Connections that are open stay as they are; those to come get what the files say now.
    /// Throws: as the constructor; what was there before stays in use.
    void reload() const;

 private:
    friend class tls_session;
    std::shared_ptr<struct tls_store> store_;
};

/// A listener of a server whose connections speak TLS.
struct tls_listener {
    int listener = -1;            ///< a descriptor that the server is given, too
    tls_credentials credentials;  ///< for who names no host, or one that no certificate here is for
    /// More of them, by the host that a client names (SNI): whose certificate says that very name is shown, or, where
    /// none does, one with a wildcard for it; of several the first, `credentials` before these.
    std::vector<tls_credentials> by_name{};
};

}  // namespace holdfast::net
