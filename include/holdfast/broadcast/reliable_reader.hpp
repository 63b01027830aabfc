// SPDX-License-Identifier: Apache-2.0
// reliable_reader.hpp - a registered reader, which the writer does not overrun unless it said so. See broadcast.hpp.
//
// Its words lie in a slot of NAME.peers; the slot is its own as long as it holds the slot's lock, so the writer learns
// of its death from the kernel.
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/broadcast/reader.hpp"
#include "holdfast/detail/spans.hpp"
#include "holdfast/layout/broadcast_slots.hpp"
#include "holdfast/memory/fork_guard.hpp"
#include "holdfast/memory/waiting.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/segment/writer_presence.hpp"

namespace holdfast {

/// How a reader registers.
struct broadcast_registration {
    broadcast_start start = broadcast_start::oldest();
    broadcast_policy policy = broadcast_policy::block;
    /// Under evict: for how long it may hold the writer up without telling that it has read on, which it does each 64th
    /// part of the ring, where it has caught up, and with acknowledge().
    std::chrono::nanoseconds patience = std::chrono::seconds(1);
};

namespace detail {

inline constexpr std::uint32_t broadcast_board_slot = 0;

[[nodiscard]] inline layout::broadcast_board& broadcast_board_in(const peers& table) noexcept {
    return *reinterpret_cast<layout::broadcast_board*>(table.slot(broadcast_board_slot).data());
}
/// The slot of registered reader `index`, counted from 0.
[[nodiscard]] inline layout::broadcast_slot& broadcast_slot_in(const peers& table, std::uint32_t index) noexcept {
    return *reinterpret_cast<layout::broadcast_slot*>(table.slot(index + 1).data());
}
[[nodiscard]] inline std::uint64_t clock_ns(clockid_t clock) noexcept {
    struct timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

/// The slots of a ring's registered readers, as its writer scans them.
class broadcast_peer_slots {
 public:
    explicit broadcast_peer_slots(peers* table) noexcept : table_(table) {}
    [[nodiscard]] std::uint32_t size() const noexcept { return table_ != nullptr ? table_->size() - 1 : 0; }
    [[nodiscard]] layout::broadcast_slot& slot(std::uint32_t index) const noexcept {
        return broadcast_slot_in(*table_, index);
    }
    [[nodiscard]] bool seize(std::uint32_t index) noexcept { return table_->hold(index + 1); }
    void give_back(std::uint32_t index) noexcept { table_->release(index + 1); }

 private:
    peers* table_;
};
static_assert(layout::broadcast_slots<broadcast_peer_slots>);

}  // namespace detail

/// Reads one message after the other; under `block` it loses none from its registration on. Move-only.
/// Its slot's lock lives as long as any process has the description: a forked child that neither executes another
/// program nor ends keeps it, so a dead parent's registration then holds the writer up until the child ends.
/// A handle that was moved from answers read_only; fault() and segment() require one that was not.
///
/// Threads: one at a time. After a crash of the writer: as before; wait() says writer_gone. After its own: the
/// writer finds it dead when it would be in the way, and waits no longer.
class broadcast_reliable_reader {
 public:
    /// Throws: as broadcast_reader::attach; not_found (made without registered readers), no_permission (NAME.peers),
    /// no_space (as many readers are registered as the ring was made for), invalid_argument (policy).
    [[nodiscard]] static broadcast_reliable_reader attach(std::string_view uri, const broadcast_registration& how = {},
                                                          const attach_options& options = {}) {
        return broadcast_reliable_reader(segment::attach_read_only(uri, options), how, options.trust);
    }
    explicit broadcast_reliable_reader(std::shared_ptr<const holdfast::segment> from,
                                       const broadcast_registration& how = {}, const memory::trust& whom = {})
        : segment_(std::move(from)),
          table_(std::make_unique<peers>(open(*segment_, how, whom))),
          slot_(claim(*table_, segment_->uri())),
          guard_(memory::fork_guard::make(segment_->uri())),
          core_(layout::broadcast_read_core(segment_->bytes(), detail::broadcast_geometry_of(*segment_)),
                detail::broadcast_slot_in(*table_, slot_)) {
        joined_ = enrol(how);
        if (joined_.status == outcome::corrupt)
            throw error(errc::corrupt, segment_->uri(),
                        "the ring's index contradicts its horizon; holdfast verify says more: recreate the ring");
    }
    broadcast_reliable_reader(broadcast_reliable_reader&&) noexcept = default;
    broadcast_reliable_reader& operator=(broadcast_reliable_reader&& other) noexcept {
        if (this == &other) return *this;
        // The old place is given back now, not by whoever has it next.
        std::destroy_at(this);
        std::construct_at(this, std::move(other));
        return *this;
    }
    ~broadcast_reliable_reader() {
        // In a forked child the slot and its lock are the parent's.
        if (table_ == nullptr || !guard_.same_process()) return;
        core_.leave();
        wake_writer();
        table_->release(slot_ + 1);
    }

