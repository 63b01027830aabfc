// SPDX-License-Identifier: Apache-2.0
// place_table.hpp - places by number, as many as were ever needed at once, for what each connection has.
//
// A vector that grows leaves an array of half its size behind, which malloc keeps for smaller ones: 75 to 118 bytes for
// each of 100,000 connections (docs/design/0027). So these stand in pieces of 16 KiB at most, none of which ever moves.
// (P1) A place stays where it is until the table goes: references to one live through grow().
// (P2) grow() gives all that it promises, or throws and changes nothing.
#pragma once

#include <bit>
#include <cstddef>
#include <memory>
#include <vector>

namespace holdfast::net {

template <class Place>
class place_table {
 public:
    static constexpr std::size_t piece_bytes_max = 16'384;
    /// Places that come together: a power of two.
    static constexpr std::size_t step =
        sizeof(Place) < piece_bytes_max ? std::bit_floor(piece_bytes_max / sizeof(Place)) : 1;

    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// Makes places 0..count-1, those that are new as `Place{}`. Throws: std::bad_alloc.
    void grow(std::size_t count) {
        while (pieces_.size() * step < count) pieces_.push_back(std::make_unique<Place[]>(step));
        if (count > size_) size_ = count;
    }

    /// Requires: index < size().
    [[nodiscard]] Place& operator[](std::size_t index) noexcept { return pieces_[index / step][index % step]; }
    [[nodiscard]] const Place& operator[](std::size_t index) const noexcept {
        return pieces_[index / step][index % step];
    }

 private:
    std::vector<std::unique_ptr<Place[]>> pieces_;
    std::size_t size_ = 0;
};

}  // namespace holdfast::net
