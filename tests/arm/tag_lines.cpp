// SPDX-License-Identifier: Apache-2.0
// tag_lines.cpp - hash_table/line.hpp for another processor than the tests' own: its vectors against the scalar path,
// and both against a plain loop. Run by an emulator; exits with 0 if all agree.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "holdfast/hash_table/line.hpp"

#if !defined(HOLDFAST_HASH_TABLE_VECTOR)
#error "the scalar path was compiled, and nothing is left to compare it with"
#endif

namespace {

using namespace holdfast;

std::uint64_t state = 1;
std::uint64_t next() {
    std::uint64_t x = state += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

alignas(64) std::byte line[64];

bool agree(std::uint16_t wanted) {
    std::uint16_t lanes[32];
    std::memcpy(lanes, line, sizeof line);
    std::uint32_t expected = 0;
    for (unsigned place = 0; place < layout::tags_per_line; ++place)
        expected |= (lanes[6 + place] == wanted ? 1U : 0U) << place;
    const std::uint32_t scalar = detail::match_tags<detail::tag_match::scalar>(line, wanted);
    const std::uint32_t best = detail::match_tags<detail::tag_match::best>(line, wanted);
    if (scalar == expected && best == expected) return true;
    std::printf("tag %04x: %08x expected, scalar %08x, vectors %08x\n", unsigned{wanted}, expected, scalar, best);
    return false;
}

}  // namespace

int main() {
    unsigned wrong = 0;
    for (unsigned round = 0; round < 200'000 && wrong < 10; ++round) {
        const auto wanted = static_cast<std::uint16_t>(round < 65'536 ? round : next());
        std::uint16_t lanes[32];
        for (std::uint16_t& lane : lanes) {
            // Near misses are where a carry between lanes would show.
            const std::uint64_t random = next();
            switch (random % 6) {
                case 0: lane = wanted; break;
                case 1: lane = static_cast<std::uint16_t>(wanted ^ (1U << (random >> 8) % 16)); break;
                case 2: lane = static_cast<std::uint16_t>(wanted + 1); break;
                case 3: lane = 0; break;
                default: lane = static_cast<std::uint16_t>(random >> 16);
            }
        }
        std::memcpy(line, lanes, sizeof line);
        wrong += agree(wanted) ? 0 : 1;
        for (unsigned group = 0; group < 16; ++group) {
            const bool none = detail::counter_of(line, group) == 0;
            if (detail::nothing_went_past(line, std::uint64_t{group} << 16 | wanted) == none) continue;
            std::printf("counter %u of 16 is misread\n", group);
            ++wrong;
        }
    }
    return wrong == 0 ? 0 : 1;
}
