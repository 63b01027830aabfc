// SPDX-License-Identifier: Apache-2.0
// repair.cpp - in place, step by step, and what a kill after each leaves
//   1 the new segment is made as NAME.repairing, whole (segment::create)   NAME damaged, as it was
//   2 it verifies, and is synced                                           the same
//   3 the data of NAME and NAME.repairing change places: the commit        NAME repaired
//   4 so do the peers                                                      the same; stale peers are made anew by the
//                                                                          next writer
//   5 NAME.repairing, now the damaged one, becomes NAME.damaged            the same
// The lease of NAME is held from before 1 to the end, so nobody writes either of them meanwhile. What a killed repair
// left as NAME.repairing the next one settles: beside a sound NAME, or where it is damaged itself, it is the damaged
// one of step 4 and becomes NAME.damaged; beside a damaged NAME, and sound, it never came to step 3 and is removed.
#include "inspect/repair.hpp"

#include <sys/syscall.h>

#include <utility>

#include "holdfast/detail/concat.hpp"
#include "inspect/attach.hpp"
#include "inspect/damaged_segment.hpp"
#include "inspect/lasting_name.hpp"
#include "inspect/salvage.hpp"
#include "inspect/verification.hpp"
#include "inspect/verify_body.hpp"

namespace holdfast::inspect {

namespace {

constexpr unsigned no_replace = 1, exchange = 2;  // RENAME_NOREPLACE, RENAME_EXCHANGE: renameat2(2)

[[nodiscard]] bool rename_as(const std::string& from, const std::string& to, unsigned how) {
    return ::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), how) == 0;
}

[[nodiscard]] memory::uri beside(const memory::uri& name, const std::string& suffix) {
    try {
        return memory::uri::parse(name.text() + suffix);
    } catch (const error&) {
        throw error(errc::invalid_name, name.text(),
                    "the name is too long to put the damaged segment beside it; repair it to another one (--to)");
    }
}

[[nodiscard]] bool has_room_beside(const memory::uri& name) {
    try {
        (void)beside(name, ".damaged.10000");
        return true;
    } catch (const error&) {
        return false;
    }
}

[[nodiscard]] bool exists(const memory::uri& name) {
    struct stat status{};
    return ::lstat(detail::places_of(name).data().c_str(), &status) == 0;
}

/// What can be said of a damaged segment whose creator was never killed in between: a file appears whole.
[[nodiscard]] verification verify_file(const memory::uri& name) {
    try {
        return verify(name.text());
    } catch (const error& failure) {
        if (failure.reason() != errc::not_ready || !name.is_path()) throw;
        verification found;
        found.uri = name.text();
        found.add({severity::damage, "header", 0, {}, "the magic is 0"});
        return found;
    }
}

/// Makes renames last where the folder is on a disk.
void sync_folder(const detail::places& where) {
    const memory::descriptor folder = memory::open_at(AT_FDCWD, where.directory.c_str(), O_RDONLY | O_DIRECTORY);
    if (folder) (void)::fsync(folder.get());
}

/// Everything of NAME.repairing becomes NAME.damaged, or NAME.damaged.2 and so on. Returns: the name.
[[nodiscard]] std::string put_aside(const memory::uri& name, const memory::uri& repairing) {
    const detail::places from = detail::places_of(repairing);
    constexpr unsigned tries_max = 10'000;
    for (unsigned number = 1; number < tries_max; ++number) {
        const memory::uri aside = beside(name, number == 1 ? ".damaged" : detail::concat(".damaged.", number));
        const detail::places to = detail::places_of(aside);
        if (!rename_as(from.data(), to.data(), no_replace)) {
            if (errno == EEXIST) continue;
            memory::throw_errno(errno, name.text(), "renaming " + from.data() + " to " + to.data());
        }
        (void)rename_as(from.peers(), to.peers(), no_replace);  // the next writer makes what is missing
        (void)rename_as(from.lease(), to.lease(), no_replace);
        registry::remove(repairing);
        (void)registry::add(aside);
        sync_folder(from);
        return aside.text();
    }
    throw error(errc::already_exists, name.text(),
                "there are too many damaged segments of this name; remove some (holdfast rm)");
}

