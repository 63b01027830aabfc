// SPDX-License-Identifier: Apache-2.0
// typed.hpp - a queue of records of one type: a ring by index, for throughput. See queue.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/detail/spans.hpp"
#include "holdfast/layout/queue_elements.hpp"
#include "holdfast/layout/queue_layout.hpp"
#include "holdfast/memory/fork_guard.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/queue/consumed_range.hpp"
#include "holdfast/queue/consumer.hpp"
#include "holdfast/queue/place.hpp"
#include "holdfast/record.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

namespace detail {

/// Refuses a queue whose elements are not T, or T with more fields at its end, or whose slots are not as far apart as
/// its elements need: by that distance a T is found and aligned. Returns: bytes of a stored element.
/// Throws: schema_mismatch, geometry_mismatch.
template <class T>
std::uint64_t require_queue_element(const segment& from, const layout::queue_geometry& geometry, bool writes) {
    std::string why = "its elements have no schema";
    if (!from.info().schema.empty()) {
        const container_schema stored = container_schema::parse(from.info().schema);
        if (!stored.key && stored.value) {
            const schema_relation relation = compare(*stored.value, schema_of<T>(), why);
            const bool fits = relation == schema_relation::same ||
                              (relation == schema_relation::stored_has_more_fields_at_end && !writes);
            if (fits && geometry.stride == layout::ring_round_up(stored.value->bytes())) return stored.value->bytes();
            if (fits)
                throw error(errc::geometry_mismatch, from.uri(),
                            "its slots are not of its records' size; the header is damaged: restore or recreate the "
                            "queue");
        } else {
            why = "its elements are not single records: " + from.info().schema;
        }
    }
    throw error(errc::schema_mismatch, from.uri(), why + "; use the program's version that fits, or recreate it");
}

}  // namespace detail

/// A queue of records of type T.
template <record T>
class queue {
 public:
    class producer;
    class consumer;
    using elements = detail::consumed_range<consumer, T>;

    struct options {
        std::uint64_t capacity = 4096;  ///< elements; rounded up to a power of two
        bool rings = true;              ///< as queue_options::rings
        create_options segment{};
    };
    /// An element, or why there is none.
    struct element {
        outcome status = outcome::empty;
        T value{};
        [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
    };
    /// Elements in place, one behind the other, or why there is none. Valid until they are released.
    struct block {
        outcome status = outcome::empty;
        std::span<const T> values{};
        [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
    };
    /// A slot to be filled in place. Valid until commit, discard or the next claim.
    struct claim {
        outcome status = outcome::ok;
        T* value = nullptr;
        [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
    };
};

/// Puts elements in. Holds the segment's lease: one producer at a time. Move-only. Threads: one at a time.
/// After a crash: what was pushed is there, a batch whole or not at all. Moved from: as queue_producer.
template <record T>
class queue<T>::producer {
 public:
    using value_type = T;

    /// Throws: invalid_argument; as segment::create.
    [[nodiscard]] static producer create(std::string_view uri, const options& wanted = {}) {
        const auto geometry =
            layout::queue_geometry::of_elements(wanted.capacity, sizeof(T), wanted.rings, std::string(uri));
        segment_spec spec = detail::queue_spec(geometry);
        spec.schema = container_schema{std::nullopt, schema_of<T>()}.text();
        return producer(segment::create(uri, spec, wanted.segment, [](std::span<std::byte>) {}),
                        trust_of_creator(wanted.segment));
    }
    /// Throws: as segment::attach; kind_mismatch, version_mismatch, geometry_mismatch, schema_mismatch, corrupt.
    [[nodiscard]] static producer attach(std::string_view uri, const attach_options& options = {}) {
        return producer(segment::attach(uri, access::read_write, options), options.trust, options.lease_timeout);
    }
    /// Takes over a segment attached read-write by other means (descriptors). Throws: as attach; read_only.
    explicit producer(holdfast::segment from, const memory::trust& whom = {})
        : producer(std::move(from), whom, detail::presence_patience_max) {}
    producer(producer&&) noexcept = default;
    producer& operator=(producer&& other) noexcept {
        if (this == &other) return *this;
        std::destroy_at(this);  // the old place goes before the mapping that it lies in
        std::construct_at(this, std::move(other));
        return *this;
    }
    ~producer() = default;

    /// Returns: ok; full; corrupt; read_only. Cost: a copy of T and one store; one line transfer when it looks full.
    result try_push(const T& value) noexcept { return try_push(std::span<const T>(&value, 1)); }

