// SPDX-License-Identifier: Apache-2.0
// image_kill_registered.hpp - a full hash map that evicts, in a named segment, and registered readers who note in its
// peers file what they read: with the operations in which image_kill_maps_test.cpp kills such a reader, and the writer
// that takes the notes before it evicts. The peers file is part of the image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/detail/shared_bytes.hpp"
#include "holdfast/hash_map/registered_reader.hpp"
#include "holdfast/peers.hpp"
#include "image_kill_maps.hpp"
#include "image_kill_subjects.hpp"

namespace holdfast::test::image_kill {

using registered_text_reader = hash_map_registered_reader<std::string_view>;

/// A reader in the first of the places, and what it notes there.
class noting_reader {
 public:
    explicit noting_reader(const std::string& uri)
        : memory_(std::make_shared<const segment>(segment::attach(uri, access::read_only))),
          board_(peers::open(*memory_)),
          reader_(registered_text_reader(memory_, golden::services_at(golden::gone_on_at).clock)) {
        require(!has_noted(), "a place that is empty");
    }
    [[nodiscard]] bool has_noted() const { return holdfast::detail::shared_load<u64>(board_.slot(0).data()) != 0; }
    /// It notes one of eight, by chance: how often it reads differs from one process to the next, the note does not.
    void until_it_notes(const std::function<void(registered_text_reader&)>& read) {
        while (!has_noted()) read(*reader_);
    }
    void leave() { reader_.reset(); }

 private:
    std::shared_ptr<const segment> memory_;
    peers board_;
    std::optional<registered_text_reader> reader_;
};

inline operation by_noting_reader(const char* name, std::function<void(registered_text_reader&)> read) {
    return {name,
            [read](const std::string& uri) {
                auto reader = std::make_shared<noting_reader>(uri);
                return [reader, read] { reader->until_it_notes(read); };
            },
            [](contents&) {}};
}
/// Who registers where a dead one's note lies, and who goes and leaves none.
inline std::vector<operation> comings_and_goings() {
    const auto nothing = [](contents&) {};
    return {{"register",
             [](const std::string& uri) {
                 auto memory = std::make_shared<const segment>(segment::attach(uri, access::read_only));
                 return
                     [memory] { (void)registered_text_reader(memory, golden::services_at(golden::gone_on_at).clock); };
             },
             nothing},
            {"leave",
             [](const std::string& uri) {
                 auto reader = std::make_shared<noting_reader>(uri);
                 std::string value;
                 reader->until_it_notes([&](auto& r) { (void)r.find("3", value); });
                 return [reader] { reader->leave(); };
             },
             nothing}};
}

inline constexpr u64 noted_entries = 10;  // as many as there is room for
inline std::string noted_text(u64 n) { return name_of(n) + std::string(60, 'x'); }

/// In both places, as dead readers leave them: notes of the two entries that would be evicted first.
inline void leave_notes(const text_map& map) {
    const peers board = peers::open(map.segment());
    for (const std::uint32_t place : {0U, 1U}) {
        const u64 handle = handle_of(map, name_of(place));
        require(handle != 0, "an entry");
        holdfast::detail::shared_store<u64>(board.slot(place).data() + std::size_t{24} * place, handle);
    }
}
/// Both places are free, and every entry can be evicted, whoever noted it.
inline void evict_all_and_empty(text_map& map, const std::string& uri) {
    const hash_map_clock clock = golden::services_at(golden::gone_on_at).clock;
    const auto one = registered_text_reader::attach(uri, {}, clock),
               other = registered_text_reader::attach(uri, {}, clock);
    for (u64 n = 0; n < 4 * noted_entries; ++n)
        require(static_cast<bool>(map.set("later " + name_of(n), noted_text(n))), "a set that evicts");
    for (u64 n = 0; n < noted_entries; ++n) require(!map.contains(name_of(n)), "an eviction of what was noted");
    std::vector<std::string> keys;
    for (const hash_map_entry& entry : map) keys.push_back(text_of_bytes(entry.key));
    for (const std::string& key : keys) require(static_cast<bool>(map.erase(key)), "an erase");
    require(static_cast<bool>(map.set("next", "one")), "a set");
}

inline subject registered_map_subject() {
    subject made{"hash_map_registered",
                 [](const std::string& uri) {
                     hash_map_options options = map_options(1300);
                     options.evict = true;
                     options.registered_readers = 2;
                     text_map map = text_map::create(uri, options, golden::services_at(golden::made_at));
                     for (u64 n = 0; n < noted_entries; ++n)
                         require(static_cast<bool>(map.insert(name_of(n), noted_text(n))), "an insert");
                     leave_notes(map);
                     return read_map(uri);
                 },
                 read_map, comings_and_goings(),
                 afterwards({"evict all, and empty",
                             [](const std::string& uri) {
                                 return with(text_map::attach(uri, {}, golden::services_at(golden::gone_on_at)),
                                             [uri](text_map& map) { evict_all_and_empty(map, uri); });
                             },
                             [](contents& c) { c.clear(), c["next"] = "one"; }})};
    made.operations.push_back(by_noting_reader("find", [](registered_text_reader& r) {
        std::string value;
        (void)r.find("3", value);
    }));
    made.operations.push_back(by_noting_reader(
        "visit", [](registered_text_reader& r) { (void)r.visit("3", [](std::span<const std::byte>, u64, u64) {}); }));
    made.operations.push_back(map_set("set that takes notes, and evicts", "new", std::string(70, 'v'), 3));
    return made;
}

}  // namespace holdfast::test::image_kill
