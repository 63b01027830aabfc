// SPDX-License-Identifier: Apache-2.0
// snapshot_subject.hpp - a published object under test: what an adapter offers, and the loops that are timed.
//
// An object is a number of 64-bit words. Version v holds v in its first word and v + i in word i, so that a mixture of
// two versions is seen. What each operation means:
//   read     copies the current object, whole, to the reader's own memory
//   look     visits the current object in place and adds up its words (adapters without it: read, then add up)
//   publish  makes a new object current
// The writer is the far side: another process where the adapter can, else a thread of this one.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "workload/far_side.hpp"
#include "workload/keep.hpp"

namespace holdfast::workload {

struct snapshot_request {
    std::size_t words = 0;  ///< of an object
    std::string name;       ///< unused in shared memory; what is made begins with it
    unsigned far_cpu = 0;
};

template <class A>
concept snapshot_adapter = std::constructible_from<A, const snapshot_request&> &&
                           requires(A& a, std::span<std::uint64_t> out, std::span<const std::uint64_t> object) {
                               { A::name } -> std::convertible_to<std::string_view>;
                               { A::version() } -> std::convertible_to<std::string>;
                               { A::place } -> std::convertible_to<far_place>;
                               a.open_writer();  // on the far side, first
                               a.open_reader();
                               { a.read(out) } -> std::same_as<bool>;
                               { a.publish(object) } -> std::same_as<bool>;
                           };

template <class A>
concept looks_in_place = requires(A& a, std::uint64_t& sum) {
    { a.look(sum) } -> std::same_as<bool>;
};

/// Words that begin with a cache line: how fast a block is copied must not hang on where malloc has put it.
class word_buffer {
 public:
    explicit word_buffer(std::size_t words)
        : words_(new(std::align_val_t{line}) std::uint64_t[words]()), size_(words) {}
    word_buffer(const word_buffer&) = delete;
    word_buffer& operator=(const word_buffer&) = delete;
    ~word_buffer() { ::operator delete[](words_, std::align_val_t{line}); }
    [[nodiscard]] std::uint64_t* data() noexcept { return words_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::uint64_t& operator[](std::size_t i) noexcept { return words_[i]; }
    [[nodiscard]] std::uint64_t* begin() noexcept { return words_; }
    [[nodiscard]] std::uint64_t* end() noexcept { return words_ + size_; }
    [[nodiscard]] std::span<std::uint64_t> span() noexcept { return {words_, size_}; }

 private:
    static constexpr std::size_t line = 64;
    std::uint64_t* words_;
    std::size_t size_;
};

/// Words 0 to count - 1 of version v, added up.
[[nodiscard]] constexpr std::uint64_t sum_of_version(std::uint64_t v, std::uint64_t count) noexcept {
    return count * v + count * (count - 1) / 2;
}

class snapshot_subject {
 public:
    snapshot_subject() = default;
    snapshot_subject(const snapshot_subject&) = delete;
    snapshot_subject& operator=(const snapshot_subject&) = delete;
    virtual ~snapshot_subject() = default;

    /// Opens both ends, publishes a first version, reads and looks at it. Throws: std::runtime_error.
    virtual void open_and_verify() = 0;
    /// Reads that many times. Throws: std::runtime_error for a torn object or one older than a former.
    virtual void read(std::uint64_t times) = 0;
    virtual void look(std::uint64_t times) = 0;
    virtual void publish(std::uint64_t times) = 0;
    /// The writer publishes at that pace until it rests or gets another order; 0: as fast as it can. Comes back when it
    /// has published once.
    virtual void begin_publishing(std::uint64_t hz) = 0;
    [[nodiscard]] virtual bool in_place() const = 0;
    [[nodiscard]] virtual far_side& far() = 0;
};

template <snapshot_adapter A>
class snapshot_loops final : public snapshot_subject {
    enum orders : std::uint64_t { open = far_side::own_orders, publish_some, publish_at_pace };

 public:
    explicit snapshot_loops(const snapshot_request& request)
        : adapter_(request),
          copy_(request.words),
          object_(request.words),
          far_(A::place, request.far_cpu, [this](far_side& far, const far_order& order) { carry_out(far, order); }) {}

    void open_and_verify() override {
        far_.carry_out({open, 0});
        adapter_.open_reader();
        for (int i = 0; i < 3; ++i) {
            read(100);
            look(100);
            publish(10);
        }
        read(100);
        far_.rest();
    }

