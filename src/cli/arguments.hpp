// SPDX-License-Identifier: Apache-2.0
// arguments.hpp - the one door to the command-line library. Subcommands say what they take; parsing fills their
// variables, which must live as long as the command line.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace holdfast::cli {

/// One subcommand while it is declared.
class command {
 public:
    explicit command(CLI::App& app) noexcept : app_(&app) {}

    command& positional(const std::string& name, std::string& into, const std::string& help, bool required = true);
    command& positionals(const std::string& name, std::vector<std::string>& into, const std::string& help,
                         bool required = true);
    /// `names` as `--limit` or `-n,--limit`; `value` is what help shows for the value.
    command& option(const std::string& names, std::string& into, const std::string& value, const std::string& help);
    command& option(const std::string& names, std::uint64_t& into, const std::string& value, const std::string& help);
    command& option(const std::string& names, std::vector<std::string>& into, const std::string& value,
                    const std::string& help);
    command& choice(const std::string& names, std::string& into, const std::vector<std::string>& allowed,
                    const std::string& help);
    command& flag(const std::string& names, bool& into, const std::string& help);
    /// Takes everything that follows as it is, options too.
    command& rest(std::vector<std::string>& into);
    command& hidden();
    /// What help says after the options.
    command& details(const std::string& text);
    /// What the subcommand does; returns the exit code.
    command& run(std::function<int()> action);

 private:
    CLI::App* app_;
};

class command_line {
 public:
    command_line(const std::string& summary, const std::string& details);
    ~command_line();
    command_line(const command_line&) = delete;
    command_line& operator=(const command_line&) = delete;

    [[nodiscard]] command add(const std::string& name, const std::string& summary);
    /// Parses and runs the chosen subcommand. Prints help and usage errors itself. Throws: whatever the subcommand
    /// throws.
    [[nodiscard]] int parse_and_run(int argc, char** argv);

 private:
    std::unique_ptr<CLI::App> app_;
    std::function<int()> chosen_;
    friend class command;
};

}  // namespace holdfast::cli
