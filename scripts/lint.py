#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of this tree that a program can check. Each rule is a function; its docstring is what --list prints.

usage: lint.py [--build FOLDER] [RULE...]   check the tree (all rules); FOLDER is a configured build
       lint.py --list                       the rules
Exit status: 0 clean, 1 findings (FILE:LINE: RULE: what, and what to do), 77 the only rule asked for could not be checked here.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from lint_cpp import Source
import lint_layers
import lint_stepped

CLANG_FORMAT_VERSION = "19.1.7"  # as packages/python.txt pins it
CPP = (".cpp", ".hpp", ".h", ".cc")


class Unavailable(Exception):
    """A rule cannot be checked on this machine; the text says what is missing."""


class Tree:
    """The files of the repository (tracked, and new ones that git does not ignore)."""

    def __init__(self, root, build=None):
        self.root = pathlib.Path(root)
        self.build = pathlib.Path(build) if build else None
        self.paths = sorted(p for p in self._list() if (self.root / p).is_file() and not (self.root / p).is_symlink())
        self._text = {}
        self._source = {}

    def _list(self):
        command = ["git", "-C", str(self.root), "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "-z"]
        listed = subprocess.run(command, capture_output=True, text=True)
        if listed.returncode == 0:
            return listed.stdout.split("\0")[:-1]
        found = (p.relative_to(self.root) for p in self.root.rglob("*"))  # an unpacked archive without git
        return [str(p) for p in found if p.parts[0] not in ("build", ".git", ".cache")]

    def text(self, path):
        """The content of a text file; "" for a binary one."""
        if path not in self._text:
            data = (self.root / path).read_bytes()
            self._text[path] = "" if b"\0" in data else data.decode("utf-8", "replace")
        return self._text[path]

    def lines(self, path):
        return enumerate(self.text(path).splitlines(), 1)

    def cpp(self, *folders):
        """The C++ files below the folders (all when none is named)."""
        return [p for p in self.paths if p.endswith(CPP) and (not folders or p.startswith(folders))]

    def source(self, path):
        if path not in self._source:
            self._source[path] = Source(self.text(path))
        return self._source[path]

    def documents(self):
        """Everything people wrote; corpora and golden files are data and are not read as prose."""
        return [p for p in self.paths if not p.startswith(("fuzz/corpus/", "tests/golden/", "tests/fixtures/", "LICENSE"))]


SHIPPED = ("include/", "src/")


def layers(tree):
    """an include goes to a lower layer only (table in lint_layers.py)"""
    for path in tree.cpp(*SHIPPED):
        for number, name, quoted in tree.source(path).includes():
            finding = lint_layers.check(tree, path, name, quoted)
            if finding:
                yield path, number, finding


def core_includes(tree):
    """installed headers include only std, Linux's own headers and ours (perf_test.hpp and perf_test/gtest/ GoogleTest's too)"""
    for path in tree.cpp("include/"):
        for number, name, quoted in tree.source(path).includes():
            if not quoted and not lint_layers.is_system(name) and not (
                    path.startswith(("include/holdfast/perf_test.hpp", "include/holdfast/perf_test/gtest/")) and name.startswith("gtest/")):
                yield path, number, f"<{name}> is neither std nor Linux: the core depends on nothing else"


def memory_order(tree):
    """a memory order is explained: not relaxed = a comment on its line or within the 3 above (of the same statement or block);
    relaxed = likewise, or a comment in or directly above its function, or the word "relaxed" in the file's opening comment"""
    for path in tree.cpp(*SHIPPED, "examples/", "bench/"):
        source = tree.source(path)
        for number, line in enumerate(source.code, 1):
            for order in re.findall(r"memory_order(?:_|::)(\w+)", line):
                near = source.comment_within(number - 3, number)
                if order == "relaxed":
                    if not (near or source.function_comment(number) or "relaxed" in source.opening_comment()):
                        yield path, number, "relaxed without a word why that is enough, here, in the function or in the opening comment"
                elif not near:
                    yield path, number, f"{order} without a comment that names its pair and what a weaker order would permit"


def no_volatile(tree):
    """`volatile` is not synchronisation (inline assembly may be volatile)"""
    for path in tree.cpp():
        for number, line in enumerate(tree.source(path).code, 1):
            if re.search(r"\bvolatile\b", re.sub(r"\b(?:asm|__asm__|__asm)\s+(?:volatile|__volatile__)\b", "", line)):
                yield path, number, "volatile: use std::atomic, or asm volatile for a compiler barrier"


def no_assert(tree):
    """bytes from outside never reach assert, abort or terminate; what guards against ourselves says `// our own mistake: ...`"""
    for path in tree.cpp(*SHIPPED):
        source = tree.source(path)
        for number, line in enumerate(source.code, 1):
            if re.search(r"(?<![\w.>])(?:assert|abort|terminate)\s*\(", line):
                if "our own mistake:" not in source.comments.get(number, ""):
                    yield path, number, "reachable from a segment's bytes? report it; guarding ourselves? say `// our own mistake: ...`"


def headers(tree):
    """a header begins with #pragma once after its comments, and has no <iostream> and no `using namespace`"""
    for path in tree.cpp():
        if not path.endswith((".hpp", ".h")):
            continue
        source = tree.source(path)
        if not any(re.match(r"\s*#\s*pragma\s+once\b", line) for line in source.code):
            yield path, 1, "no #pragma once"
        for number, line in enumerate(source.code, 1):
            if re.match(r"\s*#\s*include\s*<iostream>", line):
                yield path, number, "<iostream> in a header makes every user pay for it: <iosfwd>, or move the code to a .cpp"
            if re.search(r"\busing\s+namespace\b", line):
                yield path, number, "using namespace in a header leaks into every file that includes it"


def license_line(tree):
    """source files begin with the SPDX line (after a #! line or an opening tag)"""
    wanted = "SPDX-License-Identifier: " + "Apache-2.0"
    for path in tree.paths:
        name = os.path.basename(path)
        if path.startswith(("fuzz/corpus/", "tests/fixtures/", "tests/golden/")):
            continue
        code = path.endswith(CPP + (".py", ".sh", ".cmake", ".js", ".mjs", ".css", ".html", ".in")) or name in ("CMakeLists.txt", "dev")
        code = code or tree.text(path).startswith("#!")
        if code and wanted not in "\n".join(tree.text(path).splitlines()[:1 if path.endswith(CPP) else 3]):
            yield path, 1, f"begin with the line `{wanted}` as a comment"


def machine_paths(tree):
    """no path of one machine"""
    pattern = re.compile(r"(?<![\w.$}/~-])/(?:" + "|".join(("work", "home", "root", "Users", "mnt")) + r")(?![\w-])")
    for path in tree.documents():
        for number, line in tree.lines(path):
            if pattern.search(re.sub(r"https?://\S+", "", line)):
                yield path, number, "a path of one machine: take it from the environment, an argument or the file's own place"


def registry_hosts(tree):
    """no host of a package registry or mirror: which one is used is the machine's business"""
    hosts = [r"pypi\.", r"files\.python" + r"hosted", r"registry\.[\w-]+\.", r"crates\.io", r"npm" + r"js\.", r"(?:deb|security|ftp\.\w+|snapshot)\.debian\.",
             r"proxy\.golang", r"ghcr\.io", r"docker\.io", r"mirrors?\.[\w-]+\."]
    pattern = re.compile(r"(?:https?://|@|\b)(?:[\w-]+\.)*(?:" + "|".join(hosts) + r")[a-z]{2,}/?", re.I)
    for path in tree.documents():
        if path == "scripts/lint.py":
            continue
        for number, line in tree.lines(path):
            if pattern.search(line):
                yield path, number, "names the host of a package registry"


def unfinished(tree):
    """no marker of unfinished work, no reference to a ticket: the tree speaks of itself as it is"""
    markers = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK", "TB" + "D", "W" + "IP")) + r")\b")
    tickets = re.compile(r"\b(?:issue|ticket|pull request|PR)s? #?\d+\b", re.I)
    for path in tree.documents():
        for number, line in tree.lines(path):
            if markers.search(line):
                yield path, number, "marker of unfinished work: finish it, or leave it out and say so in docs/"
            if tickets.search(line):
                yield path, number, "a ticket's number means nothing to a reader of the tree: state the reason itself"


