// SPDX-License-Identifier: Apache-2.0
// keyed_executor.hpp - tasks by key: in order for each key, in parallel otherwise, and no memory for keys at rest.
//
// 64 shards, each a chained hash table of strands under one small lock, which is also the lock of its strands: a post
// takes one lock to find the key and to append. A key is in the table exactly while it has tasks, reservations or is
// poisoned; then its strand goes to the shard's few spare ones. The table outlives its handle until its last key rests.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "holdfast/executor/poster.hpp"
#include "holdfast/executor/small_mutex.hpp"
#include "holdfast/executor/strand_core.hpp"
#include "holdfast/executor/task.hpp"
#include "holdfast/executor/thread_pool.hpp"

namespace holdfast::executor {

template <class Key>
struct keyed_options {
    std::uint32_t waiting_max = 0;  ///< tasks of one key that have not begun; 0: no limit
    overflow when_full = overflow::refuse;
    bool poison_on_error = false;  ///< a task that throws cancels those of its key behind it, until reset(key)
    std::function<void(const Key&, std::exception_ptr)> on_error = {};  ///< in place of the pool's, in the key's turn
};

namespace detail {

template <class Key, class Hash, class Equal>
class key_table {
 public:
    static constexpr std::size_t shard_count = 64;
    static constexpr std::size_t spare_max = 64;

    struct shard;

    struct entry final : strand_core {
        entry(shard& of, const strand_rules& rules) noexcept
            : strand_core(&of.mutex, rules, operations_here), home(&of) {}

        shard* home;
        entry* chain = nullptr;
        std::uint64_t hash = 0;
        std::optional<Key> key;  // none of a spare one
    };

    struct alignas(64) shard {
        small_mutex mutex;
        bool orphan = false;  // the handle has gone
        key_table* table = nullptr;
        std::vector<entry*> buckets;  // a power of two, or none
        std::size_t size = 0;
        entry* spare = nullptr;
        std::size_t spares = 0;
    };

    key_table(keyed_options<Key> given, Hash hash, Equal equal)
        : options(std::move(given)),
          rules{options.waiting_max, options.when_full, options.poison_on_error},
          hash_(std::move(hash)),
          equal_(std::move(equal)) {
        for (shard& each : shards_) each.table = this;
    }
    key_table(const key_table&) = delete;
    key_table& operator=(const key_table&) = delete;
    ~key_table() {
        for (shard& each : shards_)
            while (each.spare != nullptr) delete std::exchange(each.spare, each.spare->chain);
    }

    [[nodiscard]] std::uint64_t hash_of(const Key& key) const {
        return static_cast<std::uint64_t>(hash_(key)) * 0x9E3779B97F4A7C15U;  // many a std::hash does nothing
    }
    [[nodiscard]] shard& shard_of(std::uint64_t hash) noexcept { return shards_[hash >> 58U]; }
    [[nodiscard]] std::array<shard, shard_count>& shards() noexcept { return shards_; }

    /// Under the shard's lock. Nothing if it is not there.
    [[nodiscard]] entry* find(shard& in, std::uint64_t hash, const Key& key) const {
        if (in.buckets.empty()) return nullptr;
        entry* each = in.buckets[bucket(in, hash)];
        while (each != nullptr && !(each->hash == hash && equal_(*each->key, key))) each = each->chain;
        return each;
    }
    /// Under the shard's lock. Throws: std::bad_alloc or what copying the key throws; nothing has changed then.
    [[nodiscard]] entry& find_or_add(shard& in, std::uint64_t hash, const Key& key) {
        if (entry* const there = find(in, hash, key); there != nullptr) return *there;
        if (in.size >= in.buckets.size()) grow(in);
        if (in.spare == nullptr) {
            in.spare = new entry(in, rules);
            ++in.spares;
        }
        entry& added = *in.spare;
        added.key.emplace(key);
        added.hash = hash;
        in.spare = std::exchange(added.chain, nullptr);
        --in.spares;
        link(in, added);
        ++in.size;
        return added;
    }
    /// The handle goes. Poisoned keys are forgotten.
    static void abandon(key_table* table) noexcept {
        for (shard& each : table->shards_) {
            bool last = false;
            {
                const std::lock_guard held(each.mutex);
                each.orphan = true;
                for (entry*& first : each.buckets)
                    for (entry** place = &first; *place != nullptr;) {
                        if ((*place)->scheduled)
                            place = &(*place)->chain;
                        else
                            delete table->unlink(each, place);  // nothing unless there are spare ones enough
                    }
                last = each.size == 0;
            }
            if (last) table->leave();
        }
        table->leave();
    }

