// SPDX-License-Identifier: Apache-2.0
// schedule_rig.hpp - two logical processes in one thread under a schedule that says who goes on when, and who dies.
//
// Each process is a fiber that can be stopped in front of each access (access_hooks.hpp). A schedule says which process
// begins and at which accesses, counted over both, the running one is pre-empted; else a process runs until it is done.
// A schedule with a death says at which access the running process ends for good; the other then runs to its end.
// Each schedule begins at the same beginning and is repeated by its name alone, such as "0@17@42x63": process 0 begins,
// pre-emptions in front of accesses 17 and 42, death in front of access 63. Which ones are tried: schedule_search.hpp.
//
// A subject can have process 0 die in front of a store and another come in its place at once, as the same process of
// the schedule: interleaving::die_in_front_of().
//
// A process that takes very many accesses without coming to an end waits for the other, and is then made to yield,
// which is no pre-emption; if the other is dead or done, it hangs: a failure. Memory is sequentially consistent here:
// this is about interleavings and deaths, not about memory orders.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hooks/access_hooks.hpp"
#include "hooks/fibers.hpp"
#include "hooks/interleaving.hpp"
#include "hooks/trace_state.hpp"

namespace holdfast::test {

struct schedule {
    unsigned first = 0;
    std::vector<std::uint32_t> preempted;  // in front of these accesses
    std::optional<std::uint32_t> killed;   // in front of this one, behind the last pre-emption

    [[nodiscard]] std::string name() const;
    /// What name() gave.
    [[nodiscard]] static schedule named(const char* text);
};

class schedule_rig final : access_listener, scheduler {
 public:
    explicit schedule_rig(interleaving& subject);
    schedule_rig(const schedule_rig&) = delete;
    schedule_rig& operator=(const schedule_rig&) = delete;
    ~schedule_rig();  // the image is as it was

    /// Called when both have come to their end, in front of the judgement, with state().
    void at_each_end(std::function<void(std::uint64_t)> look) { at_each_end_ = std::move(look); }
    /// One schedule. Returns: what went wrong, or nothing.
    std::string run(const schedule& how);
    /// One schedule, to the end of both processes. Once, then: verdict().
    void execute(const schedule& how);
    /// What went wrong, or nothing; if asked, by the subject's judgement of the end, too.
    std::string verdict(bool judged = true);

    /// Accesses of the last schedule, in order.
    struct step {
        std::uint64_t state;  // both processes' in front of it (trace_state.hpp)
        std::uint32_t word;
        std::uint8_t process;
        bool stores;
    };
    [[nodiscard]] const std::vector<step>& steps() const noexcept { return steps_; }
    /// Of both processes, now.
    [[nodiscard]] std::uint64_t state() const noexcept { return state_.number(); }
    /// At the last pre-emption; nothing if that access was never reached.
    [[nodiscard]] std::optional<std::uint64_t> preempted_in() const noexcept { return preempted_in_; }
    /// Schedules in which the subject's own death of process 0 was met.
    [[nodiscard]] std::uint64_t falls() const noexcept { return falls_; }
    /// Words of the image.
    [[nodiscard]] std::size_t words() const noexcept { return (image_.size() + 7) / 8; }

 private:
    struct life {
        schedule_rig* rig;
        unsigned process;
        std::uint64_t accesses;
        std::uint32_t stores;
    };

    void restore();
    void begin(const schedule& how);
    static void live(void* context) noexcept;
    static void live_on(void* context) noexcept;
    [[nodiscard]] bool over(unsigned process) const noexcept;
    void bury();
    std::string judgement();

    void before_store(std::byte* at, std::size_t) noexcept override { reach(at, true); }
    void before_load(const std::byte* at, std::size_t) noexcept override { reach(at, false); }
    void reach(const std::byte* at, bool stores) noexcept;
    void die(unsigned self) noexcept;
    void fall() noexcept;
    void wait(unsigned self) noexcept;
    bool yield(unsigned self) noexcept;
    bool give_way() noexcept override;
    void meet() noexcept override;

    interleaving& subject_;
    std::span<std::byte> image_;
    std::vector<std::byte> base_, grave_, fallen_grave_;
    trace_state state_;
    std::array<fiber, 3> fibers_;  // the third: who comes after process 0
    std::array<fiber*, 2> running_as_{};
    std::array<life, 2> process_{};
    const schedule* how_ = nullptr;
    std::vector<step> steps_;
    std::size_t next_preemption_ = 0;
    std::optional<std::uint64_t> preempted_in_;
    unsigned running_ = 0;
    std::optional<unsigned> dead_;
    bool active_ = false, fallen_ = false;
    std::uint64_t falls_ = 0;
    std::string failure_;
    std::function<void(std::uint64_t)> at_each_end_;
    access_watch watch_;
};

}  // namespace holdfast::test
