// SPDX-License-Identifier: Apache-2.0
// salvage_snapshot.cpp - one object: of a snapshot the newest whose checksum holds, of an index the image. Where one
// word of it was damaged, the checksum tells what stood there.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "holdfast/detail/concat.hpp"
#include "holdfast/detail/words.hpp"
#include "holdfast/snapshot.hpp"
#include "holdfast/sorted_index.hpp"
#include "inspect/one_word.hpp"
#include "inspect/salvage.hpp"

namespace holdfast::inspect {

namespace {

/// Whether bytes have that sum, or have it once one word was put right.
enum class wholeness : std::uint8_t { whole, mended, damaged };

/// `sound` tells which of several words it may be. Requires: it is asked of `bytes` as they then are.
template <class Sound>
[[nodiscard]] wholeness make_whole(std::span<std::byte> bytes, std::uint64_t basis, std::uint64_t& stored,
                                   Sound&& sound) {
    const std::uint64_t sum = detail::checksum(bytes, basis);
    if (sum == stored) return sound() ? wholeness::whole : wholeness::damaged;
    if (differ_little(sum, stored)) {
        const std::uint64_t before = std::exchange(stored, sum);
        if (sound()) return wholeness::mended;
        stored = before;
    }
    std::vector<word_change> possible = changed_words(bytes, basis, stored);
    const auto exchange = [&](word_change& change) {
        std::uint64_t present = 0;
        std::memcpy(&present, bytes.data() + change.offset, change.bytes);
        std::memcpy(bytes.data() + change.offset, &change.word, change.bytes);
        change.word = present;
    };
    constexpr std::size_t possible_max = 16;  // two are to be expected at most
    if (possible.size() > possible_max) return wholeness::damaged;
    std::erase_if(possible, [&](word_change& change) {
        exchange(change);
        const bool fits = sound();
        exchange(change);
        return !fits;
    });
    if (possible.size() != 1 || !possible.front().little) return wholeness::damaged;
    exchange(possible.front());
    return wholeness::mended;
}

[[nodiscard]] bool is_sound_index(std::span<const std::byte> bytes, const index_shape& shape) {
    layout::findings found;
    layout::verify_sorted_index(bytes, &shape.key, found);
    layout::sorted_index_image image;
    return found.empty() && layout::sorted_index_image::parse(bytes, image) == nullptr &&
           shape.mismatch(image.header()) == nullptr;
}

/// A slot of an old snapshot, by private copies.
struct old_object {
    std::uint32_t slot = 0;
    std::uint64_t version = 0;
    std::uint64_t bytes = 0;
    std::uint64_t checksum = 0;
    std::uint64_t published_ns = 0;
};

class old_snapshot {
 public:
    old_snapshot(const damaged_segment& from, const layout::snapshot_geometry& g) : body_(from.body()), g_(g) {
        const auto word = [&](std::size_t offset) { return detail::shared_load<std::uint64_t>(body_.data() + offset); };
        current_ = word(offsetof(layout::snapshot_control, current));
        for (std::uint32_t i = 0; i < g.slots; ++i) {
            const std::size_t at = static_cast<std::size_t>(layout::snapshot_geometry::header_offset(i));
            objects_.push_back({i, word(at + offsetof(layout::snapshot_slot, version)),
                                word(at + offsetof(layout::snapshot_slot, bytes)),
                                word(at + offsetof(layout::snapshot_slot, checksum)),
                                word(at + offsetof(layout::snapshot_slot, published_ns))});
        }
        // The current one first, then what may be it but for a damaged word, then the newest.
        std::ranges::sort(objects_, [&](const old_object& a, const old_object& b) {
            return nearness(a) != nearness(b) ? nearness(a) > nearness(b) : a.version > b.version;
        });
    }
    [[nodiscard]] bool is_empty() const {
        return current_ == 0 && std::ranges::all_of(objects_, [](const old_object& o) { return o.version == 0; });
    }
    [[nodiscard]] bool is_current(const old_object& object) const {
        return layout::snapshot_word(object.version, object.slot) == current_ && current_ != 0;
    }
    /// Above every version that anybody can have seen.
    [[nodiscard]] std::uint64_t next_version() const {
        std::uint64_t newest = plausible(layout::snapshot_version_of(current_));
        for (const old_object& object : objects_) newest = std::max(newest, plausible(object.version));
        return newest + 1;
    }
    [[nodiscard]] std::span<std::byte> payload(const old_object& object) const {
        return body_.subspan(static_cast<std::size_t>(g_.payload_offset(object.slot)),
                             static_cast<std::size_t>(object.bytes));
    }
    [[nodiscard]] std::vector<old_object>& objects() noexcept { return objects_; }

 private:
    [[nodiscard]] int nearness(const old_object& object) const {
        if (is_current(object)) return 2;
        const std::uint64_t version = layout::snapshot_version_of(current_);
        return object.version != 0 && current_ != 0 &&
                       (object.version == version ||
                        (object.slot == layout::snapshot_slot_of(current_) && differ_little(object.version, version)))
                   ? 1
                   : 0;
    }
    // Half of all versions are left for those to come.
    [[nodiscard]] static std::uint64_t plausible(std::uint64_t version) noexcept {
        return version < layout::snapshot_version_max / 2 ? version : 0;
    }