    const keyed_options<Key> options;
    const strand_rules rules;

 private:
    [[nodiscard]] static std::size_t bucket(const shard& in, std::uint64_t hash) noexcept {
        return static_cast<std::size_t>(hash >> 20U) & (in.buckets.size() - 1);
    }
    static void link(shard& in, entry& added) noexcept {
        entry*& first = in.buckets[bucket(in, added.hash)];
        added.chain = first;
        first = &added;
    }
    static void grow(shard& in) {
        std::vector<entry*> larger(in.buckets.empty() ? 8 : 2 * in.buckets.size());
        std::swap(in.buckets, larger);
        for (entry* each : larger)
            while (each != nullptr) link(in, *std::exchange(each, each->chain));
    }
    /// Takes the entry at this place out. Returns: the entry if there are spare ones enough.
    entry* unlink(shard& in, entry** place) noexcept {
        entry* const gone = *place;
        *place = gone->chain;
        gone->key.reset();
        gone->poisoned = false;
        --in.size;
        if (in.spares >= spare_max) return gone;
        gone->chain = std::exchange(in.spare, gone);
        ++in.spares;
        return nullptr;
    }
    /// A shard has no keys any more, or the handle has gone.
    void leave() noexcept {
        // Acquire and release: whoever deletes has seen all that the others did with it.
        if (parts_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    }

    static bool failed_here(strand_core& core, const std::exception_ptr& what) {
        const entry& at = static_cast<entry&>(core);
        const auto& on_error = at.home->table->options.on_error;
        if (on_error) on_error(*at.key, what);
        return static_cast<bool>(on_error);
    }
    static retired idle_here(strand_core& core) noexcept {
        auto& at = static_cast<entry&>(core);
        shard& in = *at.home;
        if (at.poisoned && !in.orphan) return {};
        entry** place = &in.buckets[bucket(in, at.hash)];
        while (*place != &at) place = &(*place)->chain;
        entry* const surplus = in.table->unlink(in, place);
        if (in.orphan && in.size == 0) {
            delete surplus;
            return {[](void* what) noexcept { static_cast<key_table*>(what)->leave(); }, in.table};
        }
        return surplus == nullptr ? retired{}
                                  : retired{[](void* what) noexcept { delete static_cast<entry*>(what); }, surplus};
    }
    static constexpr strand_operations operations_here{{nullptr, nullptr, nullptr, true}, failed_here, idle_here};

    std::array<shard, shard_count> shards_{};
    std::atomic<std::size_t> parts_{shard_count + 1};  // shards that may have keys, and the handle
    [[no_unique_address]] Hash hash_;
    [[no_unique_address]] Equal equal_;
};

}  // namespace detail

/// Runs tasks on a pool's workers: those of one key in the order in which they were posted and never two at a time,
/// those of different keys in parallel.
///
/// A key costs memory only while it has tasks; nothing is made or closed by hand. Limits and errors are as of a strand
/// (strand.hpp), for each key. A poisoned key is kept until reset(key).
/// Key: copyable, hashed by Hash, compared by Equal; they are called under a lock and must not post.
/// Threads: all operations may be called by any number of threads, and within tasks. The destructor waits for nothing:
/// what was posted still runs. The pool outlives it.
/// Cost: as a strand, and a look into a hash table. A key with tasks takes about 100 bytes and itself; the table keeps
/// 8 bytes for each of the most keys that it has had at a time.
template <class Key, class Hash = std::hash<Key>, class Equal = std::equal_to<Key>>
class keyed_executor {
 public:
    /// Throws: std::bad_alloc.
    explicit keyed_executor(thread_pool& pool, keyed_options<Key> options = {}, Hash hash = {}, Equal equal = {})
        : pool_(&pool), table_(new table(std::move(options), std::move(hash), std::move(equal))) {}
    keyed_executor(const keyed_executor&) = delete;
    keyed_executor& operator=(const keyed_executor&) = delete;
    ~keyed_executor() { table::abandon(table_); }