    /// As broadcast_reader::read. Also: lapped after an eviction or under `drop`; read_only (inherited by fork: the
    /// registration is the parent's, attach anew).
    broadcast_read read(std::span<std::byte> out) noexcept { return next(detail::copying_into(out)); }
    broadcast_read read(std::vector<std::byte>& out) { return next(detail::copying_into(out)); }
    /// As broadcast_reader::read_batch; when `use` runs the writer may not know yet how far this reader is.
    template <class Use>
    broadcast_read read_batch(std::span<std::byte> room, Use&& use, std::uint64_t most = ~std::uint64_t{0}) {
        layout::broadcast_batch batch;
        const broadcast_read got = told([&] { return core_.next_batch(room, most, batch); });
        batch.for_each(room, use);
        return got;
    }
    /// As broadcast_reader::drain.
    [[nodiscard]] broadcast_drain<broadcast_reliable_reader> drain(std::vector<std::byte>& buffer) noexcept {
        return {*this, buffer};
    }
    /// As broadcast_reader::visit; under `block`, and under `evict` as long as registered() stays true, the message is
    /// whole while `look` runs.
    template <class Look>
    broadcast_read visit(Look&& look) {
        return next(detail::showing(look));
    }

    /// Waits until read() would say something else than empty; tells the writer first how far it is.
    /// Returns: ok; timed_out; writer_gone (no living process writes); read_only (inherited by fork).
    result wait(std::chrono::nanoseconds timeout) noexcept {
        if (!mine()) return {outcome::read_only, 0};
        acknowledge();
        std::atomic<std::uint32_t>& asleep = detail::broadcast_board_in(*table_).asleep;
        const memory::wait_answer answer = memory::wait_until(
            core_.reader().view().control().bell, memory::deadline::after(timeout), {},
            [&] { return core_.reader().ready(); },
            [&] {
                // Said before the last look; pairs with the fence in broadcast_writer::ring (I5).
                asleep.store(1, std::memory_order_seq_cst);
                std::atomic_thread_fence(std::memory_order_seq_cst);  // the look's loads stay behind it
            },
            [] {},  // the writer takes it back: others may be asleep
            [&] { return !detail::writer_lives(*segment_, *table_, detail::broadcast_board_slot); });
        return {detail::outcome_of_wait(answer), 0};
    }

