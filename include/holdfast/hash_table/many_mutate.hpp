// SPDX-License-Identifier: Apache-2.0
// many_mutate.hpp - one of many writers of a hash table: mutate.hpp under the locks of the stripes it touches.
//
// A writer slot is a lock of the kernel's, a journal and a number. Whoever holds the lock is that writer, so one that
// is found dead is replaced by taking its lock and running its recovery. A stripe is a lock in the segment over the
// buckets of whole regions; its owner is, for these buckets, the one writer of mutate.hpp. docs/design/0021 argues it.
//
// Invariants, beside those of mutate.hpp
// (M1) Only the holder of slot s's lock stores to journal s, or to a stripe whose owner is s.
// (M2) Tags, versions, nodes and digests of a region change only by the owner of its stripe.
// (M3) An entry comes, goes or is changed only by who owns the home stripe of its key.
// (M4) An owner's journal names in `held` each stripe that it owns.
// (M5) While an intent is open its writer owns the stripe of the slot named. An armed journal has an open intent.
// (M6) Overflow counters, which entries of all stripes pass, are changed by one atomic step each.
//
// Stores of each operation, in order: H1 held = home | H2 home stripe owned | (H3 held = both | H4 second stripe owned)
//   | those of mutate.hpp | (G1 count, G2 second stripe free) | G1 count, G2 home stripe free
// Nobody waits while owning a stripe: the second is tried, and if it is another's both are given up and tried anew.
//
// Synchronisation: W5 stripe free (G2) -> R5 stripe owned (H2, H4): an owner sees what the owners before it stored.
// A successor of the dead is ordered behind them by the lock of the slot.
//
// Killed after  state                                           repaired by
//   H1, H3      held names what is not owned                    nobody: only what is owned is given back
//   H2, H4      stripes owned, nothing else changed             who meets them, or attaches: given back
//   D0 to S1    as mutate.hpp says, in this writer's journal    the same: recovered, then given back
//   S2 to G2    the operation is done                           the same: given back
//
// While the table grows (stripe_growth.hpp), behind S2: T1 the key is in the next generation what it is here, by an
// operation of this writer there | (T2 the home stripe is spoiled, where that failed).
// (M7) While a stripe says `mirrors` and nobody owns it, a key at home in it that was changed, or carried over, since
// is
//      in the next generation what it is here.
// (M8) Who owns stripes of the next generation waits for nothing; who waits for one may own some of this one.
//   S2 to T1    not in the next generation yet, stripes owned   who meets them: T1 for the key in the journal's slot
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "holdfast/hash_table/recover.hpp"
#include "holdfast/hash_table/stripe_growth.hpp"

