// SPDX-License-Identifier: Apache-2.0
#include "tariff.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace config_cache {

namespace {

std::uint64_t sum_of(const tariff& sheet) {
    std::uint64_t sum = sheet.edition * 0x9E3779B97F4A7C15U;
    for (const std::uint32_t price : sheet.cents) sum = (sum ^ price) * 0xD1342543DE82EF95U;
    return sum;
}

}  // namespace

tariff first_tariff() {
    tariff sheet;
    sheet.edition = 1;
    for (std::uint32_t zone = 0; zone < zones; ++zone)
        for (std::uint32_t kg = 1; kg <= parcel_kg_max; ++kg)
            sheet.cents[zone * parcel_kg_max + kg - 1] = 390 + 60 * zone + kg * (35 + 10 * zone);
    sheet.sum = sum_of(sheet);
    return sheet;
}

void update(tariff& sheet, std::mt19937_64& random) {
    for (unsigned i = 0; i < 4; ++i) {
        std::uint32_t& price = sheet.cents[random() % (zones * parcel_kg_max)];
        price = std::max(100U, price - 20 + static_cast<std::uint32_t>(random() % 41));
    }
    ++sheet.edition;
    sheet.sum = sum_of(sheet);
}

bool is_whole(const tariff& sheet) { return sheet.edition != 0 && sheet.sum == sum_of(sheet); }

std::string answer(const tariff& sheet, const question& asked) {
    // least[kg]: cents of the cheapest way to send so much; last[kg]: a parcel of that way.
    std::array<std::uint32_t, shipment_kg_max + 1> least{}, last{};
    const std::uint32_t* const cents = sheet.cents + asked.zone % zones * parcel_kg_max;
    const std::uint32_t all = std::min(asked.kg, shipment_kg_max);
    for (std::uint32_t kg = 1; kg <= all; ++kg) {
        least[kg] = std::numeric_limits<std::uint32_t>::max();
        for (std::uint32_t parcel = 1; parcel <= std::min(kg, parcel_kg_max); ++parcel)
            if (least[kg - parcel] + cents[parcel - 1] < least[kg]) {
                least[kg] = least[kg - parcel] + cents[parcel - 1];
                last[kg] = parcel;
            }
    }
    std::array<std::uint32_t, parcel_kg_max + 1> parcels{};
    for (std::uint32_t kg = all; kg != 0; kg -= last[kg]) ++parcels[last[kg]];
    std::string text = std::to_string(least[all]).append(" cents:");
    for (std::uint32_t kg = parcel_kg_max; kg != 0; --kg)
        if (parcels[kg] != 0)
            text.append(" ").append(std::to_string(parcels[kg])).append(" x ").append(std::to_string(kg)).append(" kg");
    return text;
}

}  // namespace config_cache
