// SPDX-License-Identifier: Apache-2.0
#include "workload/command.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "workload/runner.hpp"

namespace holdfast::workload {

namespace {

constexpr std::string_view help =
    "usage: bench SUITE... [--quick] [--json FILE] [--html FILE] [--filter TEXT] [--only SUBJECT]... [-time MS]\n"
    "       bench [--list [SUITE...]]\n"
    "  SUITE           what to run; all: every suite; none: their list\n"
    "  --list          the suites, or the experiments of the suites named\n"
    "  --quick         small and short, for a first look: about a minute a suite\n"
    "  --filter TEXT   only experiments whose name (SUITE: EXPERIMENT) holds TEXT\n"
    "  --only SUBJECT  only this peer beside ours; may be given again\n"
    "  -time MS        time for each subject of an experiment, 1500 ms if not given\n"
    "  --json FILE     the results as JSON; - is stdout, and there are no tables then; FILE.partial holds those of a\n"
    "                  run that was ended early\n"
    "  --html FILE     the results as one page with charts\n"
    "Exit codes: 0 done, 1 a suite failed, 2 usage.\n";

[[nodiscard]] double seconds_of(std::string_view text) {
    double ms = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), ms);
    constexpr double ms_max = 3'600'000;
    if (status != std::errc() || end != text.data() + text.size() || !(ms >= 1) || ms > ms_max)
        throw usage_error("-time is a number of milliseconds from 1 to 3600000, not " + std::string(text));
    return ms / 1000;
}

[[nodiscard]] std::string names_of(const std::vector<suite>& suites) {
    std::string names;
    for (const suite& one : suites) names += (names.empty() ? "" : ", ") + one.name;
    return names;
}

[[nodiscard]] std::vector<const suite*> chosen_suites(const std::vector<std::string>& names,
                                                      const std::vector<suite>& suites) {
    std::vector<const suite*> chosen;
    for (const std::string& name : names) {
        const std::size_t before = chosen.size();
        for (const suite& one : suites)
            if (name == one.name || name == "all") chosen.push_back(&one);
        if (chosen.size() == before) throw usage_error("no suite " + name + "; there are: " + names_of(suites));
    }
    // In the order given, each once.
    std::vector<const suite*> once;
    for (const suite* const one : chosen)
        if (std::find(once.begin(), once.end(), one) == once.end()) once.push_back(one);
    return once;
}

/// A file that is written in the end, and whose place is proved to be writable at once: a run of an hour must not end
/// with a misspelt folder. Until then an old file stays as it is, and what is there so far lies beside it.
class late_file {
 public:
    explicit late_file(std::string path) : path_(std::move(path)) {
        if (path_.empty() || path_ == "-") return;
        const bool is_new = ::access(path_.c_str(), F_OK) != 0;
        const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
        if (file < 0) throw usage_error(path_ + " cannot be written: " + std::strerror(errno));
        ::close(file);
        if (is_new) ::unlink(path_.c_str());
    }
    /// What a run that is ended early leaves: PATH.partial. Failing costs no run.
    void keep(const std::string& text) const {
        if (!is_regular()) return;
        std::FILE* const file = std::fopen((path_ + partial).c_str(), "we");
        if (file == nullptr) return;
        (void)std::fwrite(text.data(), 1, text.size(), file);
        (void)std::fclose(file);
    }
    void write(const std::string& text) const {
        if (path_.empty()) return;
        if (is_regular()) ::unlink((path_ + partial).c_str());
        std::FILE* const file = path_ == "-" ? stdout : std::fopen(path_.c_str(), "we");
        bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
        const int reason = errno;
        if (file != nullptr) written = (file == stdout ? std::fflush(file) : std::fclose(file)) == 0 && written;
        if (!written)
            throw std::runtime_error((path_ == "-" ? "standard output" : path_) +
                                     " could not be written: " + std::strerror(reason != 0 ? reason : errno));
    }

 private:
    static constexpr const char* partial = ".partial";

    [[nodiscard]] bool is_regular() const {
        struct stat status{};
        return !path_.empty() && path_ != "-" && (::stat(path_.c_str(), &status) != 0 || S_ISREG(status.st_mode));
    }

    std::string path_;
};

