// SPDX-License-Identifier: Apache-2.0
// boost_asio_strand.hpp - boost::asio::strand over boost::asio::thread_pool, one strand object a key (the older
// io_context::strand shares 193 implementations). A pool of one thread tells the scheduler so, which then saves locks.
#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/version.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workload/executor_subject.hpp"

namespace holdfast::bench {

class asio_strands {
 public:
    static constexpr std::string_view name = "boost::asio::strand";
    static std::string version() {
        return "Boost " + std::to_string(BOOST_VERSION / 100000) + "." + std::to_string(BOOST_VERSION / 100 % 1000);
    }
    explicit asio_strands(const workload::executor_request& request) : pool_(request.workers) {
        for (std::size_t i = 0; i < request.keys; ++i) strands_.emplace_back(pool_.get_executor());
    }
    asio_strands(const asio_strands&) = delete;
    asio_strands& operator=(const asio_strands&) = delete;
    ~asio_strands() { pool_.join(); }
    template <class Task>
    void post(std::size_t key, Task&& task) {
        boost::asio::post(strands_[key], std::forward<Task>(task));
    }

 private:
    boost::asio::thread_pool pool_;
    std::vector<boost::asio::strand<boost::asio::thread_pool::executor_type>> strands_;
};

}  // namespace holdfast::bench
