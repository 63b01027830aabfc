// SPDX-License-Identifier: Apache-2.0
// boost_interprocess.hpp - Boost.Interprocess: an object under its process-shared mutex, and its managed shared memory.
// A process killed while it holds the mutex keeps everybody else out for ever.
#pragma once

#include <boost/interprocess/managed_shared_memory.hpp>
#include <boost/interprocess/sync/interprocess_mutex.hpp>
#include <boost/interprocess/sync/scoped_lock.hpp>
#include <boost/version.hpp>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <unistd.h>

#include "workload/segment_subject.hpp"
#include "workload/snapshot_subject.hpp"

namespace holdfast::bench {

[[nodiscard]] inline std::string boost_version_text() {
    return "Boost " + std::to_string(BOOST_VERSION / 100000) + "." + std::to_string(BOOST_VERSION / 100 % 1000);
}

/// Mutex and object in one managed segment.
class interprocess_snapshot {
 public:
    static constexpr std::string_view name = "boost::interprocess mutex and a copy";
    static std::string version() { return boost_version_text(); }
    static constexpr workload::far_place place = workload::far_place::process;
    explicit interprocess_snapshot(const workload::snapshot_request& request)
        : name_(fresh()),
          memory_(boost::interprocess::create_only, name_.c_str(), request.words * sizeof(std::uint64_t) + 65'536),
          mutex_(memory_.construct<boost::interprocess::interprocess_mutex>("mutex")()),
          object_(memory_.construct<std::uint64_t>("object")[request.words]()),
          words_(request.words) {
        boost::interprocess::shared_memory_object::remove(
            name_.c_str());  // mapped it stays, in the writer's process too; a killed run leaves nothing
    }
    void open_writer() {}
    void open_reader() {}

    bool read(std::span<std::uint64_t> out) {
        const lock hold(*mutex_);
        std::memcpy(out.data(), object_, out.size_bytes());
        return true;
    }
    bool look(std::uint64_t& sum) {
        const lock hold(*mutex_);
        sum = std::accumulate(object_, object_ + words_, std::uint64_t{0});
        return true;
    }
    bool publish(std::span<const std::uint64_t> object) {
        const lock hold(*mutex_);
        std::memcpy(object_, object.data(), object.size_bytes());
        return true;
    }

 private:
    using lock = boost::interprocess::scoped_lock<boost::interprocess::interprocess_mutex>;
    static std::string fresh() {
        static unsigned count = 0;
        return "holdfast-bench-boost-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
    }

    std::string name_;
    boost::interprocess::managed_shared_memory memory_;
    boost::interprocess::interprocess_mutex* mutex_;
    std::uint64_t* object_;
    std::size_t words_;
};

/// A managed segment with one named object in it.
class interprocess_segment {
 public:
    static constexpr std::string_view name = "boost::interprocess::managed_shared_memory";
    static std::string version() { return boost_version_text(); }
    interprocess_segment(const std::string& name_of_it, std::uint64_t bytes) : name_(name_of_it), bytes_(bytes) {}

    void create() {
        boost::interprocess::managed_shared_memory made(boost::interprocess::create_only, name_.c_str(), bytes_);
        made.construct<std::uint64_t>("word")(workload::segment_word);
    }
    void remove() { boost::interprocess::shared_memory_object::remove(name_.c_str()); }
    std::uint64_t attach() {
        boost::interprocess::managed_shared_memory there(boost::interprocess::open_read_only, name_.c_str());
        // Without its lock, as a reader must that may not write.
        const auto found = there.find_no_lock<std::uint64_t>("word");
        if (found.first == nullptr) throw std::runtime_error(std::string(name) + ": the object is not there");
        return *found.first;
    }

 private:
    std::string name_;
    std::uint64_t bytes_;
};

}  // namespace holdfast::bench
