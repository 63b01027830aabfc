// SPDX-License-Identifier: Apache-2.0
// many_grow.hpp - one of many writers of a hash table through all its generations, and how any of them makes the next.
//
// The old generation is the truth until the commit. The next one has the name NAME.growing from the beginning, so that
// all writers can map it. Whoever holds the mover's byte of the lease leads, one small step with each of its
// operations; the kernel frees the byte with its holder, and any other writer goes on. docs/design/0022-growth.md
// argues it.
//
//   step                                                    killed after it
//   reserve  the file grows to its size, without a name     nothing
//   F2       it is NAME.growing                             the next mover fills it, or removes it and makes its own
//   open     each stripe says `mirrors`, one by one         the next mover does it again
//   carry    each entry is brought over, under its stripe   the next mover begins at the first slot
//   close    each stripe says `closed`, one by one          who waits is the next mover: it opens all of them at once,
//                                                           and goes on from the beginning
//   F1       the old segment is marked as moved             the same
//   F3       NAME.growing becomes NAME: the commit          nothing: who finds a stripe closed asks the name
// Given up: F4 the next generation is marked and loses its name, F5 each stripe says nothing again. Killed between: no
// stripe's word leads anywhere, and its next owner clears it.
//
// (G4) Behind `open` every change is done in both (M7), so behind `carry` both hold the same whenever no stripe is
// owned. (G5) Behind `close` no operation is under way and none begins in the old generation, ever. (G6) A stripe's
// word names the next generation and the segment it follows. What it names is NAME.growing, or has been renamed to
// NAME, or is given up for ever. (G7) Only what is known not to be the truth yet is recovered without regard to its own
// growth: what has the name is settled by one who is a writer there.
// Threads: one object is used by one thread at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/hash_table/empty_view.hpp"
#include "holdfast/hash_table/grow.hpp"
#include "holdfast/hash_table/many_attach.hpp"
#include "holdfast/memory/shared_file.hpp"
#include "holdfast/segment/places.hpp"

namespace holdfast::detail {

template <class Node>
[[nodiscard]] Node node_description(const layout::hash_table_geometry& g) noexcept {
    if constexpr (requires { Node{std::size_t{1}, std::size_t{1}}; })
        return Node{static_cast<std::size_t>(g.key_bytes), static_cast<std::size_t>(g.value_bytes)};
    else
        return Node{};
}

/// What stripes of `old` call a next generation of it.
[[nodiscard]] inline std::uint64_t growth_tag(const segment& old, const segment& next) noexcept {
    std::uint64_t a = 0, b = 0;
    std::memcpy(&a, old.info().identity.data(), sizeof a);
    std::memcpy(&b, next.info().identity.data(), sizeof b);
    return ((std::rotl(a, 32) ^ b) | 1U) & (~std::uint64_t{0} >> 2);
}

template <class Node>
class many_table {
 public:
    using mutator = hash_table_many_mutator<Node, writer_slot_locks>;
    using view = typename mutator::view;

    many_table() = default;
    many_table(many_table&&) noexcept = default;
    many_table& operator=(many_table&& other) noexcept {
        if (this == &other) return *this;
        std::destroy_at(this);
        return *std::construct_at(this, std::move(other));
    }
    many_table(const many_table&) = delete;
    many_table& operator=(const many_table&) = delete;
    /// Readers of this mapping keep the lease's description, and would keep the lead with nobody to lead. A forked copy
    /// shares its parent's, and leaves it alone.
    ~many_table() {
        if (move_ && segment_->writable()) leave_lead();
    }

