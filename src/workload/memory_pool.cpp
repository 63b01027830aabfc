// SPDX-License-Identifier: Apache-2.0
#include "workload/memory_pool.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "holdfast/memory/page_policy.hpp"

namespace holdfast::workload {

namespace {

constexpr std::size_t huge = memory::huge_page_bytes;

[[nodiscard]] constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) noexcept {
    return (bytes + unit - 1) / unit * unit;
}

}  // namespace

memory_pool::~memory_pool() {
    for (const mapping& m : mappings_) ::munmap(m.reserved, m.bytes + huge);
}

std::size_t memory_pool::rounded(std::size_t bytes) noexcept {
    return bytes >= own_mapping_bytes ? round_up(bytes, huge) : std::max<std::size_t>(16, round_up(bytes, 16));
}

std::byte* memory_pool::map(std::size_t bytes) {
    // One huge page more than needed: an aligned part is used, and what lies around it stays mapped without any right,
    // so that the kernel keeps each block a mapping of its own and can say what pages it got.
    void* whole = ::mmap(nullptr, bytes + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (whole == MAP_FAILED) throw std::bad_alloc();
    auto* const begin = static_cast<std::byte*>(whole);
    std::byte* const data = begin + (huge - reinterpret_cast<std::uintptr_t>(begin) % huge) % huge;
    mappings_.push_back({begin, data, bytes});
    if (::mprotect(data, bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    ::madvise(data, bytes, pages_ == page_choice::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    // Pages come now, not under the clock. Where the kernel has no such advice they are touched by hand.
    if (::madvise(data, bytes, memory::detail::madv_populate_write) != 0)
        for (std::size_t at = 0; at < bytes; at += memory::small_page_bytes) data[at] = std::byte{0};
    return data;
}

void* memory_pool::allocate(std::size_t bytes) {
    const std::size_t size = rounded(bytes);
    in_use_ += bytes;
    if (size != last_size_ || last_list_ == nullptr) {
        last_list_ = &free_[size];
        last_size_ = size;
    }
    if (!last_list_->empty()) {
        void* const block = last_list_->back();
        last_list_->pop_back();
        return block;
    }
    if (size >= own_mapping_bytes) return map(size);
    if (static_cast<std::size_t>(free_end_ - free_begin_) < size) {
        free_begin_ = map(chunk_bytes);
        free_end_ = free_begin_ + chunk_bytes;
    }
    std::byte* const block = free_begin_;
    free_begin_ += size;
    return block;
}

void memory_pool::deallocate(void* block, std::size_t bytes) noexcept {
    const std::size_t size = rounded(bytes);
    in_use_ -= bytes;
    if (size != last_size_ || last_list_ == nullptr) {
        last_list_ = &free_[size];
        last_size_ = size;
    }
    last_list_->push_back(block);
}

memory_use memory_pool::use() const {
    memory_use out{.bytes = in_use_, .mapped_bytes = 0, .huge_bytes = 0};
    for (const mapping& m : mappings_) {
        const memory::page_report report = memory::report_pages(m.data);
        out.mapped_bytes += m.bytes;
        out.huge_bytes += std::min<std::uint64_t>(report.huge_bytes, m.bytes);
    }
    return out;
}

std::string huge_pages_text(const std::string& what, const std::vector<std::pair<std::string, memory_use>>& of) {
    std::string text = "huge pages obtained, " + what + ":";
    for (const auto& [name, use] : of)
        text += " " + name + " " +
                (use.mapped_bytes == 0 ? "unknown" : std::to_string(use.huge_bytes * 100 / use.mapped_bytes) + " %") +
                ";";
    text.back() = '.';
    return text;
}

}  // namespace holdfast::workload