    /// Puts all of `values` in, visible at once, or none.
    /// Returns: ok and their number; full; too_large (more than the ring has); corrupt; read_only.
    result try_push(std::span<const T> values) noexcept {
        if (const outcome room = room_for(values.size()); room != outcome::ok)
            return {room, room == outcome::too_large ? core_.capacity() : 0};
        copy_in(values);
        claimed_ = false;
        core_.publish(values.size());
        detail::ring_if_asleep(core_, rings_);
        return {outcome::ok, values.size()};
    }

    /// A slot to be filled in place; drops an earlier claim. Its bytes are those of some earlier element.
    [[nodiscard]] claim try_claim() noexcept {
        claimed_ = false;
        if (const outcome room = room_for(1); room != outcome::ok) return {room, nullptr};
        claimed_ = true;
        return {outcome::ok, reinterpret_cast<T*>(core_.slot(0))};
    }
    /// Publishes the claimed slot. Returns: ok; not_claimed; read_only.
    result commit() noexcept {
        if (!writable()) return {outcome::read_only, 0};
        if (!claimed_) return {outcome::not_claimed, 0};
        claimed_ = false;
        core_.publish(1);
        detail::ring_if_asleep(core_, rings_);
        return {outcome::ok, 1};
    }
    void discard() noexcept { claimed_ = false; }

    /// Puts an element in or throws, for std::back_inserter. Throws: no_space, read_only, corrupt.
    void push_back(const T& value) {
        const result put = try_push(value);
        if (put) return;
        throw error(put.status == outcome::full        ? errc::no_space
                    : put.status == outcome::read_only ? errc::read_only
                                                       : errc::corrupt,
                    segment_ ? segment_->uri() : std::string("queue"),
                    detail::concat("the element was not taken: ", outcome_name(put.status),
                                   "; wait for room, or make the queue larger"));
    }

    /// Waits until `count` slots and an eighth of the ring are free.
    /// Returns: ok; timed_out; reader_gone; too_large; corrupt; read_only.
    result wait_room(std::uint64_t count, std::chrono::nanoseconds timeout) noexcept {
        if (!writable()) return {outcome::read_only, 0};
        if (count > core_.capacity()) return {outcome::too_large, core_.capacity()};
        const std::uint64_t needed = core_.head_needed(count);
        if (needed == 0) return core_.fault() ? result{outcome::corrupt, 0} : result{};
        const layout::queue_side& other = core_.consumer();
        // Acquire: R2 is repeated by the push; this is only a look.
        const auto ready = [&] { return other.position.load(std::memory_order_acquire) >= needed; };
        return {detail::outcome_of(detail::wait_on(other, core_.side(), needed, *place_, rings_, timeout, ready),
                                   outcome::reader_gone),
                0};
    }

    [[nodiscard]] std::uint64_t capacity() const noexcept { return core_.capacity(); }
    [[nodiscard]] queue_side_stats stats() const noexcept {
        return detail::stats_of(core_.side(), {layout::queue_form::elements, core_.capacity(), core_.stride(), rings_},
                                sizeof(T));
    }
    [[nodiscard]] bool consumer_alive() const noexcept { return place_->other_lives(); }
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        const auto damage = core_.fault();
        return damage ? damage : segment_->fault();
    }
    /// The consumer of this very mapping, in this process. Throws: writer_alive while another consumer lives; corrupt.
    [[nodiscard]] typename queue<T>::consumer make_consumer(delivery how = delivery::at_least_once) const {
        return typename queue<T>::consumer(segment_, {.how = how, .segment = {.trust = whom_}});
    }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

 private:
    producer(holdfast::segment from, const memory::trust& whom, std::chrono::nanoseconds patience)
        : segment_(std::make_shared<holdfast::segment>(std::move(from))), whom_(whom) {
        if (!segment_->writable())
            throw error(errc::read_only, segment_->uri(), "a queue's producer needs the segment attached read-write");
        const auto geometry = detail::queue_geometry_of(*segment_, layout::queue_form::elements);
        detail::require_queue_element<T>(*segment_, geometry, true);
        rings_ = geometry.rings;
        place_.emplace(detail::queue_place::of_producer(*segment_, whom, patience));
        core_ = layout::queue_element_write_core(segment_->body(), geometry, place_->consumer(), segment_->uri());
    }
    [[nodiscard]] bool writable() const noexcept { return segment_ != nullptr && segment_->writable(); }
    [[nodiscard]] outcome room_for(std::uint64_t count) noexcept {
        if (!writable()) return outcome::read_only;
        if (count > core_.capacity()) return outcome::too_large;
        const outcome room = core_.room(count);
        if (room == outcome::full) layout::add_one(core_.side().refused);
        return room;
    }
    // The slots are ours until W1, R2 has shown that the consumer is done with them.
    void copy_in(std::span<const T> values) noexcept {
        if (core_.stride() != sizeof(T)) {
            for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(core_.slot(i), &values[i], sizeof(T));
            return;
        }
        const std::size_t first = std::min<std::size_t>(values.size(), core_.contiguous());
        copy_run(core_.slot(0), values.first(first));
        if (first != values.size()) copy_run(core_.slot(first), values.subspan(first));
    }
    void copy_run(std::byte* to, std::span<const T> values) noexcept {
        // Twice as many as of a message, for no batch of calls shares the fence.
        if (values.size_bytes() >= 2 * detail::long_copier::least_bytes)
            core_.long_copies().copy(to, std::as_bytes(values).data(), values.size_bytes());
        else if (!values.empty())
            std::memcpy(to, values.data(), values.size_bytes());
    }

