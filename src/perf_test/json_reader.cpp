// SPDX-License-Identifier: Apache-2.0
#include "perf_test/json_reader.hpp"

#include <cerrno>
#include <cstdio>
#include <memory>

#include "holdfast/error.hpp"
#include "holdfast/memory/descriptor.hpp"

#ifdef HOLDFAST_WITH_SIMDJSON
#include <simdjson.h>
#endif

namespace holdfast::perf_test {

namespace {

#ifdef HOLDFAST_WITH_SIMDJSON

namespace dom = simdjson::dom;

/// Recursion is bounded by json_depth_max, which the parser has enforced.
[[nodiscard]] json_value copy_of(dom::element from) {
    switch (from.type()) {
        case dom::element_type::ARRAY: {
            json_value::array all;
            for (const dom::element one : dom::array(from)) all.push_back(copy_of(one));
            return {std::move(all)};
        }
        case dom::element_type::OBJECT: {
            json_value::object all;
            for (const dom::key_value_pair one : dom::object(from))
                all.push_back({std::string(one.key), copy_of(one.value)});
            return {std::move(all)};
        }
        case dom::element_type::STRING: return {std::string(std::string_view(from))};
        case dom::element_type::BOOL: return {bool(from)};
        case dom::element_type::INT64:
        case dom::element_type::UINT64:
        case dom::element_type::DOUBLE: return {double(from)};
        case dom::element_type::NULL_VALUE: break;
    }
    return {};
}

#endif

template <class Wanted>
[[nodiscard]] const Wanted* member(const json_value& from, std::string_view name) noexcept {
    const json_value* const found = from.find(name);
    return found == nullptr ? nullptr : std::get_if<Wanted>(&found->value);
}

}  // namespace

const json_value* json_value::find(std::string_view name) const noexcept {
    const object* const members = std::get_if<object>(&value);
    if (members == nullptr) return nullptr;
    for (const auto& [key, one] : *members)
        if (key == name) return &one;
    return nullptr;
}

std::optional<double> json_value::number(std::string_view name) const noexcept {
    const double* const found = member<double>(*this, name);
    return found == nullptr ? std::nullopt : std::optional(*found);
}

std::optional<std::string_view> json_value::text(std::string_view name) const noexcept {
    const std::string* const found = member<std::string>(*this, name);
    return found == nullptr ? std::nullopt : std::optional<std::string_view>(*found);
}

const json_value::array* json_value::elements(std::string_view name) const noexcept {
    return member<array>(*this, name);
}

json_value parse_json(std::string_view text, std::string_view source) {
    if (text.size() > json_bytes_max)
        throw error(errc::corrupt, std::string(source), "is larger than any results: is it the right file?");
#ifdef HOLDFAST_WITH_SIMDJSON
    dom::parser parser;
    dom::element root;
    simdjson::error_code code = parser.allocate(text.size(), json_depth_max);
    if (code == simdjson::SUCCESS) code = parser.parse(text.data(), text.size()).get(root);
    if (code == simdjson::SUCCESS) return copy_of(root);
    throw error(
        errc::corrupt, std::string(source),
        std::string("is not JSON that can be read here: ") + simdjson::error_message(code) + "; write the file anew");
#else
    throw error(errc::unsupported, std::string(source),
                "cannot be read: this build has no JSON library; install simdjson and build again");
#endif
}

json_value read_json_file(const std::string& path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
    if (!file) memory::throw_errno(errno, path, "opening the file", "check its name and its rights");
    std::string text;
    for (char block[65536];;) {
        const std::size_t bytes = std::fread(block, 1, sizeof block, file.get());
        text.append(block, bytes);
        if (bytes < sizeof block || text.size() > json_bytes_max) break;
    }
    if (std::ferror(file.get()) != 0) memory::throw_errno(errno, path, "reading the file", "is it a plain file?");
    return parse_json(text, path);
}

}  // namespace holdfast::perf_test
