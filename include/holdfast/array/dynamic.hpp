// SPDX-License-Identifier: Apache-2.0
// dynamic.hpp - arrays for programs that know no C++ type of their elements: command line, HTTP, Python.
//
// The same bytes and algorithms as array<T>; elements are spans of exactly element_bytes(), whose fields schema()
// describes. A span of another size is the caller's mistake and throws invalid_argument. Threads and crash: as
// array.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "holdfast/array/attach.hpp"

namespace holdfast {

namespace detail {

/// Queries over loader_for_queries(), which Self provides, as well as segment() and geometry().
template <class Self>
class dynamic_array_queries {
 public:
    [[nodiscard]] std::uint64_t size() const noexcept { return self().geometry().size; }
    [[nodiscard]] std::size_t element_bytes() const noexcept { return self().geometry().element_bytes; }
    /// Elements that one store_range() or load_range() takes.
    [[nodiscard]] std::uint64_t range_max() const noexcept { return self().geometry().range_max; }

    /// Copies an element to `out`. Returns: ok; out_of_range; or contended: it was changed at each of 65,536 attempts
    /// (`out` is undefined then).
    [[nodiscard]] outcome load(std::uint64_t index, std::span<std::byte> out) const {
        check(out.size(), 1);
        return loader().load(index, out.data());
    }
    /// Copies `count` elements from `first`, without gaps. Elements of more than 8 bytes come as they were at one
    /// moment. Returns: as load(); or too_large: more than range_max().
    [[nodiscard]] outcome load_range(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const {
        if (count > range_max()) return outcome::too_large;
        check(out.size(), count);
        return loader().load_range(first, count, out.data());
    }

    /// As array::verify().
    template <class OnFinding>
    array_verification verify(OnFinding&& on_finding) const {
        return detail::verify(loader().bytes(), std::forward<OnFinding>(on_finding));
    }
    /// errc::truncated where the truncation guard is on and the memory was cut off.
    [[nodiscard]] std::optional<errc> fault() const noexcept { return self().segment().fault(); }

 protected:
    void check(std::size_t given, std::uint64_t count) const {
        if (given == count * element_bytes()) return;
        throw error(errc::invalid_argument, self().segment().uri(),
                    concat("the span given has ", given, " bytes, ", count, " elements of this array have ",
                           count * element_bytes(), "; lay them out as schema() says"));
    }

 private:
    [[nodiscard]] const Self& self() const noexcept { return static_cast<const Self&>(*this); }
    [[nodiscard]] const auto& loader() const noexcept { return self().loader_for_queries(); }
};

}  // namespace detail

/// Reads any array.
class dynamic_array_reader : public detail::dynamic_array_queries<dynamic_array_reader> {
 public:
    /// Attaches to an array by name, or by passed descriptors. Needs read permission only.
    /// Throws: what segment::attach throws, kind_mismatch, version_mismatch, geometry_mismatch, schema_mismatch.
    [[nodiscard]] static dynamic_array_reader attach(std::string_view uri, const attach_options& options = {}) {
        return dynamic_array_reader(segment::attach_read_only(uri, options));
    }
    [[nodiscard]] static dynamic_array_reader attach(const segment_descriptors& descriptors,
                                                     const attach_options& options = {}) {
        return dynamic_array_reader(segment::attach_read_only(descriptors, options));
    }
    /// Reads through a mapping that is there already, and keeps it.
    explicit dynamic_array_reader(std::shared_ptr<const holdfast::segment> mapping)
        : segment_(std::move(mapping)),
          geometry_(detail::array_geometry_of(*segment_)),
          schema_(detail::schema_of_array(*segment_, geometry_)),
          loader_(loader::view(segment_->bytes(), geometry_, {geometry_.element_bytes})) {}

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }
    [[nodiscard]] const layout::array_geometry& geometry() const noexcept { return geometry_; }
    /// Of the elements: the value part alone.
    [[nodiscard]] const container_schema& schema() const noexcept { return schema_; }

 private:
    using loader = detail::array_loader<detail::runtime_element>;
    friend detail::dynamic_array_queries<dynamic_array_reader>;
    [[nodiscard]] const loader& loader_for_queries() const noexcept { return loader_; }

    std::shared_ptr<const holdfast::segment> segment_;
    layout::array_geometry geometry_;
    container_schema schema_;
    loader loader_;
};

/// Writes any array, and reads it. Holds the segment's lease. Move-only.
class dynamic_array : public detail::dynamic_array_queries<dynamic_array> {
 public:
    /// Makes an array of zeros. options.value_name is not used: the schema has the names. Throws: invalid_argument, and
    /// what segment::create throws.
    [[nodiscard]] static dynamic_array create(std::string_view uri, const container_schema& schema,
                                              const array_options& options) {
        return dynamic_array(std::make_shared<holdfast::segment>(detail::create_array(uri, options, schema)));
    }
    /// Becomes the writer of an existing array: takes the lease and finishes what the last writer was killed in.
    /// Throws: writer_alive, and what dynamic_array_reader::attach throws.
    [[nodiscard]] static dynamic_array attach(std::string_view uri, const attach_options& options = {}) {
        return dynamic_array(std::make_shared<holdfast::segment>(segment::attach(uri, access::read_write, options)));
    }
    [[nodiscard]] static dynamic_array attach(const segment_descriptors& descriptors,
                                              const attach_options& options = {}) {
        return dynamic_array(
            std::make_shared<holdfast::segment>(segment::attach(descriptors, access::read_write, options)));
    }
    dynamic_array(dynamic_array&&) noexcept = default;
    dynamic_array& operator=(dynamic_array&&) noexcept = default;
    dynamic_array(const dynamic_array&) = delete;
    dynamic_array& operator=(const dynamic_array&) = delete;
    ~dynamic_array() = default;

    /// A reader on this very mapping, for other threads. It keeps the mapping, and with it the lease, until it goes.
    [[nodiscard]] dynamic_array_reader make_reader() const { return dynamic_array_reader(segment_); }

    /// Replaces an element. Throws: as array::store().
    void store(std::uint64_t index, std::span<const std::byte> value) { store_range(index, 1, value); }
    /// Replaces `count` elements from `first`, as array::store_range().
    void store_range(std::uint64_t first, std::uint64_t count, std::span<const std::byte> values) {
        detail::require_store(*segment_, first, count, geometry_);
        check(values.size(), count);
        if (count != 0) mutator_.store(first, count, values.data(), element_bytes());
    }

    /// What attach() found and finished.
    [[nodiscard]] const array_recovery& recovery() const noexcept { return recovery_; }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }
    [[nodiscard]] const layout::array_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] const container_schema& schema() const noexcept { return schema_; }

 private:
    using mutator = detail::array_mutator<detail::runtime_element>;
    using loader = detail::array_loader<detail::runtime_element>;
    friend detail::dynamic_array_queries<dynamic_array>;
    [[nodiscard]] const loader& loader_for_queries() const noexcept { return loader_; }

    explicit dynamic_array(std::shared_ptr<holdfast::segment> mapping)
        : segment_(std::move(mapping)),
          geometry_(detail::array_geometry_of(*segment_)),
          schema_(detail::schema_of_array(*segment_, geometry_)) {
        const mutator::view view(segment_->body(), geometry_, {geometry_.element_bytes});
        recovery_ = detail::recover(view);
        mutator_ = mutator(view);
        loader_ = loader(view.as_const());
    }

    std::shared_ptr<holdfast::segment> segment_;
    layout::array_geometry geometry_;
    container_schema schema_;
    array_recovery recovery_;
    mutator mutator_;
    loader loader_;
};

}  // namespace holdfast
