// SPDX-License-Identifier: Apache-2.0
// table_memory - does it matter to lookups in which kind of shared memory a hash_table lies, and what its pages are?
//
//   study_table_memory [--quick] [--seconds 0.3] [--out FOLDER] [--check]
//
// Tables of 1e6 and 2e7 entries of 16 bytes, 90 % full, in each kind of memory and by each wish for its pages: none,
// all mapped before the first insert, huge ones asked for before the first insert, huge ones asked for behind the last
// one, and pages of the huge page pool. Of each is told what was obtained, what making and filling it took, and what a
// reader pays that has just attached, whose own mapping has no pages yet: the first three times 2^17 lookups of
// keys at random. Then lookups through the writer's mapping, one at a time and by find_many, all tables in turn. Prints
// tables; with --out writes table_memory.html. --check ends with an error if a finding that README.md states does not
// show. --quick: 1e6 entries, memfd: alone.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../command_line.hpp"
#include "../findings.hpp"
#include "../lookup_overlap/ways.hpp"
#include "../lookup_subject.hpp"
#include "holdfast/hash_table.hpp"
#include "holdfast/perf_test/clock.hpp"
#include "holdfast/perf_test/interleaved.hpp"
#include "tests/support/unique_name.hpp"
#include "workload/keys.hpp"

namespace {

using namespace holdfast;
namespace perf = perf_test;
using study::number_table;
using number_reader = hash_table_reader<std::uint64_t, std::uint64_t>;
using questions = study::keys;

constexpr std::size_t first_looks = std::size_t{1} << 17;

enum class wish { nothing, all_mapped, huge_before, huge_behind };
const std::array<std::string, 4> wish_names{"none", "mapped first", "huge, before filling", "huge, behind filling"};

struct place {
    memory::kind kind;
    wish pages;
    [[nodiscard]] std::string name() const {
        return std::string(memory::kind_text(kind)) + ", " + wish_names[std::size_t(pages)];
    }
};

using enum wish;
const place places[] = {
    {memory::kind::memfd, nothing},     {memory::kind::memfd, all_mapped}, {memory::kind::memfd, huge_before},
    {memory::kind::memfd, huge_behind}, {memory::kind::posix, all_mapped}, {memory::kind::posix, huge_before},
    {memory::kind::file, all_mapped},   {memory::kind::file, huge_before}, {memory::kind::sysv, all_mapped},
    {memory::kind::sysv, huge_before},  {memory::kind::sysv_huge, nothing}};

memory::page_policy policy_of(wish pages) {
    return {.huge = pages == huge_before, .prefault = pages == all_mapped || pages == huge_before, .lock = false};
}

double seconds_of(const std::function<void()>& work) {
    const std::uint64_t begun_ns = perf::monotonic_ns();
    work();
    return double(perf::monotonic_ns() - begun_ns) * 1e-9;
}

std::uint64_t one_at_a_time(const auto& of, questions asked) {
    std::uint64_t sum = 0;
    for (const std::uint64_t key : asked) sum += of.find(key).value_or(0);
    return sum;
}

/// A table of keys 1 on in one kind of memory, with what it took.
class placed_table {
 public:
    placed_table(const place& where, const std::string& folder, questions keys) : where_(where) {
        hash_table_options wanted;
        wanted.capacity = std::uint64_t(double(keys.size()) / 0.9 / 1.03) + 1;  // 3 % more slots: 90 % of them
        wanted.segment.pages = policy_of(where.pages);
        const std::string uri = uri_of(where.kind, folder);
        made_s_ = seconds_of([&] { table_ = number_table::create(uri, wanted); });
        filled_s_ = seconds_of([&] {
            std::uint64_t value = 0;
            for (const std::uint64_t key : keys) (void)table_->try_insert(key, ++value);
        });
        if (where.pages == huge_behind)
            made_s_ += seconds_of([&] {
                const std::span<std::byte> all = mapping_of(*table_);
                memory::advise_huge(all.data(), all.size());
            });
        pages_ = table_->segment().pages();
    }
    placed_table(const placed_table&) = delete;
    placed_table& operator=(const placed_table&) = delete;
    ~placed_table() {
        const std::string uri = table_ ? table_->segment().name().text() : "";
        table_.reset();
        if (where_.kind != memory::kind::memfd && !uri.empty()) segment::remove(uri);
    }

