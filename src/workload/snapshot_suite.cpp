// SPDX-License-Identifier: Apache-2.0
#include "workload/snapshot_suite.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/perf_test/environment.hpp"
#include "workload/room.hpp"
#include "workload/run_names.hpp"
#include "workload/snapshot_own.hpp"
#include "workload/targets.hpp"
#include "workload/two_sided.hpp"

namespace holdfast::workload {

namespace {

constexpr std::size_t sizes[] = {16, 4096, 256, 65'536, 1'048'576};
constexpr std::size_t quick_sizes = 2;

[[nodiscard]] published_figure published() {
    return {"lock-free double buffer, calls of an API that reads it, all callers together", 2.6e9, "calls/s",
            "a recommender's configuration in shared memory; machines and reads not said"};
}

[[nodiscard]] std::string bytes_text(std::size_t bytes) {
    if (bytes >= 1'048'576) return std::to_string(bytes / 1'048'576) + " MiB";
    return bytes >= 1024 ? std::to_string(bytes / 1024) + " KiB" : std::to_string(bytes) + " bytes";
}

/// A pace that leaves every peer time to read: a writer at full speed would keep the readers of a sequence lock out.
[[nodiscard]] std::uint64_t publishes_a_second(std::size_t bytes) { return bytes <= 4096 ? 100'000 : 1'000; }

/// At full speed the readers of a sequence lock find no gap once an object has more than a line or two.
[[nodiscard]] bool is_tried_at_full_speed(std::size_t bytes) { return bytes == sizes[0]; }

class snapshot_run {
 public:
    snapshot_run(const std::vector<snapshot_kind>& kinds, const two_cores& cores, recorder& to)
        : kinds_(kinds), cores_(cores), to_(to) {}

    void run(std::size_t bytes) {
        const std::uint64_t pace = publishes_a_second(bytes);
        const std::string of = ", " + bytes_text(bytes),
                          beside = " beside " + std::to_string(pace) + " publishes a second";
        const struct {
            std::string title;
            loop what;
            std::optional<std::uint64_t> pace = std::nullopt;  // of the writer meanwhile; nothing: it rests
        } plans[] = {{"copy the object" + of, loop::copy},
                     {"copy the object," + beside + of, loop::copy, pace},
                     {"copy the object, beside a writer at full speed" + of, loop::copy, 0},
                     {"look at the object in place" + of, loop::look},
                     {"look at the object in place," + beside + of, loop::look, pace},
                     {"publish, nobody reads" + of, loop::publish}};
        bool wanted[std::size(plans)]{}, any = false;
        for (std::size_t i = 0; i < std::size(plans); ++i) {
            if (plans[i].pace == 0U && !is_tried_at_full_speed(bytes)) continue;
            wanted[i] = to_.wants(plans[i].title);
            any = any || wanted[i];
        }
        if (!any) return;
        // Ours with its slots below /dev/shm, some kinds of it, and one more of a peer; the others' in private memory.
        const std::uint64_t each = 5 * static_cast<std::uint64_t>(bytes) + (1 << 20);
        if (const std::string lacking = lacking_room({2 * kinds_.size() * each, kinds_.size() * each});
            !lacking.empty())
            return to_.skip("objects of " + bytes_text(bytes), lacking);
        const perf_test::cpu_pin pin(cores_.near);
        build(bytes);
        for (std::size_t i = 0; i < std::size(plans); ++i) {
            if (!wanted[i]) continue;
            const sampled found = plans[i].what != loop::publish && !plans[i].pace
                                      ? alone(plans[i].title, plans[i].what)
                                      : two_sided(plans[i].title, plans[i].what, plans[i].pace);
            if (plans[i].what == loop::copy && found.timed(0)) targets(plans[i].title, found, bytes, plans[i].pace);
        }
        objects_.clear();
    }

 private:
    enum class loop : std::uint8_t { copy, look, publish };
    struct contender {
        std::string name;
        std::unique_ptr<snapshot_subject> object;
    };

    void build(std::size_t bytes) {
        if (!names_) names_.emplace("snapshot");
        for (const snapshot_kind& kind : kinds_) {
            if (!is_wanted_subject(to_.options(), kind.name, &kind == &kinds_.front())) continue;
            auto object = kind.make({.words = bytes / sizeof(std::uint64_t),
                                     .name = names_->prefix() + "-" + std::to_string(made_++),
                                     .far_cpu = cores_.far});
            if (!object) continue;
            object->open_and_verify();
            objects_.push_back({kind.name, std::move(object)});
        }
    }

    static void run_loop(snapshot_subject& object, loop what, std::uint64_t times) {
        switch (what) {
            case loop::copy: return object.read(times);
            case loop::look: return object.look(times);
            case loop::publish: return object.publish(times);
        }
    }

    /// The writers' processes rest.
    sampled alone(const std::string& name, loop what) {
        experiment e;
        e.name = name;
        if (what == loop::copy) e.published = {published()};
        for (const contender& c : objects_) {
            snapshot_subject* const object = c.object.get();
            e.subjects.push_back({c.name, [object, what](std::uint64_t times) { run_loop(*object, what, times); },
                                  [object, what] { run_loop(*object, what, 100); }, 0});
        }
        return run_sampled(to_, e);
    }

    /// With the writer's process at work on the other core, and the way between the cores looked at all the time.
    sampled two_sided(const std::string& name, loop what, std::optional<std::uint64_t> pace) {
        sampled found;
        std::vector<two_sided_subject> subjects;
        for (const contender& c : objects_) {
            snapshot_subject* const object = c.object.get();
            found.names.push_back(c.name);
            subjects.push_back({c.name, &object->far(), [object, what, pace](std::uint64_t times) {
                                    if (pace) object->begin_publishing(*pace);
                                    const auto begin = std::chrono::steady_clock::now();
                                    run_loop(*object, what, times);
                                    const std::chrono::duration<double, std::nano> took =
                                        std::chrono::steady_clock::now() - begin;
                                    return took.count();
                                }});
        }
        two_sided_result timed = measure_two_sided(subjects, two_sided_timing(to_.options()));
        to_.add(name, "ns", found.names, timed.samples, false);
        to_.note(name + ": " + line_text(timed));
        found.samples = std::move(timed.samples);
        return found;
    }

    /// The loops throw when an object is torn, so what comes here has met none.
    void targets(const std::string& name, const sampled& found, std::size_t bytes, std::optional<std::uint64_t> pace) {
        for (std::size_t i = 0; i < found.names.size() && bytes == sizes[0]; ++i) {
            if (!found.timed(i) || !found.names[i].starts_with("holdfast")) continue;  // every form of ours
            const double median = median_of(found.samples[i]);
            to_.note("target: " + name + ", " + found.names[i] + ", in at most 3 ns: " + fixed_text(median, 2) + " ns" +
                     verdict(median <= 3));
        }
        if (pace) to_.note("target: " + name + ", no torn object: none among all reads" + verdict(true));
        if (!pace) note_if_any(to_, beside_published_text(name, found.samples.front(), published()));
    }

    const std::vector<snapshot_kind>& kinds_;
    const two_cores cores_;
    recorder& to_;
    std::optional<run_names> names_;  // once something is made
    unsigned made_ = 0;
    std::vector<contender> objects_;
};

}  // namespace

std::vector<snapshot_kind> own_snapshot_kinds() {
    return {snapshot_kind_of<own_snapshot>(),
            snapshot_kind_of<own_snapshot_record>(),
            snapshot_kind_of<own_snapshot_slots>(),
            snapshot_kind_of<own_pinned_snapshot>(),
            snapshot_kind_of<shared_pointer_snapshot>(),
            snapshot_kind_of<locked_snapshot>()};
}

suite snapshot_suite(std::vector<snapshot_kind> kinds) {
    suite s;
    s.name = "snapshot";
    s.description = "published objects of 16 bytes to 1 MiB: copied and looked at alone and beside a writer's process";
    s.run = [kinds = std::move(kinds)](recorder& to) {
        for (const snapshot_kind& kind : kinds) to.version(kind.name, kind.version);
        const two_cores cores = pick_two_cores();
        if (!cores.there) return to.skip("all of it", "it takes two processors, and this process may use one");
        snapshot_run run(kinds, cores, to);
        const std::size_t count = to.options().quick ? quick_sizes : std::size(sizes);
        for (std::size_t i = 0; i < count; ++i) run.run(sizes[i]);
    };
    return s;
}

}  // namespace holdfast::workload
