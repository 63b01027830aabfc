// SPDX-License-Identifier: Apache-2.0
// weak_rig.hpp - logical processes under a memory that is weaker than x86-64's: a load may give an older value than the
// last one stored, as long as nothing that the process knows forbids it.
//
// The model is that of views (release-acquire with relaxed accesses and fences; no values out of thin air, so load
// buffering does not occur). Each word keeps all values that were stored to it, in order. A process's view says, for
// each word, the oldest value that it may still load. An acquire load adds the view that came with the value; a release
// store sends the process's view along; fences do so for the relaxed accesses around them; sequentially consistent
// accesses and fences also meet in one view of all. A plain load of a word whose last store the process does not know
// to have happened is a data race, and a failure; so is a store to a word of which another's plain load is not known to
// be over.
// Random executions: which process goes on, and which of the possible values a load gives.
//
// A mutant is the same program with one place's memory order weakened to relaxed: orders arrive as parameters
// (access_hooks.hpp), so nothing is compiled anew. A place is the address behind the call.
//
// Model: Kang, Hur, Lahav, Vafeiadis, Dreyer, POPL 2017, doi:10.1145/3009837.3009850, without promises.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hooks/access_hooks.hpp"
#include "hooks/draws.hpp"
#include "hooks/fibers.hpp"

namespace holdfast::test {

/// Where an order stands in the program, and what it is.
struct order_place {
    const void* address = nullptr;
    memory_access kind = memory_access::load;
    std::memory_order order = std::memory_order_relaxed;
    friend auto operator<=>(const order_place&, const order_place&) = default;
};

class weak_rig final : access_listener, memory_listener {
 public:
    using process = void (*)(void* context, unsigned number);

    weak_rig(std::span<std::byte> image, unsigned processes)
        : image_(image), words_(image.size() / 8), lives_(processes), watch_(image, *this, this) {
        for (life& one : lives_) one.own = std::make_unique<fiber>();
    }
    weak_rig(const weak_rig&) = delete;
    weak_rig& operator=(const weak_rig&) = delete;
    ~weak_rig() = default;

    /// These places are relaxed from now on.
    void relax(std::set<const void*> places) { relaxed_ = std::move(places); }
    /// Places with an order that were passed so far.
    [[nodiscard]] const std::set<order_place>& places() const noexcept { return places_; }

    /// The running process waits: another goes on. Returns: false when all others are done.
    bool give_way() noexcept {
        for (unsigned i = 1; active_ && i < lives_.size(); ++i) {
            const unsigned other = (running_ + i) % static_cast<unsigned>(lives_.size());
            if (lives_[other].own->ended()) continue;
            next_ = other;
            lives_[running_].own->leave();
            return true;
        }
        return false;
    }

    /// One execution of each(context, i) for each process i, from what the image holds now. Returns: a data race, or
    /// nothing.
    std::string run(process each, void* context, std::uint64_t seed) {
        random_ = draws(seed);
        switch_one_in_ = std::uint64_t{1} << (1 + random_.below(6));
        stale_one_in_ = 1 + random_.below(4);
        forget();
        failure_.clear();
        run_ = each;
        context_ = context;
        for (unsigned i = 0; i < lives_.size(); ++i) {
            lives_[i].rig = this;
            lives_[i].number = i;
            lives_[i].own->begin(&weak_rig::live, &lives_[i]);
        }
        running_ = static_cast<unsigned>(random_.below(lives_.size()));
        active_ = true;
        for (unsigned left = static_cast<unsigned>(lives_.size()); left != 0;) {
            if (lives_[running_].own->ended()) {
                running_ = (running_ + 1) % static_cast<unsigned>(lives_.size());
                continue;
            }
            lives_[running_].own->resume();
            if (lives_[running_].own->ended()) --left;
            running_ = next_;
        }
        active_ = false;
        return failure_;
    }

 private:
    using view = std::vector<std::uint32_t>;  // by number of word: the oldest value that may be loaded
    struct message {
        std::uint64_t value = 0;  // of all but the last, which is in memory
        view sent;                // what comes with it
    };
    struct word {
        std::uint32_t number = 0;  // + 1; 0: not touched in this execution
        std::vector<message> stored;
        std::vector<std::uint32_t> loaded;  // by process: its clock at its last plain load
    };
    struct life {
        weak_rig* rig = nullptr;
        unsigned number = 0;
        std::unique_ptr<fiber> own;
        view now, acquired,
            released;  // what it knows; what an acquire fence would add; what its last release fence knew
        std::uint64_t accesses = 0;
    };

