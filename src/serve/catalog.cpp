// SPDX-License-Identifier: Apache-2.0
#include "serve/catalog.hpp"

#include <fcntl.h>
#include <sys/stat.h>

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

/// Whether the registry has an entry of this URI. Cost: a system call a directory, where a list reads all of it.
bool is_registered(const std::string& uri) {
    struct stat status{};
    return std::ranges::any_of(registry::directories(), [&](const std::string& folder) {
        return ::lstat((folder + "/" + registry::detail::encode(uri)).c_str(), &status) == 0;
    });
}

std::vector<std::string> registered_uris() {
    require_listable();
    std::vector<std::string> names = registry::list();
    std::erase_if(names, [](const std::string& name) { return !is_uri(name); });
    return names;
}

}  // namespace

catalog::catalog(const std::vector<std::string>& served, bool private_too) : private_too_(private_too) {
    for (const std::string& name : served) served_.push_back(memory::uri::parse(name).text());
    std::sort(served_.begin(), served_.end());
}

std::string catalog::checked_uri(std::string_view name, viewer who) const {
    const memory::uri parsed = memory::uri::parse(name);
    std::string uri = parsed.text();
    if (!parsed.named())
        throw error(errc::not_found, std::string(name), "memory without a name cannot be served; use posix: or file:");
    const bool known = served_.empty() ? is_registered(uri) : std::ranges::binary_search(served_, uri);
    // What may not be shown is not attached either: an error of attaching would tell that it is there.
    if (!known || (!shows_all(who) && !may_show(segment_rights::of(parsed), who))) throw_not_served(name);
    return uri;
}

void catalog::throw_not_served(std::string_view name) {
    throw error(errc::not_found, std::string(name), "no segment of that name is served; GET /v1/segments lists them");
}

bool catalog::may_show(const segment_rights& rights, viewer who) const {
    if (who.known()) return rights.allow(*who.peer, wish::read);
    return shows_all(who) || rights.allow_everybody(wish::read);
}

bool catalog::may_name(std::string_view name, viewer who) const {
    try {
        const memory::uri parsed = memory::uri::parse(name);
        if (!served_.empty() && !std::ranges::binary_search(served_, parsed.text())) return false;
        return may_show(segment_rights::of(parsed), who);
    } catch (const error&) {  // no name at all
        return false;
    }
}

void catalog::require_same(const segment& attached) {
    if (attached.replaced())
        throw error(errc::contended, attached.uri(), "was replaced while it was attached; ask again");
}

std::vector<std::string> catalog::list(viewer who) const {
    std::vector<std::string> names = served_.empty() ? registered_uris() : served_;
    if (!shows_all(who))
        std::erase_if(names,
                      [&](const auto& each) { return !may_show(segment_rights::of(memory::uri::parse(each)), who); });
    return names;
}

std::vector<std::string> catalog::withheld() const {
    if (private_too_ || !served_.empty()) return {};
    std::vector<std::string> names = registered_uris();
    // What is registered and gone is nothing that could be shown.
    std::erase_if(names, [](const auto& each) {
        const memory::uri name = memory::uri::parse(each);
        struct stat status{};
        const bool there = name.is_sysv() ? detail::find_system_v(name) >= 0
                                          : ::lstat(detail::places_of(name).data().c_str(), &status) == 0;
        return !there || segment_rights::of(name).allow_everybody(wish::read);
    });
    return names;
}

void catalog::refresh() {
    const auto renew = [](auto& all) {
        std::erase_if(all, [](const auto& entry) {
            const auto& source = *entry.second.source;
            return source.broken() || source.memory().replaced();
        });
        for (auto& [name, one] : all) one.rights = segment_rights::of(one.source->memory().name());
    };
    renew(indexes_);
    renew(tables_);
    renew(rings_);
    renew(snapshots_);
}

std::string catalog::name_of(std::string_view uri) {
    constexpr std::string_view plain = "posix:/";
    return std::string(uri.starts_with(plain) ? uri.substr(plain.size()) : uri);
}

}  // namespace holdfast::serve
