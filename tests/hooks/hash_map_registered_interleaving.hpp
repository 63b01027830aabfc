// SPDX-License-Identifier: Apache-2.0
// hash_map_registered_interleaving.hpp - a hash map's writer that evicts beside a reader that registers, reads and goes
// (schedule_rig.hpp): its handle as it is, over a named segment and its peers file, and the writer over their bytes.
#pragma once

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/registered_reader.hpp"
#include "hooks/access_hooks.hpp"
#include "hooks/interleaving.hpp"
#include "hooks/sleepers.hpp"
#include "support/map_bench.hpp"
#include "support/unique_name.hpp"

namespace holdfast::test {

/// A full map, of whose entries the oldest would be evicted first. The writer sets a key more, and erases one that is
/// not there; the reader registers and reads the oldest entry, then goes; or it has read that, goes and registers anew.
/// What it has read by the time of an eviction is spared once, and never again for that: neither by a reader that has
/// died nor by one that has gone.
class hash_map_registered_interleaving final : public interleaving, futex_listener {
 public:
    enum class then { goes, registers_anew };

    explicit hash_map_registered_interleaving(then last) : last_(last), kernel_(*this), name_("registered") {
        // The reader notes what it reads by chance, which begins with the place of its slot: at once, in this test.
        std::size_t pages = 1;
        while (!make(pages))
            if (++pages == 200) throw std::runtime_error("no slot lies where a reader notes what it reads first");
    }
    hash_map_registered_interleaving(const hash_map_registered_interleaving&) = delete;
    hash_map_registered_interleaving& operator=(const hash_map_registered_interleaving&) = delete;

