// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/clock.hpp"
#include "perf_test/worker_crew.hpp"
#include "perf_test/worker_work.hpp"

namespace holdfast::perf_test {
namespace {

class thread_crew final : public crew {
 public:
    thread_crew(const group_options& options, body_runner& body, const worker_memory& memory)
        : options_(options), body_(body), memory_(memory) {
        threads_.reserve(options.workers);
    }
    ~thread_crew() override {
        memory_.stop();
        for (std::thread& each : threads_) each.join();
    }

    void start(std::size_t worker) override {
        try {
            threads_.emplace_back([this, worker] { work(options_, body_, memory_, worker); });
        } catch (const std::system_error& refused) {
            throw error(errc_of_errno(refused.code().value()), options_.test,
                        "no thread for worker " + std::to_string(worker + 1) + ": " + refused.what() +
                            "; use fewer workers or raise the limit (ulimit -u)");
        }
    }

    void wait_for_news(std::uint64_t until_ns) override { poll_events(memory_, {}, until_ns); }

    [[nodiscard]] bool ended(std::size_t worker) const override {
        // R1, pairs with W1 in announce: the worker's numbers are there once its last state is.
        return memory_.blocks()[worker].state.load(std::memory_order_acquire) >= worker_state::done;
    }

    [[nodiscard]] std::string name(std::size_t worker) const override {
        return "worker " + std::to_string(worker + 1) + " of " + std::to_string(options_.workers) + " (thread)";
    }
    [[nodiscard]] bool ended_well(std::size_t) const override { return true; }
    [[nodiscard]] std::string end_of(std::size_t) const override { return "ended"; }

    std::string end_late(std::string message) override {
        std::fflush(nullptr);
        std::fprintf(stderr, "%s; a thread cannot be ended alone, so the program ends here\n", message.c_str());
        std::fflush(nullptr);
        ::_exit(3);  // as the watchdog: the hanging thread still uses what destructors would take away
    }

    void give_up() noexcept override {}

 private:
    const group_options& options_;
    body_runner& body_;
    const worker_memory& memory_;
    std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<crew> make_threads(const group_options& options, body_runner& body, const worker_memory& memory) {
    return std::make_unique<thread_crew>(options, body, memory);
}

void poll_events(const worker_memory& memory, const std::vector<int>& others, std::uint64_t until_ns) {
    std::vector<pollfd> watched{{memory.events(), POLLIN, 0}};
    for (const int fd : others) watched.push_back({fd, POLLIN, 0});
    int wait_ms = -1;
    if (until_ns != 0) {
        const std::uint64_t now = monotonic_ns();
        wait_ms =
            until_ns > now ? static_cast<int>(std::min<std::uint64_t>((until_ns - now) / 1'000'000 + 1, 1 << 30)) : 0;
    }
    // Interrupted or not: the caller looks at everybody and comes back.
    if (::poll(watched.data(), watched.size(), wait_ms) > 0 && watched[0].revents != 0) {
        std::uint64_t count = 0;
        [[maybe_unused]] const auto emptied = ::read(memory.events(), &count, sizeof count);
    }
}

}  // namespace holdfast::perf_test
