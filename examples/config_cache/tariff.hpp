// SPDX-License-Identifier: Apache-2.0
// tariff.hpp - the configuration of the example: what a parcel of so many kilograms costs, by zone; and the question
// that it answers, whose answer is worth keeping.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace config_cache {

inline constexpr std::uint32_t zones = 8, parcel_kg_max = 32, shipment_kg_max = 500;

/// One edition. A plain record, so that `holdfast get` shows it.
struct tariff {
    std::uint64_t edition = 0;
    std::uint64_t sum = 0;                         ///< over all the rest
    std::uint32_t cents[zones * parcel_kg_max]{};  ///< of a parcel of 1, 2, ... kg to zone 0, then to zone 1, ...
};

/// What is asked: under which edition, whereto, how heavy. The key of the cache.
struct question {
    std::uint64_t edition = 0;
    std::uint32_t zone = 0;
    std::uint32_t kg = 0;  ///< 1 to shipment_kg_max
};

/// The edition before the first update.
[[nodiscard]] tariff first_tariff();
/// Changes a few prices: the next edition.
void update(tariff& sheet, std::mt19937_64& random);
/// Whether it is an edition as somebody published it, and no mix of two.
[[nodiscard]] bool is_whole(const tariff& sheet);

/// The cheapest way to send a shipment in parcels, as text. Cost: some 10 us.
[[nodiscard]] std::string answer(const tariff& sheet, const question& asked);

}  // namespace config_cache