    static void live(void* context) noexcept {
        life& self = *static_cast<life*>(context);
        self.rig->run_(self.rig->context_, self.number);
        self.rig->next_ = self.number;
    }

    void forget() {
        for (const std::uint32_t at : touched_) words_[at] = {};
        touched_.clear();
        for (life& one : lives_) {
            one.now.clear();
            one.acquired.clear();
            one.released.clear();
            one.accesses = 0;
        }
        everybody_.clear();
    }
    static void join(view& into, const view& more) {
        if (into.size() < more.size()) into.resize(more.size(), 0);
        for (std::size_t i = 0; i < more.size(); ++i) into[i] = std::max(into[i], more[i]);
    }
    [[nodiscard]] static std::uint32_t oldest(const view& of, const word& w) {
        return w.number <= of.size() ? of[w.number - 1] : 0;
    }
    [[nodiscard]] static std::uint32_t clock(const view& of, unsigned process) {
        return process < of.size() ? of[process] : 0;
    }
    static void know(view& in, const word& w, std::uint32_t at) {
        if (in.size() < w.number) in.resize(w.number, 0);
        in[w.number - 1] = std::max(in[w.number - 1], at);
    }
    [[nodiscard]] word& word_of(const std::byte* at) {
        const auto index = static_cast<std::uint32_t>((at - image_.data()) / 8);
        word& found = words_[index];
        if (found.number == 0) {
            touched_.push_back(index);
            // The first entries of a view are the processes' clocks, which count their plain loads.
            found.number = static_cast<std::uint32_t>(touched_.size() + lives_.size());
            found.loaded.assign(lives_.size(), 0);
            found.stored.emplace_back();  // what was there in the beginning, known to all
        }
        return found;
    }
    [[nodiscard]] std::uint64_t in_memory(const std::byte* at) const {
        const access_unwatched rig_itself;
        std::uint64_t value;
        std::memcpy(&value, image_.data() + (at - image_.data()) / 8 * 8, 8);
        return value;
    }

    // Orders of this place.
    [[nodiscard]] std::memory_order ordered(memory_access kind, std::memory_order order, const void* place) {
        if (order == std::memory_order_relaxed) return order;
        places_.insert({place, kind, order});
        return relaxed_.contains(place) ? std::memory_order_relaxed : order;
    }
    [[nodiscard]] static bool acquires(std::memory_order order) noexcept {
        return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
               order == std::memory_order_seq_cst || order == std::memory_order_consume;
    }
    [[nodiscard]] static bool releases(std::memory_order order) noexcept {
        return order == std::memory_order_release || order == std::memory_order_acq_rel ||
               order == std::memory_order_seq_cst;
    }

    // Perhaps another process goes on first.
    void reach() noexcept {
        life& self = lives_[running_];
        ++self.accesses;
        if (!random_.one_in(self.accesses > patience ? 4 : switch_one_in_)) return;
        next_ = static_cast<unsigned>(random_.below(lives_.size()));
        if (next_ == running_ || lives_[next_].own->ended()) {
            next_ = running_;
            return;
        }
        self.own->leave();
    }

    void taken(life& self, const word& w, std::uint32_t at, std::memory_order order) {
        know(self.now, w, at);
        join(acquires(order) ? self.now : self.acquired, w.stored[at].sent);
        if (order == std::memory_order_seq_cst) know(everybody_, w, at);
    }
    // Appends a value; what it is, memory will say.
    void put(life& self, word& w, const std::byte* at, std::memory_order order, const view* passed_on) {
        for (const life& other : lives_)
            if (other.number != self.number && w.loaded[other.number] > clock(self.now, other.number) &&
                failure_.empty())
                failure_ = "a data race at byte " + std::to_string(at - image_.data()) + ", stored while it is loaded";
        w.stored.back().value = in_memory(at);
        const auto number = static_cast<std::uint32_t>(w.stored.size());
        know(self.now, w, number);
        message made;
        made.sent = releases(order) ? self.now : self.released;
        if (passed_on != nullptr) join(made.sent, *passed_on);
        know(made.sent, w, number);
        w.stored.push_back(std::move(made));
        if (order == std::memory_order_seq_cst) know(everybody_, w, number);
    }

