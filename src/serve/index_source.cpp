// SPDX-License-Identifier: Apache-2.0
// index_source.cpp - sorted indexes, alone in their segment or published by a snapshot. A lookup copies one record and
// is checked to have met one whole version, so a worker never holds up whoever publishes the next.
#include <memory>
#include <utility>

#include "holdfast/outcome.hpp"
#include "holdfast/sorted_index.hpp"
#include "serve/sources.hpp"

namespace holdfast::serve {

namespace {

class sorted_index_source final : public index_source {
 public:
    explicit sorted_index_source(const std::string& uri)
        : reader_(dynamic_sorted_index_reader::attach(uri)), identity_(identity_text(memory().info().identity)) {
        schema_ = reader_.schema();
        watch_size();
    }

    [[nodiscard]] const segment& memory() const override { return reader_.segment(); }
    [[nodiscard]] bool broken() const override { return reader_.fault().has_value() || cut_off(); }

    [[nodiscard]] index_answer find(std::span<const std::byte> key, const visitor& visit) override {
        const auto result = reader_.find_covering(key, entry_);
        // Zeros in the place of a lost page look like an empty snapshot, another record or none at all.
        if (cut_off()) return {lookup::cut_off, {}};
        if (result) visit(entry_.key, entry_.value);
        return {lookup_of(result.status), "\"" + identity_ + "-" + std::to_string(result.version) + "\""};
    }

 private:
    static lookup lookup_of(outcome status) noexcept {
        switch (status) {
            case outcome::ok: return lookup::found;
            case outcome::not_found: return lookup::absent;
            case outcome::empty: return lookup::empty;
            case outcome::contended: return lookup::contended;
            default: break;
        }
        return lookup::damaged;
    }

    dynamic_sorted_index_reader reader_;
    dynamic_entry entry_;
    std::string identity_;
};

}  // namespace

std::unique_ptr<index_source> index_source::attach(const std::string& uri) {
    return std::make_unique<sorted_index_source>(uri);
}

}  // namespace holdfast::serve
