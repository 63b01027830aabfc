# SPDX-License-Identifier: Apache-2.0
"""The program from outside: every subcommand, its answers, its JSON shapes, its exit codes, and what it says of bad input."""
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import urllib.request
import uuid

from cli_support import ABSENT, GEO, GEO_SCHEMA, NEGATIVE, NO_ROOM, OK, PROGRAM, REFUSED, TABLE, TABLE_SCHEMA, UNUSABLE, USAGE, WithTables, main


class Usage(WithTables):
    def test_no_subcommand_and_unknown_ones_are_usage_errors(self):
        for words in ([], ["nonsense"], ["stat"], ["ls", "--nonsense"], ["get"], ["load", "x"], ["scan", "x", "--limit", "many"]):
            self.expect(USAGE, *words)

    def test_help_names_every_subcommand_and_the_exit_codes(self):
        text = self.expect(OK, "--help").stdout
        for word in ("ls", "stat", "get", "put", "del", "scan", "tail", "load", "dump", "save", "restore", "repair", "grow", "verify", "who", "top", "rm", "version", "Exit codes"):
            self.assertIn(word, text)
        for word in ("ls", "stat", "get", "put", "del", "scan", "tail", "load", "dump", "save", "restore", "repair", "grow", "verify", "who", "top", "rm", "version"):
            self.assertIn("Usage: holdfast " + word, self.expect(OK, word, "--help").stdout)

    def test_version(self):
        shape = self.json("version")
        self.assertEqual(sorted(shape), ["layout", "version"])
        self.assertIn(shape["version"], self.expect(OK, "version").stdout)

    def test_numbers_below_zero_are_usage_errors(self):
        self.assertIn("from 0 up", self.expect(USAGE, "scan", self.name(), "-n", "-1").stderr)
        self.assertIn("from 0 up", self.expect(USAGE, "load", self.name(), "x", "--capacity", "-1").stderr)
        self.assertIn("at most 255", self.expect(USAGE, "load", self.name(), "x", "--slots", "256").stderr)

    def test_memory_that_ends_with_the_program_is_not_loaded(self):
        for name in ("anon:", "heap:", "memfd:"):
            done = self.expect(USAGE, "load", name, self.file(GEO), "--schema", GEO_SCHEMA)
            self.assertIn("posix:, file: or sysv:", done.stderr)

    def test_memory_that_ends_with_the_program_is_neither_restored_to_nor_repaired_to(self):
        name, saved = self.load_geo(), str(self.folder / "saved")
        self.expect(OK, "save", name, saved)
        for memory in ("anon:", "heap:", "memfd:"):
            self.assertIn("posix:, file: or sysv:", self.expect(USAGE, "restore", saved, memory).stderr)
            # Before the file is looked at.
            self.expect(USAGE, "restore", str(self.folder / "none"), memory)
            self.assertIn("posix:, file: or sysv:", self.expect(USAGE, "repair", name, "--to", memory).stderr)

    def test_names_that_are_none(self):
        for name in ("", "a/b", "posix:/.hidden", "memfd:x", "sysv:nonsense", "x" * 300, "bad\x01name"):
            self.assertEqual(self.expect(USAGE, "stat", name).stdout, "")

    def test_what_is_not_there(self):
        for words in (["stat"], ["get"], ["scan"], ["dump"], ["verify"], ["who"], ["rm"], ["put"], ["del"]):
            more = {"get": ["k"], "put": ["k", "v"], "del": ["k"]}.get(words[0], [])
            done = self.expect(ABSENT, *words, self.name("none"), *more)
            self.assertIn("no such segment", done.stderr)

    def test_output_that_cannot_be_written_is_an_error(self):
        name = self.load_geo()
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "dump", name], stdout=full, stderr=subprocess.PIPE, text=True, env=self.environment)
        self.assertEqual(done.returncode, 8)
        self.assertIn("standard output", done.stderr)


