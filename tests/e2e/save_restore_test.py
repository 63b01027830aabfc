# SPDX-License-Identifier: Apache-2.0
"""Segments saved to a file or a pipe and restored from it."""
import os
import subprocess

from cli_support import ABSENT, GEO, GEO_SCHEMA, OK, PROGRAM, REFUSED, TABLE, TABLE_SCHEMA, UNUSABLE, USAGE, WithTables, main


class SaveAndRestore(WithTables):
    def test_a_table_goes_there_and_back(self):
        name, copy, path = self.name(), self.name("copy"), str(self.folder / "saved")
        self.expect(OK, "load", name, self.file(TABLE), "--schema", TABLE_SCHEMA)
        done = self.json("save", name, path)
        self.assertEqual((done["kind"], done["items"], done["bytes"]), ("hash_table", 3, os.path.getsize(path)))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(self.json("restore", path, copy)["items"], 3)
        entries = [sorted(self.expect(OK, "scan", each, "--json").stdout.splitlines()) for each in (name, copy)]
        self.assertEqual(entries[0], entries[1])
        self.assertIn("holdfast rm", self.expect(REFUSED, "restore", path, copy).stderr)

    def test_through_a_pipe(self):
        name, copy = self.name(), self.name("copy")
        self.expect(OK, "load", name, self.file(GEO), "--schema", GEO_SCHEMA)
        saved = subprocess.run([PROGRAM, "save", name, "-"], capture_output=True, check=True, env=self.environment).stdout
        done = subprocess.run([PROGRAM, "restore", "-", copy], input=saved, capture_output=True, env=self.environment)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(*(self.expect(OK, "scan", each).stdout for each in (name, copy)))
        cut = subprocess.run([PROGRAM, "restore", "-", self.name("cut")], input=saved[:-1], capture_output=True, text=False, env=self.environment)
        self.assertEqual(cut.returncode, UNUSABLE, cut.stderr)
        self.assertIn(b"standard input: ", cut.stderr)
        self.expect(ABSENT, "stat", self.name("cut"))

    def test_a_segment_without_a_container_goes_there_and_back(self):
        name, copy, path = self.folder / "raw", self.folder / "copy", str(self.folder / "saved")
        owner = self.owner("raw", f"file:{name}", 100_000)
        self.assertEqual(owner("put", 99_990, "the end"), "ok")
        done = self.json("save", f"file:{name}", path)
        self.assertEqual((done["kind"], done["items"], done["still"]), ("raw", 100_000, True))
        self.assertEqual(self.json("restore", path, f"file:{copy}")["items"], 100_000)
        self.assertEqual(*(file.read_bytes()[4096:] for file in (name, copy)))
        self.assertEqual(copy.read_bytes()[4096 + 99_990:][:7], b"the end")

    def test_room_that_no_counter_set_has_is_not_the_files_fault(self):
        name, copy, path = self.name(), self.name("copy"), str(self.folder / "saved")
        self.owner("counters", name, 8)("put", "hits_total", 5)
        self.expect(OK, "save", name, path)
        for capacity in (1048577, 100000000000):
            error = self.expect(USAGE, "restore", path, copy, "--capacity", capacity).stderr
            self.assertIn("--capacity", error)
            self.assertNotIn(path, error)
        self.expect(ABSENT, "stat", copy)
        self.assertEqual(self.json("restore", path, copy, "--capacity", "100")["items"], 1)

    def test_what_is_no_saved_file(self):
        self.assertIn("holdfast save", self.expect(UNUSABLE, "restore", self.file("x" * 1000), self.name()).stderr)
        self.expect(UNUSABLE, "restore", self.file(""), self.name())
        self.expect(ABSENT, "restore", str(self.folder / "none"), self.name())
        self.expect(ABSENT, "save", self.name(), str(self.folder / "saved"))
        self.assertFalse((self.folder / "saved").exists())


if __name__ == "__main__":
    main()
