// SPDX-License-Identifier: Apache-2.0
// lmdb_index.hpp - LMDB as a sorted index: appended in order, read through one cursor of a transaction that stays open,
// which is as fast as LMDB reads, and means that it sees one state for all its life. Settings: lmdb_environment.hpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "bench/peers/lmdb_environment.hpp"
#include "workload/sorted_index_subject.hpp"

namespace holdfast::bench {

template <class K>
class lmdb_index {
 public:
    using key = K;
    using value = workload::index_value<K>;
    static constexpr std::string_view name = "LMDB";
    static constexpr bool in_dev_shm = true;
    static std::string version() { return lmdb_version(); }

    lmdb_index(const workload::index_records<K>& records, workload::page_choice)
        : environment_(records.keys.size() * 3 * sizeof(K) * 4 + (std::uint64_t{64} << 20), MDB_INTEGERKEY) {
        MDB_txn* txn = nullptr;
        lmdb_check(mdb_txn_begin(environment_.get(), nullptr, 0, &txn), "begin");
        for (std::size_t i = 0; i < records.keys.size(); ++i) {
            MDB_val k{sizeof(K), const_cast<K*>(&records.keys[i])};
            MDB_val v{sizeof(value), const_cast<value*>(&records.values[i])};
            lmdb_check(mdb_put(txn, environment_.database(), &k, &v, MDB_APPEND), "append");
        }
        lmdb_check(mdb_txn_commit(txn), "commit");
        reading_.emplace(environment_);
        reading_->begin();
    }

    bool find(K wanted, value& out) {
        MDB_val k{sizeof wanted, &wanted};
        MDB_val v{};
        if (mdb_cursor_get(reading_->cursor(), &k, &v, MDB_SET) != MDB_SUCCESS) return false;
        std::memcpy(&out, v.mv_data, sizeof out);
        return true;
    }
    bool cover(K wanted, value& out) {
        MDB_val k{sizeof wanted, &wanted};
        MDB_val v{};
        // The first key not below; if it is above, or there is none, the record before it.
        const int code = mdb_cursor_get(reading_->cursor(), &k, &v, MDB_SET_RANGE);
        if (code != MDB_SUCCESS) {
            if (mdb_cursor_get(reading_->cursor(), &k, &v, MDB_LAST) != MDB_SUCCESS) return false;
        } else if (key_of(k) != wanted && mdb_cursor_get(reading_->cursor(), &k, &v, MDB_PREV) != MDB_SUCCESS) {
            return false;
        }
        std::memcpy(&out, v.mv_data, sizeof out);
        return wanted <= out.end;
    }
    std::uint64_t scan(K from, std::uint64_t count) {
        MDB_val k{sizeof from, &from};
        MDB_val v{};
        std::uint64_t sum = 0;
        for (int code = mdb_cursor_get(reading_->cursor(), &k, &v, MDB_SET_RANGE); code == MDB_SUCCESS && count > 0;
             --count) {
            value out;
            std::memcpy(&out, v.mv_data, sizeof out);
            sum += out.number;
            if (count > 1) code = mdb_cursor_get(reading_->cursor(), &k, &v, MDB_NEXT);
        }
        return sum;
    }
    [[nodiscard]] workload::memory_use memory() const { return environment_.memory(); }

 private:
    static K key_of(const MDB_val& k) {
        K at;
        std::memcpy(&at, k.mv_data, sizeof at);
        return at;
    }

    lmdb_environment environment_;
    std::optional<lmdb_reading> reading_;
};

}  // namespace holdfast::bench
