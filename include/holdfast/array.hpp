// SPDX-License-Identifier: Apache-2.0
// array.hpp - a fixed number of records in shared memory, each read whole: one writer, any number of readers.
//
//     auto prices = holdfast::array<quote>::create("prices", {.size = 10'000});
//     prices.store(17, {.bid = 99, .ask = 101});
//
//     // in any other process, with read permission only
//     auto view = holdfast::array_reader<quote>::attach("prices");
//     quote q = view[17];
//     auto best = std::ranges::max_element(view, {}, &quote::bid);
//
// Shape:   the number of elements is fixed at creation; all are zero at first. Beside each KiB of elements lie 8 bytes,
//          16 where elements are wider than 8 bytes.
// Layout:  layout/array_layout.hpp. Invariants, order of stores and crash table: array/write.hpp.
// Threads: one writer object, used by one thread at a time; readers anywhere, at any time, on read-only mappings.
//          Readers register nothing and never wait for the writer, be it alive, stopped or dead.
// Crash:   the writer may be killed at any instruction. Each store, of one element or of a range, has then happened or
//          not; no reader sees a torn element or one that goes back; the next attach finishes what was committed at the
//          cost of one record.
// Errors:  an index outside the array throws `error` (invalid_argument) that names it and the size.
// Run-time types, for programs that know no C++ type: array/dynamic.hpp.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "holdfast/array/queries.hpp"

namespace holdfast {

/// Reads an array. T may be an earlier version of the stored element: the same fields without the last ones.
template <record T>
class array_reader : public detail::array_queries<array_reader<T>, T> {
    static_assert(!std::is_array_v<T>, "wrap the array in a struct, or use std::array");

 public:
    /// Attaches to an array by name, or by passed descriptors. Needs read permission only.
    /// Throws: what segment::attach throws, kind_mismatch, version_mismatch, geometry_mismatch, schema_mismatch.
    [[nodiscard]] static array_reader attach(std::string_view uri, const attach_options& options = {}) {
        return array_reader(segment::attach_read_only(uri, options));
    }
    [[nodiscard]] static array_reader attach(const segment_descriptors& descriptors,
                                             const attach_options& options = {}) {
        return array_reader(segment::attach_read_only(descriptors, options));
    }
    /// Reads through a mapping that is there already, and keeps it.
    explicit array_reader(std::shared_ptr<const holdfast::segment> mapping)
        : segment_(std::move(mapping)), geometry_(detail::array_geometry_of(*segment_)) {
        detail::require_element(*segment_, geometry_, schema_of<T>(), access::read_only);
        loader_ = loader(typename loader::view(segment_->bytes(), geometry_, {}));
    }

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }
    [[nodiscard]] const layout::array_geometry& geometry() const noexcept { return geometry_; }

 private:
    using loader = detail::array_loader<detail::fixed_element<T>>;
    friend detail::array_queries<array_reader, T>;
    [[nodiscard]] const loader& loader_for_queries() const noexcept { return loader_; }

    loader loader_;
    std::shared_ptr<const holdfast::segment> segment_;
    layout::array_geometry geometry_;
};

/// Writes an array, and reads it. Holds the segment's lease. Move-only.
///
/// All stores throw invalid_argument for what lies outside the array, and read_only in a process that inherited the
/// handle by fork; nothing has changed then.
template <record T>
class array : public detail::array_queries<array<T>, T> {
    static_assert(!std::is_array_v<T>, "wrap the array in a struct, or use std::array");

 public:
    /// Makes an array of zeros. Throws: invalid_argument, and what segment::create throws (already_exists, no_space,
    /// ...).
    [[nodiscard]] static array create(std::string_view uri, const array_options& options) {
        return array(std::make_shared<holdfast::segment>(
            detail::create_array(uri, options, {std::nullopt, schema_of<T>(options.value_name)})));
    }
    /// Becomes the writer of an existing array: takes the lease and finishes what the last writer was killed in.
    /// Throws: writer_alive, and what array_reader::attach throws. Cost: one record, whatever the size.
    [[nodiscard]] static array attach(std::string_view uri, const attach_options& options = {}) {
        return array(std::make_shared<holdfast::segment>(segment::attach(uri, access::read_write, options)));
    }
    [[nodiscard]] static array attach(const segment_descriptors& descriptors, const attach_options& options = {}) {
        return array(std::make_shared<holdfast::segment>(segment::attach(descriptors, access::read_write, options)));
    }
    array(array&&) noexcept = default;
    array& operator=(array&&) noexcept = default;
    array(const array&) = delete;
    array& operator=(const array&) = delete;
    ~array() = default;

