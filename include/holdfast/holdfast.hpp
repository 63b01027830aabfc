// SPDX-License-Identifier: Apache-2.0
// holdfast.hpp - the whole core: every container, the segment beneath them, and the errors.
#pragma once

#include "holdfast/error.hpp"
#include "holdfast/memory/passing.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/segment.hpp"
#include "holdfast/version.hpp"
