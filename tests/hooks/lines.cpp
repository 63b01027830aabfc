// SPDX-License-Identifier: Apache-2.0
// lines.cpp - from an address in this program to the line it was compiled from, by addr2line.
#include "hooks/lines.hpp"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <sstream>

extern "C" const char __executable_start;

namespace holdfast::test {

std::map<const void*, std::string> lines_of(const std::set<const void*>& addresses) {
    std::map<const void*, std::string> lines;
    char program[4096];
    const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program - 1);
    std::ostringstream command;
    command << "addr2line -a -i -e '" << std::string(program, static_cast<std::size_t>(length > 0 ? length : 0)) << "'"
            << std::hex;
    std::map<std::uintptr_t, const void*> by_offset;
    for (const void* const each : addresses) {
        // In front of the return address lies the call.
        const std::uintptr_t offset =
            reinterpret_cast<std::uintptr_t>(each) - 1 - reinterpret_cast<std::uintptr_t>(&__executable_start);
        by_offset[offset] = each;
        lines.try_emplace(each, std::size_t{1}, '?');
        command << " 0x" << offset;
    }
    FILE* const answer = ::popen(command.str().c_str(), "r");
    if (answer == nullptr) return lines;
    char line[4096];
    const void* address = nullptr;
    while (std::fgets(line, sizeof line, answer) != nullptr) {
        std::string text(line);
        if (text.rfind("0x", 0) == 0) {
            address = by_offset[std::stoull(text, nullptr, 16)];
            continue;
        }
        const std::size_t at = text.find("include/holdfast/");
        if (at == std::string::npos) continue;
        text = text.substr(at + 17);
        text = text.substr(0, text.find_first_of(" \n"));
        // A helper that was not put in place stands for itself.
        const bool helper = text.starts_with("detail/");
        if (lines[address] == "?" || (!helper && lines[address].starts_with("detail/"))) lines[address] = text;
    }
    ::pclose(answer);
    return lines;
}

}  // namespace holdfast::test
