// SPDX-License-Identifier: Apache-2.0
// Fuzzes a hash table as an image and a script: damage to a table's bytes, and operations between the damages.
//
// Input: byte 0 picks capacity and value size, byte 1 how the rest is used; its highest bit says whether the table is
// one of many writers: of three slots, two of whose writers live and take turns.
//   odd   the rest is laid over the body as it is (from the journal on), then everything is done with it
//   even  a script of 8-byte steps {operation, damage, key u16, word u32} that runs against a model while no damage
//         was done, and against bare survival afterwards
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "holdfast/hash_table/core.hpp"
#include "holdfast/hash_table/many_mutate.hpp"
#include "holdfast/layout/hash_table_layout.hpp"

namespace {

using namespace holdfast;
using u64 = std::uint64_t;
using node = detail::runtime_node;

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "hash_table_fuzz: %s\n", what);
    std::abort();
}

class body_bytes {
 public:
    explicit body_bytes(std::size_t bytes)
        : size_(bytes), data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64))) {
        if (data_ == nullptr) fail("out of memory");
        std::memset(data_, 0, bytes);
    }
    body_bytes(const body_bytes&) = delete;
    body_bytes& operator=(const body_bytes&) = delete;
    ~body_bytes() { std::free(data_); }
    [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
    std::size_t size_;
    std::byte* data_;
};

using view_of_table = detail::table_view<std::byte, node>;

/// A table of one writer.
struct table_of_one {
    using writer = detail::hash_table_mutator<node>;
    static constexpr std::uint32_t writer_slots = 0, writers = 1;
    static writer make(const view_of_table& view, std::uint32_t) { return writer(view); }
    static hash_table_recovery recover(const view_of_table& view, std::uint32_t) { return detail::recover(view); }
};

/// Of the three slots the first two are held. Whoever has to wait for one of them soon gives up.
struct locks_of_two {
    static constexpr unsigned looks = 1;
    [[nodiscard]] bool take(std::uint32_t slot) const { return slot >= 2; }
    void give_back(std::uint32_t) const {}
    [[nodiscard]] bool wait(std::uint32_t turn) const { return turn < 2; }
    [[nodiscard]] static std::uint64_t pid() { return 1; }
};

/// One of many, two of whose writers live.
struct table_of_many {
    using writer = detail::hash_table_many_mutator<node, locks_of_two>;
    static constexpr std::uint32_t writer_slots = 3, writers = 2;
    static writer make(const view_of_table& view, std::uint32_t slot) { return {view, slot, {}}; }
    static hash_table_recovery recover(const view_of_table& view, std::uint32_t slot) {
        return detail::recover_as(view, slot, locks_of_two());
    }
};

template <class Table>
class session {
 public:
    session(const layout::hash_table_geometry& g, node description)
        : geometry_(g),
          node_(description),
          body_(g.body_bytes()),
          view_(body_.bytes(), g, description),
          value_(description.value) {
        for (std::uint32_t slot = 0; slot < Table::writers; ++slot) writers_.push_back(Table::make(view_, slot));
    }

    void lay_over(std::span<const std::uint8_t> image) {
        std::memcpy(body_.bytes().data(), image.data(), std::min(image.size(), body_.bytes().size()));
        hurt_ = true;
        for (std::uint32_t slot = 0; slot < Table::writers; ++slot) attach(slot);
    }

    void step(const std::uint8_t* s) {
        std::uint16_t key_number = 0;
        std::uint32_t word = 0;
        std::memcpy(&key_number, s + 2, 2);
        std::memcpy(&word, s + 4, 4);
        if (s[1] >= 0xe0) damage(s[1], key_number, word);
        const u64 key = key_number % 512;
        std::memcpy(value_.data(), &word, std::min<std::size_t>(4, value_.size()));
        const std::uint32_t slot = s[0] / 8 % Table::writers;
        auto& writer = writers_[slot];
        switch (s[0] % 8) {
            case 0:
            case 1: inserted(key, writer.try_insert(bytes(key), value_.data()), false); break;
            case 2:
            case 3: inserted(key, writer.insert_or_assign(bytes(key), value_.data()), true); break;
            case 4:
                answers(writer.update(bytes(key), value_.data()), model_.contains(key), entry_change::updated);
                if (model_.contains(key)) model_[key] = value_;
                break;
            case 5: answers(writer.erase(bytes(key)), model_.erase(key) == 1, entry_change::erased); break;
            case 6: attach(slot); break;
            default: look(key);
        }
    }

