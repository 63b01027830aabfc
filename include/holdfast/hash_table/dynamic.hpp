// SPDX-License-Identifier: Apache-2.0
// dynamic.hpp - hash tables for programs that know no C++ type of their keys and values: command line, HTTP, Python.
//
// The same bytes, hash and algorithms as hash_table<K, V>; keys and values are spans of exactly key_bytes() and
// value_bytes(), whose fields schema() describes. A span of another size is the caller's mistake and throws
// invalid_argument. Threads and crash: as hash_table.hpp, and for tables of many writers as hash_table/many.hpp: the
// writer of either is dynamic_hash_table.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/detail/spans.hpp"
#include "holdfast/hash_table/any_mutator.hpp"
#include "holdfast/hash_table/attach.hpp"
#include "holdfast/hash_table/place.hpp"
#include "holdfast/hash_table/result.hpp"
#include "holdfast/hash_table/scan.hpp"

namespace holdfast {

/// A copy of one entry; the spans are good until the iterator moves on or goes.
struct dynamic_hash_table_entry {
    hash_table_slot slot{};
    std::span<const std::byte> key;
    std::span<const std::byte> value;
};

namespace detail {

/// Queries over finder_for_queries(), which Self provides, as well as segment(), geometry(), schema() and
/// mapping_for_queries(), the owner of what that finder reads.
template <class Self>
class dynamic_hash_table_queries {
 public:
    class iterator;

    [[nodiscard]] std::size_t key_bytes() const noexcept { return self().geometry().key_bytes; }
    [[nodiscard]] std::size_t value_bytes() const noexcept { return self().geometry().value_bytes; }

    /// Copies the key's value to `value`. Returns: whether the key is there (if not, `value` is undefined).
    [[nodiscard]] bool find(std::span<const std::byte> key, std::span<std::byte> value) const {
        check(key.size(), key_bytes(), "key");
        check(value.size(), value_bytes(), "value");
        return finder().find(key.data(), value.data()) != no_slot;
    }
    [[nodiscard]] bool contains(std::span<const std::byte> key) const { return slot_of(key).has_value(); }
    /// Returns: where the key's entry lies in the generation that the handle has come to, until it is erased.
    [[nodiscard]] std::optional<hash_table_slot> slot_of(std::span<const std::byte> key) const {
        check(key.size(), key_bytes(), "key");
        const std::uint64_t slot = finder().find(key.data(), nullptr);
        return slot == no_slot ? std::nullopt : std::optional(static_cast<hash_table_slot>(slot));
    }

    /// Finds found.size() keys that lie one after the other; their values go one after the other to `values`. Beside a
    /// writer the answers are of moments of the call in no particular order, each key's own. Returns: how many were
    /// found.
    std::size_t find_many(std::span<const std::byte> keys, std::span<std::byte> values, std::span<bool> found) const {
        check(keys.size(), found.size() * key_bytes(), "keys");
        check(values.size(), found.size() * value_bytes(), "values");
        std::size_t count = 0;
        answers_in_place answers{[&](std::size_t i) { return values.data() + i * value_bytes(); },
                                 [&](std::size_t i, bool there) { count += (found[i] = there) ? 1 : 0; }};
        find_batch(finder(), keys.data(), found.size(), answers);
        return count;
    }

    /// Copies the entry at a slot. Returns: whether there is one. Any number may be asked for.
    [[nodiscard]] bool entry_at(hash_table_slot slot, std::span<std::byte> key, std::span<std::byte> value) const {
        check(key.size(), key_bytes(), "key");
        check(value.size(), value_bytes(), "value");
        return finder().read_slot(static_cast<std::uint64_t>(slot), key.data(), value.data());
    }

