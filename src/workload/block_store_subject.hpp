// SPDX-License-Identifier: Apache-2.0
// block_store_subject.hpp - values of any size behind handles: what an adapter offers, and the loops that are timed.
//
// All values of an experiment have one size. A value at place p of the caller's table holds the word scramble(p), then
// words that count up from its version, and its last bytes are cut off: so a mixture of two is seen. Operations:
//   read      copies a value, drawn at random, to the reader's own memory
//   look      adds up a value's words where it lies (adapters without it: read, then add up)
//   replace   a value drawn at random goes, and another of the same size comes
// The writer is the far side: another process where the adapter can, else a thread of this one. The table of handles
// lies in pages that both have. Beside the writer a value is stored before its place in the table names it, and its
// predecessor goes behind that: who was quicker to the table than the writer is refused, looks there again, and
// the time of both goes into that read.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "workload/far_side.hpp"
#include "workload/keep.hpp"
#include "workload/keys.hpp"
#include "workload/paced.hpp"
#include "workload/shared_pages.hpp"
#include "workload/snapshot_subject.hpp"
#include "workload/words.hpp"

namespace holdfast::workload {

struct block_store_request {
    std::uint64_t values = 0;
    std::size_t value_bytes = 0;  ///< 8 at least
    std::string name;             ///< unused in shared memory
    unsigned far_cpu = 0;
};

/// A handle is a number of the adapter's own; 0 names nothing.
template <class A>
concept block_store_adapter =
    std::constructible_from<A, const block_store_request&> &&
    requires(A& a, std::uint64_t handle, std::span<const std::byte> value, std::span<std::byte> out) {
        { A::name } -> std::convertible_to<std::string_view>;
        { A::version() } -> std::convertible_to<std::string>;
        { A::place } -> std::convertible_to<far_place>;
        { A::beside_writer } -> std::convertible_to<bool>;  // whether a read beside the writer is whole or refused
        { A::tells_stale } -> std::convertible_to<bool>;    // whether a handle never names what came later
        a.open_writer();                                    // on the far side, first
        a.open_reader();
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
    /// Reads while the writer replaces. Throws: std::runtime_error for a torn value.
    virtual void read_beside(std::uint64_t times) = 0;
    /// The writer replaces at that pace until it rests or has another order. Comes back when it has begun.
    virtual void begin_replacing(std::uint64_t hz) = 0;
    [[nodiscard]] virtual bool beside_writer() const = 0;
    [[nodiscard]] virtual far_side& far() = 0;
};

/// Filled, and every value compared and looked at, when it is made; of each run of replaces the last is compared.
/// Throws: std::runtime_error for a wrong or refused value.
template <block_store_adapter A>
class block_store_loops final : public block_store_subject {
    enum orders : std::uint64_t { open = far_side::own_orders, replace_some, replace_at_pace };

 public:
    explicit block_store_loops(const block_store_request& request)
        : bytes_(request.value_bytes),
          values_(request.values),
          places_(draw_places(request.values, 1)),  // in an order other than that of the memory
          pages_(request.values * sizeof(std::atomic<std::uint64_t>)),
          handles_(::new(pages_.bytes().data()) std::atomic<std::uint64_t>[request.values]),
          value_(words()),
          wanted_(words()),
          out_(words()),
          adapter_(request),
          far_(A::place, request.far_cpu, [this](far_side& far, const far_order& order) { carry_out(far, order); }) {
        if constexpr (A::place == far_place::thread)
            open_and_fill();  // from this thread's own part of the heap, as a program that only reads would have it
        else
            far_.carry_out({open, 0});
        adapter_.open_reader();
        adapter_.begin_reads();
        for (std::uint64_t place = 0; place < values_; ++place) verify(place, place);
        adapter_.end_reads();
        far_.rest();
    }

    void read(std::uint64_t times) override {
        adapter_.begin_reads();
        for (drawn_walk places(places_, at_); times > 0; --times) {
            const std::uint32_t place = places.next();
            if (adapter_.read(handle(place), bytes(out_)) != bytes_) fail("a read was refused");
            keep(*out_.data());
            if (out_[0] != scramble(place)) fail("a read gave another value");
        }
        adapter_.end_reads();
    }
    void look(std::uint64_t times) override {
        adapter_.begin_reads();
        for (drawn_walk places(places_, at_); times > 0; --times) keep(sum_of(handle(places.next())));
        adapter_.end_reads();
    }
    void replace(std::uint64_t times) override {
        far_.carry_out({replace_some, times});
        // Relaxed: the far side said behind it that it is done.
        const std::uint64_t done = far_.progress().load(std::memory_order_relaxed);
        if (done == 0) return;
        adapter_.begin_reads();
        verify(place_of(done - 1), version_of(done - 1));
        adapter_.end_reads();
    }
    void read_beside(std::uint64_t times) override {
        adapter_.begin_reads();
        for (drawn_walk places(places_, at_); times > 0; --times) {
            const std::uint32_t place = places.next();
            if (!try_read(place)) [[unlikely]]
                read_again(place);
        }
        // Both ends of each; the last one whole.
        for (std::size_t w = 2; w < bytes_ / 8; ++w)
            if (out_[w] != out_[1] + w - 1) fail("a read met a torn value");
        adapter_.end_reads();
        far_.require_other();  // a writer that was refused something is none
    }
    void begin_replacing(std::uint64_t hz) override { begin_and_see(far_, {replace_at_pace, hz}); }
    [[nodiscard]] bool beside_writer() const override { return A::beside_writer; }
    [[nodiscard]] far_side& far() override { return far_; }

