// SPDX-License-Identifier: Apache-2.0
// Any bytes as the body of a hash map: searched, scanned, verified, recovered and written to. Then a run of operations
// by script against a model, with expiry and eviction: what was stored is what is found, and every unit is accounted
// for. The highest bit of an input's first byte says whether the map is one of many writers: of three slots, two of
// whose writers live and take turns.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hash_map/many_write.hpp"
#include "holdfast/hash_map/verify.hpp"
#include "holdfast/hash_map/write.hpp"
#include "require.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::detail;
using fuzz::require;

struct alignas(64) line {
    std::byte bytes[64];
};

std::uint64_t boot_seconds = 0;
constexpr hash_map_clock clock_of_script{[]() noexcept { return boot_seconds; },
                                         []() noexcept { return std::uint64_t{1}; }};

layout::hash_map_geometry geometry_for(bool evicting, std::uint64_t writer_slots) {
    return layout::plan_hash_map({.capacity = 20,
                                  .bytes = 24 * 64,
                                  .entry_bytes = 0,
                                  .unit_bytes = 64,
                                  .evicting = evicting,
                                  .seed = 3,
                                  .writer_slots = writer_slots});
}

/// A map of one writer.
struct map_of_one {
    using writer = map_writer_core;
    static constexpr std::uint32_t writer_slots = 0, writers = 1;
    static writer attach(const map_view<std::byte>& view, std::uint32_t) { return {view, clock_of_script, nullptr}; }
    static map_time time() { return map_time(clock_of_script); }
    static hash_map_result set(writer& by, std::span<const std::byte> key, std::span<const std::byte> value,
                               std::uint64_t ttl_s, std::uint32_t flags = 0) {
        return by.set(key, value, {.ttl = std::chrono::seconds(ttl_s), .flags = flags});
    }
};

/// Of the three slots the first two are held. Whoever has to wait for one of them soon gives up.
struct locks_of_two {
    static constexpr unsigned looks = 1;
    [[nodiscard]] bool take(std::uint32_t slot) const { return slot >= 2; }
    void give_back(std::uint32_t) const {}
    [[nodiscard]] bool wait(std::uint32_t turn) const { return turn < 2; }
    [[nodiscard]] static std::uint64_t pid() { return 1; }
};

/// One of many, two of whose writers live. Nothing in it expires.
struct map_of_many {
    using writer = map_many_core<locks_of_two>;
    static constexpr std::uint32_t writer_slots = 3, writers = 2;
    static writer attach(const map_view<std::byte>& view, std::uint32_t slot) { return {view, slot, {}}; }
    static map_time time() { return {}; }
    static hash_map_result set(writer& by, std::span<const std::byte> key, std::span<const std::byte> value,
                               std::uint64_t, std::uint32_t flags = 0) {
        return by.set(key, value, flags);
    }
};

template <class Map>
std::vector<typename Map::writer> attach_all(const map_view<std::byte>& view) {
    std::vector<typename Map::writer> writers;
    for (std::uint32_t slot = 0; slot < Map::writers; ++slot) writers.push_back(Map::attach(view, slot));
    return writers;
}

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}
std::string key_of(unsigned i) { return std::string(i % 4 == 3 ? 60 : i % 4 * 5, static_cast<char>('a' + i)); }

bool is(const map_reader_core& reader, const std::string& key, std::span<const std::byte> value) {
    std::vector<std::byte> out(value.size() + 1);
    const hash_map_found got = reader.find(bytes_of(key), std::span(out));
    return got && got.count == value.size() && std::equal(value.begin(), value.end(), out.begin());
}

template <class Map>
void use_any_bytes(std::span<std::byte> body, const layout::hash_map_geometry& geometry,
                   std::span<const std::uint8_t> script) {
    const map_view<std::byte> view(body, geometry);
    const map_reader_core reader(view.as_const(), Map::time());
    std::vector<std::byte> out(body.size());
    bool corrupt = reader.usage().status == outcome::corrupt;
    for (unsigned i = 0; i < 16; ++i) {
        const hash_map_found got = reader.find(bytes_of(key_of(i)), std::span(out));
        require(got.status != outcome::stale && got.count <= geometry.store.value_bytes_max());
        corrupt = corrupt || got.status == outcome::corrupt;
    }
    hash_map_entry entry;
    std::uint64_t cursor = 0, met = 0;
    for (outcome got = outcome::ok; got != outcome::empty; ++met) {
        got = reader.next_entry(cursor, entry);
        require(entry.key.size() + entry.value.size() <= geometry.store.value_bytes_max());
        corrupt = corrupt || got == outcome::corrupt;
    }
    require(met <= view.table.slots() + 1);
    std::uint64_t found = 0;
    const hash_map_verification report = verify_map(view.as_const(), [&](const hash_map_finding& f) {
        require(!describe(f.what).empty());
        ++found;
        return true;
    });
    // Nobody writes; of many, what looks like the trace of one who is at work excuses counts from a verdict.
    require(report.findings == found && (report.busy == 0 || Map::writers > 1));
    if (corrupt) require(found != 0);
    auto writers = attach_all<Map>(view);
    // A recovery that was killed after it had rejected a damaged record leaves one that stands open; the next goes on.
    for (const auto& writer : writers)
        if (writer.recovery().record_rebuilt) require(found != 0 || report.operation_open);
    for (const std::uint8_t step : script) {
        auto& writer = writers[step / 16 % Map::writers];
        const std::string key = key_of(step % 16);
        const std::vector<std::byte> value(step * 3U, std::byte{7});
        if (step % 3 != 0) {
            (void)Map::set(writer, bytes_of(key), value, step % 2U);
        } else if (step % 2 == 0) {
            (void)writer.template fetch_add<std::uint32_t>(bytes_of(key), step, 1);
        } else {
            (void)writer.erase(bytes_of(key));
        }
        boot_seconds += step % 5 == 0 ? 1 : 0;
    }
}

