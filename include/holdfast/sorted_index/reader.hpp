// SPDX-License-Identifier: Apache-2.0
// reader.hpp - attaches to a sorted index wherever it lies: a segment of its own, or the object that a snapshot
// publishes and replaces. See sorted_index.hpp.
//
// Three ways, one interface:
//   own segment           immutable: every read is final
//   snapshot, validated   every read is checked afterwards against the slot's version, and run again if it was overrun
//   snapshot, pinned      the version is held while it is read: never run again, needs a place among pinned readers
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/layout/finding.hpp"
#include "holdfast/layout/sorted_index_verify.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/segment.hpp"
#include "holdfast/snapshot/pinned_reader.hpp"
#include "holdfast/snapshot/reader.hpp"
#include "holdfast/sorted_index/dynamic_view.hpp"
#include "holdfast/sorted_index/keys.hpp"
#include "holdfast/sorted_index/view.hpp"

namespace holdfast {

inline constexpr std::uint32_t sorted_index_layout_version = 1;
inline constexpr std::uint64_t sorted_index_payload_format =
    layout::payload_format(static_cast<std::uint32_t>(container_kind::sorted_index), sorted_index_layout_version);

struct sorted_index_options {
    bool pinned = false;  ///< hold the version that is read; the snapshot must have room for pinned readers
    attach_options attach{};
};

namespace detail {

/// Whether a segment holds a sorted index in one of the two ways; throws kind_mismatch, version_mismatch otherwise.
[[nodiscard]] inline bool is_published_index(const segment& from) {
    if (from.info().kind != container_kind::snapshot) {
        from.require(container_kind::sorted_index, sorted_index_layout_version);
        return false;
    }
    if (snapshot_geometry_of(from).format != sorted_index_payload_format)
        throw error(errc::kind_mismatch, from.uri(),
                    "the snapshot publishes something else than sorted indexes; read it with snapshot_reader");
    return true;
}

/// The shape told by a segment's header. Throws: kind_, version_, geometry_ or schema_mismatch.
[[nodiscard]] inline index_shape index_shape_of(const segment& from) {
    const std::span<const std::uint64_t> words(from.info().geometry);
    return index_shape::parse(words.subspan(is_published_index(from) ? 4 : 0, 4), from.info().schema, from.uri());
}

/// What a lookup answers by what the read of the index did.
[[nodiscard]] constexpr outcome outcome_of_lookup(outcome read, bool found) noexcept {
    return read == outcome::ok && !found ? outcome::not_found : read;
}

/// Gives a View of the current index to a function, in one of the three ways above.
template <class View>
class index_source {
 public:
    index_source(std::shared_ptr<const holdfast::segment> from, View view, bool pinned, const memory::trust& whom)
        : segment_(std::move(from)), view_(std::move(view)) {
        if (!is_published_index(*segment_)) {
            if (const char* wrong = view_.parse(segment_->bytes()))
                throw error(errc::corrupt, segment_->uri(), std::string(wrong) + "; build it anew");
        } else if (pinned) {
            pinned_.emplace(segment_, whom);
        } else {
            core_.emplace(segment_->bytes(), snapshot_geometry_of(*segment_));
        }
    }

    /// Runs use(view) until one run is known to have met one whole index.
    template <class Use>
    snapshot_read_result read(Use&& use) {
        if (core_) return read_validated(use);
        if (pinned_) return read_pinned(use);
        use(std::as_const(view_));
        return {outcome::ok, 1, view_.image().header().image_bytes};
    }

    /// Of the index that a read would meet now; 0 before the first publish, always 1 in a segment of its own.
    [[nodiscard]] std::uint64_t version() const noexcept {
        if (core_) return layout::snapshot_version_of(core_->current());
        return pinned_ ? pinned_->version() : 1;
    }
    /// Lets go of a pinned version until the next read.
    void release() noexcept {
        if (pinned_) pinned_->release();
    }
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        return corrupt_ ? std::optional(errc::corrupt) : segment_->fault();
    }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

