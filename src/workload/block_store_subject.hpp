// SPDX-License-Identifier: Apache-2.0
// block_store_subject.hpp - values of any size behind handles: what an adapter offers, and the loops that are timed.
//
// All values of an experiment have one size. Value n holds the words scramble(n), scramble(n) + 1, ... and its last
// bytes are cut off. Operations:
//   read      copies a value, drawn at random, to the reader's own memory
//   look      adds up a value's words where it lies (adapters without it: read, then add up)
//   replace   a value drawn at random goes, and another of the same size comes
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "workload/keep.hpp"
#include "workload/keys.hpp"
#include "workload/snapshot_subject.hpp"
#include "workload/words.hpp"

namespace holdfast::workload {

struct block_store_request {
    std::uint64_t values = 0;
    std::size_t value_bytes = 0;  ///< 8 at least
    std::string name;             ///< unused in shared memory
};

/// A handle is a number of the adapter's own; 0 names nothing.
template <class A>
concept block_store_adapter =
    std::constructible_from<A, const block_store_request&> &&
    requires(A& a, std::uint64_t handle, std::span<const std::byte> value, std::span<std::byte> out) {
        { A::name } -> std::convertible_to<std::string_view>;
        { A::version() } -> std::convertible_to<std::string>;
        { a.allocate(value) } -> std::same_as<std::uint64_t>;  // 0: refused
        { a.free(handle) } -> std::same_as<bool>;
        { a.read(handle, out) } -> std::same_as<std::size_t>;  // its size; 0: refused
        a.begin_reads();                                       // around a run of reads
        a.end_reads();
        a.begin_writes();  // around a run of allocations and frees
        a.end_writes();
    };

template <class A>
concept looks_at_values = requires(A& a, std::uint64_t handle, std::uint64_t& sum) {
    { a.look(handle, sum) } -> std::same_as<bool>;
};

class block_store_subject {
 public:
    block_store_subject() = default;
    block_store_subject(const block_store_subject&) = delete;
    block_store_subject& operator=(const block_store_subject&) = delete;
    virtual ~block_store_subject() = default;

    virtual void read(std::uint64_t times) = 0;
    virtual void look(std::uint64_t times) = 0;
    virtual void replace(std::uint64_t times) = 0;
};

/// Filled, and every value compared and looked at, when it is made. Throws: std::runtime_error for a wrong or refused
/// value.
template <block_store_adapter A>
class block_store_loops final : public block_store_subject {
    /// A handle with the number of its value beside it: to know what to find there costs no step of memory more.
    struct slot {
        std::uint64_t handle, number;
    };

 public:
    explicit block_store_loops(const block_store_request& request)
        : bytes_(request.value_bytes),
          adapter_(request),
          slots_(request.values),
          places_(draw_places(request.values, 1)),  // in an order other than that of the memory
          value_(words()),
          out_(words()) {
        adapter_.begin_writes();
        for (std::uint64_t i = 0; i < request.values; ++i) put(i, i);
        adapter_.end_writes();
        adapter_.begin_reads();
        for (const slot& one : slots_) verify(one);
        adapter_.end_reads();
    }

    void read(std::uint64_t times) override {
        adapter_.begin_reads();
        for (; times > 0; --times) {
            const slot& one = slots_[next_place()];
            if (adapter_.read(one.handle, bytes(out_)) != bytes_) fail("a read was refused");
            keep(*out_.data());
            if (out_[0] != scramble(one.number)) fail("a read gave another value");
        }
        adapter_.end_reads();
    }
    void look(std::uint64_t times) override {
        adapter_.begin_reads();
        for (; times > 0; --times) keep(sum_of(slots_[next_place()].handle));
        adapter_.end_reads();
    }
    void replace(std::uint64_t times) override {
        adapter_.begin_writes();
        for (; times > 0; --times) {
            const std::uint32_t place = next_place();
            if (!adapter_.free(slots_[place].handle)) fail("a value could not be freed");
            put(place, slots_.size() + at_);
        }
        adapter_.end_writes();
    }

 private:
    [[noreturn]] static void fail(const char* what) { throw std::runtime_error(std::string(A::name) + ": " + what); }
    [[nodiscard]] std::size_t words() const { return (bytes_ + 7) / 8; }
    [[nodiscard]] std::span<std::byte> bytes(word_buffer& words) const {
        return std::as_writable_bytes(words.span()).first(bytes_);
    }
    [[nodiscard]] std::uint32_t next_place() { return places_[at_++ & (places_.size() - 1)]; }

    [[nodiscard]] std::uint64_t sum_of(std::uint64_t handle) {
        if constexpr (looks_at_values<A>) {
            std::uint64_t sum = 0;
            if (!adapter_.look(handle, sum)) fail("a look was refused");
            return sum;
        } else {
            if (adapter_.read(handle, bytes(out_)) != bytes_) fail("a read was refused");
            return sum_of_words(out_.data(), bytes_);
        }
    }
    void make_value(std::uint64_t number) {
        for (std::size_t w = 0; w < value_.size(); ++w) value_[w] = scramble(number) + w;
    }
    void put(std::uint64_t place, std::uint64_t number) {
        make_value(number);
        slots_[place] = {adapter_.allocate(bytes(value_)), number};
        if (slots_[place].handle == 0) fail("a value was refused");
    }
    void verify(const slot& one) {
        const std::size_t size = adapter_.read(one.handle, bytes(out_));
        make_value(one.number);
        if (size != bytes_ || std::memcmp(out_.data(), value_.data(), bytes_) != 0)
            fail("a value is not what was stored");
        if (sum_of(one.handle) != sum_of_words(value_.data(), bytes_)) fail("a look saw other words than were stored");
    }

    std::size_t bytes_;
    A adapter_;
    std::vector<slot> slots_;
    std::vector<std::uint32_t> places_;
    word_buffer value_, out_;
    std::uint64_t at_ = 0;
};

struct block_store_kind {
    std::string name, version;
    std::unique_ptr<block_store_subject> (*make)(const block_store_request& request) = nullptr;
    bool in_place = false;  ///< whether a look copies nothing
};

template <class Adapter>
[[nodiscard]] block_store_kind block_store_kind_of() {
    return {std::string(Adapter::name), Adapter::version(),
            [](const block_store_request& request) -> std::unique_ptr<block_store_subject> {
                return std::make_unique<block_store_loops<Adapter>>(request);
            },
            looks_at_values<Adapter>};
}

}  // namespace holdfast::workload
