// SPDX-License-Identifier: Apache-2.0
// published.hpp - who published a time. All of them are of other machines.
#pragma once

#include <string>

#include "scale.hpp"

namespace study {

/// Gregg, Systems Performance, 2013, table "example time scale of system latencies", for a processor of 3.3 GHz.
[[nodiscard]] inline published_time gregg(double low, double high = 0) {
    return {low, high > 0 ? high : low, "Gregg 2013"};
}
/// Norvig, Teach Yourself Programming in Ten Years, "approximate timing for various operations on a typical PC".
[[nodiscard]] inline published_time norvig(double ns) { return {ns, ns, "Norvig 2001"}; }
/// "Numbers everyone should know", as they went round with SSDs added.
[[nodiscard]] inline published_time dean(double ns) { return {ns, ns, "Dean 2012"}; }
/// "How long does it take to make a context switch?", on an Intel 5150.
[[nodiscard]] inline published_time sigoure(double ns) { return {ns, ns, "Sigoure 2010"}; }

inline constexpr double us = 1e3, ms = 1e6, s = 1e9;  // ns

}  // namespace study
