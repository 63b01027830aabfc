// SPDX-License-Identifier: Apache-2.0
// growing.hpp - a hash table whose capacity can change, and readers that follow it.
//
//     auto sessions = holdfast::growing_hash_table<std::uint64_t, session>::create("sessions", {.capacity = 100'000});
//     if (sessions.size() > sessions.capacity() / 10 * 9 && !sessions.growing())
//         sessions.grow(2 * sessions.capacity());
//     sessions.insert_or_assign(42, {.user = 7});   // and moves a few entries on
//
//     // in any other process, with read permission only
//     auto view = holdfast::growing_hash_table_reader<std::uint64_t, session>::attach("sessions");
//     if (auto s = view.find(42)) use(s->user);     // in whatever generation the name leads to
//
// Shape:   a table of one writer, as every other: hash_table_reader and the program read it, and hash_table<K, V> may
//          be its writer. Each capacity is a segment of its own, a generation. A slot is good within its generation.
// Threads: one writer object, used by one thread. A reader object is used by one thread, too, since it may go on to
//          another mapping; copies are cheap and share the mapping.
// Crash:   the writer may be killed at any instruction: a growth that was not over has not happened.
// Readers pay one load for a find, of a line that nobody writes; the find by which one follows to a new generation
// unmaps the old one, in some 20 ms for each 512 MiB of 4 KiB pages (docs/design/0022-growth.md).
// Protocol: grow.hpp, segment/successor.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/grow.hpp"
#include "holdfast/hash_table/place.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast {

/// Reads a table through all its generations. Copyable.
template <record_key K, record V>
class growing_hash_table_reader {
 public:
    using table = hash_table_reader<K, V>;
    using key_type = K;
    using mapped_type = V;
    using value_type = typename table::value_type;

    /// Attaches to a table by name. Needs read permission only. Throws: what hash_table_reader::attach throws.
    [[nodiscard]] static growing_hash_table_reader attach(std::string_view uri, const attach_options& options = {}) {
        return growing_hash_table_reader(table::attach(uri, options), options);
    }

    /// Returns: a copy of the key's value, never torn, and never older than the question; or nothing.
    [[nodiscard, gnu::always_inline]] std::optional<V> find(const K& key) noexcept {
        detail::raw_record<V> value;
        const seen at_home = table_.finder_for_queries().find_at_home(detail::bytes_of(key), value.data());
        if (at_home == seen::unsure || table_.segment().moved()) [[unlikely]]
            return find_further(key);
        if (at_home == seen::miss) return std::nullopt;
        return value.get();
    }
    [[nodiscard]] bool contains(const K& key) noexcept {
        const seen at_home = table_.finder_for_queries().find_at_home(detail::bytes_of(key), nullptr);
        if (at_home == seen::unsure || table_.segment().moved()) [[unlikely]]
            return ask([&](const table& t) { return t.contains(key); });
        return at_home == seen::hit;
    }
    /// As hash_table_reader::find_many; all answers are of one generation, not of one moment.
    std::size_t find_many(std::span<const K> keys, std::span<std::optional<V>> values) noexcept {
        const auto question = [&](const table& t) { return t.find_many(keys, values); };
        std::size_t found = question(table_);
        if (table_.segment().moved() && !ask_the_newest(question, found)) [[unlikely]]
            for (std::optional<V>& value : values.first(std::min(keys.size(), values.size()))) value.reset();
        return found;
    }
    [[nodiscard]] std::uint64_t size() noexcept {
        return ask([](const table& t) { return t.size(); });
    }
    [[nodiscard]] bool empty() noexcept { return size() == 0; }
    [[nodiscard]] std::uint64_t capacity() noexcept {
        return ask([](const table& t) { return t.capacity(); });
    }

    /// Returns: where the key's entry lies, good until it is erased or the table grows or shrinks.
    [[nodiscard]] std::optional<hash_table_place> place_of(const K& key) noexcept {
        return ask([&](const table& t) { return detail::place_in(t, t.slot_of(key)); });
    }
    /// Copies the entry at a place. Returns: ok; not_found: the slot is free; stale: the place is of another
    /// generation, ask place_of() anew; contended or corrupt, as fault() says.
    [[nodiscard]] outcome entry_at(const hash_table_place& place, value_type& entry) noexcept {
        const std::optional<outcome> got =
            ask([&](const table& t) { return std::optional(detail::entry_at_place(t, place, entry)); });
        return got.value_or(outcome::stale);
    }

    /// A reader on the newest generation, for what takes longer than a question: a scan, a verification. A scan goes on
    /// over the generation that it began in, as that was when the next one took its place.
    [[nodiscard]] table current() noexcept {
        (void)size();
        return table_;
    }
    /// Asks the name, whether or not anything is marked: after a repair, or when the table was removed and made anew.
    /// Returns: whether it leads to another segment, which is read from now on. Cost: a system call; an attach.
    bool refresh() noexcept { return follow() == step::followed; }

