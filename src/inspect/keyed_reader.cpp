// SPDX-License-Identifier: Apache-2.0
#include "inspect/keyed_reader.hpp"
#include "holdfast/outcome.hpp"

#include <algorithm>
#include <cstring>

#include "holdfast/array/dynamic.hpp"
#include "holdfast/detail/concat.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/sorted_index.hpp"
#include "inspect/attach.hpp"

namespace holdfast::inspect {

namespace {

class table_reader final : public keyed_reader {
 public:
    explicit table_reader(dynamic_hash_table_reader reader)
        : keyed_reader(table_schema{reader.schema(), std::nullopt}), reader_(std::move(reader)) {}

    [[nodiscard]] lookup_result find(std::span<const std::byte> key, match) override {
        if (!reader_.find(key, value_room())) {
            if (reader_.clear_contended()) return {lookup::contended, 0, {}};
            return {reader_.fault() ? lookup::damaged : lookup::absent, 0, {}};
        }
        std::copy(key.begin(), key.end(), key_room().begin());
        return {lookup::found, 0, {}};
    }

    void scan(const entry_sink& sink) override {
        for (const dynamic_hash_table_entry& entry : reader_)
            if (!sink(entry.key, entry.value)) return;
    }

    [[nodiscard]] std::uint64_t size() override { return reader_.size(); }
    [[nodiscard]] std::optional<errc> fault() const noexcept override { return reader_.fault(); }
    [[nodiscard]] const segment& memory() const noexcept override { return reader_.segment(); }

 private:
    dynamic_hash_table_reader reader_;
};

/// Elements under a key that no bytes are stored for: their index.
[[nodiscard]] table_schema schema_of_elements(const dynamic_array_reader& reader) {
    container_schema schema = reader.schema();
    std::string name = "index";
    while (schema.value->find(name) != nullptr) name += '_';
    schema.key = record_schema::parse_list(name + ":u64");
    return {std::move(schema), std::nullopt};
}

class element_reader final : public keyed_reader {
 public:
    explicit element_reader(dynamic_array_reader reader)
        : keyed_reader(schema_of_elements(reader)), reader_(std::move(reader)) {}

    [[nodiscard]] lookup_result find(std::span<const std::byte> key, match) override {
        std::uint64_t index = 0;
        std::memcpy(&index, key.data(), sizeof index);
        switch (reader_.load(index, value_room())) {
            case outcome::ok: break;
            case outcome::out_of_range: return {lookup::absent, 0, {}};
            default: return {lookup::contended, 0, {}};
        }
        std::copy(key.begin(), key.end(), key_room().begin());
        return {lookup::found, 0, {}};
    }

    void scan(const entry_sink& sink) override {
        std::vector<std::byte> element(reader_.element_bytes());
        for (std::uint64_t index = 0; index < reader_.size(); ++index) {
            if (reader_.load(index, element) != outcome::ok) {
                missed_ = true;
                continue;
            }
            if (!sink(std::as_bytes(std::span(&index, 1)), element)) return;
        }
    }

    [[nodiscard]] std::uint64_t size() override { return reader_.size(); }
    [[nodiscard]] std::optional<errc> fault() const noexcept override {
        return missed_ ? std::optional(errc::contended) : reader_.fault();
    }
    [[nodiscard]] const segment& memory() const noexcept override { return reader_.segment(); }

 private:
    dynamic_array_reader reader_;
    bool missed_ = false;
};

[[nodiscard]] lookup lookup_of(outcome status) noexcept {
    switch (status) {
        case outcome::ok: return lookup::found;
        case outcome::not_found: return lookup::absent;
        case outcome::empty: return lookup::empty;
        case outcome::contended:
        case outcome::read_only: return lookup::contended;
        default: break;
    }
    return lookup::damaged;
}

[[nodiscard]] table_schema schema_of_index(const dynamic_sorted_index_reader& reader) {
    std::string end = reader.shape().range_end(reader.schema());
    return {reader.schema(), end.empty() ? std::nullopt : std::optional(std::move(end))};
}

class index_reader final : public keyed_reader {
 public:
    explicit index_reader(dynamic_sorted_index_reader reader)
        : keyed_reader(schema_of_index(reader)), reader_(std::move(reader)) {}