namespace holdfast::detail {

/// The stripes that a writer's journal names: at most two, + 1 each.
struct held_stripes {
    std::uint64_t word = 0;
    [[nodiscard]] static constexpr held_stripes one(std::uint64_t home) noexcept { return {home + 1}; }
    [[nodiscard]] static constexpr held_stripes two(std::uint64_t home, std::uint64_t second) noexcept {
        return {(second + 1) << 32 | (home + 1)};
    }
    [[nodiscard]] constexpr std::uint64_t first() const noexcept { return word & 0xffff'ffffU; }
    [[nodiscard]] constexpr std::uint64_t second() const noexcept { return word >> 32; }
};

/// G1 and G2. Requires: the caller is the owner, or holds its slot.
inline void give_back_stripe(std::byte* stripe) noexcept {
    // Relaxed: only the owner stores to it.
    const std::uint32_t count = load_relaxed<std::uint32_t>(stripe + layout::stripe_count_offset);
    store_release<std::uint32_t>(stripe + layout::stripe_count_offset, count + 1);
    // W5, pairs with R5: whoever takes the stripe next sees all that was stored under it; verify sees the count.
    store_release<std::uint32_t>(stripe + layout::stripe_owner_offset, 0);
}

/// H2 and H4. Returns: whether it was free, and is the writer's now.
[[nodiscard]] inline bool try_take_stripe(std::byte* stripe, std::uint32_t writer) noexcept {
    std::atomic_ref<std::uint32_t> owner(*reinterpret_cast<std::uint32_t*>(stripe + layout::stripe_owner_offset));
    std::uint32_t nobody = 0;
    // R5, pairs with W5; release keeps `held` (H1, H3) in front of it, for who comes after a death. Relaxed on failure:
    // nothing is read then.
    return owner.compare_exchange_strong(nobody, writer + 1, std::memory_order_acq_rel, std::memory_order_relaxed);
}

/// Writes down who holds a writer slot, for people: its writer, or who finishes for a dead one and may be stopped in
/// that. Requires: the slot's lock.
template <class Node>
void name_holder(const table_view<std::byte, Node>& view, std::uint32_t writer, std::uint64_t pid) noexcept {
    store_release<std::uint64_t>(view.journal_at(writer) + layout::journal_pid_offset, pid);
}

/// Whether what the writer's journal says to be open could be its own: an intent on a slot whose stripe it owns, and an
/// armed journal of that slot only (M5). Anything else is damage.
template <class Node>
[[nodiscard]] bool is_own_operation(const table_view<std::byte, Node>& view, std::uint32_t writer) noexcept {
    // Relaxed, both: the slot's lock orders us behind its last holder.
    const hash_table_intent intent{load_relaxed<std::uint64_t>(view.journal + layout::journal_intent_offset)};
    const std::uint64_t sequence = load_relaxed<std::uint64_t>(view.journal + layout::journal_sequence_offset);
    if (!intent.is_open()) return sequence % 2 == 0;
    if (intent.slot() >= view.slots()) return false;
    if (stripe_owner(view.stripe(view.stripe_of(intent.slot() / layout::tags_per_line))) != writer + 1) return false;
    if (sequence % 2 == 0) return true;
    return intent.what() == hash_table_intent::update &&
           load_relaxed<std::uint64_t>(view.journal + layout::journal_slot_offset) == intent.slot();  // as above
}

/// Closes what damage has opened in a journal, and changes nothing else.
template <class Node>
void reject_operation(const table_view<std::byte, Node>& view) noexcept {
    // Relaxed, both: as above.
    const std::uint64_t sequence = load_relaxed<std::uint64_t>(view.journal + layout::journal_sequence_offset);
    const hash_table_intent intent{load_relaxed<std::uint64_t>(view.journal + layout::journal_intent_offset)};
    if (sequence % 2 != 0) store_release<std::uint64_t>(view.journal + layout::journal_sequence_offset, sequence + 1);
    store_release<std::uint64_t>(view.journal + layout::journal_intent_offset, intent.closed().word);
}

/// Finishes what the last holder of a writer slot was killed in, and gives back its stripes, behind
/// before_giving_back(). Requires: the caller holds the lock of the slot; writer < view.writers. Idempotent. Cost: one
/// journal.
template <class Node, class Last>
hash_table_recovery recover_writer(const table_view<std::byte, Node>& any, std::uint32_t writer,
                                   Last&& before_giving_back) noexcept {
    const table_view<std::byte, Node> view = any.as_writer(writer);
    hash_table_recovery done;
    if (is_own_operation(view, writer)) {
        done = recover(view);
    } else {
        reject_operation(view);
        done.journal_rejected = true;
    }
    before_giving_back();
    // Relaxed: the slot's lock orders us behind its last holder.
    const held_stripes held{load_relaxed<std::uint64_t>(view.journal + layout::journal_held_offset)};
    for (const std::uint64_t named : {held.second(), held.first()}) {
        if (named == 0 || named - 1 > view.stripe_mask) continue;
        std::byte* stripe = view.stripe(named - 1);
        if (stripe_owner(stripe) != writer + 1) continue;
        give_back_stripe(stripe);
        done.stripes_given_back = true;
    }
    return done;
}

template <class Node>
hash_table_recovery recover_writer(const table_view<std::byte, Node>& any, std::uint32_t writer) noexcept {
    return recover_writer(any, writer, [] {});
}

/// Whether a writer slot has anything to recover.
template <class Byte, class Node>
[[nodiscard]] bool left_something(const table_view<Byte, Node>& any, std::uint32_t writer) noexcept {
    const table_view<Byte, Node> view = any.as_writer(writer);
    // Acquire, all: a living writer may be at work; whoever acts on the answer holds the slot's lock first.
    const hash_table_intent intent{load_acquire<std::uint64_t>(view.journal + layout::journal_intent_offset)};
    if (intent.is_open() || load_acquire<std::uint64_t>(view.journal + layout::journal_sequence_offset) % 2 != 0)
        return true;
    const held_stripes held{load_acquire<std::uint64_t>(view.journal + layout::journal_held_offset)};
    for (const std::uint64_t named : {held.second(), held.first()})
        if (named != 0 && named - 1 <= view.stripe_mask && stripe_owner(view.stripe(named - 1)) == writer + 1)
            return true;
    return false;
}

/// What a writer does before its first operation: recovers its own slot, and those of others that are dead and left
/// something. Requires: the caller holds the lock of slot `writer`. Cost: a look at each slot.
template <class Node, class Locks>
hash_table_recovery recover_as(const table_view<std::byte, Node>& view, std::uint32_t writer, Locks locks) noexcept {
    hash_table_recovery done = recover_writer(view, writer);
    for (std::uint32_t other = 0; other < view.writers; ++other) {
        if (other == writer || !left_something(view, other) || !locks.take(other)) continue;
        name_holder(view, other, locks.pid());
        const hash_table_recovery more = recover_writer(view, other);
        locks.give_back(other);
        done += more;
    }
    return done;
}

/// Locks is how this writer learns of the others:
///   static constexpr unsigned looks      at a stripe, before anything else is asked
///   bool take(std::uint32_t writer)      the slot's lock, if no living process has it
///   void give_back(std::uint32_t writer) the same
///   bool wait(std::uint32_t turn)        a little longer each turn, from 0 on; false: that was long enough
///   std::uint64_t pid()                  its own, for people
template <class Node, class Locks, tag_match Match = tag_match::best>
class hash_table_many_mutator : private hash_table_mutator<Node, Match, sharing::by_stripes> {
    using base = hash_table_mutator<Node, Match, sharing::by_stripes>;
    using location = typename base::location;
    using base::view_;