    /// As hash_table_reader::fault(); beside these: why the generation that took this one's place cannot be attached
    /// (not_found: it was removed meanwhile). Until that is over, questions are answered by nothing.
    [[nodiscard]] std::optional<errc> fault() const noexcept { return lost_ ? lost_ : table_.fault(); }
    bool clear_contended() const noexcept { return table_.clear_contended(); }

 private:
    using seen = typename table::finder::glance;
    enum class step : std::uint8_t { stays, followed, lost };
    // A growth is over in milliseconds at best, an attach in microseconds.
    static constexpr unsigned generations_max = 1000;

    growing_hash_table_reader(table first, attach_options options)
        : table_(std::move(first)), uri_(table_.segment().name().text()), options_(std::move(options)) {}

    /// A find that one look could not answer. Apart, and the last thing that find() does: so that needs no stack.
    [[nodiscard, gnu::noinline]] std::optional<V> find_further(const K& key) noexcept {
        return ask([&](const table& t) { return t.find(key); });
    }

    /// The answer of a generation that was the truth when it was read (0022, G2 and G3).
    template <class Question>
    [[gnu::always_inline]] auto ask(Question&& question) noexcept {
        auto answer = question(table_);
        if (table_.segment().moved()) [[unlikely]]
            (void)ask_the_newest(question, answer);
        return answer;
    }
    /// The rest of a question to a generation that is marked. Returns: whether there is an answer. Apart, so that the
    /// others do not pay for it.
    template <class Question, class Answer>
    [[nodiscard, gnu::noinline]] bool ask_the_newest(Question& question, Answer& answer) noexcept {
        for (unsigned tries = 0; tries < generations_max; ++tries) {
            const step went = follow();
            if (went == step::stays) return true;
            if (went == step::lost) {
                answer = Answer{};
                return false;
            }
            answer = question(table_);
            if (!table_.segment().moved()) return true;
        }
        lost_ = errc::contended;
        answer = Answer{};
        return false;
    }

    /// Goes on to the segment that the name leads to, if that is another.
    [[gnu::noinline]] step follow() noexcept {
        if (!table_.segment().replaced()) return step::stays;
        try {
            table newest = table::attach(uri_, options_);
            detail::inherit_fault(table_.finder_for_queries(), newest.finder_for_queries());
            table_ = std::move(newest);
            lost_.reset();
            return step::followed;
        } catch (const error& failure) {
            lost_ = failure.reason();
        } catch (...) {
            lost_ = errc::no_space;  // of this process: no memory for a handle
        }
        return step::lost;
    }

    table table_;
    std::string uri_;  // the same segment's whatever the working folder becomes
    attach_options options_;
    std::optional<errc> lost_;
};

