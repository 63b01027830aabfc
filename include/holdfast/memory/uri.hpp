// SPDX-License-Identifier: Apache-2.0
// uri.hpp - the names of segments: which kind of memory, and which piece of it.
//
//   posix:/name   /dev/shm/name; a bare `name` means this
//   file:/path    a file on any file system; survives a reboot
//   memfd:        sealed anonymous file; `memfd:DATA[,LEASE[,PEERS]]` names inherited or received descriptors when
//   attaching anon:         shared with forked children, gone with the last of them heap:         private to this
//   process sysv:KEY, sysv+huge:KEY   a System V segment by decimal or 0x-hexadecimal key, with normal or huge pages
#pragma once

#include <climits>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "holdfast/error.hpp"

namespace holdfast::memory {

enum class kind : std::uint32_t { posix, file, memfd, anon, heap, sysv, sysv_huge };

[[nodiscard]] constexpr std::string_view kind_text(kind k) noexcept {
    switch (k) {
        case kind::posix: return "posix";
        case kind::file: return "file";
        case kind::memfd: return "memfd";
        case kind::anon: return "anon";
        case kind::heap: return "heap";
        case kind::sysv: return "sysv";
        case kind::sysv_huge: return "sysv+huge";
    }
    return "unknown";
}

/// A parsed and validated name.
struct uri {
    memory::kind kind = memory::kind::posix;
    std::string
        name;  ///< posix: the name without slash; file: the path; memfd: descriptors or empty; sysv: the key as text
    std::uint32_t key = 0;  ///< sysv and sysv+huge only; never 0, which is IPC_PRIVATE

    /// Parses `text`. Throws: invalid_name with the rule that is broken.
    [[nodiscard]] static uri parse(std::string_view text);

    /// The canonical text; parse(text()) gives the same name.
    [[nodiscard]] std::string text() const {
        std::string out(kind_text(kind));
        out += kind == memory::kind::posix ? ":/" : ":";
        return out + name;
    }

    /// Whether the name lies in a name space that other processes can look it up in.
    [[nodiscard]] bool named() const noexcept {
        return kind == memory::kind::posix || kind == memory::kind::file || is_sysv();
    }
    [[nodiscard]] bool is_sysv() const noexcept {
        return kind == memory::kind::sysv || kind == memory::kind::sysv_huge;
    }
    [[nodiscard]] bool is_path() const noexcept { return kind == memory::kind::posix || kind == memory::kind::file; }
    [[nodiscard]] bool is_memfd() const noexcept { return kind == memory::kind::memfd || kind == memory::kind::anon; }

