// SPDX-License-Identifier: Apache-2.0
// memory_kinds.hpp - one behavioural suite over every kind of memory: a fresh place of a kind, and a second handle on
// what lies there.
#pragma once

#include <gtest/gtest.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/segment.hpp"
#include "support/unique_name.hpp"

namespace holdfast::test {

/// A URI of the wanted kind that nobody else uses; whatever is made there goes with it.
class memory_place {
 public:
    explicit memory_place(std::string_view kind) : registry_(directory_.file("registry")) {
        if (kind == "posix") {
            posix_.emplace("kind");
            uri_ = posix_->uri();
        } else if (kind == "file") {
            uri_ = directory_.file_uri("segment");
        } else if (kind == "sysv" || kind == "sysv+huge") {
            std::random_device entropy;
            do uri_ = std::string(kind) + ":" + std::to_string((entropy() & 0x3fffffffU) + 1);
            while (segment_exists());
        } else {
            uri_ = std::string(kind) + ":";
        }
    }
    memory_place(const memory_place&) = delete;
    memory_place& operator=(const memory_place&) = delete;
    ~memory_place() {
        if (owner_ == ::getpid() && memory::uri::parse(uri_).is_sysv()) clear();
    }

    /// What lies there, companions and left-overs included. Requires: a kind that has names.
    [[nodiscard]] std::vector<std::string> entries() const {
        const auto where = holdfast::detail::places_of(memory::uri::parse(uri_));
        std::string part = where.data_name;
        if (part.empty()) part = where.lease_name.substr(0, where.lease_name.rfind('.') + 1);  // of this key alone
        return entries_containing(where.directory, part);
    }
    /// Removes all that lies there. Requires: as entries().
    void clear() const {
        const memory::uri name = memory::uri::parse(uri_);
        const auto where = holdfast::detail::places_of(name);
        for (const std::string& entry : entries()) ::unlink((where.directory + "/" + entry).c_str());
        const int id = name.is_sysv() ? ::shmget(static_cast<key_t>(name.key), 0, 0) : -1;
        if (id >= 0) ::shmctl(id, IPC_RMID, nullptr);
    }

    [[nodiscard]] const std::string& uri() const noexcept { return uri_; }
    [[nodiscard]] const std::string& registry() const noexcept { return registry_; }

    /// A second handle, as another process would get it: by name, or by the creator's descriptors.
    [[nodiscard]] segment attach_again(const segment& creator, access mode) const {
        if (creator.name().is_memfd()) return segment::attach(creator.descriptors(), mode);
        return segment::attach(uri_, mode);
    }

 private:
    [[nodiscard]] bool segment_exists() const {
        return ::shmget(static_cast<key_t>(memory::uri::parse(uri_).key), 0, 0) >= 0;
    }

    unique_directory directory_{"kind"};
    std::string registry_;
    scoped_environment environment_{"HOLDFAST_REGISTRY", registry_};
    std::optional<unique_posix_name> posix_;
    std::string uri_;
    pid_t owner_ = ::getpid();
};

/// Kinds that a second process can attach to; heap: is private to one.
inline const std::vector<std::string> shareable_kinds{"posix", "file", "memfd", "anon", "sysv"};
inline const std::vector<std::string> named_kinds{"posix", "file", "sysv"};
inline const std::vector<std::string> every_kind{"posix", "file", "memfd", "anon", "heap", "sysv"};

/// Names the cases of INSTANTIATE_TEST_SUITE_P by kind.
inline std::string kind_case_name(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

}  // namespace holdfast::test
