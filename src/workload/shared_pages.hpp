// SPDX-License-Identifier: Apache-2.0
// shared_pages.hpp - zeroed memory that forked processes share.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>

namespace holdfast::workload {

class shared_pages {
 public:
    explicit shared_pages(std::size_t bytes)
        : bytes_(bytes), data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
        if (data_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mapping shared pages");
    }
    shared_pages(const shared_pages&) = delete;
    shared_pages& operator=(const shared_pages&) = delete;
    ~shared_pages() { ::munmap(data_, bytes_); }
    [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {static_cast<std::byte*>(data_), bytes_}; }

 private:
    std::size_t bytes_;
    void* data_;
};

}  // namespace holdfast::workload