    /// Returns: where the key's entry lies, good until it is erased or the table grows or shrinks. A slot alone does
    /// not know of that: a handle of one of many writers goes over to another generation by itself.
    [[nodiscard]] std::optional<hash_table_place> place_of(std::span<const std::byte> key) const {
        return place_in(self(), slot_of(key));
    }
    /// Copies the entry at a place. Returns: ok; not_found: the slot is free; stale: the place is of another
    /// generation, ask place_of() anew; contended or corrupt, as fault() says. If not ok, both may be anything.
    [[nodiscard]] outcome entry_at(const hash_table_place& place, std::span<std::byte> key,
                                   std::span<std::byte> value) const {
        check(key.size(), key_bytes(), "key");
        check(value.size(), value_bytes(), "value");
        return read_place(self(), place, [&](hash_table_slot slot) noexcept {
            return finder().read_slot(static_cast<std::uint64_t>(slot), key.data(), value.data());
        });
    }

    /// An input range over all entries; what it promises beside a working writer: hash_table/scan.hpp. While one lives
    /// the handle stays where it is, and its mapping is kept: behind a move of a table of many writers it goes on over
    /// the old generation, with values as they were at the move.
    [[nodiscard]] iterator begin() const { return scan_from(0); }
    [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }
    /// The same from a slot on: a scan in portions goes on behind the last slot it saw.
    [[nodiscard]] auto entries_from(hash_table_slot slot) const {
        return std::ranges::subrange(scan_from(static_cast<std::uint64_t>(slot)), std::default_sentinel);
    }

    /// Number of entries: exact when no operation is under way, also after a crash; off by one while one is.
    [[nodiscard]] std::uint64_t size() const noexcept { return finder().size(); }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    [[nodiscard]] std::uint64_t capacity() const noexcept { return self().geometry().capacity; }
    [[nodiscard]] std::uint64_t slots() const noexcept { return self().geometry().slots(); }

    /// Checks every byte that has a meaning; on_finding(const hash_table_finding&) -> bool, false stops. Beside a
    /// working writer it reports no false damage, but what it could not compare is counted in `busy`. Throws:
    /// std::bad_alloc. Cost: a lookup and a scan of every entry; 16 bytes of memory a bucket, 256 MiB at most.
    template <class OnFinding>
    hash_table_verification verify(OnFinding&& on_finding) const {
        return detail::verify(finder().bytes(), std::forward<OnFinding>(on_finding));
    }
    /// Forgets a `contended` in fault(): then the next miss without a fault is a miss again. Returns: whether there was
    /// one. Threads: one that shares the handle may lose sight of its own.
    bool clear_contended() const noexcept { return finder().clear_contended(); }
    /// What kept an operation of this handle from an answer: the first damage that it met (corrupt, or truncated where
    /// the guard is on), or, without damage, `contended`: a read found no quiet moment beside the writer, or a handle
    /// of writers::many could not go over to the generation that took this one's place. Until it can, questions are
    /// answered as by an empty table.
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        const std::optional<errc> own = finder().fault();
        return own ? own : self().segment().fault();
    }

 protected:
    void check(std::size_t given, std::size_t wanted, const char* what) const {
        if (given == wanted) return;
        throw error(errc::invalid_argument, self().segment().uri(),
                    "the " + std::string(what) + " given has " + std::to_string(given) + " bytes, the table's has " +
                        std::to_string(wanted) + "; lay it out as schema() says");
    }

 private:
    [[nodiscard]] const Self& self() const noexcept { return static_cast<const Self&>(*this); }
    [[nodiscard]] const auto& finder() const noexcept { return self().finder_for_queries(); }
    [[nodiscard]] iterator scan_from(std::uint64_t slot) const {
        const auto& newest = finder();  // first: it may lead to another generation, and so to another mapping
        return iterator(self().mapping_for_queries(), newest, slot);
    }
};

template <class Self>
class dynamic_hash_table_queries<Self>::iterator {
 public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = dynamic_hash_table_entry;
    using difference_type = std::ptrdiff_t;

