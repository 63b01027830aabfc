// SPDX-License-Identifier: Apache-2.0
// Histograms from anywhere: refused, or read and written back byte for byte. As no mutation hits a checksum, the bytes
// are tried once as they are and once with the right one behind them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "holdfast/metrics/histogram_bytes.hpp"

namespace {

void parse(const std::vector<std::byte>& bytes) {
    try {
        const holdfast::histogram_counts parsed = holdfast::histogram_from_bytes(bytes);
        if (holdfast::histogram_to_bytes(parsed) != bytes) std::abort();
        holdfast::histogram_counts twice = parsed;
        twice.merge(parsed);
        for (const double q : {0.0, 0.5, 0.999, 1.0}) {
            const auto answer = twice.quantile(q);
            if (answer && !(static_cast<double>(answer->lower) <= answer->estimate &&
                            answer->estimate <= static_cast<double>(answer->upper)))
                std::abort();
        }
    } catch (const holdfast::error&) {
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto* const first = reinterpret_cast<const std::byte*>(data);
    std::vector<std::byte> bytes(first, first + size);
    parse(bytes);
    std::uint64_t sum = holdfast::detail::checksum(bytes);
    for (int i = 0; i < 8; ++i, sum >>= 8) bytes.push_back(static_cast<std::byte>(sum & 0xFF));
    parse(bytes);
    return 0;
}
