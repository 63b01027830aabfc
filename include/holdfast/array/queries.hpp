// SPDX-License-Identifier: Apache-2.0
// queries.hpp - what a typed reader and a typed writer of an array can both be asked.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "holdfast/array/attach.hpp"
#include "holdfast/record/untrusted.hpp"

namespace holdfast {

namespace detail {

/// A T that need not be made before bytes are put into it, whatever bytes.
template <class T>
inline constexpr bool is_any_bytes = std::is_trivially_default_constructible_v<T> && !has_boolean(facts_for<T>());

/// Elements that lie in memory exactly as T: nothing between them, and every pattern of bytes is a T.
template <class T>
inline constexpr bool lies_as_itself =
    sizeof(T) == layout::array_stride(sizeof(T)) && alignof(T) <= 64 && !has_boolean(facts_for<T>());

/// Elements that are one atomic word each.
template <class T>
inline constexpr bool is_atomic_word = [] {
    if constexpr (sizeof(T) <= 8 && lies_as_itself<T>)
        return std::atomic<T>::is_always_lock_free && sizeof(std::atomic<T>) == sizeof(T);
    else
        return false;
}();

/// Queries over loader_for_queries(), which Self provides, as well as segment() and geometry().
template <class Self, class T>
class array_queries {
 public:
    using value_type = T;
    using size_type = std::uint64_t;
    using difference_type = std::ptrdiff_t;
    class iterator;
    using const_iterator = iterator;

    /// Number of elements, fixed at creation.
    [[nodiscard]] std::uint64_t size() const noexcept { return loader().bytes().size; }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    /// Elements that one store_range() or load_range() takes: those in 4096 bytes, or one.
    [[nodiscard]] std::uint64_t range_max() const noexcept { return loader().bytes().range_max; }

    /// Returns: a copy of an element, never torn.
    /// Throws: invalid_argument (names index and size), contended (see load(index, out)).
    /// Threads: any number, beside the writer. After a crash of the writer: as before. Cost: a copy of T; for more than
    /// 8 bytes two loads of a version more.
    [[nodiscard, gnu::always_inline]] T load(std::uint64_t index) const
        requires is_any_bytes<T>
    {
        T value;  // read in place; as the function's only object the compiler makes it the caller's
        const outcome got = loader().load(index, reinterpret_cast<std::byte*>(&value));
        if (got != outcome::ok) [[unlikely]]
            throw_load(self().segment(), got, index, 1, self().geometry());
        return value;
    }
    [[nodiscard]] T load(std::uint64_t index) const {
        raw_record<T> value;
        const outcome got = loader().load(index, value.data());
        if (got != outcome::ok) [[unlikely]]
            throw_load(self().segment(), got, index, 1, self().geometry());
        return value.get();
    }
    /// The same.
    [[nodiscard, gnu::always_inline]] T operator[](std::uint64_t index) const { return load(index); }

    /// The same into an object of the caller's, and without exceptions. Returns: ok; out_of_range (`out` is unchanged);
    /// or contended: the element was changed at each of 65,536 attempts, some milliseconds (`out` may be any mix then;
    /// only wide elements under unceasing stores).
    [[nodiscard, gnu::always_inline]] outcome load(std::uint64_t index, T& out) const noexcept
        requires(!has_boolean(facts_for<T>()))
    {
        return loader().load(index, reinterpret_cast<std::byte*>(&out));
    }
    [[nodiscard]] outcome load(std::uint64_t index, T& out) const noexcept {
        raw_record<T> value;
        const outcome got = loader().load(index, value.data());
        if (got == outcome::ok) out = value.get();
        return got;
    }

    /// Copies elements [first, first + out.size()). Elements of more than 8 bytes come as they were at one moment;
    /// smaller ones each by itself. Throws: invalid_argument (out of range, more than range_max()), contended.
    void load_range(std::uint64_t first, std::span<T> out) const {
        static_assert(!has_boolean(facts_for<T>()),
                      "holdfast: a T with a bool cannot be filled with bytes of another process; load one at a time");
        const outcome got = loader().load_range(first, out.size(), reinterpret_cast<std::byte*>(out.data()));
        if (got != outcome::ok) throw_load(self().segment(), got, first, out.size(), self().geometry());
    }

