// SPDX-License-Identifier: Apache-2.0
// saver_parts.hpp - what the savers and restorers of the kinds share. Used by them only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "holdfast/detail/concat.hpp"
#include "holdfast/error.hpp"
#include "holdfast/segment.hpp"
#include "holdfast/segment/identity.hpp"
#include "inspect/saved_file.hpp"
#include "inspect/saver.hpp"

namespace holdfast::inspect {

inline constexpr std::uint64_t items_between_reports = 4096;

[[nodiscard]] inline saved_header header_of(const segment& s) {
    saved_header header;
    header.kind = static_cast<std::uint32_t>(s.info().kind);
    header.container_version = s.info().container_version;
    header.fingerprint = layout::platform_fingerprint;
    header.saved_ns = detail::now_ns();
    header.peer_slots = s.info().peer_slots;
    header.identity = s.info().identity;
    return header;
}

/// Throws where a reader met something.
inline void require_no_fault(const segment& s, std::optional<errc> fault) {
    if (fault == errc::contended)
        throw error(errc::contended, s.uri(), "its writer left no quiet moment; save again when it rests");
    if (fault) throw error(*fault, s.uri(), "damage was met while saving; holdfast verify shows where");
}

[[noreturn]] inline void refuse_contents(const saved_reader& file, const std::string& why) {
    throw error(errc::corrupt, file.name(), why + "; save the segment anew");
}
/// The same of what stands at a byte of the file.
[[noreturn]] inline void refuse_contents(const saved_reader& file, std::uint64_t offset, const std::string& why) {
    refuse_contents(file, detail::concat("at byte ", offset, ": ", why));
}

/// The bytes of a saved file's sections as one stream of records of any size.
class section_stream {
 public:
    explicit section_stream(saved_reader& file) noexcept : file_(file) {}

    /// Whether there is more.
    [[nodiscard]] bool more() {
        while (!ended_ && rest_.empty()) {
            const auto section = file_.next();
            ended_ = !section;
            if (section) rest_ = *section;
            if (section) offset_ = file_.contents_offset() + rest_.size();
        }
        return !ended_;
    }
    /// Where in the file the next byte stands. Requires: more().
    [[nodiscard]] std::uint64_t offset() const noexcept { return offset_ - rest_.size(); }
    /// Fills `into`. Throws: corrupt where the file ends before.
    void read(std::span<std::byte> into) {
        while (!into.empty()) {
            if (!more()) refuse_contents(file_, "its last record is cut short");
            const std::size_t part = std::min(into.size(), rest_.size());
            std::memcpy(into.data(), rest_.data(), part);
            into = into.subspan(part);
            rest_ = rest_.subspan(part);
        }
    }
    template <class T>
    [[nodiscard]] T read() {
        static_assert(std::is_trivially_copyable_v<T>);
        T value;
        read(std::as_writable_bytes(std::span(&value, 1)));
        return value;
    }

 private:
    saved_reader& file_;
    std::span<const std::byte> rest_;  // of the section read last
    std::uint64_t offset_ = 0;         // of the end of that section
    bool ended_ = false;
};

}  // namespace holdfast::inspect