def file_names(tree):
    """names are lower case with underscores in code folders; no blank in any name"""
    for path in tree.paths:
        stem = os.path.basename(path)
        if " " in path or (path.endswith(CPP) and not re.fullmatch(r"[a-z0-9_]+\.\w+", stem)):
            yield path, 1, "name it in snake_case"


def every_source_is_built(tree):
    """each .cpp of src, tests, fuzz, examples and bench is compiled by a target"""
    if not tree.build or not (tree.build / "compile_commands.json").is_file():
        raise Unavailable("needs a configured build: cmake --preset release, then --build build/release")
    built = set()
    for entry in json.loads((tree.build / "compile_commands.json").read_text()):
        source = os.path.join(entry["directory"], entry["file"])
        built.add(os.path.realpath(source))
        if os.path.realpath(source).startswith(os.path.realpath(tree.build) + os.sep) and os.path.isfile(source):  # several in one (HOLDFAST_UNITY, cmake/whole.cmake)
            built.update(map(os.path.realpath, re.findall(r'^#(?:include|line 1) "([^"]+)"$', pathlib.Path(source).read_text(), re.M)))
    for path in tree.cpp("src/", "tests/", "fuzz/", "examples/", "bench/"):
        # tests/consumer, tests/compile_fail and tests/arm hold projects of their own, which their tests configure
        if path.endswith((".cpp", ".cc")) and not path.startswith(("tests/consumer/", "tests/compile_fail/", "tests/arm/")):
            if os.path.realpath(tree.root / path) not in built:
                yield path, 1, "no target builds this file: it looks tested or shipped and is neither"


