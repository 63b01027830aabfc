// SPDX-License-Identifier: Apache-2.0
// task_store.hpp - where the nodes of tasks come from and go back to, without malloc for each.
//
// One thread takes a node, another returns it: malloc is at its slowest there. Nodes travel in magazines, chains of
// exactly 64: who posts takes single nodes from one of 16 shelves, chosen by its thread, and a shelf that is empty gets
// a magazine; a worker collects what it has run and hands over a magazine when it has one. So the lock that all share
// is taken once in 64 tasks. Memory goes back to the system with the store: it keeps its peak.
// Source: magazines: Bonwick, Adams, Magazines and Vmem, USENIX ATC 2001.
#pragma once

#include <pthread.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "holdfast/executor/small_mutex.hpp"
#include "holdfast/executor/task.hpp"

namespace holdfast::executor::detail {

inline constexpr std::size_t magazine_nodes = 64;

/// Threads: any.
class task_store {
 public:
    task_store() = default;
    task_store(const task_store&) = delete;
    task_store& operator=(const task_store&) = delete;
    /// Requires: every node is back.
    ~task_store() {
        while (slabs_ != nullptr) delete std::exchange(slabs_, slabs_->next);
    }

    /// Throws: std::bad_alloc.
    [[nodiscard]] task_node& take() {
        shelf& from = shelves_[shelf_here()];
        const std::lock_guard lock(from.lock);
        if (from.first == nullptr) from.first = &take_magazine();
        task_node& taken = *from.first;
        from.first = taken.next_task();
        return taken;
    }
    void give_back(task_node& node) noexcept {
        shelf& to = shelves_[shelf_here()];
        const std::lock_guard lock(to.lock);
        node.next = to.first;
        to.first = &node;
    }
    /// A chain of magazine_nodes.
    void give_back_magazine(task_node& first) noexcept {
        const std::lock_guard lock(magazines_lock_);
        ::new (static_cast<void*>(first.storage)) task_node*(magazines_);
        magazines_ = &first;
    }

 private:
    struct alignas(64) shelf {
        small_mutex lock;
        task_node* first = nullptr;
    };
    struct slab {
        std::array<task_node, magazine_nodes> nodes;
        slab* next = nullptr;
    };

    [[nodiscard]] std::size_t shelf_here() const noexcept {
        // A thread's own address: threads lie pages apart. Its hash needs no state of the thread.
        const auto self = static_cast<std::uint64_t>((std::uintptr_t)::pthread_self());
        return static_cast<std::size_t>((self >> 8U) * 0x9E3779B97F4A7C15U >> 60U);
    }
    [[nodiscard]] task_node& take_magazine() {
        {
            const std::lock_guard lock(magazines_lock_);
            if (magazines_ != nullptr) {
                task_node& first = *magazines_;
                magazines_ = *std::launder(reinterpret_cast<task_node**>(first.storage));
                return first;
            }
        }
        auto made = std::make_unique<slab>();
        for (std::size_t i = 0; i + 1 < magazine_nodes; ++i) made->nodes[i].next = &made->nodes[i + 1];
        const std::lock_guard lock(magazines_lock_);
        made->next = slabs_;
        slabs_ = made.release();
        return slabs_->nodes[0];
    }

    std::array<shelf, 16> shelves_{};
    alignas(64) small_mutex magazines_lock_;
    task_node* magazines_ = nullptr;  // its storage holds the next
    slab* slabs_ = nullptr;
};

/// The nodes that one worker has done with. Threads: one at a time.
class used_nodes {
 public:
    void add(task_node& node, task_store& store) noexcept {
        node.next = first_;
        first_ = &node;
        if (++count_ < magazine_nodes) return;
        store.give_back_magazine(*first_);
        first_ = nullptr;
        count_ = 0;
    }

 private:
    task_node* first_ = nullptr;
    std::size_t count_ = 0;
};

}  // namespace holdfast::executor::detail
