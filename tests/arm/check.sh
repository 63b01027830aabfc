#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check.sh TREE PROGRAM LEVEL SOURCE... [-- ARGUMENT...]: compiles sources of the tree for 64-bit Arm, at an optimisation level, and runs what they make. 77: this machine cannot.
set -euo pipefail
tree=$1 program=$2 level=$3
shift 3
sources=()
while (($#)) && [[ $1 != -- ]]; do sources+=("$tree/$1"); shift; done
(($# == 0)) || shift
need() { printf 'skipped: %s (./dev setup installs it)\n' "$1"; exit 77; }
command -v clang++-19 >/dev/null || need "clang++-19 is missing"
command -v ld.lld-19 >/dev/null || need "lld-19 is missing"
command -v qemu-aarch64 >/dev/null || need "qemu-aarch64 of qemu-user is missing"
[[ -e /usr/aarch64-linux-gnu/lib/libc.a && -e /usr/lib/gcc-cross/aarch64-linux-gnu/12/libstdc++.a ]] || need "libstdc++-12-dev-arm64-cross is missing"
printf '#include "%s"\n' "${sources[@]}" >"$program.cpp"  # in one compilation they take a quarter of the time
clang++-19 --target=aarch64-linux-gnu -std=c++20 "$level" -Wall -Wextra -Werror -I "$tree/include" -I "$tree/src" -I "$tree/tests" -fuse-ld=lld-19 -static "$program.cpp" -o "$program"
qemu-aarch64 "$program" "$@"
