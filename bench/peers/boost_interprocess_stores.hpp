// SPDX-License-Identifier: Apache-2.0
// boost_interprocess_stores.hpp - Boost.Interprocess as an array under its process-shared mutex, and as a store of
// values: blocks of a managed segment by its default (best-fit) allocator, read by memcpy from the address behind a
// handle. The store checks nothing: a block that was freed meanwhile is read all the same, and its own lock, left
// behind by a killed process, stops everybody.
#pragma once

#include <unistd.h>

#include <boost/interprocess/managed_shared_memory.hpp>
#include <boost/interprocess/sync/interprocess_mutex.hpp>
#include <boost/interprocess/sync/scoped_lock.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "bench/peers/boost_interprocess.hpp"
#include "workload/array_own.hpp"
#include "workload/block_store_subject.hpp"

namespace holdfast::bench {

template <std::size_t Bytes>
class interprocess_array {
    struct shared {
        boost::interprocess::interprocess_mutex mutex;
    };
    static constexpr std::size_t head_bytes = 128;

 public:
    using element = workload::fixed_message<Bytes>;
    static constexpr std::string_view name = "boost::interprocess mutex and an array";
    static constexpr workload::far_place place = workload::far_place::process;
    static constexpr bool beside_writer = true;
    static std::string version() { return boost_version_text(); }

    explicit interprocess_array(const workload::array_request& request)
        : pages_(std::make_unique<workload::shared_pages>(head_bytes + request.size * Bytes)),
          shared_(::new(pages_->bytes().data()) shared),
          elements_(pages_->bytes().data() + head_bytes) {}
    void open_writer() {}
    void open_reader() {}
    bool load(std::uint64_t index, element& out) const {
        const lock hold(shared_->mutex);
        std::memcpy(&out, elements_ + index * Bytes, Bytes);
        return true;
    }
    void store(std::uint64_t index, const element& e) {
        const lock hold(shared_->mutex);
        std::memcpy(elements_ + index * Bytes, &e, Bytes);
    }

 private:
    using lock = boost::interprocess::scoped_lock<boost::interprocess::interprocess_mutex>;
    std::unique_ptr<workload::shared_pages> pages_;
    shared* shared_;
    std::byte* elements_;
};

class interprocess_store {
 public:
    static constexpr std::string_view name = "boost::interprocess::managed_shared_memory";
    static constexpr workload::far_place place = workload::far_place::process;
    static constexpr bool beside_writer = false;
    static constexpr bool tells_stale = false;
    static std::string version() { return boost_version_text(); }

    explicit interprocess_store(const workload::block_store_request& request)
        : bytes_(request.value_bytes),
          name_("holdfast-bench-boost-store-" + std::to_string(::getpid()) + "-" + request.name),
          memory_(boost::interprocess::create_only, name_.c_str(),
                  (request.values + 1) * (request.value_bytes + 64) + 65'536) {
        boost::interprocess::shared_memory_object::remove(
            name_.c_str());  // mapped it stays, in the writer's process too; a killed run leaves nothing
    }
    void open_writer() const {}
    void open_reader() const {}
    std::uint64_t allocate(std::span<const std::byte> value) {
        void* const block = memory_.allocate(value.size(), std::nothrow);
        if (block == nullptr) return 0;
        std::memcpy(block, value.data(), value.size());
        return static_cast<std::uint64_t>(memory_.get_handle_from_address(block));
    }
    bool free(std::uint64_t handle) {
        memory_.deallocate(memory_.get_address_from_handle(as_handle(handle)));
        return true;
    }
    std::size_t read(std::uint64_t handle, std::span<std::byte> out) const {
        std::memcpy(out.data(), memory_.get_address_from_handle(as_handle(handle)), bytes_);
        return bytes_;
    }
    bool look(std::uint64_t handle, std::uint64_t& sum) const {
        sum = workload::sum_of_words(memory_.get_address_from_handle(as_handle(handle)), bytes_);
        return true;
    }
    void begin_reads() const {}
    void end_reads() const {}
    void begin_writes() const {}
    void end_writes() const {}

 private:
    using memory = boost::interprocess::managed_shared_memory;
    [[nodiscard]] static memory::handle_t as_handle(std::uint64_t handle) {
        return static_cast<memory::handle_t>(handle);
    }
    std::size_t bytes_;
    std::string name_;
    memory memory_;
};

}  // namespace holdfast::bench
