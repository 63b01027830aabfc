// SPDX-License-Identifier: Apache-2.0
// catalog.hpp - the segments a worker serves: which may be asked for, and those it is attached to.
//
// A segment is attached when it is first asked for, and again after it was removed or made anew: refresh() notices, so
// an answer is at most one refresh interval behind a replacement.
// (I1) Only successful attachments are kept: names that lead nowhere cost their request, never memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "serve/sources.hpp"

namespace holdfast::serve {

class catalog {
 public:
    /// `served`: what may be asked for; empty: whatever is registered. Throws: invalid_name.
    explicit catalog(const std::vector<std::string>& served);

    /// Throws: not_found (also for what is not served), kind_mismatch, and whatever else keeps a segment from being
    /// attached.
    [[nodiscard]] index_source& index(std::string_view name) { return find(indexes_, name); }
    [[nodiscard]] table_source& table(std::string_view name) { return find(tables_, name); }

    /// URIs of what is served, sorted. They may not exist at this moment. Throws: io where nobody can tell for now.
    [[nodiscard]] std::vector<std::string> list() const;

    /// Lets go of segments that were removed, replaced or found damaged. Call it some times a second.
    void refresh();

    /// The name by which a segment stands in URLs: posix: segments by their bare name, others by their URI.
    [[nodiscard]] static std::string name_of(std::string_view uri);

 private:
    struct by_text {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
    };
    template <class Source>
    using sources = std::unordered_map<std::string, std::unique_ptr<Source>, by_text, std::equal_to<>>;

    template <class Source>
    Source& find(sources<Source>& attached, std::string_view name) {
        const auto at = attached.find(name);
        if (at != attached.end()) return *at->second;
        return *attached.emplace(std::string(name), Source::attach(checked_uri(name))).first->second;
    }

    [[nodiscard]] std::string checked_uri(std::string_view name) const;

    std::vector<std::string> served_;  // canonical URIs; empty: the registry
    sources<index_source> indexes_;
    sources<table_source> tables_;
};

}  // namespace holdfast::serve
