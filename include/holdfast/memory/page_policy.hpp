// SPDX-License-Identifier: Apache-2.0
// page_policy.hpp - what is asked of the pages behind a mapping, and what was really obtained.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "holdfast/memory/descriptor.hpp"

namespace holdfast::memory {

inline constexpr std::size_t small_page_bytes = 4096;
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// What the caller would like of the pages. `huge` is advice: page_report says how much of it was obtained. `lock` is a
/// demand.
struct page_policy {
    bool huge = false;      ///< transparent 2 MiB pages; System V memory has none, sysv+huge: takes the pool's
    bool prefault = false;  ///< map every page now instead of at first touch
    bool lock = false;      ///< keep the pages out of swap (mlock)
};

/// What the kernel says of a mapping, from /proc/self/smaps.
struct page_report {
    std::uint64_t page_bytes = 0;  ///< the kernel's page size for the mapping: 4096, or 2 MiB from the huge page pool
    std::uint64_t resident_bytes = 0;  ///< mapped into this process
    std::uint64_t huge_bytes = 0;      ///< of these, mapped by 2 MiB entries
    std::uint64_t locked_bytes = 0;
};

namespace detail {

#ifndef MADV_POPULATE_READ
inline constexpr int madv_populate_read = 22;
inline constexpr int madv_populate_write = 23;
#else
inline constexpr int madv_populate_read = MADV_POPULATE_READ;
inline constexpr int madv_populate_write = MADV_POPULATE_WRITE;
#endif
inline constexpr int madv_collapse = 25;  // Linux 6.1; absent from the headers of glibc 2.36

/// madvise() over a range, repeated while interrupted or short of a moment's resources.
[[nodiscard]] inline bool advise(void* address, std::size_t bytes, int advice) noexcept {
    int result = -1;
    int tries = 0;
    do result = ::madvise(address, bytes, advice);
    while (result != 0 && (errno == EINTR || errno == EAGAIN) && ++tries < 1000);
    return result == 0;
}

}  // namespace detail

/// Asks for 2 MiB pages: for what is touched later (MADV_HUGEPAGE) and for what is already there (MADV_COLLAPSE). Never
/// fails: a file system that has none keeps its small pages, and report_pages() says so.
inline void advise_huge(void* address, std::size_t bytes) noexcept {
    (void)detail::advise(address, bytes, MADV_HUGEPAGE);
    char* const begin = static_cast<char*>(address);
    // One range at a time, so that a range which cannot be collapsed does not stop the others.
    for (std::size_t at = 0; at + huge_page_bytes <= bytes; at += huge_page_bytes)
        if (!detail::advise(begin + at, huge_page_bytes, detail::madv_collapse) && (errno == EINVAL || errno == ENOSYS))
            break;
}

/// Applies the policy to a fresh mapping. Throws: no_space, no_permission (mlock beyond RLIMIT_MEMLOCK).
inline void apply(const page_policy& policy, void* address, std::size_t bytes, bool writable,
                  const std::string& subject) {
    if (policy.huge) advise_huge(address, bytes);
    if (policy.prefault) {
        const int advice = writable ? detail::madv_populate_write : detail::madv_populate_read;
        // Older kernels lack the advice; pages then come at first touch, which is slower but not wrong.
        if (!detail::advise(address, bytes, advice) && errno != EINVAL)
            throw_errno(errno, subject, "prefaulting the pages");
    }
    if (policy.lock && ::mlock(address, bytes) != 0) {
        const int reason = errno;
        throw error(
            reason == ENOMEM || reason == EPERM || reason == EAGAIN ? errc::no_permission : errc_of_errno(reason),
            subject,
            "mlock of " + std::to_string(bytes) + " bytes failed: " + errno_text(reason) +
                "; raise the limit (ulimit -l, LimitMEMLOCK=) or do not ask for locked pages");
    }
}

/// Reads what the mapping that begins at `address` obtained. All zero when /proc is not there.
[[nodiscard]] inline page_report report_pages(const void* address) {
    page_report report;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> smaps(std::fopen("/proc/self/smaps", "re"), &std::fclose);
    if (!smaps) return report;
    char line[512];
    bool inside = false;
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    while (std::fgets(line, sizeof line, smaps.get()) != nullptr) {
        unsigned long long low = 0;
        unsigned long long high = 0;
        unsigned long long kilobytes = 0;
        char name[64];
        if (std::sscanf(line, "%llx-%llx ", &low, &high) == 2) {
            if (inside) break;
            inside = low == wanted;
        } else if (inside && std::sscanf(line, "%63[^:]: %llu kB", name, &kilobytes) == 2) {
            const std::uint64_t bytes = kilobytes * 1024;
            if (std::strcmp(name, "KernelPageSize") == 0) report.page_bytes = bytes;
            if (std::strcmp(name, "Rss") == 0) report.resident_bytes = bytes;
            if (std::strcmp(name, "Locked") == 0) report.locked_bytes = bytes;
            if (std::strcmp(name, "ShmemPmdMapped") == 0 || std::strcmp(name, "FilePmdMapped") == 0 ||
                std::strcmp(name, "AnonHugePages") == 0 || std::strcmp(name, "Shared_Hugetlb") == 0 ||
                std::strcmp(name, "Private_Hugetlb") == 0)
                report.huge_bytes += bytes;
        }
    }
    return report;
}

}  // namespace holdfast::memory