 public:
    using view = typename base::view;
    using result = typename base::result;
    using base::bytes;
    using base::finder;

    hash_table_many_mutator() = default;
    /// Requires: the caller holds the lock of slot `writer` < v.writers, and recover_writer() has run for it.
    hash_table_many_mutator(const view& v, std::uint32_t writer, Locks locks) noexcept
        : base(v.as_writer(writer)), locks_(std::move(locks)), writer_(writer) {}

    result try_insert(const std::byte* key, const std::byte* value) noexcept {
        return at_key(key, true, [&](const location& at, hash_parts h) -> result {
            if (at.found) return {outcome::exists, entry_change::none, at.slot};
            return base::insert_at(at, h, key, value);
        });
    }
    result insert_or_assign(const std::byte* key, const std::byte* value) noexcept {
        return at_key(key, true, [&](const location& at, hash_parts h) -> result {
            if (at.found) return base::assign_any(at, key, value);
            return base::insert_at(at, h, key, value);
        });
    }
    result update(const std::byte* key, const std::byte* value) noexcept {
        return at_key(key, false,
                      [&](const location& at, hash_parts) -> result { return base::assign_any(at, key, value); });
    }
    result erase(const std::byte* key) noexcept {
        return at_key(key, false, [&](const location& at, hash_parts h) { return base::template erase_at<0>(at, h); });
    }
    /// Copies the value to `value` if the key is there, calls decide(whether it is) -> table_change and does what that
    /// says: gives the key what `value` is then, takes its entry out, or leaves all as it is; all while nobody else can
    /// change the entry. Unless `adds` it is not asked about a key that is not there. Returns: ok, not_found, full,
    /// stale (nothing was to be changed), ...
    template <class Decide>
    result decide(const std::byte* key, std::byte* value, bool adds, Decide&& decide) noexcept(noexcept(decide(true))) {
        return at_key(key, adds, [&](const location& at, hash_parts h) -> result {
            if (at.found)
                copy_from_words(value, view_.node_at(at.bucket, at.place), view_.value_offset,
                                view_.node.value_bytes());
            switch (decide(at.found)) {
                case table_change::none: break;
                case table_change::store:
                    return at.found ? base::assign_any(at, key, value) : base::insert_at(at, h, key, value);
                case table_change::erase: return base::template erase_at<0>(at, h);
            }
            return {outcome::stale, entry_change::none, at.slot};
        });
    }

    // ---- growth (docs/design/0022) ----