    /// Becomes one of the writers of the table in `s`, and finishes what dead ones left undone. Throws: writer_alive,
    /// and what segment::attach throws.
    [[nodiscard]] hash_table_recovery join(std::shared_ptr<segment> s, const memory::trust& whom,
                                           const memory::page_policy& pages, std::uint64_t timeout_ns) {
        constexpr std::uint64_t patience_ns = 1'000'000'000;
        segment_ = std::move(s);
        geometry_ = geometry_of(*segment_);
        trust_ = whom;
        pages_ = pages;
        const std::uint32_t slot =
            claim_writer_slot(*segment_, static_cast<std::uint32_t>(geometry_.writer_slots), timeout_ns);
        mutator_ = mutator(view_of(*segment_, geometry_), slot, {segment_->lease_descriptor(), patience_ns});
        nowhere_ = hash_table_finder<Node>(empty_view(geometry_, node_description<Node>(geometry_)));
        name_holder(mutator_.bytes(), slot, writer_slot_locks::pid());
        // Whoever had the slot before may have died in the next generation, too, which may have taken the name since.
        for (unsigned tries = 0; tries < tries_max; ++tries) {
            (void)try_to_find_next();
            if (!is_left()) break;
            if (!follow())
                throw error(
                    errc::not_found, segment_->uri(),
                    "it was removed or replaced meanwhile by what cannot be attached; look at it (holdfast ls)");
        }
        hash_table_recovery done;
        for (unsigned tries = 0; !mutator_.settle_all(done) && tries < tries_max; ++tries) learn(mutator_.met());
        renew();
        joined_ = true;
        return done;
    }

    /// Runs operation(mutator) on `key` in the newest generation, and a step of a growth behind it.
    template <class Operation>
    auto run(const std::byte* key, Operation&& operation) {
        attempts made;
        for (;;) {
            auto done = operation(mutator_);
            if (done.status == outcome::contended && !mutator_.is_changing() && go_on(made)) continue;
            if ((move_ || next_ || !retired_.empty()) && !mutator_.is_changing()) [[unlikely]] {
                const holdfast::segment* const before = segment_.get();
                work();
                // That was the commit: the slot is to be one of the table that this handle is from now on.
                if (segment_.get() != before && done.slot != no_slot) done.slot = mutator_.finder().find(key, nullptr);
            }
            return done;
        }
    }

    /// The writer, in the newest generation as far as one look tells.
    [[nodiscard]] mutator& current() noexcept {
        if (segment_->moved()) [[unlikely]]
            (void)come_to_the_newest();
        return mutator_;
    }
    /// Who answers questions: that writer's finder. Where it cannot be in the newest generation, one that finds nothing
    /// and has latched why: others have left what it could read. Who only asks does no step: so each question lets go
    /// of a piece of the generation that this handle has left.
    [[nodiscard]] const hash_table_finder<Node>& finder_for_queries() noexcept {
        if (segment_->moved() || !retired_.empty()) [[unlikely]]
            return newest_finder();
        return mutator_.finder();
    }
    [[nodiscard]] const std::shared_ptr<holdfast::segment>& segment_pointer() const noexcept { return segment_; }
    [[nodiscard]] const layout::hash_table_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] std::uint64_t takeovers() const noexcept { return takeovers_ + mutator_.takeovers(); }

    /// See hash_table<K, V, writers::many>::grow().
    void grow(std::uint64_t capacity) {
        if (!segment_->writable())
            throw error(errc::read_only, segment_->uri(), "the handle was inherited by fork; attach in this process");
        if (mutator_.is_changing())
            throw error(errc::contended, segment_->uri(),
                        "a change of an entry is under way in this handle; grow behind it");
        (void)current();
        if (move_ || !take_lead())
            throw error(errc::contended, segment_->uri(),
                        "another growth is under way; grow when its leader has ended it, or, if that is this handle, "
                        "behind advance() until growing() is false");
        if (is_left()) {  // the one before ended just now
            leave_lead();
            if (follow() && !is_left()) return grow(capacity);
            throw error(errc::contended, segment_->uri(), "another growth ended just now; grow again");
        }
        failure_.reset();
        try {
            auto begun = std::make_unique<move>();
            begun->made.emplace(segment_successor::begin(
                *segment_, next_generation(*segment_, geometry_, mutator_.finder().size(), capacity), pages_));
            move_ = std::move(begun);
            clear_away();
            move_->at = stage::reserving;
        } catch (...) {
            leave_lead();
            throw;
        }
    }
    [[nodiscard]] bool growing() const noexcept { return move_ || next_ || !retired_.empty(); }
    bool advance(std::uint64_t steps) noexcept {
        if (!segment_->writable() || mutator_.is_changing()) return false;
        (void)current();
        if (!move_) look_after_growth();
        for (; steps != 0 && has_steps(); --steps) work();
        return has_steps();
    }
    void stop_growing() noexcept {
        if (!segment_->writable()) return;
        if (move_ && !mutator_.is_changing())
            give_up(error(errc::contended, segment_->uri(), "the growth was stopped; begin it again"));
        retired_ = {};
    }
    [[nodiscard]] const std::optional<error>& growth_failure() const noexcept { return failure_; }
    /// Slots whose entries were brought over, for whoever shows progress.
    [[nodiscard]] std::uint64_t carried_slots() const noexcept { return move_ ? move_->cursor : 0; }

