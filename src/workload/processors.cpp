// SPDX-License-Identifier: Apache-2.0
#include "workload/processors.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>
#include <tuple>

#include "holdfast/perf_test/environment.hpp"

namespace holdfast::workload {

namespace {

[[nodiscard]] std::filesystem::path folder_of(unsigned cpu, const std::filesystem::path& folder) {
    return folder / ("cpu" + std::to_string(cpu));
}

/// A processor's folder has an entry for its node, called nodeN.
[[nodiscard]] unsigned node_of(const std::filesystem::path& cpu) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(cpu, none)) {
        const std::string name = entry.path().filename().string();
        unsigned node = 0;
        if (!name.starts_with("node")) continue;
        const char* const end = name.data() + name.size();
        if (const auto [at, failed] = std::from_chars(name.data() + 4, end, node); failed == std::errc{} && at == end)
            return node;
    }
    return 0;
}

}  // namespace

std::vector<unsigned> core_siblings(unsigned cpu, const std::filesystem::path& folder) {
    std::ifstream file(folder_of(cpu, folder) / "topology" / "thread_siblings_list");  // "0", "0-1" or "0,32"
    std::vector<unsigned> all;
    for (unsigned from = 0; file >> from;) {
        unsigned to = from;
        if (file.peek() == '-') file.ignore() >> to;
        for (; from <= to; ++from) all.push_back(from);
        file.ignore();
    }
    return all;
}

std::vector<processor> placed_processors(std::span<const unsigned> usable, const std::filesystem::path& folder) {
    std::vector<processor> all;
    for (const unsigned cpu : usable) {
        const std::vector<unsigned> siblings = core_siblings(cpu, folder);
        const bool shares = std::ranges::any_of(
            siblings, [&](unsigned other) { return other < cpu && std::ranges::find(usable, other) != usable.end(); });
        all.push_back({cpu, node_of(folder_of(cpu, folder)), shares});
    }
    std::ranges::sort(all, {}, [](const processor& one) { return std::tuple(one.shares_core, one.node, one.cpu); });
    return all;
}

std::vector<processor> placed_processors() {
    return placed_processors(perf_test::usable_cpus(), "/sys/devices/system/cpu");
}

std::vector<processor> with_a_core_each(std::span<const processor> placed) {
    std::vector<processor> cores;
    std::ranges::copy_if(placed, std::back_inserter(cores), [](const processor& one) { return !one.shares_core; });
    return cores;
}

std::string nodes_text(std::span<const processor> cores) {
    std::map<unsigned, std::size_t> counts;
    for (const processor& one : cores) ++counts[one.node];
    std::string text;
    for (const auto& [node, count] : counts) {
        const bool first = text.empty();
        text += (first ? "" : ", ") + std::to_string(count) +
                (!first       ? ""
                 : count == 1 ? " core"
                              : " cores") +
                " of node " + std::to_string(node);
    }
    return text;
}

}  // namespace holdfast::workload