    /// What the last operation that answered `contended` met in a stripe and could not go on by; else 0. It changed
    /// nothing. The caller finds out what that is, tells (mirror_to(), abandon()), and asks for the operation again.
    [[nodiscard]] stripe_growth met() const noexcept { return met_; }
    /// From now on this writer knows the next generation of that tag, and does there what it does here; next ==
    /// nullptr: it cannot, and spoils what it changes. Requires: `next` is this slot's writer there, and outlives this
    /// one, or abandon().
    void mirror_to(std::uint64_t tag, hash_table_many_mutator* next) noexcept {
        tag_ = tag;
        next_ = next;
        mirror_failure_.reset();
    }
    /// From now on this writer knows that the next generation of that tag will never be: nothing has to be done there.
    void abandon(std::uint64_t tag) noexcept {
        abandoned_ = tag;
        if (tag == tag_) mirror_to(0, nullptr);
    }
    [[nodiscard]] bool mirrors_to(std::uint64_t tag) const noexcept { return tag == tag_ && next_ != nullptr; }
    /// Why the next generation could not be changed, the last time that happened.
    [[nodiscard]] std::optional<outcome> mirror_failure() const noexcept { return mirror_failure_; }
    /// How many keys this writer has brought up to date in the next generation.
    [[nodiscard]] std::uint64_t mirrored() const noexcept { return mirrored_; }

    /// Gives a stripe another word. Returns: ok; stale: it is spoiled, or, to be closed, was not mirroring;
    /// contended; corrupt.
    outcome turn(std::uint64_t number, stripe_growth to) noexcept {
        return with_stripe(number, [&](std::byte* stripe) {
            const stripe_growth now = growth_of(stripe);
            const bool spoiled = now == stripe_growth::of(to.tag(), stripe_growth::spoiled);
            const bool open = now != to && now != stripe_growth::of(to.tag(), stripe_growth::mirrors);
            if (spoiled || (to.what() == stripe_growth::closed && open)) return outcome::stale;
            set_growth_of(stripe, to);
            return outcome::ok;
        });
    }
    /// Brings the key's entry over, if there is one. Returns: ok, not_found, contended or corrupt; what else went wrong
    /// is the mirror's failure().
    outcome carry(const std::byte* key) noexcept {
        return at_key(key, false,
                      [](const location& at, hash_parts) -> result {
                          return {outcome::ok, entry_change::updated, at.slot};
                      })
            .status;
    }
    /// Whether a region's checksum is right. Returns: ok, corrupt, contended. Cost: the nodes of 416 slots.
    outcome check_region(std::uint64_t region) noexcept {
        const std::uint64_t first = region * layout::buckets_per_region;
        return with_stripe(view_.stripe_of(first), [&](std::byte*) {
            // Relaxed: nobody else stores to it.
            const std::uint64_t stored = load_relaxed<std::uint64_t>(view_.digest_of(first));
            return digest_region(view_, region, hash_table_intent{}) == stored ? outcome::ok : outcome::corrupt;
        });
    }
    /// As recover_writer(), and brings over what the dead one did not. Returns: nothing where that was in a growth that
    /// is not known here: then nothing was done, and met() tells. Requires: the caller holds the slot's lock.
    std::optional<hash_table_recovery> settle(std::uint32_t writer) noexcept {
        const view of = view_.as_writer(writer);
        name_holder(view_, writer, locks_.pid());
        // Relaxed: the slot's lock orders us behind its last holder.
        const held_stripes held{load_relaxed<std::uint64_t>(of.journal + layout::journal_held_offset)};
        const std::uint64_t home = held.first() - 1;
        stripe_growth growth;
        if (home <= view_.stripe_mask && stripe_owner(view_.stripe(home)) == writer + 1)
            growth = growth_of(view_.stripe(home));
        // Behind `closed` nothing was changed: whoever closed it had met all that was under way.
        if (growth.what() == stripe_growth::closed) growth = {};
        if (!knows(growth)) {
            met_ = growth;
            return std::nullopt;
        }
        // Which waits for nothing. Only while a stripe here is open the next generation is certainly not the truth.
        // Once it is, it may grow itself, and what the dead one left there is for writers there to settle.
        if (next_ != nullptr && is_live(growth)) (void)recover_writer(next_->view_, writer);
        return recover_writer(view_, writer, [&] {
            if (growth.word != 0) mirror_left(of, home, growth);
        });
    }
    /// As recover_as(), by settle(). Returns: whether all that could be was done; else met() tells.
    [[nodiscard]] bool settle_all(hash_table_recovery& done) noexcept {
        for (std::uint32_t other = 0; other < view_.writers; ++other) {
            const bool self = other == writer_;
            if (!self && (!left_something(view_, other) || !locks_.take(other))) continue;
            const std::optional<hash_table_recovery> more = settle(other);
            if (!self) locks_.give_back(other);
            if (!more) return false;
            done += *more;
        }
        return true;
    }