 private:
    static constexpr unsigned tries_max = 1000;
    static constexpr std::uint32_t lead_slot =
        static_cast<std::uint32_t>(layout::writer_slots_max);  // behind all slots
    static constexpr std::uint64_t reserved_bytes_a_step = std::uint64_t{256} << 10;
    static constexpr std::uint64_t stripes_a_step = 64;
    static constexpr std::uint64_t carried_bytes_a_step = std::uint64_t{16} << 10;
    // Whoever owns a stripe of the next generation longer than this is stopped: then rather no growth. Not what the
    // user has set: 0 would give up where two writers merely meet. Half of the usual patience: who mirrors has a stripe
    // of this generation in hand, and others wait for that. Not less, as a machine may take a processor away for long.
    static constexpr std::uint64_t mirror_patience_ns = 500'000'000;
    // A leader's step stands behind an operation that has been done, or has closed stripes at which others wait: rather
    // than wait long for a slow one it tries again, after so many steps more.
    static constexpr std::uint64_t step_patience_ns = 20'000'000;
    static constexpr std::uint32_t steps_of_rest = 64;
    /// That, instead of what the user has set, until the end of the block.
    class brief_patience {
     public:
        explicit brief_patience(mutator& of) noexcept : of_(of), former_(of.locks()) {
            of.locks().set_patience(step_patience_ns);
        }
        brief_patience(const brief_patience&) = delete;
        brief_patience& operator=(const brief_patience&) = delete;
        ~brief_patience() { of_.locks() = former_; }

     private:
        mutator& of_;
        writer_slot_locks former_;
    };

    /// What one operation has done to get on.
    struct attempts {
        std::uint32_t waits = 0;
        unsigned finds = 0;  // about a growth, without waiting: bounded, whatever names lead to
    };
    enum class stage : std::uint8_t { reserving, opening, carrying, undoing };
    struct move {
        std::optional<segment_successor> made;  // by this writer; else it goes on with another's
        stage at = stage::opening;
        std::uint64_t stripe = 0;  // opening, undoing: the next one
        std::uint64_t cursor = 0;  // carrying: the next slot
        std::uint64_t checked_regions = 0;
        region_sum sum;          // of the next one
        std::uint32_t rest = 0;  // steps to leave out, since a slow writer was met
    };
    struct generation {
        std::shared_ptr<holdfast::segment> segment;
        layout::hash_table_geometry geometry;
        std::uint64_t tag = 0;
        mutator writer;
    };

    [[nodiscard]] static view view_of(holdfast::segment& s, const layout::hash_table_geometry& g) {
        return view(s.body(), g, node_description<Node>(g));
    }
    /// Whether there is something that this writer would do in a step.
    [[nodiscard]] bool has_steps() const noexcept { return move_ || !retired_.empty(); }
    /// Whether the name leads elsewhere.
    [[nodiscard]] bool is_left() const noexcept { return segment_->name().is_path() && segment_->replaced(); }

    // ---- the next generation, as every writer knows it ----

    /// What a slot's last holder was killed in, when a handle comes to another generation. Where it has no name yet it
    /// does not grow itself: recovered at once. What has the name may grow by now: then a key may have to be mirrored
    /// first, so it is left to settle_all() behind go_over().
    enum class leftovers : std::uint8_t { recovered, left };

