// SPDX-License-Identifier: Apache-2.0
// lmdb_string_map.hpp - LMDB from text to bytes: one transaction around a run of operations, around each that a writer
// beside readers does; settings in lmdb_environment.hpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
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
    static constexpr workload::far_place place = workload::far_place::process;
    static constexpr bool beside_writer = true;
    static constexpr std::uint64_t grows_beside = lmdb_grows_beside;
    static std::string version() { return lmdb_version(); }

    explicit lmdb_string_map(const workload::hash_map_request& request)
        : map_bytes_(request.entries * (request.value_bytes + 4096) * 4 + (std::uint64_t{1} << 30)) {}
    void open_writer() { writer_.emplace(files_, map_bytes_, 0, lmdb_environment::role::first); }
    void open_reader() {
        reader_.emplace(files_, map_bytes_, 0, lmdb_environment::role::second);
        reading_.emplace(*reader_);
        files_.remove();  // open in both processes they stay
    }

    void begin_reads() const { reading_->begin(); }
    void end_reads() const { reading_->end(); }
    void begin_writes() { lmdb_check(mdb_txn_begin(writer_->get(), nullptr, 0, &writing_), "begin"); }
    void end_writes() { lmdb_check(mdb_txn_commit(std::exchange(writing_, nullptr)), "commit"); }

    bool set(std::string_view key, std::span<const std::byte> value) {
        MDB_val k{key.size(), const_cast<char*>(key.data())};
        MDB_val v{value.size(), const_cast<std::byte*>(value.data())};
        return mdb_put(writing_, writer_->database(), &k, &v, 0) == MDB_SUCCESS;
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
        return mdb_get(reading_->transaction(), reader_->database(), &k, &v) == MDB_SUCCESS;
    }

    lmdb_files files_;
    std::uint64_t map_bytes_;
    std::optional<lmdb_environment> writer_;  // of the far side's process
    std::optional<lmdb_environment> reader_;
    std::optional<lmdb_reading> reading_;
    MDB_txn* writing_ = nullptr;
};

}  // namespace holdfast::bench
