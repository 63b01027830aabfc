// SPDX-License-Identifier: Apache-2.0
#include "geo_index.hpp"

#include <chrono>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

namespace geo {

namespace {

constexpr std::size_t keys_count = std::size_t{1} << 16U;

template <class Index, class Key>
double measure(Index& index, const std::vector<Key>& keys) {
    using clock = std::chrono::steady_clock;
    const auto begin = clock::now();
    std::size_t lookups = 0;
    std::size_t found = 0;
    double seconds = 0;
    do {
        for (const Key& key : keys)
            if (index.find_covering(key)) ++found;
        lookups += keys.size();
        seconds = std::chrono::duration<double>(clock::now() - begin).count();
    } while (seconds < 0.5);
    if (found == 0) throw std::runtime_error("no address was found in the index");
    return static_cast<double>(lookups) / seconds;
}

}  // namespace

double lookups_per_second(index_v4& index, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<holdfast::ipv4> keys(keys_count);
    for (holdfast::ipv4& key : keys) key.value = static_cast<std::uint32_t>(random());
    return measure(index, keys);
}

double lookups_per_second(index_v6& index, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<holdfast::ipv6> keys(keys_count);
    for (holdfast::ipv6& key : keys) {
        const std::uint64_t low = random();
        const std::uint64_t high = random();
        std::memcpy(key.bytes.data(), &high, sizeof high);
        std::memcpy(key.bytes.data() + 8, &low, sizeof low);
        key.bytes[0] = 0x20 | (key.bytes[0] & 0x0f);  // 2000::/4, where addresses are given out
    }
    return measure(index, keys);
}

}  // namespace geo
