// SPDX-License-Identifier: Apache-2.0
// small_table - a few hundred keys: what is gained by integers for strings, and what by a flat array for a hash table?
//
//   study_small_table [--quick] [--seconds 0.3] [--out FOLDER] [--check]
//
// Published: with 264 keys a flat vector of integers beats a hash map of strings. That changes two things at once. Here
// each is changed alone: keys are strings, integers of 64 random bits, or places (0 to n - 1); they are hashed,
// scanned, halved (binary search), found by a perfect hash or, if they are places, indexed. Sizes from 8 to 1024; keys
// that are there one after the other (the processor overlaps them), each waiting for the last answer, and keys that are
// not there. All ways of one size are timed in turn. Prints tables; with --out writes small_table.csv and
// small_table.html. --check ends with an error if a finding that README.md states does not show. --quick: 264 keys
// alone.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <random>

#include "../command_line.hpp"
#include "../page.hpp"
#include "holdfast/perf_test/do_not_optimize.hpp"
#include "holdfast/perf_test/interleaved.hpp"
#include "tables.hpp"

namespace {

namespace perf = holdfast::perf_test;
using study::value;

constexpr std::size_t published_size = 264;
constexpr std::size_t questions = 1U << 14;  // more than a branch predictor learns

enum class asked { there, waiting, absent };
constexpr std::array kinds{asked::there, asked::waiting, asked::absent};
const char* name_of(asked kind) {
    constexpr std::array names{"keys that are there, one after the other",
                               "keys that are there, each waits for the last answer", "keys that are not there"};
    return names[static_cast<std::size_t>(kind)];
}

/// A key as configurations have them: one of a few beginnings and a number, 5 to 28 characters.
std::string word_of(std::uint64_t number, std::size_t place) {
    static constexpr std::array stems{"param.rank.", "param.recall.", "exp.", "param.filter.budget.", "feature."};
    constexpr std::uint64_t prime = 7919;  // keeps the keys distinct
    return stems[number % stems.size()] + std::to_string(place * prime + number % prime);
}

template <class Key>
struct inputs {
    std::vector<Key> keys, there, absent;
};

/// The same choice of keys for each kind of them.
struct choice {
    std::vector<std::uint64_t> numbers, others;  ///< distinct, all of them
    std::vector<std::size_t> asked;              ///< places of the keys asked for

