// SPDX-License-Identifier: Apache-2.0
#include "workload/snapshot_suite.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "workload/background_writer.hpp"
#include "workload/snapshot_own.hpp"
#include "workload/targets.hpp"

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

/// Publishes one version, then waits for the next time of its schedule.
class paced_publisher {
 public:
    paced_publisher(snapshot_subject& subject, std::uint64_t hz) : subject_(&subject), period_(1'000'000'000 / hz) {}
    void operator()() {
        subject_->publish(1);
        const auto now = std::chrono::steady_clock::now();
        next_ = std::max(next_ + period_, now);  // what was missed while it rested is not made up for
        while (std::chrono::steady_clock::now() < next_) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
    }

 private:
    snapshot_subject* subject_;
    std::chrono::nanoseconds period_;
    std::chrono::steady_clock::time_point next_{};
};

class object_size {
 public:
    object_size(const std::vector<snapshot_kind>& kinds, std::size_t bytes, recorder& to)
        : kinds_(kinds), bytes_(bytes), to_(to) {}

    void run() {
        const std::string beside = ", beside " + std::to_string(publishes_a_second(bytes_)) + " publishes a second";
        const struct {
            std::string title;
            void (snapshot_subject::*loop)(std::uint64_t);
            bool writer;
        } plans[] = {{"copy the object", &snapshot_subject::read, false},
                     {"copy the object" + beside, &snapshot_subject::read, true},
                     {"look at the object in place", &snapshot_subject::look, false},
                     {"look at the object in place" + beside, &snapshot_subject::look, true},
                     {"publish, nobody reads", &snapshot_subject::publish, false}};
        for (const auto& p : plans) {
            const std::string name = p.title + ", " + bytes_text(bytes_);
            if (to_.wants(name)) measure(name, p.loop, p.writer);
        }
    }

 private:
    void measure(const std::string& name, void (snapshot_subject::*loop)(std::uint64_t), bool with_writer) {
        experiment e;
        e.name = name;
        if (loop == &snapshot_subject::read && !with_writer) e.published = {published()};
        std::vector<std::unique_ptr<snapshot_subject>> objects;
        std::vector<std::unique_ptr<background_writer::job>> jobs;
        std::unique_ptr<background_writer> writer;
        if (with_writer) writer = std::make_unique<background_writer>();
        for (const snapshot_kind& kind : kinds_) {
            const auto& only = to_.options().only;
            const bool ours = &kind == &kinds_.front();
            if (!ours && !only.empty() && std::find(only.begin(), only.end(), kind.name) == only.end()) continue;
            objects.push_back(kind.make(bytes_ / sizeof(std::uint64_t)));
            snapshot_subject* const object = objects.back().get();
            object->read(100);  // verified before anything is timed
            object->look(100);
            perf_test::subject s;
            s.name = kind.name;
            s.run = [object, loop](std::uint64_t operations) { (object->*loop)(operations); };
            if (with_writer) {
                jobs.push_back(
                    std::make_unique<background_writer::job>(paced_publisher(*object, publishes_a_second(bytes_))));
                s.prepare = [&writer, job = jobs.back().get()] { writer->work_on(*job); };
            }
            e.subjects.push_back(std::move(s));
        }
        const sampled found = run_sampled(to_, e);
        if (writer) writer->rest();
        if (loop == &snapshot_subject::read && found.timed(0)) targets(name, found, with_writer);
    }

    /// The loops throw when an object is torn, so what comes here has met none.
    void targets(const std::string& name, const sampled& found, bool with_writer) {
        const double median = median_of(found.samples.front());
        if (bytes_ == sizes[0])
            to_.note("target: " + name + " in at most 3 ns: " + fixed_text(median, 2) + " ns" + verdict(median <= 3));
        if (with_writer) to_.note("target: " + name + ", no torn object: none among all reads" + verdict(true));
        if (!with_writer) note_if_any(to_, beside_published_text(name, found.samples.front(), published()));
    }

    const std::vector<snapshot_kind>& kinds_;
    const std::size_t bytes_;
    recorder& to_;
};

}  // namespace

std::vector<snapshot_kind> own_snapshot_kinds() {
    return {snapshot_kind_of<own_snapshot>(), snapshot_kind_of<own_pinned_snapshot>(),
            snapshot_kind_of<shared_pointer_snapshot>(), snapshot_kind_of<locked_snapshot>()};
}

suite snapshot_suite(std::vector<snapshot_kind> kinds) {
    suite s;
    s.name = "snapshot";
    s.description = "published objects of 16 bytes to 1 MiB: copied, looked at in place, with and without a writer";
    s.run = [kinds = std::move(kinds)](recorder& to) {
        for (const snapshot_kind& kind : kinds) to.version(kind.name, kind.version);
        if (std::thread::hardware_concurrency() < 2)
            to.note("one core: readers and the writer take turns, which says little about readers beside a writer");
        const std::size_t count = to.options().quick ? quick_sizes : std::size(sizes);
        for (std::size_t i = 0; i < count; ++i) object_size(kinds, sizes[i], to).run();
    };
    return s;
}

}  // namespace holdfast::workload
