// SPDX-License-Identifier: Apache-2.0
// Any bytes as the body of a hash map: searched, scanned, verified, recovered and written to. Then a run of operations
// by script against a model, with expiry and eviction: what was stored is what is found, and every unit is accounted
// for.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hash_map/verify.hpp"
#include "holdfast/hash_map/write.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::detail;

struct alignas(64) line {
    std::byte bytes[64];
};

std::uint64_t boot_seconds = 0;
constexpr hash_map_clock clock_of_script{[]() noexcept { return boot_seconds; },
                                         []() noexcept { return std::uint64_t{1}; }};

void require(bool fact) {
    if (!fact) std::abort();
}

layout::hash_map_geometry geometry_for(bool evicting) {
    return layout::plan_hash_map(
        {.capacity = 20, .bytes = 24 * 64, .entry_bytes = 0, .unit_bytes = 64, .evicting = evicting, .seed = 3});
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

void use_any_bytes(std::span<std::byte> body, const layout::hash_map_geometry& geometry,
                   std::span<const std::uint8_t> script) {
    const map_view<std::byte> view(body, geometry);
    const map_reader_core reader(view.as_const(), map_time(clock_of_script));
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
    require(report.findings == found && report.busy == 0);
    if (corrupt) require(found != 0);
    map_writer_core writer(view, clock_of_script, nullptr);
    if (writer.recovery().record_rebuilt) require(found != 0);
    for (const std::uint8_t step : script) {
        const std::string key = key_of(step % 16);
        const std::vector<std::byte> value(step * 3U, std::byte{7});
        if (step % 3 != 0) {
            (void)writer.set(bytes_of(key), value, {.ttl = std::chrono::seconds(step % 2U), .flags = 0});
        } else if (step % 2 == 0) {
            (void)writer.fetch_add<std::uint32_t>(bytes_of(key), step, 1);
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

void run_script(std::span<std::byte> body, const layout::hash_map_geometry& geometry,
                std::span<const std::uint8_t> script) {
    std::memset(body.data(), 0, body.size());
    boot_seconds = 0;
    const map_view<std::byte> view(body, geometry);
    map_writer_core writer(view, clock_of_script, nullptr);
    std::map<std::string, kept> model;
    std::uint8_t filler = 0;
    const auto lives = [](const kept& what) { return what.until == 0 || what.until > boot_seconds; };
    for (const std::uint8_t step : script) {
        const std::string key = key_of(step % 16);
        const std::vector<std::byte> value(step % 64 * 5U, static_cast<std::byte>(++filler));
        switch (step >> 6) {
            case 0:
            case 1: {
                const std::uint64_t ttl = step % 8 == 1 ? 3 : 0;
                const hash_map_result done =
                    writer.set(bytes_of(key), value, {.ttl = std::chrono::seconds(ttl), .flags = 0});
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
                if (step % 2 == 0) writer = map_writer_core(view, clock_of_script, nullptr);
                if (step % 3 == 0) ++boot_seconds;
        }
        const hash_map_usage usage = writer.reader().usage();
        require(usage && usage.units_used <= usage.units && usage.entries <= model.size());
    }
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::uint8_t> input(data, size);
    const bool evicting = size != 0 && data[0] % 2 != 0;
    const layout::hash_map_geometry geometry = geometry_for(evicting);
    std::vector<line> memory(static_cast<std::size_t>(geometry.body_bytes() / sizeof(line)) + 1);
    const std::span<std::byte> body(memory.data()->bytes, static_cast<std::size_t>(geometry.body_bytes()));
    // First a map with something in it, then the input over what matters, densely.
    {
        boot_seconds = 1;
        map_writer_core writer(map_view<std::byte>(body, geometry), clock_of_script, nullptr);
        for (unsigned i = 0; i < 8; ++i)
            (void)writer.set(bytes_of(key_of(i)), std::vector<std::byte>(i * 20U, std::byte{1}),
                             {.ttl = std::chrono::seconds(i % 3U), .flags = i});
    }
    std::size_t used = 1;
    const auto lay = [&](std::uint64_t to, std::size_t bytes) {
        // A length byte of the input says how much of this part it replaces.
        if (used >= size) return;
        bytes = std::min({bytes, static_cast<std::size_t>(data[used]), size - used - 1});
        if (bytes != 0) std::memcpy(body.data() + to, data + used + 1, bytes);
        used += 1 + bytes;
    };
    const std::uint64_t store = geometry.store_offset();
    lay(geometry.control_offset(), 248);
    lay(store, 8);
    lay(store + layout::block_records_offset, 2 * layout::block_record_bytes);
    lay(store + layout::block_words_offset, geometry.store.units * 8);
    for (std::uint64_t unit = 0; unit < geometry.store.units; ++unit)
        lay(store + geometry.store.units_offset() + unit * geometry.store.unit_bytes, 48);
    lay(geometry.table.journal_offset, 64);
    lay(geometry.table.lines_offset, 192);
    lay(geometry.table.nodes_offset, 240);
    use_any_bytes(body, geometry, input.first(std::min<std::size_t>(size, 40)));
    run_script(body, geometry, input.first(std::min<std::size_t>(size, 300)));
    return 0;
}
