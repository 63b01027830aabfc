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

/// Of a list such as "0-3,8": nothing where there is no such file.
[[nodiscard]] std::vector<unsigned> numbers_in(const std::filesystem::path& list) {
    std::ifstream file(list);
    std::vector<unsigned> all;
    for (unsigned from = 0; file >> from;) {
        unsigned to = from;
        if (file.peek() == '-') file.ignore() >> to;
        for (; from <= to; ++from) all.push_back(from);
        file.ignore();
    }
    return all;
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

std::vector<processor> placed_processors(std::span<const unsigned> usable, const std::filesystem::path& folder) {
    std::vector<processor> all;
    for (const unsigned cpu : usable) {
        const std::filesystem::path own = folder / ("cpu" + std::to_string(cpu));
        const std::vector<unsigned> siblings = numbers_in(own / "topology" / "thread_siblings_list");
        const bool shares = std::ranges::any_of(
            siblings, [&](unsigned other) { return other < cpu && std::ranges::find(usable, other) != usable.end(); });
        all.push_back({cpu, node_of(own), shares});
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