    iterator() = default;
    iterator(std::shared_ptr<const void> mapping, const hash_table_finder<runtime_node>& finder, std::uint64_t from)
        : scan_(std::move(mapping), finder, from),
          key_bytes_(finder.bytes().node.key_bytes()),
          bytes_(key_bytes_ + finder.bytes().node.value_bytes()) {
        ++*this;
    }
    [[nodiscard]] value_type operator*() const noexcept {
        const std::span<const std::byte> all(bytes_);
        return {static_cast<hash_table_slot>(slot_), all.first(key_bytes_), all.subspan(key_bytes_)};
    }
    iterator& operator++() noexcept {
        slot_ = scan_.next(bytes_.data(), bytes_.data() + key_bytes_);
        return *this;
    }
    void operator++(int) noexcept { ++*this; }
    friend bool operator==(const iterator& i, std::default_sentinel_t) noexcept { return i.slot_ == no_slot; }

 private:
    hash_table_scan<runtime_node> scan_;
    std::uint64_t slot_ = no_slot;
    std::size_t key_bytes_ = 0;
    std::vector<std::byte> bytes_;
};

[[nodiscard]] inline runtime_node node_of(const layout::hash_table_geometry& g) noexcept {
    return {static_cast<std::size_t>(g.key_bytes), static_cast<std::size_t>(g.value_bytes)};
}

}  // namespace detail

/// Reads any table.
class dynamic_hash_table_reader : public detail::dynamic_hash_table_queries<dynamic_hash_table_reader> {
 public:
    /// Attaches to a table by name, or by passed descriptors. Needs read permission only.
    /// Throws: what segment::attach throws, kind_mismatch, version_mismatch, geometry_mismatch, schema_mismatch.
    [[nodiscard]] static dynamic_hash_table_reader attach(std::string_view uri, const attach_options& options = {}) {
        return dynamic_hash_table_reader(segment::attach_read_only(uri, options));
    }
    [[nodiscard]] static dynamic_hash_table_reader attach(const segment_descriptors& descriptors,
                                                          const attach_options& options = {}) {
        return dynamic_hash_table_reader(segment::attach_read_only(descriptors, options));
    }
    /// Reads through a mapping that is there already, and keeps it.
    explicit dynamic_hash_table_reader(std::shared_ptr<const holdfast::segment> mapping)
        : segment_(std::move(mapping)),
          geometry_(detail::geometry_of(*segment_)),
          schema_(detail::schema_of_hash_table(*segment_, geometry_)),
          finder_(finder::view(segment_->bytes(), geometry_, detail::node_of(geometry_))) {}

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }
    [[nodiscard]] const layout::hash_table_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] const container_schema& schema() const noexcept { return schema_; }

 private:
    using finder = detail::hash_table_finder<detail::runtime_node>;
    friend detail::dynamic_hash_table_queries<dynamic_hash_table_reader>;
    [[nodiscard]] const finder& finder_for_queries() const noexcept { return finder_; }
    [[nodiscard]] std::shared_ptr<const void> mapping_for_queries() const noexcept { return segment_; }

    std::shared_ptr<const holdfast::segment> segment_;
    layout::hash_table_geometry geometry_;
    container_schema schema_;
    finder finder_;
};

/// Writes any table, and reads it. Holds the segment's lease; of a table of many writers a share of it, and a writer
/// slot. Move-only.
class dynamic_hash_table : public detail::dynamic_hash_table_queries<dynamic_hash_table> {
 public:
    /// Makes an empty table of the given keys and values. options.key_name and value_name are not used: the schema has
    /// the names. Throws: invalid_argument, and what segment::create throws.
    [[nodiscard]] static dynamic_hash_table create(std::string_view uri, const container_schema& schema,
                                                   const hash_table_options& options, writers policy = writers::one) {
        attach_options how;  // for the tables that grow out of this one
        how.trust = trust_of_creator(options.segment);
        how.pages = options.segment.pages;
        return dynamic_hash_table(
            std::make_shared<holdfast::segment>(detail::create_hash_table(uri, options, schema, policy)), how);
    }
    /// Becomes the writer of an existing table, or one of its many: takes the lease, or a writer slot, and finishes
    /// what dead writers left undone. Throws: writer_alive (of many writers: all slots are taken), and what
    /// dynamic_hash_table_reader::attach throws.
    [[nodiscard]] static dynamic_hash_table attach(std::string_view uri, const attach_options& options = {}) {
        return dynamic_hash_table(
            std::make_shared<holdfast::segment>(segment::attach(uri, access::read_write, options)), options);
    }
    [[nodiscard]] static dynamic_hash_table attach(const segment_descriptors& descriptors,
                                                   const attach_options& options = {}) {
        return dynamic_hash_table(
            std::make_shared<holdfast::segment>(segment::attach(descriptors, access::read_write, options)), options);
    }
    dynamic_hash_table(dynamic_hash_table&&) noexcept = default;
    dynamic_hash_table& operator=(dynamic_hash_table&&) noexcept = default;
    dynamic_hash_table(const dynamic_hash_table&) = delete;
    dynamic_hash_table& operator=(const dynamic_hash_table&) = delete;
    ~dynamic_hash_table() = default;

