// SPDX-License-Identifier: Apache-2.0
// store_rig.hpp - a death at every store of random histories, by the million: in front of each store that an operation
// makes into an image, and behind its last, the image is what a death would leave there. It is looked at, taken over,
// checked and gone on with in the very place; then all bytes that this changed are put back and the operation goes on.
//
// Nothing is copied and no process is forked: an undo log of the stores (access_hooks.hpp reports each, with the bytes
// still as they were) takes a few dozen words back. A takeover is an operation like any other, so the same happens at
// its stores, and at those of the takeover of a takeover: deaths in recovery, two deep.
// Stepping the release binary by ptrace (support/single_step.hpp) remains the ground truth for what stores there are
// and in which order; this is the volume.
//
//   operate(run, check)          run() dies at each of its stores; check() judges the image
//   in check():
//     (nothing else)             looks only: a store is a failure
//     recover(run, check)        run() takes over; it dies at each of its stores, too, now and then
//     go_on(run)                 run() may store, without dying
//
// What the rig itself must not miss: a store that is not reported. After an operation the reported places must explain
// every byte that changed, and after undoing a check the image must be what it was; both are compared now and then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hooks/access_hooks.hpp"
#include "hooks/draws.hpp"

namespace holdfast::test {

/// What was tried. An empty failure means that every check passed.
struct store_report {
    std::array<std::uint64_t, 3> points{};  // deaths in operations, in recoveries, in recoveries of recoveries
    std::uint64_t histories = 0;
    std::uint64_t operations = 0;
    std::uint64_t stores = 0;  // of the operations
    std::uint64_t undone = 0;  // of the checks
    std::string failure;

    [[nodiscard]] std::uint64_t all_points() const noexcept { return points[0] + points[1] + points[2]; }
};

/// How often a recovery is made to die: one in so many deaths of the level above.
struct store_rig_options {
    std::uint64_t second_death = 2;
    std::uint64_t third_death = 8;
};

class store_rig final : store_listener {
 public:
    /// Requires: image 8-byte aligned, and outlives this.
    store_rig(std::span<std::byte> image, std::uint64_t seed, store_rig_options options, store_report& report)
        : image_(image), options_(options), random_(seed), report_(report), watch_(image, *this) {
        log_.reserve(1U << 16);
        before_.resize(image.size());
        shadow_.resize(image.size());
    }
    store_rig(const store_rig&) = delete;
    store_rig& operator=(const store_rig&) = delete;
    ~store_rig() = default;

    [[nodiscard]] bool failed() const noexcept { return !report_.failure.empty(); }
    void fail(const std::string& why) {
        if (failed()) return;
        report_.failure = why + " (operation " + std::to_string(report_.operations) + ", store " +
                          std::to_string(log_.size()) + ", " + std::to_string(level_) + " deaths deep)";
    }

    /// Runs an operation that dies at each of its stores; check() says what is wrong with the image there, or nothing.
    template <class Run, class Check>
    void operate(Run&& run, Check&& check) {
        ++report_.operations;
        const bool audit = random_.one_in(16);
        if (audit) keep(shadow_);
        log_.clear();
        {
            const frame here(*this, mode::dying, check);
            run();
            point();
        }
        report_.stores += log_.size();
        if (audit && !failed()) explain_changes();
    }

    /// For check(): takes over by run(), which now and then dies at each of its stores.
    template <class Run, class Check>
    void recover(Run&& run, Check&& check) {
        const bool die = level_ < report_.points.size() &&
                         random_.one_in(level_ == 1 ? options_.second_death : options_.third_death);
        const frame here(*this, die ? mode::dying : mode::storing, check);
        run();
        if (die) point();
    }
    /// For check(): run() may store.
    template <class Run>
    void go_on(Run&& run) {
        const nothing check;
        const frame here(*this, mode::storing, check);
        run();
    }
    /// For check(): how many stores that change a byte run() makes.
    template <class Run>
    [[nodiscard]] std::uint64_t changes_by(Run&& run) {
        const std::size_t from = log_.size();
        go_on(run);
        std::uint64_t changes = 0;
        for (std::size_t i = from; i < log_.size(); ++i) changes += log_[i].changed() ? 1U : 0U;
        return changes;
    }
    [[nodiscard]] draws& random() noexcept { return random_; }

 private:
    enum class mode { off, dying, looking, storing };
    struct entry {
        std::byte* at;
        std::uint64_t old;
        std::size_t bytes;
        [[nodiscard]] bool changed() const noexcept { return std::memcmp(at, &old, bytes) != 0; }
    };
    struct nothing {
        std::string operator()() const { return {}; }
    };