    [[nodiscard]] std::uint32_t writer() const noexcept { return writer_; }
    /// Whether a decide() is running.
    [[nodiscard]] bool is_changing() const noexcept { return inside_; }
    [[nodiscard]] Locks& locks() noexcept { return locks_; }
    /// Whose stripe the last operation that answered `contended` waited for; nothing where it was never the same for
    /// long.
    [[nodiscard]] std::optional<std::uint32_t> blocked_by() const noexcept { return blocked_by_; }
    /// How many stripes of dead writers this one has given back.
    [[nodiscard]] std::uint64_t takeovers() const noexcept { return takeovers_; }

 private:
    /// The stripes owned, given back at the end of the block, whatever ends it.
    class claim {
     public:
        explicit claim(hash_table_many_mutator& of) noexcept : of_(of) { of_.inside_ = true; }
        claim(const claim&) = delete;
        claim& operator=(const claim&) = delete;
        ~claim() {
            give_back();
            of_.inside_ = false;
        }
        void give_back() noexcept {
            if (second_ != nullptr) give_back_stripe(std::exchange(second_, nullptr));
            if (first_ != nullptr) give_back_stripe(std::exchange(first_, nullptr));
        }
        [[nodiscard]] bool take_first(std::uint64_t home) noexcept {
            of_.hold(held_stripes::one(home));  // H1
            std::byte* stripe = of_.view_.stripe(home);
            if (!try_take_stripe(stripe, of_.writer_)) return false;  // H2
            first_ = stripe;
            return true;
        }
        [[nodiscard]] bool take_second(std::uint64_t home, std::uint64_t other) noexcept {
            of_.hold(held_stripes::two(home, other));  // H3
            std::byte* stripe = of_.view_.stripe(other);
            if (!try_take_stripe(stripe, of_.writer_)) return false;  // H4
            second_ = stripe;
            return true;
        }

     private:
        hash_table_many_mutator& of_;
        std::byte* first_ = nullptr;
        std::byte* second_ = nullptr;
    };
    friend claim;

    // Each one follows another writer's operation, so that this many are some milliseconds of bad luck, or damage.
    static constexpr std::uint32_t attempts_max = 1U << 16;

    /// Runs act(location, hash) on the entry of a key, or on the place where it could be, with all its stripes owned.
    template <class Act>
    result at_key(const std::byte* key, bool adds, Act&& act) {
        if (inside_) return {outcome::contended};  // from within a change of our own
        const hash_parts h = view_.hash(key);
        const std::uint64_t bucket = h.home(view_.buckets), home = view_.stripe_of(bucket);
        view_.prefetch_line(bucket);
        view_.prefetch_preferred(h);
        __builtin_prefetch(view_.digest_of(bucket), 1);
        claim owned(*this);
        met_ = {};
        std::uint32_t turn = 0;
        for (std::uint32_t attempt = 0; attempt < attempts_max; ++attempt) {
            std::uint64_t wanted = home;
            if (owned.take_first(home)) [[likely]] {
                stripe_growth growth = growth_of(view_.stripe(home));
                if (growth.word != 0) [[unlikely]] {
                    if (!knows(growth)) {
                        met_ = growth;
                        return {outcome::contended};
                    }
                    if (!is_live(growth)) set_growth_of(view_.stripe(home), growth = {});  // it came to nothing
                }
                const location at = base::locate(h, key);
                if (!at.found && !adds) return {outcome::not_found};
                if (!at.found && !at.room) return {outcome::full};
                wanted = view_.stripe_of(at.bucket);
                if (wanted == home) [[likely]]
                    return mirrored(growth, h, key, act(at, h));
                if (owned.take_second(home, wanted)) {
                    location now = at;
                    if (is_still(now, h, key)) return mirrored(growth, h, key, act(now, h));
                }
                owned.give_back();
            }
            if (const auto why = wait_for(wanted, turn)) return {*why};
        }
        blocked_by_.reset();
        return {outcome::contended};
    }