    /// A reader on this very mapping, for other threads. It keeps the mapping until it goes, and with it the lease; of
    /// many writers until the table has grown.
    [[nodiscard]] dynamic_hash_table_reader make_reader() const { return dynamic_hash_table_reader(newest()); }

    // One of many writers may also be answered `contended`: another, stopped, one keeps what the operation needs.

    /// Adds an entry unless the key is there. Returns: ok, exists, full, read_only or corrupt.
    hash_table_result try_insert(std::span<const std::byte> key, std::span<const std::byte> value) {
        return mutate(key, value, [&] { return mutator_.try_insert(key.data(), value.data()); });
    }
    /// Gives the key this value, new or not. Returns: ok (inserted or updated), full, read_only or corrupt.
    hash_table_result insert_or_assign(std::span<const std::byte> key, std::span<const std::byte> value) {
        return mutate(key, value, [&] { return mutator_.insert_or_assign(key.data(), value.data()); });
    }
    /// Replaces the value of a key that is there. Returns: ok, not_found, read_only or corrupt.
    hash_table_result update(std::span<const std::byte> key, std::span<const std::byte> value) {
        return mutate(key, value, [&] { return mutator_.update(key.data(), value.data()); });
    }
    /// Removes the key's entry. Returns: ok, not_found, read_only or corrupt.
    hash_table_result erase(std::span<const std::byte> key) {
        check(key.size(), key_bytes(), "key");
        if (!newest()->writable()) return {outcome::read_only};
        return mutator_.erase(key.data());
    }
    /// Copies the key's value to `value`, calls change() -> bool and, if it says so, gives the key what `value` is
    /// then; no other writer can change the entry meanwhile. change() must be short and leave the table alone.
    /// Returns: ok, stale (change() said no), not_found, read_only or corrupt. Throws: what change throws; nothing is
    /// changed.
    template <class Change>
    hash_table_result modify(std::span<const std::byte> key, std::span<std::byte> value, Change&& change) {
        check(key.size(), key_bytes(), "key");
        check(value.size(), value_bytes(), "value");
        if (!newest()->writable()) return {outcome::read_only};
        return mutator_.modify(key.data(), value.data(), std::forward<Change>(change));
    }
    /// Copies the key's value to `value`, calls wanted() -> bool and, if it says so, removes the key's entry; what
    /// holds for change() of modify() holds for it. Returns: ok, stale (wanted() said no), not_found, read_only or
    /// corrupt.
    template <class Wanted>
    hash_table_result erase_if(std::span<const std::byte> key, std::span<std::byte> value, Wanted&& wanted) {
        check(key.size(), key_bytes(), "key");
        check(value.size(), value_bytes(), "value");
        if (!newest()->writable()) return {outcome::read_only};
        return mutator_.erase_if(key.data(), value.data(), std::forward<Wanted>(wanted));
    }
    /// Makes all overflow counters exact; see recount() of hash_table<K, V> and of hash_table<K, V, writers::many>.
    std::uint64_t recount() {
        if (!newest()->writable())
            throw error(errc::read_only, newest()->uri(), "the handle was inherited by fork; attach in this process");
        return mutator_.recount();
    }