    /// This slot's writer in another generation. Throws: geometry_mismatch and others.
    [[nodiscard]] std::unique_ptr<generation> enter(std::shared_ptr<holdfast::segment> s, leftovers of_the_dead) {
        auto entered = std::make_unique<generation>();
        entered->geometry = geometry_of(*s);
        const layout::hash_table_geometry& g = entered->geometry;
        if (g.key_bytes != geometry_.key_bytes || g.value_bytes != geometry_.value_bytes ||
            g.value_offset != geometry_.value_offset || g.writer_slots != geometry_.writer_slots ||
            s->info().schema != segment_->info().schema)
            throw error(errc::geometry_mismatch, s->uri(),
                        "what would take the table's place holds other entries, or has other writers; attach anew");
        const view v = view_of(*s, g);
        name_holder(v, mutator_.writer(), writer_slot_locks::pid());
        if (of_the_dead == leftovers::recovered) (void)recover_writer(v, mutator_.writer());
        entered->writer = mutator(v, mutator_.writer(), {segment_->lease_descriptor(), mirror_patience_ns});
        entered->tag = growth_tag(*segment_, *s);
        entered->segment = std::move(s);
        return entered;
    }
    void know(std::unique_ptr<generation> next) noexcept {
        forget_next();
        next_ = std::move(next);
        mutator_.mirror_to(next_->tag, &next_->writer);
    }
    void forget_next() noexcept {
        if (next_) mutator_.abandon(next_->tag);
        next_.reset();
    }
    /// Maps what was announced. Returns: whether anything was. Throws: as enter().
    bool find_next() {
        std::shared_ptr<holdfast::segment> announced = segment_successor::announced(*segment_, trust_);
        if (!announced) return false;
        if (!(next_ && segment_successor::same(*announced, *next_->segment)))
            know(enter(std::move(announced), leftovers::recovered));
        return true;
    }
    /// The same; what cannot be mapped is as if it was not there. Whoever meets a stripe that needs it spoils that.
    bool try_to_find_next() noexcept {
        try {
            return find_next();
        } catch (...) {
            return false;
        }
    }
    /// The own writer once more, behind the recovery of its slot.
    void renew() noexcept {
        mutator_ = mutator(mutator_.bytes(), mutator_.writer(), mutator_.locks());
        if (next_) mutator_.mirror_to(next_->tag, &next_->writer);
    }

    /// Whether this slot is locked in the lease that has the name. If not, the table was removed by hand, and in one
    /// made anew the slot is another's (M1). Asked behind a look at the table under the name: a lease that has lost its
    /// own does not get it back, so the one that is found was there when that table was made.
    [[nodiscard]] bool has_the_names_lease() const {
        return memory::still_named(places_of(segment_->name()).lease(), segment_->lease_descriptor());
    }
    /// Goes on to what the name leads to. Returns: false where that cannot be attached.
    bool follow() noexcept {
        try {
            std::unique_ptr<generation> to;
            if (!next_ || next_->segment->replaced()) {
                std::shared_ptr<holdfast::segment> newest = segment_successor::under_the_name(*segment_, trust_);
                if (segment_successor::same(*newest, *segment_)) return true;
                if (!has_the_names_lease()) return false;
                to = enter(std::move(newest), leftovers::left);
            } else {
                to = std::move(next_);
            }
            go_over(std::move(to));
            return true;
        } catch (...) {
            return false;
        }
    }
    void go_over(std::unique_ptr<generation> to) noexcept {
        // fault() is of the handle: what kept it from an answer before is told still.
        inherit_fault(mutator_.finder(), to->writer.finder());
        inherit_fault(nowhere_, to->writer.finder());
        (void)nowhere_.clear_contended();
        if (move_) leave_lead();
        next_.reset();
        to->writer.locks() = mutator_.locks();
        takeovers_ += mutator_.takeovers();
        segment_successor::inherit(*segment_, *to->segment);
        retired_ = retired_mapping(std::move(segment_), pages_.lock);
        segment_ = std::move(to->segment);
        geometry_ = to->geometry;
        mutator_ = to->writer;
    }
    /// Returns: whether the writer is in the newest generation, as far as one look tells. A forked copy goes nowhere.
    [[gnu::noinline]] bool come_to_the_newest() noexcept {
        for (unsigned tries = 0; tries < tries_max; ++tries) {
            // Within a change a stripe is owned, so that no growth can be over.
            if (!segment_->moved() || mutator_.is_changing() || !segment_->replaced()) return true;
            if (!segment_->writable() || !follow()) return false;
        }
        return false;
    }
    [[nodiscard, gnu::noinline]] const hash_table_finder<Node>& newest_finder() noexcept {
        release_some();  // first: who goes over now pays for that alone
        if (come_to_the_newest()) return mutator_.finder();
        nowhere_.latch(errc::contended);
        return nowhere_;
    }