[[nodiscard]] bool is_terminal(int file) {
    const char* const terminal = std::getenv("TERM");
    return ::isatty(file) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

[[nodiscard]] bool wants_colours(std::FILE* stream) {
    const char* const no_color = std::getenv("NO_COLOR");
    return is_terminal(::fileno(stream)) && (no_color == nullptr || *no_color == '\0');
}

void print(std::FILE* stream, const std::string& text) {
    (void)std::fwrite(text.data(), 1, text.size(), stream);
    std::fflush(stream);
}

void print_list(const std::vector<const suite*>& chosen, const bench_request& request,
                const std::vector<suite>& suites) {
    std::size_t width = 0;
    for (const suite& one : suites) width = std::max(width, one.name.size());
    std::string out;
    for (const suite& one : suites) {
        const bool named = std::find(chosen.begin(), chosen.end(), &one) != chosen.end();
        if (!chosen.empty() && !named) continue;
        out += one.name + std::string(width - one.name.size() + 2, ' ') + one.description + "\n";
        if (!named) continue;
        for (const std::string& name : experiment_names(one, request.options)) out += "    " + name + "\n";
    }
    print(stdout, out);
}

/// Throws: usage_error if nothing would run, before anything does.
void check_filter(const std::vector<const suite*>& chosen, const run_options& options) {
    if (options.filter.empty()) return;
    std::string names;
    for (const suite* const one : chosen) {
        if (!experiment_names(*one, options).empty()) return;
        names += " " + one->name;
    }
    throw usage_error("no experiment holds \"" + options.filter + "\" in its name; bench --list" + names +
                      " shows them");
}

}  // namespace

bench_request parse_bench_request(const std::vector<std::string_view>& words) {
    bench_request request;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string_view word = words[i];
        if (!word.starts_with('-')) {
            request.suites.emplace_back(word);
            continue;
        }
        std::string_view name = word, attached;
        const std::size_t equals = word.find('=');
        if (equals != std::string_view::npos) name = word.substr(0, equals), attached = word.substr(equals + 1);
        if (name.starts_with("--")) name.remove_prefix(1);  // one dash or two
        const auto value = [&] {
            if (equals != std::string_view::npos) return std::string(attached);
            if (i + 1 == words.size()) throw usage_error(std::string(word) + " needs a value; bench --help shows all");
            return std::string(words[++i]);
        };
        const auto filled = [&] {
            std::string text = value();
            if (text.empty()) throw usage_error(std::string(word) + " needs a value that is not empty");
            return text;
        };
        if (name == "-json") {
            request.json_file = filled();
        } else if (name == "-html") {
            request.html_file = filled();
        } else if (name == "-filter") {
            request.options.filter = filled();
        } else if (name == "-only") {
            request.options.only.push_back(filled());
        } else if (name == "-time") {
            request.options.seconds = seconds_of(value());
        } else if (equals == std::string_view::npos && name == "-quick") {
            request.options.quick = true;
        } else if (equals == std::string_view::npos && name == "-list") {
            request.list = true;
        } else {
            throw usage_error("no option " + std::string(word) + "; bench --help shows all");
        }
    }
    if (!request.json_file.empty() && request.json_file == request.html_file)
        throw usage_error("--json and --html name one file; give each its own");
    return request;
}

void run_bench(const bench_request& request, const std::vector<suite>& suites) {
    const std::vector<const suite*> chosen = chosen_suites(request.suites, suites);
    if (request.list || chosen.empty()) return print_list(chosen, request, suites);
    const late_file json(request.json_file), html(request.html_file);
    check_filter(chosen, request.options);

    std::FILE* const tables = request.json_file == "-" || request.html_file == "-" ? nullptr : stdout;
    const bool colours = tables != nullptr && wants_colours(tables);
    run_listener listener;
    if (is_terminal(STDERR_FILENO))
        listener.progress = [](std::string_view line) { print(stderr, "\r\033[K" + std::string(line)); };
    listener.done = [&](const report& so_far) {
        if (tables != nullptr) print(tables, table_text(so_far.experiments.back(), colours) + "\n");
        json.keep(json_text(so_far));
    };
    const report all = run_suites(chosen, request.options, listener);
    if (tables != nullptr) print(tables, closing_text(all, colours));
    json.write(json_text(all));
    html.write(html_text(all));
    if (!all.failures.empty())
        throw std::runtime_error("suite " + all.failures.front().suite + " failed: " + all.failures.front().text);
    if (all.experiments.empty()) {
        const std::string why =
            all.skipped.empty() ? "" : ": " + all.skipped.front().subject + ": " + all.skipped.front().text;
        throw std::runtime_error("nothing was measured" + why);
    }
}

int bench_main(int argc, char** argv, const std::vector<suite>& suites) noexcept {
    try {
        const std::vector<std::string_view> words(argv + std::min(argc, 1), argv + argc);
        for (const std::string_view word : words)
            if (word == "--help" || word == "-h" || word == "-help") {
                print(stdout, std::string(help));
                return 0;
            }
        run_bench(parse_bench_request(words), suites);
        return 0;
    } catch (const usage_error& wrong) {
        std::fprintf(stderr, "bench: %s\n", wrong.what());
        return 2;
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "bench: %s\n", failure.what());
        return 1;
    }
}

}  // namespace holdfast::workload
