# SPDX-License-Identifier: Apache-2.0
"""`./dev profile` of a suite from its start to the pages it writes, by valgrind, which works wherever it is installed; and the listing of a
function's machine code from a profile whose numbers are known."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from serve_support import PROGRAM, main

SOURCE = pathlib.Path(os.environ.get("HOLDFAST_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "scripts"))
import annotate_callgrind  # noqa: E402
import flame_graph  # noqa: E402

CALLGRIND = """version: 1
positions: instr line
events: Ir
ob=(1) /bin/program
fl=(1) /src/main.cpp
fn=(1) main
0x1000 10 5
+4 +1 5
cob=(2) /lib/other.so
cfi=(2) /src/work.cpp
cfn=(2) work(int)
calls=1 0x9000 20
* * 90
+4 * 10
fi=(3) /src/inlined.hpp
+4 7 20
ob=(2)
fl=(2)
fn=(2)
0x9000 20 90
ob=(1)
fl=(1)
fn=(3) workers
0x2000 30 1
fn=(1)
0x1004 11 5
"""


class Annotate(unittest.TestCase):
    def test_costs_of_calls_are_not_the_callers_and_positions_are_relative(self):
        found = annotate_callgrind.executed_instructions(CALLGRIND.splitlines(True))
        self.assertEqual(found["/bin/program", "main"], {0x1000: [5, "main.cpp:10"], 0x1004: [10, "main.cpp:11"], 0x1008: [10, "main.cpp:11"],
                                                         0x100c: [20, "inlined.hpp:7"]})
        self.assertEqual(found["/lib/other.so", "work(int)"], {0x9000: [90, "work.cpp:20"]})

    def test_a_part_of_a_name_means_the_function_that_executed_most(self):
        found = annotate_callgrind.executed_instructions(CALLGRIND.splitlines(True))
        self.assertEqual(annotate_callgrind.chosen(found, "work"), ("/lib/other.so", "work(int)"))
        self.assertEqual(annotate_callgrind.chosen(found, "workers"), ("/bin/program", "workers"))
        with self.assertRaises(LookupError):
            annotate_callgrind.chosen(found, "nothing")

    def test_shares_are_those_of_the_function(self):
        at = {0x1000: [5, "main.cpp:10"], 0x1004: [15, "main.cpp:10"]}
        lines = list(annotate_callgrind.listing("main", "/bin/program", at, 200, [(0x1000, "push %rbp"), (0x1002, "nop"), (0x1004, "ret")]))
        self.assertIn("20 instructions executed, 10.00 % of the run", lines[0])
        self.assertRegex(lines[1], r"^  25\.00 %      1000  push %rbp +; main\.cpp:10\n$")
        self.assertRegex(lines[2], r"^ +1002  nop\n$")
        self.assertRegex(lines[3], r"^  75\.00 %      1004  ret\n$")

    def test_the_flame_graph_reads_such_a_profile_too(self):
        stacks = flame_graph.callgrind_stacks(CALLGRIND.splitlines(True))
        self.assertEqual(sum(count for _, count in stacks), 45 + 90 + 1)
        self.assertIn((["main", "work(int)"], 90), stacks)

    def test_a_profile_without_instructions_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "profile")
            for text in ("", "positions: line\nevents: Ir\nfn=(1) main\n1 5\n"):
                path.write_text(text)
                done = subprocess.run([sys.executable, str(SOURCE / "scripts/annotate_callgrind.py"), str(path), "main"], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertRegex(done.stderr, r"\Aannotate_callgrind: [^\n]*--dump-instr=yes\?\n\Z")


@unittest.skipUnless(shutil.which("valgrind") and shutil.which("objdump"), "needs valgrind and objdump: ./dev setup profile")
class Profile(unittest.TestCase):
    def test_a_suite_under_valgrind_with_the_machine_code_of_a_function(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-profile-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        program = folder / "program"
        program.write_text(f'#!/usr/bin/env bash\nexec "{PROGRAM}" bench "$@"\n')
        program.chmod(0o755)
        command = [str(SOURCE / "scripts/profile"), "hash_table", "--filter", "find hit, independent, 1e4 entries of 16 bytes", "--time", "1"]
        environment = {**os.environ, "HOLDFAST_PROFILE_TOOL": "valgrind", "HOLDFAST_PROFILE_FOLDER": str(folder / "out"),
                       "HOLDFAST_BENCH_PROGRAM": str(program)}
        done = subprocess.run([*command, "--annotate", "hash_table_loops"], env=environment, capture_output=True, text=True, timeout=280)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("counting instructions by valgrind", done.stderr)
        stacks = (folder / "out/hash_table.folded").read_text().splitlines()
        self.assertTrue(any("holdfast::workload::" in stack for stack in stacks))
        page = (folder / "out/hash_table.html").read_text()
        self.assertGreater(json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])[1], 1_000_000)
        listed = (folder / "out/hash_table.annotated.txt").read_text()
        self.assertRegex(listed.splitlines()[0], r"^holdfast::workload::hash_table_loops<")
        shares = [float(share) for share in re.findall(r"(?m)^ *([\d.]+) %  +[0-9a-f]+  \S", listed)]
        self.assertGreater(len(shares), 10)
        self.assertAlmostEqual(sum(shares), 100, delta=3)
        self.assertEqual(sorted(path.name for path in (folder / "out").iterdir()),
                         ["hash_table.annotated.txt", "hash_table.folded", "hash_table.html"])


if __name__ == "__main__":
    main()
