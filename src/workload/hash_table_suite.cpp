// SPDX-License-Identifier: Apache-2.0
// One data set after the other: its keys, a table of each kind, the experiments that want it, and away with it.
#include "workload/hash_table_suite.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/memory/page_policy.hpp"
#include "holdfast/perf_test/environment.hpp"
#include "workload/background_writer.hpp"
#include "workload/far_side.hpp"
#include "workload/hash_table_fills.hpp"
#include "workload/hash_table_growth.hpp"
#include "workload/hash_table_targets.hpp"
#include "workload/hash_table_writers.hpp"
#include "workload/keys.hpp"
#include "workload/memory_chase.hpp"
#include "workload/processors.hpp"
#include "workload/room.hpp"
#include "workload/sample_rounds.hpp"

namespace holdfast::workload {

namespace {

using keys = hash_table_subject::keys;

struct set_size {
    std::uint64_t entries;
    std::size_t entry_bytes;
    page_choice pages;

    [[nodiscard]] std::string text() const {
        return count_text(entries) + " entries of " + std::to_string(entry_bytes) + " bytes, " + text_of(pages);
    }
};

constexpr set_size sizes[] = {
    {10'000, 16, page_choice::small},     {1'000'000, 16, page_choice::small}, {10'000, 64, page_choice::small},
    {1'000'000, 16, page_choice::huge},   {1'000'000, 64, page_choice::small}, {1'000'000, 64, page_choice::huge},
    {20'000'000, 16, page_choice::small}, {20'000'000, 16, page_choice::huge}, {20'000'000, 64, page_choice::small},
    {20'000'000, 64, page_choice::huge},
};
constexpr std::size_t quick_sizes = 2;
constexpr set_size not_run[] = {{10'000, 16, page_choice::huge}, {10'000, 64, page_choice::huge}};

/// Sets that one might look for, for filters that name them.
void tell_what_is_not_run(recorder& to) {
    for (const set_size& one : not_run)
        if (one.text().find(to.options().filter) != std::string::npos)
            to.skip(one.text(), "such a table is smaller than one huge page");
}

constexpr std::uint64_t fits_in_cache = 100'000;         // warmed by a piece of the walk before each batch
constexpr std::uint64_t grows_from = 1'000'000;          // a smaller table's growth is over in some hundred operations
constexpr std::uint64_t fits_in_last_cache = 2'000'000;  // a batch is a quarter of the walk, after another quarter

constexpr const char* published_source =
    "C++ library for containers in shared memory, its description of the multi-level table; another machine";

[[nodiscard]] std::vector<published_figure> published_find(bool hit) {
    if (hit)
        return {{"classic table, 50 levels", 500, "ns", published_source},
                {"geometric table", 50, "ns", published_source},
                {"many-level table in shared memory", 66.7, "ns", published_source}};
    return {{"classic table, 50 levels", 1000, "ns", published_source},
            {"geometric table (3 to 4 times the classic's rate)", 286, "ns", published_source}};
}

/// A table that the experiments work on.
struct contender {
    std::string name;
    std::unique_ptr<hash_table_subject> table;
};

/// Where a thread beside the one that is timed is tied to.
[[nodiscard]] std::optional<unsigned> other_processor(const two_cores& cores) {
    return cores.there ? std::optional(cores.far) : std::nullopt;
}

/// Ties this thread to the other one: behind the start of that thread, which would inherit it.
class tie_to_near {
 public:
    explicit tie_to_near(const two_cores& cores) {
        if (cores.there) pin_.emplace(cores.near);
    }

 private:
    std::optional<perf_test::cpu_pin> pin_;
};

/// What the writer of a table does beside what is timed.
struct steady_work {
    std::string of;
    std::uint64_t keys = 0;
    double seconds = 0;
};

/// What precedes a batch of reads beside a writer. The lookups that warm a table take no lock, and with one 20,000 of
/// them can take a second: who needs it is warmed while the writer rests. Requires: writer and job outlive it.
[[nodiscard]] std::function<void()> beside(background_writer& writer, const background_writer::job& job, bool lock_free,
                                           std::function<void()> warm) {
    return [&writer, &job, lock_free, warm = std::move(warm)] {
        if (!lock_free) writer.rest();
        if (!lock_free && warm) warm();
        writer.work_on(job);
        if (lock_free && warm) warm();
    };
}

using slice_loop = std::uint64_t (hash_table_subject::*)(keys);

/// Everything of one size: built when asked for, gone with the object.
class data_set {
 public:
    data_set(const std::vector<hash_table_kind>& kinds, const set_size& size, recorder& to)
        : kinds_(kinds), size_(size), to_(to), targets_(size.entries, size.pages, to) {}