    // What is being run and how its images are judged; the former come back at the end.
    class frame {
     public:
        template <class Check>
        frame(store_rig& rig, mode now, const Check& check) noexcept
            : rig_(rig),
              former_(rig.mode_),
              former_check_(rig.check_),
              former_object_(rig.check_object_),
              former_looked_(rig.looked_) {
            rig.mode_ = now;
            rig.looked_ = rig.log_.size();
            rig.check_object_ = &check;
            rig.check_ = [](const void* object) { return std::string((*static_cast<const Check*>(object))()); };
        }
        frame(const frame&) = delete;
        frame& operator=(const frame&) = delete;
        ~frame() {
            rig_.mode_ = former_;
            rig_.check_ = former_check_;
            rig_.check_object_ = former_object_;
            rig_.looked_ = former_looked_;
        }

     private:
        store_rig& rig_;
        mode former_;
        std::string (*former_check_)(const void*);
        const void* former_object_;
        std::size_t former_looked_;
    };

    void before_store(std::byte* at, std::size_t bytes) noexcept override {
        if (mode_ == mode::off) return;
        if (mode_ == mode::looking) fail("a look stored to the image");
        if (mode_ == mode::dying) point();
        entry made{at, 0, bytes};
        std::memcpy(&made.old, at, bytes);
        log_.push_back(made);
    }

    // A death here.
    void point() noexcept {
        bool changed = false;  // since the last one, or since the beginning
        for (; looked_ < log_.size() && !changed; ++looked_) changed = log_[looked_].changed();
        looked_ = log_.size();
        if (!changed || failed()) return;
        ++report_.points[level_];
        const bool audit = random_.one_in(64) && level_ == 0;
        if (audit) keep(before_);
        const std::size_t mark = log_.size();
        ++level_;
        mode_ = mode::looking;
        std::string why;
        try {
            why = check_(check_object_);
        } catch (const std::exception& e) {
            why = std::string("the check threw: ") + e.what();
        }
        if (!why.empty()) fail(why);
        --level_;
        mode_ = mode::dying;
        report_.undone += log_.size() - mark;
        const access_unwatched rig_itself;
        while (log_.size() > mark) {
            std::memcpy(log_.back().at, &log_.back().old, log_.back().bytes);
            log_.pop_back();
        }
        if (audit && std::memcmp(before_.data(), image_.data(), image_.size()) != 0)
            fail("the rig missed a store of a check");
    }

    void keep(std::vector<std::byte>& copy) const {
        const access_unwatched rig_itself;
        std::memcpy(copy.data(), image_.data(), image_.size());
    }
    void explain_changes() {
        const access_unwatched rig_itself;
        for (const entry& e : log_) std::memcpy(shadow_.data() + (e.at - image_.data()), e.at, e.bytes);
        if (std::memcmp(shadow_.data(), image_.data(), image_.size()) != 0) fail("the rig missed a store");
    }

    std::span<std::byte> image_;
    store_rig_options options_;
    draws random_;
    store_report& report_;
    mode mode_ = mode::off;
    unsigned level_ = 0;
    std::string (*check_)(const void*) = nullptr;
    const void* check_object_ = nullptr;
    std::size_t looked_ = 0;  // stores of this run that the last death saw
    std::vector<entry> log_;
    std::vector<std::byte> before_, shadow_;
    access_watch watch_;
};

/// Histories of Subject(seed) until `points` deaths were tried or one was not survived. Subject has image(), next(rig),
/// which draws an operation and runs it by rig.operate() and says what failed beside it, and `length`, operations a
/// history.
template <class Subject>
[[nodiscard]] store_report crash_histories(std::uint64_t seed, std::uint64_t points,
                                           const store_rig_options& options = {}) {
    store_report report;
    for (std::uint64_t history_seed = seed; report.all_points() < points && report.failure.empty();
         history_seed = draws(history_seed)()) {
        ++report.histories;
        Subject subject(history_seed);
        store_rig rig(subject.image(), history_seed, options, report);
        for (unsigned i = 0; i < Subject::length && report.all_points() < points && !rig.failed(); ++i) {
            try {
                if (std::string why = subject.next(rig); !why.empty()) rig.fail(why);
            } catch (const std::exception& e) {
                rig.fail(std::string("the operation threw: ") + e.what());
            }
        }
        if (rig.failed()) report.failure += "; repeat with HOLDFAST_TEST_SEED=" + std::to_string(history_seed);
    }
    return report;
}

}  // namespace holdfast::test
