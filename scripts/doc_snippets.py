#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs the C++ programs that a document shows.

A fenced block ```cpp that has a main (or PERF_TEST_MAIN) is a whole program: it is compiled with warnings as errors and run in an empty folder, and has to end
with 0. A block that is no program is marked ```cpp fragment. Anything else is a mistake.

usage: doc_snippets.py --list ROOT            the documents that have C++ blocks
       doc_snippets.py DOCUMENT --cxx COMPILER --include FOLDER... [--library FILE...] [--work FOLDER]
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

FLAGS = ["-std=c++20", "-O0", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-pthread"]
FENCE = re.compile(r"^(?P<indent>[ \t]*)```cpp(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=indent)```[ \t]*$", re.M | re.S)


def blocks(text):
    """(line, what follows ```cpp, code) of each C++ block."""
    for match in FENCE.finditer(text):
        code = "".join(line.removeprefix(match["indent"]) for line in match["code"].splitlines(True))
        yield text.count("\n", 0, match.start()) + 2, match["info"].strip(), code


def documents(root):
    found = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [d.relative_to(root) for d in found if d.is_file() and any(blocks(d.read_text()))]


def run(document, line, code, arguments):
    """What went wrong with one program, or None."""
    folder = arguments.work / f"{document.stem}_{line}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "empty").mkdir(parents=True)
    source, program = folder / "main.cpp", folder / "program"
    source.write_text(f'#line {line} "{document}"\n{code}')
    command = [*arguments.cxx.split(), *FLAGS, *(f"-I{i}" for i in arguments.include), str(source), "-o", str(program), *arguments.library]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode:
        return f"does not compile\n{built.stderr}"
    try:
        ran = subprocess.run([str(program.resolve())], cwd=folder / "empty", env={**os.environ, "HOLDFAST_REGISTRY": str(folder.resolve() / "registry")},
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "does not end within 60 seconds"
    if ran.returncode:
        return f"ends with {ran.returncode}\n{ran.stdout}{ran.stderr}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("document", type=pathlib.Path, help="a document, or with --list the tree")
    parser.add_argument("--cxx", default=os.environ.get("CXX", "c++"))
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--library", action="append", default=[])
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("."))
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(str(d) for d in documents(arguments.document)))
        return 0
    programs, fragments, wrong = 0, 0, 0
    for line, info, code in blocks(arguments.document.read_text()):
        if re.search(r"\bint\s+main\s*\(|^PERF_TEST_MAIN$", code, re.M):
            programs += 1
            problem = run(arguments.document, line, code, arguments)
        elif info == "fragment":
            fragments, problem = fragments + 1, None
        else:
            problem = "is no program: give it a main, or mark it ```cpp fragment"
        if problem:
            wrong += 1
            print(f"{arguments.document}:{line}: the C++ block here {problem}")
    print(f"{arguments.document}: {programs} programs, {fragments} fragments, {wrong} wrong")
    return 1 if wrong or not programs + fragments else 0


if __name__ == "__main__":
    sys.exit(main())
