# SPDX-License-Identifier: Apache-2.0
# holdfast_development: warnings, sanitizers and language level of everything compiled in this repository.
# Never exported: a consumer's flags are the consumer's business.
add_library(holdfast_development INTERFACE)
target_compile_features(holdfast_development INTERFACE cxx_std_20)
target_compile_options(holdfast_development INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # It collects its garbage beyond 512 MB of it, not beyond 128 MB: a tenth less of its time.
  target_compile_options(holdfast_development INTERFACE "SHELL:--param ggc-min-expand=300" "SHELL:--param ggc-min-heapsize=524288")
endif()

option(HOLDFAST_WERROR "Warnings are errors" OFF)
if(HOLDFAST_WERROR)
  target_compile_options(holdfast_development INTERFACE -Werror)
endif()

set(HOLDFAST_SANITIZE "" CACHE STRING "Sanitizers for every target, as -fsanitize= takes them (address,undefined or thread)")
if(HOLDFAST_SANITIZE)
  target_compile_options(holdfast_development INTERFACE -fsanitize=${HOLDFAST_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(holdfast_development INTERFACE -fsanitize=${HOLDFAST_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # links a test in 0.5 s instead of 2.3: the sanitizers' library is large
    include(CheckLinkerFlag)
    check_linker_flag(CXX -fuse-ld=lld HOLDFAST_HAS_LLD)
    if(HOLDFAST_HAS_LLD)
      target_link_options(holdfast_development INTERFACE -fuse-ld=lld)
    endif()
  endif()
endif()

option(HOLDFAST_COVERAGE "Instrument for llvm-cov (clang)" OFF)
if(HOLDFAST_COVERAGE)
  target_compile_options(holdfast_development INTERFACE -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(holdfast_development INTERFACE -fprofile-instr-generate -fcoverage-mapping)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The base folder makes two clones of this repository share what they compile. What a source depends on is taken from the compiler, which
  # lists it for ninja anyway: a miss then costs no preprocessing of its own. The sloppiness is what precompiled headers need; no source of
  # ours says when it was compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_BASEDIR=${PROJECT_SOURCE_DIR};CCACHE_NOHASHDIR=1;CCACHE_DEPEND=1"
    "CCACHE_SLOPPINESS=pch_defines,time_macros;${CCACHE_PROGRAM}")
endif()
