#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gate_sources.py sees a test that no build of the gate compiles."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "scripts/gate_sources.py"


class GateSources(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("tests/unit/a_test.cpp", "tests/unit/b_test.cpp", "fuzz/c_fuzz.cpp", "tests/consumer/app/main.cpp", "src/d.cpp"):
            self.write(name, "")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def build(self, name, *sources, apart=()):
        """A build whose `all` compiles some sources, and that knows more."""
        rules = "rule cxx\n  command = true\n"
        rules += "".join(f"build {i}.o: cxx {source}\n" for i, source in enumerate((*sources, *apart)))
        self.write(f"{name}/build.ninja", rules + "build all: phony " + " ".join(f"{i}.o" for i in range(len(sources))) + "\n")
        return str(self.root / name)

    def judged(self, *builds):
        done = subprocess.run([sys.executable, "-B", TOOL, "--root", self.root, *builds], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 1 if done.stdout else 0)
        return [line.partition(":")[0] for line in done.stdout.splitlines()]

    def test_each_source_is_in_one_of_the_builds(self):
        one = self.build("one", f"{self.root}/tests/unit/a_test.cpp", "../fuzz/c_fuzz.cpp")
        two = self.build("two", f"{self.root}/tests/unit/b_test.cpp")
        self.assertEqual(self.judged(one, two), [])
        self.assertEqual(self.judged(one), ["tests/unit/b_test.cpp"])
        self.assertEqual(self.judged(two), ["tests/unit/a_test.cpp", "fuzz/c_fuzz.cpp"])

    def test_what_a_build_knows_and_leaves_out_of_all_does_not_count(self):
        one = self.build("one", f"{self.root}/tests/unit/a_test.cpp", "../fuzz/c_fuzz.cpp", apart=[f"{self.root}/tests/unit/b_test.cpp"])
        self.assertEqual(self.judged(one), ["tests/unit/b_test.cpp"])

    def test_sources_that_are_put_together_count(self):
        one = self.build("one", "whole.cpp", "../fuzz/c_fuzz.cpp")
        self.write("one/whole.cpp", "".join(f'#include "{self.root}/tests/unit/{name}_test.cpp"\n' for name in "ab"))
        self.assertEqual(self.judged(one), [])


if __name__ == "__main__":
    unittest.main()
