// SPDX-License-Identifier: Apache-2.0
#include "inspect/json_lines_input.hpp"

#include "inspect/record_json.hpp"

namespace holdfast::inspect {

namespace {

/// The text of {"$schema":"TEXT"}, which our dumper writes first. TEXT holds neither quotes nor backslashes, so no
/// parser is needed to find its end.
[[nodiscard]] std::optional<std::string_view> schema_line(std::string_view line) {
    const auto take = [&line](std::string_view token) {
        while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
        if (!line.starts_with(token)) return false;
        line.remove_prefix(token.size());
        return true;
    };
    if (!take("{") || !take("\"$schema\"") || !take(":") || !take("\"")) return std::nullopt;
    const std::string_view text = line.substr(0, line.find('"'));
    if (text.size() == line.size()) return std::nullopt;
    line.remove_prefix(text.size());
    if (!take("\"") || !take("}")) return std::nullopt;
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    return line.empty() ? std::optional(text) : std::nullopt;
}

class json_lines_input final : public record_input::source {
 public:
    json_lines_input(line_input& input, const std::optional<table_schema>& given,
                     const std::optional<table_schema>& otherwise)
        : source(input) {
        if (given) set_schema(*given);
        first_ = next_line();
        if (const auto text = first_ ? schema_line(*first_) : std::nullopt) {
            if (!given) take_schema(*text);
            first_.reset();
        } else {
            pending_ = true;
        }
        if (!has_schema() && otherwise) set_schema(*otherwise);
        if (!has_schema()) refuse(first_ ? 1 : 0, std::string(schema_cure) + R"({"$schema":"id:u64:key,..."})");
        reader_.emplace(schema().schema);
    }

    [[nodiscard]] record_input::outcome next() override {
        const std::optional<std::string_view> line = pending_ ? first_ : next_line();
        pending_ = false;
        if (!line) return record_input::outcome::end;
        auto failure = reader_->read(*line, key_room(), value_room());
        if (!failure) return record_input::outcome::record;
        const std::string about = failure->field.empty() ? "" : "field " + failure->field + ": ";
        set_fault(failure->position + 1, about + failure->reason);
        return record_input::outcome::bad;
    }

 private:
    /// The next line that holds more than blanks.
    [[nodiscard]] std::optional<std::string_view> next_line() {
        for (;;) {
            const std::optional<std::string_view> line = lines().next();
            if (!line || line->find_first_not_of(" \t") != std::string_view::npos) return line;
        }
    }

    void take_schema(std::string_view text) {
        try {
            set_schema(table_schema::parse(text));
        } catch (const error& failure) {
            refuse(1, failure.what());
        }
    }

    std::optional<std::string_view> first_;
    bool pending_ = false;
    std::optional<record_json_reader> reader_;
};

}  // namespace

std::unique_ptr<record_input::source> make_json_lines_input(line_input& lines, const std::optional<table_schema>& given,
                                                            const std::optional<table_schema>& otherwise) {
    return std::make_unique<json_lines_input>(lines, given, otherwise);
}

}  // namespace holdfast::inspect
