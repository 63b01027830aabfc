// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/hash_table/find.hpp"
#include "serve/sources.hpp"

namespace holdfast::serve {

namespace {

using finder = holdfast::detail::hash_table_finder<holdfast::detail::runtime_node>;

class hash_table_source final : public table_source {
 public:
    explicit hash_table_source(const std::string& uri)
        : reader_(dynamic_hash_table_reader::attach(uri)),
          pages_(finder::view(reader_.segment().bytes(), reader_.geometry(), detail::node_of(reader_.geometry()))) {
        schema_ = reader_.schema();
        value_.resize(reader_.value_bytes());
        entry_.resize(reader_.key_bytes() + reader_.value_bytes());
        watch_size();
    }

    [[nodiscard]] const segment& memory() const override { return reader_.segment(); }
    [[nodiscard]] bool broken() const override {
        for (const auto& fault : {reader_.fault(), pages_.fault()})
            if (fault.value_or(errc::contended) != errc::contended) return true;
        return cut_off();
    }

    [[nodiscard]] bool was_busy() override {
        const bool of_page = pages_.clear_contended();
        return reader_.clear_contended() || of_page;
    }

    [[nodiscard]] lookup find(std::span<const std::byte> key, const visitor& visit) override {
        const std::uint64_t slot = pages_.find(key.data(), value_.data());
        const bool found = slot != detail::no_slot;
        // Zeros in the place of a lost page look like a free slot, or are the value. Whatever leads to a node lies
        // before it, and nearly every node before the last page: of those no system call is needed.
        if (!found || !was_there(end_of(slot))) {
            if (cut_off()) return lookup::cut_off;
            if (!found && was_busy()) return lookup::contended;
            if (!found) return broken() ? lookup::damaged : lookup::absent;
        }
        visit(key, value_);
        return lookup::found;
    }

    // While a page is gathered, every other client of this worker waits: it ends early where values are large, and
    // where there is little to find. Otherwise as detail::hash_table_scanner, whose promises it keeps.
    [[nodiscard]] std::optional<std::uint64_t> scan(std::uint64_t cursor, std::size_t limit,
                                                    const visitor& visit) override {
        constexpr std::uint64_t line = layout::tags_per_line;
        const std::uint64_t end = reader_.slots();
        if (cursor >= end) return std::nullopt;
        const std::span<const std::byte> bytes(entry_);
        const std::size_t key_bytes = reader_.key_bytes();
        std::size_t left = std::min(limit, page_bytes_max / entry_.size() + 1);
        std::uint64_t at = cursor - cursor % line;
        std::uint32_t places = pages_.occupied(at / line) & ~((std::uint32_t{1} << (cursor % line)) - 1);
        while (true) {
            for (; places != 0; places &= places - 1) {
                const std::uint64_t slot = at + static_cast<unsigned>(std::countr_zero(places));
                if (left == 0) return slot;  // tells that there is one, and where
                if (!pages_.read_entry(slot, entry_.data(), entry_.data() + key_bytes)) continue;
                --left;
                visit(bytes.first(key_bytes), bytes.subspan(key_bytes));
            }
            at += line;
            if (at >= end) return std::nullopt;
            if (at - cursor >= page_slots_max) return at;
            places = pages_.occupied(at / line);
        }
    }

 private:
    static constexpr std::size_t page_bytes_max = std::size_t{1} << 20U;      // as they lie in the table
    static constexpr std::uint64_t page_slots_max = std::uint64_t{1} << 18U;  // 630 KiB of tag lines

    /// Of a slot's node in the body.
    [[nodiscard]] std::uint64_t end_of(std::uint64_t slot) const noexcept {
        const layout::hash_table_geometry& g = reader_.geometry();
        return g.nodes_offset + (slot + 1) * g.node_bytes;
    }

    dynamic_hash_table_reader reader_;
    finder pages_;  // the same table, by lines and slots
    std::vector<std::byte> value_;
    std::vector<std::byte> entry_;
};

}  // namespace

std::unique_ptr<table_source> table_source::attach(const std::string& uri) {
    return std::make_unique<hash_table_source>(uri);
}

}  // namespace holdfast::serve
