// SPDX-License-Identifier: Apache-2.0
#include "inspect/description.hpp"

#include <sys/shm.h>
#include <sys/stat.h>
#include <time.h>

#include <new>
#include <string>
#include <system_error>

#include "holdfast/segment/places.hpp"
#include "inspect/attach.hpp"
#include "inspect/contents.hpp"

namespace holdfast::inspect {

namespace {

[[nodiscard]] std::optional<backing> backing_of(const memory::uri& name) {
    if (name.is_path()) {
        struct stat status{};
        if (::lstat(detail::places_of(name).data().c_str(), &status) != 0) return std::nullopt;
        constexpr std::uint64_t block_bytes = 512;  // stat(2): the unit of st_blocks, whatever the file system's own is
        return backing{status.st_mode & 07777U, status.st_uid, status.st_gid,
                       static_cast<std::uint64_t>(status.st_blocks) * block_bytes};
    }
    const int id = name.is_sysv() ? detail::find_system_v(name) : -1;
    struct shmid_ds status{};
    if (id < 0 || ::shmctl(id, IPC_STAT, &status) != 0) return std::nullopt;
    return backing{static_cast<mode_t>(status.shm_perm.mode) & 0777U, status.shm_perm.uid, status.shm_perm.gid,
                   status.shm_segsz};
}

[[nodiscard]] bool is_registered(const memory::uri& name) {
    if (!name.named()) return false;
    for (const std::string& folder : registry::directories()) {
        struct stat status{};
        if (::lstat(registry::detail::entry_path(folder, name).c_str(), &status) == 0) return true;
    }
    return false;
}

void describe_segment(description& d, const segment& s, const describe_options& options) {
    d.info = s.info();
    d.epoch = s.epoch();
    d.owner = s.owner();
    d.owner_alive = is_running(d.owner);
    if (options.pages) d.pages = s.pages();
    if (!d.info->schema.empty()) {
        try {
            d.schema = container_schema::parse(d.info->schema);
        } catch (const error& failure) {
            d.problem = problem_of(failure);
            d.problem->text = "the schema in the header: " + d.problem->text;
        }
    }
    try {
        d.contents = contents_of(s);
    } catch (const error& failure) {
        if (!d.problem) d.problem = problem_of(failure);
    }
    try {
        require_whole(s);
    } catch (const error& failure) {
        d.problem = problem_of(failure);
    }
}

[[nodiscard]] std::string octal(mode_t mode) {
    std::string text = "0000";
    for (std::size_t i = 0; i < 4; ++i) text[i] = static_cast<char>('0' + ((mode >> (9 - 3 * i)) & 7U));
    return text;
}

void append_fields(json_out& out, std::string_view name, const std::optional<record_schema>& part) {
    if (!part) return;
    out.key(name).begin_array();
    for (const field& f : part->fields())
        out.begin_object().member("name", f.name).member("type", type_text(f)).end_object();
    out.end_array();
}

void append_contents(json_out& out, const contents& c) {
    out.member("size", c.size).member("capacity", c.capacity).member("version", c.version);
    if (c.payload)
        out.member("payload", kind_name(*c.payload));
    else
        out.key("payload").null();
    out.member("range_end", c.range_end).member("used_bytes", c.used_bytes).member("room_bytes", c.room_bytes);
    out.member("writer_slots", c.writer_slots);
}

void append_lease(json_out& out, const description& d) {
    out.key("lease").begin_object().member("state", lease_name(d.lease));
    if (d.info) {
        out.member("epoch", d.epoch).member("pid", d.owner.pid).member("running", d.owner_alive);
        out.member("since", time_of(d.owner.since_ns));
    }
    out.end_object();
}

}  // namespace

description describe(std::string_view uri, const describe_options& options) {
    description d;
    d.uri = printable(uri);
    try {
        const memory::uri name = memory::uri::parse(uri);
        d.uri = name.text();
        d.backing = backing_of(name);
        d.lease = lease_state_of(name);
        d.registered = is_registered(name);
        describe_segment(d, *attach_to_look(uri), options);
    } catch (const error& failure) {
        d.problem = problem_of(failure);
    } catch (const std::exception& failure) {
        d.problem = problem{errc::io, failure.what()};
    }
    return d;
}

bool is_running(const owner_identity& owner) {
    // A pid of more than 2^22 is none: proc(5), pid_max.
    if (owner.pid == 0 || owner.pid > (1U << 22U)) return false;
    const owner_identity self = detail::identify_self();
    const std::uint64_t start = detail::start_ticks_of("/proc/" + std::to_string(owner.pid) + "/stat");
    return start != 0 && start == owner.start_ticks && self.boot_id == owner.boot_id;
}

std::string_view lease_name(lease_state state) noexcept {
    switch (state) {
        case lease_state::free: return "free";
        case lease_state::held: return "held";
        case lease_state::unknown: return "unknown";
        case lease_state::none: return "none";
    }
    return "unknown";
}

std::string writer_text(const description& d) {
    std::string text(lease_name(d.lease));
    // Of many each holds the lease, and the header names only the one that came last.
    if (d.info && d.info->policy == writers::many) return "many, " + text;
    if (d.lease == lease_state::held && d.owner_alive) text += " by " + std::to_string(d.owner.pid);
    return text;
}

std::string time_of(std::uint64_t ns) {
    const auto seconds = static_cast<time_t>(ns / 1'000'000'000);
    struct tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[64];
    const std::size_t bytes = ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    std::string nanoseconds = std::to_string(ns % 1'000'000'000);
    nanoseconds.insert(0, 9 - nanoseconds.size(), '0');
    return std::string(text, bytes) + "." + nanoseconds + "Z";
}

void append_json(json_out& out, const description& d) {
    out.begin_object().member("uri", d.uri);
    if (d.info) {
        out.member("kind", kind_name(d.info->kind)).member("layout", d.info->container_version);
        out.member("writers", d.info->policy == writers::one ? "one" : "many");
        out.member("bytes", d.info->total_bytes).member("created", time_of(d.info->created_ns));
        out.member("peer_slots", d.info->peer_slots)
            .member("schema", d.schema ? d.info->schema : printable(d.info->schema));
    }
    if (d.schema) {
        out.key("fields").begin_object();
        append_fields(out, "key", d.schema->key);
        append_fields(out, "value", d.schema->value);
        out.end_object();
    }
    if (d.info) append_contents(out, d.contents);
    append_lease(out, d);
    if (d.backing) {
        out.member("mode", octal(d.backing->mode)).member("uid", d.backing->uid).member("gid", d.backing->gid);
        out.member("allocated_bytes", d.backing->allocated_bytes);
    }
    if (d.pages.page_bytes != 0) {
        out.key("pages").begin_object().member("page_bytes", d.pages.page_bytes);
        out.member("resident_bytes", d.pages.resident_bytes).member("huge_bytes", d.pages.huge_bytes);
        out.member("locked_bytes", d.pages.locked_bytes).end_object();
    }
    out.member("registered", d.registered).key("problem");
    if (d.problem)
        out.begin_object()
            .member("code", code_name(d.problem->code))
            .member("text", printable(d.problem->text))
            .end_object();
    else
        out.null();
    out.end_object();
}

}  // namespace holdfast::inspect