    /// A reader on this very mapping, for other threads. It keeps the mapping, and with it the lease, until it goes.
    [[nodiscard]] array_reader<T> make_reader() const { return array_reader<T>(segment_); }

    /// Replaces an element. Readers see the old or the new one.
    void store(std::uint64_t index, const T& value) {
        detail::require_store(*segment_, index, 1, geometry_);
        mutator_.store(index, 1, detail::bytes_of(value), sizeof(T));
    }
    /// Replaces elements [first, first + values.size()), range_max() at most. After a crash of the writer all of them
    /// are replaced, or none. Readers see elements of more than 8 bytes change all at once, smaller ones one by one
    /// (and after a kill, until the next writer attaches, perhaps only some of them). `values` may lie in span().
    void store_range(std::uint64_t first, std::span<const T> values) {
        detail::require_store(*segment_, first, values.size(), geometry_);
        if (!values.empty()) mutator_.store(first, values.size(), detail::bytes_of(*values.data()), sizeof(T));
    }
    /// Changes an element by change(T&), for instance `[](quote& q) { ++q.updates; }`. Readers see the old or the new
    /// one. Throws: also what change throws; nothing has changed then.
    template <class Change>
        requires std::invocable<Change, T&>
    void modify(std::uint64_t index, Change&& change) {
        detail::require_store(*segment_, index, 1, geometry_);
        T value = this->load(index);
        std::forward<Change>(change)(value);
        mutator_.store(index, 1, detail::bytes_of(value), sizeof(T));
    }
    /// Adds to an element, modulo 2^bits. Returns: what it was.
    T fetch_add(std::uint64_t index, T delta)
        requires std::integral<T> && (!std::same_as<T, bool>)
    {
        detail::require_store(*segment_, index, 1, geometry_);
        using bits = std::make_unsigned_t<T>;
        const T before = this->load(index);
        const T after = static_cast<T>(static_cast<bits>(static_cast<bits>(before) + static_cast<bits>(delta)));
        mutator_.store(index, 1, detail::bytes_of(after), sizeof(T));
        return before;
    }
    /// Stores the value in every element, whole groups at a time, in order: a crash leaves the first ones replaced.
    /// Whatever damage verify() found is gone then.
    void fill(const T& value) {
        const std::uint64_t step = geometry_.range_max - geometry_.range_max % geometry_.group_elements;
        for (std::uint64_t first = 0; first < geometry_.size; first += step) {
            const std::uint64_t count = std::min(step, geometry_.size - first);
            detail::require_store(*segment_, first, count, geometry_);
            mutator_.store_groups(first, count, detail::bytes_of(value));
        }
    }

    /// The elements in place, to be read by the thread that writes: it alone changes them, so what it sees are its own
    /// stores. Readers in other threads use make_reader(). Good as long as the handle. Throws: read_only.
    [[nodiscard]] std::span<const T> span() const
        requires detail::lies_as_itself<T>
    {
        detail::require_store(*segment_, 0, 0, geometry_);
        return {reinterpret_cast<const T*>(mutator_.bytes().elements), geometry_.size};
    }

    /// What attach() found and finished.
    [[nodiscard]] const array_recovery& recovery() const noexcept { return recovery_; }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }
    [[nodiscard]] const layout::array_geometry& geometry() const noexcept { return geometry_; }

 private:
    using element = detail::fixed_element<T>;
    using mutator = detail::array_mutator<element>;
    using loader = detail::array_loader<element>;
    friend detail::array_queries<array, T>;
    [[nodiscard]] const loader& loader_for_queries() const noexcept { return loader_; }

    explicit array(std::shared_ptr<holdfast::segment> mapping)
        : segment_(std::move(mapping)), geometry_(detail::array_geometry_of(*segment_)) {
        detail::require_element(*segment_, geometry_, schema_of<T>(), access::read_write);
        const typename mutator::view view(segment_->body(), geometry_, {});
        recovery_ = detail::recover(view);
        mutator_ = mutator(view);
        loader_ = loader(view.as_const());
    }

    loader loader_;
    mutator mutator_;
    std::shared_ptr<holdfast::segment> segment_;
    layout::array_geometry geometry_;
    array_recovery recovery_;
};

}  // namespace holdfast
