// SPDX-License-Identifier: Apache-2.0
// lmdb_table.hpp - LMDB as a table: the established way to share a map between processes with readers that no writer
// stops. See lmdb_environment.hpp for its settings. It orders its keys, which a hash table does not.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/peers/lmdb_environment.hpp"
#include "workload/hash_table_subject.hpp"

namespace holdfast::bench {

template <class Value>
class lmdb_table {
 public:
    using value = Value;
    static constexpr std::string_view name = "LMDB";
    static constexpr bool in_dev_shm = true;
    static constexpr bool concurrent_readers = true;
    static std::string version() { return lmdb_version(); }

    /// The map is far larger than the data (its file has holes): what a writer replaces while a reader's transaction
    /// goes on stays until that ends.
    explicit lmdb_table(const workload::table_request& request)
        : environment_(request.entries * (8 + sizeof(Value)) * 6 + (std::uint64_t{16} << 30), MDB_INTEGERKEY),
          reading_(environment_) {}

    void begin_reads() const { reading_.begin(); }
    void end_reads() const { reading_.end(); }
    void begin_writes() { lmdb_check(mdb_txn_begin(environment_.get(), nullptr, 0, &writing_), "begin"); }
    void end_writes() {
        updating_ = nullptr;  // LMDB closes it with the transaction
        lmdb_check(mdb_txn_commit(std::exchange(writing_, nullptr)), "commit");
    }

    bool find(std::uint64_t key, Value& out) const {
        MDB_val k{sizeof key, &key};
        MDB_val v{};
        if (mdb_get(reading_.transaction(), environment_.database(), &k, &v) != MDB_SUCCESS) return false;
        std::memcpy(&out, v.mv_data, sizeof out);
        return true;
    }
    bool insert(std::uint64_t key, const Value& v) { return put(key, v, MDB_NOOVERWRITE) == MDB_SUCCESS; }
    bool update(std::uint64_t key, const Value& v) {
        // One descent: the value is replaced where the cursor found it.
        if (updating_ == nullptr) lmdb_check(mdb_cursor_open(writing_, environment_.database(), &updating_), "cursor");
        MDB_val k{sizeof key, &key};
        MDB_val data{};
        if (mdb_cursor_get(updating_, &k, &data, MDB_SET) != MDB_SUCCESS) return false;
        data = {sizeof v, const_cast<Value*>(&v)};
        return mdb_cursor_put(updating_, &k, &data, MDB_CURRENT) == MDB_SUCCESS;
    }
    bool erase(std::uint64_t key) {
        MDB_val k{sizeof key, &key};
        return mdb_del(writing_, environment_.database(), &k, nullptr) == MDB_SUCCESS;
    }
    void clear() {
        begin_writes();
        lmdb_check(mdb_drop(writing_, environment_.database(), 0), "drop");
        end_writes();
    }
    /// In key order, appending: full pages.
    void load(std::span<const std::uint64_t> keys) {
        std::vector<std::uint64_t> sorted(keys.begin(), keys.end());
        std::sort(sorted.begin(), sorted.end());
        begin_writes();
        for (const std::uint64_t key : sorted)
            lmdb_check(put(key, workload::value_of<Value>(key), MDB_APPEND), "append");
        end_writes();
    }
    [[nodiscard]] std::uint64_t size() const { return environment_.size(); }
    [[nodiscard]] workload::memory_use memory() const { return environment_.memory(); }

 private:
    int put(std::uint64_t key, const Value& v, unsigned flags) {
        MDB_val k{sizeof key, &key};
        MDB_val data{sizeof v, const_cast<Value*>(&v)};
        return mdb_put(writing_, environment_.database(), &k, &data, flags);
    }

    lmdb_environment environment_;
    lmdb_reading reading_;
    MDB_txn* writing_ = nullptr;
    MDB_cursor* updating_ = nullptr;  // of `writing_`, from its first update on
};

}  // namespace holdfast::bench
