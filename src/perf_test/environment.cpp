// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/environment.hpp"

#include <pthread.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>

#include "holdfast/detail/concat.hpp"
#include "holdfast/error.hpp"
#include "holdfast/perf_test/clock.hpp"

namespace holdfast::perf_test {

namespace {

constexpr std::size_t bytes_max = 1U << 20;

// What a file begins with; empty if it cannot be read.
std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string out(bytes_max, '\0');
    file.read(out.data(), static_cast<std::streamsize>(out.size()));
    out.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
    return out;
}

std::string first_word(const std::string& text) {
    std::istringstream words(text);
    std::string out;
    words >> out;
    return out;
}

// The value of the first line "name : value".
std::string value_of(const std::string& text, const std::string& name) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos || line.compare(0, name.size(), name) != 0) continue;
        if (line.find_first_not_of(" \t", name.size()) != colon) continue;
        const std::size_t from = line.find_first_not_of(" \t", colon + 1);
        return from == std::string::npos ? std::string() : line.substr(from);
    }
    return {};
}

std::string on_or_off(const std::string& word) {
    return word == "1" || word == "on" ? "on" : word.empty() ? "" : "off";
}

double number_or(const std::string& word, double otherwise) {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    return !word.empty() && *end == '\0' && value >= 0 && value < 1e6 ? value : otherwise;
}

double steal_share(const std::string& stat) {
    std::istringstream fields(stat);
    std::string name;
    fields >> name;
    double total = 0, value = 0, steal = -1;
    for (int i = 0; i < 8 && fields >> value; ++i) {  // guest times, which follow, are part of user time
        total += value;
        if (i == 7) steal = value;
    }
    return name == "cpu" && steal >= 0 && total > 0 ? steal / total : -1;
}

std::string boost_of(const std::string& sys) {
    const std::string boost = first_word(contents(sys + "devices/system/cpu/cpufreq/boost"));
    if (!boost.empty()) return on_or_off(boost);
    const std::string no_turbo = first_word(contents(sys + "devices/system/cpu/intel_pstate/no_turbo"));
    return no_turbo.empty() ? "" : no_turbo == "0" ? "on" : "off";
}

std::string virtualisation_of(const std::string& root, const std::string& cpuinfo) {
    std::string out;
    if (holdfast::detail::concat(" ", value_of(cpuinfo, "flags"), " ").find(" hypervisor ") != std::string::npos)
        out = "hypervisor";
    struct stat mark{};
    const std::string cgroup = contents(root + "proc/1/cgroup");
    if (::stat((root + ".dockerenv").c_str(), &mark) == 0 || ::stat((root + "run/.containerenv").c_str(), &mark) == 0 ||
        cgroup.find("docker") != std::string::npos || cgroup.find("kubepods") != std::string::npos)
        out += out.empty() ? "container" : ", container";
    return out;
}

std::string address_layout(const std::string& root) {
    constexpr unsigned long ask = 0xffffffffU;
    const int persona = ::personality(ask);
    if (persona >= 0 && (static_cast<unsigned>(persona) & ADDR_NO_RANDOMIZE) != 0) return "fixed";
    const std::string space = first_word(contents(root + "proc/sys/kernel/randomize_va_space"));
    return space.empty() ? "" : space == "0" ? "fixed" : "random";
}

bool is_revision(const std::string& text) {
    return (text.size() == 40 || text.size() == 64) && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string percent_text(const char* pattern, double value) {
    char text[300];
    std::snprintf(text, sizeof text, pattern, value);
    return text;
}

}  // namespace

std::string git_revision(const std::string& repository) {
    std::string folder = repository + "/.git";
    // A linked working tree has a file there that names its folder; what all of them share lies in "commondir".
    if (const std::string link = contents(folder); link.compare(0, 8, "gitdir: ") == 0) {
        folder = first_word(link.substr(8));
        if (!folder.empty() && folder[0] != '/') folder = repository + "/" + folder;
    }
    const std::string head = contents(folder + "/HEAD");
    if (head.compare(0, 5, "ref: ") != 0) return is_revision(first_word(head)) ? first_word(head) : std::string();
    const std::string reference = first_word(head.substr(5));
    if (reference.find("..") != std::string::npos) return {};
    std::vector<std::string> places{folder};
    if (const std::string common = first_word(contents(folder + "/commondir")); !common.empty())
        places.push_back(common[0] == '/' ? common : folder + "/" + common);
    for (const std::string& place : places) {
        if (const std::string commit = first_word(contents(place + "/" + reference)); is_revision(commit))
            return commit;
        std::istringstream packed(contents(place + "/packed-refs"));
        for (std::string line; std::getline(packed, line);) {
            const std::size_t space = line.find(' ');
            if (space != std::string::npos && line.substr(space + 1) == reference && is_revision(line.substr(0, space)))
                return line.substr(0, space);
        }
    }
    return {};
}

std::string repository_above(const std::string& folder) {
    for (std::string at = folder; !at.empty() && at.front() == '/';) {
        struct stat mark{};
        if (::stat((at + "/.git").c_str(), &mark) == 0) return at;
        at.resize(at.find_last_of('/'));  // a blank rest is the root, which is no working tree
    }
    return {};
}

