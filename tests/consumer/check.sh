#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check.sh install BUILD PREFIX | WAY FOLDER PREFIX: builds app/ in FOLDER, with Holdfast had in one WAY, and runs it.
# CXX names the compiler; WITH_NET=1 says that this build has the network front.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
tree=$(readlink -f "$here/../..")
way=$1 folder=$2 prefix=$3

app() {  # CMAKE-ARGUMENT...: configure, build and run the consumer's project
    cmake -G Ninja -S "$here/app" -B "$folder" -DHOW="$way" -DWITH_NET="$WITH_NET" "$@"
    cmake --build "$folder"
    "$folder/consumer"
}

[[ $way == install ]] || { rm -rf "$folder" && mkdir -p "$folder"; }
case $way in
    install)
        rm -rf "$prefix"
        cmake --install "$folder" --prefix "$prefix"
        ;;
    find_package) app -DCMAKE_PREFIX_PATH="$prefix" ;;
    moved_prefix)  # an installed tree may be moved: nothing in it names the place it was made for
        cp -r "$prefix" "$folder/elsewhere"
        ! grep -rIlF "$prefix" "$folder/elsewhere" || { echo "these files name the prefix"; exit 1; }
        way=find_package prefix=$folder/elsewhere folder=$folder/build
        app -DCMAKE_PREFIX_PATH="$prefix"
        ;;
    wrong_version)  # a version that this one does not satisfy is refused
        if cmake -G Ninja -S "$here/app" -B "$folder" -DHOW=find_package -DWITH_NET=0 -DWANTED=99.0 -DCMAKE_PREFIX_PATH="$prefix" \
            >"$folder.log" 2>&1; then
            echo "version 99.0 was found"; exit 1
        fi
        grep -q "compatible with requested version" "$folder.log" || { cat "$folder.log"; exit 1; }
        ;;
    add_subdirectory | fetch_content) app -DTREE="$tree" ;;
    pkg_config)
        PKG_CONFIG_PATH=$(find "$prefix" -name pkgconfig -type d)
        export PKG_CONFIG_PATH
        modules=(holdfast)
        [[ $WITH_NET != 1 ]] || modules+=(holdfast-net)
        # shellcheck disable=SC2046  # pkg-config prints several arguments
        "$CXX" -std=c++20 -Wall -Wextra -Wpedantic -Werror -DWITH_NET="$WITH_NET" $(pkg-config --cflags "${modules[@]}") \
            "$here/app/main.cpp" -o "$folder/consumer" $(pkg-config --libs "${modules[@]}")
        "$folder/consumer"
        ;;
    *) echo "no way $way" >&2; exit 2 ;;
esac