    explicit choice(std::size_t size) {
        std::mt19937_64 random(size);
        for (std::size_t i = 0; i < size; ++i) {
            numbers.push_back(random());
            others.push_back(random());
        }
        for (std::size_t i = 0; i < questions; ++i) asked.push_back(random() % size);
    }
    template <class Key, class Make>
    [[nodiscard]] inputs<Key> with(Make make) const {
        inputs<Key> all;
        for (std::size_t i = 0; i < numbers.size(); ++i) all.keys.push_back(make(numbers[i], i));
        for (const std::size_t at : asked) {
            all.there.push_back(all.keys[at]);
            all.absent.push_back(make(others[at], numbers.size() + at));
        }
        return all;
    }
};

/// Asks a table so many questions; where each waits, the next question's place depends on the last answer.
template <class Table, class Key>
perf::subject subject_of(const char* name, const std::shared_ptr<const inputs<Key>>& from, asked kind) {
    const auto table = std::make_shared<const Table>(from->keys);
    for (std::size_t i = 0; i < questions; ++i)
        if (table->find(from->there[i]) == 0 || from->keys[table->find(from->there[i]) - 1] != from->there[i] ||
            table->find(from->absent[i]) != 0) {
            std::fprintf(stderr, "%s answers wrongly\n", name);
            std::exit(1);
        }
    return {name,
            [table, from, kind, at = std::size_t{0}](std::uint64_t n) mutable {
                const std::vector<Key>& ask = kind == asked::absent ? from->absent : from->there;
                value sum = 0;
                if (kind == asked::waiting) {
                    for (; n > 0; --n) {
                        // The answer takes part in the next place, in a way that changes it by nothing.
                        value answer = table->find(ask[at]);
                        perf::do_not_optimize(answer);
                        at = (at + 1 + (answer >> 40U)) % questions;
                        sum += answer;
                    }
                } else {
                    for (; n > 0; --n) {
                        sum += table->find(ask[at]);
                        at = (at + 1) % questions;
                    }
                }
                perf::do_not_optimize(sum);
            },
            {},
            0};
}

std::vector<perf::subject> subjects_of(std::size_t size, asked kind) {
    const choice chosen(size);
    const auto words = std::make_shared<const inputs<std::string>>(
        chosen.with<std::string>([](std::uint64_t number, std::size_t place) { return word_of(number, place); }));
    const auto numbers = std::make_shared<const inputs<std::uint64_t>>(
        chosen.with<std::uint64_t>([](std::uint64_t number, std::size_t) { return number; }));
    const auto places = std::make_shared<const inputs<std::uint64_t>>(
        chosen.with<std::uint64_t>([](std::uint64_t, std::size_t place) { return place; }));
    return {
        subject_of<study::std_hashed<std::string>>("strings, hashed (std::unordered_map)", words, kind),
        subject_of<study::halved<std::string>>("strings, sorted and halved", words, kind),
        subject_of<study::scanned<std::string>>("strings, scanned", words, kind),
        subject_of<study::std_hashed<std::uint64_t>>("integers, hashed (std::unordered_map)", numbers, kind),
        subject_of<study::our_hashed>("integers, hashed (holdfast::hash_table)", numbers, kind),
        subject_of<study::halved<std::uint64_t>>("integers, sorted and halved", numbers, kind),
        subject_of<study::our_halved>("integers, sorted and halved (holdfast::sorted_index)", numbers, kind),
        subject_of<study::scanned<std::uint64_t>>("integers, scanned", numbers, kind),
        subject_of<study::scanned_whole>("integers, scanned to the end", numbers, kind),
        subject_of<study::tags_scanned>("integers, their tags of 16 bits compared by vectors", numbers, kind),
        subject_of<study::displaced>("integers, by a perfect hash", numbers, kind),
        subject_of<study::our_small>("integers, by a perfect hash (holdfast::small_table)", numbers, kind),
        subject_of<study::std_hashed<std::uint64_t>>("places, hashed (std::unordered_map)", places, kind),
        subject_of<study::placed>("places, indexed", places, kind),
        subject_of<study::our_placed>("places, indexed (holdfast::array)", places, kind),
    };
}

int failures = 0;

void expect(bool holds, const std::string& what) {
    if (holds) return;
    std::fprintf(stderr, "does not show: %s\n", what.c_str());
    ++failures;
}

std::string text_of(double number, const char* format = "%.2f") {
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), format, number);
    return text.data();
}

using row_of_sizes = std::map<std::string, std::map<std::size_t, double>>;  // ns by number of keys, of a way

void print_rows(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows) {
    for (const auto* const row : {&headings}) {
        for (const std::string& cell : *row) std::printf("| %s ", cell.c_str());
        std::printf("|\n|---|");
        for (std::size_t i = 1; i < row->size(); ++i) std::printf("---|");
        std::printf("\n");
    }
    for (const std::vector<std::string>& row : rows) {
        for (const std::string& cell : row) std::printf("| %s ", cell.c_str());
        std::printf("|\n");
    }
    std::fflush(stdout);
}

/// Two steps from the published loser to the published winner, at its size, by medians of the same rounds.
std::string gains(const perf::interleaved_result& found) {
    const auto gain = [&found](const char* of, const char* over) {
        std::size_t a = 0, b = 0;
        for (std::size_t i = 0; i < found.subjects.size(); ++i) {
            if (found.subjects[i].name == of) a = i;
            if (found.subjects[i].name == over) b = i;
        }
        const perf::paired_ratio ratio = found.ratio(a, b);
        return text_of(ratio.ratio) + " times (" + text_of(ratio.ratio_95.low) + " to " + text_of(ratio.ratio_95.high) +
               ")";
    };
    std::string text = "264 keys: integers for strings, both hashed: ";
    text += gain("integers, hashed (std::unordered_map)", "strings, hashed (std::unordered_map)");
    text += "; places for integers, both hashed: ";
    text += gain("places, hashed (std::unordered_map)", "integers, hashed (std::unordered_map)");
    text += "; indexed for hashed, both places: " + gain("places, indexed", "places, hashed (std::unordered_map)");
    text += "; all together, the published step: " + gain("places, indexed", "strings, hashed (std::unordered_map)");
    text += "; flat for hashed with strings left as they are (halved): ";
    text += gain("strings, sorted and halved", "strings, hashed (std::unordered_map)");
    text += "; flat for hashed with integers, both ours (sorted_index for hash_table): ";
    text += gain("integers, sorted and halved (holdfast::sorted_index)", "integers, hashed (holdfast::hash_table)");
    text += "; tags compared for hashed (holdfast::hash_table): ";
    text += gain("integers, their tags of 16 bits compared by vectors", "integers, hashed (holdfast::hash_table)");
    text += "; a perfect hash for hashed, both ours (small_table for hash_table): ";
    text += gain("integers, by a perfect hash (holdfast::small_table)", "integers, hashed (holdfast::hash_table)");
    text += "; the same in plain arrays: ";
    text += gain("integers, by a perfect hash", "integers, hashed (holdfast::hash_table)");
    return text;
}