def python_tests_run(tree):
    """each *_test.py and *_test.sh lies where ctest finds it (tests/lint, tests/e2e)"""
    for path in tree.paths:
        if path.endswith(("_test.py", "_test.sh")) and not re.fullmatch(r"tests/(?:lint|e2e)/[^/]+", path):
            yield path, 1, "nothing runs this test: move it to tests/e2e/"


def links(tree):
    """a relative link of a document leads to a file of the tree"""
    for path in tree.documents():
        if not path.endswith(".md"):
            continue
        fenced = False
        for number, line in tree.lines(path):
            fenced ^= line.lstrip().startswith("```")
            for target in [] if fenced else re.findall(r"\]\(([^)\s]+)\)", line):
                if re.match(r"[a-z]+:|#", target):
                    continue
                if not (tree.root / os.path.dirname(path) / target.split("#")[0]).exists():
                    yield path, number, f"the link {target} leads nowhere"


def one_version(tree):
    """CMakeLists.txt and version.hpp name the same version"""
    if "CMakeLists.txt" not in tree.paths or "include/holdfast/version.hpp" not in tree.paths:
        return
    project = re.search(r"project\(holdfast VERSION ([\d.]+)", tree.text("CMakeLists.txt"))
    header = tree.text("include/holdfast/version.hpp")
    numbers = re.findall(r"#define HOLDFAST_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)
    text = re.search(r'version_text = "([\d.]+)"', header)
    if not project or not text or not project[1] == ".".join(numbers) == text[1]:
        yield "include/holdfast/version.hpp", 1, "the version here, in version_text and in CMakeLists.txt differ"


def umbrella(tree):
    """holdfast.hpp includes every header of the core that lies beside it"""
    whole = "include/holdfast/holdfast.hpp"
    if whole not in tree.paths:
        return
    included = {name for _, name, _ in tree.source(whole).includes()}
    core = lint_layers.closure("umbrella")
    for path in tree.cpp("include/holdfast/"):
        name = path.removeprefix("include/")
        if name.count("/") == 1 and path != whole and name not in included and lint_layers.layer_of(path) in core | {None}:
            yield whole, 1, f'"{name}" is missing: whoever includes the whole core gets less than that'


def order_places(tree):
    """the places that docs/memory-orders.md and tests/hooks/survivors.txt name stand in the source as they say, and what survives
    since others need it (G) is caught in a row of others; where the page counts what nobody caught (F) it counts that right"""
    pages = {"docs/memory-orders.md": re.compile(r"\| [^|]+ \| (?P<file>\S+\.hpp) (?P<function>\S*).* \| `(?P<text>.*)` \| "),
             "tests/hooks/survivors.txt": re.compile(r"[^|#]+ \| [A-H] \| (?P<file>\S+) (?P<function>\S*).*? \| (?P<text>.*) \| ")}
    fates = [((row["file"], row["text"].replace("\\|", "|")), line[row.end():].split(" | ")[1]) for page in ("docs/memory-orders.md",) if page in tree.paths
             for _, line in tree.lines(page) if (row := pages[page].match(line))]
    caught = {order for order, fate in fates if not fate.startswith("survives")}
    seldom = [order for order, fate in fates if fate == "survives: F" and order not in caught]
    for page, row in pages.items():
        for number, line in tree.lines(page) if page in tree.paths else ():
            counted = re.search(r"\d+ rows of an F, \d+ lines", line)
            if counted and counted[0] != (right := f"{len(seldom)} rows of an F, {len(set(seldom))} lines"):
                yield page, number, f"that nobody caught are {right}"
            named = row.match(line)
            if not named:
                continue
            path = "include/holdfast/" + named["file"]
            lines = tree.text(path).splitlines() if path in tree.paths else []
            text = named["text"].replace("\\|", "|")
            if not any(re.sub(r"\s*//.*", "", each).strip() == text for each in lines) or named["function"] not in "\n".join(lines):
                yield page, number, (f"{path} has no such line (in {named['function']}): write the line as it stands there now, or make the "
                                     "table anew with the command above it")
            elif page.endswith("survivors.txt") and " | G | " in line and (named["file"], text) not in caught:
                yield page, number, "no row of docs/memory-orders.md says that this order is caught: G is no reason for it"


STRONG_ORDER = re.compile(r"\b(?:load_acquire|store_release)\b|memory_order_(?:acquire|release|acq_rel|seq_cst)\b")


def lies_in(where, lines, at):
    """Whether line `at` stands in the function that `where` names, "FUNCTION" or, of a text that stands there before, "FUNCTION (2)".
    The function's head is the line itself or one of those above it that are each indented less than the last."""
    function, _, count = where.partition(" ")
    inner = len(lines[at]) - len(lines[at].lstrip()) + 1
    for head in range(at, -1, -1):
        here = len(lines[head]) - len(lines[head].lstrip())
        if not lines[head].strip() or here >= inner or lines[head].lstrip().startswith("#"):
            continue
        inner = here
        if re.search(rf"(?<!\w){re.escape(function)}\(", lines[head]):
            same = sum(line.strip() == lines[at].strip() for line in lines[head:at])
            return count == (f"({same + 1})" if same else "")
    return False


def order_rows(tree):
    """each memory order of include/holdfast above relaxed is a row of docs/memory-orders.md, which a test relaxes, or has a reason in
    tests/hooks/unrelaxed.txt, also where its text stands once more in another function; nothing else has a line there, and where the
    page counts these lines it counts them right"""
    page, listed = "docs/memory-orders.md", "tests/hooks/unrelaxed.txt"
    row = re.compile(r"\| [^|]+ \| (?P<file>\S+\.hpp) (?P<where>\S*(?: \(\d+\))?) *\| `(?P<text>.*)` \| ")
    rows = collections.defaultdict(set)
    for _, line in tree.lines(page) if page in tree.paths else ():
        if m := row.match(line):
            rows[m["file"], m["text"].replace("\\|", "|")].add(m["where"])
    reasons, letters = {}, collections.Counter()
    for number, line in tree.lines(listed) if listed in tree.paths else ():
        if not line.startswith("#"):
            letter, _, rest = line.partition(" | ")
            letters[letter] += 1
            if letter not in ("S", "L", "T", "W", "O", "B"):
                yield listed, number, "not LETTER | FILE | TEXT with a letter from above"
            reasons[tuple(rest.split(" | ", 1))] = number
    there, unrelaxed = set(), set()
    for path in tree.cpp("include/holdfast/"):
        lines = [re.sub(r"\s*//.*", "", line) for _, line in tree.lines(path)]
        for number, line in enumerate(lines, 1):
            text = line.strip()
            order = (path.removeprefix("include/holdfast/"), text)
            if not STRONG_ORDER.search(text):
                continue
            there.add(order)
            if any(lies_in(where, lines, number - 1) for where in rows[order]):
                continue
            unrelaxed.add(order)
            if order not in reasons:
                yield path, number, f"no test relaxes this order: let two processes of tests/hooks pass it, or say in {listed} why not"
    for number, line in tree.lines(page) if page in tree.paths else ():
        counted = re.match(r"((?:[A-Z] \d+(?:, )?)+)\.", line)
        if counted and counted[1] != (right := ", ".join(f"{letter} {count}" for letter, count in sorted(letters.items(), key=lambda each: (-each[1], each[0])))):
            yield page, number, f"the lines of {listed} are {right}"
    for order, number in reasons.items():
        if order not in unrelaxed:
            yield listed, number, "this order " + ("has a row of docs/memory-orders.md" if order in there else "is not there") + ": take the line out"


def dependencies(tree):
    """a library of others is included by one wrapper file a component, and docs/dependencies.md names both"""
    page = tree.text("docs/dependencies.md") if "docs/dependencies.md" in tree.paths else ""
    users = {}
    for path in tree.cpp(*SHIPPED):
        for number, name, quoted in tree.source(path).includes():
            if not quoted and not lint_layers.is_system(name) and not name.startswith(("holdfast/", "gtest/")):
                users.setdefault(re.split(r"[/.]", name)[0], []).append((path, number))
    for library, places in sorted(users.items()):
        components = {}
        for path, number in places:
            components.setdefault(os.path.dirname(path), []).append((path, number))
        for inside in components.values():
            wrappers = [p for p, _ in inside if f"`{p}`" in page]
            if len(set(wrappers)) != 1:
                yield (*inside[0], f"docs/dependencies.md has to name the one file that includes {library}")
            for path, number in inside:
                if wrappers and path not in wrappers:
                    yield path, number, f"{library} is wrapped by {wrappers[0]}: include that"


def stepped(tree):
    """whatever a container's writer can be asked to change is killed at each of its images: a case of tests/crash/image_kill_*.hpp calls it"""
    yield from lint_stepped.check(tree)


def format_cpp(tree):
    """C++ is laid out by clang-format 19.1.7 with .clang-format"""
    tool = next((t for t in (str(tree.root / "build/venv/bin/clang-format"), shutil.which("clang-format")) if t and os.access(t, os.X_OK)), None)
    if not tool:
        raise Unavailable("needs clang-format: ./dev setup lint")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout
    if CLANG_FORMAT_VERSION not in version:
        raise Unavailable(f"needs clang-format {CLANG_FORMAT_VERSION}, found {version.strip()}: ./dev setup lint")
    files = tree.cpp()
    style = (tree.root / ".clang-format").resolve()
    if not files:
        return
    run = subprocess.run([tool, f"--style=file:{style}", "--dry-run", *files], cwd=tree.root, capture_output=True, text=True)
    seen = set()
    for path, number in re.findall(r"^(\S+?):(\d+):\d+: warning", run.stderr, re.M):
        if path not in seen:
            seen.add(path)
            yield path, int(number), f"not formatted: {os.path.relpath(tool, tree.root)} -i {path}"
    if run.returncode and not seen:
        yield ".clang-format", 1, run.stderr.strip()


RULES = {"layers": layers, "core_includes": core_includes, "memory_order": memory_order, "volatile": no_volatile, "assert": no_assert,
         "headers": headers, "license_line": license_line, "machine_paths": machine_paths, "registry_hosts": registry_hosts,
         "unfinished": unfinished, "file_names": file_names, "every_source_is_built": every_source_is_built,
         "python_tests_run": python_tests_run, "links": links, "umbrella": umbrella, "one_version": one_version,
         "order_places": order_places, "order_rows": order_rows, "dependencies": dependencies, "stepped": stepped,
         "format": format_cpp}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the rules and what they demand")
    parser.add_argument("--build", help="a configured build folder, for every_source_is_built")
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent, help=argparse.SUPPRESS)
    parser.add_argument("rule", nargs="*")
    arguments = parser.parse_args()
    if arguments.list:
        for name, rule in RULES.items():
            print(f"{name}: {' '.join(rule.__doc__.split())}")
        return 0
    unknown = [r for r in arguments.rule if r not in RULES]
    if unknown:
        parser.error(f"no rule {unknown[0]}; --list shows them")
    tree = Tree(arguments.root, arguments.build)
    findings, unchecked = 0, []
    for name in arguments.rule or RULES:
        try:
            for path, line, text in RULES[name](tree):
                print(f"{path}:{line}: {name}: {text}")
                findings += 1
        except Unavailable as missing:
            unchecked.append(name)
            print(f"{name}: not checked: {missing}")
    checked = len(arguments.rule or RULES) - len(unchecked)
    print(f"lint: {checked} rules over {len(tree.paths)} files, {findings} findings" + (f", not checked: {', '.join(unchecked)}" if unchecked else ""))
    if findings:
        return 1
    return 77 if unchecked and not checked else 0


if __name__ == "__main__":
    sys.exit(main())