 private:
    template <class Use>
    snapshot_read_result read_validated(Use& use) {
        for (unsigned attempt = 0; attempt < layout::snapshot_attempts; ++attempt) {
            if (core_->current() != located_.word || located_.status != outcome::ok) {
                located_ = core_->locate();
                if (located_.status != outcome::ok) return fail(located_.status);
                const char* wrong =
                    view_.parse({core_->payload(located_.word), static_cast<std::size_t>(located_.bytes)});
                if (wrong != nullptr) {
                    const bool whole = core_->still_there(located_);
                    located_ = {};
                    if (whole) return fail(outcome::corrupt);
                    continue;
                }
            }
            use(std::as_const(view_));
            if (core_->still_there(located_)) return {outcome::ok, located_.version(), located_.bytes};
            located_ = {};
        }
        return fail(outcome::contended);
    }

    template <class Use>
    snapshot_read_result read_pinned(Use& use) {
        const snapshot_view pin = pinned_->pin();
        if (!pin) return fail(pin.status());
        if (pin.version() != located_version_) {
            located_version_ = 0;
            if (view_.parse(pin.bytes()) != nullptr) return fail(outcome::corrupt);
            located_version_ = pin.version();
        }
        use(std::as_const(view_));
        return {outcome::ok, pin.version(), pin.bytes().size()};
    }

    snapshot_read_result fail(outcome why) noexcept {
        if (why == outcome::corrupt) corrupt_ = true;
        return {why, 0, 0};
    }

    std::shared_ptr<const holdfast::segment> segment_;
    std::optional<layout::snapshot_read_core> core_;
    std::optional<snapshot_pinned_reader> pinned_;
    View view_;
    layout::snapshot_located located_{};  // what view_ was parsed from, when validated
    std::uint64_t located_version_ = 0;   // likewise, when pinned
    bool corrupt_ = false;
};

}  // namespace detail

/// What is damaged in the index or indexes of a segment, whichever way it holds them: of a snapshot every version held.
/// Throws: kind_, version_, geometry_ or schema_mismatch. Cost: a few passes over the bytes.
[[nodiscard]] inline layout::findings verify_sorted_index(const segment& from) {
    layout::findings found;
    const index_shape shape = detail::index_shape_of(from);
    const auto check = [&](std::span<const std::byte> image, layout::findings& into) {
        layout::sorted_index_image parsed;
        layout::verify_sorted_index(image, &shape.key, into);
        if (layout::sorted_index_image::parse(image, parsed) == nullptr)
            if (const char* wrong = shape.mismatch(parsed.header())) into.add(0, wrong);
    };
    if (!detail::is_published_index(from)) {
        check(from.bytes(), found);
        return found;
    }
    const auto geometry = detail::snapshot_geometry_of(from);
    const layout::snapshot_read_core core(from.bytes(), geometry);
    layout::verify_snapshot(from.bytes(), geometry, found);
    for (std::uint32_t i = 0; i < geometry.slots; ++i) {
        // Acquire, pairs with W1 of layout/snapshot_write.hpp: the payload of that version is whole.
        const std::uint64_t version = core.slot(i).version.load(std::memory_order_acquire);
        const auto located = core.check(layout::snapshot_word(version, i));
        if (version == 0 || located.status != outcome::ok) continue;
        layout::findings inside;
        check({core.payload(located.word), static_cast<std::size_t>(located.bytes)}, inside);
        if (!core.still_there(located)) continue;  // replaced meanwhile: says nothing
        for (const layout::finding& f : inside.list())
            found.add(geometry.payload_offset(i) + f.offset, "version " + std::to_string(version) + ": " + f.what);
    }
    return found;
}

/// The answers of many lookups, all from one index.
struct sorted_index_many {
    outcome status = outcome::not_found;  ///< ok: at least one was found; the rest as for one key
    std::uint64_t version = 0;            ///< of the index that answered
    std::uint64_t found = 0;              ///< how many
};

