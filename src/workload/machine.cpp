// SPDX-License-Identifier: Apache-2.0
#include "workload/machine.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "holdfast/version.hpp"

namespace holdfast::workload {

namespace {

/// The beginning of a file of /proc or /sys; nothing if it cannot be read.
[[nodiscard]] std::string contents(const char* path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "re"), &std::fclose);
    if (!file) return {};
    std::string text(16384, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    return text;
}

[[nodiscard]] std::string_view trimmed(std::string_view text) {
    const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
    while (!text.empty() && blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && blank(text.back())) text.remove_suffix(1);
    return text;
}

/// The value of the first `name : value` line.
[[nodiscard]] std::string value_of(std::string_view text, std::string_view name) {
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        const std::size_t colon = line.find(':');
        if (colon != std::string_view::npos && trimmed(line.substr(0, colon)) == name)
            return std::string(trimmed(line.substr(colon + 1)));
    }
    return {};
}

/// Of `always [madvise] never`: the word in brackets.
[[nodiscard]] std::string chosen_word(std::string_view text) {
    const std::size_t open = text.find('['), close = text.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {};
    return std::string(text.substr(open + 1, close - open - 1));
}

[[nodiscard]] unsigned usable_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<unsigned>(CPU_COUNT(&set));
    const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? static_cast<unsigned>(online) : 0;
}

[[nodiscard]] std::string compiler_text() {
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "g++ " __VERSION__;
#endif
}

[[nodiscard]] bool is_optimised() {
#ifdef __OPTIMIZE__
    return true;
#else
    return false;
#endif
}

[[nodiscard]] bool is_sanitized() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#endif
#endif
    return false;
}

/// Letters and digits of the model in lower case, words apart by hyphens, without what every model says.
[[nodiscard]] std::string short_name(std::string_view cpu, unsigned cpus) {
    std::string out, word;
    const auto finish = [&] {
        if (!word.empty() && word != "r" && word != "tm" && word != "cpu" && word != "processor" && word != "core" &&
            out.size() < 40)
            out += (out.empty() ? "" : "-") + word;
        word.clear();
    };
    for (const char c : cpu.substr(0, cpu.find('@'))) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
            word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        else
            finish();
    }
    finish();
    return (out.empty() ? std::string("unknown") : out) + "-" + std::to_string(cpus) + "cpu";
}

void add_conditions(machine_record& machine, std::string_view cpuinfo) {
    const auto add = [&machine](const char* name, std::string value) {
        if (!value.empty()) machine.conditions.emplace_back(name, std::move(value));
    };
    const std::string load = contents("/proc/loadavg");
    add("load_average", std::string(trimmed(load.substr(0, load.find(' ')))));
    const std::string governor(trimmed(contents("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")));
    add("governor", governor);
    add("huge_pages", chosen_word(contents("/sys/kernel/mm/transparent_hugepage/enabled")));
    add("smt", std::string(trimmed(contents("/sys/devices/system/cpu/smt/active"))) == "1" ? "on" : "");
    const bool virtual_machine = value_of(cpuinfo, "flags").find(" hypervisor") != std::string::npos;
    add("virtual_machine", virtual_machine ? "yes" : "");
    if (!load.empty() && std::strtod(load.c_str(), nullptr) > 0.5 * machine.cpus)
        machine.warnings.push_back("other work was running when the run began: load average " +
                                   load.substr(0, load.find(' ')) + " on " + std::to_string(machine.cpus) +
                                   " processors");
    if (!governor.empty() && governor != "performance")
        machine.warnings.push_back("the processor's frequency follows the load (governor " + governor +
                                   "): cpupower frequency-set -g performance");
    if (virtual_machine) machine.warnings.emplace_back("a virtual machine: its neighbours take time away unseen");
}

}  // namespace

std::string machine_record::identity() const {
    // Memory in whole GiB: a kernel's update moves what it keeps for itself.
    const std::uint64_t gib = (memory_bytes + (1ULL << 29U)) >> 30U;
    return cpu + ", " + std::to_string(cpus) + " processors, " + std::to_string(gib) + " GiB";
}

machine_record this_machine() {
    machine_record machine;
    const std::string cpuinfo = contents("/proc/cpuinfo");
    machine.cpu = value_of(cpuinfo, "model name");
    if (machine.cpu.empty() && !cpuinfo.empty())  // arm64 gives numbers instead of a name
        machine.cpu = "implementer " + value_of(cpuinfo, "CPU implementer") + " part " + value_of(cpuinfo, "CPU part");
    machine.cpus = usable_cpus();
    const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0)
        machine.memory_bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
    struct utsname system{};
    if (::uname(&system) == 0)
        machine.kernel = std::string(system.sysname) + " " + system.release + " " + system.machine;
    machine.compiler = compiler_text();
    machine.build = std::string("holdfast ") + std::string(version_text) +
                    (is_optimised() ? ", optimised" : ", not optimised") + (is_sanitized() ? ", with a sanitizer" : "");
    machine.name = short_name(machine.cpu, machine.cpus);
    add_conditions(machine, cpuinfo);
    if (!is_optimised() || is_sanitized())
        machine.warnings.insert(machine.warnings.begin(),
                                "this build is not the one to measure with: use the preset release");
    return machine;
}

}  // namespace holdfast::workload