class Looking(WithTables):
    STAT_KEYS = ["allocated_bytes", "bytes", "capacity", "created", "fields", "gid", "kind", "layout", "lease", "mode", "pages",
                 "payload", "peer_slots", "problem", "range_end", "registered", "room_bytes", "schema", "size", "uid", "uri", "used_bytes", "version", "writer_slots", "writers"]

    def test_stat_of_an_index(self):
        shape = self.json("stat", self.load_geo())
        self.assertEqual(sorted(shape), self.STAT_KEYS)
        self.assertEqual((shape["kind"], shape["payload"], shape["size"], shape["version"], shape["range_end"]),
                         ("snapshot", "sorted_index", 3, 1, "high"))
        self.assertEqual(shape["fields"], {"key": [{"name": "low", "type": "ipv4"}],
                                           "value": [{"name": "high", "type": "ipv4"}, {"name": "country", "type": "char[2]"}]})
        self.assertEqual((shape["mode"], shape["writers"], shape["registered"], shape["problem"]), ("0600", "one", True, None))
        self.assertEqual(sorted(shape["lease"]), ["epoch", "pid", "running", "since", "state"])
        self.assertEqual(sorted(shape["pages"]), ["huge_bytes", "locked_bytes", "page_bytes", "resident_bytes"])

    def test_stat_of_a_table(self):
        name = self.load_table()
        shape = self.json("stat", name)
        self.assertEqual(sorted(shape), self.STAT_KEYS)
        self.assertEqual((shape["kind"], shape["payload"], shape["size"], shape["range_end"]), ("hash_table", None, 3, None))
        self.assertGreaterEqual(shape["capacity"], 3)
        text = self.expect(OK, "stat", name).stdout
        for word in ("hash_table", "name:char[16]", "3 of ", "mode 0600", "registered", "huge"):
            self.assertIn(word, text)

    def test_stat_of_a_damaged_header_shows_what_there_is(self):
        name = self.load_geo()
        with open(f"/dev/shm/{name}", "r+b") as data:
            data.seek(100)
            data.write(b"\xff")
        done = self.expect(UNUSABLE, "stat", name, "--json")
        shape = json.loads(done.stdout)
        self.assertEqual(shape["problem"]["code"], "corrupt")
        self.assertEqual(sorted(shape["problem"]), ["code", "text"])

    def test_ls_lists_registered_and_unregistered_segments_and_prunes(self):
        one, two = self.load_geo("one"), self.load_table("two")
        registry = pathlib.Path(self.environment["HOLDFAST_REGISTRY"])
        self.assertEqual(len(list(registry.iterdir())), 2)
        names = {entry["uri"]: entry for entry in self.json("ls")}
        self.assertEqual(names[f"posix:/{one}"]["kind"], "snapshot")
        self.assertNotIn("pages", names[f"posix:/{one}"])
        for entry in registry.iterdir():  # found by its magic all the same
            if two in entry.name:
                entry.unlink()
        names = {entry["uri"]: entry for entry in self.json("ls")}
        self.assertEqual((names[f"posix:/{two}"]["registered"], names[f"posix:/{one}"]["registered"]), (False, True))
        self.assertIn(two, self.expect(OK, "ls").stdout)
        self.assertIn(f"posix:/{two}\n", self.expect(OK, "ls", "--quiet").stdout)
        os.unlink(f"/dev/shm/{one}")
        self.assertNotIn(one, self.expect(OK, "ls").stdout)
        self.assertEqual(list(registry.iterdir()), [])

    def test_ls_survives_strangers(self):
        (pathlib.Path("/dev/shm") / self.name("short")).write_bytes(b"x")
        (pathlib.Path("/dev/shm") / self.name("magic")).write_bytes(b"HOLDFST1" + b"\x00" * 100)
        os.symlink("/etc/passwd", f"/dev/shm/{self.name('link')}")
        os.mkfifo(f"/dev/shm/{self.name('fifo')}")
        names = {entry["uri"]: entry for entry in self.json("ls") if self.token in entry["uri"]}
        self.assertEqual(list(names), [f"posix:/{self.name('magic')}"])
        self.assertEqual(names[f"posix:/{self.name('magic')}"]["problem"]["code"], "truncated")
        self.assertIn("!truncated", self.expect(OK, "ls").stdout)
        for hint in ("link", "fifo"):
            for words in (["stat"], ["verify"], ["dump"]):
                self.expect(REFUSED, *words, self.name(hint))

    def test_who(self):
        name = self.load_geo()
        shape = self.json("who", name)
        self.assertEqual(sorted(shape), ["lease", "processes", "readers", "uri", "writers"])
        self.assertEqual(sorted(shape["lease"]), ["command", "pid", "running", "since", "state"])
        self.assertEqual(shape["readers"], {"slots": 0, "alive": []})
        self.assertEqual((shape["lease"]["state"], shape["lease"]["running"], shape["processes"]), ("free", False, []))
        with self.living_writer(name):
            shape = self.json("who", name)
            self.assertEqual(shape["lease"]["state"], "held")
            mine = [p for p in shape["processes"] if p["pid"] == os.getpid()]
            self.assertEqual(len(mine), 1)
            self.assertEqual(sorted(mine[0]), ["access", "command", "lease_open", "peers_mapped", "pid"])
            self.assertTrue(mine[0]["lease_open"])
            self.assertIn("held", self.expect(OK, "who", name).stdout)

    def test_who_writes_a_block_store_of_many_writers(self):
        name = self.name("blocks")
        owners = [self.owner("shared_blocks", name, 8192) for _ in range(2)]
        pids = [owner.process.pid for owner in owners]
        shape = self.json("stat", name)
        self.assertEqual((shape["writers"], shape["writer_slots"]), ("many", 16))
        self.assertIn("16 at once", self.expect(OK, "stat", name).stdout)
        self.assertEqual(self.json("who", name)["writers"], {"slots": 16, "alive": [{"slot": n, "pid": pid} for n, pid in enumerate(pids)]})
        self.assertRegex(self.expect(OK, "who", name).stdout, f"writers +2 of 16 slots: process {pids[0]}, {pids[1]}\n")
        self.expect(OK, "verify", name)
        owners[0].kill()
        self.assertEqual(self.json("who", name)["writers"]["alive"], [{"slot": 1, "pid": pids[1]}])
        owners[1].kill()
        self.assertEqual(self.json("who", name)["writers"], {"slots": 16, "alive": []})

    def test_who_sees_registered_readers_and_mappings(self):
        name = self.name("pinned")
        self.expect(OK, "load", name, self.file(GEO), "--schema", GEO_SCHEMA, "--pinned-readers", "3")
        with open(f"/dev/shm/{name}.peers", "r+b") as slots, open(f"/dev/shm/{name}", "rb") as data:
            import mmap
            fcntl.fcntl(slots, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 4096 + 128, 1, 0))
            with mmap.mmap(data.fileno(), 4096, mmap.MAP_SHARED, mmap.PROT_READ):
                shape = self.json("who", name)
        self.assertEqual(shape["readers"], {"slots": 3, "alive": [1]})
        self.assertEqual([p["access"] for p in shape["processes"] if p["pid"] == os.getpid()], ["read"])


