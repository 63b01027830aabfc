#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges two runs of the benchmarks: did B get better or worse than A?

usage: ./dev bench compare A.json B.json [--fail] [--force] [--min-effect PERCENT] [--absolute]

Two runs at different times differ by what the machine did in between, so what is compared first is the ratio of ours to a peer, which both
runs measured within themselves. Intervals of the change are built from both runs' own 95 % intervals (MOVER: Zou and Donner, Statistics in
Medicine 27, 2008). A change counts only if its whole interval lies beyond the least effect (5 % unless given); of fewer than six samples there
is no interval, and all is unclear. An experiment is worse if
every peer says so; if they disagree, it was the peers that moved. Experiments without a peer are judged by their medians with twice
the least effect, which says less: they count for --fail only with --absolute.

  --fail                 exit 1 if an experiment got worse
  --force                compare runs of different machines or of different kinds all the same
  --min-effect PERCENT   changes within this are no change
  --absolute             medians count as well
Exit codes: 0 judged, 1 worse and --fail, 2 the files cannot be compared or the command line is wrong.
"""
import argparse
import json
import math
import os
import sys

SCHEMA, VERSION = "holdfast-bench", 1
SIZE_MAX = 256 << 20
SAMPLES_LEAST = 6  # fewer have no 95 % interval of the median


class Refused(Exception):
    """The files cannot be compared; the text says why and what to do."""


def number(entry, key, where):
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Refused(f"{where}: {key} is not a number")
    return float(value)


def text(entry, key, where):
    value = entry.get(key)
    if not isinstance(value, str):
        raise Refused(f"{where}: {key} is not text")
    return value


def entries(root, key, path):
    value = root.get(key)
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise Refused(f"{path}: has no list of {key}; was it written by ./dev bench --json?")
    return value


class Run:
    """One file, checked: nothing of it is used before its type is known."""

    def __init__(self, path):
        self.path = path
        root = self._load(path)
        if root.get("schema") != SCHEMA:
            raise Refused(f"{path}: is no result of ./dev bench")
        if root.get("schema_version") != VERSION:
            raise Refused(f"{path}: is written in version {root.get('schema_version')!r} of the format, and this program reads {VERSION}; "
                          "measure again, or compare with the program that wrote it")
        machine = root.get("machine") if isinstance(root.get("machine"), dict) else {}
        self.machine = text(machine, "identity", f"{path}: machine")
        self.quick = root.get("quick") is True
        self.versions = {k: v for k, v in (root.get("versions") or {}).items() if isinstance(v, str)} if isinstance(root.get("versions") or {}, dict) else {}
        self.ratios, self.medians, few = {}, {}, set()
        for entry in entries(root, "results", path):
            where = f"{path}: a result"
            name, subject = text(entry, "name", where), text(entry, "subject", where)
            median = number(entry, "median", where)
            low, high = (number(entry, key, where) if key in entry else median for key in ("median_low", "median_high"))
            if not 0 < low <= median <= high:
                raise Refused(f"{where} of {entry.get('name')!r} is not above zero and within its own interval")
            if number(entry, "runs", where) < SAMPLES_LEAST and entry.get("unit") != "bytes":  # those are counted, not timed
                few.add((name, subject))
            bounded = "median_low" in entry and "median_high" in entry and (name, subject) not in few
            self.medians[(name, subject)] = (*known(bounded, median, low, high), entry.get("higher_is_better") is True)
        for entry in entries(root, "ratios", path):
            where = f"{path}: a ratio"
            value = tuple(number(entry, key, where) for key in ("ratio", "low", "high"))
            if not 0 < value[1] <= value[0] <= value[2]:
                raise Refused(f"{where} of {entry.get('name')!r} lies outside its own interval")
            name, subject, peer = (text(entry, key, where) for key in ("name", "subject", "peer"))
            bounded = entry.get("bounded") is not False and few.isdisjoint({(name, subject), (name, peer)})
            self.ratios[(name, subject, peer)] = known(bounded, *value)

    @staticmethod
    def _load(path):
        try:
            if os.path.getsize(path) > SIZE_MAX:
                raise Refused(f"{path}: is larger than any results: is it the right file?")
            with open(path, encoding="utf-8") as file:
                root = json.load(file)
        except OSError as problem:
            raise Refused(f"{path}: {problem.strerror}") from None
        except (ValueError, RecursionError) as problem:
            raise Refused(f"{path}: is not JSON: {problem}") from None
        if not isinstance(root, dict):
            raise Refused(f"{path}: is no result of ./dev bench")
        return root


def known(bounded, value, low, high):
    """An estimate with its interval: every value above zero where the ends are those of too few samples."""
    return (value, low, high) if bounded else (value, 0.0, math.inf)


def change(a, b):
    """The quotient b/a of two estimates (value, low, high) with its interval."""
    value = math.log(b[0] / a[0])
    if 0 in (a[1], b[1]):
        return math.exp(value), 0.0, math.inf
    low = value - math.hypot(math.log(b[0] / b[1]), math.log(a[2] / a[0]))
    high = value + math.hypot(math.log(b[2] / b[0]), math.log(a[0] / a[1]))
    return math.exp(value), math.exp(low), math.exp(high)


def verdict(moved, effect):
    """better, worse, same (surely within the effect) or unclear; above 1 is better."""
    _, low, high = moved
    if low > 1 + effect:
        return "better"
    if high < 1 - effect:
        return "worse"
    return "same" if low >= 1 - effect and high <= 1 + effect else "unclear"


def experiments(run):
    """The experiments in order, each with our subject: that of its ratios, or the first measured."""
    found = {}
    for name, subject, _ in run.ratios:
        found.setdefault(name, subject)
    for name, subject in run.medians:
        found.setdefault(name, subject)
    return found


def judge(a, b, effect):
    """(experiment, verdict, kind, lines) of everything that both runs measured."""
    for name, ours in experiments(b).items():
        lines, verdicts = [], set()
        for (where, subject, peer), after in b.ratios.items():
            before = a.ratios.get((where, subject, peer))
            if where != name or before is None:
                continue
            if a.versions.get(peer) != b.versions.get(peer):
                lines.append(f"vs {peer}: not compared, its version changed from {a.versions.get(peer)} to {b.versions.get(peer)}")
                continue
            moved = change(before, after)
            verdicts.add(verdict(moved, effect))
            lines.append(f"vs {peer}: {before[0]:.2f} -> {after[0]:.2f}, change {percent(moved)}: {verdict(moved, effect)}")
        if verdicts:
            yield name, verdicts.pop() if len(verdicts) == 1 else "unclear", "ratio", lines
            continue
        before, after = a.medians.get((name, ours)), b.medians.get((name, ours))
        if before is None or after is None:
            continue
        moved = change(before[:3], after[:3]) if after[3] else change(after[:3], before[:3])
        lines.append(f"{ours}: median {before[0]:.4g} -> {after[0]:.4g}, change {percent(moved)} in speed, by medians alone: {verdict(moved, 2 * effect)}")
        yield name, verdict(moved, 2 * effect), "median", lines


def percent(moved):
    value, low, high = ((x - 1) * 100 for x in moved)
    if math.isinf(high):
        return f"{value:+.1f} % (too few samples)"
    return f"{value:+.1f} % ({low:+.1f} to {high:+.1f})"


def printable(line):
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line)


def compare(arguments):
    a, b = Run(arguments.a), Run(arguments.b)
    differences = []
    if a.machine != b.machine:
        differences.append(f"they are of different machines ({a.machine}; {b.machine})")
    if a.quick != b.quick:
        differences.append("one of them was cut short by --quick")
    if differences and not arguments.force:
        raise Refused(f"{a.path} and {b.path}: {' and '.join(differences)}; measure both alike, or compare all the same with --force")
    for difference in differences:
        print(f"mind: {printable(difference)}")
    counts, worse = {}, 0
    for name, found, kind, lines in judge(a, b, arguments.min_effect / 100):
        counts[found] = counts.get(found, 0) + 1
        worse += found == "worse" and (kind == "ratio" or arguments.absolute)
        print(f"{found:8} {printable(name)}")
        for line in lines:
            print(f"         {printable(line)}")
    if not counts:
        raise Refused(f"{a.path} and {b.path} have no experiment in common")
    for mine, other in ((a, b), (b, a)):
        missing = [name for name in experiments(mine) if name not in experiments(other)]
        if missing:
            print(f"only in {mine.path}: {printable(', '.join(missing))}")
    print(", ".join(f"{counts.get(word, 0)} {word}" for word in ("better", "worse", "same", "unclear"))
          + f"; effects within {arguments.min_effect:g} % are none")
    return 1 if worse and arguments.fail else 0


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"bench compare: {message}; see ./dev bench compare --help", file=sys.stderr)
        sys.exit(2)


def main():
    parser = Parser(prog="./dev bench compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("a", metavar="A.json")
    parser.add_argument("b", metavar="B.json")
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--absolute", action="store_true")
    parser.add_argument("--min-effect", type=float, default=5)
    arguments = parser.parse_args()
    if not 0 <= arguments.min_effect < 100:
        parser.error("--min-effect is a percentage from 0 to below 100")
    try:
        return compare(arguments)
    except Refused as why:
        print(f"bench compare: {printable(str(why))}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
