// SPDX-License-Identifier: Apache-2.0
#include "workload/connections/memory_use.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace holdfast::workload::connections {

namespace {

constexpr std::size_t kinds_shown = 6;

std::uint64_t page_bytes() noexcept { return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

std::uint64_t user_bytes(const std::vector<pid_t>& processes) {
    std::uint64_t sum = 0;
    for (const pid_t pid : processes) {
        const std::string path = "/proc/" + std::to_string(pid) + "/smaps_rollup";
        std::ifstream file(path);
        bool found = false;
        for (std::string line; !found && std::getline(file, line);) {
            std::istringstream words(line);
            std::string name;
            std::uint64_t kilobytes = 0;
            found = words >> name >> kilobytes && name == "Pss:";
            if (found) sum += kilobytes * 1024;
        }
        if (!found)
            throw std::runtime_error(path + " tells no Pss: the process has ended, or the kernel keeps it back");
    }
    return sum;
}

kernel_bytes kernel_bytes_now() {
    kernel_bytes now;
    std::ifstream all("/proc/meminfo");
    for (std::string line; std::getline(all, line);) {
        std::istringstream words(line);
        std::string name;
        std::uint64_t kilobytes = 0;
        words >> name >> kilobytes;
        if (name == "Slab:") now.slab = kilobytes * 1024;
        if (name == "KernelStack:" || name == "PageTables:") now.processes += kilobytes * 1024;
    }
    if (now.slab == 0) throw std::runtime_error("/proc/meminfo tells no Slab: the kernel's memory cannot be measured");
    std::ifstream sockets("/proc/net/sockstat");
    for (std::string line; std::getline(sockets, line);) {
        if (!line.starts_with("TCP:")) continue;
        std::istringstream words(line.substr(4));
        std::string name;
        for (std::uint64_t value = 0; words >> name >> value;)
            if (name == "mem") now.socket_data = value * page_bytes();
    }
    return now;
}

std::map<std::string, std::uint64_t> slab_bytes() {
    std::map<std::string, std::uint64_t> all;
    std::ifstream file("/proc/slabinfo");
    for (std::string line; std::getline(file, line);) {
        // name <active> <objects> <size> <objects a slab> <pages a slab> : tunables ... : slabdata <active> <slabs> ...
        std::istringstream words(line);
        std::string name, skipped;
        std::uint64_t pages = 0, slabs = 0;
        words >> name >> skipped >> skipped >> skipped >> skipped >> pages;
        const std::size_t data = line.find("slabdata");
        if (!words || data == std::string::npos) continue;  // one of the two lines on top
        std::istringstream rest(line.substr(data));
        if (rest >> skipped >> skipped >> slabs) all[name] = slabs * pages * page_bytes();
    }
    return all;
}

std::string growth_text(const std::map<std::string, std::uint64_t>& before,
                        const std::map<std::string, std::uint64_t>& after, std::uint64_t count) {
    std::vector<std::pair<std::uint64_t, std::string>> grown;
    for (const auto& [name, bytes] : after) {
        const auto old = before.find(name);
        const std::uint64_t had = old == before.end() ? 0 : old->second;
        if (bytes > had && count != 0 && (bytes - had) / count != 0) grown.emplace_back((bytes - had) / count, name);
    }
    std::ranges::sort(grown, std::greater<>());
    std::string text;
    for (std::size_t i = 0; i < std::min(grown.size(), kinds_shown); ++i)
        text.append(i == 0 ? "" : ", ").append(grown[i].second).append(" ").append(std::to_string(grown[i].first));
    return text;
}

std::uint64_t processor_ns(const std::vector<pid_t>& processes) {
    std::uint64_t sum = 0;
    for (const pid_t pid : processes) {
        clockid_t clock{};
        timespec used{};
        if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0)
            throw std::runtime_error("process " + std::to_string(pid) + " of the run has ended");
        sum += static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(used.tv_nsec);
    }
    return sum;
}

}  // namespace holdfast::workload::connections