std::string repository_of_this_program() {
    for (const char* const place : {"/proc/self/exe", "/proc/self/cwd"}) {
        char path[4096];
        const ssize_t length = ::readlink(place, path, sizeof path);
        if (length <= 0 || static_cast<std::size_t>(length) == sizeof path) continue;
        if (std::string found = repository_above({path, static_cast<std::size_t>(length)}); !found.empty())
            return found;
    }
    return {};
}

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    char text[32];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

environment this_environment(const build_facts& build, const environment_options& options) {
    environment out;
    const std::string root = options.root.empty() || options.root.back() != '/' ? options.root + "/" : options.root;
    const std::string sys = root + "sys/", cpuinfo = contents(root + "proc/cpuinfo");
    out.cpu = value_of(cpuinfo, "model name");
    // Providers give one name to several kinds, of which one takes twice the other's time for memory.
    if (const std::string family = value_of(cpuinfo, "cpu family"); !out.cpu.empty() && !family.empty())
        out.cpu += ", family " + family + ", model " + value_of(cpuinfo, "model");
    if (out.cpu.empty() && !value_of(cpuinfo, "CPU part").empty())  // arm64 has numbers for names
        out.cpu = "implementer " + value_of(cpuinfo, "CPU implementer") + ", part " + value_of(cpuinfo, "CPU part");
    out.cpus_online = static_cast<unsigned>(std::max(0L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    out.cpus_usable = static_cast<unsigned>(usable_cpus().size());
    out.governor = first_word(contents(sys + "devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    out.boost = boost_of(sys);
    out.smt = on_or_off(first_word(contents(sys + "devices/system/cpu/smt/active")));
    const std::string pages = contents(sys + "kernel/mm/transparent_hugepage/enabled");
    if (const std::size_t open = pages.find('['), close = pages.find(']'); open < close && close != std::string::npos)
        out.huge_pages = pages.substr(open + 1, close - open - 1);
    out.address_layout = address_layout(root);
    out.load_average = number_or(first_word(contents(root + "proc/loadavg")), -1);
    out.steal_share = steal_share(contents(root + "proc/stat"));
    out.virtualisation = virtualisation_of(root, cpuinfo);
    utsname system{};
    if (::uname(&system) == 0) {
        out.kernel = std::string(system.sysname) + " " + system.release;
        out.machine = system.machine;
    }
    const long count = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
    if (count > 0 && bytes > 0)
        out.memory_bytes = static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(bytes);
    out.build = build;
    if (!options.repository.empty()) out.revision = git_revision(options.repository);
    out.clock = to_string(tick_clock::get().source());
    return out;
}

std::vector<warning> warnings_of(const environment& e) {
    std::vector<warning> out;
    if (!e.build.optimised)
        out.push_back({"debug-build", "compiled without optimisation: build with -O2 or -O3 before measuring"});
    if (!e.build.sanitizer.empty())
        out.push_back(
            {"sanitizer", "compiled with the " + e.build.sanitizer + " sanitizer: times are several times too long"});
    if (e.build.assertions && e.build.optimised)
        out.push_back({"assertions", "assertions are compiled in: define NDEBUG, unless they ship too"});
    if (!e.governor.empty() && e.governor != "performance")
        out.push_back({"governor", "the CPU's frequency follows the load (governor " + e.governor +
                                       "): cpupower frequency-set -g performance"});
    if (e.boost == "on")
        out.push_back({"boost",
                       "the CPU's frequency depends on heat and on its neighbours (boost is on): compare interleaved, "
                       "or switch it off"});
    if (e.smt == "on")
        out.push_back({"smt",
                       "two threads may share a core: leave every second logical CPU idle, or pin to one with an idle "
                       "sibling (-pin)"});
    if (e.cpus_online > 0 && e.load_average > 0.5 * e.cpus_online)
        out.push_back({"load", percent_text("other work runs here (load average %.1f): stop it, or compare interleaved",
                                            e.load_average)});
    if (e.steal_share > 0.005)
        out.push_back(
            {"steal",
             percent_text("the hypervisor gave %.1f %% of the time since boot to others: prefer instruction counts "
                          "(-count=callgrind) or interleaved comparison",
                          e.steal_share * 100)});
    if (e.virtualisation.find("hypervisor") != std::string::npos)
        out.push_back(
            {"virtual",
             "a virtual machine: neighbours disturb unseen; compare only what was taken in turn or on many days"});
    return out;
}

std::vector<unsigned> usable_cpus() {
    std::vector<unsigned> out;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::pthread_getaffinity_np(::pthread_self(), sizeof set, &set) == 0)
        for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
    return out;
}

cpu_pin::cpu_pin(unsigned cpu) {
    CPU_ZERO(&before_);
    const std::vector<unsigned> usable = usable_cpus();
    if (std::find(usable.begin(), usable.end(), cpu) == usable.end()) {
        std::string list;
        for (const unsigned one : usable) list += holdfast::detail::concat(list.empty() ? "" : ",", one);
        throw error(errc::invalid_argument, holdfast::detail::concat("CPU ", cpu),
                    "is not one that this thread may run on; choose from " + list);
    }
    for (const unsigned one : usable) CPU_SET(one, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (const int failed = ::pthread_setaffinity_np(::pthread_self(), sizeof one, &one); failed != 0)
        throw error(errc_of_errno(failed), "CPU " + std::to_string(cpu), "the system refuses to tie this thread to it");
}

cpu_pin::~cpu_pin() { ::pthread_setaffinity_np(::pthread_self(), sizeof before_, &before_); }

}  // namespace holdfast::perf_test
