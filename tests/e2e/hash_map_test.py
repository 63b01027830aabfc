# SPDX-License-Identifier: Apache-2.0
"""Entries of a hash map from outside: put, get and del, their answers, their exit codes, and beside a living writer."""
import json
import subprocess

from cli_support import NEGATIVE, NO_ROOM, OK, PROGRAM, REFUSED, USAGE, CommandLine, main


class HashMap(CommandLine):
    def map(self, kind="map", capacity=50):
        """A map whose writer is dead."""
        name = self.name(kind)
        owner = self.owner(kind, name, capacity)
        self.assertEqual(owner("put", "1", "from its program"), "ok")
        owner.kill()
        return name

    def entry(self, name, key):
        return json.loads(self.expect(OK, "get", name, key).stdout)

    def told(self, *words, code=OK):
        return json.loads(self.expect(code, *words, "--json").stdout)

    def test_keys_of_text(self):
        name = self.map()
        self.assertEqual(self.entry(name, "1")["value"], "from its program")
        self.assertEqual(self.told("put", name, "user:7", "seven, or so"), {"uri": f"posix:/{name}", "result": "inserted", "size": 2})
        entry = self.entry(name, "user:7")
        self.assertEqual((entry["value"], entry["bytes"], entry["ttl_s"]), ("seven, or so", 12, None))
        self.assertEqual(self.told("put", name, "user:7", "")["result"], "updated")
        self.assertEqual(self.entry(name, "user:7")["value"], "")
        self.assertEqual(self.told("put", name, "user:7", "x", "--new", code=NEGATIVE)["result"], "exists")
        self.assertIn("is there already", self.expect(NEGATIVE, "put", name, "user:7", "x", "--new").stderr)
        self.assertEqual(self.told("put", name, "user:8", "x", "--new"), {"uri": f"posix:/{name}", "result": "inserted", "size": 3})
        self.expect(OK, "put", name, "--", "-k", "-v")
        self.assertEqual(json.loads(self.expect(OK, "get", name, "--", "-k").stdout)["value"], "-v")
        self.assertEqual(self.told("del", name, "user:7"), {"uri": f"posix:/{name}", "result": "erased", "size": 3})
        self.assertEqual(self.told("del", name, "user:7", code=NEGATIVE)["result"], "not_found")
        self.assertIn("is not there", self.expect(NEGATIVE, "del", name, "user:7").stderr)
        self.expect(NEGATIVE, "get", name, "user:7")
        self.expect(OK, "verify", name)

    def test_keys_that_are_numbers(self):
        name = self.map("users")
        self.assertEqual(self.entry(name, "1")["value"], "from its program")
        self.expect(OK, "put", name, "4000000000", "many")
        self.expect(OK, "put", name, "user=2", "two")
        self.assertEqual((self.entry(name, "user=4000000000")["value"], self.entry(name, "2")["value"]), ("many", "two"))
        for words in (["put", name, "five", "x"], ["put", name, "4294967296", "x"], ["del", name, "five"]):
            self.assertIn("the key is none of this map's", self.expect(USAGE, *words).stderr)
        self.expect(OK, "del", name, "2")
        self.assertEqual(len(self.lines("scan", name, "--json")), 2)
        self.expect(OK, "verify", name)

    def test_a_map_of_many_writers(self):
        name = self.name("shared")
        owner = self.owner("shared_map", name, 50)
        self.assertEqual(owner("put", "1", "from its program"), "ok")
        for writer_lives in (True, False):
            self.assertEqual(self.told("put", name, "user:7", "seven")["result"], "inserted")
            self.assertEqual(self.told("put", name, "user:7", "7")["result"], "updated")
            self.assertEqual(self.told("put", name, "user:7", "x", "--new", code=NEGATIVE)["result"], "exists")
            self.assertEqual((self.entry(name, "1")["value"], self.entry(name, "user:7")["value"]), ("from its program", "7"))
            self.assertIn("leave --ttl out", self.expect(USAGE, "put", name, "user:7", "x", "--ttl", "9").stderr)
            self.assertIn("no fields", self.expect(USAGE, "put", name, "1", "x", "--change").stderr)
            self.assertIn("larger than the whole map", self.expect(NO_ROOM, "put", name, "large", "x" * 100_000).stderr)
            self.assertEqual(self.told("del", name, "user:7"), {"uri": f"posix:/{name}", "result": "erased", "size": 1})
            self.assertEqual(self.told("del", name, "user:7", code=NEGATIVE)["result"], "not_found")
            if writer_lives:
                self.assertEqual(owner("put", "1", "from its program"), "ok")
                owner.kill()
        self.expect(OK, "verify", name)

    def test_entries_expire(self):
        name = self.map()
        self.expect(OK, "put", name, "session", "x", "--ttl", "1000")
        self.assertIn(self.entry(name, "session")["ttl_s"], range(900, 1001))
        self.expect(OK, "put", name, "session", "x")
        self.assertIsNone(self.entry(name, "session")["ttl_s"])
        self.expect(OK, "put", name, "moment", "x", "--ttl", "1")
        self.eventually(lambda: self.run_program("get", name, "moment").returncode == NEGATIVE, "an entry did not expire")
        self.assertEqual(self.told("put", name, "moment", "y", "--new")["result"], "inserted")

    def test_what_is_refused(self):
        name = self.map(capacity=2)
        self.assertIn("no fields", self.expect(USAGE, "put", name, "1", "x", "--change").stderr)
        self.expect(USAGE, "put", name, "1", "x", "--ttl", "soon")
        self.assertIn("larger than the whole map", self.expect(NO_ROOM, "put", name, "large", "x" * 100_000).stderr)
        codes = [self.run_program("put", name, key, "x" * 150).returncode for key in "abcdefgh"]
        self.assertEqual((codes[0], codes[-1], set(codes)), (OK, NO_ROOM, {OK, NO_ROOM}))
        self.assertEqual(self.entry(name, "1")["value"], "from its program")
        table = self.name("table")
        self.expect(OK, "load", table, "-", "--schema", "k:u32:key,v:u32", stdin="1,2\n")
        self.assertIn("--ttl", self.expect(USAGE, "put", table, "1", "3", "--ttl", "5").stderr)
        self.expect(OK, "verify", name)

    def test_a_living_writer_is_respected(self):
        name = self.map()
        owner = self.owner("map", name, 50)
        for words in (["put", name, "1", "x"], ["del", name, "1"]):
            self.assertIn("lease", self.expect(REFUSED, *words).stderr)
        self.assertEqual(owner("put", "2", "two"), "ok")
        waiting = self.start("put", name, "1", "waited", "--wait", "60000")
        self.eventually(lambda: any(p["pid"] == waiting.pid and p["lease_open"] for p in self.objects("who", name)[0]["processes"]), "it does not wait")
        owner.kill()
        self.ends(waiting, OK)
        self.assertEqual((self.entry(name, "1")["value"], self.entry(name, "2")["value"]), ("waited", "two"))

    def test_killed_puts_leave_the_map_whole(self):
        name = self.map(capacity=200)
        for i in range(40):
            process = subprocess.Popen([PROGRAM, "put", name, f"key {i % 7}", "x" * (i * 5)], env=self.environment)
            if i % 2:
                process.kill()
            process.wait(timeout=60)
        self.expect(OK, "verify", name)
        self.expect(OK, "put", name, "and on", "it goes")
        self.expect(OK, "verify", name)


if __name__ == "__main__":
    main()