    void check_all() {
        u64 entries = 0;
        const auto& finder = writers_.back().finder();
        detail::hash_table_scanner<node> scanner(finder, 0);
        u64 key = 0;
        std::vector<std::byte> value(node_.value);
        while (scanner.next(reinterpret_cast<std::byte*>(&key), value.data()) != detail::no_slot) {
            ++entries;
            expect(model_.contains(key) && model_[key] == value);
        }
        if (entries > geometry_.slots()) fail("more entries than slots");
        expect(entries == model_.size() && finder.size() == model_.size());
        const auto report = detail::verify(view_.as_const(), [&](const hash_table_finding& f) {
            if (f.slot >= geometry_.slots()) fail("a finding outside the table");
            return true;
        });
        expect(report.intact());
        (void)detail::recount(view_);
    }

 private:
    static const std::byte* bytes(const u64& key) { return reinterpret_cast<const std::byte*>(&key); }
    void expect(bool holds) const {
        if (!holds && !hurt_) fail("an undamaged table differs from the model");
    }
    using answer = typename Table::writer::result;
    void answers(const answer& got, bool known, entry_change done) const {
        expect(known ? got.status == outcome::ok && got.what == done : got.status == outcome::not_found);
    }
    void inserted(u64 key, const answer& got, bool assign) {
        const bool known = model_.contains(key);
        if (got.status == outcome::full) return expect(!known && model_.size() * 100 >= geometry_.slots() * 90);
        const entry_change done = known ? entry_change::updated : entry_change::inserted;
        expect(known && !assign ? got.status == outcome::exists : got.status == outcome::ok && got.what == done);
        if (!known || assign) model_[key] = value_;
    }
    void look(u64 key) {
        std::vector<std::byte> value(node_.value);
        const bool found = writers_.front().finder().find(bytes(key), value.data()) != detail::no_slot;
        expect(found == model_.contains(key));
        if (found) expect(model_[key] == value);
    }
    void attach(std::uint32_t slot) {
        const hash_table_recovery done = Table::recover(view_, slot);
        expect(!done.journal_rejected && !done.update_replayed && !done.operation_settled && !done.stripes_given_back);
        writers_[slot] = Table::make(view_, slot);
    }
    // Most damage goes where the structure is: journals, stripes and lines.
    void damage(std::uint8_t kind, std::uint16_t where, std::uint32_t word) {
        const std::size_t front = geometry_.nodes_offset, all = body_.bytes().size();
        const std::size_t at = (std::size_t{where} * 4) % ((kind & 1) != 0 ? front : all - 4);
        std::memcpy(body_.bytes().data() + at, &word, 4);
        hurt_ = true;
    }

    layout::hash_table_geometry geometry_;
    node node_;
    body_bytes body_;
    view_of_table view_;
    std::vector<typename Table::writer> writers_;
    std::map<u64, std::vector<std::byte>> model_;
    std::vector<std::byte> value_;
    bool hurt_ = false;
};

template <class Table>
void use(std::uint8_t shape, bool image, std::span<const std::uint8_t> rest) {
    constexpr std::uint64_t value_sizes[] = {1, 8, 12, 40};
    const layout::hash_table_request request{.capacity = 1 + std::uint64_t{shape} / 4 * 6,
                                             .key_bytes = 8,
                                             .value_bytes = value_sizes[shape % 4],
                                             .value_alignment = 4,
                                             .seed = 11,
                                             .writer_slots = Table::writer_slots};
    const layout::hash_table_geometry g = layout::plan_hash_table(request);
    session<Table> s(g, {8, static_cast<std::size_t>(request.value_bytes)});
    if (image) {
        s.lay_over(rest);
        for (std::uint8_t i = 0; i < 64; ++i) {
            const std::uint8_t step[8] = {i, 0, i, 0, i, i, i, i};
            s.step(step);
        }
    } else {
        for (std::size_t at = 0; at + 8 <= rest.size(); at += 8) s.step(rest.data() + at);
    }
    s.check_all();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const bool many = (data[1] & 0x80U) != 0, image = data[1] % 2 != 0;
    const std::span<const std::uint8_t> rest(data + 2, size - 2);
    many ? use<table_of_many>(data[0], image, rest) : use<table_of_one>(data[0], image, rest);
    return 0;
}
