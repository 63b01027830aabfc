// SPDX-License-Identifier: Apache-2.0
// task_store.hpp - where the nodes of tasks come from and go back to, without malloc for each.
//
// One thread takes a node, another returns it: malloc is at its slowest there. Nodes travel in magazines of 64: who
// posts takes single nodes from one of 16 shelves, chosen by its thread, and a shelf whose magazine is empty changes it
// for a full one; a worker collects what it has run, and changes its magazine when it is full. So the lock that all
// share is taken once in 64 tasks. A magazine is an array: in a chain each node taken would wait for its line to come
// from the core that ran it. Memory goes back to the system with the store: it keeps its peak.
// (I1) There is an empty magazine for each full one that is handed over: every slab of 64 nodes, shelf and worker
// brings
//      one, and besides full ones at most one is held by each shelf and by each other worker.
// Source: magazines: Bonwick, Adams, Magazines and Vmem, USENIX ATC 2001.
#pragma once

#include <pthread.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "holdfast/executor/small_mutex.hpp"
#include "holdfast/executor/task.hpp"

namespace holdfast::executor::detail {

inline constexpr std::size_t magazine_nodes = 64;

struct magazine {
    magazine* next = nullptr;
    std::size_t count = 0;
    std::array<task_node*, magazine_nodes> nodes;
};

/// Threads: any.
class task_store {
 public:
    task_store() noexcept {
        for (shelf& each : shelves_) each.loaded = &each.first;
    }
    task_store(const task_store&) = delete;
    task_store& operator=(const task_store&) = delete;
    /// Requires: every node is back.
    ~task_store() {
        while (slabs_ != nullptr) delete std::exchange(slabs_, slabs_->next);
    }

    /// Throws: std::bad_alloc.
    [[nodiscard]] task_node& take() {
        shelf& from = shelves_[shelf_here()];
        const std::lock_guard held(from.lock);
        if (from.loose != nullptr) {
            task_node& taken = *from.loose;
            from.loose = taken.next_task();
            return taken;
        }
        if (from.loaded->count == 0) from.loaded = &full_for(*from.loaded);
        return *from.loaded->nodes[--from.loaded->count];
    }
    /// One that was not run.
    void give_back(task_node& node) noexcept {
        shelf& to = shelves_[shelf_here()];
        const std::lock_guard held(to.lock);
        node.next = to.loose;
        to.loose = &node;
    }
    /// Takes a full magazine. Returns: an empty one.
    [[nodiscard]] magazine& empty_for(magazine& full) noexcept {
        const std::lock_guard held(lock_);
        push(full_, full);
        return pop(empty_);  // (I1)
    }

 private:
    struct alignas(64) shelf {
        small_mutex lock;
        magazine* loaded = nullptr;
        task_node* loose = nullptr;
        magazine first;
    };
    struct slab {
        std::array<task_node, magazine_nodes> nodes;
        magazine filled;
        slab* next = nullptr;
    };

    [[nodiscard]] static std::size_t shelf_here() noexcept {
        // A thread's own address: threads lie pages apart. Its hash needs no state of the thread.
        const auto self = static_cast<std::uint64_t>((std::uintptr_t)::pthread_self());
        return static_cast<std::size_t>((self >> 8U) * 0x9E3779B97F4A7C15U >> 60U);
    }
    static void push(magazine*& list, magazine& pushed) noexcept { pushed.next = std::exchange(list, &pushed); }
    [[nodiscard]] static magazine& pop(magazine*& list) noexcept { return *std::exchange(list, list->next); }

    [[nodiscard]] magazine& full_for(magazine& empty) {
        {
            const std::lock_guard held(lock_);
            if (full_ != nullptr) {
                push(empty_, empty);
                return pop(full_);
            }
        }
        auto made = std::make_unique<slab>();
        for (task_node& node : made->nodes) made->filled.nodes[made->filled.count++] = &node;
        const std::lock_guard held(lock_);
        push(empty_, empty);
        made->next = slabs_;
        slabs_ = made.release();
        return slabs_->filled;
    }

    std::array<shelf, 16> shelves_{};
    alignas(64) small_mutex lock_;
    magazine* full_ = nullptr;
    magazine* empty_ = nullptr;
    slab* slabs_ = nullptr;
};

/// The nodes that one worker has done with. Threads: one at a time.
class used_nodes {
 public:
    used_nodes() = default;
    used_nodes(const used_nodes&) = delete;
    used_nodes& operator=(const used_nodes&) = delete;

    void add(task_node& node, task_store& store) noexcept {
        filling_->nodes[filling_->count++] = &node;
        if (filling_->count == magazine_nodes) filling_ = &store.empty_for(*filling_);
    }

 private:
    magazine first_;
    magazine* filling_ = &first_;
};

}  // namespace holdfast::executor::detail
