// SPDX-License-Identifier: Apache-2.0
#include "workload/segment_suite.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "workload/room.hpp"
#include "workload/run_names.hpp"
#include "workload/segment_own.hpp"

namespace holdfast::workload {

namespace {

constexpr std::uint64_t kibibyte = 1024;
constexpr std::uint64_t sizes[] = {64 * kibibyte, 4096 * kibibyte, 262'144 * kibibyte};
constexpr std::size_t quick_sizes = 2;

[[nodiscard]] std::string bytes_text(std::uint64_t bytes) {
    const std::uint64_t mebibytes = bytes / (kibibyte * kibibyte);
    return mebibytes > 0 ? std::to_string(mebibytes) + " MiB" : std::to_string(bytes / kibibyte) + " KiB";
}

class segment_size {
 public:
    segment_size(const std::vector<segment_kind>& kinds, std::uint64_t bytes, std::optional<run_names>& names,
                 recorder& to)
        : kinds_(kinds), bytes_(bytes), names_(names), to_(to) {}

    void run() {
        measure("make and remove", &segment_subject::create_and_remove, false);
        measure("attach, read a word, detach", &segment_subject::attach, true);
    }

 private:
    void measure(const char* title, void (segment_subject::*loop)(std::uint64_t), bool there) {
        experiment e;
        e.name = std::string(title) + ", " + bytes_text(bytes_);
        if (!to_.wants(e.name)) return;
        if (!names_) names_.emplace("segment");
        std::vector<std::unique_ptr<segment_subject>> segments;
        for (const segment_kind& kind : kinds_) {
            const auto& only = to_.options().only;
            const bool ours = &kind == &kinds_.front();
            if (!ours && !only.empty() && std::find(only.begin(), only.end(), kind.name) == only.end()) continue;
            segments.push_back(kind.make(names_->prefix() + "-" + std::to_string(segments.size()), bytes_));
            segment_subject* const s = segments.back().get();
            s->create();  // verified once before anything is timed
            s->attach(1);
            if (!there) s->remove();
            e.subjects.push_back({kind.name, [s, loop](std::uint64_t operations) { (s->*loop)(operations); }, {}, 0});
        }
        to_.run(e);
    }

    const std::vector<segment_kind>& kinds_;
    const std::uint64_t bytes_;
    std::optional<run_names>& names_;
    recorder& to_;
};

}  // namespace

std::vector<segment_kind> own_segment_kinds() {
    return {segment_kind_of<own_segment>(), segment_kind_of<bare_segment<true>>(),
            segment_kind_of<bare_segment<false>>()};
}

suite segment_suite(std::vector<segment_kind> kinds) {
    suite s;
    s.name = "segment";
    s.description = "named shared memory of 64 KiB to 256 MiB: made and removed, attached to by name";
    s.run = [kinds = std::move(kinds)](recorder& to) {
        for (const segment_kind& kind : kinds) to.version(kind.name, kind.version);
        std::optional<run_names> names;  // once something is made
        const std::size_t count = to.options().quick ? quick_sizes : std::size(sizes);
        for (std::size_t i = 0; i < count; ++i) {
            // The pages of all subjects are there at once, and as much again is left to everybody else.
            const std::uint64_t all = kinds.size() * sizes[i];
            if (const std::string lacking = lacking_room({.memory_bytes = 2 * all, .shared_bytes = all});
                !lacking.empty()) {
                to.skip("segments of " + bytes_text(sizes[i]), lacking);
                continue;
            }
            segment_size(kinds, sizes[i], names, to).run();
        }
    };
    return s;
}

}  // namespace holdfast::workload