    /// Finds out about a stripe's word that the writer does not know. Behind it the writer can go on.
    void learn(stripe_growth met) noexcept {
        if (met.what() == stripe_growth::closed || (next_ && next_->tag == met.tag())) return;
        if (move_) return mutator_.abandon(met.tag());  // there is one growth at a time
        try {
            (void)find_next();
            if (next_ && next_->tag == met.tag()) return try_to_lead();
            // G6: given up, unless it has the name.
            if (!is_left()) return mutator_.abandon(met.tag());
            if (follow()) return;
        } catch (...) {  // as if there was nothing to go on to
        }
        forget_next();
        // It is there and cannot be mapped, or the names lead nowhere here (another root, files that were removed by
        // hand): for others it may go on. Whoever leads will give it up.
        mutator_.mirror_to(met.tag(), nullptr);
    }
    /// What to do where an operation answered `contended`. Returns: whether to try again.
    [[gnu::noinline]] bool go_on(attempts& made) noexcept {
        const stripe_growth met = mutator_.met();
        // Somebody held a stripe for long. In a generation that others have left that may be a dead one whose slot is
        // another's by now, and nobody settles it there.
        if (met.word == 0) return segment_->moved() && is_left() && made.finds++ != tries_max && follow();
        if (met.what() != stripe_growth::closed) {
            if (made.finds++ == tries_max) return false;
            learn(met);
            return true;
        }
        if (is_left()) return made.finds++ != tries_max && follow();
        bool opened = false;
        if (move_) {
            opened = open_closed();
        } else if (take_lead()) {
            if (is_left()) {
                leave_lead();
                return made.finds++ != tries_max && follow();
            }
            opened = lead();
        }
        if (opened && made.finds++ != tries_max) return true;
        return mutator_.locks().wait(made.waits++);
    }

    // ---- the lead ----

    [[nodiscard]] bool take_lead() noexcept {
        return segment_->lease_descriptor() < 0 || mutator_.locks().take(lead_slot);
    }
    void leave_lead() noexcept {
        move_.reset();
        if (segment_->lease_descriptor() >= 0) mutator_.locks().give_back(lead_slot);
    }
    /// Goes on with a growth whose leader is gone, if there is one.
    void try_to_lead() noexcept {
        if (!joined_ || move_ || !segment_->name().is_path() || !segment_successor::may_replace(*segment_) ||
            !take_lead())
            return;
        if (segment_->replaced()) return leave_lead();
        (void)lead();
    }
    /// Goes on with what another leader left; who may not replace the table lets others write again, and leaves the
    /// rest to who may. Returns: whether no stripe is closed now. Requires: the lead was taken, the name leads here.
    bool lead() noexcept {
        segment_successor::unmark(*segment_);
        const bool opened = open_closed();
        if (!segment_->name().is_path() || !segment_successor::may_replace(*segment_)) {
            leave_lead();
            return opened;
        }
        try {
            auto taken = std::make_unique<move>();
            if (!try_to_find_next()) {
                forget_next();
                segment_successor::give_up(*segment_, nullptr);  // what was given up may still have its name
                taken->at = stage::undoing;
            }
            move_ = std::move(taken);
        } catch (...) {
            leave_lead();
        }
        return opened;
    }
    /// Others wait at every stripe that is closed. In one pass each that is to be had says `mirrors` again, whatever
    /// the next generation is: it did so before it was closed, and nothing was changed under it since (M7). If that one
    /// was given up, the stripe's next owner finds out and clears it. Returns: whether none is closed any more.
    /// Requires: as lead(). Cost: a load of each stripe.
    bool open_closed() noexcept {
        const brief_patience brief(mutator_);
        bool all = true;
        for (std::uint64_t number = 0; number <= mutator_.bytes().stripe_mask; ++number) {
            // Only who leads closes and opens, and the lead's lock orders us behind the last one.
            const stripe_growth now = growth_of(mutator_.bytes().stripe(number));
            if (now.what() != stripe_growth::closed) continue;
            if (mutator_.turn(number, stripe_growth::of(now.tag(), stripe_growth::mirrors)) == outcome::ok) continue;
            all = false;
            mutator_.locks().set_patience(0);  // one wait, however many are not to be had
        }
        return all;
    }

