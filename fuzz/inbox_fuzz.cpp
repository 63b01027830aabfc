// SPDX-License-Identifier: Apache-2.0
// An inbox as its owner and its requester have it, in files that a peer writes meanwhile: any messages in the queue,
// any bytes over commands and answers that are there, over either file and over the consumer's side, and any files in
// the place of what a dead owner left. Neither is led outside a message or made to work without end; the table stays
// sound, and while nobody but the two has stored anything each command is applied and answered as a model says.
//
// Input: steps {operation, number, length, bytes}:
//   0  a sound command is sent: on key number % 4, with bytes[0] as its operation
//   1  the bytes are pushed as a message
//   2  a sound command, with the bytes over its own from byte `number` on, is pushed
//   3  the bytes over the number'th place of the queue that holds a command of the requester, behind its id
//   4  the same of the ring: an answer
//   5  the bytes over the queue's file, at 8 * (number + 256 * bytes[0]); 6 over the ring's file; 7 over its peers file
//   8  the owner applies `number` commands at most; 9 the requester takes its answers; 10 both look whether to wait
//   11 another requester takes the place of the first
//   12 the owner closes and opens anew; 13 it dies, and the next opens over what it left, with the bytes over as 5 to 7
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "holdfast/inbox.hpp"
#include "hostile_file.hpp"
#include "require.hpp"
#include "script.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using fuzz::hostile_file;
using fuzz::lay_over;
using fuzz::require;
using fuzz::step;
using u64 = std::uint64_t;

struct entry {
    u64 count;
    std::uint32_t user;
    std::uint32_t flags;
};
using table_of_entries = hash_table<u64, entry>;

constexpr std::size_t steps_max = 64;
constexpr u64 ring_bytes = 1024;

/// Over what follows the number'th id of a client, if there is one.
void lay_behind_id(u64 client, std::span<std::byte> file, std::size_t number, std::span<const std::byte> bytes) {
    std::vector<std::size_t> places;
    for (std::size_t at = 0; at + 8 <= file.size(); at += 8)
        if (std::memcmp(file.data() + at, &client, 8) == 0) places.push_back(at);
    if (!places.empty()) lay_over(file, places[number % places.size()] + sizeof(inbox_id), bytes);
}

/// What a command or an answer is about, and what has to come of it while all is sound.
struct expected {
    inbox_verdict verdict;
    entry_change change;
    std::optional<u64> count;
};

/// Commands whose key and value it keeps.
class sound_command {
 public:
    sound_command(std::uint8_t key, std::uint8_t operation) : key_(key % 4) {
        what.operation = static_cast<inbox_operation>(1 + operation % 3);
        what.key = std::as_bytes(std::span(&key_, 1));
        value_.count = operation;
        if (what.operation == inbox_operation::put) what.value = std::as_bytes(std::span(&value_, 1));
        what.by = 3;
    }
    sound_command(const sound_command&) = delete;
    sound_command& operator=(const sound_command&) = delete;

    [[nodiscard]] expected on(std::map<u64, u64>& model) const {
        const auto at = model.find(key_);
        const bool there = at != model.end();
        if (what.operation == inbox_operation::put) {
            model[key_] = value_.count;
            return {inbox_verdict::done, there ? entry_change::updated : entry_change::inserted, {}};
        }
        if (!there) return {inbox_verdict::not_found, entry_change::none, {}};
        if (what.operation == inbox_operation::erase) {
            model.erase(at);
            return {inbox_verdict::done, entry_change::erased, {}};
        }
        return {inbox_verdict::done, entry_change::updated, at->second += 3};
    }

    inbox_command what;

 private:
    u64 key_;
    entry value_{};
};

/// By themselves, too: an owner's buffer has room behind a message that says more than it holds.
void decode(const std::vector<std::byte>& message) {
    const auto inside = [&](std::span<const std::byte> part) {
        return part.empty() ||
               (part.data() >= message.data() && part.data() + part.size() <= message.data() + message.size());
    };
    const auto command = detail::decode_command(message);
    require(!command.what || (inside(command.what->key) && inside(command.what->value)));
    const auto answer = detail::decode_answer(message);
    require(!answer || inside(answer->value));
}