    [[nodiscard]] std::span<std::byte> image() override { return image_; }
    void attach() override {
        const access_unwatched not_yet;
        reader_.reset();
        died_ = false;
        std::memcpy(image_.data(), beginning_.data(), beginning_.size());  // what the last ones did in the end
        writer_ = start();
        noted_ = false;
        departures_ = 0;
        if (last_ == then::goes) return;
        reader_.emplace(mapping_, fake_clock());
        (void)find_oldest();
    }
    void died(unsigned) override { died_ = true; }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) return change(operation);
        const bool goes = operation == (last_ == then::goes ? 1 : 0);
        if (goes) {
            leave();
            return {};
        }
        reader_.emplace(mapping_, fake_clock());
        return last_ == then::goes ? find_oldest() : "";
    }
    std::string judge(std::optional<unsigned> dead) override {
        const access_unwatched judge;
        if (std::string why = damage_of(view().as_const()); !why.empty()) return why;
        if (dead == 0U) writer_ = start();
        const bool was_there = is_there(oldest);
        kept_ += was_there ? 1U : 0U;
        went_ += was_there ? 0U : 1U;
        // All that was noted spares its entry once.
        for (std::uint64_t i = 0; i < 2 * entries; ++i)
            if (!store(50 + i)) return "a key more does not find room";
        if (is_there(oldest)) return "what a reader has read once is never evicted";
        if (dead == 1U || (!dead && last_ == then::goes)) (void)reader(mapping_, fake_clock());  // its place is free
        return {};
    }
    /// Ends in which the oldest entry was there, and was not.
    [[nodiscard]] std::uint64_t kept() const noexcept { return kept_; }
    [[nodiscard]] std::uint64_t went() const noexcept { return went_; }

 private:
    using map = hash_map<std::string_view>;
    using reader = hash_map_registered_reader<std::string_view>;
    static constexpr std::uint64_t entries = 4, oldest = 0;
    static constexpr std::size_t value_bytes = 12;

    // Returns: whether the reader notes the first entry that it reads.
    bool make(std::size_t pages) {
        mapping_.reset();
        board_.reset();
        places_.reset();
        name_.remove();
        places_.emplace();
        (void)::mmap(nullptr, pages * 4096 + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        (void)map::create(name_.uri(), {.capacity = 200,
                                        .bytes = entries * 64,
                                        .unit_bytes = 64,
                                        .evict = true,
                                        .registered_readers = 1,
                                        .seed = 42});
        mapping_ = std::make_shared<const segment>(segment::attach(name_.uri(), access::read_only));
        geometry_ = holdfast::detail::hash_map_geometry_of(*mapping_);
        board_.emplace(peers::open(*mapping_));
        slots_ = board_->slot(0);
        image_ = {const_cast<std::byte*>(mapping_->bytes().data()), slots_.data() + slots_.size()};
        writer_ = start();
        for (std::uint64_t n = 0; n < entries; ++n) (void)store(n);
        beginning_.assign(image_.begin(), image_.end());
        reader_.emplace(mapping_, fake_clock());
        (void)find_oldest();
        std::uint64_t noted = 0;
        std::memcpy(&noted, slots_.data(), sizeof noted);
        reader_.reset();
        return noted != 0;
    }
    [[nodiscard]] writable_map view() {
        return {image_.first(static_cast<std::size_t>(geometry_.body_bytes())), geometry_};
    }

    static std::string key(std::uint64_t n) { return "key " + std::to_string(n); }
    hash_map_result store(std::uint64_t n) { return put(writer_, key(n), {n + 1, value_bytes}); }
    // As the handle's constructor does.
    [[nodiscard]] map_writer start() {
        map_writer made(view(), fake_clock(), nullptr);
        made.listen_to(slots_);
        return made;
    }
    [[nodiscard]] bool is_there(std::uint64_t n) {
        std::array<std::byte, value_bytes> out;
        return static_cast<bool>(reader_of(view().as_const()).find(as_key(key(n)), std::span<std::byte>(out)));
    }

    std::string change(unsigned operation) {
        if (operation == 1)
            return writer_.erase(as_key(key(99))).status == outcome::not_found ? "" : "what is not there was erased";
        meet();
        const bool spares = noted_;
        const unsigned departures = departures_;
        const bool comes = last_ == then::goes, gone = comes && ended(1) == operations, unread = comes && begun(1) == 0;
        if (!store(10)) return "a set failed";
        meet();
        const access_unwatched look;
        if (spares && departures_ == departures && !is_there(oldest))
            return "what a reader has read is evicted before what nobody read";
        if ((gone || (unread && begun(1) == 0)) && is_there(oldest)) return "what nobody reads is spared";
        return {};
    }
    // Takes its notes away.
    void leave() {
        meet();
        noted_ = false;
        ++departures_;
        reader_.reset();
    }
    std::string find_oldest() {
        std::array<std::byte, value_bytes> out;
        const hash_map_found got = reader_->find(key(oldest), std::span<std::byte>(out));
        if (reader_->fault()) return "the reader latched a fault";
        if (got.status == outcome::not_found) return begun(0) == 0 ? "an entry is missing" : "";
        if (!got || got.count != value_bytes || !is_whole(out, oldest + 1)) return "a reader got a mix";
        meet();
        noted_ = true;
        return {};
    }

    int sleep(const std::uint32_t*, std::uint32_t) noexcept override { return ETIMEDOUT; }
    void wake(const std::uint32_t*) noexcept override {}
    bool locks_are_free() const noexcept override { return died_; }

    then last_;
    std::optional<one_address> places_;
    futex_watch kernel_;
    unique_posix_name name_;
    std::shared_ptr<const segment> mapping_;
    layout::hash_map_geometry geometry_;
    std::optional<peers> board_;
    std::span<std::byte> slots_;
    map_writer writer_;
    std::optional<reader> reader_;
    std::span<std::byte> image_;
    std::vector<std::byte> beginning_;
    bool died_ = false;
    bool noted_ = false;  // the reader has noted the oldest entry
    unsigned departures_ = 0;
    std::uint64_t kept_ = 0, went_ = 0;
};

}  // namespace holdfast::test