    std::shared_ptr<holdfast::segment> segment_;
    std::optional<detail::queue_place> place_;
    layout::queue_element_write_core core_;
    bool claimed_ = false;
    bool rings_ = true;
    memory::trust whom_;  // of the consumers that it makes
};

/// Takes elements out. One consumer at a time. Move-only. Threads: one at a time.
/// After a crash: its successor goes on at the oldest element not released. Moved from: as queue_producer.
template <record T>
class queue<T>::consumer {
 public:
    /// Throws: as queue_consumer::attach; schema_mismatch.
    [[nodiscard]] static consumer attach(std::string_view uri, const queue_consumer_options& options = {}) {
        return consumer(segment::attach_read_only(uri, options.segment), options);
    }
    explicit consumer(std::shared_ptr<const holdfast::segment> from, const queue_consumer_options& options = {})
        : segment_(std::move(from)), how_(options.how) {
        const auto geometry = detail::queue_geometry_of(*segment_, layout::queue_form::elements);
        element_bytes_ = detail::require_queue_element<T>(*segment_, geometry, false);
        rings_ = geometry.rings;
        guard_ = memory::fork_guard::make(segment_->uri());
        place_.emplace(detail::queue_place::of_consumer(*segment_, options.segment.trust,
                                                        detail::ns_of(options.segment.lease_timeout)));
        core_ = layout::queue_element_read_core(segment_->bytes(), geometry, place_->consumer(), segment_->uri());
    }
    consumer(consumer&&) noexcept = default;
    consumer& operator=(consumer&& other) noexcept {
        if (this == &other) return *this;
        std::destroy_at(this);  // the old place goes before the mapping that it lies in
        std::construct_at(this, std::move(other));
        return *this;
    }
    ~consumer() = default;

