#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the builds of the gate, each of which leaves out what another has, leave nothing out together.

usage: gate_sources.py [--root TREE] BUILD...
                                     names each source of tests/ and fuzz/ that none of these builds compiles into `all`; exit status 1 if there is one
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

# Projects of their own, which their tests configure; and a program that is run by hand, when a layout is to be kept.
OTHERS = ("tests/consumer/", "tests/compile_fail/", "tests/arm/", "tests/golden/make_golden.cpp")
SOURCE = (".cpp", ".cc", ".cxx")


def compiled(build):
    """The sources of a build that has been made, those too that it puts together into one (cmake/whole.cmake)."""
    inputs = subprocess.run(["ninja", "-C", str(build), "-t", "inputs", "all"], capture_output=True, text=True, check=True).stdout
    for name in inputs.splitlines():
        path = (build / name).resolve()
        if path.suffix not in SOURCE:
            continue
        yield path
        if path.is_relative_to(build) and path.is_file():
            for line in re.findall(r'^#(?:include|line 1) "([^"]+)"$', path.read_text(), re.M):
                yield pathlib.Path(os.path.realpath(line))


def missing_of(root, builds):
    seen = {path for build in builds for path in compiled(build.resolve())}
    for folder in ("tests", "fuzz"):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in SOURCE and not name.startswith(OTHERS) and path not in seen:
                yield name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent, help=argparse.SUPPRESS)
    parser.add_argument("builds", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    missing = list(missing_of(arguments.root.resolve(), arguments.builds))
    for name in missing:
        print(f"{name}: no build of the gate compiles it: the CMakeLists.txt of its folder, or tests/CMakeLists.txt, leaves it out of each")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