    /// As hash_table<K, V, writers::many>'s, for tables of many writers. Throws: as that; unsupported for one writer's
    /// (growing_hash_table moves those).
    void grow(std::uint64_t capacity) { many_or_refuse().grow(capacity); }
    bool advance(std::uint64_t steps = 1) noexcept {
        return mutator_.many() != nullptr && mutator_.many()->advance(steps);
    }
    [[nodiscard]] const std::optional<error>& growth_failure() const { return many_or_refuse().growth_failure(); }
    [[nodiscard]] std::uint64_t carried_slots() const noexcept {
        return mutator_.many() != nullptr ? mutator_.many()->carried_slots() : 0;
    }

    /// As hash_table<K, V, writers::many>'s; of one writer nothing, and no effect.
    [[nodiscard]] std::optional<writer_slot_holder> blocked_by() const noexcept {
        auto* const shared = mutator_.many();
        if (shared == nullptr) return std::nullopt;
        const auto& writer = shared->current();
        const std::optional<std::uint32_t> slot = writer.blocked_by();
        if (!slot) return std::nullopt;
        return writer_slot_holder{*slot, detail::pid_of_writer(writer.bytes(), *slot)};
    }
    void set_patience(std::chrono::nanoseconds patience) noexcept {
        if (auto* const shared = mutator_.many()) shared->current().locks().set_patience(detail::ns_of(patience));
    }

    /// What attach() found and finished.
    [[nodiscard]] const hash_table_recovery& recovery() const noexcept { return recovery_; }
    /// Of many writers these are the newest generation's that the handle has come to.
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *newest(); }
    [[nodiscard]] const layout::hash_table_geometry& geometry() const noexcept {
        if (mutator_.many() == nullptr) return geometry_;
        (void)mutator_.many()->current();
        return mutator_.many()->geometry();
    }
    [[nodiscard]] const container_schema& schema() const noexcept { return schema_; }

 private:
    friend detail::dynamic_hash_table_queries<dynamic_hash_table>;
    friend detail::table_growth<dynamic_hash_table>;
    [[nodiscard]] const auto& finder_for_queries() const noexcept { return mutator_.finder(); }
    [[nodiscard]] std::shared_ptr<const void> mapping_for_queries() const noexcept { return newest(); }

    explicit dynamic_hash_table(std::shared_ptr<holdfast::segment> mapping, const attach_options& options = {})
        : segment_(std::move(mapping)),
          geometry_(detail::geometry_of(*segment_)),
          schema_(detail::schema_of_hash_table(*segment_, geometry_)),
          recovery_(mutator_.attach(segment_, {segment_->body(), geometry_, detail::node_of(geometry_)}, options)) {
        if (mutator_.many() != nullptr) segment_.reset();  // the writer has it, and leaves it
    }
    [[nodiscard]] const std::shared_ptr<holdfast::segment>& newest() const noexcept {
        return mutator_.many() != nullptr ? mutator_.many()->segment_pointer() : segment_;
    }
    [[nodiscard]] detail::any_hash_table_mutator::one_of_many& many_or_refuse() const {
        if (mutator_.many() == nullptr)
            throw error(errc::unsupported, newest()->uri(),
                        "a table of one writer is moved by growing_hash_table, or holdfast grow");
        return *mutator_.many();
    }

    template <class Operation>
    hash_table_result mutate(std::span<const std::byte> key, std::span<const std::byte> value, Operation&& operation) {
        check(key.size(), key_bytes(), "key");
        check(value.size(), value_bytes(), "value");
        if (!newest()->writable()) return {outcome::read_only};
        return operation();
    }

    std::shared_ptr<holdfast::segment> segment_;
    layout::hash_table_geometry geometry_;
    container_schema schema_;
    detail::any_hash_table_mutator mutator_;
    hash_table_recovery recovery_;
};

}  // namespace holdfast