    [[nodiscard]] const number_table& operator*() const { return *table_; }
    [[nodiscard]] const place& where() const { return where_; }
    [[nodiscard]] double huge_part() const {
        const double all = double(table_->segment().bytes().size());
        return std::min(1.0, pages_.page_bytes > memory::small_page_bytes ? 1.0 : double(pages_.huge_bytes) / all);
    }
    [[nodiscard]] std::vector<std::string> cost_row(std::size_t entries) const {
        return {where_.name(), study::number(made_s_ * 1e3, "%.0f"),
                study::number(filled_s_ * 1e9 / double(entries), "%.0f"), study::number(huge_part() * 100, "%.0f %%")};
    }
    /// As another process has it: by a mapping of its own.
    [[nodiscard]] number_reader attach_reader(wish pages) const {
        const attach_options wanted{.trust = {}, .lease_timeout = {}, .pages = policy_of(pages)};
        if (where_.kind == memory::kind::memfd) return number_reader::attach(table_->segment().descriptors(), wanted);
        return number_reader::attach(table_->segment().name().text(), wanted);
    }

 private:
    /// The header's page and the body behind it; a mapping of that size begins where a huge page can.
    static std::span<std::byte> mapping_of(const number_table& table) {
        const std::span<const std::byte> body = table.segment().bytes();
        const auto begin = reinterpret_cast<std::uintptr_t>(body.data()) % memory::huge_page_bytes;
        return {const_cast<std::byte*>(body.data()) - begin, body.size() + begin};
    }
    static std::string uri_of(memory::kind kind, const std::string& folder) {
        const std::string scheme = std::string(memory::kind_text(kind)) + ":";
        switch (kind) {
            case memory::kind::posix: return scheme + "/" + test::unique_token("table-memory");
            case memory::kind::file: return scheme + folder + "/" + test::unique_token("table-memory");
            case memory::kind::sysv:
            case memory::kind::sysv_huge: return scheme + std::to_string((std::random_device{}() & 0x3fffffffU) + 1);
            default: return scheme;
        }
    }

    place where_;
    std::optional<number_table> table_;
    double made_s_ = 0, filled_s_ = 0;
    memory::page_report pages_;
};

class memory_study {
 public:
    explicit memory_study(study::study_options chosen)
        : options_(std::move(chosen)), found_(options_.out, "A hash table in each kind of shared memory") {}

    int run() {
        found_.where(perf::this_environment(perf::this_build()));
        look(1'000'000);
        if (!options_.quick) look(20'000'000);
        return found_.finish("table_memory", options_.check);
    }

 private:
    void look(std::uint64_t entries) {
        const std::vector<std::uint64_t> keys = workload::make_keys(1, entries);
        const std::vector<std::uint64_t> absent = workload::make_keys(entries * 4, entries);
        const std::vector<std::uint64_t> asked = workload::draw(keys, std::uint64_t{1} << 20, 1);
        const std::vector<std::uint64_t> missed = workload::draw(absent, std::uint64_t{1} << 20, 2);
        size_ = study::power_of_ten(double(entries));

        std::vector<std::unique_ptr<placed_table>> tables;
        std::vector<std::vector<std::string>> rows;
        for (const place& where : places) {
            if (options_.quick && where.kind != memory::kind::memfd) continue;
            try {
                tables.push_back(std::make_unique<placed_table>(where, folder_.path(), keys));
            } catch (const error& failure) {
                found_.text(size_ + ", " + where.name() + ": not looked at, " + failure.what());
                continue;
            }
            rows.push_back(tables.back()->cost_row(entries));
        }
        for (const auto& behind : tables)
            for (const auto& before : tables)
                if (behind->where().pages == huge_behind && before->where().pages == huge_before &&
                    behind->where().kind == before->where().kind)
                    found_.expect(
                        behind->huge_part() >= before->huge_part() / 2,  // memory may have come into pieces meanwhile
                        size_ + ": pages that are there become huge as well as those to come");
        found_.table(size_ + " entries: making them",
                     {"memory, wish for its pages", "made, ms", "filled, ns an entry", "on huge pages"}, rows);
        first_looks_of_readers(tables, asked);
        compare(tables, asked, missed);
    }

