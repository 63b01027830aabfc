// SPDX-License-Identifier: Apache-2.0
// Any bytes as the body of an array: read, verified, recovered and stored to, until storing every element has made it
// whole. Then a run of stores by script against a model, with successors and with writers killed behind their commit.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "array_kill.hpp"
#include "holdfast/array/read.hpp"
#include "holdfast/array/recover.hpp"
#include "holdfast/array/verify.hpp"
#include "holdfast/array/write.hpp"
#include "require.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::detail;
using fuzz::require;
using layout::array_geometry;

struct alignas(64) line {
    std::byte bytes[64];
};

template <class T>
struct subject {
    using element = fixed_element<T>;
    using view = array_view<std::byte, element>;
    // Few attempts: damage keeps a version odd for ever.
    using loader = array_loader<element, copy_by::best, 16>;

    static void store(array_mutator<element>& writer, std::uint64_t first, std::span<const T> values) {
        writer.store(first, values.size(), reinterpret_cast<const std::byte*>(values.data()), sizeof(T));
    }
    static array_verification check(const view& v, const array_geometry& g) {
        const array_verification seen = verify(v.as_const(), [&](const array_finding& f) {
            return f.count == 0 || (f.first < g.size && f.count <= g.size - f.first);
        });
        require(!seen.stopped && seen.busy == 0);
        return seen;
    }

    static void use_any_bytes(std::span<std::byte> body, const array_geometry& g) {
        const view v(body, g, {});
        const loader reader(v.as_const());
        const array_verification before = check(v, g);
        std::vector<T> out(static_cast<std::size_t>(g.range_max));
        auto* const to = reinterpret_cast<std::byte*>(out.data());
        for (std::uint64_t i = 0; i < g.size; ++i) {
            const outcome got = reader.load(i, to);
            require(got == outcome::ok || (got == outcome::contended && !before.intact()));
        }
        require(reader.load(g.size, to) == outcome::out_of_range);
        require(reader.load(~std::uint64_t{0}, to) == outcome::out_of_range);
        const std::uint64_t count = std::min(g.range_max, g.size);
        require(reader.load_range(g.size - count, count, to) != outcome::out_of_range);
        require(reader.load_range(g.size, 1, to) == outcome::out_of_range);
        const array_recovery done = recover(v);
        require(!done.journal_rejected || !before.intact());
        require(!(done.store_finished && done.store_dropped));
        if (before.intact()) require(check(v, g).intact());
        array_mutator<element> writer(v);
        const std::uint64_t step = g.range_max / g.group_elements * g.group_elements;
        for (std::uint64_t first = 0; first < g.size; first += step)
            store(writer, first,
                  std::span<const T>(out).first(static_cast<std::size_t>(std::min(step, g.size - first))));
        require(check(v, g).intact());
    }

    static void run_script(std::span<std::byte> body, const array_geometry& g, std::span<const std::uint8_t> script) {
        std::memset(body.data(), 0, body.size());
        const view v(body, g, {});
        const loader reader(v.as_const());
        std::optional<array_mutator<element>> writer(std::in_place, v);
        std::vector<T> model(static_cast<std::size_t>(g.size), T{});
        std::uint8_t filler = 0;
        for (std::size_t i = 0; i + 1 < script.size(); i += 2) {
            const std::uint64_t first = script[i] % g.size;
            const std::uint64_t count = std::min<std::uint64_t>({1 + script[i + 1] % 32U, g.range_max, g.size - first});
            std::vector<T> values(static_cast<std::size_t>(count));
            std::memset(values.data(), ++filler, values.size() * sizeof(T));
            const bool killed = script[i + 1] % 8 == 7;
            if (killed)
                fuzz::kill_behind_commit(v, body, g, first, count, [&] { store(*writer, first, values); });
            else
                store(*writer, first, values);
            std::copy(values.begin(), values.end(), model.begin() + static_cast<std::ptrdiff_t>(first));
            require(check(v, g).store_open == killed);
            if (killed) {
                require(recover(v).store_finished);
                writer.emplace(v);
            }
            T seen{};
            require(reader.load(first, reinterpret_cast<std::byte*>(&seen)) == outcome::ok);
            require(std::memcmp(&seen, &values.front(), sizeof seen) == 0);
        }
        require(check(v, g).intact());
        for (std::uint64_t i = 0; i < g.size; ++i) {
            T seen{};
            require(reader.load(i, reinterpret_cast<std::byte*>(&seen)) == outcome::ok);
            require(std::memcmp(&seen, &model[static_cast<std::size_t>(i)], sizeof seen) == 0);
        }
    }

    static void run(std::uint64_t size, std::span<const std::uint8_t> input) {
        const array_geometry g = layout::plan_array(size, sizeof(T));
        std::vector<line> memory(static_cast<std::size_t>((g.body_bytes() + sizeof(line) - 1) / sizeof(line)));
        const std::span<std::byte> body(memory.data()->bytes, static_cast<std::size_t>(g.body_bytes()));
        // Dense input: the journal's words, digests, versions, the elements, and what is left into the journal's image.
        std::size_t used = 0;
        const auto take = [&](std::uint64_t to, std::uint64_t bytes) {
            const std::size_t some = std::min(static_cast<std::size_t>(bytes), input.size() - used);
            if (some != 0) std::memcpy(body.data() + to, input.data() + used, some);
            used += some;
        };
        take(g.journal_offset, 48);
        take(g.digests_offset, g.groups() * 8);
        take(g.versions_offset, g.versions_bytes());
        take(g.elements_offset, g.size * g.stride);
        take(g.journal_offset + layout::array_image_offset, g.range_max * g.stride);
        use_any_bytes(body, g);
        run_script(body, g, input.first(std::min<std::size_t>(input.size(), 48)));
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::span<const std::uint8_t> rest(data + 1, size - 1);
    switch (data[0] % 4) {
        case 0: subject<std::uint64_t>::run(140, rest); break;                  // two groups of words
        case 1: subject<std::array<std::uint8_t, 3>>::run(300, rest); break;    // cells with room to spare
        case 2: subject<std::array<std::uint32_t, 5>>::run(60, rest); break;    // wide, the last cell in part
        default: subject<std::array<std::uint64_t, 150>>::run(3, rest); break;  // larger than a group
    }
    return 0;
}