    void read(std::uint64_t times) override {
        const std::size_t last = copy_.size() - 1;
        for (; times > 0; --times) {
            if (!adapter_.read(copy_.span())) fail("a read was refused");
            keep(*copy_.data());
            // Both ends: a full comparison would be most of the time of a small object.
            if (copy_[last] != copy_[0] + last || copy_[0] < seen_) fail("a reader met a torn or an older object");
            seen_ = copy_[0];
        }
        // Whole, once a batch.
        for (std::size_t i = 0; i <= last; ++i)
            if (copy_[i] != copy_[0] + i) fail("a reader met a torn object");
    }

    void look(std::uint64_t times) override {
        if constexpr (looks_in_place<A>) {
            const std::uint64_t none = sum_of_version(0, copy_.size());
            for (; times > 0; --times) {
                std::uint64_t sum = 0;
                if (!adapter_.look(sum)) fail("a look was refused");
                // The sum of a whole version is `none` and a multiple of the number of words.
                if ((sum - none) % copy_.size() != 0) fail("a look met a torn object");
            }
        } else {
            for (; times > 0; --times) {
                if (!adapter_.read(copy_.span())) fail("a read was refused");
                std::uint64_t sum = 0;
                for (const std::uint64_t word : copy_) sum += word;
                keep(sum);
            }
        }
    }

    void publish(std::uint64_t times) override { far_.carry_out({publish_some, times}); }
    void begin_publishing(std::uint64_t hz) override {
        // Relaxed: only that it changes matters.
        const std::uint64_t before = far_.progress().load(std::memory_order_relaxed);
        far_.begin({publish_at_pace, hz});
        for (patience wait(far_); far_.progress().load(std::memory_order_relaxed) == before;) wait();
    }
    [[nodiscard]] bool in_place() const override { return looks_in_place<A>; }
    [[nodiscard]] far_side& far() override { return far_; }

 private:
    [[noreturn]] static void fail(const char* what) { throw std::runtime_error(std::string(A::name) + ": " + what); }

    void publish_next(far_side& far) {
        ++version_;
        for (std::size_t i = 0; i < object_.size(); ++i) object_[i] = version_ + i;
        if (!adapter_.publish(object_.span())) fail("a publish was refused");
        far.progress().store(version_, std::memory_order_relaxed);  // relaxed: nothing hangs on it
    }
    void carry_out(far_side& far, const far_order& order) {
        switch (order.what) {
            case open: adapter_.open_writer(); return publish_next(far);
            case publish_some:
                for (std::uint64_t i = 0; i < order.count; ++i) publish_next(far);
                return;
            case publish_at_pace: {
                const std::chrono::nanoseconds period(order.count == 0 ? 0 : 1'000'000'000 / order.count);
                for (auto next = std::chrono::steady_clock::now(); !far.interrupted(); next += period) {
                    publish_next(far);
                    if (order.count == 0) continue;
                    // What was missed while its core was away is not made up for.
                    next = std::max(next, std::chrono::steady_clock::now() - period);
                    while (std::chrono::steady_clock::now() < next + period && !far.interrupted()) {
                    }
                }
                return;
            }
            default: fail("an order that is none");
        }
    }

    A adapter_;
    word_buffer copy_, object_;
    std::uint64_t seen_ = 0;                  // near side
    alignas(128) std::uint64_t version_ = 0;  // far side
    alignas(128) far_side far_;               // last: it starts with all of the above in place
};

struct snapshot_kind {
    std::string name, version;
    /// Nothing for a size of object that the adapter has not.
    std::unique_ptr<snapshot_subject> (*make)(const snapshot_request& request) = nullptr;
};

/// What an adapter that is not for all sizes says: A::has(words).
template <class A>
concept has_some_sizes = requires(std::size_t words) {
    { A::has(words) } -> std::same_as<bool>;
};

template <class Adapter>
[[nodiscard]] snapshot_kind snapshot_kind_of() {
    return {std::string(Adapter::name), Adapter::version(),
            [](const snapshot_request& request) -> std::unique_ptr<snapshot_subject> {
                if constexpr (has_some_sizes<Adapter>)
                    if (!Adapter::has(request.words)) return nullptr;
                return std::make_unique<snapshot_loops<Adapter>>(request);
            }};
}

}  // namespace holdfast::workload
