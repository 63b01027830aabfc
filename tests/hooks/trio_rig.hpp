// SPDX-License-Identifier: Apache-2.0
// trio_rig.hpp - three logical processes in one thread under a schedule: schedule_rig.hpp's, with one process more and
// without its search.
//
// A schedule is an order of the three: the first that is not done or dead runs. In front of some accesses, counted over
// all, another order takes its place, which is a pre-emption; and in front of one the running process may die. "120"
// begins with process 1; "120@17>012x63" goes over to process 0 in front of access 17, and it dies in front of access
// 63. A process that waits is made to yield to the next of the order, which is no pre-emption.
//
// Tried are the six orders with each death, each single pre-emption in front of an access to a word that two processes
// share and one stores to, by all four orders that begin with another process, and of two pre-emptions, and of one with
// a death, a random part. Nothing is merged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hooks/access_hooks.hpp"
#include "hooks/fibers.hpp"
#include "hooks/interleaving.hpp"

namespace holdfast::test {

struct trio_schedule {
    using turns = std::array<std::uint8_t, 3>;
    turns first{0, 1, 2};
    std::vector<std::pair<std::uint32_t, turns>> preempted;  // in front of these accesses, by these orders
    std::optional<std::uint32_t> killed;                     // in front of this one, behind the last pre-emption

    [[nodiscard]] std::string name() const;
    /// What name() gave.
    [[nodiscard]] static trio_schedule named(const char* text);
};

class trio_rig final : access_listener, scheduler {
 public:
    /// A subject of three processes.
    explicit trio_rig(interleaving& subject);
    trio_rig(const trio_rig&) = delete;
    trio_rig& operator=(const trio_rig&) = delete;
    ~trio_rig();  // the image is as it was

    /// One schedule. Returns: what went wrong, or nothing.
    std::string run(const trio_schedule& how);

    /// Accesses of the last schedule, in order.
    struct step {
        std::uint32_t word;
        std::uint8_t process;
        bool stores;
    };
    [[nodiscard]] const std::vector<step>& steps() const noexcept { return steps_; }

 private:
    struct life {
        trio_rig* rig;
        unsigned process;
        std::uint64_t accesses;
    };

    void restore();
    void begin(const trio_schedule& how);
    static void live(void* context) noexcept;
    [[nodiscard]] bool over(unsigned process) const noexcept;
    [[nodiscard]] std::optional<unsigned> next_of_order() const noexcept;
    std::string judgement();
    void bury();

    void before_store(std::byte* at, std::size_t) noexcept override { reach(at, true); }
    void before_load(const std::byte* at, std::size_t) noexcept override { reach(at, false); }
    void reach(const std::byte* at, bool stores) noexcept;
    void die(unsigned self) noexcept;
    void wait(unsigned self) noexcept;
    bool go_over_to(std::optional<unsigned> other, unsigned self) noexcept;
    [[nodiscard]] std::optional<unsigned> next_behind(unsigned self) const noexcept;
    bool give_way() noexcept override;

    interleaving& subject_;
    std::span<std::byte> image_;
    std::vector<std::byte> base_, grave_;
    std::array<fiber, 3> fibers_;
    std::array<life, 3> process_{};
    const trio_schedule* how_ = nullptr;
    trio_schedule::turns order_{};
    std::vector<step> steps_;
    std::size_t next_preemption_ = 0;
    unsigned running_ = 0;
    std::optional<unsigned> dead_;
    bool active_ = false;
    std::string failure_;
    access_watch watch_;
};

struct trio_report {
    std::uint64_t schedules = 0;                        // run without a death
    std::uint64_t deaths = 0;                           // run with one
    std::uint64_t one_in_pairs = 1, one_in_deaths = 1;  // of the random parts, about one in so many
    std::string failure;                                // of the first schedule that failed, with its name
};

/// See above; `most`: of either random part, about so many.
trio_report explore_trio(interleaving& subject, std::uint64_t most, std::uint64_t seed);

}  // namespace holdfast::test