    /// Registers anew, after an eviction or for another policy or place. Returns: as broadcast_reader::join.
    result enrol(const broadcast_registration& how) noexcept {
        if (!mine()) return {outcome::read_only, 0};
        const result joined =
            core_.enrol(how.start, how.policy, detail::ns_of(how.patience), detail::clock_ns(CLOCK_REALTIME));
        if (joined.status == outcome::corrupt) corrupt_ = true;
        wake_writer();
        return joined;
    }
    /// Whether the writer still heeds this reader: false once it was evicted.
    [[nodiscard]] bool registered() const noexcept { return mine() && core_.registered(); }
    /// Tells the writer at once how far this reader is; by itself it does so each 1/64 of the ring and when it finds
    /// nothing to read.
    void acknowledge() noexcept {
        if (!mine()) return;
        core_.move();
        wake_writer();
    }
    /// How the first registration went, as enrol() returns it.
    [[nodiscard]] result joined() const noexcept { return joined_; }
    [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
    /// Messages it was told were lost.
    [[nodiscard]] std::uint64_t lost() const noexcept { return core_.lost(); }
    [[nodiscard]] std::uint64_t sequence() const noexcept { return core_.reader().sequence(); }
    [[nodiscard]] std::uint64_t epoch() const noexcept { return core_.reader().epoch(); }
    [[nodiscard]] std::uint64_t message_bytes_max() const noexcept {
        return core_.reader().view().geometry().message_max();
    }
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        return corrupt_ ? std::optional(errc::corrupt) : segment_->fault();
    }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

 private:
    [[nodiscard]] static peers open(const holdfast::segment& from, const broadcast_registration& how,
                                    const memory::trust& whom) {
        if (how.policy != broadcast_policy::block && how.policy != broadcast_policy::drop &&
            how.policy != broadcast_policy::evict)
            throw error(errc::invalid_argument, from.uri(), "a registered reader's policy is block, drop or evict");
        static_cast<void>(detail::broadcast_geometry_of(from));
        return peers::open(from, whom);
    }
    [[nodiscard]] static std::uint32_t claim(peers& table, const std::string& subject) {
        // The writer holds a dead reader's slot for the moment in which it takes it back.
        constexpr unsigned tries = 20;
        for (unsigned i = 0; i < tries; ++i) {
            for (std::uint32_t index = 0; index + 1 < table.size(); ++index) {
                if (!table.hold(index + 1)) continue;
                clear(detail::broadcast_slot_in(table, index));
                return index;
            }
            const struct timespec pause{0, 100'000};
            ::nanosleep(&pause, nullptr);
        }
        throw error(errc::no_space, subject,
                    "all " + std::to_string(table.size() - 1) +
                        " places for registered readers are taken; end one, read without registration, or recreate "
                        "the ring with more");
    }
    /// Takes away what a predecessor left.
    static void clear(layout::broadcast_slot& slot) noexcept {
        // Release: as peers::release. Relaxed: the rest is told before the next `held`, or is for people.
        slot.held.store(0, std::memory_order_release);
        for (auto* word : {&slot.patience_ns, &slot.registered_ns, &slot.sequence, &slot.received, &slot.lost})
            word->store(0, std::memory_order_relaxed);
    }
    void wake_writer() noexcept {
        if (!core_.take_freed()) return;
        std::atomic<std::uint32_t>& bell = detail::broadcast_board_in(*table_).bell;
        // Release, pairs with the acquire in wait_until(): who sees the new count sees our place.
        bell.fetch_add(1, std::memory_order_release);
        memory::futex_wake(bell, 1);
    }
    [[nodiscard]] bool mine() const noexcept { return table_ != nullptr && guard_.same_process(); }
    template <class Look>
    broadcast_read next(Look&& look) {
        return told([&] { return core_.next(std::forward<Look>(look)); });
    }
    template <class Read>
    broadcast_read told(Read&& read) {
        if (!mine()) [[unlikely]]
            return {outcome::read_only, 0, false, 0, 0};
        const broadcast_read got = read();
        if (got.status == outcome::corrupt) corrupt_ = true;
        wake_writer();
        return got;
    }

    std::shared_ptr<const holdfast::segment> segment_;
    std::unique_ptr<peers> table_;  // at one address: the core points into its mapping
    std::uint32_t slot_ = 0;
    memory::fork_guard guard_;
    layout::broadcast_hold_core core_;
    result joined_{};
    bool corrupt_ = false;
};

}  // namespace holdfast
