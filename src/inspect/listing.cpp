// SPDX-License-Identifier: Apache-2.0
#include "inspect/listing.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "holdfast/segment.hpp"

namespace holdfast::inspect {

namespace {

[[nodiscard]] bool exists(const memory::uri& name) {
    if (name.is_sysv()) return detail::find_system_v(name) >= 0 || errno != ENOENT;
    struct stat status{};
    return ::lstat(detail::places_of(name).data().c_str(), &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

[[nodiscard]] std::optional<memory::uri> parse(const std::string& text) {
    try {
        return memory::uri::parse(text);
    } catch (const error&) {
        return std::nullopt;  // not written by us: none of our business
    }
}

/// Takes a stale entry away. A segment made between the two looks found its entry there already, so it is put back.
void prune(const memory::uri& name) {
    registry::remove(name);
    if (exists(name)) (void)registry::add(name);
}

[[nodiscard]] bool has_magic(int directory, const char* file_name) {
    const memory::descriptor file =
        memory::open_at(directory, file_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    std::uint64_t magic = 0;
    struct stat status{};
    return file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
           memory::read_at(file.get(), &magic, sizeof magic, 0) == static_cast<ssize_t>(sizeof magic) &&
           magic == layout::segment_magic;
}

void add_posix(std::vector<std::string>& names) {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/dev/shm"), &::closedir);
    if (!folder) return;
    while (const dirent* entry = ::readdir(folder.get())) {
        const std::optional<memory::uri> name = parse("posix:/" + std::string(entry->d_name));
        if (name && has_magic(::dirfd(folder.get()), entry->d_name)) names.push_back(name->text());
    }
}

[[nodiscard]] bool has_magic(const memory::uri& key, std::uint64_t bytes) {
    if (bytes < header_bytes) return false;
    try {
        const auto map =
            memory::mapping::of_system_v(detail::find_system_v(key), sizeof(layout::segment_header), false, key.text());
        return detail::copy_header(map).magic == layout::segment_magic;
    } catch (const error&) {
        return false;  // gone, or not ours to read
    }
}

void add_system_v(std::vector<std::string>& names) {
    // Columns: key shmid perms size ... (proc(5)); keys are signed and in decimal.
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> table(std::fopen("/proc/sysvipc/shm", "re"), &std::fclose);
    if (!table) return;
    char line[512];
    while (std::fgets(line, sizeof line, table.get()) != nullptr) {
        long long key = 0;
        unsigned long long bytes = 0;
        if (std::sscanf(line, "%lld %*d %*o %llu", &key, &bytes) != 2 || key <= 0) continue;
        const std::optional<memory::uri> name = parse("sysv:" + std::to_string(key));
        if (name && has_magic(*name, bytes)) names.push_back(name->text());
    }
}

/// The same memory may be named twice: by hexadecimal key, or as sysv+huge.
void drop_second_names(std::vector<std::string>& names) {
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::vector<std::uint32_t> keys;
    for (const std::string& text : names)
        if (const auto name = parse(text); name && name->is_sysv() && text != "sysv:" + std::to_string(name->key))
            keys.push_back(name->key);
    std::erase_if(names, [&](const std::string& text) {
        return std::any_of(keys.begin(), keys.end(),
                           [&](std::uint32_t key) { return text == "sysv:" + std::to_string(key); });
    });
}

}  // namespace

std::vector<std::string> list_segments() {
    std::vector<std::string> names;
    for (const std::string& text : registry::list()) {
        const std::optional<memory::uri> name = parse(text);
        if (!name || !name->named()) continue;
        if (exists(*name))
            names.push_back(text);
        else
            prune(*name);
    }
    add_posix(names);
    add_system_v(names);
    drop_second_names(names);
    return names;
}

}  // namespace holdfast::inspect