    /// Posts a task of that key whatever limit is reached; with overflow::drop_oldest in place of the oldest then.
    /// Returns: posted, closed or poisoned. Throws: std::bad_alloc, or what copying the key or moving the callables
    /// throws; nothing is posted then.
    template <task_callable Run, cancel_callable Cancel = no_cancel>
    post_status post(const Key& key, Run&& run, Cancel&& cancel = {}) {
        const spot at(*table_, key);
        return at.place(*pool_).post(detail::admission::always, at, std::forward<Run>(run),
                                     std::forward<Cancel>(cancel));
    }
    /// The same within all limits. Returns: posted, full, closed or poisoned, at once.
    template <task_callable Run, cancel_callable Cancel = no_cancel>
    [[nodiscard]] post_status try_post(const Key& key, Run&& run, Cancel&& cancel = {}) {
        const spot at(*table_, key);
        return at.place(*pool_).post(detail::admission::within_limits, at, std::forward<Run>(run),
                                     std::forward<Cancel>(cancel));
    }
    /// The same, waiting for room. Returns: posted, closed, poisoned or timed_out; from within a task of the pool, and
    /// of a pool without workers, full at once, since whoever could make room would be waiting.
    template <task_callable Run, cancel_callable Cancel = no_cancel>
    [[nodiscard]] post_status wait_post(const Key& key, Run&& run, std::chrono::nanoseconds timeout,
                                        Cancel&& cancel = {}) {
        const spot at(*table_, key);
        return at.place(*pool_).wait_post(timeout, at, std::forward<Run>(run), std::forward<Cancel>(cancel));
    }

    /// Takes tasks of a key again after one failed (poison_on_error). Returns: whether it was poisoned.
    bool reset(const Key& key) {
        const spot at(*table_, key);
        detail::retired gone;
        bool was = false;
        {
            const std::lock_guard held(at.home.mutex);
            if (entry* const there = table_->find(at.home, at.hash, key); there != nullptr) {
                was = std::exchange(there->poisoned, false);
                gone = there->leave();
            }
        }
        gone.end();
        return was;
    }
    /// Keys that have tasks or are poisoned now. Cost: 64 locks.
    [[nodiscard]] std::size_t keys() const {
        std::size_t sum = 0;
        for (auto& each : table_->shards()) {
            const std::lock_guard held(each.mutex);
            sum += each.size;
        }
        return sum;
    }

 private:
    using table = detail::key_table<Key, Hash, Equal>;
    using entry = typename table::entry;

    /// Where a key belongs.
    struct spot {
        spot(table& in, const Key& k) : of(in), key(k), hash(in.hash_of(k)), home(in.shard_of(hash)) {}
        [[nodiscard]] detail::poster place(thread_pool& pool) const noexcept { return {pool, home.mutex, of.rules}; }
        [[nodiscard]] detail::strand_core& operator()() const { return of.find_or_add(home, hash, key); }

        table& of;
        const Key& key;
        const std::uint64_t hash;
        typename table::shard& home;
    };

    thread_pool* pool_;
    table* table_;
};

}  // namespace holdfast::executor
