// SPDX-License-Identifier: Apache-2.0
// salvage_map.cpp - a hash map's entries lie in its store, each with its key under a checksum of its own. So its table
// is made anew from them; the old one only tells which of two entries of a key is the newer one, and which an operation
// that was cut short had not brought or had let go.
#include <algorithm>
#include <array>
#include <vector>

#include "holdfast/detail/concat.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/many_view.hpp"
#include "holdfast/hash_table/many_mutate.hpp"
#include "inspect/salvage.hpp"
#include "inspect/salvage_blocks.hpp"

namespace holdfast::inspect {

namespace {

using map_bytes = detail::map_view<std::byte>;

/// What the old table and the old records say of handles: one record, or one of each writer slot.
class old_index {
 public:
    explicit old_index(const map_bytes& old) {
        const detail::table_view<std::byte, detail::map_node>& table = old.table;
        if (table.has_many_writers()) {
            const detail::map_slots<std::byte> slots(old);
            for (std::uint32_t writer = 0; writer < table.writers; ++writer) {
                states_.push_back(slots.look(writer));
                (void)detail::recover_writer(table, writer);
            }
        } else {
            states_.push_back(old.look());
            (void)detail::recover(table);
        }
        sound_ = detail::verify(table.as_const(), [](const hash_table_finding&) { return false; }).findings == 0;
        for (std::uint64_t bucket = 0; bucket < table.buckets; ++bucket)
            for (unsigned place = 0; place < layout::tags_per_line; ++place) {
                // A tag that is not its node's may be damage in the place of none: the handle may be of an entry let
                // go.
                const std::byte* const node = table.node_at(bucket, place);
                if (detail::tag_at(table.line(bucket), place) == table.hash(node).tag())
                    handles_.push_back(detail::load_acquire<std::uint64_t>(node + table.value_offset));
            }
        std::ranges::sort(handles_);
    }
    [[nodiscard]] bool leads_to(std::uint64_t handle) const { return std::ranges::binary_search(handles_, handle); }
    /// Whether an entry to which no key leads is one that an operation brought in vain, or let go.
    [[nodiscard]] bool let_go(std::uint64_t handle) const {
        return sound_ || std::ranges::any_of(states_, [&](const detail::map_state& state) {
                   return state.sound && state.is_open() && state.record.names(handle);
               });
    }
    /// Of a map of one writer.
    [[nodiscard]] std::uint64_t changes() const {
        return states_[0].sound ? states_[0].record.word[detail::map_record::change] : 0;
    }

 private:
    std::vector<detail::map_state> states_;
    bool sound_ = false;
    std::vector<std::uint64_t> handles_;
};

class map_maker {
 public:
    map_maker(const map_bytes& made, block_mender& store, salvage_log& log)
        : made_(made), reader_(made.as_const(), {}), table_(made.table), store_(store), log_(log) {}

    /// Gives an entry its key.
    void enter(std::uint64_t handle) {
        detail::map_digest digest;
        if (reader_.digest_under(handle, digest) != outcome::ok)
            return drop(handle, "what its handle leads to is no entry");
        switch (table_.try_insert(digest.bytes(), reinterpret_cast<const std::byte*>(&handle)).status) {
            case outcome::ok: return log_.keep();
            case outcome::exists: return drop(handle, "its key has another entry, too");
            default: return drop(handle, "the new table has no slot for it");
        }
    }
    /// An entry that came to nothing or was let go, which no table led to.
    void let_go(std::uint64_t handle) { store_.retire(handle); }

 private:
    void drop(std::uint64_t handle, std::string_view why) {
        log_.lose(why, detail::concat("handle ", handle));
        store_.retire(handle);
    }

    map_bytes made_;
    detail::map_reader_core reader_;
    detail::hash_table_mutator<detail::map_node> table_;
    block_mender& store_;
    salvage_log& log_;
};

/// What is no check's: the clock, whether anything expires, and how many went. Places of the sweep begin anew.
void copy_service_words(const map_bytes& from, const map_bytes& to) {
    for (const std::size_t offset :
         {layout::map_clock_base_offset, layout::map_clock_last_offset, layout::map_clock_zone_offset,
          layout::map_expiring_offset, layout::map_evicted_offset, layout::map_expired_offset})
        detail::store_release<std::uint64_t>(to.control(offset),
                                             detail::load_acquire<std::uint64_t>(from.control(offset)));
}

}  // namespace

void salvage_map(const damaged_segment& from, std::span<std::byte> to, salvage_log& log) {
    layout::hash_map_geometry g;
    require_geometry(from, layout::read_hash_map_geometry(from.spec().geometry, to.size(), g));
    const bool many = g.writer_slots() != 0;
    if (many != (from.spec().policy == writers::many) ||
        many != (from.spec().container_version == layout::hash_map_many_version))
        require_geometry(from, "policy, version and writer slots contradict each other");
    const map_bytes old(from.body(), g), made(to, g);
    count_cut(from, g.store_offset() + g.store.units_offset(), log);  // as of a store, and the table in front of it
    const auto store_at = static_cast<std::ptrdiff_t>(g.store_offset());
    std::copy(from.body().begin() + store_at, from.body().end(), to.begin() + store_at);
    const old_index index(old);
    if (!many) copy_service_words(old, made);
    block_mender store(made.store, log);
    store.run();
    map_maker maker(made, store, log);
    const std::vector<std::uint64_t> standing = store.handles();
    // Those first that the old table leads to: of two entries of one key they are the ones in force.
    for (const std::uint64_t handle : standing)
        if (index.leads_to(handle)) maker.enter(handle);
    for (const std::uint64_t handle : standing)
        if (!index.leads_to(handle)) index.let_go(handle) ? maker.let_go(handle) : maker.enter(handle);
    store.finish();
    if (many) return;  // zeroed journals: nobody is in an operation
    detail::map_counts counts{0, index.changes()};
    detail::forget_operation(made, counts);
}

}  // namespace holdfast::inspect
