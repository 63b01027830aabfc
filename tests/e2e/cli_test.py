# SPDX-License-Identifier: Apache-2.0
"""The program from outside: every subcommand, its answers, its JSON shapes, its exit codes, and what it says of bad input."""
import contextlib
import fcntl
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.request
import uuid

PROGRAM = os.environ.get("HOLDFAST_PROGRAM")
OK, NEGATIVE, USAGE, ABSENT, UNUSABLE, REFUSED, NO_ROOM, BAD_INPUT = range(8)
GEO_SCHEMA = "low:ipv4:key,high:ipv4:end,country:char[2]"
GEO = "# a comment\n16777216,16777471,AU\n16777472,16778239,CN\n1.0.4.0,1.0.7.255,AU\n"
TABLE_SCHEMA = "id:u64:key,name:char[16],score:f64,seen:timestamp"
TABLE = "id,name,score,seen\n1,ada,1.5,2026-01-02T03:04:05Z\n2,\"bo, \"\"the\"\" second\",-2,1970-01-01T00:00:00Z\n3,,NaN,2000-02-29T00:00:00.000000001Z\n"


class Program(unittest.TestCase):
    """Runs the program with a registry, a folder and names of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-cli-"))
        self.token = "hf-cli-" + uuid.uuid4().hex[:12]
        self.environment = {**os.environ, "HOLDFAST_REGISTRY": str(self.folder / "registry"), "TERM": "dumb"}

    def tearDown(self):
        for path in pathlib.Path("/dev/shm").glob(self.token + "*"):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def name(self, hint="a"):
        return f"{self.token}-{hint}"

    def file(self, text, name="data.csv"):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def run_program(self, *arguments, stdin=None, **more):
        return subprocess.run([PROGRAM, *arguments], input=stdin, capture_output=True, text=True, errors="replace",
                              timeout=60, env=self.environment, **more)

    def expect(self, code, *arguments, **more):
        done = self.run_program(*arguments, **more)
        self.assertEqual(done.returncode, code, f"{arguments}\nstdout: {done.stdout}\nstderr: {done.stderr}")
        if code in (OK, NEGATIVE):
            return done
        self.assertRegex(done.stderr, r"\Aholdfast: [^\n]+\n\Z", "an error is one line that begins with the program's name")
        return done

    def json(self, *arguments, code=OK):
        return json.loads(self.expect(code, *arguments, "--json").stdout)

    def load_geo(self, hint="geo", **more):
        name = self.name(hint)
        self.expect(OK, "load", name, self.file(GEO), "--schema", GEO_SCHEMA, **more)
        return name

    def load_table(self, hint="table"):
        name = self.name(hint)
        self.expect(OK, "load", name, self.file(TABLE), "--schema", TABLE_SCHEMA)
        return name

    @contextlib.contextmanager
    def living_writer(self, name):
        """Holds the lease as a writer does: an exclusive lock of the open file description on byte 0."""
        f_ofd_setlk = 37  # fcntl(2); Python's fcntl has no name for it before 3.9
        with open(f"/dev/shm/{name}.lease", "r+b") as lease:
            fcntl.fcntl(lease, f_ofd_setlk, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
            yield


class Usage(Program):
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


class Looking(Program):
    STAT_KEYS = ["allocated_bytes", "bytes", "capacity", "created", "fields", "gid", "kind", "layout", "lease", "mode", "pages",
                 "payload", "peer_slots", "problem", "range_end", "registered", "room_bytes", "schema", "size", "uid", "uri", "used_bytes", "version", "writers"]

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
        self.assertEqual(sorted(shape), ["lease", "processes", "readers", "uri"])
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


class Entries(Program):
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


class Loading(Program):
    def fault(self, text, *arguments, name="data.csv"):
        """Where and why a file is refused, after making sure that nothing was published."""
        segment = self.name("fault")
        path = self.file(text, name)
        done = self.expect(BAD_INPUT, "load", segment, path, *arguments)
        self.expect(ABSENT, "stat", segment)
        self.assertTrue(done.stderr.startswith(f"holdfast: {path}:"), done.stderr)
        return done.stderr[len(f"holdfast: {path}:"):].rstrip("\n")

    def test_bad_lines_are_named_in_every_format(self):
        geo = ["--schema", GEO_SCHEMA]
        table = ["--schema", TABLE_SCHEMA]
        self.assertRegex(self.fault("#c\n1.0.0.0,1.0.0.9,AU\n1.0.0.10,x,AU\n", *geo), r"^3:10: field high: 'x' is not")
        self.assertRegex(self.fault("1.0.0.0,1.0.0.9\n", *geo), r"^1:16: the row has 2 fields where the schema has 3")
        self.assertRegex(self.fault("1.0.0.0,1.0.0.9,AU,7\n", *geo), r"^1:20: the row has 4 fields")
        self.assertRegex(self.fault("1.0.0.0,1.0.0.9,AUS\n", *geo), r"^1:17: field country: text of 3 bytes does not fit")
        self.assertRegex(self.fault('1,"open,2\n', *table), r"^1:3: the quote that opens here is never closed")
        self.assertRegex(self.fault('1,a"b,1,2026-01-01T00:00:00Z\n', *table), r"^1:4: a quote inside")
        self.assertRegex(self.fault('1,"a"b,1,2026-01-01T00:00:00Z\n', *table), r"^1:6: something follows")
        self.assertRegex(self.fault('1,"a\nb",x,2026-01-01T00:00:00Z\n', *table), r"^1:\d+: field score")
        self.assertRegex(self.fault("1\ta\t1\tyesterday\n", *table, name="data.tsv"), r"^1:7: field seen")
        self.assertRegex(self.fault('{"id":1,"name":"a","score":"x","seen":"2026-01-01T00:00:00Z"}\n', *table, name="data.jsonl"),
                         r"^1:28: field score")
        self.assertRegex(self.fault('{"id":1,"name":"a"\n', *table, name="data.jsonl"), r"^1:")
        self.assertRegex(self.fault('{"id":1}\n', *table, name="data.jsonl"), r"^1:\d+: .*name")
        self.assertRegex(self.fault(b"\xff\xfe\x00,1,1\n", *geo), r"^1:1: field low")

    def test_contradictions_name_both_lines(self):
        geo = ["--schema", GEO_SCHEMA]
        self.assertRegex(self.fault("#\n5,9,AA\n\n1,2,BB\n7,12,CC\n", *geo), r"^5: .*overlaps.*line 2")
        self.assertRegex(self.fault("5,9,AA\n5,9,AA\n", *geo), r"^2: .*same key.*line 1")
        self.assertRegex(self.fault("9,5,AA\n", *geo), r"^1: .*ends before it begins")
        self.assertRegex(self.fault("1,2\n3,4\n1,5\n", "--schema", "k:u32:key,v:u32"), r"^3: .*same key as line 1")
        self.assertRegex(self.fault("1,2\n3,4\n1,5\n", "--schema", "k:u32:key,v:u32", "--into", "sorted_index"), r"^3: .*line 1")

    def test_schemas_that_are_none(self):
        path = self.file(GEO)
        for schema, why in (("low", "expected ':'"), ("low:ipv9", "is no type"), ("low:ipv4:king", "no role"), ("a:u8:end", "end"),
                            ("a:u8:key,b:u16:end", "same type"), ("a:u8,a:u8", "rename"), ("a:char", "needs its size"), ("", "")):
            done = self.run_program("load", self.name("s"), path, "--schema", schema)
            self.assertIn(done.returncode, (USAGE, BAD_INPUT), done.stderr)
            self.assertIn(why, done.stderr)
        self.expect(USAGE, "load", self.name("s"), path, "--value", "a:u8")
        self.expect(USAGE, "load", self.name("s"), path, "--schema", "a:u8,b:u8", "--key", "a:u8")
        self.expect(USAGE, "load", self.name("s"), path, "--schema", GEO_SCHEMA, "--mode", "rw")
        self.expect(USAGE, "load", self.name("s"), path, "--schema", GEO_SCHEMA, "--into", "heap")
        self.expect(USAGE, "load", self.name("s"), path, "--schema", GEO_SCHEMA, "--capacity", "2")
        self.assertIn("no schema", self.expect(BAD_INPUT, "load", self.name("s"), self.file("1,2\n")).stderr)
        self.assertIn("no schema", self.expect(BAD_INPUT, "load", self.name("s"), self.file("")).stderr)
        self.assertIn("no schema", self.expect(BAD_INPUT, "load", self.name("s"), self.file("{}", "x.jsonl")).stderr)
        self.expect(ABSENT, "stat", self.name("s"))

    def test_files_that_cannot_be_read(self):
        self.expect(ABSENT, "load", self.name(), str(self.folder / "none.csv"), "--schema", GEO_SCHEMA)
        self.expect(USAGE, "load", self.name(), str(self.folder), "--schema", GEO_SCHEMA)
        if os.geteuid() != 0:
            path = self.file(GEO)
            os.chmod(path, 0)
            self.expect(REFUSED, "load", self.name(), path, "--schema", GEO_SCHEMA)

    def test_headers(self):
        name = self.name()
        for text in ("high:ipv4:end,low:ipv4:key,country:char[2]\n1.0.0.9,1.0.0.0,AU\n",
                     "#schema " + GEO_SCHEMA + "\nhigh,country,low\n1.0.0.9,AU,1.0.0.0\n",
                     "#schema key {low:ipv4@0}#4 value {high:ipv4@0,country:char[2]@4}#8 end=high\n1.0.0.0,1.0.0.9,AU\n"):
            self.expect(OK, "load", name, self.file(text))
            self.assertEqual(json.loads(self.expect(OK, "get", name, "1.0.0.5").stdout),
                             {"low": "1.0.0.0", "high": "1.0.0.9", "country": "AU"})
            self.expect(OK, "rm", name)
        self.assertRegex(self.fault("low,high\n1,2\n", "--schema", GEO_SCHEMA), r"^1:1: the header lacks the field country")
        self.assertRegex(self.fault("low,high,low\n1,2\n", "--schema", GEO_SCHEMA), r"^1:10: the header names low twice")

    def test_line_ends_marks_and_blanks(self):
        name = self.name()
        text = b"\xef\xbb\xbflow:ipv4:key,high:ipv4:end,country:char[2]\r\n 1.0.0.0 , 1.0.0.9 ,AU\r\n\r\n# end\r\n1.0.1.0,1.0.1.9,NZ"
        self.expect(OK, "load", name, self.file(text))
        self.assertEqual(self.expect(OK, "scan", name).stdout.splitlines()[1:], ["1.0.0.0\t1.0.0.9\tAU", "1.0.1.0\t1.0.1.9\tNZ"])

    def test_a_file_without_records_empties_no_index_unless_told(self):
        segment = self.name("keep")
        schema = ["--schema", "low:u32:key,high:u32:end"]
        self.expect(OK, "load", segment, self.file("1,2\n5,9\n"), *schema)
        for text in ("# nothing\n", ""):
            self.assertIn("--allow-empty", self.expect(USAGE, "load", segment, self.file(text)).stderr)
            self.assertIn("9", self.expect(OK, "get", segment, "6").stdout)
        self.expect(OK, "load", segment, self.file("# nothing\n"), "--allow-empty")
        self.expect(NEGATIVE, "get", segment, "6")

    def test_a_key_of_one_field_may_be_an_object(self):
        segment = self.name("object")
        self.expect(OK, "load", segment, self.file("5,9\n"), "--schema", "id:u32:key,n:u32")
        self.assertIn("9", self.expect(OK, "get", segment, '{"id": 5}').stdout)
        self.expect(OK, "del", segment, '{"id": 5}')
        self.expect(NEGATIVE, "get", segment, "5")

    def test_skip_bad_counts_and_shows_the_first(self):
        name = self.name()
        text = "1.0.0.0,1.0.0.9,AU\n" + "bad\n" * 30 + '"never,closed\n' + "1.0.1.0,1.0.1.9,NZ\n"
        done = self.expect(OK, "load", name, self.file(text), "--schema", GEO_SCHEMA, "--skip-bad", "--json")
        shape = json.loads(done.stdout)
        self.assertEqual(sorted(shape), ["bytes", "created", "kind", "records", "skipped", "uri", "version"])
        self.assertEqual((shape["records"], shape["skipped"], shape["created"], shape["kind"], shape["version"]), (2, 31, True, "snapshot", 1))
        self.assertEqual(done.stderr.count("\n"), 10)
        self.assertIn(":11:", done.stderr)

    def test_reload_publishes_the_next_version(self):
        name = self.load_geo()
        more = self.file("1.0.0.0,1.0.0.255,NZ\n", "more.csv")
        shape = self.json("load", name, more)  # the stored schema serves
        self.assertEqual((shape["version"], shape["created"]), (2, False))
        self.assertEqual(json.loads(self.expect(OK, "get", name, "1.0.0.7").stdout)["country"], "NZ")
        self.expect(BAD_INPUT, "load", name, self.file("1.0.0.0,zzz,NZ\n", "bad.csv"))
        self.assertEqual(self.json("stat", name)["version"], 2)
        self.assertIn("country", self.expect(UNUSABLE, "load", name, more, "--schema", "low:ipv4:key,high:ipv4:end,land:char[2]").stderr)
        self.expect(UNUSABLE, "load", name, more, "--schema", "low:ipv4:key,high:ipv4,country:char[2]")
        self.expect(UNUSABLE, "load", name, more, "--into", "hash_table")
        many = self.file("".join(f"{i * 10},{i * 10 + 5},XX\n" for i in range(1000)), "many.csv")
        self.assertIn("--capacity", self.expect(NO_ROOM, "load", name, many).stderr)
        with self.living_writer(name):
            self.expect(REFUSED, "load", name, more)

    def test_merge_into_a_table(self):
        name = self.load_table()
        more = self.file("id,name,score,seen\n3,three,3,2026-01-01T00:00:00Z\n4,four,4,2026-01-01T00:00:00Z\n", "more.csv")
        self.assertIn("--merge", self.expect(REFUSED, "load", name, more).stderr)
        self.assertEqual(self.json("load", name, more, "--merge")["records"], 2)
        self.assertEqual(self.json("stat", name)["size"], 4)
        self.assertEqual(json.loads(self.expect(OK, "get", name, "3").stdout)["name"], "three")
        twice = self.file("7,a,1,2026-01-01T00:00:00Z\n7,b,1,2026-01-01T00:00:00Z\n", "twice.csv")
        self.expect(BAD_INPUT, "load", name, twice, "--merge")
        self.expect(NEGATIVE, "get", name, "7")
        many = self.file("".join(f"{i},a,1,2026-01-01T00:00:00Z\n" for i in range(100, 1000)), "many.csv")
        self.expect(NO_ROOM, "load", name, many, "--merge")
        self.assertEqual(self.json("stat", name)["size"], 4)

    def test_an_index_is_made_once(self):
        name = self.name()
        self.expect(OK, "load", name, self.file(GEO), "--schema", GEO_SCHEMA, "--into", "sorted_index", "--mode", "0644")
        shape = self.json("stat", name)
        self.assertEqual((shape["kind"], shape["mode"], shape["size"]), ("sorted_index", "0644", 3))
        self.assertEqual(json.loads(self.expect(OK, "get", name, "1.0.2.2").stdout)["country"], "CN")
        self.assertIn("--into snapshot", self.expect(REFUSED, "load", name, self.file(GEO)).stderr)
        self.expect(OK, "verify", name)

    def test_standard_input(self):
        self.expect(OK, "load", self.name(), "-", "--schema", GEO_SCHEMA, stdin=GEO)
        self.assertEqual(self.json("stat", self.name())["size"], 3)

    def test_no_room(self):
        text = "".join(f"{i},{i}\n" for i in range(20000))

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

        for into in ("hash_table", "sorted_index", "snapshot"):
            name = self.name("big")
            done = self.run_program("load", name, self.file(text), "--schema", "k:u32:key,v:u32", "--into", into, preexec_fn=limit)
            self.assertEqual(done.returncode, NO_ROOM, done.stderr)
            self.assertEqual(list(pathlib.Path("/dev/shm").glob(name + "*")), [])


class RoundTrip(Program):
    SCHEMA = "k1:i16:key,k2:char[3]:key,u:u64,i:i8,f:f32,d:f64,b:bool,t:char[5],x:bytes[2],a4:ipv4,a6:ipv6,s:timestamp,v:u16[3],e:u8<red=0|green=3>"

    def rows(self):
        yield '-32768,abc,18446744073709551615,-128,1.5,-0.1,true,"a,""b",00ff,255.255.255.255,::1,2262-04-11T23:47:16.854775807Z,"[1,2,3]",red'
        yield '0,"#x",0,127,NaN,Infinity,false,,ffff,0.0.0.0,ffff::,1970-01-01T00:00:00Z,"[0,0,65535]",green'
        yield '1,\\xff\\x00z,7,0,-0,1e300,true,"\\x0a\\x09",0102,1.2.3.4,::ffff:1.2.3.4,1677-09-21T00:12:43.145224192Z,"[7,8,9]",200'
        yield '2,"",7,0,3.4e38,5e-324,true," x ",0102,1.2.3.4,2001:db8::,2026-11-21T01:02:03.5Z,"[7,8,9]",1'

    def test_every_type_through_every_format_and_container(self):
        source = self.file("\n".join(self.rows()) + "\n")
        for into in ("hash_table", "sorted_index", "snapshot"):
            name, copy = self.name(into), self.name(into + "-copy")
            self.expect(OK, "load", name, source, "--schema", self.SCHEMA, "--into", into)
            wanted = sorted(self.expect(OK, "scan", name, "--json").stdout.splitlines())
            self.assertEqual(len(wanted), 4)
            for form in ("csv", "tsv", "jsonl"):
                path = str(self.folder / f"dump.{form}")
                self.expect(OK, "dump", name, "-o", path)
                self.expect(OK, "load", copy, path, "--into", into)
                self.assertEqual(sorted(self.expect(OK, "scan", copy, "--json").stdout.splitlines()), wanted)
                self.assertEqual(self.json("stat", copy)["schema"], self.json("stat", name)["schema"])
                if into != "hash_table":  # in order, so byte for byte
                    self.assertEqual(self.expect(OK, "dump", copy, "--format", form).stdout, pathlib.Path(path).read_text())
                self.expect(OK, "rm", copy)
            self.expect(OK, "verify", name)

    def test_first_fields_that_look_like_comments_or_nothing(self):
        rows = ["#a", "", " b", "c ", "\\x23d", "#schema x:u8"]
        text = "".join('"%s",1\n' % row for row in rows)
        for form in ("csv", "tsv", "jsonl"):
            name, copy = self.name(form), self.name(form + "-copy")
            self.expect(OK, "load", name, self.file(text), "--schema", "t:char[16]:key,n:u8", "--into", "hash_table", "--skip-bad")
            self.assertEqual(self.json("stat", name)["size"], len(rows))
            path = str(self.folder / f"dump.{form}")
            self.expect(OK, "dump", name, "-o", path)
            self.expect(OK, "load", copy, path)
            wanted = sorted(self.expect(OK, "scan", name, "--json").stdout.splitlines())
            self.assertEqual(sorted(self.expect(OK, "scan", copy, "--json").stdout.splitlines()), wanted)

    def test_layouts_that_names_and_types_do_not_tell(self):
        schema = "key {id:u32@4}#8 value {a:u8@3,b:u16@6}#16/8"
        name, copy = self.name(), self.name("copy")
        self.expect(OK, "load", name, self.file("1,2,3\n"), "--schema", schema)
        for form in ("csv", "tsv", "jsonl"):
            path = str(self.folder / f"dump.{form}")
            self.expect(OK, "dump", name, "-o", path)
            self.expect(OK, "load", copy, path)
            self.assertEqual(self.json("stat", copy)["schema"], self.json("stat", name)["schema"])
            self.assertEqual(self.expect(OK, "get", copy, "1").stdout, self.expect(OK, "get", name, "1").stdout)
            self.expect(OK, "rm", copy)

    def test_a_dump_that_fails_leaves_the_old_file(self):
        path = self.folder / "kept.csv"
        path.write_text("kept")
        name = self.load_geo()

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        done = self.run_program("dump", name, "-o", str(path), preexec_fn=limit)
        self.assertEqual(done.returncode, NO_ROOM, done.stderr)
        self.assertEqual(path.read_text(), "kept")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["data.csv", "kept.csv", "registry"])

    def test_a_dump_that_is_killed_leaves_nothing(self):
        path = self.folder / "kept.csv"
        path.write_text("kept")
        name = self.load_geo()
        with tempfile.TemporaryFile(dir=self.folder) as probe:
            if os.stat(probe.fileno()).st_nlink != 0:
                self.skipTest("needs a file system with unnamed files (O_TMPFILE)")

        def die_in_the_first_write():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))  # the write beyond is SIGXFSZ

        done = self.run_program("dump", name, "-o", str(path), preexec_fn=die_in_the_first_write)
        self.assertEqual(done.returncode, -signal.SIGXFSZ, done.stderr)
        self.assertEqual(path.read_text(), "kept")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["data.csv", "kept.csv", "registry"])

    def test_a_dump_keeps_links_and_the_mode_of_what_it_replaces(self):
        name = self.load_geo()
        whole = self.expect(OK, "dump", name).stdout
        secret = self.folder / "secret.csv"
        secret.write_text("old")
        secret.chmod(0o600)
        (self.folder / "link.csv").symlink_to("secret.csv")
        (self.folder / "dangling.csv").symlink_to("fresh.csv")
        for target, behind, mode in (("link.csv", "secret.csv", 0o600), ("dangling.csv", "fresh.csv", 0o640)):
            self.expect(OK, "dump", name, "-o", str(self.folder / target), umask=0o027)
            self.assertTrue((self.folder / target).is_symlink())
            self.assertEqual((self.folder / behind).read_text(), whole)
            self.assertEqual((self.folder / behind).stat().st_mode & 0o777, mode)
        self.assertEqual([p.name for p in self.folder.iterdir() if p.name.startswith(".")], [])

    def test_a_dump_into_what_is_no_plain_file_leaves_it_what_it_is(self):
        name = self.load_geo()
        whole = self.expect(OK, "dump", name).stdout
        fifo = self.folder / "pipe.csv"
        os.mkfifo(fifo)
        with subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE, text=True) as reader:
            self.expect(OK, "dump", name, "-o", str(fifo))
            self.assertEqual(reader.communicate(timeout=60)[0], whole)
        self.assertTrue(fifo.is_fifo())
        full = self.folder / "full"
        full.symlink_to("/dev/full")
        self.expect(NO_ROOM, "dump", name, "-o", str(full))
        self.assertTrue(full.is_symlink() and pathlib.Path("/dev/full").is_char_device())
        self.assertEqual(self.expect(OK, "dump", name, "-o", "/dev/stdout").stdout, whole)

    def test_a_link_planted_under_the_name_in_the_making_is_not_followed(self):
        name = self.load_geo()
        victim = self.folder / "victim"
        victim.write_text("precious")
        (self.folder / "out.csv.making").symlink_to(victim)
        self.expect(OK, "dump", name, "-o", str(self.folder / "out.csv"))
        self.assertEqual(victim.read_text(), "precious")


class Hostile(Program):
    """Whatever the bytes: a known exit code, in time, without a signal."""
    COMMANDS = (["stat", "{}", "--json"], ["verify", "{}", "--json"], ["get", "{}", "7"], ["scan", "{}", "--json"], ["dump", "{}"], ["who", "{}"])
    SCALE = float(os.environ.get("HOLDFAST_TEST_SCALE", "1"))

    def check_all(self, name, what):
        for command in self.COMMANDS:
            done = self.run_program(*[word.format(name) for word in command])
            self.assertIn(done.returncode, range(9), f"{command} ended with {done.returncode} after {what}\n{done.stderr}")
            if "--json" in command and command[0] != "scan" and done.stdout:
                json.loads(done.stdout)

    def image(self, into):
        name = self.name(into)
        rows = "".join(f"{i * 7},{i * 7 + 6},{'t' * (i % 9)}\n" for i in range(40))
        more = ["--capacity", "40", "--pinned-readers", "2"] if into == "snapshot" else []
        self.expect(OK, "load", name, self.file(rows), "--schema", "low:u32:key,high:u32:end,t:char[8]", "--into", into, *more)
        return name, bytearray(pathlib.Path(f"/dev/shm/{name}").read_bytes())

    def check_flips(self, into):
        import random
        seed = int(os.environ.get("HOLDFAST_TEST_SEED", uuid.uuid4().int % 2**32))
        print(f"seed {seed}", file=sys.stderr)
        chance = random.Random(seed)
        name, image = self.image(into)
        path = pathlib.Path(f"/dev/shm/{name}")
        spots = [chance.randrange(0, 4096) for _ in range(int(8 * self.SCALE))] + \
                [4096 + int((len(image) - 4096) * chance.random() ** 3) for _ in range(int(16 * self.SCALE))]
        for spot in spots:
            broken = bytearray(image)
            broken[spot] ^= 1 << chance.randrange(8)
            path.write_bytes(broken)
            self.check_all(name, f"a flipped bit at {spot}, seed {seed}")
        path.write_bytes(image)
        self.expect(OK, "verify", name)

    def test_flipped_bits_in_a_hash_table(self):
        self.check_flips("hash_table")

    def test_flipped_bits_in_a_sorted_index(self):
        self.check_flips("sorted_index")

    def test_flipped_bits_in_a_snapshot(self):
        self.check_flips("snapshot")

    def test_verify_locates_damage(self):
        name, image = self.image("hash_table")
        first_line = 4096 + 128 + 64  # behind the header, the journal of nodes of up to 64 bytes, and the digests of up to 128 buckets
        spot = next(i for i in range(first_line + 12, first_line + 64) if image[i] != 0)  # a tag (layout/hash_table_layout.hpp)
        image[spot] ^= 0x40
        pathlib.Path(f"/dev/shm/{name}").write_bytes(image)
        shape = self.json("verify", name, code=NEGATIVE)[0]
        self.assertEqual(sorted(shape), ["damages", "elements", "findings", "intact", "kind", "uri"])
        self.assertGreater(shape["damages"], 0)
        self.assertEqual(sorted(shape["findings"][0]), ["offset", "part", "place", "severity", "what"])
        damages = [f for f in shape["findings"] if f["severity"] == "damage"]
        self.assertTrue(all(f["part"] == "body" and f["offset"] >= 4096 for f in damages), damages)
        self.assertIn("damage", self.expect(NEGATIVE, "verify", name).stdout)

    def test_verify_finds_a_changed_bit_of_an_entry(self):
        name, image = self.image("hash_table")
        spot = max(i for i, byte in enumerate(image) if byte != 0)  # the nodes lie last
        image[spot] ^= 0x10
        pathlib.Path(f"/dev/shm/{name}").write_bytes(image)
        damages = [f for f in self.json("verify", name, code=NEGATIVE)[0]["findings"] if f["severity"] == "damage"]
        self.assertRegex(damages[0]["place"], r"slots \d+\.\.\d+")

    def test_truncated_and_grown_files(self):
        for into in ("hash_table", "sorted_index", "snapshot"):
            name, image = self.image(into)
            path = pathlib.Path(f"/dev/shm/{name}")
            for bytes_left in (0, 7, 8, 100, 4095, 4096, 5000, len(image) - 1, len(image) + 1):
                path.write_bytes((image + b"\x00")[:bytes_left])
                self.check_all(name, f"{bytes_left} of {len(image)} bytes")
                if bytes_left not in (0, 7):
                    self.expect(NEGATIVE, "verify", name)

    def test_random_bytes_behind_a_true_header(self):
        for into in ("hash_table", "sorted_index", "snapshot"):
            name, image = self.image(into)
            for fill in (os.urandom(len(image) - 4096), b"\xff" * (len(image) - 4096), bytes(len(image) - 4096)):
                pathlib.Path(f"/dev/shm/{name}").write_bytes(bytes(image[:4096]) + fill)
                self.check_all(name, "a garbled body")


class Metrics(Program):
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


class Terminal(Program):
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


def main():
    if not PROGRAM:
        print("needs HOLDFAST_PROGRAM, the program to test")
        return 77
    result = unittest.TextTestRunner(verbosity=1).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad - len(result.skipped)} passed, {bad} failed, {len(result.skipped)} skipped")
    return 1 if bad else 0


class SaveAndRestore(Program):
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

    def test_what_is_no_saved_file(self):
        self.assertIn("holdfast save", self.expect(UNUSABLE, "restore", self.file("x" * 1000), self.name()).stderr)
        self.expect(UNUSABLE, "restore", self.file(""), self.name())
        self.expect(ABSENT, "restore", str(self.folder / "none"), self.name())
        self.expect(ABSENT, "save", self.name(), str(self.folder / "saved"))
        self.assertFalse((self.folder / "saved").exists())


if __name__ == "__main__":
    sys.exit(main())
