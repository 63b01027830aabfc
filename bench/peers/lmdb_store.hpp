// SPDX-License-Identifier: Apache-2.0
// lmdb_store.hpp - LMDB as a store of values behind numbers: integer keys that count up, one transaction around a run
// of operations, around each that a writer beside readers does. Settings: lmdb_environment.hpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "bench/peers/lmdb_environment.hpp"
#include "workload/block_store_subject.hpp"

namespace holdfast::bench {

class lmdb_store {
 public:
    static constexpr std::string_view name = "LMDB";
    static constexpr workload::far_place place = workload::far_place::process;
    static constexpr bool beside_writer = true;
    static constexpr std::uint64_t grows_beside = lmdb_grows_beside;
    static constexpr bool tells_stale = true;  // keys count up
    static std::string version() { return lmdb_version(); }

    explicit lmdb_store(const workload::block_store_request& request)
        : map_bytes_(request.values * (request.value_bytes + 4096) * 4 + (std::uint64_t{1} << 30)) {}
    void open_writer() { writer_.emplace(files_, map_bytes_, MDB_INTEGERKEY, lmdb_environment::role::first); }
    void open_reader() {
        reader_.emplace(files_, map_bytes_, MDB_INTEGERKEY, lmdb_environment::role::second);
        reading_.emplace(*reader_);
        files_.remove();  // open in both processes they stay
    }

    void begin_reads() const { reading_->begin(); }
    void end_reads() const { reading_->end(); }
    void begin_writes() { lmdb_check(mdb_txn_begin(writer_->get(), nullptr, 0, &writing_), "begin"); }
    void end_writes() { lmdb_check(mdb_txn_commit(std::exchange(writing_, nullptr)), "commit"); }

    std::uint64_t allocate(std::span<const std::byte> value) {
        std::uint64_t key = ++last_;
        MDB_val k{sizeof key, &key};
        MDB_val v{value.size(), const_cast<std::byte*>(value.data())};
        return mdb_put(writing_, writer_->database(), &k, &v, MDB_APPEND) == MDB_SUCCESS ? key : 0;
    }
    bool free(std::uint64_t handle) {
        MDB_val k{sizeof handle, &handle};
        return mdb_del(writing_, writer_->database(), &k, nullptr) == MDB_SUCCESS;
    }
    std::size_t read(std::uint64_t handle, std::span<std::byte> out) const {
        MDB_val v{};
        if (!get(handle, v)) return 0;
        std::memcpy(out.data(), v.mv_data, v.mv_size);
        return v.mv_size;
    }
    /// LMDB gives no more than the place of the value, good until the transaction ends.
    bool look(std::uint64_t handle, std::uint64_t& sum) const {
        MDB_val v{};
        if (!get(handle, v)) return false;
        sum = workload::sum_of_words(v.mv_data, v.mv_size);
        return true;
    }

 private:
    bool get(std::uint64_t handle, MDB_val& v) const {
        MDB_val k{sizeof handle, &handle};
        return mdb_get(reading_->transaction(), reader_->database(), &k, &v) == MDB_SUCCESS;
    }

    lmdb_files files_;
    std::uint64_t map_bytes_;
    std::optional<lmdb_environment> writer_;  // of the far side's process
    std::optional<lmdb_environment> reader_;
    std::optional<lmdb_reading> reading_;
    MDB_txn* writing_ = nullptr;
    std::uint64_t last_ = 0;
};

}  // namespace holdfast::bench
