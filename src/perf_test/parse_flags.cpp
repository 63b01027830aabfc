// SPDX-License-Identifier: Apache-2.0
// parse_flags.cpp - finds our flags among the arguments, and the slips among the rest.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/options.hpp"

namespace holdfast::perf_test {
namespace {

using holdfast::detail::printable;

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other; words are short.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) {
        for (std::size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[a.size()][b.size()];
}

struct guess {
    std::string_view name;
    std::size_t distance = 0;
};

guess nearest(std::string_view name) {
    guess best{.name = {}, .distance = ~std::size_t{0}};
    constexpr std::size_t longest = 64;  // nothing longer is a slip of ours
    if (name.size() > longest) return best;
    for (const flag& one : flag_table()) {
        const std::size_t away = distance(name, one.name);
        if (away < best.distance) best = {one.name, away};
    }
    return best;
}

std::string did_you_mean(const guess& near) {
    if (near.distance > 2) return "; --perf_help shows the flags there are";
    return std::string("; did you mean -").append(near.name).append("?");
}

bool is_number(std::string_view name) {
    return !name.empty() && (std::isdigit(static_cast<unsigned char>(name[0])) != 0);
}

// Whether the flag's value is the next argument. One that may be left out is a number: what begins as one is it.
bool takes_next(const flag& one, const std::vector<std::string>& arguments, std::size_t at) {
    if (one.value.empty()) return false;
    const bool optional = one.value.starts_with('[');
    if (at + 1 < arguments.size()) return !optional || is_number(arguments[at + 1]);
    if (optional) return false;
    throw usage_error(
        std::string("-").append(one.name).append(" wants a value: -").append(one.name).append("=").append(one.value));
}

// Throws for an argument that is surely or, where nobody else may have flags, by elimination a slip.
void judge_unknown(std::string_view argument, std::string_view name, unknown_arguments unknown) {
    if (name.starts_with("gtest_") || name.starts_with("gmock_") || name == "help" || name == "h" || name == "?")
        return;
    const guess near = nearest(name);
    constexpr std::size_t long_name = 6;
    const bool slip = name.starts_with("perf_") || (name.size() >= long_name && near.distance <= 1);
    if (slip || unknown == unknown_arguments::refuse) {
        throw usage_error("unknown flag " + printable(argument) + did_you_mean(near));
    }
}

const flag* find_flag(std::string_view name) {
    const auto table = flag_table();
    const auto found = std::find_if(table.begin(), table.end(), [&](const flag& one) { return one.name == name; });
    return found == table.end() ? nullptr : &*found;
}

void take(const flag& one, flag_values& values, std::string_view text) {
    try {
        one.take(values, text);
    } catch (const usage_error& wrong) {
        throw usage_error("-" + std::string(one.name) + ": " + printable(wrong.what()));
    }
    ++values.flags_given;
}

}  // namespace

flag_values parse_flags(std::vector<std::string>& arguments, unknown_arguments unknown) {
    flag_values values;
    std::vector<std::string> kept;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        const std::string_view argument = arguments[at];
        if (argument == "--") {  // the rest is not for us
            kept.insert(kept.end(), arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
            break;
        }
        const std::size_t dashes = argument.starts_with("--") ? 2 : argument.starts_with("-") ? 1 : 0;
        const std::size_t equals = std::min(argument.find('='), argument.size());
        const std::string_view name = argument.substr(dashes, equals - dashes);
        if (at == 0 || dashes == 0 || name.empty() || is_number(name)) {
            kept.emplace_back(argument);
            continue;
        }
        const flag* one = find_flag(name);
        if (one == nullptr) {
            judge_unknown(argument, name, unknown);
            kept.emplace_back(argument);
            continue;
        }
        const bool has_value = equals < argument.size();
        std::string_view text = has_value ? argument.substr(equals + 1) : std::string_view();
        if (one->value.empty() && has_value) throw usage_error("-" + std::string(name) + " takes no value");
        if (!has_value && takes_next(*one, arguments, at)) text = arguments[++at];
        take(*one, values, text);
    }
    arguments = std::move(kept);
    return values;
}

flag_values parse_flags(int& argc, char** argv, unknown_arguments unknown) {
    std::vector<std::string> arguments(argv, argv + argc);
    flag_values values = parse_flags(arguments, unknown);
    // What is left is a subsequence: each kept argument is the next pointer with that text.
    int kept = 0;
    for (int at = 0; at < argc && static_cast<std::size_t>(kept) < arguments.size(); ++at) {
        if (arguments[static_cast<std::size_t>(kept)] == argv[at]) argv[kept++] = argv[at];
    }
    if (kept < argc) argv[kept] = nullptr;
    argc = kept;
    return values;
}

void check_outputs(const output_options& output) {
    for (const auto* file : {&output.json, &output.csv, &output.html}) {
        if (file->empty()) continue;
        int made = ::open(file->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (made >= 0) {
            ::unlink(file->c_str());  // it was there for the question alone
        } else if (errno == EEXIST) {
            made = ::open(file->c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
        }
        if (made < 0) throw usage_error(printable(*file) + " cannot be written: " + std::strerror(errno));
        ::close(made);
    }
    if (!output.baseline.empty()) {
        const int read = ::open(output.baseline.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (read < 0)
            throw usage_error("the baseline " + printable(output.baseline) +
                              " cannot be read: " + std::strerror(errno));
        ::close(read);
    }
    if (output.fail_on_regression && output.baseline.empty()) {
        throw usage_error("--perf_fail_on_regression needs --perf_baseline=FILE to compare with");
    }
}

}  // namespace holdfast::perf_test
