// SPDX-License-Identifier: Apache-2.0
// ways.hpp - ways to look up many keys of one table, by what is asked for while others are waited for.
//
// Each answers a stretch of a list of keys and returns the sum of the values that it found.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/batch.hpp"

namespace study {

using number_table = holdfast::hash_table<std::uint64_t, std::uint64_t>;
using keys = std::span<const std::uint64_t>;

inline std::uint64_t one_at_a_time(const number_table& of, keys asked) {
    std::uint64_t sum = 0;
    for (const std::uint64_t key : asked) sum += of.find(key).value_or(0);
    return sum;
}

/// find_many, so many keys at a call.
inline std::uint64_t many_at_a_time(const number_table& of, keys asked, std::size_t group) {
    std::array<std::optional<std::uint64_t>, 256> found;
    std::uint64_t sum = 0;
    while (!asked.empty()) {
        const std::size_t n = group < asked.size() ? group : asked.size();
        of.find_many(asked.first(n), std::span(found).first(n));
        for (std::size_t i = 0; i < n; ++i) sum += found[i].value_or(0);
        asked = asked.subspan(n);
    }
    return sum;
}

/// The same in groups of up to so many, where the product takes 32 at a time (holdfast/hash_table/batch.hpp).
template <std::size_t Group>
std::uint64_t in_groups(const number_table& of, keys asked, std::size_t at_a_call) {
    namespace detail = holdfast::detail;
    using finder_type = detail::hash_table_finder<detail::fixed_node<std::uint64_t, std::uint64_t>>;
    const finder_type finder(typename finder_type::view(of.segment().bytes(), of.geometry(), {}));
    std::vector<std::optional<std::uint64_t>> found(at_a_call);
    std::uint64_t sum = 0;
    while (!asked.empty()) {
        const keys now = asked.first(at_a_call < asked.size() ? at_a_call : asked.size());
        detail::optional_answers<std::uint64_t> answers{found};
        detail::find_batch<Group>(finder, reinterpret_cast<const std::byte*>(now.data()), now.size(), answers);
        for (std::size_t i = 0; i < now.size(); ++i) sum += found[i].value_or(0);
        asked = asked.subspan(now.size());
    }
    return sum;
}

/// A key is asked for `distance` lookups before its turn.
inline std::uint64_t ahead(const number_table& of, keys asked, std::size_t distance) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < distance && i < asked.size(); ++i) of.prefetch(asked[i]);
    for (std::size_t i = 0; i < asked.size(); ++i) {
        if (i + distance < asked.size()) of.prefetch(asked[i + distance]);
        sum += of.find(asked[i]).value_or(0);
    }
    return sum;
}

/// A worker that takes the next key, asks for it, lets the others go on, and looks it up when its turn comes again:
/// what a server does that handles a request in each coroutine.
class worker {
 public:
    struct promise_type {
        worker get_return_object() { return worker(std::coroutine_handle<promise_type>::from_promise(*this)); }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    explicit worker(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
    worker(worker&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    worker& operator=(worker&&) = delete;
    ~worker() {
        if (handle_) handle_.destroy();
    }
    /// Returns: whether it has more to do.
    bool go_on() {
        if (!handle_.done()) handle_.resume();
        return !handle_.done();
    }

 private:
    std::coroutine_handle<promise_type> handle_;
};

inline worker work(const number_table& of, keys asked, std::size_t& next, std::uint64_t& sum) {
    while (next < asked.size()) {
        const std::uint64_t key = asked[next++];
        of.prefetch(key);
        co_await std::suspend_always{};
        sum += of.find(key).value_or(0);
    }
}

/// So many coroutines that go on in turn.
inline std::uint64_t by_coroutines(const number_table& of, keys asked, std::size_t count) {
    std::size_t next = 0;
    std::uint64_t sum = 0;
    std::vector<worker> all;
    all.reserve(count);
    for (std::size_t i = 0; i < count; ++i) all.push_back(work(of, asked, next, sum));
    for (bool more = true; more;) {
        more = false;
        for (worker& one : all) more = one.go_on() || more;
    }
    return sum;
}

}  // namespace study
