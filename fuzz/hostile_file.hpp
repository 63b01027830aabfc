// SPDX-License-Identifier: Apache-2.0
// hostile_file.hpp - a file as a peer has it who may write it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "require.hpp"

namespace holdfast::fuzz {

class hostile_file {
 public:
    explicit hostile_file(const std::string& path) {
        const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
        struct stat status{};
        require(file >= 0 && ::fstat(file, &status) == 0, "the file is there");
        size_ = static_cast<std::size_t>(status.st_size);
        void* const mapped = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        require(mapped != MAP_FAILED);
        ::close(file);
        data_ = static_cast<std::byte*>(mapped);
    }
    hostile_file(const hostile_file&) = delete;
    hostile_file& operator=(const hostile_file&) = delete;
    ~hostile_file() { ::munmap(data_, size_); }
    [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

inline void lay_over(std::span<std::byte> file, std::size_t at, std::span<const std::byte> bytes) {
    if (at >= file.size()) at %= file.size();
    const std::size_t take = std::min(bytes.size(), file.size() - at);
    if (take != 0) std::memcpy(file.data() + at, bytes.data(), take);
}

}  // namespace holdfast::fuzz
