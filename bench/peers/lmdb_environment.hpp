// SPDX-License-Identifier: Apache-2.0
// lmdb_environment.hpp - LMDB at its fastest for data that need not survive a power failure: files on tmpfs, a writable
// map, no synchronisation, no read-ahead, integer keys; reads within one transaction over a whole run of operations,
// and writes likewise, so that a transaction's cost is spread over all of them.
#pragma once

#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "workload/memory_pool.hpp"

namespace holdfast::bench {

[[nodiscard]] inline std::string lmdb_version() {
    return "LMDB " + std::to_string(MDB_VERSION_MAJOR) + "." + std::to_string(MDB_VERSION_MINOR) + "." +
           std::to_string(MDB_VERSION_PATCH);
}

inline void lmdb_check(int code, const char* what) {
    if (code != MDB_SUCCESS) throw std::runtime_error(std::string("LMDB: ") + what + ": " + mdb_strerror(code));
}

/// What 100,000 transactions a second leave behind, some four pages each, while a reader's core is away for half a
/// second: no page goes that a reader may still look at.
inline constexpr std::uint64_t lmdb_grows_beside = std::uint64_t{1} << 30;

/// A folder below /dev/shm for the files of one environment. It goes with this, or before: open and mapped they stay,
/// and a run that is killed leaves nothing.
class lmdb_files {
 public:
    lmdb_files() {
        char folder[] = "/dev/shm/holdfast-bench-lmdb-XXXXXX";
        if (::mkdtemp(folder) == nullptr) throw std::runtime_error("LMDB: no folder in /dev/shm");
        folder_ = folder;
    }
    lmdb_files(const lmdb_files&) = delete;
    lmdb_files& operator=(const lmdb_files&) = delete;
    ~lmdb_files() { remove(); }
    [[nodiscard]] const std::string& folder() const noexcept { return folder_; }
    void remove() const noexcept {
        ::unlink((folder_ + "/data.mdb").c_str());
        ::unlink((folder_ + "/lock.mdb").c_str());
        ::rmdir(folder_.c_str());
    }

 private:
    std::string folder_;
};

/// An environment of one database.
class lmdb_environment {
 public:
    enum class role : std::uint8_t { first, second };  ///< who makes the database, who opens it

    /// In files that lose their names at once.
    lmdb_environment(std::uint64_t map_bytes, unsigned database_flags)
        : lmdb_environment(lmdb_files(), map_bytes, database_flags, role::first) {}
    /// In files that another process may open too: once in each, and never in one that was forked with it open.
    lmdb_environment(const lmdb_files& files, std::uint64_t map_bytes, unsigned database_flags, role as) {
        try {
            lmdb_check(mdb_env_create(&environment_), "create");
            lmdb_check(mdb_env_set_mapsize(environment_, map_bytes), "map size");
            lmdb_check(
                mdb_env_open(environment_, files.folder().c_str(),
                             MDB_WRITEMAP | MDB_NOSYNC | MDB_NOMETASYNC | MDB_NORDAHEAD | MDB_NOMEMINIT | MDB_NOTLS,
                             0600),
                "open");
            MDB_txn* txn = nullptr;
            lmdb_check(mdb_txn_begin(environment_, nullptr, as == role::first ? 0 : MDB_RDONLY, &txn), "begin");
            const unsigned create = as == role::first ? MDB_CREATE : 0;
            lmdb_check(mdb_dbi_open(txn, nullptr, database_flags | create, &database_), "database");
            lmdb_check(mdb_txn_commit(txn), "commit");
        } catch (...) {
            close();
            throw;
        }
    }
    lmdb_environment(const lmdb_environment&) = delete;
    lmdb_environment& operator=(const lmdb_environment&) = delete;
    ~lmdb_environment() { close(); }

    [[nodiscard]] MDB_env* get() const noexcept { return environment_; }
    [[nodiscard]] MDB_dbi database() const noexcept { return database_; }
    [[nodiscard]] std::uint64_t size() const {
        MDB_stat stat{};
        MDB_txn* txn = nullptr;
        lmdb_check(mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &txn), "begin");
        const int code = mdb_stat(txn, database_, &stat);
        mdb_txn_abort(txn);
        lmdb_check(code, "stat");
        return stat.ms_entries;
    }
    /// Pages in use, of which the kernel is not asked for huge ones: a file on tmpfs that LMDB maps by itself.
    [[nodiscard]] workload::memory_use memory() const {
        MDB_envinfo info{};
        MDB_stat stat{};
        lmdb_check(mdb_env_info(environment_, &info), "info");
        lmdb_check(mdb_env_stat(environment_, &stat), "stat");
        return {(info.me_last_pgno + 1) * stat.ms_psize, 0, 0};
    }

 private:
    void close() noexcept {
        if (environment_ != nullptr) mdb_env_close(environment_);
    }

    MDB_env* environment_ = nullptr;
    MDB_dbi database_ = 0;
};

/// A read transaction that is opened once and renewed, with a cursor: what a reader of many keys does.
class lmdb_reading {
 public:
    explicit lmdb_reading(const lmdb_environment& environment) {
        lmdb_check(mdb_txn_begin(environment.get(), nullptr, MDB_RDONLY, &txn_), "begin");
        lmdb_check(mdb_cursor_open(txn_, environment.database(), &cursor_), "cursor");
        mdb_txn_reset(txn_);
    }
    lmdb_reading(const lmdb_reading&) = delete;
    lmdb_reading& operator=(const lmdb_reading&) = delete;
    ~lmdb_reading() {
        mdb_cursor_close(cursor_);
        mdb_txn_abort(txn_);
    }
    void begin() const {
        lmdb_check(mdb_txn_renew(txn_), "renew");
        lmdb_check(mdb_cursor_renew(txn_, cursor_), "cursor");
    }
    void end() const { mdb_txn_reset(txn_); }
    [[nodiscard]] MDB_cursor* cursor() const noexcept { return cursor_; }
    [[nodiscard]] MDB_txn* transaction() const noexcept { return txn_; }

 private:
    MDB_txn* txn_ = nullptr;
    MDB_cursor* cursor_ = nullptr;
};

}  // namespace holdfast::bench