    std::uint64_t load(const std::byte* at, std::size_t bytes, std::memory_order order,
                       const void* place) noexcept override {
        if (active_) reach();
        std::uint64_t value = in_memory(at);
        if (active_) {
            order = ordered(memory_access::load, order, place);
            life& self = lives_[running_];
            word& w = word_of(at);
            const auto last = static_cast<std::uint32_t>(w.stored.size() - 1);
            std::uint32_t from = oldest(self.now, w);
            if (order == std::memory_order_seq_cst) from = std::max(from, oldest(everybody_, w));
            std::uint32_t chosen = last;
            if (self.accesses < patience && from < last && random_.one_in(stale_one_in_))
                chosen = from + static_cast<std::uint32_t>(random_.below(last - from + 1));
            if (chosen != last) value = w.stored[chosen].value;
            taken(self, w, chosen, order);
        }
        value >>= 8 * (reinterpret_cast<std::uintptr_t>(at) % 8);
        return bytes == 8 ? value : value & ((std::uint64_t{1} << (8 * bytes)) - 1);
    }
    void store(std::byte* at, std::size_t bytes, std::uint64_t value, std::memory_order order,
               const void* place) noexcept override {
        if (active_) {
            reach();
            put(lives_[running_], word_of(at), at, ordered(memory_access::store, order, place), nullptr);
        }
        const access_unwatched rig_itself;
        std::memcpy(at, &value, bytes);
    }
    void before_update() noexcept override {
        if (active_) reach();
    }
    // Reads the last value, always.
    void update(std::byte* at, std::size_t, bool stores, std::memory_order order, const void* place) noexcept override {
        if (!active_) return;
        order = ordered(memory_access::update, order, place);
        life& self = lives_[running_];
        word& w = word_of(at);
        const auto last = static_cast<std::uint32_t>(w.stored.size() - 1);
        taken(self, w, last, order);
        if (!stores) return;
        const view passed_on = w.stored[last].sent;
        put(self, w, at, order, &passed_on);
    }
    void fence(std::memory_order order, const void* place) noexcept override {
        if (!active_) return;
        reach();
        order = ordered(memory_access::fence, order, place);
        if (order == std::memory_order_relaxed) return;
        life& self = lives_[running_];
        if (acquires(order)) join(self.now, self.acquired);
        if (order == std::memory_order_seq_cst) {
            join(self.now, everybody_);
            everybody_ = self.now;
        }
        if (releases(order)) self.released = self.now;
    }
    void before_load(const std::byte* at, std::size_t) noexcept override {
        if (!active_) return;
        reach();
        word& w = word_of(at);
        life& self = lives_[running_];
        if (self.now.size() < lives_.size()) self.now.resize(lives_.size(), 0);
        w.loaded[self.number] = ++self.now[self.number];
        if (oldest(self.now, w) + 1 != w.stored.size() && failure_.empty())
            failure_ = "a data race at byte " + std::to_string(at - image_.data());
    }
    // Plain stores are taken for relaxed ones: into what was claimed, they are allowed beside loads of words.
    void before_store(std::byte* at, std::size_t) noexcept override {
        if (!active_) return;
        reach();
        put(lives_[running_], word_of(at), at, std::memory_order_relaxed, nullptr);
    }

    static constexpr std::uint64_t patience = 3'000;

    std::span<std::byte> image_;
    std::vector<word> words_;
    std::vector<std::uint32_t> touched_;
    std::vector<life> lives_;
    view everybody_;  // of sequentially consistent accesses and fences
    std::set<const void*> relaxed_;
    std::set<order_place> places_;
    draws random_{0};
    std::uint64_t switch_one_in_ = 2, stale_one_in_ = 1;
    process run_ = nullptr;
    void* context_ = nullptr;
    unsigned running_ = 0, next_ = 0;
    bool active_ = false;
    std::string failure_;
    access_watch watch_;
};

}  // namespace holdfast::test
