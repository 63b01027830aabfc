// SPDX-License-Identifier: Apache-2.0
// catalog.hpp - the segments a worker serves: which may be asked for, and those it is attached to.
//
// A segment is attached when it is first asked for, and again after it was removed or made anew: refresh() notices, so
// an answer is at most one refresh interval behind a replacement.
// (I1) Only successful attachments are kept, each once however requests spell its name: names that lead nowhere, and
//      many names of one segment, cost their request, never memory.
// (I2) Who asks over TCP may be anybody on this machine. What nobody has named to be served is served only while
//      everybody may read it. Who asks over a unix socket is known, and sees what it may read itself.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "serve/rights.hpp"
#include "serve/ring_source.hpp"
#include "serve/sources.hpp"

namespace holdfast::serve {

class catalog {
 public:
    /// `served`: what may be asked for; empty: whatever is registered and everybody may read, or with `private_too`
    /// whatever is registered. Throws: invalid_name.
    explicit catalog(const std::vector<std::string>& served, bool private_too = false);

    /// Throws: not_found (also for what is not served, or not to this client), kind_mismatch, and whatever else keeps a
    /// segment from being attached.
    [[nodiscard]] index_source& index(std::string_view name, viewer who = {}) { return find(indexes_, name, who); }
    [[nodiscard]] table_source& table(std::string_view name, viewer who = {}) { return find(tables_, name, who); }

    [[nodiscard]] snapshot_source& snapshot(std::string_view name, viewer who = {}) {
        return find(snapshots_, name, who);
    }
    [[nodiscard]] ring_source& ring(std::string_view name, viewer who = {}) { return find(rings_, name, who); }

    /// Whether a client may be shown what has these rights. (I2)
    [[nodiscard]] bool may_show(const segment_rights& rights, viewer who) const;

    /// Whether a client may be told that there is, or was, a segment of this name. Of one that is gone nobody knows who
    /// might have read it: it is told only to who is shown whatever is served. (I2)
    [[nodiscard]] bool may_name(std::string_view name, viewer who) const;

    /// URIs of what is served to a client, sorted. They may not exist at this moment. Throws: io where nobody can tell
    /// for now.
    [[nodiscard]] std::vector<std::string> list(viewer who = {}) const;

    /// URIs of what is registered and withheld, since not everybody may read it; sorted. Throws: as list().
    [[nodiscard]] std::vector<std::string> withheld() const;

    /// Lets go of segments that were removed, replaced or found damaged, and looks at the rights of the others anew.
    /// Call it some times a second.
    void refresh();

    /// The name by which a segment stands in URLs: posix: segments by their bare name, others by their URI.
    [[nodiscard]] static std::string name_of(std::string_view uri);

 private:
    struct by_text {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
    };
    template <class Source>
    struct attached {
        std::shared_ptr<Source> source;
        segment_rights rights;
    };
    template <class Source>
    using sources = std::unordered_map<std::string, attached<Source>, by_text, std::equal_to<>>;

    template <class Source>
    Source& find(sources<Source>& all, std::string_view name, viewer who) {
        if (const auto at = all.find(name); at != all.end()) return shown(at->second, name, who);
        const std::string uri = checked_uri(name, who);
        const std::string plain = name_of(uri);
        if (const auto other = all.find(plain); other != all.end()) return shown(other->second, name, who);
        attached<Source> fresh{Source::attach(uri), segment_rights::of(memory::uri::parse(uri))};
        require_same(fresh.source->memory());
        Source& found = shown(fresh, name, who);
        all.emplace(plain, std::move(fresh));
        return found;
    }
    template <class Source>
    Source& shown(const attached<Source>& one, std::string_view name, viewer who) const {
        if (!may_show(one.rights, who)) throw_not_served(name);
        return *one.source;
    }

    /// The canonical URI of what may be served. Throws: not_found, invalid_name.
    [[nodiscard]] std::string checked_uri(std::string_view name, viewer who) const;
    /// Whether it needs no look at the rights.
    [[nodiscard]] bool shows_all(viewer who) const noexcept {
        return !who.known() && (private_too_ || !served_.empty());
    }
    [[noreturn]] static void throw_not_served(std::string_view name);
    /// Throws: contended where the name leads to another segment by now: the rights that were looked at may be its.
    static void require_same(const segment& attached);

    std::vector<std::string> served_;  // canonical URIs; empty: the registry
    bool private_too_;
    sources<index_source> indexes_;
    sources<table_source> tables_;
    sources<ring_source> rings_;
    sources<snapshot_source> snapshots_;
};

}  // namespace holdfast::serve