    /// Gives up what another leader left, whole. Throws: contended where a stripe is not to be had, and others.
    void clear_away() {
        (void)try_to_find_next();
        segment_successor::give_up(*segment_, next_ ? next_->segment.get() : nullptr);
        forget_next();
        for (unsigned tries = 0; !turn_some({}, ~std::uint64_t{0}); ++tries)
            // Of what a dead writer left it may have learned something, and can go on.
            if (mutator_.met().word == 0 || tries == tries_max)
                throw error(errc::contended, segment_->uri(),
                            "another writer was stopped in the middle of a change; grow when it goes on");
    }

    /// A piece of the generation that was left.
    void release_some() noexcept {
        if (!retired_.empty() && retired_.release_some()) retired_ = {};
    }

    /// One step of what there is to do behind an operation.
    [[gnu::noinline]] void work() noexcept {
        constexpr std::uint32_t operations_a_look = 64;
        release_some();
        if (!move_) {
            if (next_ && ++operations_ % operations_a_look == 0) look_after_growth();
            return;
        }
        const brief_patience brief(mutator_);
        try {
            step();
        } catch (error& failure) {
            give_up(std::move(failure));
        } catch (const std::bad_alloc&) {
            move_->made.reset();  // and with it what was reserved, so that there is memory for the message
            key_ = {};
            value_ = {};
            give_up(error(errc::no_space, segment_->uri(), "this process lacks memory to go on growing; free some"));
        }
    }
    /// Whether somebody leads the growth, or it has come to nothing.
    void look_after_growth() noexcept {
        // Marked: given up. Or it has the name, and a mark of the one after it: then all stripes here are closed.
        if (next_ && next_->segment->moved()) forget_next();
        try_to_lead();
        if (move_ && move_->at == stage::undoing) leave_lead();
    }

    void step() {
        if (move_->rest != 0) {
            --move_->rest;
            return;
        }
        switch (move_->at) {
            case stage::reserving:
                if (!move_->made->reserve(reserved_bytes_a_step)) return;
                move_->made->announce(*segment_);
                know(enter(move_->made->get(), leftovers::recovered));
                move_->at = stage::opening;
                return;
            case stage::opening:
                if (turn_some(stripe_growth::of(next_->tag, stripe_growth::mirrors), stripes_a_step))
                    move_->at = stage::carrying;
                return;
            case stage::carrying:
                if (move_->cursor < geometry_.slots()) return carry_some();
                return close();
            case stage::undoing:
                if (turn_some({}, stripes_a_step)) leave_lead();
                return;
        }
    }

    /// Gives the next stripes a word. Returns: whether all have it. Throws: what ends the growth.
    bool turn_some(stripe_growth to, std::uint64_t count) {
        for (; count != 0 && move_->stripe <= mutator_.bytes().stripe_mask; --count) {
            // A stripe that says nothing goes on to: only who leads begins with it.
            const bool is_nothing = growth_of(mutator_.bytes().stripe(move_->stripe)).word == 0;
            if (!(is_nothing && to.word == 0) && !is_done(mutator_.turn(move_->stripe, to))) return false;
            ++move_->stripe;
        }
        if (move_->stripe <= mutator_.bytes().stripe_mask) return false;
        move_->stripe = 0;
        return true;
    }
    /// Throws unless it is done, or to be tried again.
    bool is_done(outcome done) {
        if (done == outcome::ok || done == outcome::not_found) return true;
        if (done == outcome::contended) {
            if (mutator_.met().word != 0)
                learn(mutator_.met());
            else
                move_->rest = steps_of_rest;
            return false;
        }
        if (done == outcome::stale)
            throw error(
                errc::no_space, segment_->uri(),
                "another writer could not do a change in the next generation: it is too small for the entries that "
                "came meanwhile, or that writer could not map it; grow to a larger one, or look at the writers");
        throw_damaged();
    }
    [[noreturn]] void throw_damaged() const {
        throw error(errc::corrupt, segment_->uri(),
                    "entries or their counts are damaged near slot " + std::to_string(move_->cursor) +
                        ", so the table was left as it is; repair it first (holdfast verify, holdfast repair)");
    }

