# SPDX-License-Identifier: Apache-2.0
"""What a table, a store and a map of one writer do not pay for those of many: in the machine code of their operations no instruction is
locked, and none is of the headers of many writers. A program of many writers is read in the same way, and has both."""
import collections
import os
import pathlib
import platform
import re
import shutil
import subprocess
import unittest

from serve_support import main

SOURCE = pathlib.Path(os.environ.get("HOLDFAST_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
OF_ONE, OF_MANY = os.environ.get("HOLDFAST_WRITER_SUBJECT", ""), os.environ.get("HOLDFAST_MANY_WRITERS_SUBJECT", "")
HEADERS_OF_MANY = {path.name for path in SOURCE.glob("include/holdfast/*/*many*.hpp")} | {"stripe_growth.hpp"}
NAMES_OF_MANY = (r"block_many_core", r"map_many_core", r"hash_table_many_mutator", r"\bmany_table\b", r"\(holdfast::writers\)2", r"::sharing\)1")
# A reader's latch is set where damage is met; and a map with a feed writes a ring, whose readers register.
UNLOCKED_BUT_FOR = "fault_latch.hpp"
NOT_ITS_OWN = "hash_map_feed"

FUNCTION = re.compile(r"[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"\s*([0-9a-f]+):\t(.+)")
TARGET = re.compile(r"(?:call|j\w+)\s+(?:\w+,)?.*<([^>+]+)(?:\+0x[0-9a-f]+)?>$")
LOCKED = re.compile(r"(?:^|\s)lock\s|^xchg\w*\s.*\(|^mfence")  # xchg with memory is locked by itself


class Code:
    """The machine code of a program: `functions`, by mangled names, each a list of (address, instruction)."""

    def __init__(self, program):
        self.program, self.functions, function = program, {}, []
        for line in self.output_of("objdump", "-d", "-w", "--no-show-raw-insn", program).splitlines():
            if begin := FUNCTION.match(line):
                function = self.functions.setdefault(begin[1], [])
            elif instruction := INSTRUCTION.match(line):
                function.append((int(instruction[1], 16), instruction[2].strip()))
        self.operations = [name for name in self.functions if name.startswith("operation_")]
        self.sources = self.origins([at for function in self.functions.values() for at, _ in function])

    @staticmethod
    def output_of(*command, given=None):
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True, timeout=120).stdout

    def reached_from(self, operation):
        """The operation and all that it calls or jumps to by name, this program's own."""
        reached, next_ones = set(), [operation]
        while next_ones:
            name = next_ones.pop()
            if name in reached or name not in self.functions or NOT_ITS_OWN in name or name.endswith("@plt"):
                continue
            reached.add(name)
            next_ones += [target[1] for _, instruction in self.functions[name] if (target := TARGET.match(instruction))]
        return reached

    def origins(self, addresses):
        """{address: [(function, header)...]}: what was put in line there, innermost first."""
        lines = self.output_of("addr2line", "-a", "-i", "-f", "-C", "-e", self.program, given="\n".join(map(hex, addresses))).splitlines()
        found, here = {}, []
        for line in lines:
            if re.fullmatch(r"0x[0-9a-f]+", line):
                here = found.setdefault(int(line, 16), [])
            elif here and len(here[-1]) == 1:
                here[-1] += (pathlib.Path(line.rpartition(":")[0]).name,)
            else:
                here.append([line])
        return found

    def locked(self, operation):
        return [f"{at:x}: {instruction} in {self.sources[at]}" for name in self.reached_from(operation) for at, instruction in self.functions[name]
                if LOCKED.search(instruction) and all(header != UNLOCKED_BUT_FOR for _, header in self.sources[at])]

    def of_many(self, functions):
        """How many instructions are of which header of many writers."""
        return collections.Counter(header for name in functions for at, _ in self.functions[name]
                                   for header in {header for _, header in self.sources[at]} & HEADERS_OF_MANY)

    def symbols(self):
        return self.output_of("nm", "-C", self.program)


@unittest.skipUnless(platform.machine() in ("x86_64", "AMD64"), "needs x86-64")
@unittest.skipUnless(OF_ONE and OF_MANY, "needs the programs of writer_subject.cpp")
@unittest.skipUnless(all(map(shutil.which, ("objdump", "addr2line", "nm"))), "needs binutils")
class OneWriter(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.of_one, cls.of_many = Code(OF_ONE), Code(OF_MANY)

    def test_the_operations_work_and_are_read(self):
        for code in (self.of_one, self.of_many):
            self.assertEqual(subprocess.run([code.program], timeout=60).returncode, 0)
            self.assertEqual(len(code.operations), 21)
        for container, its_own in (("narrow", "find.hpp"), ("wide", "mutate.hpp"), ("store", "write.hpp"), ("map", "room.hpp")):
            reached = set().union(*(self.of_one.reached_from(name) for name in self.of_one.operations if container in name))
            headers = {header for name in reached for at, _ in self.of_one.functions[name] for _, header in self.of_one.sources[at]}
            self.assertIn(its_own, headers, f"which lines the code of {container} is from cannot be told")
        # What is seldom needed lies apart, and is read as well.
        self.assertTrue(any("find_everywhere" in name for name in self.of_one.reached_from("operation_map_find")))

    def test_no_operation_of_one_writer_has_a_locked_instruction(self):
        for operation in self.of_one.operations:
            with self.subTest(operation):
                self.assertEqual(self.of_one.locked(operation), [])

    def test_a_program_of_one_writer_has_no_code_of_many(self):
        self.assertEqual(self.of_one.of_many(self.of_one.functions), {})
        for name in NAMES_OF_MANY:
            self.assertNotRegex(self.of_one.symbols(), name)

    def test_what_many_writers_pay_would_be_seen(self):
        changing = [operation for operation in self.of_many.operations if not operation.endswith(("_find", "_read"))]
        self.assertEqual(len(changing), 17)
        for operation in changing:
            with self.subTest(operation):
                self.assertNotEqual(self.of_many.locked(operation), [])
                self.assertGreater(self.of_many.of_many(self.of_many.reached_from(operation)).total(), 100)
        for name in NAMES_OF_MANY:
            self.assertRegex(self.of_many.symbols(), name)
        self.assertEqual(set(self.of_many.of_many(self.of_many.functions)), {header for header in HEADERS_OF_MANY if header != "many_attach.hpp"})


if __name__ == "__main__":
    main()
