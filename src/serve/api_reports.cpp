// SPDX-License-Identifier: Apache-2.0
// api_reports.cpp - the routes that tell of all segments: answered at once where they are few, else a part of the work
// in each turn of the loop. One report is gone on with at a time, so that a turn is as long with many as with one.
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "serve/answering.hpp"
#include "serve/api.hpp"

namespace holdfast::serve {

namespace {

using namespace std::chrono_literals;

constexpr auto turn_budget = 500us;

}  // namespace

/// Kept behind its request.
struct api::report {
    std::optional<net::peer> who;
    survey seen;
    report_writer write;
    route which;
    net::channel to{};
};

void api::answer_with_report(exchange& it, report_writer write) {
    const auto made =
        std::make_shared<report>(report{kept(it.who), survey(catalog_, it.who), std::move(write), it.which});
    bool whole = reports_.empty() && made->seen.go_on(turn_budget);            // else behind those that came before
    while (!whole && loop_ == nullptr) whole = made->seen.go_on(turn_budget);  // who has no loop keeps nobody waiting
    if (whole) return made->write(it.to, made->seen, it.who);
    made->to = it.to.defer({.answers_half_closed = true});
    it.counted = 0;
    reports_.push_back(made);
    schedule_reports();
}

void api::schedule_reports() {
    if (!reports_scheduled_) reports_scheduled_ = loop_->post([this] { go_on_with_reports(); });
}

// The next turn is asked for before anything that may fail: a report that failed so is gone on with, or its client is
// told that it took too long.
void api::go_on_with_reports() {
    reports_scheduled_ = false;
    while (!reports_.empty() && !reports_.front()->to.is_open()) reports_.pop_front();
    if (reports_.empty()) return;
    schedule_reports();
    const auto first = reports_.front();
    if (!first->seen.go_on(turn_budget)) return;
    reports_.pop_front();
    finish_report(*first);
}

void api::finish_report(report& one) {
    net::response late;
    answer_or_refuse(late, [&] { one.write(late, one.seen, viewer_of(one.who)); });
    late.route(static_cast<int>(one.which));
    requests_.count(one.which, late.status());
    one.to.answer(std::move(late));
}

}  // namespace holdfast::serve
