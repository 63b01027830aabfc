#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The machine code of a function with its share of the instructions at each, from a profile of valgrind's callgrind.

usage: annotate_callgrind.py PROFILE FUNCTION [--out FILE]

PROFILE was written with --dump-instr=yes. FUNCTION is its name as it stands in the .folded file of ./dev profile, or a part of it: of several
that hold the part, the one that executed most is taken. The code is what objdump reads in the object that was profiled, from the first
instruction executed to the last. Exit codes: 0, 1 when there is no such function or no code, 2 usage.
"""
import argparse
import re
import subprocess
import sys

SPAN_MAX = 1 << 20  # bytes of code: beyond, the addresses are not those of one function


def executed_instructions(lines):
    """{(object, function): {address: [executed, "FILE:LINE"]}}; the format is valgrind's manual's, section "Callgrind Format Specification"."""
    names, found = {}, {}
    place = {"ob": "", "fl": "", "fn": ""}
    columns, position, call_line = [], {}, False

    def name_of(kind, text):
        match = re.match(r"\((\d+)\)\s*(.*)", text)
        if not match:
            return text
        if match[2]:
            names[kind, match[1]] = match[2]
        return names.get((kind, match[1]), text)

    for line in lines:
        line = line.strip()
        head, equals, rest = line.partition("=")
        if line.startswith("positions:"):
            columns = line.split()[1:]
            position = dict.fromkeys(columns, 0)
        elif equals and head in ("ob", "cob", "fl", "fi", "fe", "cfi", "cfl", "fn", "cfn"):
            kind = {"ob": "ob", "fn": "fn"}.get(head[-2:], "fl")
            name = name_of(kind, rest)
            if head[0] != "c":
                place[kind] = name
        elif equals and head == "calls":
            call_line = True
        elif line and (line[0].isdigit() or line[0] in "+-*"):
            fields = line.split()
            for column, text in zip(columns, fields):
                if text != "*":
                    position[column] = (position[column] if text[0] in "+-" else 0) + int(text, 0)
            if not call_line and "instr" in columns and len(fields) > len(columns):
                at = found.setdefault((place["ob"], place["fn"]), {})
                where = f"{place['fl'].rpartition('/')[2]}:{position['line']}" if position.get("line") else ""
                at.setdefault(position["instr"], [0, where])[0] += int(fields[len(columns)])
            call_line = False
    return found


def chosen(found, wanted):
    """The (object, function) meant. Raises LookupError."""
    cost = {key: sum(count for count, _ in at.values()) for key, at in found.items()}
    exact = [key for key in found if key[1] == wanted]
    of_these = exact or [key for key in found if wanted in key[1]]
    if not of_these:
        raise LookupError(f"no instruction was executed in a function called {wanted}")
    return max(of_these, key=lambda key: cost[key])


def code_of(binary, first, last):
    """(address, text) of each instruction. Raises LookupError."""
    if last - first > SPAN_MAX:
        raise LookupError("its instructions lie too far apart for one function")
    try:
        done = subprocess.run(["objdump", "--disassemble", "--demangle", "--no-show-raw-insn", f"--start-address={first:#x}",
                               f"--stop-address={last + 1:#x}", binary], capture_output=True, text=True, check=False)
    except OSError as failure:
        raise LookupError(f"objdump cannot be run: {failure}; ./dev setup profile installs it") from failure
    code = [(int(match[1], 16), match[2].expandtabs(8)) for match in re.finditer(r"(?m)^ *([0-9a-f]+):\t(.*)$", done.stdout)]
    if not code:
        raise LookupError(f"objdump shows no code of it in {binary}: {done.stderr.strip()[:200]}")
    return code


def listing(function, binary, at, total, code):
    own = sum(count for count, _ in at.values())
    yield f"{function}\n{own} instructions executed, {100 * own / total:.2f} % of the run; {binary}\n"
    before = ""
    for address, text in code:
        count, where = at.get(address, (0, ""))
        share = f"{100 * count / own:7.2f} %" if count else " " * 9
        yield f"{share}  {address:8x}  {text:<60}{'  ; ' + where if where and where != before else ''}".rstrip() + "\n"
        before = where or before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile")
    parser.add_argument("function")
    parser.add_argument("--out")
    words = parser.parse_args()
    try:
        with open(words.profile, encoding="utf-8", errors="replace") as lines:
            found = executed_instructions(lines)
        if not found:
            raise LookupError(f"{words.profile} holds no instructions; was it written with --dump-instr=yes?")
        key = chosen(found, words.function)
        at, total = found[key], sum(count for each in found.values() for count, _ in each.values())
        text = "".join(listing(key[1], key[0], at, total, code_of(key[0], min(at), max(at))))
        with open(words.out, "w", encoding="utf-8") if words.out else sys.stdout as out:
            out.write(text)
    except (LookupError, OSError, ValueError) as failure:
        print(f"annotate_callgrind: {failure.args[0] if isinstance(failure, LookupError) else failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
