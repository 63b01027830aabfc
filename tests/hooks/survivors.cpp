// SPDX-License-Identifier: Apache-2.0
#include "hooks/survivors.hpp"

#include <cstddef>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace holdfast::test {

namespace {

constexpr const char* between = " | ";

}  // namespace

std::string survivors_list() {
    std::ifstream file(HOLDFAST_SURVIVORS);
    if (!file) throw std::runtime_error(std::string(HOLDFAST_SURVIVORS) + " cannot be read");
    return {std::istreambuf_iterator<char>(file), {}};
}

order_reasons reasons_in(const std::string& list, const std::string& container) {
    order_reasons reasons;
    std::istringstream lines(list);
    for (std::string line; std::getline(lines, line);) {
        if (line.empty() || line.starts_with("#")) continue;
        const std::size_t letter = line.find(between) + 3;
        if (letter == std::string::npos + 3 || letter + 4 > line.size() || line.substr(letter + 1, 3) != between ||
            line[letter] < 'A' || line[letter] > 'H')
            throw std::runtime_error("not CONTAINER | LETTER A to H | FILE FUNCTION | TEXT | ORDER: " + line);
        if (line.substr(0, letter - 3) == container) reasons[line.substr(letter + 4)] = line[letter];
    }
    return reasons;
}

std::vector<std::string> contradictions(const std::string& container, const order_reasons& reasons,
                                        const std::set<std::string>& survived, const std::set<std::string>& caught) {
    std::vector<std::string> found;
    for (const std::string& order : survived)
        if (!reasons.contains(order))
            found.push_back("relaxed, this order fails no execution, and no reason says why: " + order +
                            "; let a test show it, or put '" + container + between + "LETTER" + between + order +
                            "' into tests/hooks/survivors.txt with the reason's letter (docs/memory-orders.md)");
    for (const auto& [order, letter] : reasons) {
        if (survived.contains(order) || letter == "F") continue;  // F: by chance
        if (caught.contains(order))
            found.push_back("relaxed, this order fails now: " + order + "; take its line for " + container +
                            " out of tests/hooks/survivors.txt");
        else
            found.push_back("no process passes this order: " + order + "; correct its line for " + container +
                            " in tests/hooks/survivors.txt after the source, or take it out if the order has gone");
    }
    return found;
}

std::string order_row(const std::string& container, const std::string& order, const std::string& became,
                      unsigned long long executions) {
    const std::size_t text = order.find(between), kind = order.rfind(between);
    std::string row = "| " + container + between + order.substr(0, text);
    if (text != std::string::npos && kind > text) {
        row += std::string(between) + "`";
        // A table's own mark is escaped, in code too.
        for (const char each : order.substr(text + 3, kind - text - 3))
            row += each == '|' ? "\\|" : std::string(1, each);
        row += std::string("`") + between + order.substr(kind + 3);
    } else {
        row += " | | ";
    }
    return row + between + became + between + std::to_string(executions) + " |";
}

}  // namespace holdfast::test