    std::span<std::byte> body_;
    layout::snapshot_geometry g_;
    std::uint64_t current_ = 0;
    std::vector<old_object> objects_;
};

/// Makes the object the one that is published.
void put_object(std::span<std::byte> to, const layout::snapshot_geometry& g, const old_object& object,
                std::span<const std::byte> payload, std::uint64_t version) {
    std::ranges::copy(payload, to.begin() + static_cast<std::ptrdiff_t>(g.payload_offset(0)));
    const auto store = [&](std::size_t offset, std::uint64_t word) {
        detail::store_release<std::uint64_t>(to.data() + offset, word);
    };
    const auto at = static_cast<std::size_t>(layout::snapshot_geometry::header_offset(0));
    store(at + offsetof(layout::snapshot_slot, bytes), payload.size());
    store(at + offsetof(layout::snapshot_slot, checksum), detail::checksum(payload));
    store(at + offsetof(layout::snapshot_slot, format), g.format);
    store(at + offsetof(layout::snapshot_slot, published_ns), object.published_ns);
    store(at + offsetof(layout::snapshot_slot, version), version);
    store(offsetof(layout::snapshot_control, current), layout::snapshot_word(version, 0));
}

}  // namespace

void salvage_snapshot(const damaged_segment& from, std::span<std::byte> to, salvage_log& log) {
    const auto g = layout::snapshot_geometry::parse(from.spec().geometry, to.size(), from.uri());
    std::optional<index_shape> shape;
    if (g.format == sorted_index_payload_format)
        shape = index_shape::parse(std::span(from.spec().geometry).subspan(4, 4), from.spec().schema, from.uri());
    count_cut(from, g.control_bytes(), log);  // behind it checksums speak for objects
    old_snapshot old(from, g);
    if (old.is_empty()) return;
    for (old_object& object : old.objects()) {
        if (object.version == 0) continue;
        const std::string place = detail::concat("version ", object.version, " in slot ", object.slot);
        if (object.bytes > g.slot_bytes) {
            log.lose("its size is none", place);
            continue;
        }
        const std::span<std::byte> payload = old.payload(object);
        const wholeness how =
            make_whole(payload, 0, object.checksum, [&] { return !shape || is_sound_index(payload, *shape); });
        if (how == wholeness::damaged) {
            log.lose("the checksum of the object does not hold", place);
            continue;
        }
        if (how == wholeness::mended) log.mend("one word was put right by a checksum", place);
        // An older object, or one whose version is in doubt, gets a number that nobody has seen: readers that compare
        // numbers notice it.
        const bool same = old.is_current(object) && object.version < layout::snapshot_version_max;
        put_object(to, g, object, payload, same ? object.version : old.next_version());
        return log.keep();
    }
    throw error(errc::corrupt, from.uri(),
                "no object in it is sound; publish anew, or restore the last save (holdfast restore)");
}

void salvage_index(const damaged_segment& from, std::span<std::byte> to, salvage_log& log) {
    const index_shape shape =
        index_shape::parse(std::span(from.spec().geometry).first(4), from.spec().schema, from.uri());
    const std::span<std::byte> body = from.body();
    const auto damaged = [&] {
        throw error(
            errc::corrupt, from.uri(),
            "its one checksum does not hold, and more than a word of it is damaged; load it anew, or restore the "
            "last save (holdfast restore)");
    };
    if (body.size() < sizeof(layout::sorted_index_header)) damaged();
    layout::sorted_index_header stored;
    std::memcpy(&stored, body.data(), sizeof stored);
    // All of the header but the number of records follows from the segment's own.
    layout::sorted_index_header header{};
    header.magic = layout::sorted_index_magic;
    header.format_version = layout::sorted_index_format_version;
    header.key_order = static_cast<std::uint32_t>(shape.key.order);
    header.key_bytes = shape.key.key_bytes;
    header.value_bytes = shape.value_bytes;
    header.range_end_offset = shape.range_end_offset;
    header.count = stored.count;
    const auto sound = [&] {
        const auto placed = layout::sorted_index_placement::of(header.count, header.key_bytes, header.value_bytes);
        if (header.count > layout::sorted_index_count_max || placed.image_bytes > body.size()) return false;
        header.image_bytes = placed.image_bytes;
        header.keys_offset = placed.keys_offset;
        header.values_offset = placed.values_offset;
        header.checksum = 0;
        const std::uint64_t basis = detail::checksum(std::as_bytes(std::span(&header, 1)));
        header.checksum = stored.checksum;
        const std::span<std::byte> rest =
            body.subspan(sizeof header, static_cast<std::size_t>(header.image_bytes - sizeof header));
        return make_whole(rest, basis, header.checksum, [&] {
                   std::memcpy(body.data(), &header, sizeof header);
                   return is_sound_index(body, shape);
               }) != wholeness::damaged;
    };
    bool found = sound();
    // The number of records: the image ends within 64 bytes of the body's end.
    const std::uint64_t record = std::uint64_t{header.key_bytes} + header.value_bytes;
    const std::uint64_t most = body.size() / record;
    for (std::uint64_t back = 0; !found && back <= 3 * 64 / record + 4 && back <= most; ++back) {
        header.count = most - back;
        const auto placed = layout::sorted_index_placement::of(header.count, header.key_bytes, header.value_bytes);
        if (header.count != stored.count && placed.image_bytes == body.size()) found = sound();
    }
    if (!found) damaged();
    if (std::memcmp(&stored, &header, sizeof stored) != 0)
        log.mend("the header of the index was put right by its checksum", "", 0);
    else
        log.mend("one word was put right by a checksum", "", 1);
    std::ranges::copy(body, to.begin());
    log.keep(header.count);
}

}  // namespace holdfast::inspect