struct kept {
    std::vector<std::byte> value;
    std::uint64_t until = 0;  // 0: for ever
};

template <class Map>
void run_script(std::span<std::byte> body, const layout::hash_map_geometry& geometry,
                std::span<const std::uint8_t> script) {
    std::memset(body.data(), 0, body.size());
    boot_seconds = 0;
    const map_view<std::byte> view(body, geometry);
    auto writers = attach_all<Map>(view);
    std::map<std::string, kept> model;
    std::uint8_t filler = 0;
    const auto lives = [](const kept& what) { return what.until == 0 || what.until > boot_seconds; };
    for (const std::uint8_t step : script) {
        const std::string key = key_of(step % 16);
        const std::vector<std::byte> value(step % 64 * 5U, static_cast<std::byte>(++filler));
        const std::uint32_t slot = filler % Map::writers;
        auto& writer = writers[slot];
        switch (step >> 6) {
            case 0:
            case 1: {
                const std::uint64_t ttl = step % 8 == 1 && Map::writers == 1 ? 3 : 0;
                const hash_map_result done = Map::set(writer, bytes_of(key), value, ttl);
                if (geometry.evicting) require(static_cast<bool>(done));
                if (done) model[key] = {value, ttl == 0 ? 0 : boot_seconds + ttl};
                break;
            }
            case 2: {
                const auto at = model.find(key);
                const bool there = at != model.end() && lives(at->second);
                const outcome done = writer.erase(bytes_of(key)).status;
                require(done == outcome::not_found || (done == outcome::ok && there));
                if (there && !geometry.evicting) require(done == outcome::ok);
                if (at != model.end()) model.erase(at);
                break;
            }
            default:
                if (step % 2 == 0) writer = Map::attach(view, slot);
                if (step % 3 == 0) ++boot_seconds;
        }
        const hash_map_usage usage = writer.reader().usage();
        require(usage && usage.units_used <= usage.units && usage.entries <= model.size());
    }
    auto& writer = writers.back();
    for (const auto& [key, what] : model) {
        const bool there = is(writer.reader(), key, what.value);
        if (!lives(what)) require(!there);
        if (lives(what) && !geometry.evicting) require(there);
        if (!there) require(writer.reader().find(bytes_of(key), std::span<std::byte>()).status == outcome::not_found);
    }
    require(verify_map(view.as_const(), [](const hash_map_finding&) { return true; }).intact());
    for (unsigned i = 0; i < 16; ++i) (void)writer.erase(bytes_of(key_of(i)));
    require(writer.reader().usage().units_used == 0 && writer.reader().usage().entries == 0);
}

/// Dense input: over a map with something in it the journals, then words, then the beginnings of the units.
template <class Map>
void use(const layout::hash_map_geometry& geometry, std::span<const std::uint8_t> input) {
    std::vector<line> memory(static_cast<std::size_t>(geometry.body_bytes() / sizeof(line)) + 1);
    const std::span<std::byte> body(memory.data()->bytes, static_cast<std::size_t>(geometry.body_bytes()));
    {
        boot_seconds = 1;
        auto writer = Map::attach(map_view<std::byte>(body, geometry), 0);
        for (unsigned i = 0; i < 8; ++i)
            (void)Map::set(writer, bytes_of(key_of(i)), std::vector<std::byte>(i * 20U, std::byte{1}), i % 3U, i);
    }
    std::size_t used = 1;
    const auto lay = [&](std::uint64_t to, std::size_t bytes) {
        // A length byte of the input says how much of this part it replaces.
        if (used >= input.size()) return;
        bytes = std::min({bytes, static_cast<std::size_t>(input[used]), input.size() - used - 1});
        if (bytes != 0) std::memcpy(body.data() + to, input.data() + used + 1, bytes);
        used += 1 + bytes;
    };
    const std::uint64_t store = geometry.store_offset();
    lay(geometry.control_offset(), 248);
    for (std::uint64_t slot = 0; slot < Map::writer_slots; ++slot) {
        const std::uint64_t journal = geometry.store.journals_offset() + slot * layout::block_journal_bytes;
        lay(geometry.journals_offset() + slot * layout::map_journal_bytes,
            layout::map_journal_records_offset + 2 * layout::map_record_bytes);
        lay(store + journal, layout::block_journal_records_offset + 2 * layout::block_record_bytes);
        lay(geometry.table.journal_offset + slot * geometry.table.journal_bytes(), 64);
    }
    if (Map::writer_slots != 0) lay(geometry.table.stripes_offset, 16);
    lay(store, 8);
    lay(store + layout::block_records_offset, 2 * layout::block_record_bytes);
    lay(store + layout::block_words_offset, geometry.store.units * 8);
    for (std::uint64_t unit = 0; unit < geometry.store.units; ++unit)
        lay(store + geometry.store.units_offset() + unit * geometry.store.unit_bytes, 48);
    lay(geometry.table.journal_offset, 64);
    lay(geometry.table.lines_offset, 192);
    lay(geometry.table.nodes_offset, 240);
    use_any_bytes<Map>(body, geometry, input.first(std::min<std::size_t>(input.size(), 40)));
    run_script<Map>(body, geometry, input.first(std::min<std::size_t>(input.size(), 300)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::uint8_t> input(data, size);
    const bool evicting = size != 0 && data[0] % 2 != 0, many = size != 0 && (data[0] & 0x80U) != 0;
    many ? use<map_of_many>(geometry_for(false, map_of_many::writer_slots), input)
         : use<map_of_one>(geometry_for(evicting, map_of_one::writer_slots), input);
    return 0;
}
