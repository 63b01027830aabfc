// SPDX-License-Identifier: Apache-2.0
// Any bytes as the image of a sorted index, in every key order: searched and verified within bounds. Then records from
// the same bytes: what the builder accepts is found again, what it refuses it names.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "holdfast/layout/sorted_index_verify.hpp"
#include "holdfast/sorted_index/builder.hpp"
#include "holdfast/sorted_index/dynamic_view.hpp"
#include "require.hpp"

namespace {

using namespace holdfast::layout;
using holdfast::key_order;
using holdfast::fuzz::require;

void search_any_image(std::span<const std::byte> bytes) {
    findings found;
    verify_sorted_index(bytes, nullptr, found);
    sorted_index_image image;
    if (sorted_index_image::parse(bytes, image) != nullptr) {
        require(!found.empty());
        return;
    }
    const auto& header = image.header();
    auto shape = std::make_shared<holdfast::index_shape>();
    shape->key = {header.key_bytes, image.order(), {}};
    if (image.order() == key_order::fields)
        for (std::uint32_t at = 0; at < header.key_bytes; ++at) shape->key.parts.push_back({key_order::i8, at, 1});
    shape->value_bytes = header.value_bytes;
    shape->range_end_offset = header.range_end_offset;
    holdfast::dynamic_sorted_index_view view(shape);
    require(view.parse(bytes) == nullptr);
    for (std::uint64_t i = 0; i <= std::min<std::uint64_t>(view.size(), 64); ++i) {
        std::vector<std::byte> key(header.key_bytes, static_cast<std::byte>(i * 5));
        if (i < view.size()) std::copy(view.key(i).begin(), view.key(i).end(), key.begin());
        require(view.lower_bound(key) <= view.size());
        require(view.upper_bound(key) <= view.size());
        for (const auto& position : {view.find(key), view.find_covering(key)})
            require(!position || *position < view.size());
        // In a sound image every record finds itself.
        if (found.empty() && i < view.size() && image.order() != key_order::fields)
            require(view.find(key) == i && view.find_covering(key) == i);
    }
}

struct range_value {
    std::uint8_t last;
};
using builder = holdfast::sorted_index_builder<std::uint8_t, range_value, &range_value::last>;
using view = holdfast::sorted_index_view<std::uint8_t, range_value, &range_value::last>;

void build_from(std::span<const std::uint8_t> data) {
    builder records;
    for (std::size_t i = 0; i + 1 < data.size(); i += 2) records.add(data[i], {data[i + 1]});
    std::vector<int> covered(256, -1);  // by which record's key
    bool sound = true;
    for (std::size_t i = 0; i + 1 < data.size(); i += 2) {
        if (data[i + 1] < data[i]) sound = false;
        for (unsigned key = data[i]; key <= data[i + 1]; ++key) {
            if (covered[key] >= 0) sound = false;
            covered[key] = data[i];
        }
    }
    std::vector<std::byte> image;
    try {
        image = records.build();
        require(sound);
    } catch (const holdfast::sorted_index_error& e) {
        require(!sound && e.record() < data.size() / 2);
        return;
    }
    const auto index = view::over(image);
    for (unsigned key = 0; key < 256; ++key) {
        const auto found = index.find_covering(static_cast<std::uint8_t>(key));
        require((found == index.end()) == (covered[key] < 0));
        if (found != index.end()) require(found->key == covered[key]);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::unique_ptr<std::byte[]> exact(new std::byte[size]);  // so that one byte beyond is out of bounds
    if (size > 0) std::memcpy(exact.get(), data, size);
    search_any_image({exact.get(), size});
    build_from({data, std::min<std::size_t>(size, 60)});
    return 0;
}