class world {
 public:
    world() : table_(table_of_entries::create(uri(), {.capacity = 16})) { open(); }
    world(const world&) = delete;
    world& operator=(const world&) = delete;
    ~world() = default;

    /// Begins anew: an empty table, a new inbox.
    void open() {
        inbox_.reset();
        remove_leftovers();
        inbox_.emplace(table_, options());
        begin_life();
    }

    void take(const step& s) {
        switch (s.operation % 14) {
            case 0: send(s); break;
            case 1: push(s.bytes); break;
            case 2: push_bent(s); break;
            case 3: lay_behind_id(client_->client(), touched(*queue_), s.number, s.bytes); break;
            case 4: lay_behind_id(client_->client(), touched(*ring_), s.number, s.bytes); break;
            case 5: lay_over(touched(*queue_), s.place(), s.cover()); break;
            case 6: lay_over(touched(*ring_), s.place(), s.cover()); break;
            case 7: lay_over(touched(*consumer_), s.place(), s.cover()); break;
            case 8: apply(s.number); break;
            case 9: answers(); break;
            case 10: look(); break;
            case 11: attach(); break;
            case 12: open(); break;
            default: open_over_leftovers(s);
        }
    }
    /// Ends what a script has left open, within as many commands and answers as there is room for.
    void end() {
        u64 applied = 0;
        while (const result some = apply(255)) applied += some.count;
        require(applied <= inbox_bytes() / 8, "commands end");
        answers();
        inbox_->close();
        answers();
        bool whole = !table_.fault();
        (void)table_.verify([&](const auto&) { return whole = false; });
        require(whole, "the table is sound");
    }

 private:
    [[nodiscard]] std::string uri() const { return folder_.file_uri("t"); }
    [[nodiscard]] std::string path(const char* suffix) const { return folder_.file(std::string("t") + suffix); }
    [[nodiscard]] u64 inbox_bytes() const noexcept { return queue_->bytes().size(); }
    /// Somebody else stores: the model ends.
    std::span<std::byte> touched(const hostile_file& file) {
        sound_ = false;
        return file.bytes();
    }

    [[nodiscard]] static inbox_options options() { return {.capacity_bytes = ring_bytes, .patience = 0ns}; }
    void remove_leftovers() const {
        std::error_code ignored;
        for (const char* suffix : {".inbox", ".inbox.peers", ".inbox.lease", ".answers", ".answers.lease"})
            std::filesystem::remove(path(suffix), ignored);
    }
    void begin_life() {
        queue_.emplace(path(".inbox"));
        consumer_.emplace(path(".inbox.peers"));
        ring_.emplace(path(".answers"));
        client_ = inbox_client::attach(uri());
        require(client_.has_value());
        std::vector<u64> keys;
        for (const auto& each : table_) keys.push_back(each.key);
        for (const u64 key : keys) (void)table_.erase(key);
        model_.clear();
        waiting_.clear();
        sound_ = true;
    }
    void attach() {
        try {
            auto other = inbox_client::attach(uri());
            require(other || !sound_);
            if (other) client_ = std::move(other);
        } catch (const error&) {
            require(!sound_);
        }
        waiting_.clear();
    }

    void send(const step& s) {
        const sound_command command(s.number, s.bytes.empty() ? s.number : static_cast<std::uint8_t>(s.bytes[0]));
        try {
            const result sent = client_->send(command.what, 1h);
            require(sent || sent.status == outcome::full || !sound_);
            if (sound_ && sent) waiting_.push_back(command.on(model_));
        } catch (const error&) {
            require(!sound_);
        }
    }
    void push(std::span<const std::byte> message) {
        sound_ = false;
        decode(std::vector<std::byte>(message.begin(), message.end()));
        try {
            (void)queue_producer::attach(uri() + ".inbox").try_push(message);
        } catch (const error&) {  // the queue is damaged
        }
    }
    void push_bent(const step& s) {
        const sound_command command(s.number, s.number);
        std::array<std::byte, 400> room{};
        const std::size_t bytes = detail::encode_command(room, {client_->client(), s.number}, ~u64{0}, command.what);
        const std::size_t from = std::min<std::size_t>(s.number, bytes);
        const std::size_t take = std::min(s.bytes.size(), room.size() - from);
        if (take != 0) std::memcpy(room.data() + from, s.bytes.data(), take);
        push(std::span(room).first(std::max(bytes, from + take)));
    }

