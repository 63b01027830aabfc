// SPDX-License-Identifier: Apache-2.0
#include "workload/room.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "holdfast/memory/space.hpp"

namespace holdfast::workload {

namespace {

constexpr std::uint64_t mebibyte = 1 << 20;

[[nodiscard]] std::string mebibytes(std::uint64_t bytes) {
    return std::to_string((bytes + mebibyte - 1) / mebibyte) + " MiB";
}

}  // namespace

std::uint64_t available_memory() {
    std::uint64_t available = ~std::uint64_t{0};
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/meminfo", "re"), &std::fclose);
    char line[256];
    unsigned long long kilobytes = 0;
    while (file && std::fgets(line, sizeof line, file.get()) != nullptr)
        if (std::sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1) available = kilobytes * 1024;
    if (const auto room = memory::detail::memory_room()) available = std::min(available, room->bytes);
    return available;
}

std::uint64_t available_shared_memory() {
    struct statvfs there{};
    if (::statvfs("/dev/shm", &there) != 0 || there.f_blocks == 0) return ~std::uint64_t{0};
    return std::uint64_t{there.f_bavail} * there.f_frsize;
}

std::string lacking_room(const room_wanted& wanted) {
    if (const std::uint64_t there = available_shared_memory(); there < wanted.shared_bytes)
        return "it may need " + mebibytes(wanted.shared_bytes) + " of /dev/shm, which has " + mebibytes(there) +
               " free: make it larger (mount -o remount,size=" +
               std::to_string(2 * wanted.shared_bytes / mebibyte + 1) +
               "m /dev/shm; docker run --shm-size) or empty it";
    if (const std::uint64_t there = available_memory(); there < wanted.memory_bytes)
        return "it may need " + mebibytes(wanted.memory_bytes) + " of memory, with some to spare, and " +
               mebibytes(there) + " are available";
    return {};
}

}  // namespace holdfast::workload
