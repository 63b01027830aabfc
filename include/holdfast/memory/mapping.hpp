// SPDX-License-Identifier: Apache-2.0
// mapping.hpp - an owned range of mapped bytes.
//
// Mappings of 2 MiB and more begin at a 2 MiB boundary: a huge page of the file can be mapped as one only where virtual
// and file offsets agree modulo 2 MiB.
#pragma once

#include <sys/mman.h>
#include <sys/shm.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "holdfast/memory/descriptor.hpp"
#include "holdfast/memory/page_policy.hpp"

namespace holdfast::memory {

/// Owns one mapping (mmap or shmat) and unmaps it on destruction. Move-only.
class mapping {
 public:
    mapping() noexcept = default;
    mapping(mapping&& other) noexcept { swap(other); }
    mapping& operator=(mapping&& other) noexcept {
        mapping(std::move(other)).swap(*this);
        return *this;
    }
    mapping(const mapping&) = delete;
    mapping& operator=(const mapping&) = delete;
    ~mapping() {
        if (data_ == nullptr) return;
        if (system_v_) {
            ::shmdt(data_);
        } else {
            ::munmap(data_, bytes_);
        }
    }

    /// Maps the first `bytes` of a file, shared. Throws: the error of mmap, naming `subject`.
    [[nodiscard]] static mapping of_file(int fd, std::size_t bytes, bool writable, const std::string& subject) {
        const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
        mapping result = reserve(bytes, subject);
        if (::mmap(result.data_, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
            throw_errno(errno, subject, "mapping " + std::to_string(bytes) + " bytes");
        result.writable_ = writable;
        return result;
    }

    /// Private zeroed memory of this process.
    [[nodiscard]] static mapping of_heap(std::size_t bytes, const std::string& subject) {
        mapping result = reserve(bytes, subject);
        if (::mmap(result.data_, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            MAP_FAILED)
            throw_errno(errno, subject, "mapping " + std::to_string(bytes) + " bytes");
        result.writable_ = true;
        return result;
    }

    /// Attaches a System V segment.
    [[nodiscard]] static mapping of_system_v(int id, std::size_t bytes, bool writable, const std::string& subject) {
        void* const address = ::shmat(id, nullptr, writable ? 0 : SHM_RDONLY);
        if (address == reinterpret_cast<void*>(-1))
            throw_errno(errno, subject, "shmat");  // NOLINT: the interface's own sentinel
        mapping result;
        result.data_ = static_cast<std::byte*>(address);
        result.bytes_ = bytes;
        result.writable_ = writable;
        result.system_v_ = true;
        return result;
    }

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] bool writable() const noexcept { return writable_; }
    [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }

    void swap(mapping& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(writable_, other.writable_);
        std::swap(system_v_, other.system_v_);
    }

 private:
    /// Reserves address space at a boundary that lets huge pages be mapped as such.
    [[nodiscard]] static mapping reserve(std::size_t bytes, const std::string& subject) {
        const std::size_t slack = bytes >= huge_page_bytes ? huge_page_bytes : 0;
        void* const raw = ::mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (raw == MAP_FAILED)
            throw_errno(errno, subject, "reserving " + std::to_string(bytes) + " bytes of address space");
        const auto begin = reinterpret_cast<std::uintptr_t>(raw);
        const std::uintptr_t aligned = slack == 0 ? begin : (begin + slack - 1) & ~(std::uintptr_t{slack} - 1);
        const std::size_t page = small_page_bytes;
        const std::uintptr_t end = (aligned + bytes + page - 1) & ~(std::uintptr_t{page} - 1);
        if (aligned > begin) ::munmap(raw, aligned - begin);
        const std::uintptr_t raw_end = (begin + bytes + slack + page - 1) & ~(std::uintptr_t{page} - 1);
        if (raw_end > end) ::munmap(reinterpret_cast<void*>(end), raw_end - end);
        mapping result;
        result.data_ = reinterpret_cast<std::byte*>(aligned);
        result.bytes_ = bytes;
        return result;
    }

    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
    bool writable_ = false;
    bool system_v_ = false;
};

}  // namespace holdfast::memory