    [[nodiscard]] lookup_result find(std::span<const std::byte> key, match how) override {
        const auto got = how == match::exact ? reader_.find(key, entry_) : reader_.find_covering(key, entry_);
        if (got) {
            std::copy(entry_.key.begin(), entry_.key.end(), key_room().begin());
            std::copy(entry_.value.begin(), entry_.value.end(), value_room().begin());
        }
        return {lookup_of(got.status), got.version, {}};
    }

    /// Copies the image first: what is scanned is one version, however long the scan takes.
    void scan(const entry_sink& sink) override {
        std::vector<std::byte> image;
        const snapshot_read_result got = reader_.read([&](const dynamic_sorted_index_view& index) {
            const std::span<const std::byte> bytes = index.image().bytes();
            image.resize(bytes.size());
            detail::copy_from_shared(image.data(), bytes.data(), bytes.size());
        });
        if (got.status == outcome::empty) return;
        const std::string& uri = reader_.segment().uri();
        if (got.status == outcome::contended)
            throw error(errc::io, uri, "it is published anew faster than it can be copied; try again");
        if (!got) throw error(errc::corrupt, uri, "what is published is no index; holdfast verify says where");
        const auto shape = std::make_shared<const index_shape>(reader_.shape());
        const auto view = dynamic_sorted_index_view::over(image, shape, uri);
        for (std::uint64_t i = 0; i < view.size(); ++i)
            if (!sink(view.key(i), view.value(i))) return;
    }

    [[nodiscard]] std::uint64_t size() override {
        std::uint64_t count = 0;
        const auto got = reader_.read([&](const dynamic_sorted_index_view& index) { count = index.size(); });
        return got ? count : 0;
    }
    [[nodiscard]] std::optional<errc> fault() const noexcept override { return reader_.fault(); }
    [[nodiscard]] const segment& memory() const noexcept override { return reader_.segment(); }

 private:
    dynamic_sorted_index_reader reader_;
    dynamic_entry entry_;
};

}  // namespace

keyed_reader::keyed_reader(table_schema schema)
    : schema_(std::move(schema)),
      codec_(schema_.schema),
      wanted_(codec_.key_bytes()),
      found_key_(codec_.key_bytes()),
      found_value_(codec_.value_bytes()) {}

std::unique_ptr<keyed_reader> keyed_reader::open(std::string_view uri) {
    std::shared_ptr<const segment> from = attach_to_look(uri);
    switch (from->info().kind) {
        case container_kind::hash_table:
            return std::make_unique<table_reader>(dynamic_hash_table_reader(std::move(from)));
        case container_kind::array: return std::make_unique<element_reader>(dynamic_array_reader(std::move(from)));
        case container_kind::sorted_index:
        case container_kind::snapshot:
            return std::make_unique<index_reader>(dynamic_sorted_index_reader(std::move(from)));
        case container_kind::hash_map:
            throw error(errc::kind_mismatch, from->uri(),
                        "a hash_map's values are bytes without fields; this works on a hash_table, an array or a "
                        "sorted index");
        default:
            throw error(errc::kind_mismatch, from->uri(),
                        detail::concat("a ", kind_name(from->info().kind),
                                       " has no keys; this works on a hash_table, an array or a sorted index"));
    }
}

lookup_result keyed_reader::get(std::string_view key, match how, std::string& out) {
    if (auto reason = codec_.read_key(key, wanted_)) return {lookup::bad_key, 0, std::move(*reason)};
    lookup_result result = find(wanted_, how);
    if (memory().cut_off()) result.status = lookup::cut_off;
    if (result) codec_.append_json(out, found_key_, found_value_);
    return result;
}

bool keyed_reader::replaced() const { return memory().replaced(); }

}  // namespace holdfast::inspect
