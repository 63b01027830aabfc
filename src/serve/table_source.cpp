// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "holdfast/hash_table/dynamic.hpp"
#include "serve/sources.hpp"

namespace holdfast::serve {

namespace {

class hash_table_source final : public table_source {
 public:
    explicit hash_table_source(const std::string& uri) : reader_(dynamic_hash_table_reader::attach(uri)) {
        schema_ = reader_.schema();
        value_.resize(reader_.value_bytes());
        watch_size();
    }

    [[nodiscard]] const segment& memory() const override { return reader_.segment(); }
    [[nodiscard]] bool broken() const override {
        return reader_.fault().value_or(errc::contended) != errc::contended || cut_off();
    }

    [[nodiscard]] bool was_busy() override { return reader_.clear_contended(); }

    [[nodiscard]] lookup find(std::span<const std::byte> key, const visitor& visit) override {
        const bool found = reader_.find(key, value_);
        // Zeros in the place of a lost page look like a free slot, or are the value.
        if (cut_off()) return lookup::cut_off;
        if (!found && was_busy()) return lookup::contended;
        if (!found) return broken() ? lookup::damaged : lookup::absent;
        visit(key, value_);
        return lookup::found;
    }

    [[nodiscard]] std::optional<std::uint64_t> scan(std::uint64_t cursor, std::size_t limit,
                                                    const visitor& visit) override {
        std::size_t seen = 0;
        for (const dynamic_hash_table_entry& entry : reader_.entries_from(static_cast<hash_table_slot>(cursor))) {
            // The entry behind the page tells that there is one, and where.
            if (seen++ == limit) return static_cast<std::uint64_t>(entry.slot);
            visit(entry.key, entry.value);
        }
        return std::nullopt;
    }

 private:
    dynamic_hash_table_reader reader_;
    std::vector<std::byte> value_;
};

}  // namespace

std::unique_ptr<table_source> table_source::attach(const std::string& uri) {
    return std::make_unique<hash_table_source>(uri);
}

}  // namespace holdfast::serve
