// SPDX-License-Identifier: Apache-2.0
// gtestx.h - sources that were written for gtestx include this name; everything is in holdfast/perf_test.hpp.
#pragma once

#include "holdfast/perf_test.hpp"