    result apply(u64 most) {
        const inbox_counts before = inbox_->counts();
        const result done = inbox_->apply(most);
        const inbox_counts& now = inbox_->counts();
        require(done.count <= most && now.taken - before.taken == done.count);
        require(now.done + now.refused + now.late + now.misfits <= now.taken);
        require(done || done.status == outcome::empty || done.status == outcome::corrupt);
        require(!sound_ || done.status != outcome::corrupt);
        require(!table_.fault(), "no message harms the table");
        return done.count == 0 ? result{outcome::empty, 0} : done;
    }
    void answers() {
        u64 got = 0;
        try {
            for (; const auto answer = client_->next(); ++got) {
                require(answer->id.client == client_->client() && !verdict_name(answer->verdict).empty());
                require(answer->value.size() <= ring_->bytes().size() && got <= ring_->bytes().size() / 8);
                const std::vector<std::byte> copy(answer->value.begin(), answer->value.end());
                if (sound_) check(*answer, copy);
            }
        } catch (const error&) {
            require(false, "a look at answers throws nothing");
        }
        require(!sound_ || !client_->fault());
    }
    /// Answers of a sound inbox come in order; those that the ring had no room for any more are missing.
    void check(const inbox_answer& answer, const std::vector<std::byte>& value) {
        const auto fits = [&](const expected& each) {
            u64 count = 0;
            if (each.count.has_value() != (value.size() == sizeof(entry))) return false;
            if (each.count) std::memcpy(&count, value.data(), sizeof count);
            return each.verdict == answer.verdict && each.change == answer.change && count == each.count.value_or(0);
        };
        const auto at = std::find_if(waiting_.begin(), waiting_.end(), fits);
        require(at != waiting_.end(), "a sound command is answered as the model says");
        waiting_.erase(waiting_.begin(), std::next(at));
    }
    void look() {
        (void)inbox_->wait(0ns);
        (void)client_->wait(0ns);
        (void)inbox_->fault();
        (void)client_->fault();
    }

    /// As a death leaves it: both files and no lease, here with other bytes.
    void open_over_leftovers(const step& s) {
        static constexpr const char* suffixes[] = {".inbox", ".inbox.peers", ".answers"};
        std::vector<std::byte> kept[3];
        const hostile_file* const files[] = {&*queue_, &*consumer_, &*ring_};
        for (std::size_t i = 0; i < 3; ++i) kept[i].assign(files[i]->bytes().begin(), files[i]->bytes().end());
        lay_over(kept[s.number % 3], s.place(), s.cover());
        inbox_.reset();
        remove_leftovers();
        for (std::size_t i = 0; i < 3; ++i) {
            std::ofstream(path(suffixes[i]), std::ios::binary)
                .write(reinterpret_cast<const char*>(kept[i].data()), static_cast<std::streamsize>(kept[i].size()));
            require(::chmod(path(suffixes[i]).c_str(), 0600) == 0);
        }
        try {
            inbox_.emplace(table_, options());
        } catch (const error&) {  // what is nobody's is left alone
            open();
            return;
        }
        require(inbox_->apply().status == outcome::empty, "no command of an earlier life is there");
        begin_life();
    }

    test::unique_directory folder_{"hf-fuzz", std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp"};
    test::scoped_environment registry_{"HOLDFAST_REGISTRY", folder_.file("registry")};
    table_of_entries table_;
    std::optional<table_inbox<table_of_entries>> inbox_;
    std::optional<hostile_file> queue_, consumer_, ring_;
    std::optional<inbox_client> client_;
    std::map<u64, u64> model_;
    std::vector<expected> waiting_;  // answers that are to come
    bool sound_ = true;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static world all;
    all.open();
    fuzz::for_each_step(std::as_bytes(std::span(data, size)), steps_max, [](const step& next) { all.take(next); });
    all.end();
    return 0;
}