    void run();

 private:
    [[nodiscard]] std::string name(const char* what) const { return std::string(what) + ", " + size_.text(); }
    [[nodiscard]] bool large() const { return size_.entries > fits_in_last_cache; }
    [[nodiscard]] keys present() const { return keys(all_).first(size_.entries); }
    [[nodiscard]] keys absent() const { return keys(all_).subspan(size_.entries); }

    void build();
    void fill();
    void check();
    void note_pages();
    [[nodiscard]] std::vector<table_filling> fillings() const;
    void measure_fill();
    void measure_find(const char* what, bool hit, slice_loop loop);
    void measure_chain();
    void measure_update();
    void measure_erase();
    void measure_churn();
    void measure_beside_writer();
    void measure_readers();
    void note_memory();

    [[nodiscard]] perf_test::subject walking(const contender& c, keys questions, slice_loop loop, bool found) const;

    const std::vector<hash_table_kind>& kinds_;
    const set_size size_;
    recorder& to_;
    const hash_table_targets targets_;
    std::vector<std::uint64_t> all_;  // present ones, then as many absent ones
    std::vector<std::uint64_t> hits_, misses_;
    std::vector<contender> contenders_;
};

// What a set is asked, in this order: those behind `churn` would find other keys than they look for.
constexpr const char* titles[] = {"insert until full",
                                  "find hit, independent",
                                  "find miss, independent",
                                  "find hit, dependent",
                                  "find hit, batches of 16",
                                  "find miss, batches of 16",
                                  "update",
                                  "find hit beside a writer at full speed",
                                  "find hit, several readers at once",
                                  "erase",
                                  "erase one and insert another",
                                  "memory of an entry"};

void data_set::run() {
    bool wanted = false;
    for (const char* title : titles) wanted = to_.wants(name(title)) || wanted;
    if (!wanted) return;
    build();
    if (contenders_.empty()) return;
    measure_fill();
    fill();
    check();
    note_pages();
    note_memory();
    measure_find(titles[1], true, &hash_table_subject::find);
    measure_find(titles[2], false, &hash_table_subject::find);
    measure_chain();
    measure_find(titles[4], true, &hash_table_subject::find_batched);
    measure_find(titles[5], false, &hash_table_subject::find_batched);
    measure_update();
    measure_beside_writer();
    measure_readers();
    measure_erase();
    measure_churn();
}

void data_set::build() {
    all_ = make_keys(size_.entries, 2 * size_.entries);
    hits_ = draw(present(), questions_for(size_.entries), 1);
    misses_ = draw(absent(), questions_for(size_.entries), 2);
    std::uint64_t promised = 0;  // to the tables before it, which take it when they are filled
    for (const hash_table_kind& kind : kinds_) {
        const bool ours = &kind == &kinds_.front();
        if (!is_wanted_subject(to_.options(), kind.name, ours)) continue;
        // Most tables double, so half of their places may be empty; and a gigabyte is left to everybody else.
        const std::uint64_t need = size_.entries * (size_.entry_bytes * 23 / 10 + kind.entry_extra);
        const room_wanted wanted{.memory_bytes = large() ? promised + need + (std::uint64_t{1} << 30) : 0,
                                 .shared_bytes = kind.in_dev_shm ? size_.entries * size_.entry_bytes * 3 : 0};
        if (const std::string lacking = lacking_room(wanted); !lacking.empty()) {
            const char* const cure = promised == 0 ? "" : "; fewer tables at once (--only) need less";
            to_.skip(kind.name + ", " + size_.text(), lacking + cure);
            if (ours) return contenders_.clear();
            continue;
        }
        promised += need;
        contenders_.push_back({kind.name, kind.make(size_.entry_bytes, {size_.entries, size_.pages})});
    }
}

void data_set::fill() {
    for (const contender& c : contenders_) {
        if (c.table->size() == size_.entries) continue;
        c.table->clear(present());
        c.table->load(present());
    }
}

void data_set::check() {
    const std::uint64_t some = std::min<std::uint64_t>(size_.entries, 200'000);
    for (const contender& c : contenders_) {
        if (c.table->size() != size_.entries)
            throw std::runtime_error(c.name + " holds " + std::to_string(c.table->size()) + " entries instead of " +
                                     std::to_string(size_.entries));
        c.table->check(present().first(some), absent().first(some));
        c.table->check(present().last(some), absent().last(some));
    }
}

void data_set::note_pages() {
    if (size_.pages == page_choice::small) return;
    std::vector<std::pair<std::string, memory_use>> of;
    for (const contender& c : contenders_) of.emplace_back(c.name, c.table->memory());
    to_.note(huge_pages_text(size_.text(), of));
}

perf_test::subject data_set::walking(const contender& c, keys questions, slice_loop loop, bool found) const {
    perf_test::subject s;
    s.name = c.name;
    hash_table_subject* const table = c.table.get();
    s.run = [table, loop, found, name = c.name, at = walk(questions)](std::uint64_t operations) mutable {
        const std::uint64_t done = at.run(operations, [&](keys part) { return (table->*loop)(part); });
        if (done != (found ? operations : 0))
            throw std::runtime_error(name + " did " + std::to_string(done) + " of " + std::to_string(operations) +
                                     " operations, which is wrong here");
    };
    if (size_.entries <= fits_in_cache) {
        // The others have been through the caches meanwhile: what is measured is a table that stays in them.
        s.prepare = [table, warm = questions.first(std::min<std::size_t>(questions.size(), 20'000))] {
            keep(table->find(warm));
        };
    } else if (!large()) {
        s.batch = questions.size() / (to_.options().quick ? 16 : 4);
        s.prepare = [table, warm = questions.last(s.batch)] { keep(table->find(warm)); };
    }
    return s;
}

void data_set::measure_find(const char* what, bool hit, slice_loop loop) {
    experiment e;
    e.name = name(what);
    if (!to_.wants(e.name)) return;
    for (const contender& c : contenders_) {
        e.subjects.push_back(walking(c, hit ? hits_ : misses_, loop, hit));
        if (loop == &hash_table_subject::find_batched && c.table->batches()) {
            e.subjects.push_back(walking(c, hit ? hits_ : misses_, &hash_table_subject::find, hit));
            e.subjects.back().name += ", one at a time";
        }
    }
    const bool single = loop == &hash_table_subject::find;
    if (single) e.published = published_find(hit);
    const sampled found = run_sampled(to_, e);
    if (single)
        targets_.note_find(e.name, hit, found);
    else
        targets_.note_batches(e.name, found);
}

void data_set::measure_chain() {
    experiment e;
    e.name = name(titles[3]);
    if (!to_.wants(e.name)) return;
    for (const contender& c : contenders_)
        e.subjects.push_back(walking(c, hits_, &hash_table_subject::find_chained, true));
    const std::uint64_t bytes = std::max<std::uint64_t>(contenders_.front().table->memory().bytes, 1024);
    auto chase = std::make_shared<memory_chase>(bytes, size_.pages);
    perf_test::subject s;
    s.name = memory_chase::name;
    s.run = [chase](std::uint64_t steps) { chase->run(steps); };
    if (!large()) s.prepare = [chase] { chase->run(chase->lines()); };
    e.subjects.push_back(std::move(s));
    targets_.note_chain(e.name, run_sampled(to_, e));
}

/// That of ours one by one is the first.
std::vector<table_filling> data_set::fillings() const {
    std::vector<table_filling> all;
    for (const contender& c : contenders_) all.push_back({c.name, c.table.get(), &hash_table_subject::insert});
    for (const contender& c : contenders_)
        if (c.table->batches_inserts())
            all.push_back({c.name + ", " + std::to_string(batch_inserts) + " at a time", c.table.get(),
                           &hash_table_subject::insert_batched});
    return all;
}

void data_set::measure_fill() {
    const std::string title = name(titles[0]);
    if (!to_.wants(title)) return;
    if (size_.entries <= fits_in_cache)
        return targets_.note_insert(title, run_sampled(to_, fill_experiment(title, fillings(), present())));
    fill();  // none is filled for the first time under the clock
    // Of the largest a fill takes seconds: next to each is disturbed, by less than a hundredth of it.
    const fill_rounds wanted = to_.options().quick ? fill_rounds{1, 0}
                               : large()           ? fill_rounds{3, 0}
                                                   : fill_rounds{11, sample_rounds::usual_retakes};
    targets_.note_insert(title, time_fills(to_, title, fillings(), present(), wanted));
}

void data_set::measure_update() {
    experiment e;
    e.name = name(titles[6]);
    if (!to_.wants(e.name)) return;
    for (const contender& c : contenders_) e.subjects.push_back(walking(c, hits_, &hash_table_subject::update, true));
    targets_.note_ahead(e.name, run_sampled(to_, e));
}

void data_set::measure_erase() {
    experiment e;
    e.name = name(titles[9]);
    if (!to_.wants(e.name)) return;
    // A tenth of the entries, drawn anew each time and put back unobserved. The first ones that were inserted would not
    // do: in a table of levels they met empty rows, and are found at once.
    const std::vector<std::uint64_t> order = shuffled(present(), 5);
    const std::uint64_t part = std::min<std::uint64_t>(size_.entries / 10, 200'000);
    std::vector<std::uint64_t> at(contenders_.size());  // where in `order` the part begins that may be gone
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
        perf_test::subject s;
        s.name = contenders_[i].name;
        s.batch = part;
        hash_table_subject* const table = contenders_[i].table.get();
        const auto gone = [&order, part, from = &at[i]] { return keys(order).subspan(*from, part); };
        s.run = [table, gone, name = s.name](std::uint64_t operations) {
            if (table->erase(gone().first(operations)) != operations)
                throw std::runtime_error(name + " did not find what it should erase");
        };
        s.prepare = [table, gone, from = &at[i], last = order.size() - part, part, warm = keys(hits_),
                     small = size_.entries <= fits_in_cache] {
            table->insert(gone());
            *from = *from + part > last ? 0 : *from + part;
            if (small) keep(table->find(warm.first(20'000)));
        };
        e.subjects.push_back(std::move(s));
    }
    targets_.note_ahead(e.name, run_sampled(to_, e));
    for (std::size_t i = 0; i < contenders_.size(); ++i) contenders_[i].table->insert(keys(order).subspan(at[i], part));
}

void data_set::measure_churn() {
    experiment e;
    e.name = name(titles[10]);
    if (!to_.wants(e.name)) return;
    struct progress {
        std::uint64_t at = 0, refused = 0, done = 0;
    };
    std::vector<std::shared_ptr<progress>> all_progress;
    for (const contender& c : contenders_) {
        auto p = std::make_shared<progress>();
        all_progress.push_back(p);
        perf_test::subject s;
        s.name = c.name;
        // The keys that are there are a window which goes round in the ring of all keys, oldest first.
        s.run = [table = c.table.get(), p, ring = keys(all_), n = size_.entries](std::uint64_t operations) {
            p->done += operations;
            while (operations > 0) {
                const std::uint64_t from = p->at;
                const std::uint64_t to = (from + n) % ring.size();
                const std::uint64_t part = std::min(operations, ring.size() - std::max(from, to));
                p->refused += table->churn(ring.subspan(from, part), ring.subspan(to, part));
                p->at = (from + part) % ring.size();
                operations -= part;
            }
        };
        e.subjects.push_back(std::move(s));
    }
    targets_.note_ahead(e.name, run_sampled(to_, e));
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
        const progress& p = *all_progress[i];
        if (p.refused == 0) continue;
        char part[32];
        std::snprintf(part, sizeof part, "%.2f", 100.0 * static_cast<double>(p.refused) / static_cast<double>(p.done));
        to_.note(contenders_[i].name + ", " + e.name + ": " + part + " % of the inserts were refused");
    }
}

void data_set::measure_beside_writer() {
    experiment e;
    e.name = name(titles[7]);
    if (!to_.wants(e.name)) return;
    // The writer changes the second half of the keys (update, erase, insert again); the reader asks for the first half,
    // whose entries lie between them, so that a miss would be an error.
    const keys stable = present().first(size_.entries / 2);
    const std::vector<std::uint64_t> asked = draw(stable, questions_for(size_.entries), 3);
    const std::vector<std::uint64_t> changed =
        draw(present().subspan(size_.entries / 2), questions_for(size_.entries), 4);
    const two_cores cores = pick_two_cores();
    background_writer writer(other_processor(cores));
    const tie_to_near tied(cores);
    std::vector<std::unique_ptr<background_writer::job>> jobs;
    std::vector<std::unique_ptr<steady_work>> done;
    for (const contender& c : contenders_) {
        hash_table_subject* const table = c.table.get();
        if (!table->lock_free_readers() && size_.entries > fits_in_cache) {
            to_.skip(c.name + ", " + e.name,
                     "behind a std::shared_mutex a find can take 40 us there, a sample 10 s; it is tried at 1e4");
            continue;
        }
        done.push_back(std::make_unique<steady_work>(steady_work{.of = c.name}));
        jobs.push_back(
            std::make_unique<background_writer::job>([table, all = done.back().get(), at = walk(changed)]() mutable {
                const auto start = std::chrono::steady_clock::now();
                at.run(64, [&](keys part) {
                    table->change_shared(part);
                    all->keys += part.size();
                    return 0U;
                });
                all->seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
            }));
        perf_test::subject s = walking(c, asked, &hash_table_subject::find_shared, true);
        if (!table->lock_free_readers()) s.name += " + std::shared_mutex";
        s.prepare = beside(writer, *jobs.back(), table->lock_free_readers(), std::move(s.prepare));
        e.subjects.push_back(std::move(s));
        if (&c != &contenders_.front()) continue;
        e.subjects.push_back(walking(c, asked, &hash_table_subject::find_shared, true));
        e.subjects.back().name += ", no writer";
        e.subjects.back().prepare = [&writer, before = e.subjects.back().prepare] {
            writer.rest();
            if (before) before();
        };
    }
    targets_.note_beside_writer(e.name, run_sampled(to_, e));
    writer.rest();
    for (const std::unique_ptr<steady_work>& work : done)
        if (work->seconds > 0)
            to_.note(work->of + ", " + e.name + ": its writer changed " +
                     fixed_text(static_cast<double>(work->keys) / work->seconds / 1e6, 2) +
                     " million keys a second, each updated, erased and inserted again");
}

/// One reader is timed while others, up to one for each processor, ask for other keys all the time. The table's memory
/// is of whatever node this thread filled it on.
void data_set::measure_readers() {
    experiment e;
    e.name = name(titles[8]);
    if (!to_.wants(e.name)) return;
    const contender& ours = contenders_.front();
    const std::vector<processor> placed = placed_processors();
    if (placed.empty()) return to_.skip(e.name, "the system does not tell which processors this process may use");
    const std::size_t most = placed.size();
    std::vector<background_writer::job> jobs;
    std::vector<std::unique_ptr<background_writer>> others;  // who read, too
    for (std::size_t i = 1; i < most; ++i) {
        others.push_back(std::make_unique<background_writer>(placed[i].cpu));
        const keys asked = keys(hits_).subspan(hits_.size() / most * i);
        jobs.emplace_back([table = ours.table.get(), at = walk(asked)]() mutable {
            keep(at.run(1024, [&](keys part) { return table->find(part); }));
        });
    }
    const perf_test::cpu_pin tied(placed.front().cpu);
    if (const std::vector<processor> cores = with_a_core_each(placed); cores.size() > 2)
        to_.note(e.name + ": on " + nodes_text(cores) + ", taken in this order, then on what shares a core with these");
    const auto busy = [&](std::size_t readers) {
        for (std::size_t i = 0; i < others.size(); ++i) {
            if (i + 1 < readers)
                others[i]->work_on(jobs[i]);
            else
                others[i]->rest();
        }
    };
    for (std::size_t readers = 1;; readers = std::min(2 * readers, most)) {
        e.subjects.push_back(walking(ours, hits_, &hash_table_subject::find, true));
        perf_test::subject& s = e.subjects.back();
        s.name += ", " + std::to_string(readers) + (readers == 1 ? " reader" : " readers");
        s.prepare = [&busy, readers, before = s.prepare] {
            busy(readers);
            if (before) before();
        };
        if (readers == most) break;
    }
    (void)run_sampled(to_, e);
    busy(1);
}

void data_set::note_memory() {
    const std::string title = name(titles[11]);
    if (!to_.wants(title)) return;
    std::vector<std::string> names;
    std::vector<std::vector<double>> samples;
    for (const contender& c : contenders_) {
        const std::uint64_t bytes = c.table->memory().bytes;
        if (bytes == 0) continue;
        names.push_back(c.name);
        samples.push_back({static_cast<double>(bytes) / static_cast<double>(size_.entries)});
    }
    to_.add(title, "bytes", names, samples, false, {.exact = true});
    if (!names.empty() && names[0] == contenders_[0].name)
        targets_.note_memory(title, size_.entry_bytes, {names, samples});
}

}  // namespace

suite hash_table_suite(std::vector<hash_table_kind> kinds) {
    suite s;
    s.name = "hash_table";
    s.description = "hash tables: hits, misses, batches, changes and memory, 1e4 to 2e7 entries of 16 and 64 bytes";
    s.run = [kinds = std::move(kinds)](recorder& to) {
        for (const hash_table_kind& kind : kinds) to.version(kind.name, kind.version);
        tell_what_is_not_run(to);
        const std::size_t count = to.options().quick ? quick_sizes : std::size(sizes);
        for (std::size_t i = 0; i < count; ++i) {
            data_set(kinds, sizes[i], to).run();
            const auto& [entries, entry_bytes, pages] = sizes[i];
            measure_two_writers({entries, pages}, entry_bytes, sizes[i].text(), to);
            measure_several_writers({entries, pages}, entry_bytes, sizes[i].text(), placed_processors(), to);
            if (entry_bytes == 16 && entries >= grows_from) measure_growth(entries, pages, sizes[i].text(), to);
        }
    };
    return s;
}

}  // namespace holdfast::workload
