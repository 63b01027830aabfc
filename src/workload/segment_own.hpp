// SPDX-License-Identifier: Apache-2.0
// segment_own.hpp - the adapters that need no package: our segments, and the bare system calls with and without what
// makes a full tmpfs an error instead of a later SIGBUS.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "holdfast/error.hpp"
#include "holdfast/segment.hpp"
#include "workload/instruction_set.hpp"
#include "workload/segment_subject.hpp"

namespace holdfast::workload {

/// Ours on tmpfs: header, lease, reserved pages, published whole, entered in the registry.
class own_segment {
 public:
    static constexpr std::string_view name = "holdfast";
    static std::string version() { return own_version(); }
    own_segment(const std::string& name_of_it, std::uint64_t bytes) : uri_("posix:/" + name_of_it), bytes_(bytes) {}

    void create() {
        segment_spec spec;
        spec.body_bytes = bytes_;
        const segment made = segment::create(uri_, spec, {}, [](std::span<std::byte> body) {
            std::memcpy(body.data(), &segment_word, sizeof segment_word);
        });
    }
    void remove() { segment::remove(uri_); }
    std::uint64_t attach() {
        const segment there = segment::attach(uri_, access::read_only);
        std::uint64_t word = 0;
        std::memcpy(&word, there.bytes().data(), sizeof word);
        return word;
    }

 private:
    std::string uri_;
    std::uint64_t bytes_;
};

/// shm_open, ftruncate, mmap: nothing is promised, whoever opens it early sees half of it.
template <bool Reserve>
class bare_segment {
 public:
    static constexpr std::string_view name =
        Reserve ? "shm_open, posix_fallocate and mmap" : "shm_open, ftruncate and mmap";
    static std::string version() {
        struct utsname system{};
        return ::uname(&system) == 0 ? "Linux " + std::string(system.release) : "Linux";
    }
    bare_segment(const std::string& name_of_it, std::uint64_t bytes) : name_("/" + name_of_it), bytes_(bytes) {}

    void create() {
        const memory::descriptor file(::shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        if (!file) memory::throw_errno(errno, name_, "shm_open");
        const int failed = Reserve ? ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes_))
                                   : (::ftruncate(file.get(), static_cast<off_t>(bytes_)) == 0 ? 0 : errno);
        if (failed != 0) memory::throw_errno(failed, name_, "giving it its size");
        void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
        if (at == MAP_FAILED) memory::throw_errno(errno, name_, "mmap");
        std::memcpy(at, &segment_word, sizeof segment_word);
        ::munmap(at, bytes_);
    }
    void remove() { ::shm_unlink(name_.c_str()); }
    std::uint64_t attach() {
        const memory::descriptor file(::shm_open(name_.c_str(), O_RDONLY | O_CLOEXEC, 0));
        if (!file) memory::throw_errno(errno, name_, "shm_open");
        void* const at = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file.get(), 0);
        if (at == MAP_FAILED) memory::throw_errno(errno, name_, "mmap");
        std::uint64_t word = 0;
        std::memcpy(&word, at, sizeof word);
        ::munmap(at, bytes_);
        return word;
    }

 private:
    std::string name_;
    std::uint64_t bytes_;
};

}  // namespace holdfast::workload
