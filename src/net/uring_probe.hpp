// SPDX-License-Identifier: Apache-2.0
// uring_probe.hpp - whether io_uring does here what the engine needs of it.
#pragma once

#include "engine.hpp"

namespace holdfast::net {

/// Receives twice by one operation into buffers of a ring of those sizes: a kernel, or what stands in for one, may know
/// an operation and not its multishot form. Throws: error(unsupported) that says in words what is missing.
void check_multishot(const uring_sizes& sizes);

/// Puts sockets into a ring's table and one out of it, which has to close it although an older receive waits on another
/// (uring_files.hpp, F3). Throws: error(unsupported) that says in words what is missing.
void check_direct();

}  // namespace holdfast::net