/// Writes a table, reads it, and changes its capacity. Holds the segment's lease. Move-only.
template <record_key K, record V>
class growing_hash_table : public detail::hash_table_queries<growing_hash_table<K, V>, K, V>,
                           public detail::hash_table_changes<growing_hash_table<K, V>, K, V> {
 public:
    using table = hash_table<K, V>;
    using result = hash_table_result;
    using value_type = hash_table_entry<K, V>;

    /// As hash_table::create and hash_table::attach. What a killed growth left is gone then.
    /// What is asked of the pages here is asked of those of later generations, too.
    [[nodiscard]] static growing_hash_table create(std::string_view uri, const hash_table_options& options) {
        return growing_hash_table(table::create(uri, options), options.segment.pages);
    }
    [[nodiscard]] static growing_hash_table attach(std::string_view uri, const attach_options& options = {}) {
        return growing_hash_table(table::attach(uri, options), options.pages);
    }

    /// Begins to move the entries to a table of another capacity, larger or smaller, under the same name. Each
    /// operation that may change the table does a step of it from now on, and so does advance(). Until it is over both
    /// tables take their memory. Throws: invalid_argument where more entries are there, or a growth is on; unsupported
    /// for memory that is neither posix: nor file:; no_permission to others than the owner and root; no_space;
    /// read_only. Cost: some twenty system calls.
    void grow(std::uint64_t capacity) {
        if (growth_)
            throw error(errc::invalid_argument, segment().uri(),
                        "a growth is under way already; let it end (advance() until growing() is false)");
        failure_.reset();
        growth_ = std::make_unique<growth>(table_, capacity, pages_);
    }
    /// Whether a growth is on: until the new table has the name, and the memory of the old one has been let go.
    [[nodiscard]] bool growing() const noexcept { return growth_ != nullptr; }
    /// Does so many steps: each takes as long as the part of a growth in one operation. Returns: whether there is more
    /// to do. Cost: a step reserves 256 KiB, or sums 256 KiB of entries, or copies the entries of one bucket, or is the
    /// commit: five system calls, or lets go of 512 KiB of the old table. The last one unmaps it; where nobody else has
    /// it mapped, the kernel frees its pages then.
    bool advance(std::uint64_t steps = 1) noexcept {
        if (!segment().writable()) return false;  // in a forked child, whose copy has no growth to go on with
        while (growth_ && steps-- != 0)
            guarded([&] {
                if (growth_->advance(table_)) growth_.reset();
            });
        return growing();
    }
    /// Why the last growth was given up, with the table left as it was; nothing if it was not: no_space, corrupt, ...
    [[nodiscard]] const std::optional<error>& growth_failure() const noexcept { return failure_; }
    /// Gives up a growth that is on; behind its commit only what is left of letting go is done at once. Cost: unmapping
    /// what was reserved.
    void stop_growing() noexcept { growth_.reset(); }

    /// As hash_table's.
    result try_insert(const K& key, const V& value) noexcept {
        return stored(key, value, table_.try_insert(key, value));
    }
    result insert_or_assign(const K& key, const V& value) noexcept {
        return stored(key, value, table_.insert_or_assign(key, value));
    }
    result update(const K& key, const V& value) noexcept { return stored(key, value, table_.update(key, value)); }
    result erase(const K& key) noexcept {
        if (!growth_) [[likely]]
            return table_.erase(key);
        const std::optional<hash_table_slot> slot = table_.slot_of(key);
        const result done = table_.erase(key);
        if (done)
            guarded([&] {
                if (!slot)
                    throw error(errc::corrupt, segment().uri(),
                                "an entry was erased that no find sees; holdfast verify names the damage");
                growth_->erased(static_cast<std::uint64_t>(*slot), detail::bytes_of(key));
            });
        (void)advance();
        return done;
    }
    std::uint64_t recount() { return table_.recount(); }

    /// Where the key's entry lies, and what lies there, as growing_hash_table_reader's.
    [[nodiscard]] std::optional<hash_table_place> place_of(const K& key) const noexcept {
        return detail::place_in(table_, table_.slot_of(key));
    }
    using detail::hash_table_queries<growing_hash_table<K, V>, K, V>::entry_at;
    [[nodiscard]] outcome entry_at(const hash_table_place& place, value_type& entry) const noexcept {
        return detail::entry_at_place(table_, place, entry);
    }

    [[nodiscard]] const hash_table_recovery& recovery() const noexcept { return table_.recovery(); }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return table_.segment(); }
    [[nodiscard]] const layout::hash_table_geometry& geometry() const noexcept { return table_.geometry(); }

 private:
    using growth = detail::table_growth<table>;
    friend detail::hash_table_queries<growing_hash_table, K, V>;
    friend detail::hash_table_changes<growing_hash_table, K, V>;
    [[nodiscard]] const auto& finder_for_queries() const noexcept { return growth::finder_of(table_); }
    [[nodiscard]] std::shared_ptr<const void> mapping_for_queries() const noexcept {
        return growth::mapping_of(table_);
    }

    growing_hash_table(table first, const memory::page_policy& pages) : table_(std::move(first)), pages_(pages) {}

    template <class Decide>
    result change_by(const K& key, Decide&& decide) noexcept(noexcept(decide(std::declval<V&>()))) {
        return detail::change_entry(*this, finder_for_queries(), key, std::forward<Decide>(decide));
    }
    result stored(const K& key, const V& value, result done) noexcept {
        if (!growth_) [[likely]]
            return done;
        const holdfast::segment* const generation = &segment();
        if (done)
            guarded([&] {
                growth_->inserted_or_updated(static_cast<std::uint64_t>(*done.slot), detail::bytes_of(key),
                                             detail::bytes_of(value));
            });
        (void)advance();
        // That was the commit: the slot is to be one of the table that this handle is from now on.
        if (&segment() != generation && done.slot) done.slot = table_.slot_of(key);
        return done;
    }
    /// What fails ends the growth, and the table is what it was.
    template <class Part>
    void guarded(Part&& part) noexcept {
        try {
            std::forward<Part>(part)();
        } catch (error& failure) {
            growth_.reset();
            failure_.emplace(std::move(failure));
        } catch (const std::bad_alloc&) {
            growth_.reset();  // and with it what was reserved, so that there is memory for the message
            failure_.emplace(errc::no_space, segment().uri(), "this process lacks memory to go on growing; free some");
        }
    }

    table table_;
    memory::page_policy pages_;
    std::unique_ptr<growth> growth_;
    std::optional<error> failure_;
};

}  // namespace holdfast