    /// A random-access range over copies of all elements, each as it is when its iterator is dereferenced, which throws
    /// as load(). Requires: this handle outlives the iterators and is not moved from.
    [[nodiscard]] iterator begin() const noexcept { return iterator(this, 0); }
    [[nodiscard]] iterator end() const noexcept { return iterator(this, static_cast<std::ptrdiff_t>(size())); }

    /// The elements in place, as atomic words: read them by load(). Good as long as the handle.
    /// Throws: schema_mismatch where the stored element has more fields than T.
    [[nodiscard]] std::span<const std::atomic<T>> words() const
        requires is_atomic_word<T>
    {
        if (self().geometry().stride != sizeof(T))
            throw error(errc::schema_mismatch, self().segment().uri(),
                        "the stored element has more fields than the program's; load() them, or update the program");
        return {reinterpret_cast<const std::atomic<T>*>(loader().bytes().elements), size()};
    }

    /// Checks every byte that has a meaning; on_finding(const array_finding&) -> bool, false stops. Beside a working
    /// writer it reports no false damage, but what it could not compare is counted in `busy`. Cost: reads every
    /// element.
    template <class OnFinding>
    array_verification verify(OnFinding&& on_finding) const {
        return detail::verify(loader().bytes(), std::forward<OnFinding>(on_finding));
    }
    /// errc::truncated where the truncation guard is on and the memory was cut off.
    [[nodiscard]] std::optional<errc> fault() const noexcept { return self().segment().fault(); }

 private:
    [[nodiscard]] const Self& self() const noexcept { return static_cast<const Self&>(*this); }
    [[nodiscard]] const auto& loader() const noexcept { return self().loader_for_queries(); }
};

template <class Self, class T>
class array_queries<Self, T>::iterator {
 public:
    using iterator_concept = std::random_access_iterator_tag;
    using iterator_category = std::input_iterator_tag;  // of the old kind: elements are copies
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using reference = T;
    using pointer = void;

    iterator() = default;
    iterator(const array_queries* of, std::ptrdiff_t at) noexcept : of_(of), at_(at) {}

    [[nodiscard, gnu::always_inline]] T operator*() const { return of_->load(static_cast<std::uint64_t>(at_)); }
    [[nodiscard]] T operator[](std::ptrdiff_t n) const { return *(*this + n); }
    iterator& operator++() noexcept { return *this += 1; }
    iterator& operator--() noexcept { return *this -= 1; }
    iterator operator++(int) noexcept { return std::exchange(*this, *this + 1); }
    iterator operator--(int) noexcept { return std::exchange(*this, *this - 1); }
    iterator& operator+=(std::ptrdiff_t n) noexcept {
        at_ += n;
        return *this;
    }
    iterator& operator-=(std::ptrdiff_t n) noexcept { return *this += -n; }
    [[nodiscard]] friend iterator operator+(iterator i, std::ptrdiff_t n) noexcept { return i += n; }
    [[nodiscard]] friend iterator operator+(std::ptrdiff_t n, iterator i) noexcept { return i += n; }
    [[nodiscard]] friend iterator operator-(iterator i, std::ptrdiff_t n) noexcept { return i -= n; }
    [[nodiscard]] friend std::ptrdiff_t operator-(const iterator& a, const iterator& b) noexcept {
        return a.at_ - b.at_;
    }
    // Of one array; iterators of two are never compared.
    [[nodiscard]] friend bool operator==(const iterator& a, const iterator& b) noexcept { return a.at_ == b.at_; }
    [[nodiscard]] friend auto operator<=>(const iterator& a, const iterator& b) noexcept { return a.at_ <=> b.at_; }

 private:
    const array_queries* of_ = nullptr;
    std::ptrdiff_t at_ = 0;
};

}  // namespace detail
}  // namespace holdfast
