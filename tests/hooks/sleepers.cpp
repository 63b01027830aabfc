// SPDX-License-Identifier: Apache-2.0
#include "hooks/sleepers.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>

namespace {

constinit holdfast::test::futex_listener* kernel = nullptr;
constinit holdfast::test::name_listener* names = nullptr;

constexpr std::size_t arena_bytes = std::size_t{1} << 20;
constinit std::byte* arena = nullptr;
std::size_t arena_used = 0;
std::map<std::size_t, std::byte*> places;  // by length
std::set<const void*> writable;            // of the places

void tell_name(const char* path, bool changes) noexcept {
    if (names != nullptr) names->before_name_call(path, changes);
}

[[nodiscard]] bool in_arena(const void* at) noexcept {
    return arena != nullptr &&
           reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(arena) < arena_bytes;
}
[[nodiscard]] std::byte* place_of(std::size_t bytes) {
    const auto [found, fresh] = places.try_emplace(bytes, arena + arena_used);
    constexpr std::size_t page = 4096;
    if (fresh) arena_used += (bytes + page - 1) / page * page;
    return arena_used <= arena_bytes ? found->second : nullptr;
}

}  // namespace

extern "C" {

void* __real_mmap(void* at, std::size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void* at, std::size_t bytes);

}  // extern "C"

namespace holdfast::test {

futex_watch::futex_watch(futex_listener& listener) noexcept { kernel = &listener; }
futex_watch::~futex_watch() { kernel = nullptr; }

name_watch::name_watch(name_listener& listener) noexcept { names = &listener; }
name_watch::~name_watch() { names = nullptr; }

one_address::one_address() {
    void* const found =
        __real_mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) throw std::runtime_error("there is no room for the mappings of logical processes");
    arena = static_cast<std::byte*>(found);
}
one_address::~one_address() {
    __real_munmap(arena, arena_bytes);
    arena = nullptr;
    arena_used = 0;
    places.clear();
    writable.clear();
}
std::span<std::byte> one_address::bytes() noexcept { return {arena, arena_used}; }

}  // namespace holdfast::test

// NOLINTBEGIN
extern "C" {

long __real_syscall(long number, ...);

long __wrap_syscall(long number, ...) {
    long given[6];
    va_list arguments;
    va_start(arguments, number);
    for (long& each : given) each = va_arg(arguments, long);
    va_end(arguments);
    const int operation = static_cast<int>(given[1]);
    if (kernel == nullptr || number != SYS_futex || (operation != FUTEX_WAIT && operation != FUTEX_WAKE))
        return __real_syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
    const auto* word = reinterpret_cast<const std::uint32_t*>(given[0]);
    if (operation == FUTEX_WAKE) {
        kernel->wake(word);
        return 0;
    }
    const int answer = kernel->sleep(word, static_cast<std::uint32_t>(given[2]));
    if (answer == 0) return 0;
    errno = answer;
    return -1;
}

int __real_fcntl(int fd, int command, ...);

int __wrap_fcntl(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void* const given = va_arg(arguments, void*);
    va_end(arguments);
    if (kernel == nullptr || (command != F_OFD_GETLK && command != F_OFD_SETLK) || !kernel->locks_are_free())
        return __real_fcntl(fd, command, given);
    if (command == F_OFD_GETLK) static_cast<struct flock*>(given)->l_type = F_UNLCK;
    return 0;
}

int __real_clock_gettime(clockid_t clock, struct timespec* now);

int __wrap_clock_gettime(clockid_t clock, struct timespec* now) {
    if (kernel == nullptr) return __real_clock_gettime(clock, now);
    *now = {1'000'000, 0};
    return 0;
}

void* __wrap_mmap(void* at, std::size_t bytes, int protection, int flags, int fd, off_t offset) {
    if (in_arena(at) && (protection & PROT_WRITE) != 0) writable.insert(at);
    if (in_arena(at) && (protection & PROT_WRITE) == 0 && writable.contains(at)) return at;
    if (arena == nullptr || at != nullptr || protection != PROT_NONE)
        return __real_mmap(at, bytes, protection, flags, fd, offset);
    std::byte* const place = place_of(bytes);
    if (place == nullptr) errno = ENOMEM;
    return place == nullptr ? MAP_FAILED : place;
}

int __wrap_munmap(void* at, std::size_t bytes) { return in_arena(at) ? 0 : __real_munmap(at, bytes); }

int __real_lstat(const char* path, struct stat* status);
int __real_unlink(const char* path);
int __real_rename(const char* from, const char* to);
int __real_linkat(int from_folder, const char* from, int to_folder, const char* to, int flags);
int __real_openat(int folder, const char* path, int flags, ...);

ssize_t __real_getrandom(void* to, std::size_t bytes, unsigned flags);

ssize_t __wrap_getrandom(void* to, std::size_t bytes, unsigned flags) {
    if (names == nullptr) return __real_getrandom(to, bytes, flags);
    std::memset(to, static_cast<int>(names->random_byte()), bytes);
    return static_cast<ssize_t>(bytes);
}
int __wrap_lstat(const char* path, struct stat* status) {
    tell_name(path, false);
    return __real_lstat(path, status);
}
int __wrap_unlink(const char* path) {
    tell_name(path, true);
    return __real_unlink(path);
}
int __wrap_rename(const char* from, const char* to) {
    tell_name(to, true);
    return __real_rename(from, to);
}
int __wrap_linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
    tell_name(to, true);
    return __real_linkat(from_folder, from, to_folder, to, flags);
}
int __wrap_openat(int folder, const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    if (names != nullptr && std::string_view(path).starts_with("/proc/")) {
        errno = ENOENT;
        return -1;
    }
    tell_name(path, false);
    return __real_openat(folder, path, flags, mode);
}

}  // extern "C"
// NOLINTEND