row_of_sizes time_kind(asked kind, const study::study_options& chosen, std::ofstream& csv, std::string& page) {
    const std::vector<std::size_t> sizes =
        chosen.quick ? std::vector<std::size_t>{published_size}
                     : std::vector<std::size_t>{8, 16, 32, 64, 128, published_size, 512, 1024};
    row_of_sizes found;
    std::vector<std::string> order;
    std::string told;
    for (const std::size_t size : sizes) {
        const std::vector<perf::subject> subjects = subjects_of(size, kind);
        perf::interleaved_options rounds;
        rounds.seconds = chosen.seconds;
        const perf::interleaved_result result = perf::measure_interleaved(subjects, rounds);
        order.clear();
        for (const perf::result& one : result.subjects) {
            found[one.name][size] = one.good() ? one.time.median : 0;
            order.push_back(one.name);
            csv << '"' << name_of(kind) << "\"," << size << ",\"" << one.name << "\"," << one.time.median << ','
                << one.time.median_95.low << ',' << one.time.median_95.high << '\n';
        }
        if (size == published_size) told = gains(result);
    }
    std::vector<std::string> headings{std::string("ns a lookup by number of keys: ") + name_of(kind)};
    for (const std::size_t size : sizes) headings.push_back(std::to_string(size));
    std::vector<std::vector<std::string>> rows;
    std::vector<study::plot::bar> bars;
    for (const std::string& name : order) {
        rows.push_back({name});
        for (const auto& [size, ns] : found[name]) rows.back().push_back(text_of(ns, ns < 10 ? "%.2f" : "%.0f"));
        const double ns = found[name][published_size];
        bars.push_back({name, ns, ns, ns, text_of(ns) + " ns", bars.size() < 3 ? 1U : bars.size() < 12 ? 0U : 2U});
    }
    print_rows(headings, rows);
    std::printf("\n%s\n\n", told.c_str());
    page += study::card(name_of(kind), study::table(headings, rows) + study::element("p", told) +
                                           study::plot::bars(bars, std::string("264 ") + name_of(kind), "ns"));
    return found;
}

/// What holds on any machine.
void check(asked kind, row_of_sizes& found) {
    const auto at = [&found](const char* name) { return found[name][published_size]; };
    expect(at("places, indexed") * 3 < at("strings, hashed (std::unordered_map)"), "the published step is a gain");
    expect(at("integers, hashed (holdfast::hash_table)") < at("strings, hashed (std::unordered_map)"),
           "integers gain without any change of the structure's kind");
    expect(at("integers, hashed (std::unordered_map)") < at("strings, sorted and halved"),
           "strings in a flat array lose to integers that are hashed");
    expect(at("integers, by a perfect hash (holdfast::small_table)") < at("integers, hashed (holdfast::hash_table)"),
           "a perfect hash of keys that seldom change is a gain");
    if (kind != asked::absent)
        expect(at("integers, hashed (holdfast::hash_table)") < at("integers, scanned"),
               "a scan of 264 keys is no gain");
}

}  // namespace

int main(int argc, char** argv) {
    const auto asked_for = study::options_of(argc, argv, 0.3);
    if (!asked_for) return 2;
    const study::study_options& chosen = *asked_for;
    std::ofstream csv(chosen.out.empty() ? "/dev/null" : chosen.out + "/small_table.csv");
    if (!csv) {
        std::fprintf(stderr, "%s: cannot be written to\n", chosen.out.c_str());
        return 2;
    }
    csv << "asked,keys,way,median_ns,low_95_ns,high_95_ns\n";
    std::string page = study::where_text(perf::this_environment(perf::this_build()));
    for (const asked kind : kinds) {
        row_of_sizes found = time_kind(kind, chosen, csv, page);
        check(kind, found);
    }
    if (!chosen.out.empty() && !study::write_page(chosen.out + "/small_table.html", "A few hundred keys", page))
        return 2;
    return chosen.check && failures > 0 ? 1 : 0;
}