/// Looks up typed records. Threads: one at a time; take one reader for each thread.
template <class K, class V, auto RangeEnd = nullptr>
class sorted_index_reader {
 public:
    using view = sorted_index_view<K, V, RangeEnd>;
    struct result {
        /// ok; not_found; empty (no index was published yet); contended (overrun at every attempt: use a pinned reader
        /// or more slots); corrupt (see fault()); read_only (a pinned reader inherited by fork: attach anew).
        outcome status = outcome::not_found;
        std::uint64_t version = 0;  ///< of the index that answered
        sorted_index_entry<K, V> entry{};
        [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
        [[nodiscard]] const sorted_index_entry<K, V>* operator->() const noexcept { return &entry; }
    };

    /// Throws: as segment::attach; kind_, version_, geometry_ or schema_mismatch; corrupt; with `pinned` also not_found
    /// and no_space (no place for a pinned reader).
    [[nodiscard]] static sorted_index_reader attach(std::string_view uri, const sorted_index_options& options = {}) {
        return sorted_index_reader(segment::attach_read_only(uri, options.attach), options);
    }
    explicit sorted_index_reader(std::shared_ptr<const holdfast::segment> from,
                                 const sorted_index_options& options = {})
        : source_(checked(std::move(from)), view{}, options.pinned, options.attach.trust) {}

    /// The record of exactly that key. Cost: a binary search and a copy of the record.
    [[nodiscard]] result find(const K& key) {
        return look([&](const view& index) { return index.find(key); });
    }
    /// The record whose range holds the key.
    [[nodiscard]] result find_covering(const K& key) {
        return look([&](const view& index) { return index.find_covering(key); });
    }

    /// Finds many keys with their cache misses overlapped: values[i] becomes the value that find(keys[i]) would give,
    /// or nothing. All come from one index; a status that is neither ok nor not_found leaves them all empty.
    /// Requires: values.size() >= keys.size(). Cost: as many single ones or, where no cache holds the index, a fraction
    /// of that; all again when the index was replaced meanwhile, so rather some hundred keys at a time than a million.
    sorted_index_many find_many(std::span<const K> keys, std::span<std::optional<V>> values) {
        return look_many(
            keys, values, [](const view& index, auto wanted, auto found) { index.find_many(wanted, found); },
            [](const view& index, const auto& it) { return index.value(it.index()); });
    }
    /// Likewise the records whose ranges hold the keys: records[i] is what find_covering(keys[i]) would give.
    sorted_index_many find_covering_many(std::span<const K> keys,
                                         std::span<std::optional<sorted_index_entry<K, V>>> records) {
        return look_many(
            keys, records, [](const view& index, auto wanted, auto found) { index.find_covering_many(wanted, found); },
            [](const view& index, const auto& it) { return index[it.index()]; });
    }
    /// Runs use(view) on the current index; what it did counts only when the status is ok (it may have been run on an
    /// index that was being replaced, and is then run again). For iteration and everything else.
    template <class Use>
    snapshot_read_result read(Use&& use) {
        return source_.read(std::forward<Use>(use));
    }

    [[nodiscard]] std::uint64_t version() const noexcept { return source_.version(); }
    [[nodiscard]] std::optional<errc> fault() const noexcept { return source_.fault(); }
    void release() noexcept { source_.release(); }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return source_.segment(); }

 private:
    [[nodiscard]] static std::shared_ptr<const holdfast::segment> checked(
        std::shared_ptr<const holdfast::segment> from) {
        const index_shape stored = detail::index_shape_of(*from);
        std::string why;
        const container_schema wanted{schema_of<K>("key"), schema_of<V>("value")};
        if (compare(container_schema::parse(from->info().schema), wanted, why) == schema_relation::different)
            throw error(errc::schema_mismatch, from->uri(), why);
        if (stored.range_end_offset != detail::range_end_offset_of<K, V, RangeEnd>())
            throw error(errc::schema_mismatch, from->uri(),
                        "the ranges of the index end in another field than the program's; name the same member");
        return from;
    }

    template <class Find>
    [[nodiscard]] result look(Find&& find) {
        result out;
        bool found = false;
        const snapshot_read_result got = source_.read([&](const view& index) {
            const auto it = find(index);
            found = it != index.end();
            if (found) out.entry = *it;
        });
        out.status = detail::outcome_of_lookup(got.status, found);
        out.version = got.version;
        return out;
    }

