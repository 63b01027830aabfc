// SPDX-License-Identifier: Apache-2.0
// Any bytes as the body of a block store: read, verified, recovered and written to. Then a run of operations by script
// against a model: what was stored is what is read, and every unit is accounted for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "holdfast/block_store/verify.hpp"
#include "holdfast/block_store/write.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::detail;

constexpr layout::block_store_geometry geometry{24, 64};

struct alignas(64) line {
    std::byte bytes[64];
};

void require(bool fact) {
    if (!fact) std::abort();
}

block_result put(block_writer_core& writer, std::span<const std::byte> value, std::uint64_t replaced = 0) {
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

void use_any_bytes(std::span<std::byte> body, std::span<const std::uint8_t> script) {
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
    require(report.findings == found && !report.busy);
    if (corrupt) require(found != 0);
    block_writer_core writer(view);
    if (writer.recovery().counts_rebuilt) require(found != 0);
    for (std::size_t i = 0; i < std::min<std::size_t>(script.size(), 20); ++i) {
        const std::vector<std::byte> value(script[i] * 3U, std::byte{7});
        if (const block_result kept = put(writer, value)) {
            require(is(reader, kept.handle, value));
            if (i % 2 == 0) require(writer.free(kept.handle) == outcome::ok);
        }
        if (!handles.empty()) (void)writer.free(handles[i % handles.size()]);
    }
}

void run_script(std::span<std::byte> body, std::span<const std::uint8_t> script) {
    std::memset(body.data(), 0, body.size());
    const block_view<std::byte> view(body, geometry);
    block_writer_core writer(view);
    std::map<std::uint64_t, std::vector<std::byte>> model;
    std::uint8_t filler = 0;
    for (const std::uint8_t step : script) {
        const std::vector<std::byte> value(step % 64 * 7U, static_cast<std::byte>(++filler));
        auto at = model.begin();
        if (!model.empty()) std::advance(at, static_cast<std::ptrdiff_t>(step % model.size()));
        switch (step >> 6) {
            case 0:
                if (const block_result kept = put(writer, value)) model[kept.handle] = value;
                break;
            case 1:
                if (model.empty()) break;
                require(writer.free(at->first) == outcome::ok);
                require(writer.free(at->first) == outcome::stale);
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
                if (step % 2 == 0) writer = block_writer_core(view);
        }
        const block_store_usage usage = writer.reader().usage();
        require(usage && usage.values == model.size() && usage.units_used == writer.units_used());
    }
    for (const auto& [handle, value] : model) require(is(writer.reader(), handle, value));
    const block_store_verification report = verify_blocks(view.as_const(), [](const block_finding&) { return true; });
    require(report.intact() && report.values == model.size() && report.units_used == writer.units_used());
    for (const auto& [handle, value] : model) require(writer.free(handle) == outcome::ok);
    require(writer.units_used() == 0);
    require(writer.prepare(geometry.value_bytes_max()) == outcome::ok);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::uint8_t> input(data, size);
    std::vector<line> memory(static_cast<std::size_t>(geometry.body_bytes() / sizeof(line)));
    const std::span<std::byte> body(memory.data()->bytes, static_cast<std::size_t>(geometry.body_bytes()));
    // Dense input: selector and records, then words, then the beginnings of the units.
    std::size_t used = 0;
    const auto take = [&](std::uint64_t to, std::size_t bytes) {
        bytes = std::min(bytes, size - used);
        if (bytes != 0) std::memcpy(body.data() + to, data + used, bytes);
        used += bytes;
    };
    take(0, 8);
    take(layout::block_records_offset, 2 * layout::block_record_bytes);
    take(layout::block_words_offset, geometry.units * 8);
    for (std::uint64_t unit = 0; unit < geometry.units; ++unit)
        take(geometry.units_offset() + unit * geometry.unit_bytes, 32);
    use_any_bytes(body, input.first(std::min<std::size_t>(size, 40)));
    run_script(body, input.first(std::min<std::size_t>(size, 300)));
    return 0;
}