    void first_looks_of_readers(const std::vector<std::unique_ptr<placed_table>>& tables, questions asked) {
        std::vector<std::vector<std::string>> rows;
        for (const auto& table : tables)
            for (const wish pages : {nothing, all_mapped}) {
                std::optional<number_reader> reader;
                const double attached_s = seconds_of([&] { reader = table->attach_reader(pages); });
                std::vector<std::string> row{table->where().name(), wish_names[std::size_t(pages)],
                                             study::number(attached_s * 1e3, "%.1f")};
                for (int turn = 0; turn < 3; ++turn) {
                    const questions some = asked.subspan(std::size_t(turn) * first_looks, first_looks);
                    std::uint64_t sum = 0;
                    const double s = seconds_of([&] { sum = one_at_a_time(*reader, some); });
                    found_.expect(sum == one_at_a_time(**table, some), row[0] + ": a reader answers as the writer");
                    row.push_back(study::number(s * 1e9 / double(first_looks), "%.0f"));
                }
                rows.push_back(row);
            }
        found_.table(size_ + " entries: a reader that has just attached",
                     {"memory, wish for its pages", "wish of the reader", "attached, ms",
                      "first 131,072 lookups, ns each", "the next", "the next"},
                     rows);
    }

    void compare(const std::vector<std::unique_ptr<placed_table>>& tables, questions asked, questions missed) {
        std::vector<std::vector<std::string>> rows;
        for (const auto& table : tables) rows.push_back({table->where().name()});
        const auto time = [&](questions some, auto&& run) {
            std::vector<perf::subject> subjects;
            for (const auto& table : tables)
                subjects.push_back(study::lookup_subject(
                    table->where().name(), some, [&of = **table, run](questions part) { return run(of, part); }));
            // A table has to come into the caches again, behind all others.
            const perf::interleaved_options rounds{.seconds = options_.seconds,
                                                   .rounds_min = 15,
                                                   .batch_seconds_min = options_.quick ? 0.002 : 0.02,
                                                   .warm_part = 1};
            const perf::interleaved_result result = perf::measure_interleaved(subjects, rounds);
            for (std::size_t i = 0; i < rows.size(); ++i) {
                const double faster = result.ratio(i, 0).ratio;
                rows[i].push_back(study::number(result.subjects[i].time.median, "%.1f"));
                rows[i].push_back(i == 0 ? "1" : study::number(faster));
                if (tables[i]->huge_part() == 0)
                    found_.expect(faster > 0.5 && faster < 2, rows[i][0] + ": as fast as other pages of 4 KiB");
            }
        };
        time(asked, [](const number_table& of, questions some) { return one_at_a_time(of, some); });
        time(missed, [](const number_table& of, questions some) { return one_at_a_time(of, some); });
        time(asked, [](const number_table& of, questions some) { return study::many_at_a_time(of, some, 32); });
        found_.table(size_ + " entries: lookups, all pages mapped",
                     {"memory, wish for its pages", "hit, ns", "times as fast as the first", "miss, ns", "times",
                      "hit, 32 at a time, ns", "times"},
                     rows);
    }

    study::study_options options_;
    study::findings found_;
    test::unique_directory folder_{"table-memory"};
    test::scoped_environment registry_{"HOLDFAST_REGISTRY", folder_.file("registry")};
    std::string size_;
};

}  // namespace

int main(int argc, char** argv) {
    const auto chosen = study::options_of(argc, argv, 0.3);
    return chosen ? memory_study(*chosen).run() : 2;
}
