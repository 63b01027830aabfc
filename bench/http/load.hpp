// SPDX-License-Identifier: Apache-2.0
// load.hpp - the load client of the program under the names that the suite uses.
#pragma once

#include "workload/http_load/interruption.hpp"
#include "workload/http_load/load_generator.hpp"

namespace holdfast::bench::http {

using workload::http::ask_once;
using workload::http::check_interruption;
using workload::http::exchange;
using workload::http::interrupted;
using workload::http::interruption_watch;
using workload::http::load_outcome;
using workload::http::load_plan;
using workload::http::load_protocol;
using workload::http::loopback;
using workload::http::on_window;
using workload::http::run_load;
using workload::http::server_failed;
using workload::http::wrong_answer;

}  // namespace holdfast::bench::http
