# SPDX-License-Identifier: Apache-2.0
# holdfast_precompiled(<name> HEADERS <header>... LINK <target>...): headers that many sources include, compiled once by clang. (What g++ writes
# down it takes as long to read as to compile.) A target takes them by target_precompile_headers(<target> REUSE_FROM <name>), and has the same
# flags. Where nobody takes them, nothing is built.
set(CMAKE_PCH_PROLOGUE "")  # CMake's own declares all of it system headers: ours would be compiled without warnings
function(holdfast_precompiled name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;LINK")
  set(source "${CMAKE_BINARY_DIR}/precompiled/${name}.cpp")  # an object library has a source
  file(GENERATE OUTPUT "${source}" CONTENT "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL "${source}")
  target_link_libraries(${name} PRIVATE ${arg_LINK} holdfast_development)
  # ccache takes the times of the headers for a part of what was compiled otherwise.
  target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

# What most of our sources include of the core.
set(HOLDFAST_COMMON_HEADERS <algorithm> <chrono> <functional> <ranges> <string> <vector> "holdfast/array.hpp" "holdfast/block_store.hpp"
  "holdfast/broadcast.hpp" "holdfast/hash_map.hpp" "holdfast/hash_table.hpp" "holdfast/hash_table/dynamic.hpp" "holdfast/queue.hpp"
  "holdfast/segment.hpp" "holdfast/snapshot.hpp" "holdfast/sorted_index.hpp")
list(TRANSFORM HOLDFAST_COMMON_HEADERS REPLACE "^(holdfast/.*)$" "${PROJECT_SOURCE_DIR}/include/\\1")
