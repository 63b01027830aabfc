// SPDX-License-Identifier: Apache-2.0
// Any bytes as the body of a block store: read, verified, recovered and written to. Then a run of operations by script
// against a model: what was stored is what is read, and every unit is accounted for. The highest bit of an input's
// first eight bytes says whether the store is one of many writers: of three slots, two of whose writers live.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "holdfast/block_store/many_write.hpp"
#include "holdfast/block_store/verify.hpp"
#include "holdfast/block_store/write.hpp"
#include "require.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::detail;
using fuzz::require;

struct alignas(64) line {
    std::byte bytes[64];
};

/// A store of one writer.
struct store_of_one {
    using writer = block_writer_core;
    static constexpr layout::block_store_geometry geometry{24, 64};
    static constexpr std::uint32_t writers = 1;
    static writer attach(const block_view<std::byte>& view, std::uint32_t) { return writer(view); }
    /// Whether the writer knows itself how many units are in use.
    static bool counts(const writer& by, std::uint64_t used) { return by.units_used() == used; }
};

/// Of the three slots the first two are held. Whoever has to wait for one of them soon gives up.
struct locks_of_two {
    static constexpr unsigned looks = 1;
    [[nodiscard]] bool take(std::uint32_t slot) const { return slot >= 2; }
    void give_back(std::uint32_t) const {}
    [[nodiscard]] bool wait(std::uint32_t turn) const { return turn < 2; }
    [[nodiscard]] static std::uint64_t pid() { return 1; }
};

/// One of many, two of whose writers live.
struct store_of_many {
    using writer = block_many_core<locks_of_two>;
    static constexpr layout::block_store_geometry geometry{24, 64, 3};
    static constexpr std::uint32_t writers = 2;
    static writer attach(const block_view<std::byte>& view, std::uint32_t slot) { return {view, slot, {}}; }
    static bool counts(const writer&, std::uint64_t) { return true; }  // each knows its own part
};

template <class Writer>
block_result put(Writer& writer, std::span<const std::byte> value, std::uint64_t replaced = 0) {
    const outcome status = writer.prepare(value.size());
    if (status != outcome::ok) return {status, 0};
    require(writer.write(0, value) == outcome::ok);
    const block_result kept = writer.commit(replaced);
    if (!kept) writer.discard();
    return kept;
}

bool is(const block_reader_core& reader, std::uint64_t handle, std::span<const std::byte> value) {
    std::vector<std::byte> out(value.size() + 1);
    const result got = reader.read(handle, out);
    return got && got.count == value.size() && std::equal(value.begin(), value.end(), out.begin());
}

template <class Store>
std::vector<typename Store::writer> attach_all(const block_view<std::byte>& view) {
    std::vector<typename Store::writer> writers;
    for (std::uint32_t slot = 0; slot < Store::writers; ++slot) writers.push_back(Store::attach(view, slot));
    return writers;
}

template <class Store>
void use_any_bytes(std::span<std::byte> body, std::span<const std::uint8_t> script) {
    constexpr layout::block_store_geometry geometry = Store::geometry;
    const block_view<std::byte> view(body, geometry);
    const block_reader_core reader(view.as_const());
    bool corrupt = reader.usage().status == outcome::corrupt;
    std::vector<std::byte> out(geometry.units * geometry.unit_bytes);
    std::vector<std::uint64_t> handles;
    for (std::uint64_t h = reader.next_value(0); h != 0; h = reader.next_value(view.index_of(h) + 1)) {
        handles.push_back(h);
        const result got = reader.read(h, out);
        require(got.status == outcome::ok || got.status == outcome::corrupt);
        require(got.count <= out.size());
        corrupt = corrupt || got.status == outcome::corrupt;
    }
    std::uint64_t found = 0;
    const block_store_verification report = verify_blocks(view.as_const(), [&](const block_finding& f) {
        require(f.unit < geometry.units);
        ++found;
        return true;
    });
    // Nobody writes; only what may be the trace of one who is about to withdraw a value excuses counts from a verdict.
    const bool undecided = Store::writers > 1 && totals_of(view).undecided;
    require(report.findings == found && (!report.busy || undecided));
    if (corrupt) require(found != 0);
    auto writers = attach_all<Store>(view);
    for (const auto& writer : writers)
        if (writer.recovery().counts_rebuilt) require(found != 0 || report.busy);
    for (std::size_t i = 0; i < std::min<std::size_t>(script.size(), 20); ++i) {
        auto& writer = writers[i % writers.size()];
        const std::vector<std::byte> value(script[i] * 3U, std::byte{7});
        if (const block_result kept = put(writer, value)) {
            require(is(reader, kept.handle, value));
            if (i % 4 < 2) require(writer.free(kept.handle) == outcome::ok);
        }
        if (handles.empty()) continue;
        const std::uint64_t any = handles[i % handles.size()];
        if (i % 3 == 0)
            (void)put(writer, value, any);
        else
            (void)writer.free(any);
    }
}

