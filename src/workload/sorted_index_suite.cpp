// SPDX-License-Identifier: Apache-2.0
#include "workload/sorted_index_suite.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "workload/keys.hpp"
#include "workload/room.hpp"
#include "workload/sorted_index_own.hpp"

namespace holdfast::workload {

namespace {

struct set_size {
    std::uint64_t records;
    page_choice pages;
};

constexpr set_size sizes[] = {{2'000, page_choice::small},
                              {500'000, page_choice::small},
                              {10'000'000, page_choice::small},
                              {10'000'000, page_choice::huge}};
constexpr std::size_t quick_sizes = 2;
constexpr std::uint64_t fits_in_last_cache = 1'000'000;

enum class experiment_kind : std::uint8_t {
    find_hit,
    find_mixed,
    find_miss,
    find_chained,
    find_batched,
    cover,
    cover_chained,
    scan
};

struct plan {
    const char* title;
    experiment_kind kind;
};
constexpr plan plans[] = {{"find hit, independent", experiment_kind::find_hit},
                          {"find, half of the keys absent, independent", experiment_kind::find_mixed},
                          {"find miss, independent", experiment_kind::find_miss},
                          {"find hit, dependent", experiment_kind::find_chained},
                          {"find hit, batches of 16", experiment_kind::find_batched},
                          {"find the covering range, independent", experiment_kind::cover},
                          {"find the covering range, dependent", experiment_kind::cover_chained},
                          {"scan 100 records", experiment_kind::scan}};
constexpr const char* build_title = "build, a record";
constexpr const char* memory_title = "memory of a record";

/// Sorted distinct random numbers, every other of which begins a range that ends before the next: so half of them are
/// absent, lie everywhere between the present ones, and are covered by no range.
template <class K>
struct numbers {
    index_records<K> records;
    std::vector<K> absent;

    explicit numbers(std::uint64_t count) {
        std::vector<K> all;
        // A few more, because 32 bits of random numbers repeat themselves.
        const std::uint64_t drawn = 2 * count + count / 8 + 64;
        all.reserve(drawn);
        for (std::uint64_t i = 0; i < drawn; ++i) all.push_back(static_cast<K>(scramble(i)));
        std::sort(all.begin(), all.end());
        all.erase(std::unique(all.begin(), all.end()), all.end());
        if (all.size() < 2 * count) throw std::logic_error("our own mistake: too few distinct numbers");
        for (std::uint64_t i = 0; i < count; ++i) {
            records.keys.push_back(all[2 * i]);
            records.values.push_back({static_cast<K>(all[2 * i + 1] - 1), static_cast<K>(i)});
            absent.push_back(all[2 * i + 1]);
        }
    }
};

template <class K>
class data_set {
 public:
    using keys = std::span<const K>;
    using loop = std::uint64_t (sorted_index_subject<K>::*)(keys);

    data_set(const std::vector<sorted_index_kind>& kinds, const set_size& size, recorder& to)
        : kinds_(kinds), size_(size), to_(to) {}

    void run() {
        bool wanted = to_.wants(name(build_title));
        wanted = to_.wants(name(memory_title)) || wanted;
        for (const plan& p : plans) wanted = to_.wants(name(p.title)) || wanted;
        if (!wanted) return;
        build();
        if (contenders_.empty()) return;
        for (const plan& p : plans)
            if (to_.wants(name(p.title))) measure(p);
        note_memory();
    }

 private:
    struct contender {
        std::string name;
        std::unique_ptr<sorted_index_subject<K>> index;
        double build_ns;
    };

    [[nodiscard]] std::string name(const char* what) const {
        return std::string(what) + ", " + count_text(size_.records) + " keys of " + std::to_string(8 * sizeof(K)) +
               " bits, " + text_of(size_.pages);
    }

    void build() {
        numbers<K> n(size_.records);
        records_ = std::move(n.records);
        absent_ = std::move(n.absent);
        draw_questions();
        for (const sorted_index_kind& kind : kinds_) {
            const auto& only = to_.options().only;
            const bool ours = &kind == &kinds_.front();
            if (!ours && !only.empty() && std::find(only.begin(), only.end(), kind.name) == only.end()) continue;
            const std::uint64_t need = size_.records * 96 + (std::uint64_t{1} << 30);  // a node of a tree, and to spare
            const room_wanted wanted{.memory_bytes = size_.records > fits_in_last_cache ? need : 0,
                                     .shared_bytes = kind.in_dev_shm ? size_.records * 64 : 0};
            if (const std::string lacking = lacking_room(wanted); !lacking.empty()) {
                to_.skip(name(kind.name.c_str()), lacking);
                if (ours) return;
                continue;
            }
            const auto start = std::chrono::steady_clock::now();
            auto index = kind.make<K>(records_, size_.pages);
            const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
            index->check(records_, absent_);
            contenders_.push_back({kind.name, std::move(index), took.count() / static_cast<double>(size_.records)});
        }
        if (!to_.wants(name(build_title))) return;
        std::vector<std::string> names;
        std::vector<std::vector<double>> samples;
        for (const contender& c : contenders_) {
            names.push_back(c.name);
            samples.push_back({c.build_ns});
        }
        to_.add(name(build_title), "ns", names, samples, false);
    }

    void draw_questions() {
        chooser choose(7);
        const std::uint64_t count = questions_for(size_.records);
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::size_t at = choose.below(size_.records);
            const K key = records_.keys[at];
            hits_.push_back(key);
            misses_.push_back(absent_[choose.below(size_.records)]);
            const bool miss = choose.below(2) == 0;
            mixed_.push_back(miss ? absent_[choose.below(size_.records)] : key);
            mixed_hits_.push_back(miss ? 0 : 1);
            // Somewhere within the range, its ends included.
            covered_.push_back(static_cast<K>(key + choose.below(std::uint64_t{records_.values[at].end - key} + 1)));
        }
    }

    void measure(const plan& p) {
        experiment e;
        e.name = name(p.title);
        for (const contender& c : contenders_) {
            switch (p.kind) {
                case experiment_kind::find_hit: add(e, c, hits_, &sorted_index_subject<K>::find); break;
                case experiment_kind::find_mixed: add_mixed(e, c); break;
                case experiment_kind::find_miss: add(e, c, misses_, &sorted_index_subject<K>::find, false); break;
                case experiment_kind::find_chained: add(e, c, hits_, &sorted_index_subject<K>::find_chained); break;
                case experiment_kind::find_batched: add_batched(e, c); break;
                case experiment_kind::cover:
                    if (c.index->ordered()) add(e, c, covered_, &sorted_index_subject<K>::cover);
                    break;
                case experiment_kind::cover_chained:
                    if (c.index->ordered()) add(e, c, covered_, &sorted_index_subject<K>::cover_chained);
                    break;
                case experiment_kind::scan:
                    if (c.index->ordered()) add_scan(e, c);
                    break;
            }
        }
        to_.run(e);
    }

    void settle(perf_test::subject& s, sorted_index_subject<K>* index, keys questions) const {
        if (size_.records > fits_in_last_cache) return;
        // The others have been through the caches meanwhile: what is measured is an index that stays in them.
        const bool quick = to_.options().quick;
        s.prepare = [index, warm = questions.first(std::min<std::size_t>(questions.size(), quick ? 20'000 : 200'000))] {
            keep(index->find(warm));
        };
        if (size_.records > 100'000) s.batch = questions.size() / (quick ? 32 : 4);
    }

    /// `present`: all of the keys are there, or none.
    void add(experiment& e, const contender& c, keys questions, loop body, bool present = true) const {
        perf_test::subject s;
        s.name = c.name;
        s.run = [index = c.index.get(), body, questions, present, name = c.name,
                 at = std::size_t{0}](std::uint64_t n) mutable {
            while (n > 0) {
                const std::size_t part = std::min<std::size_t>(n, questions.size() - at);
                if ((index->*body)(questions.subspan(at, part)) != (present ? part : 0))
                    throw std::runtime_error(
                        name + (present ? " did not find a key that is there" : " found a key that is not there"));
                at = (at + part) % questions.size();
                n -= part;
            }
        };
        settle(s, c.index.get(), questions);
        e.subjects.push_back(std::move(s));
    }

    void add_batched(experiment& e, const contender& c) const {
        add(e, c, hits_, &sorted_index_subject<K>::find_batched);
        if (!c.index->batches()) return;
        add(e, c, hits_, &sorted_index_subject<K>::find);
        e.subjects.back().name += ", one at a time";
    }

    void add_mixed(experiment& e, const contender& c) const {
        perf_test::subject s;
        s.name = c.name;
        s.run = [this, index = c.index.get(), name = c.name, at = std::size_t{0}](std::uint64_t n) mutable {
            std::uint64_t found = 0;
            std::uint64_t expected = 0;
            while (n > 0) {
                const std::size_t part = std::min<std::size_t>(n, mixed_.size() - at);
                found += index->find(keys(mixed_).subspan(at, part));
                expected += static_cast<std::uint64_t>(
                    std::count(mixed_hits_.begin() + static_cast<std::ptrdiff_t>(at),
                               mixed_hits_.begin() + static_cast<std::ptrdiff_t>(at + part), char{1}));
                at = (at + part) % mixed_.size();
                n -= part;
            }
            if (found != expected) throw std::runtime_error(name + " found another number of keys than there are");
        };
        settle(s, c.index.get(), mixed_);
        e.subjects.push_back(std::move(s));
    }

    void add_scan(experiment& e, const contender& c) const {
        perf_test::subject s;
        s.name = c.name;
        s.run = [index = c.index.get(), questions = keys(hits_), at = std::size_t{0}](std::uint64_t n) mutable {
            while (n > 0) {
                const std::size_t part = std::min<std::size_t>(n, questions.size() - at);
                keep(index->scan(questions.subspan(at, part)));
                at = (at + part) % questions.size();
                n -= part;
            }
        };
        e.subjects.push_back(std::move(s));
    }

    void note_memory() {
        if (!to_.wants(name(memory_title))) return;
        std::vector<std::string> names;
        std::vector<std::vector<double>> samples;
        for (const contender& c : contenders_) {
            names.push_back(c.name);
            samples.push_back({static_cast<double>(c.index->memory().bytes) / static_cast<double>(size_.records)});
        }
        to_.add(name(memory_title), "bytes", names, samples, false, {.exact = true});
        if (size_.pages == page_choice::small) return;
        std::string text = name("huge pages obtained") + ":";
        for (const contender& c : contenders_) {
            const memory_use use = c.index->memory();
            text +=
                " " + c.name + " " +
                (use.mapped_bytes == 0 ? "unknown" : std::to_string(use.huge_bytes * 100 / use.mapped_bytes) + " %") +
                ";";
        }
        text.back() = '.';
        to_.note(text);
    }

    const std::vector<sorted_index_kind>& kinds_;
    const set_size size_;
    recorder& to_;
    index_records<K> records_;
    std::vector<K> absent_, hits_, misses_, mixed_, covered_;
    std::vector<char> mixed_hits_;
    std::vector<contender> contenders_;
};

}  // namespace

std::vector<sorted_index_kind> own_sorted_index_kinds() {
    return {index_kind_of<own_index>(), index_kind_of<binary_search_index>(), index_kind_of<standard_map_index>()};
}

suite sorted_index_suite(std::vector<sorted_index_kind> kinds) {
    suite s;
    s.name = "sorted_index";
    s.description = "sorted records: exact keys, covering ranges and scans, 2e3 to 1e7 keys of 32 and 64 bits";
    s.run = [kinds = std::move(kinds)](recorder& to) {
        for (const sorted_index_kind& kind : kinds) to.version(kind.name, kind.version);
        const std::size_t count = to.options().quick ? quick_sizes : std::size(sizes);
        for (std::size_t i = 0; i < count; ++i) {
            data_set<std::uint32_t>(kinds, sizes[i], to).run();
            data_set<std::uint64_t>(kinds, sizes[i], to).run();
        }
    };
    return s;
}

}  // namespace holdfast::workload
