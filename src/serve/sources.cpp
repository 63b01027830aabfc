// SPDX-License-Identifier: Apache-2.0
#include "serve/sources.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "serve/failure.hpp"

namespace holdfast::serve {

std::string identity_text(const identity_array& identity) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (std::size_t i = 0; i < 4; ++i) (text += digits[identity[i] >> 4U]) += digits[identity[i] & 15U];
    return text;
}

void source::watch_size() {
    if (!memory().name().is_path()) return;  // System V memory cannot shrink
    const std::string path = detail::places_of(memory().name()).data();
    file_ = memory::open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!file_) memory::throw_errno(errno, memory().uri(), "opening the file to watch its size");
    struct statfs system{};
    // A page of hugetlbfs cannot be replaced by the guard: there the touch of was_there() would end us.
    if (!memory().guarded() || ::fstatfs(file_.get(), &system) != 0 || system.f_type == HUGETLBFS_MAGIC) return;
    const std::span<const std::byte> body = memory().bytes();
    const auto page = static_cast<std::uintptr_t>(std::max(::sysconf(_SC_PAGESIZE), 4096L));
    const auto begin = reinterpret_cast<std::uintptr_t>(body.data());
    const std::uintptr_t last_page = body.empty() ? 0 : (begin + body.size() - 1) / page * page;
    before_last_page_ = last_page > begin ? last_page - begin : 0;
}

// A file that was cut before the page in which the body ends has lost that page: to touch it is a fault then, which the
// guard turns into a mark. One that was cut within it has lost nothing before it. Memory's own files give up the pages
// behind their new end before they clear the rest of the page that it lies in, so whoever read zeros there meets the
// fault here, behind them. Of a file system that clears first the file's length tells no sooner.
bool source::was_there(std::uint64_t end) const noexcept {
    if (end > before_last_page_) return false;
    const segment& mapped = memory();
    asm volatile("" : : : "memory");  // this load stays behind those before it,
    const auto last = static_cast<unsigned char>(mapped.bytes().back());
    asm volatile("" : : "r"(last) : "memory");  // and is made
    return !mapped.fault();
}

// A schema of 1 GiB in a segment of a page would have each request that describes a record allocate so much, in vain.
void source::require_room(std::uint64_t bytes_max) const {
    const std::uint64_t bytes = schema_.value->bytes();
    if (bytes <= bytes_max) return;
    throw error(errc::geometry_mismatch, memory().uri(),
                "a record of its schema has " + std::to_string(bytes) + " bytes, and it takes " +
                    std::to_string(bytes_max) + " at most; make it anew, larger or with the schema of what it holds");
}

std::vector<std::byte> source::room_for_record() const {
    const std::uint64_t bytes = schema_.value->bytes();
    if (bytes > object_bytes_max)
        throw failure{501, memory().uri() + ": a record of its schema is longer than the " +
                               std::to_string(object_bytes_max >> 20U) +
                               " MiB that are served; publish it on the machine"};
    return std::vector<std::byte>(static_cast<std::size_t>(bytes));
}

bool source::cut_off() const noexcept {
    const segment& mapped = memory();
    if (mapped.fault() == errc::truncated) return true;
    struct stat now{};
    // A name that led to another file by the time we opened it is let go of by catalog::refresh.
    return file_ &&
           (::fstat(file_.get(), &now) != 0 || static_cast<std::uint64_t>(now.st_size) < mapped.info().total_bytes);
}

}  // namespace holdfast::serve
