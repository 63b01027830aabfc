// SPDX-License-Identifier: Apache-2.0
// connection_board.hpp - what the clients of one run and the one who leads them tell each other: words in shared pages.
//
// Each word has one writer: orders are the leader's, a client's words are that client's. They are counts and orders by
// themselves and publish nothing else, so every access is relaxed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "holdfast/metrics/histogram_counts.hpp"
#include "holdfast/metrics/log_linear.hpp"
#include "workload/shared_pages.hpp"

namespace holdfast::workload::connections {

inline constexpr std::size_t intervals_max = 8;
inline constexpr std::int32_t no_interval = -1;

/// A count with one writer.
class tally {
 public:
    // relaxed: see the head of this file.
    void add(std::uint64_t more) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
    std::atomic<std::uint64_t> value_{0};
};

struct alignas(128) orders {
    std::atomic<std::uint32_t> begin{0}, stop{0};
    std::atomic<std::int32_t> interval{no_interval};  ///< that answers belong to which come now
};

/// What one client has met so far.
struct alignas(128) client_words {
    tally opened;     ///< connections that have had their first answer
    tally refused;    ///< not made, or answered 503
    tally lost;       ///< closed or reset by the server
    tally timed_out;  ///< without an answer in time, and given up
    tally answers;
    tally body_bytes;
    std::atomic<std::int32_t> refusal{0};  ///< errno, or status, of the last one refused
    /// Latencies of the answers of each interval, by the buckets of every histogram here.
    std::array<std::array<std::atomic<std::uint32_t>, log_linear::buckets>, intervals_max> latencies{};

    void record(std::size_t interval, std::uint64_t ns) noexcept {
        std::atomic<std::uint32_t>& count = latencies[interval][log_linear::bucket_of(ns)];
        // relaxed: see the head of this file.
        count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
};

class board {
 public:
    explicit board(std::size_t clients) : clients_(clients), pages_(sizeof(orders) + clients * sizeof(client_words)) {
        ::new (pages_.bytes().data()) orders;
        for (std::size_t i = 0; i < clients; ++i) ::new (place(i)) client_words;
    }
    [[nodiscard]] std::size_t clients() const noexcept { return clients_; }
    [[nodiscard]] orders& to_all() noexcept { return *reinterpret_cast<orders*>(pages_.bytes().data()); }
    [[nodiscard]] client_words& of(std::size_t client) noexcept {
        return *reinterpret_cast<client_words*>(place(client));
    }

    [[nodiscard]] std::uint64_t sum(tally client_words::* what) noexcept {
        std::uint64_t all = 0;
        for (std::size_t i = 0; i < clients_; ++i) all += (of(i).*what).read();
        return all;
    }
    [[nodiscard]] histogram_counts latencies(std::size_t interval) noexcept {
        histogram_counts all;
        for (std::size_t i = 0; i < clients_; ++i)
            for (std::size_t bucket = 0; bucket < log_linear::buckets; ++bucket)
                // relaxed: see the head of this file.
                all.add(bucket, of(i).latencies[interval][bucket].load(std::memory_order_relaxed));
        return all;
    }

 private:
    [[nodiscard]] std::byte* place(std::size_t client) noexcept {
        return pages_.bytes().data() + sizeof(orders) + client * sizeof(client_words);
    }

    std::size_t clients_;
    shared_pages pages_;
};

}  // namespace holdfast::workload::connections