    /// Runs act(stripe) while it is owned.
    template <class Act>
    outcome with_stripe(std::uint64_t number, Act&& act) noexcept {
        if (inside_) return outcome::contended;
        claim owned(*this);
        met_ = {};
        std::uint32_t turn = 0;
        for (std::uint32_t attempt = 0; attempt < attempts_max; ++attempt) {
            if (owned.take_first(number)) return act(view_.stripe(number));
            if (const auto why = wait_for(number, turn)) return *why;
        }
        blocked_by_.reset();
        return outcome::contended;
    }

    /// Whether this writer can do what the stripe asks for.
    [[nodiscard]] bool knows(stripe_growth growth) const noexcept {
        return growth.word == 0 || has_no_growth<Node> ||
               (growth.what() != stripe_growth::closed && (growth.tag() == tag_ || growth.tag() == abandoned_));
    }

    /// Whether it is about the next generation that this writer knows, and not one that came to nothing.
    [[nodiscard]] bool is_live(stripe_growth growth) const noexcept { return tag_ != 0 && growth.tag() == tag_; }

    /// T1, where the operation changed anything.
    [[nodiscard]] result mirrored(stripe_growth growth, hash_parts h, const std::byte* key, result done) noexcept {
        if (growth.word != 0 && done.what != entry_change::none) [[unlikely]]
            mirror(growth, h, key);
        return done;
    }
    /// T1 and T2. Requires: the key's home stripe is owned, by this writer or by a dead one whose slot it holds.
    [[gnu::noinline]] void mirror(stripe_growth growth, hash_parts h, const std::byte* key) noexcept {
        if (growth.what() != stripe_growth::mirrors || !is_live(growth)) return;
        const outcome status = next_ == nullptr ? mirror_failure_.value_or(outcome::no_memory) : do_in_next(h, key);
        if (status == outcome::ok) {
            ++mirrored_;
            return;
        }
        mirror_failure_ = status;
        // That generation will be given up, so nothing more is done in it: whoever is stopped there is waited for once,
        // and not for each stripe that is owned here meanwhile.
        next_ = nullptr;
        set_growth_of(view_.stripe(view_.stripe_of(h.home(view_.buckets))),
                      stripe_growth::of(growth.tag(), stripe_growth::spoiled));
    }
    /// Gives the key in the next generation what it has here. So it may be done again, and by others.
    [[nodiscard]] outcome do_in_next(hash_parts h, const std::byte* key) noexcept {
        const location at = base::locate(h, key);
        if (at.found)
            return next_->insert_or_assign(key, view_.node_at(at.bucket, at.place) + view_.value_offset).status;
        const outcome status = next_->erase(key).status;
        return status == outcome::not_found ? outcome::ok : status;
    }
    /// T1 for a dead writer, which owns stripe `home`. The slot of its last operation still holds the key, whatever
    /// came of that: bytes of a node change only for an insert into it, under its stripe. Another key, of an operation
    /// long over or half stored, is brought up to date as well, or not at home here.
    [[gnu::noinline]] void mirror_left(const view& of, std::uint64_t home, stripe_growth growth) noexcept {
        const hash_table_intent intent{
            load_relaxed<std::uint64_t>(of.journal + layout::journal_intent_offset)};  // above
        if (intent.slot() >= view_.slots()) return;
        std::byte key[layout::key_bytes_max];
        copy_from_words(key,
                        view_.node_at(intent.slot() / layout::tags_per_line,
                                      static_cast<unsigned>(intent.slot() % layout::tags_per_line)),
                        0, view_.node.key_bytes());
        const hash_parts h = view_.hash(key);
        if (view_.stripe_of(h.home(view_.buckets)) == home) mirror(growth, h, key);
    }

    /// H1, H3. Release: it is there when a stripe is.
    void hold(held_stripes stripes) noexcept {
        store_release<std::uint64_t>(view_.journal + layout::journal_held_offset, stripes.word);
    }

