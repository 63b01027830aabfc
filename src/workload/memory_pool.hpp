// SPDX-License-Identifier: Apache-2.0
// memory_pool.hpp - the private memory that peers get, of the same pages as ours, already touched.
//
// What is timed is a container, not the kernel's zeroing of pages nor malloc: blocks come from mappings whose pages are
// there before the container sees them, freed blocks are kept for the next request of their size, and nodes are laid
// one behind the other. That is the best case for every peer; node-based ones pay less than with malloc.
// Threads: none; a pool belongs to one container, under whatever lock that has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::workload {

/// What is asked of the pages under a subject's data.
enum class page_choice : std::uint8_t { small, huge };

[[nodiscard]] constexpr const char* text_of(page_choice pages) noexcept {
    return pages == page_choice::small ? "4 KiB pages" : "huge pages";
}

/// How much memory a subject holds, and of what pages.
struct memory_use {
    std::uint64_t bytes = 0;         ///< in use for the data, with all that belongs to it
    std::uint64_t mapped_bytes = 0;  ///< of the mappings they lie in; 0: unknown
    std::uint64_t huge_bytes = 0;    ///< of these, under 2 MiB pages
};

/// "huge pages obtained, WHAT: NAME 99 %; OTHER unknown.": a note for people.
[[nodiscard]] std::string huge_pages_text(const std::string& what,
                                          const std::vector<std::pair<std::string, memory_use>>& of);

class memory_pool {
 public:
    explicit memory_pool(page_choice pages) noexcept : pages_(pages) {}
    memory_pool(const memory_pool&) = delete;
    memory_pool& operator=(const memory_pool&) = delete;
    ~memory_pool();

    /// Throws: std::bad_alloc. Alignment: 16, or 2 MiB for a block of 1 MiB and more.
    [[nodiscard]] void* allocate(std::size_t bytes);
    void deallocate(void* block, std::size_t bytes) noexcept;

    /// Bytes asked for and not given back, and what the kernel says of the mappings.
    [[nodiscard]] memory_use use() const;

 private:
    struct mapping {
        std::byte* reserved;  // 2 MiB more than is used
        std::byte* data;
        std::size_t bytes;
    };
    static constexpr std::size_t own_mapping_bytes = std::size_t{1} << 20;
    static constexpr std::size_t chunk_bytes = std::size_t{32} << 20;

    [[nodiscard]] static std::size_t rounded(std::size_t bytes) noexcept;
    [[nodiscard]] std::byte* map(std::size_t bytes);

    page_choice pages_;
    std::size_t in_use_ = 0;
    std::byte* free_begin_ = nullptr;  // rest of the chunk that small blocks are cut from
    std::byte* free_end_ = nullptr;
    std::map<std::size_t, std::vector<void*>> free_;  // by rounded size
    std::vector<void*>* last_list_ = nullptr;         // of the size last asked for: node-based peers ask for one size
    std::size_t last_size_ = 0;
    std::vector<mapping> mappings_;
};

/// A standard allocator over a pool.
template <class T>
class pool_allocator {
 public:
    using value_type = T;
    explicit pool_allocator(memory_pool& pool) noexcept : pool_(&pool) {}
    template <class U>
    pool_allocator(const pool_allocator<U>& other) noexcept : pool_(other.pool()) {}  // NOLINT: allocators convert

    [[nodiscard]] T* allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
        return static_cast<T*>(pool_->allocate(count * sizeof(T)));
    }
    void deallocate(T* block, std::size_t count) noexcept { pool_->deallocate(block, count * sizeof(T)); }
    [[nodiscard]] memory_pool* pool() const noexcept { return pool_; }
    template <class U>
    friend bool operator==(const pool_allocator& a, const pool_allocator<U>& b) noexcept {
        return a.pool() == b.pool();
    }

 private:
    memory_pool* pool_;
};

}  // namespace holdfast::workload
