#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check.sh SOURCE INCLUDE PROGRAM: compiles a source for 64-bit Arm and runs it. 77: this machine cannot.
set -euo pipefail
source=$1 include=$2 program=$3
need() { printf 'skipped: %s (./dev setup installs it)\n' "$1"; exit 77; }
command -v clang++-19 >/dev/null || need "clang++-19 is missing"
command -v ld.lld-19 >/dev/null || need "lld-19 is missing"
command -v qemu-aarch64 >/dev/null || need "qemu-aarch64 of qemu-user is missing"
[[ -e /usr/aarch64-linux-gnu/lib/libc.a && -e /usr/lib/gcc-cross/aarch64-linux-gnu/12/libstdc++.a ]] || need "libstdc++-12-dev-arm64-cross is missing"
clang++-19 --target=aarch64-linux-gnu -std=c++20 -O2 -Wall -Wextra -Werror -I "$include" -fuse-ld=lld-19 -static "$source" -o "$program"
qemu-aarch64 "$program"