class Entries(WithTables):
    def test_get_in_ranges(self):
        name = self.load_geo()
        self.assertEqual(json.loads(self.expect(OK, "get", name, "1.0.2.9").stdout), {"low": "1.0.1.0", "high": "1.0.3.255", "country": "CN"})
        for edge, country in (("1.0.0.0", "AU"), ("1.0.0.255", "AU"), ("1.0.1.0", "CN"), ("1.0.7.255", "AU"), ("16777216", "AU")):
            self.assertEqual(json.loads(self.expect(OK, "get", name, edge).stdout)["country"], country)
        for outside in ("0.255.255.255", "1.0.8.0", "255.255.255.255", "0.0.0.0"):
            done = self.expect(NEGATIVE, "get", name, outside)
            self.assertEqual(done.stdout, "")
        self.expect(NEGATIVE, "get", name, "1.0.2.9", "--exact")
        self.expect(OK, "get", name, "1.0.1.0", "--exact")
        self.assertIn("not an IPv4 address", self.expect(USAGE, "get", name, "1.2.3").stderr)
        self.expect(USAGE, "get", name)

    def test_put_get_del(self):
        name = self.load_table()
        self.assertEqual(json.loads(self.expect(OK, "get", name, "2").stdout),
                         {"id": 2, "name": "bo, \"the\" second", "score": -2, "seen": "1970-01-01T00:00:00Z"})
        self.expect(OK, "put", name, "9", "nine,0.25,2026-01-01T00:00:00Z")
        self.assertEqual(json.loads(self.expect(OK, "get", name, "9").stdout)["score"], 0.25)
        self.expect(OK, "put", name, "9", "score=4", "--change")
        self.assertEqual(json.loads(self.expect(OK, "get", name, "id=9").stdout)["score"], 4)
        self.expect(OK, "put", name, "9", '{"name":"neun","score":5,"seen":"2026-01-01T00:00:00Z"}')
        self.assertEqual(json.loads(self.expect(OK, "get", name, "9").stdout)["name"], "neun")
        shape = self.json("put", name, "9", "name=x,score=1,seen=2026-01-01T00:00:00Z")
        self.assertEqual(shape, {"uri": f"posix:/{name}", "result": "updated", "size": 4})
        self.assertEqual(self.json("put", name, "9", "x,1,2026-01-01T00:00:00Z", "--new", code=NEGATIVE)["result"], "exists")
        self.assertEqual(self.json("del", name, "9")["result"], "erased")
        self.assertEqual(self.json("del", name, "9", code=NEGATIVE)["result"], "not_found")
        self.expect(NEGATIVE, "put", name, "9", "score=4", "--change")
        self.expect(NEGATIVE, "get", name, "9")
        self.expect(OK, "verify", name)

    def test_grow_makes_room_and_shrinks_under_the_same_name(self):
        name = self.load_table()
        before = self.json("stat", name)
        done = self.json("grow", name, "--capacity", "5000")
        self.assertEqual(sorted(done), ["bytes", "capacity", "capacity_before", "entries", "uri"])
        self.assertEqual((done["uri"], done["entries"], done["capacity"], done["capacity_before"]),
                         ("posix:/" + name, 3, 5000, before["capacity"]))
        after = self.json("stat", name)
        self.assertEqual((after["capacity"], after["bytes"], after["schema"], after["mode"]),
                         (5000, done["bytes"], before["schema"], before["mode"]))
        self.assertEqual(self.json("get", name, "2")["name"], 'bo, "the" second')
        self.expect(OK, "put", name, "10", "dora,1,2026-01-02T03:04:05Z")
        self.assertIn("capacity 5 000 before and 4 now", self.expect(OK, "grow", name, "--capacity", "4").stdout)
        self.assertEqual(self.json("get", name, "10")["name"], "dora")
        self.expect(OK, "verify", name)
        self.assertEqual(sorted(p.name for p in pathlib.Path("/dev/shm").glob(name + "*")), [name, name + ".lease"])

    def test_grow_refuses_what_cannot_be(self):
        name = self.load_table()
        self.assertIn("--capacity", self.expect(USAGE, "grow", name).stderr)
        self.assertIn("holds 3 entries", self.expect(USAGE, "grow", name, "--capacity", "2").stderr)
        self.expect(ABSENT, "grow", self.name("none"), "--capacity", "100")
        self.expect(UNUSABLE, "grow", self.load_geo(), "--capacity", "100")
        with self.living_writer(name):
            self.assertIn("living process", self.expect(REFUSED, "grow", name, "--capacity", "100").stderr)
        with tempfile.TemporaryDirectory() as folder:
            huge = f"file:{folder}/t"
            self.expect(OK, "load", huge, self.file(TABLE), "--schema", TABLE_SCHEMA, "--into", "hash_table")
            self.expect(NO_ROOM, "grow", huge, "--capacity", "90000000000")
            self.assertEqual(sorted(os.listdir(folder)), ["t", "t.lease"])
            self.expect(OK, "verify", huge)

    def test_put_refuses_what_does_not_fit(self):
        name = self.load_table()
        for key, value, why in (("x", "a,1,2026-01-01T00:00:00Z", "integer"), ("-1", "a,1,2026-01-01T00:00:00Z", "outside"),
                                ("5", "a,1", "fewer fields"), ("5", "a,1,2026-01-01T00:00:00Z,4", "more fields"),
                                ("5", "name=a,score=1", "seen is missing"), ("5", "name=a,name=b", "twice"),
                                ("5", "this is far too long for it,1,2026-01-01T00:00:00Z", "does not fit"),
                                ("5", "{\"name\":1}", "name"), ("5", "a,one,2026-01-01T00:00:00Z", "not a number")):
            self.assertIn(why, self.expect(USAGE, "put", name, "--", key, value).stderr)
        self.assertEqual(self.json("stat", name)["size"], 3)
        self.expect(UNUSABLE, "put", self.load_geo(), "1.2.3.4", "x")

    def test_a_living_writer_is_respected(self):
        name = self.load_table()
        with self.living_writer(name):
            for words in (["put", name, "1", "a,1,2026-01-01T00:00:00Z"], ["del", name, "1"], ["rm", name],
                          ["load", name, self.file(TABLE), "--merge"]):
                self.assertIn("lease", self.expect(REFUSED, *words).stderr)
            for words in (["stat", name], ["get", name, "1"], ["scan", name], ["dump", name], ["verify", name], ["who", name]):
                self.expect(OK, *words)
        self.expect(OK, "rm", name)
        self.assertEqual(list(pathlib.Path("/dev/shm").glob(name + "*")), [])

    def test_a_full_table(self):
        name = self.name("full")
        self.expect(OK, "load", name, self.file("1,2\n"), "--schema", "k:u32:key,v:u32", "--capacity", "1")
        codes = [self.run_program("put", name, str(key), "0").returncode for key in range(2, 100)]
        self.assertEqual(set(codes), {OK, NO_ROOM})
        self.assertEqual(codes[-1], NO_ROOM)
        self.expect(OK, "verify", name)

    def test_segments_of_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be two users")
        stranger = 65534
        os.chmod(self.folder, 0o755)
        program = shutil.copy(PROGRAM, self.folder / "holdfast")  # where the other user may run it
        os.chmod(program, 0o755)

        def as_stranger(*words):
            return subprocess.run([program, *words], capture_output=True, text=True, timeout=60,
                                  env={**self.environment, "HOLDFAST_REGISTRY": "/nonexistent"}, user=stranger, group=stranger, extra_groups=[])

        secret, public = self.load_table("secret"), self.name("public")
        self.expect(OK, "load", public, self.file(TABLE), "--schema", TABLE_SCHEMA, "--mode", "0644")
        for words in (["stat"], ["get", "1"], ["scan"], ["verify"], ["dump"]):
            command = [words[0], secret, *words[1:]]
            self.assertEqual(as_stranger(*command).returncode, REFUSED, command)
            command = [words[0], public, *words[1:]]
            self.assertEqual(as_stranger(*command).returncode, OK, command)
        # Who may not open the lease learns from the kernel's list of locks that nobody has it.
        self.assertEqual(json.loads(as_stranger("stat", public, "--json").stdout)["lease"]["state"], "free")
        for command in (["put", public, "1", "a,1,2026-01-01T00:00:00Z"], ["del", public, "1"], ["rm", public]):
            self.assertEqual(as_stranger(*command).returncode, REFUSED, command)
        theirs, path = self.name("theirs"), self.file(TABLE, "theirs.csv")
        done = as_stranger("load", theirs, path, "--schema", TABLE_SCHEMA)
        self.assertEqual(done.returncode, OK, done.stderr)
        for words in (["stat"], ["get", "1"], ["scan"], ["verify"], ["who"]):
            self.expect(OK, words[0], theirs, *words[1:])
        self.expect(REFUSED, "put", theirs, "1", "a,1,2026-01-01T00:00:00Z")
        self.expect(REFUSED, "rm", theirs)
        self.expect(OK, "put", theirs, "1", "a,1,2026-01-01T00:00:00Z", "--any-owner")
        self.expect(OK, "rm", theirs, "--any-owner")

    def test_waiting_for_a_writer_that_goes(self):
        name = self.load_table()
        with self.living_writer(name):
            waiting = subprocess.Popen([PROGRAM, "put", name, "1", "a,1,2026-01-01T00:00:00Z", "--wait", "60000"], env=self.environment)
            # It waits: the lease file is open, and nothing was put.
            while not any(p["pid"] == waiting.pid and p["lease_open"] for p in self.json("who", name)["processes"]):
                self.assertIsNone(waiting.poll())
        self.assertEqual(waiting.wait(60), OK)

    def test_scan(self):
        geo, table = self.load_geo(), self.load_table()
        self.assertEqual(self.expect(OK, "scan", geo, "-n", "2").stdout.splitlines(),
                         ["low\thigh\tcountry", "1.0.0.0\t1.0.0.255\tAU", "1.0.1.0\t1.0.3.255\tCN"])
        lines = self.expect(OK, "scan", geo, "--json", "--fields", "country,low").stdout.splitlines()
        self.assertEqual([json.loads(line) for line in lines][0], {"country": "AU", "low": "1.0.0.0"})
        self.assertEqual(lines[0].index("country"), 2)
        self.assertEqual(len(lines), 3)
        self.assertEqual(self.expect(OK, "scan", geo, "--prefix", "1.0.4.").stdout.count("\n"), 2)
        self.expect(NEGATIVE, "scan", geo, "--prefix", "9")
        self.assertEqual(sorted(json.loads(line)["id"] for line in self.expect(OK, "scan", table, "--json").stdout.splitlines()), [1, 2, 3])
        self.assertIn("there are id,name", self.expect(USAGE, "scan", table, "--fields", "nope").stderr)

    def counters_with(self, slot, offset, damage):
        """A set of four counters; into one's slot these bytes are written."""
        header, slot_bytes = 4096, 256
        name = self.name("c")
        owner = self.owner("counters", name, 16)
        for n in range(1, 5):
            owner("put", f"family_{n}_total", n)
        with open(f"/dev/shm/{name}", "r+b") as file:
            file.seek(header + slot * slot_bytes + offset)
            file.write(damage)
        return name

    def test_counters_that_cannot_be_shown_are_told(self):
        family = 72
        name = self.counters_with(2, family, b"\xff")
        for words in ([], ["--json"]):
            done = self.expect(UNUSABLE, "scan", name, *words)
            self.assertEqual([n for n in range(1, 5) if f"family_{n}_total" in done.stdout], [1, 2, 4])
            self.assertIn("holdfast verify", done.stderr)
        self.expect(UNUSABLE, "get", name, "family_3_total")
        self.assertEqual(self.lines("get", name, "family_4_total"), ["4"])
        # Behind the limit nothing is looked at.
        self.assertEqual(self.lines("scan", name, "-n", "2"), ["family_1_total\t1", "family_2_total\t2"])
        self.expect(UNUSABLE, "scan", name, "-n", "3")

    def test_counters_behind_a_name_that_became_zeros_are_told(self):
        first_word = 64
        name = self.counters_with(1, first_word, bytes(8))
        done = self.expect(UNUSABLE, "scan", name)
        self.assertEqual(done.stdout, "family_1_total\t1\n")
        self.assertIn("holdfast verify", done.stderr)
        self.expect(UNUSABLE, "get", name, "family_4_total")
        self.assertEqual(self.lines("get", name, "family_1_total"), ["1"])
        self.assertEqual(self.lines("scan", name, "-n", "1"), ["family_1_total\t1"])

    def test_rm(self):
        name = self.load_geo()
        other = self.load_table()
        self.expect(OK, "rm", name, other)
        self.expect(ABSENT, "rm", name)
        self.expect(OK, "rm", "--force", name)
        stranger = pathlib.Path("/dev/shm") / self.name("stranger")
        stranger.write_bytes(b"not a segment at all" * 500)
        self.expect(UNUSABLE, "rm", stranger.name)
        self.assertTrue(stranger.exists())

    def test_file_and_system_v_segments(self):
        key = 1 + int(uuid.uuid4().hex[:6], 16)
        for name in (f"file:{self.folder}/geo", f"sysv:{key}", f"sysv:{hex(key + 1)}"):
            done = self.run_program("load", name, self.file(GEO), "--schema", GEO_SCHEMA)
            if name.startswith("sysv") and "System V" in done.stderr:
                self.skipTest("needs System V shared memory")
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertEqual(json.loads(self.expect(OK, "get", name, "1.0.4.4").stdout)["country"], "AU")
            self.expect(OK, "verify", name)
            self.assertIn(self.json("stat", name)["uri"], [entry["uri"] for entry in self.json("ls")])
            self.json("who", name)
            self.expect(OK, "rm", name)


