// SPDX-License-Identifier: Apache-2.0
// baseline.cpp - runs read back from files of somebody else's: nothing in them is used before it has been checked.
#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/output.hpp"
#include "perf_test/json_reader.hpp"

namespace holdfast::perf_test {

namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
    throw usage_error(std::string("the baseline ").append(detail::printable(file)).append(" ").append(why));
}

/// The .json files of a folder in the order of their names; of anything else, itself.
[[nodiscard]] std::vector<std::string> files_of(const std::string& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return {path};
    std::vector<std::string> files;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
    if (!folder) refuse(path, "cannot be listed; check its rights");
    while (const dirent* const entry = ::readdir(folder.get()))
        if (const std::string_view name = entry->d_name; name.ends_with(".json"))
            files.push_back(std::string(path).append("/").append(name));
    if (files.empty()) refuse(path, "holds no .json file; fill it with --perf_json=FOLDER/NAME.json");
    std::sort(files.begin(), files.end());
    return files;
}

/// What compare_runs uses of a summary, checked; nothing for a test without numbers.
[[nodiscard]] bool take_summary(const json_value& from, summary& into) {
    const json_value* const time = from.find("time");
    if (time == nullptr) return false;
    const auto count = time->number("count"), median = time->number("median");
    if (!count || !median || !(*count >= 1) || *count > 1e15 || !std::isfinite(*median) || !(*median > 0)) return false;
    into.count = static_cast<std::size_t>(*count);
    into.median = *median;
    into.median_95 = {*median, *median};
    if (const json_value* const range = time->find("median_95")) {
        const auto low = range->number("low"), high = range->number("high");
        if (low && high && *low > 0 && *low <= *median && *high >= *median && std::isfinite(*high))
            into.median_95 = {*low, *high};
    }
    return true;
}

}  // namespace

baseline::baseline(const std::string& path, const environment& here) {
    const std::string identity = identity_of(here);
    for (const std::string& file : files_of(path)) read(file, identity);
}

void baseline::read(const std::string& file, const std::string& identity) {
    json_value root;
    try {
        root = read_json_file(file);
    } catch (const error& failure) {
        throw usage_error(std::string("the baseline cannot be read: ").append(failure.what()));
    }
    if (root.text("schema") != "holdfast-perf_test") refuse(file, "was not written by --perf_json");
    const auto version = root.number("schema_version");
    if (!version || *version != json_schema_version)
        refuse(file, "is written in another version of the format; write it anew with --perf_json");
    const json_value* const where = root.find("environment");
    const auto there = where == nullptr ? std::nullopt : where->text("identity");
    if (!there) refuse(file, "does not say which machine it is from; write it anew with --perf_json");
    if (*there != identity)
        refuse(file, std::string("is of another machine or build (")
                         .append(detail::printable(*there))
                         .append("; this is ")
                         .append(identity)
                         .append("): times of different machines say nothing about the code; measure it here"));
    const json_value::array* const results = root.elements("results");
    if (results == nullptr) refuse(file, "has no list of results; write it anew with --perf_json");
    for (const json_value& one : *results) {
        if (one.number("pass").value_or(1) > 1) continue;  // of the same process: no run of its own
        const auto name = one.text("full_name");
        summary numbers;
        if (name && take_summary(one, numbers)) runs_.emplace_back(*name, numbers);
    }
}

std::vector<summary> baseline::runs_of(const std::string& full_name) const {
    std::vector<summary> found;
    for (const auto& [name, numbers] : runs_)
        if (name == full_name) found.push_back(numbers);
    return found;
}

}  // namespace holdfast::perf_test
