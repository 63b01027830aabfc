// SPDX-License-Identifier: Apache-2.0
#include "inspect/object_reader.hpp"

#include "holdfast/record/json.hpp"
#include "holdfast/snapshot.hpp"
#include "holdfast/sorted_index/reader.hpp"

namespace holdfast::inspect {

namespace {

[[nodiscard]] lookup lookup_of(outcome status) noexcept {
    switch (status) {
        case outcome::ok: return lookup::found;
        case outcome::empty: return lookup::empty;
        case outcome::contended: return lookup::contended;
        default: return lookup::damaged;
    }
}

}  // namespace

bool publishes_index(const segment& from) {
    return detail::snapshot_geometry_of(from).format == sorted_index_payload_format;
}

lookup_result read_object(const std::shared_ptr<const segment>& from, std::string& out) {
    snapshot_reader reader(from);
    std::vector<std::byte> object;
    const snapshot_read_result got = reader.read(object);
    lookup_result result{from->cut_off() ? lookup::cut_off : lookup_of(got.status), got.version, {}};
    if (!result) return result;
    if (from->info().schema.empty()) {
        out.append(reinterpret_cast<const char*>(object.data()), object.size());
        return result;
    }
    const container_schema schema = container_schema::parse(from->info().schema);
    if (schema.key || !schema.value)
        throw error(errc::schema_mismatch, from->uri(), "its objects are containers that this program does not know");
    if (object.size() != schema.value->bytes()) {
        result.status = lookup::damaged;  // no whole record of the schema
        return result;
    }
    json_writer(schema).append(out, object);
    out += '\n';
    return result;
}

}  // namespace holdfast::inspect
