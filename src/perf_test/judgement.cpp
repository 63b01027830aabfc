// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/judgement.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace holdfast::perf_test {
namespace {

std::string text_of(double value) {
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%.6g", value);
    return text.data();
}

bool is_plain(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

const char* to_string(judged_by who) noexcept {
    switch (who) {
        case judged_by::limit: return "limit";
        case judged_by::ratio: return "ratio";
        case judged_by::not_slower: return "not_slower";
        case judged_by::comparison: break;
        case judged_by::baseline: return "baseline";
    }
    return "comparison";
}

judgement judgement_of(const comparison& change, const compare_options& options, judged_by who) {
    judgement made;
    made.by = who;
    made.subject = change.name;
    made.passed = change.outcome != verdict::slower;
    made.text = change.text;
    if (!(change.ratio > 0)) {  // no round in which both took time
        made.outcome = "void";
        return made;
    }
    made.outcome = to_string(change.outcome);
    made.value = change.ratio;
    made.range = change.ratio_95;
    made.confidence = 0.95;
    made.limit = 1 + options.min_effect;
    made.alpha = options.alpha;
    made.p_value = change.p_adjusted;
    return made;
}

std::vector<std::pair<std::string, std::string>> properties_of(const judgement& made) {
    std::vector<std::pair<std::string, std::string>> all{{"verdict", made.outcome}};
    const auto add = [&all](const char* name, double value) {
        if (std::isfinite(value)) all.emplace_back(name, text_of(value));
    };
    add(made.is_ratio() ? "ratio" : "value_ns", made.value);
    add("low", made.range.low);
    add("high", made.range.high);
    add("confidence", made.confidence);
    add("limit", made.limit);
    add("alpha", made.alpha);
    add("p_value", made.p_value);
    if (made.rounds != 0) all.emplace_back("rounds", std::to_string(made.rounds));
    if (!made.subject.empty()) all.emplace_back("subject", made.subject);
    return all;
}

std::string property_name(std::string_view text) {
    std::string name(text);
    for (char& c : name)
        if (!is_plain(c)) c = '_';
    return name;
}

}  // namespace holdfast::perf_test
