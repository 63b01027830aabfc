// SPDX-License-Identifier: Apache-2.0
#include "serve/catalog.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "holdfast/error.hpp"
#include "holdfast/memory/descriptor.hpp"
#include "holdfast/memory/uri.hpp"
#include "holdfast/segment/registry.hpp"

namespace holdfast::serve {

namespace {

/// Entries of the registry are files that anyone who may write there named.
bool is_uri(const std::string& text) noexcept {
    try {
        return memory::uri::parse(text).text() == text;
    } catch (const std::exception&) {
        return false;
    }
}

/// Without a descriptor to look with, nothing can be said of a name: that is another answer than "no such segment".
/// Throws: io.
void require_listable() {
    for (const std::string& folder : registry::directories()) {
        const memory::descriptor handle = memory::open_at(AT_FDCWD, folder.c_str(), O_RDONLY | O_DIRECTORY);
        if (!handle && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
            throw error(errc::io, folder,
                        "the directory of segments cannot be listed: " + memory::errno_text(errno) + "; ask again");
    }
}

}  // namespace

catalog::catalog(const std::vector<std::string>& served) {
    for (const std::string& name : served) served_.push_back(memory::uri::parse(name).text());
    std::sort(served_.begin(), served_.end());
}

std::string catalog::checked_uri(std::string_view name) const {
    const std::string uri = memory::uri::parse(name).text();
    if (!memory::uri::parse(uri).named())
        throw error(errc::not_found, std::string(name), "memory without a name cannot be served; use posix: or file:");
    const std::vector<std::string> known = list();
    if (!std::binary_search(known.begin(), known.end(), uri))
        throw error(errc::not_found, std::string(name),
                    "no segment of that name is served; GET /v1/segments lists them");
    return uri;
}

std::vector<std::string> catalog::list() const {
    if (!served_.empty()) return served_;
    require_listable();
    std::vector<std::string> names = registry::list();
    std::erase_if(names, [](const std::string& name) { return !is_uri(name); });
    return names;
}

void catalog::refresh() {
    const auto stale = [](const auto& entry) { return entry.second->broken() || entry.second->memory().replaced(); };
    std::erase_if(indexes_, stale);
    std::erase_if(tables_, stale);
}

std::string catalog::name_of(std::string_view uri) {
    constexpr std::string_view plain = "posix:/";
    return std::string(uri.starts_with(plain) ? uri.substr(plain.size()) : uri);
}

}  // namespace holdfast::serve