template <class Store>
void run_script(std::span<std::byte> body, std::span<const std::uint8_t> script) {
    std::memset(body.data(), 0, body.size());
    const block_view<std::byte> view(body, Store::geometry);
    const block_reader_core reader(view.as_const());
    auto writers = attach_all<Store>(view);
    std::map<std::uint64_t, std::vector<std::byte>> model;
    std::uint8_t filler = 0;
    for (const std::uint8_t step : script) {
        const std::vector<std::byte> value(step % 64 * 7U, static_cast<std::byte>(++filler));
        const std::uint32_t slot = filler % Store::writers;
        auto& writer = writers[slot];
        auto at = model.begin();
        if (!model.empty()) std::advance(at, static_cast<std::ptrdiff_t>(step % model.size()));
        switch (step >> 6) {
            case 0:
                if (const block_result kept = put(writer, value)) model[kept.handle] = value;
                break;
            case 1:
                if (model.empty()) break;
                require(writer.free(at->first) == outcome::ok);
                require(writers.front().free(at->first) == outcome::stale);
                model.erase(at);
                break;
            case 2:
                if (model.empty()) break;
                if (const block_result kept = put(writer, value, at->first)) {
                    model.erase(at);
                    model[kept.handle] = value;
                }
                break;
            default:
                (void)writer.prepare(value.size());  // died with a claim; a successor
                if (step % 2 == 0) writer = Store::attach(view, slot);
        }
        const block_store_usage usage = reader.usage();
        require(usage && usage.values == model.size() && Store::counts(writer, usage.units_used));
    }
    for (const auto& [handle, value] : model) require(is(reader, handle, value));
    const block_store_verification report = verify_blocks(view.as_const(), [](const block_finding&) { return true; });
    require(report.intact() && report.values == model.size() && report.units_used == reader.usage().units_used);
    for (const auto& [handle, value] : model) require(writers.back().free(handle) == outcome::ok);
    require(reader.usage().units_used == 0 && Store::counts(writers.back(), 0));
    writers.front().discard();
    require(writers.back().prepare(Store::geometry.value_bytes_max()) == outcome::ok);
}

/// Dense input: the journals, then words, then the beginnings of the units.
template <class Store>
void use(std::span<const std::uint8_t> input) {
    constexpr layout::block_store_geometry g = Store::geometry;
    std::vector<line> memory(static_cast<std::size_t>(g.body_bytes() / sizeof(line)));
    const std::span<std::byte> body(memory.data()->bytes, static_cast<std::size_t>(g.body_bytes()));
    std::size_t used = 0;
    const auto take = [&](std::uint64_t to, std::size_t bytes) {
        bytes = std::min(bytes, input.size() - used);
        if (bytes != 0) std::memcpy(body.data() + to, input.data() + used, bytes);
        used += bytes;
    };
    take(0, 8);  // of many writers nobody reads it
    take(layout::block_records_offset, g.writer_slots == 0 ? 2 * layout::block_record_bytes : 0);
    for (std::uint64_t slot = 0; slot < g.writer_slots; ++slot) {
        const std::uint64_t journal = g.journals_offset() + slot * layout::block_journal_bytes;
        take(journal, 16);  // selector and claim
        take(journal + layout::block_journal_records_offset, 2 * layout::block_record_bytes);
    }
    take(layout::block_words_offset, g.units * 8);
    for (std::uint64_t unit = 0; unit < g.units; ++unit) take(g.units_offset() + unit * g.unit_bytes, 32);
    use_any_bytes<Store>(body, input.first(std::min<std::size_t>(input.size(), 40)));
    run_script<Store>(body, input.first(std::min<std::size_t>(input.size(), 300)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const bool many = size >= 8 && (data[7] & 0x80U) != 0;
    many ? use<store_of_many>({data, size}) : use<store_of_one>({data, size});
    return 0;
}
