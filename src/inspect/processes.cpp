// SPDX-License-Identifier: Apache-2.0
#include "inspect/processes.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "holdfast/block_store/queries.hpp"
#include "holdfast/hash_map/attach.hpp"
#include "holdfast/hash_map/view.hpp"
#include "holdfast/hash_table/attach.hpp"
#include "holdfast/hash_table/many_attach.hpp"
#include "holdfast/memory/lock.hpp"
#include "holdfast/segment/peers_file.hpp"
#include "inspect/attach.hpp"

namespace holdfast::inspect {

namespace {

using directory = std::unique_ptr<DIR, int (*)(DIR*)>;
using stdio_file = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

/// A file as /proc names it: device and inode. System V memory has device 0:1 and its id as the inode.
struct file_id {
    dev_t device = 0;
    ino_t inode = 0;
    friend bool operator==(const file_id&, const file_id&) = default;
};

struct file_ids {
    std::optional<file_id> data, lease, peers;
    bool system_v = false;
};

[[nodiscard]] std::optional<file_id> id_of(const std::string& path) {
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
    return file_id{status.st_dev, status.st_ino};
}

[[nodiscard]] file_ids ids_of(const memory::uri& name) {
    const detail::places where = detail::places_of(name);
    file_ids ids;
    ids.system_v = name.is_sysv();
    if (ids.system_v) {
        const int id = detail::find_system_v(name);
        if (id >= 0) ids.data = file_id{0, static_cast<ino_t>(id)};
    } else {
        ids.data = id_of(where.data());
    }
    ids.lease = id_of(where.lease());
    ids.peers = id_of(where.peers());
    return ids;
}

/// A program run anew through /proc/self/exe is called "exe": its file's name says more.
[[nodiscard]] std::string file_name_of(const std::string& process) {
    char path[4096];
    const ssize_t bytes = ::readlink((process + "/exe").c_str(), path, sizeof path);
    if (bytes <= 0) return "exe";
    const std::string_view text(path, static_cast<std::size_t>(bytes));
    return printable(text.substr(text.rfind('/') + 1));
}

[[nodiscard]] std::string command_of(const std::string& process) {
    auto text = memory::detail::read_small_file(process + "/comm");
    if (!text) return {};
    while (!text->empty() && text->back() == '\n') text->pop_back();
    return *text == "exe" ? file_name_of(process) : printable(*text);
}

void look_at_maps(const std::string& process, const file_ids& ids, attached_process& found) {
    const stdio_file maps(std::fopen((process + "/maps").c_str(), "re"), &std::fclose);
    if (!maps) return;
    char line[4352];  // a path of PATH_MAX and the columns before it
    while (std::fgets(line, sizeof line, maps.get()) != nullptr) {
        char rights[8];
        unsigned device_major = 0;
        unsigned device_minor = 0;
        unsigned long long inode = 0;
        int path = 0;
        if (std::sscanf(line, "%*x-%*x %7s %*x %x:%x %llu %n", rights, &device_major, &device_minor, &inode, &path) < 4)
            continue;
        const bool system_v_line = path > 0 && std::string_view(line + path).starts_with("/SYSV");
        const file_id id{system_v_line ? 0 : makedev(device_major, device_minor), static_cast<ino_t>(inode)};
        if (inode == 0 && !system_v_line) continue;
        if (ids.data == id && system_v_line == ids.system_v) {
            found.maps_data = true;
            found.writes_data |= rights[1] == 'w';
        }
        found.maps_peers |= !system_v_line && ids.peers == id;
    }
}

void look_at_descriptors(const std::string& process, const file_ids& ids, attached_process& found) {
    if (!ids.lease) return;
    const directory folder(::opendir((process + "/fd").c_str()), &::closedir);
    if (!folder) return;
    while (const dirent* entry = ::readdir(folder.get())) {
        struct stat status{};
        if (entry->d_name[0] != '.' && ::fstatat(::dirfd(folder.get()), entry->d_name, &status, 0) == 0 &&
            ids.lease == file_id{status.st_dev, status.st_ino})
            found.opens_lease = true;
    }
}

[[nodiscard]] std::vector<attached_process> processes_of(const file_ids& ids) {
    std::vector<attached_process> all;
    const directory folder(::opendir("/proc"), &::closedir);
    if (!folder) return all;
    while (const dirent* entry = ::readdir(folder.get())) {
        const long pid = std::strtol(entry->d_name, nullptr, 10);
        if (pid <= 0 || pid == ::getpid()) continue;
        const std::string process = "/proc/" + std::to_string(pid);
        attached_process found;
        found.pid = static_cast<pid_t>(pid);
        look_at_maps(process, ids, found);
        look_at_descriptors(process, ids, found);
        if (!found.maps_data && !found.opens_lease && !found.maps_peers) continue;
        found.command = command_of(process);
        all.push_back(std::move(found));
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
    return all;
}

/// Which of the `slots` slots of NAME.peers from `first` on living readers hold, counted from there. The numbers come
/// from the validated header, never from that file.
[[nodiscard]] std::vector<std::uint32_t> living_readers(const memory::uri& name, std::uint32_t first,
                                                        std::uint32_t slots) {
    std::vector<std::uint32_t> living;
    // Asking for locks needs no right to write (F_OFD_GETLK), so O_RDONLY shows them to more users.
    const memory::descriptor file =
        memory::open_at(AT_FDCWD, detail::places_of(name).peers().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!file) return living;
    for (std::uint32_t slot = 0; slot < slots; ++slot)
        if (memory::locked_elsewhere(file.get(), layout::peer_slot_offset(first + slot))) living.push_back(slot);
    return living;
}

/// Which of so many writer slots living processes hold, and the pid that each wrote down: pid_of(slot).
template <class PidOf>
void add_writers(usage& into, const memory::uri& name, std::uint64_t slots, PidOf&& pid_of) {
    into.writer_slots = static_cast<std::uint32_t>(slots);
    const memory::descriptor file =
        memory::open_at(AT_FDCWD, detail::places_of(name).lease().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!file) return;
    for (std::uint32_t slot = 0; slot < into.writer_slots; ++slot)
        if (memory::locked_elsewhere(file.get(), detail::writer_slot_byte(slot)))
            into.writers.push_back({slot, pid_of(slot)});
}

/// The writers of a container that has slots for them. How many there are comes from the validated header.
void add_writers(usage& into, const memory::uri& name, const segment& s) {
    if (s.info().kind == container_kind::hash_table) {
        const layout::hash_table_geometry g = detail::geometry_of(s);
        const detail::table_view<const std::byte, detail::runtime_node> view(s.bytes(), g,
                                                                             {g.key_bytes, g.value_bytes});
        add_writers(into, name, g.writer_slots, [&](std::uint32_t slot) { return detail::pid_of_writer(view, slot); });
    } else if (s.info().kind == container_kind::block_store) {
        const layout::block_store_geometry g = detail::block_store_geometry_of(s);
        const detail::block_slots slots(detail::block_view<const std::byte>(s.bytes(), g));
        add_writers(into, name, g.writer_slots, [&](std::uint32_t slot) { return slots.pid(slot); });
    } else if (s.info().kind == container_kind::hash_map) {
        const layout::hash_map_geometry g = detail::hash_map_geometry_of(s);
        const detail::map_view<const std::byte> view(s.bytes(), g);
        // A slot is one for all parts; who holds it is written down in the table's.
        add_writers(into, name, g.writer_slots(),
                    [&](std::uint32_t slot) { return detail::pid_of_writer(view.table, slot); });
    }
}

}  // namespace

usage usage_of(std::string_view uri, bool with_processes) {
    const memory::uri name = memory::uri::parse(uri);
    const description d = describe(uri);
    if (d.problem && !d.info && !d.backing) throw error(d.problem->code, d.uri, d.problem->text);
    usage result;
    result.uri = d.uri;
    result.lease = d.lease;
    result.owner = d.owner;
    result.owner_alive = d.owner_alive;
    if (d.owner_alive) result.owner_command = command_of("/proc/" + std::to_string(d.owner.pid));
    if (d.info) {
        // A queue's other slots are not readers: the rest of the consumer's side, and the producer's mark.
        // A ring's first is its writer's.
        const std::uint32_t first = d.info->kind == container_kind::broadcast && d.info->peer_slots != 0 ? 1 : 0;
        result.reader_slots = d.info->kind == container_kind::queue ? 1 : d.info->peer_slots - first;
        result.readers = living_readers(name, first, result.reader_slots);
        if (d.contents.writer_slots && !d.problem) add_writers(result, name, *attach_to_look(uri));
    }
    if (with_processes) result.processes = processes_of(ids_of(name));
    return result;
}

void append_json(json_out& out, const usage& who) {
    out.begin_object().member("uri", who.uri).key("lease").begin_object();
    out.member("state", lease_name(who.lease)).member("pid", who.owner.pid).member("running", who.owner_alive);
    out.member("command", who.owner_command).member("since", time_of(who.owner.since_ns)).end_object();
    out.key("readers").begin_object().member("slots", who.reader_slots).key("alive").begin_array();
    for (const std::uint32_t slot : who.readers) out.number(slot);
    out.end_array().end_object().key("writers").begin_object().member("slots", who.writer_slots);
    out.key("alive").begin_array();
    for (const writer_slot_holder& w : who.writers)
        out.begin_object().member("slot", w.slot).member("pid", w.pid).end_object();
    out.end_array().end_object().key("processes").begin_array();
    for (const attached_process& p : who.processes) {
        out.begin_object().member("pid", p.pid).member("command", p.command);
        out.member("access", p.writes_data ? "read_write" : p.maps_data ? "read" : "none");
        out.member("lease_open", p.opens_lease).member("peers_mapped", p.maps_peers).end_object();
    }
    out.end_array().end_object();
}

}  // namespace holdfast::inspect