class Metrics(WithTables):
    """Counters and latencies as the server leaves them behind."""

    @contextlib.contextmanager
    def server(self, *arguments):
        serving = subprocess.Popen([PROGRAM, "serve", *arguments, "--listen", "127.0.0.1:0", "--workers", "1"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment)
        try:
            line = serving.stdout.readline()
            self.assertRegex(line, r"http://127\.0\.0\.1:\d+", serving.stderr.read() if not line else "")
            yield line.split("http://", 1)[1].split()[0]
        finally:
            serving.terminate()
            self.assertEqual(serving.wait(60), OK)
            serving.stdout.close()
            serving.stderr.close()

    def test_counters_and_latencies(self):
        geo, counts = self.load_geo(), self.name("counts")
        with self.server(geo, "--counters", counts, "--count", f"{geo}=country") as address:
            with urllib.request.urlopen(f"http://{address}/v1/indexes/{geo}/1.0.2.9", timeout=30) as answer:
                self.assertEqual(json.load(answer), json.loads(self.expect(OK, "get", geo, "1.0.2.9").stdout))
            self.expect(REFUSED, "rm", counts)
            self.assertEqual(self.json("who", counts)["lease"]["state"], "held")
        lines = [json.loads(line) for line in self.expect(OK, "scan", counts, "--json").stdout.splitlines()]
        self.assertEqual(sorted(lines[0]), ["labels", "name", "value"])
        hits = [line for line in lines if line["name"] == "holdfast_index_lookups_total" and 'result="hit"' in line["labels"]]
        self.assertEqual([line["value"] for line in hits], [1])
        key = f'{hits[0]["name"]}{{{hits[0]["labels"]}}}'
        self.assertEqual(self.expect(OK, "get", counts, key).stdout, "1\n")
        self.assertEqual(self.json("get", counts, key), hits[0])
        self.expect(NEGATIVE, "get", counts, "holdfast_nothing_total")
        self.expect(NEGATIVE, "scan", counts, "--prefix", "nothing")
        self.assertEqual(self.expect(OK, "scan", counts, "-n", "2").stdout.count("\n"), 2)
        shape = self.json("get", counts + "-latency")
        self.assertEqual(sorted(shape), ["count", "quantiles", "sum_ns"])
        self.assertEqual(shape["count"], 1)
        self.assertEqual(sorted(shape["quantiles"][0]), ["bounded", "confidence", "estimate_ns", "lower_ns", "q", "upper_ns"])
        self.assertIn("p99", self.expect(OK, "get", counts + "-latency").stdout)
        for kind, name in (("counter_set", counts), ("latency_histogram", counts + "-latency")):
            self.assertEqual(self.json("stat", name)["kind"], kind)
            self.assertTrue(self.json("verify", name)[0]["intact"])
            for words in (["dump", name], ["put", name, "a", "b"], ["load", name, self.file(GEO), "--schema", GEO_SCHEMA]):
                self.expect(UNUSABLE, *words)
            self.expect(OK, "rm", name)


class Terminal(WithTables):
    def test_colours_are_for_terminals_only(self):
        name = self.load_geo()
        import pty
        for environment, coloured in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            controller, terminal = pty.openpty()
            subprocess.run([PROGRAM, "stat", name], stdout=terminal, env={**self.environment, **environment}, check=True)
            os.close(terminal)
            text = b""
            with contextlib.suppress(OSError):
                while piece := os.read(controller, 65536):
                    text += piece
            os.close(controller)
            self.assertIn(b"snapshot", text)
            self.assertEqual(b"\x1b[" in text, coloured, environment)
        self.environment["TERM"] = "xterm"
        self.assertNotIn("\x1b", self.expect(OK, "stat", name).stdout)


if __name__ == "__main__":
    main()