    /// A copy of the oldest element, which stays until pop(). Acknowledges what try_pop() gave.
    /// Returns: ok; empty; corrupt; read_only (inherited by fork).
    [[nodiscard]] element front() noexcept {
        element out;
        if (!ours()) {
            out.status = outcome::read_only;
            return out;
        }
        acknowledge();
        out.status = core_.ready(1).status;
        front_ = out.status == outcome::ok ? 1 : 0;
        if (front_ != 0) out.value = value_at(0);
        return out;
    }
    /// The oldest elements where they lie, which stay until pop(): as many as are there, but `most` at most, and none
    /// behind the end of the ring, whose front the next block begins with. Acknowledges what try_pop() gave. What they
    /// hold is an honest producer's no longer, but a hostile one could still change it.
    /// Returns: as front(); of `most` 0, empty. Throws: schema_mismatch where the stored element has more fields than
    /// T: take copies then.
    [[nodiscard]] block front_block(std::uint64_t most = ~std::uint64_t{0}) {
        static_assert(
            !detail::has_boolean(detail::facts_for<T>()) && alignof(T) <= 64,
            "holdfast: a T with a bool must not be read in place out of another process's bytes; take copies");
        static_assert(
            sizeof(T) % 8 == 0,
            "holdfast: elements lie a multiple of 8 bytes apart: a T of another size has gaps behind it; make "
            "it larger, or take copies");
        if (!ours()) return {outcome::read_only, {}};
        if (core_.stride() != sizeof(T)) refuse_block();
        acknowledge();
        front_ = 0;
        if (most == 0) return {};
        const result there = core_.ready(std::min(most, core_.contiguous()));
        if (!there) return {there.status, {}};
        front_ = there.count;
        return {outcome::ok, {reinterpret_cast<const T*>(core_.slot(0)), static_cast<std::size_t>(front_)}};
    }
    /// Releases the oldest element, or `count` of them, that front() or front_block() gave. False when they gave fewer.
    bool pop(std::uint64_t count = 1) noexcept {
        if (!ours() || count == 0 || count > front_) return false;
        front_ -= count;
        core_.pass(count);
        acknowledge();
        return true;
    }
    /// Takes the oldest element; when it is released: see delivery.
    element try_pop() noexcept {
        const element found = front();
        if (!found) return found;
        front_ = 0;
        core_.pass(1);
        if (how_ == delivery::at_most_once) acknowledge();
        return found;
    }
    /// Copies up to out.size() elements to the front of `out` and releases them together, as try_pop() would.
    /// Returns: ok and their number; else as front(), when there was none. Cost: as queue_consumer::drain.
    result try_pop(std::span<T> out) noexcept {
        if (!ours()) return {outcome::read_only, 0};
        acknowledge();
        front_ = 0;
        if (out.empty()) return {};
        const result there = core_.ready(out.size());
        if (!there) return there;
        copy_out(out.first(static_cast<std::size_t>(there.count)));
        core_.pass(there.count);
        if (how_ == delivery::at_most_once) acknowledge();
        return there;
    }
    /// Runs use(value) on copies of up to `most` elements, one by one, and releases them together.
    /// Returns: ok and their number; else as front(), when there was none. What `use` throws passes through; the
    /// element it was given stays, those before it are released. What `use` takes itself is not passed once more.
    /// Cost: as queue_consumer::drain.
    template <class Use>
    result drain(std::uint64_t most, Use&& use) {
        result done{outcome::ok, 0};
        front_ = 0;
        if (!ours()) return {outcome::read_only, 0};
        acknowledge();
        struct releaser {
            consumer& self;
            ~releaser() { self.acknowledge(); }
        };
        const releaser at_end{*this};
        while (done.count < most) {
            // Asked anew each turn: `use` may have taken elements itself.
            if (const result there = core_.ready(done.count == 0 ? most : 1); !there) {
                if (done.count == 0) done.status = there.status;
                break;
            }
            const std::uint64_t at = core_.cursor();
            use(value_at(0));
            front_ = 0;
            if (core_.cursor() == at) core_.pass(1);
            ++done.count;
        }
        return done;
    }
    /// Copies of the elements that are there, as an input range; each is released when the iterator leaves it.
    [[nodiscard]] elements values() noexcept { return elements(*this); }
    /// Releases what try_pop() gave: the caller is done with it.
    void acknowledge() noexcept {
        if (ours() && core_.release()) detail::ring_if_asleep(core_, rings_);
    }
    /// Waits until there is an element. Returns: as queue_consumer::wait.
    result wait(std::chrono::nanoseconds timeout) noexcept {
        if (!ours()) return {outcome::read_only, 0};
        acknowledge();
        const auto ready = [&] { return core_.ready(1).status != outcome::empty; };
        return {detail::outcome_of(detail::wait_on(core_.producer(), core_.side(), 1, *place_, rings_, timeout, ready),
                                   outcome::writer_gone),
                0};
    }

    [[nodiscard]] std::uint64_t capacity() const noexcept { return core_.capacity(); }
    [[nodiscard]] queue_side_stats stats() const noexcept {
        return detail::stats_of(core_.side(), {layout::queue_form::elements, core_.capacity(), core_.stride(), rings_},
                                element_bytes_);
    }
    [[nodiscard]] bool producer_alive() const noexcept { return place_->other_lives(); }
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        const auto damage = core_.fault();
        return damage ? damage : segment_->fault();
    }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

 private:
    [[nodiscard]] bool ours() const noexcept { return segment_ != nullptr && guard_.same_process(); }
    [[nodiscard]] T value_at(std::uint64_t ahead) const noexcept {
        std::array<std::byte, sizeof(T)> bytes;
        std::memcpy(bytes.data(), core_.slot(ahead), sizeof(T));
        return detail::record_of<T>(bytes);
    }
    [[noreturn, gnu::cold]] void refuse_block() const {
        throw error(errc::schema_mismatch, segment_->uri(),
                    "the stored element has more fields than the program's; take copies, or update the program");
    }
    // Plain copies: the slots are ours until W2, R1 has shown that they are whole.
    void copy_out(std::span<T> out) const noexcept {
        if (detail::has_boolean(detail::facts_for<T>()) || core_.stride() != sizeof(T)) {
            for (std::size_t i = 0; i < out.size(); ++i) out[i] = value_at(i);
            return;
        }
        const std::size_t first = std::min<std::size_t>(out.size(), core_.contiguous());
        std::memcpy(out.data(), core_.slot(0), first * sizeof(T));
        if (first != out.size()) std::memcpy(out.data() + first, core_.slot(first), (out.size() - first) * sizeof(T));
    }

    std::shared_ptr<const holdfast::segment> segment_;
    memory::fork_guard guard_;
    std::optional<detail::queue_place> place_;
    layout::queue_element_read_core core_;
    delivery how_ = delivery::at_least_once;
    std::uint64_t element_bytes_ = sizeof(T);  // as stored
    std::uint64_t front_ = 0;                  // elements that front() or front_block() gave and pop() may release
    bool rings_ = true;
};

}  // namespace holdfast