/// Settles what a killed repair left. Requires: the lease of `name`. Returns: where the damaged one was put, if it was
/// that.
[[nodiscard]] std::string settle(const memory::uri& name, bool sound, const attach_options& access) {
    if (!has_room_beside(name)) return {};  // nor had an earlier repair
    const memory::uri repairing = beside(name, ".repairing");
    if (!exists(repairing)) return {};
    if (sound || !verify_file(repairing).intact()) return put_aside(name, repairing);
    segment::remove(repairing.text(), access);
    return {};
}

/// Takes away what was made unless it is kept.
class made_segment {
 public:
    made_segment(memory::uri name, attach_options access) : name_(std::move(name)), access_(std::move(access)) {}
    made_segment(made_segment&& other) noexcept
        : name_(std::move(other.name_)), access_(std::move(other.access_)), kept_(std::exchange(other.kept_, true)) {}
    made_segment& operator=(made_segment&&) = delete;
    ~made_segment() {
        if (kept_) return;
        try {
            segment::remove(name_.text(), access_);
        } catch (const error&) {  // the next repair settles it
        }
    }
    void keep() noexcept { kept_ = true; }

 private:
    memory::uri name_;
    attach_options access_;
    bool kept_ = false;
};

void require_sound(const verification& found, const std::string& subject) {
    if (found.intact()) return;
    throw error(errc::corrupt, subject,
                detail::concat("what was salvaged does not verify (",
                               found.findings.empty() ? std::string("no reason") : found.findings.front().what,
                               "), so nothing was changed; restore the last save (holdfast restore)"));
}

void sync_data(const memory::uri& name) {
    if (name.kind != memory::kind::file) return;
    const memory::descriptor file =
        memory::open_at(AT_FDCWD, detail::places_of(name).data().c_str(), O_RDONLY | O_NOFOLLOW);
    if (!file || ::fsync(file.get()) != 0) memory::throw_errno(errno, name.text(), "writing it to the disk");
}

/// Steps 3 to 5. Returns: the damaged segment's name.
[[nodiscard]] std::string take_place(const memory::uri& name, const memory::uri& repairing, made_segment& made) {
    const detail::places here = detail::places_of(name), there = detail::places_of(repairing);
    if (!rename_as(there.data(), here.data(), exchange)) {
        const int reason = errno;
        if (reason == EINVAL || reason == ENOSYS)
            throw error(errc::unsupported, name.text(),
                        "the file system cannot exchange two names; repair it to another one (--to)");
        memory::throw_errno(reason, name.text(), "taking its place", "or repair it to another name (--to)");
    }
    made.keep();
    if (!rename_as(there.peers(), here.peers(), exchange)) (void)rename_as(there.peers(), here.peers(), no_replace);
    sync_folder(here);
    return put_aside(name, repairing);
}

class repairer {
 public:
    repairer(damaged_segment from, const repair_options& options)
        : from_(std::move(from)), options_(options), log_(options.keep_doubtful, options.each) {}

    [[nodiscard]] repair_report run(bool sound) {
        repair_report report;
        report.uri = from_.uri();
        report.kind = from_.spec().kind;
        report.dry_run = options_.dry_run;
        report.intact = sound;
        const bool in_place = options_.to.empty();
        if (in_place && !options_.dry_run && from_.name().is_path())
            report.damaged = settle(from_.name(), sound, options_.access);
        if (sound) return report;
        if (options_.dry_run)
            try_it();
        else if (in_place)
            report.damaged = repair_in_place();
        else
            repair_to();
        if (!options_.dry_run) report.repaired = in_place ? from_.uri() : memory::uri::parse(options_.to).text();
        report.header_rebuilt = from_.header_rebuilt();
        report.kept = log_.kept();
        report.lost = log_.items(fate::lost);
        report.doubtful = log_.items(fate::doubtful);
        report.mended = log_.items(fate::mended);
        report.sums = log_.sums();
        report.notes = log_.notes();
        return report;
    }

