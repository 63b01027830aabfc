// SPDX-License-Identifier: Apache-2.0
// snapshot_source.cpp - whole objects: a validated copy of the current version, so that whoever publishes the next is
// never held up by a worker.
#include <memory>
#include <optional>
#include <utility>

#include "holdfast/snapshot.hpp"
#include "inspect/object_reader.hpp"
#include "inspect/record_json.hpp"
#include "serve/failure.hpp"
#include "serve/sources.hpp"

namespace holdfast::serve {

namespace {

class object_source final : public snapshot_source {
 public:
    explicit object_source(const std::string& uri)
        : reader_(snapshot_reader::attach(uri)), identity_(identity_text(memory().info().identity)) {
        if (inspect::publishes_index(memory()))
            throw error(errc::kind_mismatch, uri, "holds an index; ask /v1/indexes/{segment}/{key} for its entries");
        if (!memory().info().schema.empty()) schema_ = container_schema::parse(memory().info().schema);
        if (schema_.key) throw error(errc::kind_mismatch, uri, "holds a container that this server does not know");
        if (schema_.value) {
            require_room(reader_.slot_bytes());
            records_.emplace(*schema_.value);
        }
        watch_size();
    }

    [[nodiscard]] const segment& memory() const override { return reader_.segment(); }
    [[nodiscard]] bool broken() const override { return reader_.fault().has_value() || cut_off(); }
    [[nodiscard]] bool of_records() const noexcept override { return records_.has_value(); }

    [[nodiscard]] std::string tag_of_version(std::uint64_t version) const override {
        return "\"" + identity_ + "-" + std::to_string(version) + "\"";
    }

    [[nodiscard]] lookup read(std::string& out, std::uint64_t& version) override {
        snapshot_read_result got = reader_.read(std::span(object_));
        for (int tries = 0; got.status == outcome::too_small && tries < tries_max; ++tries) {
            if (got.bytes > object_bytes_max && !cut_off())
                throw failure{501, memory().uri() + ": its object is longer than the " +
                                       std::to_string(object_bytes_max >> 20U) +
                                       " MiB that are served; read it on the machine"};
            if (got.bytes > object_bytes_max) break;
            object_.resize(static_cast<std::size_t>(got.bytes));
            got = reader_.read(std::span(object_));
        }
        // Zeros in the place of a lost page look like an empty snapshot, or another object.
        if (cut_off()) return lookup::cut_off;
        if (got.status == outcome::empty) return lookup::empty;
        if (got.status == outcome::contended || got.status == outcome::too_small) return lookup::contended;
        if (got.status != outcome::ok) return lookup::damaged;
        version = got.version;
        const auto object = std::span<const std::byte>(object_).first(static_cast<std::size_t>(got.bytes));
        out.clear();
        if (!records_) {
            out.assign(reinterpret_cast<const char*>(object.data()), object.size());
        } else {
            if (object.size() != schema_.value->bytes()) return lookup::damaged;  // no whole record of the schema
            writer().append(out, object);
            out += '\n';
        }
        if (object_.size() > kept_bytes_max) std::vector<std::byte>(kept_bytes_max).swap(object_);
        return lookup::found;
    }

    [[nodiscard]] std::vector<std::byte> object_of(std::string_view body) override {
        const auto bytes = std::as_bytes(std::span(body));
        if (!records_) return {bytes.begin(), bytes.end()};
        std::vector<std::byte> record = room_for_record();
        if (const auto wrong = records_->read(body, record)) throw failure{400, "the body: " + wrong->message()};
        return record;
    }

 private:
    static constexpr std::size_t kept_bytes_max = 64U << 10U;
    static constexpr int tries_max = 8;  // of objects each longer than the one before

    snapshot_reader reader_;
    std::string identity_;
    std::optional<inspect::record_json_reader> records_;
    std::vector<std::byte> object_ = std::vector<std::byte>(256);
};

}  // namespace

std::unique_ptr<snapshot_source> snapshot_source::attach(const std::string& uri) {
    return std::make_unique<object_source>(uri);
}

}  // namespace holdfast::serve
