// SPDX-License-Identifier: Apache-2.0
#include "perf_test/worker_memory.hpp"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <new>

namespace holdfast::perf_test {
namespace {

// Not FUTEX_PRIVATE_FLAG: the word may be shared between processes.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t while_it_is) noexcept {
    ::syscall(SYS_futex, &word, FUTEX_WAIT, while_it_is, nullptr, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) noexcept {
    ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);
static_assert(std::atomic<worker_state>::is_always_lock_free);

}  // namespace

void sample_room::add(double ns_an_operation) noexcept {
    gathered_sum_ += ns_an_operation;
    if (++gathered_ < batches_a_sample_) return;
    if (count_ == room) {
        for (std::size_t i = 0; i < room / 2; ++i) samples_[i] = (samples_[2 * i] + samples_[2 * i + 1]) / 2;
        count_ = room / 2;
        batches_a_sample_ *= 2;
        return;  // what was gathered is the first half of the next sample
    }
    samples_[count_++] = gathered_sum_ / static_cast<double>(gathered_);
    gathered_ = 0;
    gathered_sum_ = 0;
}

void worker_block::set_text(std::string_view why) noexcept {
    const std::size_t length = std::min(why.size(), text.size() - 1);
    std::copy_n(why.data(), length, text.data());
    text[length] = '\0';
}

std::string worker_block::get_text() const {
    return {text.data(), static_cast<std::size_t>(std::find(text.begin(), text.end(), '\0') - text.begin())};
}

worker_memory::worker_memory(std::size_t workers, const std::string& test)
    : events_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!events_) memory::throw_errno(errno, test, "eventfd", "raise the limit on open files (ulimit -n)");
    constexpr std::size_t first_block = (sizeof(group_block) + 127) / 128 * 128;
    static_assert(alignof(worker_block) <= 128 && alignof(group_block) <= 128);
    const std::size_t bytes = first_block + workers * sizeof(worker_block);
    void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        memory::throw_errno(errno, test, "mapping memory for " + std::to_string(workers) + " workers",
                            "use fewer workers");
    mapped_ = mapped;
    bytes_ = bytes;
    auto* const base = static_cast<std::byte*>(mapped);
    group_ = new (base) group_block;
    auto* const blocks = reinterpret_cast<worker_block*>(base + first_block);
    std::uninitialized_default_construct_n(blocks, workers);
    blocks_ = {blocks, workers};
}

worker_memory::~worker_memory() { ::munmap(mapped_, bytes_); }

void worker_memory::announce(worker_block& mine, worker_state state) const noexcept {
    // W1, pairs with R1 wherever the caller looks at states. Weaker would let it read numbers that are not there yet.
    mine.state.store(state, std::memory_order_release);
    const std::uint64_t one = 1;
    // Nothing to do about a failure: the counter cannot overflow, and the caller also notices the worker's end.
    [[maybe_unused]] const auto written = ::write(events_.get(), &one, sizeof one);
}

bool worker_memory::await_start() const noexcept {
    // R2, pairs with W2 in release: start_at_ns is there once go is set.
    while (group_->go.load(std::memory_order_acquire) == 0) futex_wait(group_->go, 0);
    // Relaxed: a wish to end soon; stop() sets it before go, and R2 has ordered us behind that.
    return group_->stop.load(std::memory_order_relaxed) == 0;
}

void worker_memory::release(std::uint64_t start_at_ns) const noexcept {
    group_->start_at_ns = start_at_ns;
    // W2, pairs with R2 in await_start. Weaker would let a worker begin at an instant that it does not know.
    group_->go.store(1, std::memory_order_release);
    futex_wake_all(group_->go);
}

void worker_memory::stop() const noexcept {
    // Relaxed: running workers take it as a wish; waiting ones are ordered behind it by W2/R2.
    group_->stop.store(1, std::memory_order_relaxed);
    // W2 as in release; start_at_ns is left alone, as whoever was released before may be reading it.
    group_->go.store(1, std::memory_order_release);
    futex_wake_all(group_->go);
}

}  // namespace holdfast::perf_test
