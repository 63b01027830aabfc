// SPDX-License-Identifier: Apache-2.0
// baseline.cpp - runs read back from files of somebody else's: nothing in them is used before it has been checked.
#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/output.hpp"
#include "perf_test/json_reader.hpp"

namespace holdfast::perf_test {

namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
    throw usage_error(std::string("the baseline ").append(holdfast::detail::printable(file)).append(" ").append(why));
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

/// A time that can be compared, with its interval where that holds it.
[[nodiscard]] bool take_time(double middle, std::optional<double> low, std::optional<double> high, interval& range) {
    if (!(middle > 0) || !std::isfinite(middle)) return false;
    const bool holds = low && high && *low > 0 && *low <= middle && *high >= middle && std::isfinite(*high);
    range = holds ? interval{*low, *high} : interval{middle, middle};
    return true;
}

/// A count of calls, samples or workers; 0 for what is none.
[[nodiscard]] std::uint64_t count_of(const json_value& from, std::string_view name) {
    const auto count = from.number(name);
    return count && *count >= 1 && *count <= 1e15 ? static_cast<std::uint64_t>(*count) : 0;
}

/// What compare_runs uses of a summary. Without numbers its count is 0.
[[nodiscard]] summary summary_of(const json_value* from) {
    summary out;
    if (from == nullptr) return out;
    const std::uint64_t count = count_of(*from, "count");
    const double median = from->number("median").value_or(0);
    const json_value* const range = from->find("median_95");
    const auto end = [range](std::string_view name) { return range == nullptr ? std::nullopt : range->number(name); };
    if (count == 0 || !take_time(median, end("low"), end("high"), out.median_95)) return {};
    out.count = static_cast<std::size_t>(count);
    out.median = median;
    out.p05 = from->number("p05").value_or(median);
    return out;
}

/// Percentiles with bounds, or nothing where calls were not timed.
[[nodiscard]] std::optional<latency_result> latency_in(const json_value* from) {
    const json_value::array* const levels = from == nullptr ? nullptr : from->elements("percentiles");
    if (levels == nullptr) return std::nullopt;
    latency_result out;
    out.count = count_of(*from, "count");
    for (const json_value& one : *levels) {
        const auto level = one.number("level"), estimate = one.number("estimate");
        const json_value* const bounded = one.find("bounded");
        const bool* const holds = bounded == nullptr ? nullptr : std::get_if<bool>(&bounded->value);
        interval range;
        if (!level || !estimate || holds == nullptr || !*holds) continue;
        if (take_time(*estimate, one.number("lower"), one.number("upper"), range))
            out.percentiles.push_back({*level, *estimate, range.low, range.high, true});
    }
    return out;
}

[[nodiscard]] std::optional<rate_result> rate_in(const json_value* from) {
    if (from == nullptr) return std::nullopt;
    rate_result out;
    out.wanted_hz = from->number("wanted_hz").value_or(0);
    out.arrival = from->text("arrival") == "poisson" ? arrivals::poisson : arrivals::fixed;
    out.pace = from->text("pace") == "sleep" ? pacing::sleep : pacing::spin;
    out.service = latency_in(from->find("service")).value_or(latency_result{});
    out.response = latency_in(from->find("response")).value_or(latency_result{});
    return out;
}

/// The numbers of one test that can be compared; nothing for one that failed.
[[nodiscard]] std::optional<result> result_of(const json_value& from) {
    if (const auto failure = from.text("failure"); failure && !failure->empty()) return std::nullopt;
    result out;
    out.time = summary_of(from.find("time"));
    out.latency = latency_in(from.find("latency"));
    out.rate = rate_in(from.find("rate"));
    if (const json_value::array* const groups = from.elements("workers"))
        for (const json_value& group : *groups) {
            workers_result one;
            one.workers = static_cast<std::size_t>(count_of(group, "workers"));
            const json_value* const kind = group.find("processes");
            const bool* const processes = kind == nullptr ? nullptr : std::get_if<bool>(&kind->value);
            const auto failure = group.text("failure");
            if (one.workers == 0 || processes == nullptr || (failure && !failure->empty())) continue;
            one.processes = *processes;
            one.batches = summary_of(group.find("batches"));
            one.latency = latency_in(group.find("latency"));
            one.rate = rate_in(group.find("rate"));
            out.workers.push_back(std::move(one));
        }
    if (const json_value::array* const counters = from.elements("counters"))
        for (const json_value& one : *counters) {
            const auto name = one.text("name"), source = one.text("source");
            const auto each = one.number("per_operation");
            if (name && source && each && *each > 0 && std::isfinite(*each))
                out.counters.push_back({std::string(*name), *each, std::string(*source)});
        }
    return out;
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
                         .append(holdfast::detail::printable(*there))
                         .append("; this is ")
                         .append(identity)
                         .append("): times of different machines say nothing about the code; measure it here"));
    const json_value::array* const results = root.elements("results");
    if (results == nullptr) refuse(file, "has no list of results; write it anew with --perf_json");
    for (const json_value& one : *results) {
        if (one.number("pass").value_or(1) > 1) continue;  // of the same process: no run of its own
        const auto name = one.text("full_name");
        if (auto numbers = result_of(one); name && numbers) runs_.emplace_back(*name, std::move(*numbers));
    }
}

std::vector<result> baseline::runs_of(const std::string& full_name) const {
    std::vector<result> found;
    for (const auto& [name, numbers] : runs_)
        if (name == full_name) found.push_back(numbers);
    return found;
}

}  // namespace holdfast::perf_test
