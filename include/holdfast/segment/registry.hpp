// SPDX-License-Identifier: Apache-2.0
// registry.hpp - where named segments are found: a directory with one symbolic link each.
//
// $HOLDFAST_REGISTRY if set, else /run/holdfast for root, else $XDG_RUNTIME_DIR/holdfast. Entries are hints: whoever
// lists them checks each by attaching. Not being able to register never fails a creation. The directory itself is no
// symbolic link: what stands there as one is listed, and nothing is added to it.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/memory/descriptor.hpp"
#include "holdfast/memory/uri.hpp"

namespace holdfast::registry {

namespace detail {

[[nodiscard]] inline std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
}

/// Percent-encodes everything but letters, digits and - _ . so that a URI is a file name.
[[nodiscard]] inline std::string encode(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                           c == '_' || c == '.';
        const auto byte = static_cast<unsigned char>(c);
        if (plain) {
            out += c;
        } else {
            out += '%';
            out += "0123456789ABCDEF"[byte >> 4U];
            out += "0123456789ABCDEF"[byte & 15U];
        }
    }
    return out;
}

[[nodiscard]] inline int hex_digit(char c) noexcept {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/// The URI of an entry's name; empty when it is not one of ours.
[[nodiscard]] inline std::string decode(std::string_view name) {
    std::string out;
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (name[i] != '%') {
            out += name[i];
            continue;
        }
        if (i + 2 >= name.size() || hex_digit(name[i + 1]) < 0 || hex_digit(name[i + 2]) < 0) return {};
        out += static_cast<char>(hex_digit(name[i + 1]) * 16 + hex_digit(name[i + 2]));
        i += 2;
    }
    return out;
}

/// A URI that means the same from every working directory.
[[nodiscard]] inline memory::uri absolute(memory::uri name) {
    if (name.kind != memory::kind::file) return name;
    const std::unique_ptr<char, void (*)(void*)> directory(::realpath(name.directory().c_str(), nullptr), &std::free);
    if (directory) name.name = std::string(directory.get()) + "/" + name.file_name();
    return name;
}

[[nodiscard]] inline std::string entry_name(const memory::uri& name) { return encode(absolute(name).text()); }
[[nodiscard]] inline std::string entry_path(const std::string& directory, const memory::uri& name) {
    return directory + "/" + entry_name(name);
}

/// The directory, made where nothing is, to put an entry into; empty where there is none or it is a symbolic link.
/// What was made may be swapped for something else before it is opened: only a directory of our own gets its mode, by
/// descriptor.
[[nodiscard]] inline memory::descriptor open_directory(const std::string& folder) {
    const bool made = ::mkdir(folder.c_str(), 0755) == 0;
    memory::descriptor handle = memory::open_at(AT_FDCWD, folder.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (!made || !handle) return handle;
    struct stat status{};
    if (::fstat(handle.get(), &status) != 0 || status.st_uid != ::geteuid()) return {};
    ::chmod(memory::proc_path(handle.get()).c_str(), 0755);  // the umask plays no part
    return handle;
}

}  // namespace detail

/// The directory that this process registers in; empty when it has none.
[[nodiscard]] inline std::string directory() {
    if (std::string chosen = detail::environment("HOLDFAST_REGISTRY"); !chosen.empty()) return chosen;
    if (::geteuid() == 0) return "/run/holdfast";
    const std::string runtime = detail::environment("XDG_RUNTIME_DIR");
    return runtime.empty() ? std::string() : runtime + "/holdfast";
}

/// The directories that listing looks into: the system's and one's own.
[[nodiscard]] inline std::vector<std::string> directories() {
    std::vector<std::string> all;
    if (const std::string own = directory(); !own.empty()) all.push_back(own);
    if (detail::environment("HOLDFAST_REGISTRY").empty() && (all.empty() || all.front() != "/run/holdfast"))
        all.emplace_back("/run/holdfast");
    return all;
}

/// Adds a named segment. Returns whether it is registered now. Cost: four system calls.
inline bool add(const memory::uri& name) noexcept {
    try {
        const std::string folder = directory();
        if (folder.empty() || !name.named()) return false;
        const std::string entry = detail::entry_name(name);
        if (entry.size() > NAME_MAX) return false;
        const memory::descriptor handle = detail::open_directory(folder);
        if (!handle) return false;
        return ::symlinkat(detail::absolute(name).text().c_str(), handle.get(), entry.c_str()) == 0 || errno == EEXIST;
    } catch (...) {
        return false;  // no memory for a path: the segment itself is made
    }
}

/// Removes a segment's entry wherever it stands.
inline void remove(const memory::uri& name) noexcept {
    try {
        for (const std::string& folder : directories()) ::unlink(detail::entry_path(folder, name).c_str());
    } catch (...) {  // a stale entry is only a hint
    }
}

/// The URIs registered, sorted, each once. They may no longer exist.
/// Throws: io when a directory that is there cannot be listed, for instance for lack of descriptors.
[[nodiscard]] inline std::vector<std::string> list() {
    std::vector<std::string> names;
    for (const std::string& folder : directories()) {
        const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(folder.c_str()), &::closedir);
        if (!handle && errno != ENOENT && errno != EACCES)
            throw error(errc::io, folder,
                        "listing the registry failed: " + std::generic_category().message(errno) +
                            "; free descriptors or memory, then try again");
        if (!handle) continue;
        while (const dirent* entry = ::readdir(handle.get())) {
            std::string uri = detail::decode(entry->d_name);
            if (uri.find(':') != std::string::npos) names.push_back(std::move(uri));
        }
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

}  // namespace holdfast::registry