    /// The entries of one bucket, or fewer when they are large.
    void carry_some() {
        const hash_table_finder<Node> finder(mutator_.bytes().as_const());  // its faults are not the user's questions'
        const std::uint64_t bucket = move_->cursor / layout::tags_per_line;
        if (const std::uint64_t region = bucket / layout::buckets_per_region; region == move_->checked_regions) {
            // Entries get a new checksum in the next generation. So what is damaged must not come that far. Under its
            // stripe, where others wait, only a region is summed that was changed meanwhile.
            if (!move_->sum.add_some(finder.bytes(), region)) return;
            // Relaxed: what is not the digest of what was summed is another number.
            const std::uint64_t digest =
                load_relaxed<std::uint64_t>(finder.bytes().digest_of(region * layout::buckets_per_region));
            if (move_->sum.take() == digest || is_done(mutator_.check_region(region))) ++move_->checked_regions;
            return;
        }
        key_.resize(geometry_.key_bytes);
        value_.resize(geometry_.value_bytes);
        std::uint64_t carried = 0;
        do {
            if (finder.read_entry(move_->cursor, key_.data(), value_.data())) {
                if (!is_done(mutator_.carry(key_.data()))) return;
                if (mutator_.mirror_failure()) throw_unmirrored(*mutator_.mirror_failure());
                carried += geometry_.node_bytes;
            } else if (finder.fault()) {
                if (finder.fault() != errc::contended) throw_damaged();
                return;  // again, later
            }
            ++move_->cursor;
        } while (move_->cursor % layout::tags_per_line != 0 && carried < carried_bytes_a_step);
    }
    [[noreturn]] void throw_unmirrored(outcome why) const {
        if (why == outcome::full)
            throw error(errc::no_space, segment_->uri(),
                        "the entries that came meanwhile do not fit into the new capacity; grow to a larger one");
        if (why == outcome::contended)
            throw error(errc::contended, segment_->uri(),
                        "another writer was stopped in the middle of a change; grow again when it goes on");
        throw error(errc::corrupt, segment_->uri(),
                    "the new table's bytes were changed by somebody else; find out who may write the segment");
    }

    /// From the first closed stripe to the commit, or back. Others wait meanwhile.
    void close() {
        move_->stripe = 0;
        if (turn_some(stripe_growth::of(next_->tag, stripe_growth::closed), ~std::uint64_t{0})) {
            require_the_same();
            segment_successor::commit(*segment_, *next_->segment);
            return go_over(std::move(next_));
        }
        // Only what was closed: a stripe that has stopped mirroring is to be found by the next try.
        (void)open_closed();
        move_->stripe = 0;
    }
    /// Both generations count the same entries, every dead writer's included. What the old one holds is in the next one
    /// by now: so the next one holds nothing else. Requires: all stripes are closed.
    void require_the_same() {
        (void)recover_as(next_->writer.bytes(), mutator_.writer(), mutator_.locks());
        if (mutator_.finder().size() != next_->writer.finder().size()) throw_damaged();
    }

    /// F4 and F5.
    void give_up(error why) noexcept {
        const brief_patience brief(mutator_);
        failure_.emplace(std::move(why));
        if (move_->at == stage::reserving) return leave_lead();
        if (move_->at != stage::undoing) {
            try {
                segment_successor::give_up(*segment_, next_ ? next_->segment.get() : nullptr);
            } catch (...) {
                (void)open_closed();
                return leave_lead();  // the rest stays as it is; whoever leads next can try
            }
            forget_next();
            move_->at = stage::undoing;
            move_->stripe = 0;
        }
        (void)open_closed();
        try {
            if (turn_some({}, ~std::uint64_t{0})) leave_lead();
        } catch (...) {
            leave_lead();  // damage; what is left of the words is cleared by who owns the stripes
        }
    }

    std::shared_ptr<holdfast::segment> segment_;
    layout::hash_table_geometry geometry_;
    memory::trust trust_;
    memory::page_policy pages_;
    mutator mutator_;
    hash_table_finder<Node> nowhere_;  // over an empty table
    std::unique_ptr<generation> next_;
    std::unique_ptr<move> move_;
    retired_mapping retired_;
    std::optional<error> failure_;
    std::uint64_t takeovers_ = 0;
    std::uint32_t operations_ = 0;
    bool joined_ = false;  // before, the slot's journal says what its last holder owned: no stripe is taken
    std::vector<std::byte> key_, value_;
};

}  // namespace holdfast::detail
