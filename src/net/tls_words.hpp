// SPDX-License-Identifier: Apache-2.0
// tls_words.hpp - what a certificate says, in words for a log. Its bytes are the other side's: what is told of them is
// short and printable. tls_trust.cpp alone includes this.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <time.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "tls_openssl.hpp"

namespace holdfast::net {

inline constexpr std::size_t names_told_max = 4;  // of a certificate, which may hold thousands
inline constexpr std::size_t text_told_max = 120;

inline std::string printable(std::string_view text) {
    std::string made(text.substr(0, text_told_max));
    for (char& c : made)
        if (c < ' ' || c > '~') c = '?';
    if (made.size() < text.size()) made += "...";
    return made;
}

inline std::string words_of_name(const X509_NAME* name) {
    const openssl_ptr<BIO> text(BIO_new(BIO_s_mem()));
    if (!text || X509_NAME_print_ex(text.get(), name, 0, XN_FLAG_RFC2253) < 0) return "?";
    char* data = nullptr;
    const long size = BIO_get_mem_data(text.get(), &data);
    return size <= 0 ? "(no name)" : printable({data, static_cast<std::size_t>(size)});
}

inline std::string words_of_time(const ASN1_TIME* time) {
    tm parts{};
    std::array<char, 32> text{};
    if (ASN1_TIME_to_tm(time, &parts) != 1) return "a time that is none";
    const std::size_t size = ::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
    return {text.data(), size};
}

inline std::string_view bytes_of(const ASN1_STRING* text) {
    return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
            static_cast<std::size_t>(ASN1_STRING_length(text))};
}

inline std::string words_of_address(const ASN1_OCTET_STRING* address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const std::string_view bytes = bytes_of(address);
    const int family = bytes.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
    if (family == AF_INET6 && bytes.size() != sizeof(in6_addr)) return "?";
    return ::inet_ntop(family, bytes.data(), text.data(), text.size()) != nullptr ? text.data() : "?";
}

// What it is for: "a.example, *.b.example".
inline std::string words_of_hosts(const X509* certificate) {
    const openssl_ptr<GENERAL_NAMES> names(
        static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
    std::string made;
    std::size_t told = 0, left = 0;
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
        const GENERAL_NAME* const each = sk_GENERAL_NAME_value(names.get(), i);
        if (each->type != GEN_DNS && each->type != GEN_IPADD) continue;
        if (told == names_told_max) {
            ++left;
            continue;
        }
        if (told++ != 0) made += ", ";
        made += each->type == GEN_DNS ? printable(bytes_of(each->d.dNSName)) : words_of_address(each->d.iPAddress);
    }
    if (left != 0) made += " and " + std::to_string(left) + " more";
    if (told == 0) made = "no host by a subjectAltName";
    return made;
}

inline std::string fingerprint_of(const X509* certificate) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned size = 0;
    std::string made;
    if (X509_digest(certificate, EVP_sha256(), bytes.data(), &size) != 1) return "?";
    for (const unsigned char byte : std::span(bytes).first(size)) {
        made.push_back(digits[byte >> 4U]);
        made.push_back(digits[byte & 15U]);
    }
    return made;
}

}  // namespace holdfast::net
