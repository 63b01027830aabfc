// SPDX-License-Identifier: Apache-2.0
// wiped_page.hpp - one private page that is all zeros in every forked child: what is not to be inherited lies here.
//
// Source: madvise(2), MADV_WIPEONFORK.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>

#include "holdfast/memory/descriptor.hpp"

namespace holdfast::memory {

class wiped_page {
 public:
    static constexpr std::size_t bytes = 4096;

    wiped_page() noexcept = default;
    wiped_page(wiped_page&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
    wiped_page& operator=(wiped_page&& other) noexcept {
        wiped_page taken(std::move(other));
        std::swap(data_, taken.data_);
        return *this;
    }
    wiped_page(const wiped_page&) = delete;
    wiped_page& operator=(const wiped_page&) = delete;
    ~wiped_page() {
        if (data_ != nullptr) ::munmap(data_, bytes);
    }

    /// Throws: no_space, unsupported.
    [[nodiscard]] static wiped_page make(const std::string& subject) {
        void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED) throw_errno(errno, subject, "mapping a page that forks do not inherit");
        wiped_page page;
        page.data_ = data;
        if (::madvise(data, bytes, MADV_WIPEONFORK) != 0)
            throw_errno(errno, subject, "MADV_WIPEONFORK", "Linux 4.14 or newer is needed");
        return page;
    }

    /// Page-aligned; null for a page that was not made.
    [[nodiscard]] void* data() const noexcept { return data_; }

 private:
    void* data_ = nullptr;
};

}  // namespace holdfast::memory
