#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check.sh install BUILD PREFIX | WAY FOLDER PREFIX: builds app/ in FOLDER, with Holdfast had in one WAY, and runs it.
# CXX names the compiler; WITH_NET=1 says that this build has the network front, WITH_PERF_TEST=1 that it has the performance tests.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
tree=$(readlink -f "$here/../..")
way=$1 folder=$2 prefix=$3

app() {  # CMAKE-ARGUMENT...: configure, build and run the consumer's project
    cmake -G Ninja -S "$here/app" -B "$folder" -DHOW="$way" -DWITH_NET="$WITH_NET" -DWITH_PERF_TEST="$WITH_PERF_TEST" "$@"
    cmake --build "$folder"
    "$folder/consumer"
    [[ $WITH_PERF_TEST != 1 ]] || "$folder/consumer_perf" -time=20
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
        if cmake -G Ninja -S "$here/app" -B "$folder" -DHOW=find_package -DWITH_NET=0 -DWITH_PERF_TEST=0 -DWANTED=99.0 -DCMAKE_PREFIX_PATH="$prefix" \
            >"$folder.log" 2>&1; then
            echo "version 99.0 was found"; exit 1
        fi
        grep -q "compatible with requested version" "$folder.log" || { cat "$folder.log"; exit 1; }
        ;;
    add_subdirectory) app -DTREE="$tree" -DHOLDFAST_UNITY=ON ;;
    fetch_content)  # the same tree by another way to it: what is compiled of it was compiled above
        WITH_NET=0 WITH_PERF_TEST=0
        app -DTREE="$tree"
        ;;
    pkg_config)
        PKG_CONFIG_PATH=$(find "$prefix" -name pkgconfig -type d)
        export PKG_CONFIG_PATH
        modules=(holdfast)
        [[ $WITH_NET != 1 ]] || modules+=(holdfast-net)
        # shellcheck disable=SC2046  # pkg-config prints several arguments
        "$CXX" -std=c++20 -Wall -Wextra -Wpedantic -Werror -DWITH_NET="$WITH_NET" $(pkg-config --cflags "${modules[@]}") \
            "$here/app/main.cpp" -o "$folder/consumer" $(pkg-config --libs "${modules[@]}")
        "$folder/consumer"
        [[ $WITH_PERF_TEST == 1 ]] || exit 0
        # shellcheck disable=SC2046
        "$CXX" -std=c++20 -Wall -Wextra -Wpedantic -Werror -Wno-deprecated-declarations $(pkg-config --cflags holdfast-perf_test gtest_main) \
            "$here/app/perf.cpp" -o "$folder/consumer_perf" $(pkg-config --libs holdfast-perf_test gtest_main)
        "$folder/consumer_perf" -time=20
        ;;
    newer_gtest)  # the macros against the newest GoogleTest that ./dev setup can have, beside the system's own
        sources=$tree/build/crates/boring-sys/deps/boringssl/third_party/googletest/googletest
        [[ $WITH_PERF_TEST == 1 ]] || { echo "skipped: this build has no performance tests"; exit 77; }
        [[ -d $sources ]] || { echo "skipped: needs the sources of a newer GoogleTest: ./dev setup"; exit 77; }
        sed -n 's/^set(GOOGLETEST_VERSION \(.*\))/GoogleTest \1/p' "$sources/../CMakeLists.txt"
        PKG_CONFIG_PATH=$(find "$prefix" -name pkgconfig -type d)
        export PKG_CONFIG_PATH
        compiler=("${CMAKE_CXX_COMPILER_LAUNCHER:-env}" "$CXX" -std=c++20 -isystem "$sources/include")
        "${compiler[@]}" -I"$sources" -c "$sources/src/gtest-all.cc" -o "$folder/gtest.o"
        "${compiler[@]}" -c "$sources/src/gtest_main.cc" -o "$folder/gtest_main.o"
        printf '#include "%s"\n' "$tree"/examples/perf_tests/*.cpp >"$folder/perf_tests.cpp"  # one after the other they take six times as long
        for source in "$here/app/perf.cpp" "$folder/perf_tests.cpp"; do
            # shellcheck disable=SC2046
            "${compiler[@]}" -Wall -Wextra -Wpedantic -Werror -Wno-deprecated-declarations $(pkg-config --cflags holdfast-perf_test) \
                -c "$source" -o "$folder/$(basename "$source" .cpp).o"
        done
        # shellcheck disable=SC2046
        "$CXX" "$folder/perf.o" "$folder/gtest.o" "$folder/gtest_main.o" -o "$folder/app" $(pkg-config --libs holdfast-perf_test)
        "$folder/app" -time=20
        # shellcheck disable=SC2046
        "$CXX" "$folder/perf_tests.o" "$folder/gtest.o" -o "$folder/perf_tests" $(pkg-config --libs holdfast-perf_test)
        "$folder/perf_tests" -time=20
        ;;
    *) echo "no way $way" >&2; exit 2 ;;
esac
