// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/interleaved.hpp"
