// SPDX-License-Identifier: Apache-2.0
// api_snapshots.cpp - whole objects: the current version of a snapshot, and the next. The tag is that of a version, so
// an object that was published again unchanged has another one; the comparison that If-Match asks for and the
// publication are one, under the lease. Who may publish: docs/design/0031-serving-writes.md.
#include <optional>
#include <utility>

#include "holdfast/error.hpp"
#include "holdfast/net/conditional.hpp"
#include "holdfast/net/range.hpp"
#include "holdfast/snapshot.hpp"
#include "serve/answering.hpp"
#include "serve/api.hpp"
#include "serve/failure.hpp"
#include "serve/write_lease.hpp"

namespace holdfast::serve {

void api::get_snapshot(exchange& it, const std::string& name) {
    check_parameters(it.query, {});
    snapshot_source& snapshot = catalog_.snapshot(name, it.who);
    std::uint64_t version = 0;
    check_lookup(snapshot.read(it.to.body_buffer(), version), name);
    const std::string tag = snapshot.tag_of_version(version);
    it.to.header("Cache-Control", "no-cache");
    it.to.header("Snapshot-Version", std::to_string(version));
    net::answer_representation(it.from, {.tag = tag}, snapshot.of_records() ? json_type : "application/octet-stream",
                               it.to);
}

void api::put_snapshot(exchange& it, const std::string& name) {
    check_parameters(it.query, {});
    snapshot_source& snapshot = catalog_.snapshot(name, it.who);
    require_may_write(it, snapshot.memory());
    require_whole_content(it.from);
    if (const std::string_view type = media_type_of(it.from);
        snapshot.of_records() && !type.empty() && !net::equal_ignoring_case(type, json_type))
        throw failure{415, "the body has to be application/json"};
    const std::vector<std::byte> object = snapshot.object_of(it.from.body());
    const std::string& uri = snapshot.memory().uri();
    // The lease is ours until the end of this request.
    snapshot_writer writer = attach_to_write(uri, [&](const auto& how) { return snapshot_writer::attach(uri, how); });
    // Another segment may have got the name since its rights were looked at.
    require_may_write(it, writer.segment());
    if (writer.segment().replaced() || writer.segment().info().identity != snapshot.memory().info().identity)
        throw failure{503, uri + " was replaced while it was attached; ask again", 1};
    const std::uint64_t before = writer.version();
    logged(it, "publish", uri, {}, [&] {
        const std::string tag = snapshot.tag_of_version(before);
        if (net::judge_conditions(it.from, {.tag = tag, .exists = before != 0}) != net::condition::holds)
            throw failure{412, uri + ": another version is current than the conditions of the request name"};
        const publish_result done = writer.publish(object);
        switch (done.status) {
            case outcome::ok: break;
            case outcome::too_large:
                throw failure{413, uri + ": the snapshot takes objects of " + std::to_string(writer.slot_bytes()) +
                                       " bytes at most"};
            case outcome::full: throw failure{503, uri + ": readers hold all of its versions; ask again", 1};
            default: throw failure{500, uri + " is damaged; holdfast verify says where"};
        }
        if (writer.segment().cut_off()) check_lookup(lookup::damaged, uri);  // there is nothing where it was written
    });
    it.to.header("ETag", snapshot.tag_of_version(writer.version()));
    it.to.header("Snapshot-Version", std::to_string(writer.version()));
    it.to.status(before == 0 ? 201 : 204);
}

}  // namespace holdfast::serve
