// SPDX-License-Identifier: Apache-2.0
// machine.hpp - where a run took place, as far as it decides whether two runs may be compared.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::workload {

struct machine_record {
    std::string name;   ///< short and fit for the name of a folder: "amd-epyc-9r14-2cpu"
    std::string cpu;    ///< model as the processor names itself
    unsigned cpus = 0;  ///< that this process may run on
    std::uint64_t memory_bytes = 0;
    std::string kernel, compiler, build;  ///< build: optimised or not, sanitizers, the version of Holdfast
    std::vector<std::pair<std::string, std::string>>
        conditions;                     ///< what may disturb: load, steal, governor, huge pages
    std::vector<std::string> warnings;  ///< for people: what makes the numbers doubtful

    /// The parts that have to agree before two runs are compared, as one text.
    [[nodiscard]] std::string identity() const;
};

/// As perf_test/environment.hpp finds it. What the system does not tell is left out, never guessed.
[[nodiscard]] machine_record this_machine();

}  // namespace holdfast::workload