 private:
    [[nodiscard]] segment make(const std::string& uri) {
        if (from_.missing_bytes() != 0)
            log_.lose("bytes that were cut off; what lay there is told below",
                      detail::concat(from_.missing_bytes(), " bytes at the end"), 0);
        if (from_.header_rebuilt()) log_.mend("the header was put right by its checksum", "", 0);
        return segment::create(uri, from_.spec(), from_.rights(),
                               [&](std::span<std::byte> body) { salvage(from_, body, log_); });
    }

    void try_it() {
        const auto made = std::make_shared<const segment>(make("heap:"));
        if (made->info().kind == container_kind::queue) return;  // its check looks for the companion
        verification found;
        verify_body(made, found);
        require_sound(found, from_.uri());
    }
    void repair_to() {
        const memory::uri to = memory::uri::parse(options_.to);
        made_segment made = make_at(to);
        made.keep();
    }
    [[nodiscard]] std::string repair_in_place() {
        if (!from_.name().is_path())
            throw error(errc::unsupported, from_.uri(),
                        "System V memory has no name that could be exchanged; repair it to another one (--to), then "
                        "remove this one and restore a save of the other under its key");
        (void)beside(from_.name(), ".damaged.10000");  // the longest name that may be needed
        const memory::uri repairing = beside(from_.name(), ".repairing");
        made_segment made = make_at(repairing);
        return take_place(from_.name(), repairing, made);
    }
    /// A whole segment that verifies and is on the disk.
    [[nodiscard]] made_segment make_at(const memory::uri& name) {
        (void)make(name.text());  // its lease is free again; that of the damaged one keeps others away
        made_segment made(name, options_.access);
        require_sound(verify(name.text()), from_.uri());
        sync_data(name);
        return made;
    }

    damaged_segment from_;
    const repair_options& options_;
    salvage_log log_;
};

}  // namespace

repair_report repair(std::string_view uri, const repair_options& options) {
    const memory::uri name = memory::uri::parse(uri);
    if (!options.to.empty()) require_lasting(options.to);
    damaged_segment from = damaged_segment::open(uri, options.access);
    // At rest from here on: the lease is ours.
    const bool sound = verify_file(name).intact();
    return repairer(std::move(from), options).run(sound);
}

void append_json(json_out& out, const salvage_note& note) {
    out.begin_object().member("fate", fate_name(note.what)).member("reason", note.reason).member("place", note.place);
    out.member("items", note.items).end_object();
}

void append_json(json_out& out, const repair_report& report) {
    out.begin_object().member("uri", report.uri);
    if (report.kind)
        out.member("kind", kind_name(*report.kind));
    else
        out.key("kind").null();
    const auto name_or_null = [&](std::string_view key, const std::string& name) {
        if (name.empty())
            out.key(key).null();
        else
            out.member(key, name);
    };
    out.member("intact", report.intact).member("dry_run", report.dry_run);
    name_or_null("repaired", report.repaired);
    name_or_null("damaged", report.damaged);
    out.member("header_rebuilt", report.header_rebuilt).member("kept", report.kept).member("lost", report.lost);
    out.member("doubtful", report.doubtful).member("mended", report.mended);
    out.key("reasons").begin_array();
    for (const salvage_sum& sum : report.sums)
        out.begin_object()
            .member("fate", fate_name(sum.what))
            .member("reason", sum.reason)
            .member("items", sum.items)
            .member("notes", sum.notes)
            .end_object();
    out.end_array().key("notes").begin_array();
    for (const salvage_note& note : report.notes) append_json(out, note);
    out.end_array().end_object();
}

}  // namespace holdfast::inspect
