// SPDX-License-Identifier: Apache-2.0
#include "inspect/verification.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "holdfast/detail/concat.hpp"
#include "holdfast/record/schema.hpp"
#include "holdfast/segment.hpp"
#include "inspect/attach.hpp"
#include "inspect/problem.hpp"
#include "inspect/verify_body.hpp"

namespace holdfast::inspect {

namespace {

/// Whether an error says something of the segment's bytes, not of our way to them.
[[nodiscard]] bool tells_damage(errc code) noexcept {
    switch (code) {
        case errc::bad_magic:
        case errc::version_mismatch:
        case errc::kind_mismatch:
        case errc::schema_mismatch:
        case errc::geometry_mismatch:
        case errc::truncated:
        case errc::corrupt: return true;
        default: return false;
    }
}

[[nodiscard]] bool is_plain_file(const std::string& path) {
    struct stat status{};
    return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

void check_companions(const segment& s, verification& found) {
    if (!s.name().named()) return;
    const detail::places where = detail::places_of(s.name());
    const auto warn = [&](const char* part, const std::string& what) {
        found.add({severity::warning, part, std::nullopt, {}, what});
    };
    if (!is_plain_file(where.lease()))
        warn("lease", where.lease() + " is missing or not a plain file; the next writer makes it");
    if (s.info().peer_slots == 0) return;
    const memory::descriptor peers =
        memory::open_at(AT_FDCWD, where.peers().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!peers)
        return warn("peers", where.peers() + " cannot be opened: " + memory::errno_text(errno) +
                                 "; registered readers have no place until the next writer makes it");
    try {
        if (!detail::peers_match(peers.get(), s.info().identity, s.info().peer_slots, s.uri()))
            warn("peers", where.peers() + " belongs to another segment; the next writer makes it anew");
    } catch (const error& refusal) {
        warn("peers", refusal.what());
    }
}

// Reading a hole may take a page for it, and a header may promise terabytes: more than this is not read.
constexpr std::uint64_t holes_read_max = std::uint64_t{256} << 20;

/// Creation reserves every page of a file. One with holes was made otherwise: copied by a program that leaves zeros out
/// (or is kept by a file system that compresses), or forged. Returns: whether to look at the body.
[[nodiscard]] bool check_pages(const segment& s, verification& found) {
    const memory::kind kind = s.name().kind;
    struct stat status{};
    if (kind != memory::kind::posix && kind != memory::kind::file) return true;
    // The name's file, and afterwards whether that was ours.
    if (::stat(detail::places_of(s.name()).data().c_str(), &status) != 0 || s.replaced())
        throw error(
            errc::not_found, s.uri(),
            "the segment was removed or replaced while it was looked at; look at the one that has the name now");
    const std::uint64_t promised = header_bytes + s.info().body_bytes;
    const std::uint64_t present = static_cast<std::uint64_t>(status.st_blocks) * 512;  // st_blocks counts in 512 bytes
    if (present >= promised) return true;
    const std::string what = detail::concat(promised - present, " of ", promised, " bytes have no memory of their own");
    if (promised - present > holes_read_max) {
        found.add({severity::damage,
                   "body",
                   std::nullopt,
                   {},
                   what + ", so the body was not looked at; restore the segment, or copy it with cp --sparse=never"});
        return false;
    }
    found.add({severity::warning,
               "body",
               std::nullopt,
               {},
               what + ": a writer may find no room for them; copy the segment with cp --sparse=never"});
    return true;
}

/// The reserved bytes of the header: nothing reads them now, but a later version may.
void check_reserved(const layout::segment_header& h, verification& found) {
    const auto all_zero = [](const auto& bytes) {
        for (const std::uint8_t byte : bytes)
            if (byte != 0) return false;
        return true;
    };
    const auto check = [&](const auto& bytes, std::size_t offset) {
        if (!all_zero(bytes)) found.add({severity::damage, "header", offset, {}, "reserved bytes are not zero"});
    };
    check(h.reserved_geometry, offsetof(layout::segment_header, reserved_geometry));
    check(h.reserved_checksum, offsetof(layout::segment_header, reserved_checksum));
    check(h.reserved_owner, offsetof(layout::segment_header, reserved_owner));
}

/// The header once more, from the mapping: attaching has checked all that its checksum covers.
void check_header(const segment& s, verification& found) {
    layout::segment_header copy{};
    std::memcpy(&copy, s.bytes().data() - header_bytes, sizeof copy);
    check_reserved(copy, found);
    if (copy.moved > 1)
        found.add({severity::damage,
                   "header",
                   offsetof(layout::segment_header, moved),
                   {},
                   "the mark of a segment that has moved is neither 0 nor 1"});
    for (const char c : std::string_view(copy.owner_boot_id.data(), copy.owner_boot_id.size()))
        if (c != '\0' && (c < ' ' || c > '~')) {
            found.add({severity::damage,
                       "header",
                       offsetof(layout::segment_header, owner_boot_id),
                       {},
                       "the owner's boot id is no text"});
            break;
        }
}

void check_schema(const segment& s, verification& found) {
    if (s.info().schema.empty()) return;
    try {
        (void)container_schema::parse(s.info().schema);
    } catch (const error& failure) {
        found.add(
            {severity::damage, "header", offsetof(layout::segment_header, schema), "schema", problem_of(failure).text});
    }
}

[[nodiscard]] std::string_view severity_name(severity how) noexcept {
    switch (how) {
        case severity::damage: return "damage";
        case severity::warning: return "warning";
        case severity::note: return "note";
    }
    return "damage";
}

}  // namespace

verification verify(std::string_view uri) {
    verification found;
    found.uri = memory::uri::parse(uri).text();
    std::shared_ptr<const segment> s;
    try {
        s = attach_to_look(uri);
    } catch (const error& failure) {
        if (!tells_damage(failure.reason())) throw;
        found.add({severity::damage, "header", std::nullopt, {}, problem_of(failure).text});
        return found;
    }
    return verify(s);
}

verification verify(const std::shared_ptr<const segment>& s) {
    verification found;
    found.uri = s->uri();
    found.kind = s->info().kind;
    check_header(*s, found);
    check_schema(*s, found);
    check_companions(*s, found);
    try {
        if (check_pages(*s, found)) verify_body(s, found);
    } catch (const error& failure) {
        if (failure.reason() == errc::not_found) throw;
        found.add({severity::damage, "body", std::nullopt, {}, problem_of(failure).text});
    }
    if (s->cut_off()) found.add({severity::damage, "body", std::nullopt, {}, "the file was cut off while it was read"});
    return found;
}

void append_json(json_out& out, const verification& v) {
    out.begin_object().member("uri", v.uri);
    if (v.kind)
        out.member("kind", kind_name(*v.kind));
    else
        out.key("kind").null();
    out.member("intact", v.intact()).member("elements", v.elements).member("damages", v.damages);
    out.key("findings").begin_array();
    for (const finding& f : v.findings) {
        out.begin_object().member("severity", severity_name(f.how)).member("part", f.part);
        out.member("offset", f.offset).member("place", f.place).member("what", printable(f.what)).end_object();
    }
    out.end_array().end_object();
}

}  // namespace holdfast::inspect
