// SPDX-License-Identifier: Apache-2.0
// traffic.hpp - constant load on the served indexes, every answer checked and every request accounted for.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "geo_file.hpp"
#include "net/load_client.hpp"

namespace geo {

/// One question and the answers that are right: one, or during a reload that of either edition.
struct question {
    std::string path;  ///< "/v1/indexes/NAME/ADDRESS"
    std::vector<std::optional<std::string>> right;
    std::vector<std::string> countries;  ///< of each right answer; empty for none
};

/// What came back.
struct tally {
    std::uint64_t answers = 0;  ///< right answers, found and not found
    std::uint64_t found = 0;
    std::uint64_t not_found = 0;
    std::uint64_t wrong = 0;    ///< an answer that no edition gives, or another status than 200 and 404
    std::uint64_t lost = 0;     ///< in flight when a connection died: may or may not have been counted
    std::uint64_t failed = 0;   ///< timed out or malformed
    std::uint64_t refused = 0;  ///< connection attempts
    std::vector<std::uint64_t>
        by_edition;  ///< right answers by which edition they come from; equal ones count for the first
    std::map<std::string, std::uint64_t> by_country;
    std::vector<std::uint32_t> latencies_us;  ///< of right answers
    std::string first_wrong;
};

/// Asks questions at random on many connections from a thread of its own until stopped.
class traffic {
 public:
    traffic(std::uint16_t port, const std::vector<question>& questions, unsigned connections, std::uint64_t seed);
    ~traffic();

    /// Right answers so far; for waiting until work has gone on.
    [[nodiscard]] std::uint64_t answers() const noexcept {
        return answers_.load(std::memory_order_relaxed);
    }  // a progress report
    /// Waits until `more` further right answers have come. Returns false when none comes for 10 seconds.
    [[nodiscard]] bool wait_for(std::uint64_t more) const;
    /// Makes no new requests, waits for those in flight, and returns what came back.
    [[nodiscard]] tally stop();

 private:
    void take(const holdfast::net::load_result& result);

    const std::vector<question>& questions_;
    std::mt19937_64 random_;
    tally tally_;
    std::atomic<std::uint64_t> answers_{0};
    std::unique_ptr<holdfast::net::load_client> client_;
    std::thread thread_;
};

/// Asks each question exactly once. Returns what came back.
[[nodiscard]] tally ask_each(std::uint16_t port, const std::vector<question>& questions, unsigned connections);

}  // namespace geo
