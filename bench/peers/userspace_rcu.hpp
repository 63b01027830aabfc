// SPDX-License-Identifier: Apache-2.0
// userspace_rcu.hpp - liburcu: readers between two marks, old objects freed after a grace period. In the flavour that
// lets a reader do anything between its reads (memb: the writer makes the readers' processors pass a barrier, so that a
// mark costs no fence). Its marks are calls into the library, as
// for every program that does not take over its licence. One process.
#pragma once

#include <urcu/urcu-memb.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>

#include "workload/snapshot_subject.hpp"

namespace holdfast::bench {

/// A thread's registration, for as long as the thread lives.
class rcu_thread {
 public:
    static void join() { static thread_local const rcu_thread registered; }
    ~rcu_thread() { urcu_memb_unregister_thread(); }

 private:
    rcu_thread() { urcu_memb_register_thread(); }
};

class rcu_snapshot {
 public:
    static constexpr std::string_view name = "liburcu, memb";
    static std::string version() { return HOLDFAST_BENCH_URCU; }
    static constexpr workload::far_place place = workload::far_place::thread;
    explicit rcu_snapshot(const workload::snapshot_request& request) : words_(request.words) {}
    rcu_snapshot(const rcu_snapshot&) = delete;
    rcu_snapshot& operator=(const rcu_snapshot&) = delete;
    ~rcu_snapshot() { delete[] current_.load(); }
    void open_writer() {}
    void open_reader() {}

    bool read(std::span<std::uint64_t> out) {
        return visit([&](const std::uint64_t* object) { std::memcpy(out.data(), object, out.size_bytes()); });
    }
    bool look(std::uint64_t& sum) {
        return visit(
            [&](const std::uint64_t* object) { sum = std::accumulate(object, object + words_, std::uint64_t{0}); });
    }
    bool publish(std::span<const std::uint64_t> object) {
        auto next = std::make_unique_for_overwrite<std::uint64_t[]>(words_);
        std::memcpy(next.get(), object.data(), object.size_bytes());
        // Release: a reader that sees the pointer sees the object. The writer is no reader while it waits for them.
        const std::unique_ptr<std::uint64_t[]> old(current_.exchange(next.release(), std::memory_order_acq_rel));
        urcu_memb_synchronize_rcu();
        return true;
    }

 private:
    template <class Use>
    bool visit(Use&& use) {
        rcu_thread::join();
        urcu_memb_read_lock();
        // Acquire: pairs with the exchange in publish(); the object is whole.
        const std::uint64_t* const object = current_.load(std::memory_order_acquire);
        if (object != nullptr) use(object);
        urcu_memb_read_unlock();
        return object != nullptr;
    }

    std::size_t words_;
    std::atomic<std::uint64_t*> current_{nullptr};
};

}  // namespace holdfast::bench
