// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments.hpp"

#include <CLI/CLI.hpp>

#include "cli/exit_code.hpp"
#include "cli/output.hpp"

namespace holdfast::cli {

namespace {

/// The action of the subcommand that was parsed. One command line a process, so one place.
std::function<int()>& chosen_action() {
    static std::function<int()> action;
    return action;
}

}  // namespace

command& command::positional(const std::string& name, std::string& into, const std::string& help, bool required) {
    app_->add_option(name, into, help)->required(required)->type_name("");
    return *this;
}

command& command::positionals(const std::string& name, std::vector<std::string>& into, const std::string& help,
                              bool required) {
    app_->add_option(name, into, help)->required(required)->type_name("");
    return *this;
}

command& command::option(const std::string& names, std::string& into, const std::string& value,
                         const std::string& help) {
    app_->add_option(names, into, help)->type_name(value);
    return *this;
}

command& command::option(const std::string& names, std::uint64_t& into, const std::string& value,
                         const std::string& help) {
    // The library reads -1 as 2^64 - 1.
    const auto unsigned_only = [](const std::string& text) {
        return text.starts_with('-') ? "is a number from 0 up, not " + text : std::string();
    };
    app_->add_option(names, into, help)->check(unsigned_only)->type_name(value);
    return *this;
}

command& command::option(const std::string& names, std::vector<std::string>& into, const std::string& value,
                         const std::string& help) {
    app_->add_option(names, into, help)
        ->type_name(value)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    return *this;
}

command& command::choice(const std::string& names, std::string& into, const std::vector<std::string>& allowed,
                         const std::string& help) {
    std::string value;
    for (const std::string& word : allowed) value += (value.empty() ? "" : "|") + word;
    app_->add_option(names, into, help)->check(CLI::IsMember(allowed).description(""))->type_name(value);
    return *this;
}

command& command::flag(const std::string& names, bool& into, const std::string& help) {
    app_->add_flag(names, into, help);
    return *this;
}

command& command::rest(std::vector<std::string>& into) {
    app_->prefix_command();
    CLI::App* const app = app_;
    app->parse_complete_callback([app, &into] { into = app->remaining(); });
    return *this;
}

command& command::hidden() {
    app_->group("");
    return *this;
}

command& command::details(const std::string& text) {
    app_->footer(text);
    return *this;
}

command& command::run(std::function<int()> action) {
    app_->callback([action = std::move(action)] { chosen_action() = action; });
    return *this;
}

command_line::command_line(const std::string& summary, const std::string& details)
    : app_(std::make_unique<CLI::App>(summary, "holdfast")) {
    app_->footer(details);
    app_->require_subcommand(1);
    app_->get_formatter()->column_width(34);
}

command_line::~command_line() = default;

command command_line::add(const std::string& name, const std::string& summary) {
    return command(*app_->add_subcommand(name, summary));
}

int command_line::parse_and_run(int argc, char** argv) {
    try {
        app_->parse(argc, argv);
    } catch (const CLI::Success& help) {
        return app_->exit(help);  // prints the help that was asked for
    } catch (const CLI::ParseError& wrong) {
        say(std::string("command line: ") + wrong.what() + "; holdfast --help lists what there is");
        return usage;
    }
    return chosen_action() ? chosen_action()() : static_cast<int>(usage);
}

}  // namespace holdfast::cli