 private:
    [[noreturn]] static void fail(const char* what) { throw std::runtime_error(std::string(A::name) + ": " + what); }
    [[nodiscard]] std::size_t words() const { return (bytes_ + 7) / 8; }
    [[nodiscard]] std::span<std::byte> bytes(word_buffer& words) const {
        return std::as_writable_bytes(words.span()).first(bytes_);
    }
    [[nodiscard]] std::uint64_t handle(std::uint64_t place) const {
        return handles_[place].load(std::memory_order_acquire);  // pairs with the store in name()
    }
    void name(std::uint64_t place, std::uint64_t handle) {
        // Release, pairs with the load in handle(). Weaker would lead a reader to a value before it is stored, by
        // adapters that promise nothing themselves.
        handles_[place].store(handle, std::memory_order_release);
    }

    // ---- near side
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
    /// False: refused, or another place's value by an adapter that does not tell; the table has a newer handle, or
    /// will.
    [[nodiscard]] bool try_read(std::uint32_t place) {
        if (adapter_.read(handle(place), bytes(out_)) != bytes_) return false;
        keep(*out_.data());
        const std::size_t last = bytes_ / 8 - 1;
        if (last > 1 && out_[last] != out_[1] + last - 1) fail("a read met a torn value");
        if (out_[0] == scramble(place)) return true;
        if (A::tells_stale) fail("a read gave another value");
        return false;
    }
    void read_again(std::uint32_t place) {
        patience wait(far_);
        do {
            // A reader of transactions begins another: in its own the new value is not there yet.
            adapter_.end_reads();
            wait();
            adapter_.begin_reads();
        } while (!try_read(place));
    }
    void verify(std::uint64_t place, std::uint64_t version) {
        const std::size_t size = adapter_.read(handle(place), bytes(out_));
        make_value(wanted_, place, version);
        if (size != bytes_ || std::memcmp(out_.data(), wanted_.data(), bytes_) != 0)
            fail("a value is not what was stored");
        if (sum_of(handle(place)) != sum_of_words(wanted_.data(), bytes_))
            fail("a look saw other words than were stored");
    }

    // ---- far side
    void open_and_fill() {
        adapter_.open_writer();
        adapter_.begin_writes();
        for (std::uint64_t place = 0; place < values_; ++place) name(place, put(place, place));
        adapter_.end_writes();
    }
    [[nodiscard]] std::uint64_t put(std::uint64_t place, std::uint64_t version) {
        make_value(value_, place, version);
        const std::uint64_t handle = adapter_.allocate(bytes(value_));
        if (handle == 0) fail("a value was refused");
        return handle;
    }
    void free(std::uint64_t handle) {
        if (!adapter_.free(handle)) fail("a value could not be freed");
    }
    void carry_out(far_side& far, const far_order& order) {
        const auto done = [&] { far.progress().store(++replaced_, std::memory_order_relaxed); };  // nothing hangs on it
        switch (order.what) {
            case open: return open_and_fill();
            case replace_some:
                adapter_.begin_writes();
                for (std::uint64_t i = 0; i < order.count; ++i) {
                    const std::uint32_t place = place_of(replaced_);
                    free(handle(place));
                    name(place, put(place, version_of(replaced_)));
                    done();
                }
                adapter_.end_writes();
                return;
            case replace_at_pace:
                return do_at_pace(far, order.count, [&] {
                    const std::uint32_t place = place_of(replaced_);
                    const std::uint64_t old = handle(place);
                    adapter_.begin_writes();
                    name(place, put(place, version_of(replaced_)));
                    free(old);
                    adapter_.end_writes();
                    done();
                });
            default: fail("an order that is none");
        }
    }

    // ---- both
    /// Of replacement number n.
    [[nodiscard]] std::uint32_t place_of(std::uint64_t n) const { return places_[n & (places_.size() - 1)]; }
    [[nodiscard]] std::uint64_t version_of(std::uint64_t n) const { return values_ + n; }
    static void make_value(word_buffer& into, std::uint64_t place, std::uint64_t version) {
        into[0] = scramble(place);
        for (std::size_t w = 1; w < into.size(); ++w) into[w] = version + w;
    }

    const std::size_t bytes_;
    const std::uint64_t values_;
    const std::vector<std::uint32_t> places_;
    shared_pages pages_;
    std::atomic<std::uint64_t>* handles_;  // in pages_
    word_buffer value_;                    // far side
    word_buffer wanted_, out_;             // near side
    A adapter_;
    std::uint64_t at_ = 0;                     // near side
    alignas(128) std::uint64_t replaced_ = 0;  // far side
    alignas(128) far_side far_;                // last: it starts with all of the above in place
};

struct block_store_kind {
    std::string name, version;
    std::unique_ptr<block_store_subject> (*make)(const block_store_request& request) = nullptr;
    bool in_place = false;           ///< whether a look copies nothing
    std::uint64_t grows_beside = 0;  ///< bytes that it may take more beside a reader that stands still
};

template <class Adapter>
[[nodiscard]] block_store_kind block_store_kind_of() {
    return {std::string(Adapter::name), Adapter::version(),
            [](const block_store_request& request) -> std::unique_ptr<block_store_subject> {
                return std::make_unique<block_store_loops<Adapter>>(request);
            },
            looks_at_values<Adapter>, bytes_grown_beside<Adapter>()};
}

}  // namespace holdfast::workload
