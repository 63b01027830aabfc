// SPDX-License-Identifier: Apache-2.0
// lines.cpp - from an address in this program to the line it was compiled from, by addr2line, and what stands there.
#include "hooks/lines.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <regex>
#include <sstream>
#include <vector>

extern "C" const char __executable_start;

namespace holdfast::test {

namespace {

// A source file, read just well enough for code that clang-format laid out.
class source {
 public:
    explicit source(const std::string& path) {
        std::ifstream file(path);
        for (std::string line; std::getline(file, line);) lines_.push_back(line);
    }
    /// "FUNCTION | TEXT" of a line, counted from 1. Empty when there is no such line.
    [[nodiscard]] std::string place(std::size_t number) const {
        if (number == 0 || number > lines_.size()) return {};
        const std::size_t at = number - 1;
        const std::size_t begin = function_around(at);
        unsigned count = 1;
        for (std::size_t i = begin; i < at; ++i) count += text(i) == text(at) ? 1U : 0U;
        return name(begin) + (count == 1 ? "" : " (" + std::to_string(count) + ")") + " | " + text(at);
    }

 private:
    [[nodiscard]] static std::size_t indentation(const std::string& line) { return line.find_first_not_of(' '); }
    [[nodiscard]] std::string text(std::size_t at) const {
        const std::size_t begin = indentation(lines_[at]);
        if (begin == std::string::npos) return {};
        std::string code = lines_[at].substr(begin);
        code.erase(std::min(code.find("//"), code.size()));
        return code.erase(code.find_last_not_of(' ') + 1);
    }
    // What stands from here to the first brace or semicolon, that included.
    [[nodiscard]] std::string head(std::size_t at) const {
        std::string all;
        for (; at < lines_.size(); ++at) {
            all += text(at) + ' ';
            if (const std::size_t end = all.find_first_of("{;"); end != std::string::npos)
                return all.substr(0, end + 1);
        }
        return all;
    }
    // Of the function whose head begins in this line; empty: none does.
    [[nodiscard]] std::string name(std::size_t at) const {
        static const std::regex function(
            R"(^(?:\[\[[^\]]*\]\] ?)*(?:[A-Za-z_][\w:<>,*& ]*[ *&])?(?:\w+::)*(operator[^ (]*|~?\w+)\(.*\{$)");
        static const std::regex other(
            R"(^(?:if|for|while|switch|do|else|return|case|catch|try|class|struct)\b|\[[&=]|\[\w*\] ?[({])");
        const std::string code = head(at);
        std::smatch found;
        return !std::regex_search(code, other) && std::regex_search(code, found, function) ? found[1].str() : "";
    }
    // Outwards: each step goes up to a line that is indented less.
    [[nodiscard]] std::size_t function_around(std::size_t at) const {
        std::size_t inner = indentation(lines_[at]) + 1;
        for (std::size_t i = at + 1; i-- > 0;) {
            const std::size_t here = indentation(lines_[i]);
            if (here == std::string::npos || here >= inner || text(i).empty() || text(i)[0] == '#') continue;
            if (!name(i).empty()) return i;
            inner = here;
        }
        return at;
    }

    std::vector<std::string> lines_;
};

// Of "FOLDER/include/holdfast/FILE:LINE". The folder is not asked: an object that ccache kept may name another clone's,
// where the file is another by now.
[[nodiscard]] std::string place_of(const std::string& where) {
    static const std::string headers = HOLDFAST_HEADERS;
    static const std::string folder = "include/holdfast/";
    const std::size_t colon = where.rfind(':');
    const std::size_t begin = where.find(folder) + folder.size();
    const std::string file = where.substr(begin, colon - begin);
    const std::string place = source(headers + "/" + file).place(std::stoul(where.substr(colon + 1)));
    return file + " " + (place.empty() ? "? | ?" : place);
}

}  // namespace

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
        if (text.find("include/holdfast/") == std::string::npos) continue;
        text = text.substr(0, text.find_first_of(" \n"));
        // A helper that was not put in place stands for itself.
        const auto helper = [](const std::string& path) { return path.find("holdfast/detail/") != std::string::npos; };
        if (lines[address] == "?" || (!helper(text) && helper(lines[address]))) lines[address] = text;
    }
    ::pclose(answer);
    std::map<std::string, std::string> places{{"?", "?"}};
    for (auto& [each, where] : lines) {
        if (!places.contains(where)) places[where] = place_of(where);
        where = places[where];
    }
    return lines;
}

}  // namespace holdfast::test
