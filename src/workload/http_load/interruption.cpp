// SPDX-License-Identifier: Apache-2.0
#include "workload/http_load/interruption.hpp"

#include <atomic>

namespace holdfast::workload::http {

namespace {

std::atomic<int> caught{0};
static_assert(std::atomic<int>::is_always_lock_free);

// relaxed: one flag, read by the thread that the handler interrupted or by a loop that asks again; it publishes
// nothing.
void note(int number) { caught.store(number, std::memory_order_relaxed); }

}  // namespace

interruption_watch::interruption_watch() {
    caught.store(0, std::memory_order_relaxed);  // relaxed: see note()
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        struct sigaction action{};
        action.sa_handler = numbers[i] == SIGPIPE ? SIG_IGN : note;  // no SA_RESTART: a wait must end
        ::sigaction(numbers[i], &action, &before_[i]);
    }
}

interruption_watch::~interruption_watch() {
    for (std::size_t i = 0; i < numbers.size(); ++i) ::sigaction(numbers[i], &before_[i], nullptr);
}

void check_interruption() {
    // relaxed: see note().
    if (const int number = caught.load(std::memory_order_relaxed); number != 0) throw interrupted(number);
}

}  // namespace holdfast::workload::http