    /// Directory and file name of a posix: or file: segment.
    [[nodiscard]] std::string directory() const {
        if (kind == memory::kind::posix) return "/dev/shm";
        const std::size_t slash = name.rfind('/');
        if (slash == std::string::npos) return ".";
        return slash == 0 ? "/" : name.substr(0, slash);
    }
    [[nodiscard]] std::string file_name() const {
        const std::size_t slash = name.rfind('/');
        return slash == std::string::npos ? name : name.substr(slash + 1);
    }
};

namespace detail {

inline constexpr std::string_view lease_suffix = ".lease";
inline constexpr std::string_view peers_suffix = ".peers";
inline constexpr std::string_view growing_suffix = ".growing";
/// Room for the longest thing we append to a file name (".lease", or "." and ".XXXXXXXX.making" around it) under
/// NAME_MAX.
inline constexpr std::size_t name_bytes_max = 220;

[[noreturn]] inline void throw_invalid_name(std::string_view text, std::string_view rule) {
    throw error(errc::invalid_name, std::string(text.substr(0, 256)), rule);
}

/// The rules of a file name that we create: they keep names printable, portable in URLs and apart from our companion
/// files.
inline void check_file_name(std::string_view text, std::string_view name) {
    if (name.empty()) throw_invalid_name(text, "the name is empty; give one, such as posix:/sessions");
    if (name.size() > name_bytes_max) throw_invalid_name(text, "the name is longer than 220 bytes; shorten it");
    if (name.front() == '.' || name.front() == '-')
        throw_invalid_name(text, "a name must not begin with '.' or '-'; begin it with a letter or digit");
    for (const char c : name) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                           c == '_' || c == '-' || c == '+' || c == '@';
        if (!plain) throw_invalid_name(text, "a name is made of letters, digits and . _ - + @ only; rename it");
    }
    if (name.ends_with(lease_suffix) || name.ends_with(peers_suffix) || name.ends_with(growing_suffix))
        throw_invalid_name(
            text, "the endings .lease, .peers and .growing belong to companion files; name the segment itself");
}

[[nodiscard]] inline std::uint32_t parse_key(std::string_view text, std::string_view digits) {
    const bool hex = digits.starts_with("0x") || digits.starts_with("0X");
    std::string_view rest = hex ? digits.substr(2) : digits;
    std::uint64_t value = 0;
    if (rest.empty() || rest.size() > 10) rest = "?";
    for (const char c : rest) {
        const int digit = c >= '0' && c <= '9'          ? c - '0'
                          : hex && c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : hex && c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                        : -1;
        if (digit < 0)
            throw_invalid_name(text,
                               "a System V key is a number, decimal or 0x-hexadecimal; for example sysv:0x5f5e100");
        value = value * (hex ? 16U : 10U) + static_cast<std::uint64_t>(digit);
    }
    // Keys are signed 32-bit in the interface; the non-negative half avoids two spellings of one key. 0 is IPC_PRIVATE.
    if (value == 0 || value > INT32_MAX)
        throw_invalid_name(text, "a System V key lies between 1 and 2147483647; choose another");
    return static_cast<std::uint32_t>(value);
}

}  // namespace detail

inline uri uri::parse(std::string_view text) {
    uri result;
    const std::size_t colon = text.find(':');
    const std::string_view scheme = colon == std::string_view::npos ? "posix" : text.substr(0, colon);
    std::string_view rest = colon == std::string_view::npos ? text : text.substr(colon + 1);
    if (scheme == "posix") {
        result.kind = kind::posix;
        if (rest.starts_with('/')) rest.remove_prefix(1);
        detail::check_file_name(text, rest);
    } else if (scheme == "file") {
        result.kind = kind::file;
        if (rest.starts_with("//")) rest.remove_prefix(2);  // file:///path, as browsers write it
        if (rest.size() >= PATH_MAX - 64) detail::throw_invalid_name(text, "the path is too long; shorten it");
        const std::size_t slash = rest.rfind('/');
        detail::check_file_name(text, slash == std::string_view::npos ? rest : rest.substr(slash + 1));
        if (rest.find('\0') != std::string_view::npos)
            detail::throw_invalid_name(text, "a path holds no zero byte; remove it");
    } else if (scheme == "memfd" || scheme == "anon" || scheme == "heap") {
        result.kind = scheme == "memfd" ? kind::memfd : scheme == "anon" ? kind::anon : kind::heap;
        const bool descriptors =
            result.kind == kind::memfd && rest.find_first_not_of("0123456789,") == std::string_view::npos;
        if (!rest.empty() && !descriptors)
            detail::throw_invalid_name(text,
                                       "memfd:, anon: and heap: memory has no name; write nothing after the colon");
    } else if (scheme == "sysv" || scheme == "sysv+huge") {
        result.kind = scheme == "sysv" ? kind::sysv : kind::sysv_huge;
        result.key = detail::parse_key(text, rest);
        result.name = std::to_string(result.key);
        return result;
    } else {
        detail::throw_invalid_name(
            text, "unknown kind of memory; use posix:, file:, memfd:, anon:, heap:, sysv: or sysv+huge:");
    }
    result.name = std::string(rest);
    return result;
}

}  // namespace holdfast::memory
