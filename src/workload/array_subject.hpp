// SPDX-License-Identifier: Apache-2.0
// array_subject.hpp - a fixed number of elements under test: what an adapter offers, and the loops that are timed.
//
// An element is a number of 64-bit words. Version v of an element holds v in its first word and v + i in word i, so
// that a mixture of two versions is seen; the first version of element n is n. Operations:
//   load   copies one element, at a random place, to the reader's own memory
//   store  replaces one element, at a random place
// The writer is the far side: another process where the adapter can, else a thread. Places are drawn beforehand.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "workload/far_side.hpp"
#include "workload/keep.hpp"
#include "workload/keys.hpp"
#include "workload/queue_own.hpp"

namespace holdfast::workload {

struct array_request {
    std::uint64_t size = 0;  ///< elements
    std::string name;        ///< unused in shared memory
    unsigned far_cpu = 0;
};

template <class A>
concept array_adapter = requires(A& a, std::uint64_t index, typename A::element& out) {
    { A::name } -> std::convertible_to<std::string_view>;
    { A::version() } -> std::convertible_to<std::string>;
    { A::place } -> std::convertible_to<far_place>;
    { A::beside_writer } -> std::convertible_to<bool>;  // whether a load beside the writer is never torn
    a.open_writer();                                    // on the far side, first
    a.open_reader();
    { a.load(index, out) } -> std::same_as<bool>;
    a.store(index, out);
};

class array_subject {
 public:
    array_subject() = default;
    array_subject(const array_subject&) = delete;
    array_subject& operator=(const array_subject&) = delete;
    virtual ~array_subject() = default;

    /// Opens both ends, fills it and compares every element. Throws: std::runtime_error.
    virtual void open_and_verify() = 0;
    /// Loads so many. Throws: std::runtime_error for a torn element.
    virtual void load(std::uint64_t times) = 0;
    virtual void store(std::uint64_t times) = 0;
    /// The writer stores at that pace until it rests; the far side's progress counts all that was stored.
    virtual void begin_stores(std::uint64_t hz) = 0;
    [[nodiscard]] virtual bool beside_writer() const = 0;
    [[nodiscard]] virtual far_side& far() = 0;
};

template <array_adapter A>
class array_loops final : public array_subject {
    using element = typename A::element;
    enum orders : std::uint64_t { open = far_side::own_orders, store_some, store_at_pace };
    static constexpr std::size_t words = sizeof(element) / 8;

 public:
    explicit array_loops(const array_request& request)
        : size_(request.size),
          places_(draw_places(request.size, 1)),
          adapter_(request),
          far_(A::place, request.far_cpu, [this](far_side& far, const far_order& order) { carry_out(far, order); }) {}

    void open_and_verify() override {
        far_.carry_out({open, 0});
        adapter_.open_reader();
        for (std::uint64_t i = 0; i < size_; ++i) {
            element e{};
            if (!adapter_.load(i, e)) fail("a load was refused");
            for (std::size_t w = 0; w < words; ++w)
                if (e.words[w] != i + w) fail("an element holds something else than was stored");
        }
        store(1000);
        load(1000);
        far_.rest();
    }

    void load(std::uint64_t times) override {
        element e{};
        drawn_walk places(places_, at_);
        for (; times > 0; --times) {
            if (!adapter_.load(places.next(), e)) fail("a load was refused");
            keep(e);
            if (e.words[words - 1] != e.words[0] + words - 1) fail("a load met a torn element");
        }
    }
    void store(std::uint64_t times) override { far_.carry_out({store_some, times}); }
    void begin_stores(std::uint64_t hz) override { far_.begin({store_at_pace, hz}); }
    [[nodiscard]] bool beside_writer() const override { return A::beside_writer; }
    [[nodiscard]] far_side& far() override { return far_; }

 private:
    [[noreturn]] static void fail(const char* what) { throw std::runtime_error(std::string(A::name) + ": " + what); }

    void put(std::uint64_t index, std::uint64_t version) {
        element e;
        for (std::size_t w = 0; w < words; ++w) e.words[w] = version + w;
        adapter_.store(index, e);
    }
    void put_next(far_side& far) {
        put(places_[stored_ & (places_.size() - 1)], size_ + stored_);
        far.progress().store(++stored_, std::memory_order_relaxed);  // nothing hangs on it
    }
    void carry_out(far_side& far, const far_order& order) {
        switch (order.what) {
            case open:
                adapter_.open_writer();
                for (std::uint64_t i = 0; i < size_; ++i) put(i, i);
                return;
            case store_some:
                for (std::uint64_t i = 0; i < order.count; ++i) put_next(far);
                return;
            case store_at_pace: {
                const std::chrono::nanoseconds period(1'000'000'000 / order.count);
                for (auto next = std::chrono::steady_clock::now(); !far.interrupted();) {
                    if (std::chrono::steady_clock::now() < next) continue;
                    next += period;
                    put_next(far);
                }
                return;
            }
            default: fail("an order that is none");
        }
    }

    const std::uint64_t size_;
    const std::vector<std::uint32_t> places_;
    A adapter_;
    std::uint64_t at_ = 0;      // near side
    std::uint64_t stored_ = 0;  // far side
    far_side far_;              // last: it starts with all of the above in place
};

struct array_kind {
    std::string name, version;
    bool beside_writer = true;
    /// Nothing for a size of element that the adapter has not.
    std::unique_ptr<array_subject> (*make)(std::size_t element_bytes, const array_request& request) = nullptr;
};

template <template <std::size_t> class Adapter>
[[nodiscard]] array_kind array_kind_of() {
    return {std::string(Adapter<64>::name), Adapter<64>::version(), Adapter<64>::beside_writer,
            [](std::size_t bytes, const array_request& request) -> std::unique_ptr<array_subject> {
                switch (bytes) {
                    case 8: return std::make_unique<array_loops<Adapter<8>>>(request);
                    case 64: return std::make_unique<array_loops<Adapter<64>>>(request);
                    case 1024: return std::make_unique<array_loops<Adapter<1024>>>(request);
                    default: return nullptr;
                }
            }};
}

}  // namespace holdfast::workload