    /// Whether what was found in a bucket before its stripe was owned is so now: others may have changed the bucket,
    /// and a key of several words may have been read while it was stored.
    [[nodiscard, gnu::noinline]] bool is_still(location& at, hash_parts h, const std::byte* key) const noexcept {
        const std::byte* line = view_.line(at.bucket);
        if (at.found)
            return tag_at(line, at.place) == h.tag() &&
                   equal_words(view_.node_at(at.bucket, at.place), key, view_.node.key_bytes());
        at.free_places = match_tags<Match>(line, layout::tag_free, view_.vectors);
        return at.free_places != 0;
    }

    /// Waits until a stripe was free for a moment. Returns: nothing, or why not.
    [[nodiscard, gnu::noinline]] std::optional<outcome> wait_for(std::uint64_t number, std::uint32_t& turn) noexcept {
        std::byte* const stripe = view_.stripe(number);
        for (;; ++turn) {
            std::uint32_t owner = stripe_owner(stripe);
            for (unsigned look = 0; owner != 0 && look < Locks::looks; ++look) {
                pause();
                owner = stripe_owner(stripe);
            }
            if (owner == 0) return std::nullopt;
            if (owner > view_.writers) {
                finder().latch(errc::corrupt);
                return outcome::corrupt;
            }
            if (take_over(owner - 1, stripe)) return std::nullopt;
            if (met_.word != 0) return outcome::contended;
            if (locks_.wait(turn)) continue;
            if (is_false_owner(number, owner)) {
                finder().latch(errc::corrupt);
                return outcome::corrupt;
            }
            blocked_by_ = owner - 1;
            return outcome::contended;
        }
    }

    /// Whether a stripe names a living writer that does not own it: that one's journal does not name the stripe (M4).
    /// No false alarm: an owner's journal names its stripe all the while. One that gives it back during a look may be
    /// elsewhere when its journal is read, and back with the same count, which goes up in front of the end only. So it
    /// is looked at twice: to be met elsewhere a second time it has to raise the count. Requires: owner is a slot + 1.
    [[nodiscard]] bool is_false_owner(std::uint64_t number, std::uint32_t owner) const noexcept {
        const std::byte* const stripe = view_.stripe(number);
        // Acquire, all, and in this order: R5 brings H1 of the owner that is seen; and who sees in `held` what that
        // writer stored later sees the count that it gave the stripe back with.
        const auto count = load_acquire<std::uint32_t>(stripe + layout::stripe_count_offset);
        for (unsigned look = 0; look < 2; ++look) {
            if (stripe_owner(stripe) != owner) return false;
            const held_stripes held{
                load_acquire<std::uint64_t>(view_.journal_at(owner - 1) + layout::journal_held_offset)};  // as above
            if (held.first() == number + 1 || held.second() == number + 1) return false;
        }
        return stripe_owner(stripe) == owner &&
               load_acquire<std::uint32_t>(stripe + layout::stripe_count_offset) == count;  // as above
    }

    /// Does what the owner of a stripe left undone, if it is dead. Returns: whether the stripe is not its any more; not
    /// either where it died in a growth that is not known here: met_ tells.
    [[nodiscard]] bool take_over(std::uint32_t owner, std::byte* stripe) noexcept {
        const bool self = owner == writer_;  // by damage only: we own none here, and hold our slot's lock
        if (!self && !locks_.take(owner)) return false;
        if (!self && !settle(owner)) {
            locks_.give_back(owner);
            return false;
        }
        if (stripe_owner(stripe) == owner + 1) give_back_stripe(stripe);  // not named by its journal: damage as well
        if (!self) locks_.give_back(owner);
        ++takeovers_;
        return true;
    }

    Locks locks_{};
    std::uint32_t writer_ = 0;
    bool inside_ = false;
    std::optional<std::uint32_t> blocked_by_;
    std::uint64_t takeovers_ = 0;
    // Of a growth: the next generation that this writer knows, with its writer there; and the last that came to
    // nothing.
    std::uint64_t tag_ = 0;
    hash_table_many_mutator* next_ = nullptr;
    std::uint64_t abandoned_ = 0;
    stripe_growth met_{};
    std::optional<outcome> mirror_failure_;
    std::uint64_t mirrored_ = 0;
};

}  // namespace holdfast::detail