    template <class Out, class Find, class Take>
    sorted_index_many look_many(std::span<const K> keys, std::span<std::optional<Out>> out, Find find, Take take) {
        const std::size_t count = keys.size() < out.size() ? keys.size() : out.size();
        std::uint64_t found = 0;
        const snapshot_read_result got = source_.read([&](const view& index) {
            found = 0;  // an earlier run may have met an index that was being replaced
            find(index, keys.first(count), [&](std::size_t i, const typename view::iterator& it) {
                if (it == index.end()) {
                    out[i].reset();
                } else {
                    out[i].emplace(take(index, it));
                    ++found;
                }
            });
        });
        if (got.status != outcome::ok) {
            for (std::size_t i = 0; i < count; ++i) out[i].reset();
            found = 0;
        }
        return {detail::outcome_of_lookup(got.status, found > 0), got.version, found};
    }

    detail::index_source<view> source_;
};

/// A record as bytes, in vectors that keep their room from one lookup to the next.
struct dynamic_entry {
    std::vector<std::byte> key, value;
};

/// Looks up records known by the segment's schema alone: for programs that know no C++ type.
class dynamic_sorted_index_reader {
 public:
    using view = dynamic_sorted_index_view;
    struct result {
        outcome status = outcome::not_found;  ///< as the typed reader's
        std::uint64_t version = 0;
        [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
    };

    /// Throws: as the typed reader's.
    [[nodiscard]] static dynamic_sorted_index_reader attach(std::string_view uri,
                                                            const sorted_index_options& options = {}) {
        return dynamic_sorted_index_reader(segment::attach_read_only(uri, options.attach), options);
    }
    explicit dynamic_sorted_index_reader(std::shared_ptr<const holdfast::segment> from,
                                         const sorted_index_options& options = {})
        : shape_(std::make_shared<const index_shape>(detail::index_shape_of(*from))),
          schema_(container_schema::parse(from->info().schema)),
          source_(std::move(from), view(shape_), options.pinned, options.attach.trust) {}

    [[nodiscard]] const index_shape& shape() const noexcept { return *shape_; }
    [[nodiscard]] const container_schema& schema() const noexcept { return schema_; }

    /// `key` in the key record's layout; a key of another size is not found. `out` holds the record when found.
    [[nodiscard]] result find(std::span<const std::byte> key, dynamic_entry& out) {
        return look([&](const view& index) { return index.find(key); }, out);
    }
    [[nodiscard]] result find_covering(std::span<const std::byte> key, dynamic_entry& out) {
        return look([&](const view& index) { return index.find_covering(key); }, out);
    }
    /// The record at a position below the index's size.
    [[nodiscard]] result at(std::uint64_t position, dynamic_entry& out) {
        return look([&](const view& index) { return position < index.size() ? std::optional(position) : std::nullopt; },
                    out);
    }
    /// As the typed reader's; copy bytes out of the view with detail::copy_from_shared.
    template <class Use>
    snapshot_read_result read(Use&& use) {
        return source_.read(std::forward<Use>(use));
    }

    [[nodiscard]] std::uint64_t version() const noexcept { return source_.version(); }
    [[nodiscard]] std::optional<errc> fault() const noexcept { return source_.fault(); }
    void release() noexcept { source_.release(); }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return source_.segment(); }

 private:
    template <class Find>
    [[nodiscard]] result look(Find&& find, dynamic_entry& out) {
        bool found = false;
        out.key.resize(shape_->key.key_bytes);
        out.value.resize(shape_->value_bytes);
        const snapshot_read_result got = source_.read([&](const view& index) {
            const std::optional<std::uint64_t> position = find(index);
            found = position.has_value();
            if (!found) return;
            detail::copy_from_shared(out.key.data(), index.key(*position).data(), out.key.size());
            detail::copy_from_shared(out.value.data(), index.value(*position).data(), out.value.size());
        });
        return {detail::outcome_of_lookup(got.status, found), got.version};
    }

    std::shared_ptr<const index_shape> shape_;
    container_schema schema_;
    detail::index_source<view> source_;
};

}  // namespace holdfast
