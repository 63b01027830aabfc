// SPDX-License-Identifier: Apache-2.0
#include "workload/suites.hpp"

#include "workload/hash_table_suite.hpp"

namespace holdfast::workload {

const std::vector<suite>& suites() {
    static const std::vector<suite> all = {
        hash_table_suite(own_hash_table_kinds()),
    };
    return all;
}

}  // namespace holdfast::workload
