// SPDX-License-Identifier: Apache-2.0
// lmdb_string_map.hpp - LMDB from text to bytes: one transaction around a run of operations; settings in
// lmdb_environment.hpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "bench/peers/lmdb_environment.hpp"
#include "workload/hash_map_subject.hpp"

namespace holdfast::bench {

class lmdb_string_map {
 public:
    static constexpr std::string_view name = "LMDB";
    static std::string version() { return lmdb_version(); }

    explicit lmdb_string_map(const workload::hash_map_request& request)
        : environment_(request.entries * (request.value_bytes + 4096) * 4 + (std::uint64_t{1} << 30), 0),
          reading_(environment_) {}

    void begin_reads() const { reading_.begin(); }
    void end_reads() const { reading_.end(); }
    void begin_writes() { lmdb_check(mdb_txn_begin(environment_.get(), nullptr, 0, &writing_), "begin"); }
    void end_writes() { lmdb_check(mdb_txn_commit(std::exchange(writing_, nullptr)), "commit"); }

    bool set(std::string_view key, std::span<const std::byte> value) {
        MDB_val k{key.size(), const_cast<char*>(key.data())};
        MDB_val v{value.size(), const_cast<std::byte*>(value.data())};
        return mdb_put(writing_, environment_.database(), &k, &v, 0) == MDB_SUCCESS;
    }
    std::size_t find(std::string_view key, std::span<std::byte> out) const {
        MDB_val v{};
        if (!get(key, v)) return 0;
        std::memcpy(out.data(), v.mv_data, v.mv_size);
        return v.mv_size;
    }
    /// LMDB gives no more than the place of the value, good until the transaction ends.
    bool look(std::string_view key, std::uint64_t& sum) const {
        MDB_val v{};
        if (!get(key, v)) return false;
        sum = workload::sum_of_words(v.mv_data, v.mv_size);
        return true;
    }

 private:
    bool get(std::string_view key, MDB_val& v) const {
        MDB_val k{key.size(), const_cast<char*>(key.data())};
        return mdb_get(reading_.transaction(), environment_.database(), &k, &v) == MDB_SUCCESS;
    }

    lmdb_environment environment_;
    lmdb_reading reading_;
    MDB_txn* writing_ = nullptr;
};

}  // namespace holdfast::bench
