// SPDX-License-Identifier: Apache-2.0
#include "workload/machine.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string_view>

#include "holdfast/perf_test/environment.hpp"
#include "holdfast/version.hpp"

namespace holdfast::workload {

namespace {

/// Letters and digits of the model's name in lower case, words apart by hyphens, without what every model says.
[[nodiscard]] std::string short_name(std::string_view cpu, unsigned cpus) {
    std::string out, word;
    const auto finish = [&] {
        if (!word.empty() && word != "r" && word != "tm" && word != "cpu" && word != "processor" && word != "core" &&
            out.size() < 40)
            out += (out.empty() ? "" : "-") + word;
        word.clear();
    };
    for (const char c : cpu.substr(0, std::min(cpu.find('@'), cpu.find(", family")))) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
            word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        else
            finish();
    }
    finish();
    return (out.empty() ? std::string("unknown") : out) + "-" + std::to_string(cpus) + "cpu";
}

[[nodiscard]] std::string build_text(const perf_test::build_facts& build) {
    std::string out = "holdfast ";
    out.append(version_text).append(build.optimised ? ", optimised" : ", not optimised");
    if (!build.instructions.empty()) out += ", " + build.instructions;
    if (!build.sanitizer.empty()) out += ", with the " + build.sanitizer + " sanitizer";
    return out;
}

void add_conditions(machine_record& machine, const perf_test::environment& where) {
    const auto add = [&machine](const char* name, const std::string& value) {
        if (!value.empty()) machine.conditions.emplace_back(name, value);
    };
    const auto add_number = [&add](const char* name, const char* form, double value) {
        char text[32];
        std::snprintf(text, sizeof text, form, value);
        if (value >= 0) add(name, text);
    };
    add_number("load_average", "%.2f", where.load_average);
    add_number("steal_share", "%.4f", where.steal_share);
    add("governor", where.governor);
    add("boost", where.boost);
    add("smt", where.smt);
    add("huge_pages", where.huge_pages);
    add("address_layout", where.address_layout);
    add("virtualisation", where.virtualisation);
}

}  // namespace

std::string machine_record::identity() const {
    // Memory in whole GiB: a kernel's update moves what it keeps for itself.
    const std::uint64_t gib = (memory_bytes + (1ULL << 29U)) >> 30U;
    return cpu + ", " + std::to_string(cpus) + " processors, " + std::to_string(gib) + " GiB";
}

machine_record this_machine() {
    const perf_test::environment where = perf_test::this_environment(perf_test::this_build());
    machine_record machine;
    machine.cpu = where.cpu;
    machine.cpus = where.cpus_usable;
    machine.memory_bytes = where.memory_bytes;
    machine.kernel = where.kernel + " " + where.machine;
    machine.compiler = where.build.compiler;
    machine.build = build_text(where.build);
    machine.name = short_name(machine.cpu, machine.cpus);
    add_conditions(machine, where);
    for (const perf_test::warning& w : perf_test::warnings_of(where)) machine.warnings.push_back(w.text);
    return machine;
}

}  // namespace holdfast::workload
