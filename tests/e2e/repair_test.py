# SPDX-License-Identifier: Apache-2.0
"""holdfast repair from outside: what it prints, its exit codes, the names it leaves, and whom it refuses."""
import json
import os
import pathlib
import random
import subprocess
import sys

from cli_support import ABSENT, NEGATIVE, NO_ROOM, OK, PROGRAM, REFUSED, UNUSABLE, USAGE, CommandLine, main

HEADER = 4096
FAILED = 8
NOBODY = 65534


def become_nobody():
    os.setgid(NOBODY)
    os.setuid(NOBODY)


class Repair(CommandLine):
    def path(self, name):
        return pathlib.Path("/dev/shm") / name

    def damage(self, name, at, data=b"\xa5"):
        with open(self.path(name), "r+b") as file:
            file.seek(at)
            old = file.read(len(data))
            file.seek(at)
            file.write(bytes(b ^ (d or 1) for b, d in zip(old, data)))

    def repair(self, code, *words):
        return json.loads(self.expect(code, "repair", *words, "--json").stdout)

    def table(self, hint="t", entries=1000):
        name = self.name(hint)
        lines = "id:u64:key,text:char[16]\n" + "".join(f"{n * 7},word {n}\n" for n in range(entries))
        self.expect(OK, "load", name, "-", "--into", "hash_table", stdin=lines)
        return name

    def entries(self, name):
        return sorted(self.run_program("scan", name).stdout.splitlines()[1:])

    def place_of(self, name, text):
        """Where an entry's text lies in the file."""
        return self.path(name).read_bytes().index(text.encode() + b"\0")

    def test_an_intact_segment_is_left_alone(self):
        name = self.table()
        before = self.path(name).read_bytes()
        done = self.repair(OK, name)
        self.assertTrue(done["intact"])
        self.assertIsNone(done["damaged"])
        self.assertIn("nothing to repair", self.expect(OK, "repair", name).stdout)
        # The lease counts nothing here: not a byte is another.
        self.assertEqual(self.path(name).read_bytes(), before)

    def test_a_byte_is_put_right_and_the_damaged_one_stays(self):
        name = self.table()
        before = self.entries(name)
        self.damage(name, self.place_of(name, "word 500"))
        damaged = self.path(name).read_bytes()
        self.expect(NEGATIVE, "verify", name)
        trial = self.repair(OK, name, "--dry-run")
        self.assertEqual((trial["dry_run"], trial["repaired"], trial["damaged"]), (True, None, None))
        self.assertEqual(self.path(name).read_bytes(), damaged, "a trial changes nothing")
        done = self.repair(OK, name)
        self.assertEqual(sorted(done), ["damaged", "doubtful", "dry_run", "header_rebuilt", "intact", "kept", "kind", "lost", "mended",
                                        "notes", "reasons", "repaired", "uri"])
        self.assertEqual((done["kept"], done["lost"], done["mended"]), (1000, 0, 1))
        self.assertEqual(done["damaged"], f"posix:/{name}.damaged")
        self.assertEqual([sorted(note) for note in done["notes"]], [["fate", "items", "place", "reason"]])
        self.assertEqual(self.entries(name), before)
        self.expect(OK, "verify", name)
        self.assertEqual(self.path(name + ".damaged").read_bytes(), damaged)
        # The next one gets a number.
        self.damage(name, self.place_of(name, "word 501"))
        self.assertEqual(self.repair(OK, name)["damaged"], f"posix:/{name}.damaged.2")
        self.expect(OK, "put", name, "7", "another")
        for gone in (name + ".damaged", name + ".damaged.2", name):
            self.expect(OK, "rm", gone)
        self.assertEqual([p.name for p in pathlib.Path("/dev/shm").glob(self.token + "*")], [])

    def test_what_is_lost_is_listed(self):
        name = self.table(entries=3000)
        before = set(self.entries(name))
        self.damage(name, self.place_of(name, "word 1500"), b"\x77" * 400)
        report = self.folder / "report"
        done = self.repair(NEGATIVE, name, "--report", str(report))
        listed = [json.loads(line) for line in report.read_text().splitlines()]
        self.assertEqual(sum(note["items"] for note in listed if note["fate"] == "lost"), done["lost"])
        self.assertEqual(sum(reason["items"] for reason in done["reasons"] if reason["fate"] == "lost"), done["lost"])
        self.assertGreater(done["lost"], 0)
        self.assertLess(len(done["notes"]), 101)
        after = set(self.entries(name))
        self.assertEqual(len(after), done["kept"])
        self.assertEqual(done["kept"] + done["lost"], 3000)
        self.assertLessEqual(after, before, "nothing is invented")
        # Where an entry lies is of each table's own seed: what was hit may all be there still, if in doubt.
        again = self.run_program("repair", name + ".damaged", "--to", self.name("to"), "--keep-doubtful", "--json")
        kept = json.loads(again.stdout)
        self.assertEqual(again.returncode, NEGATIVE if kept["lost"] > 0 else OK)
        self.assertGreater(kept["kept"], done["kept"])
        self.assertEqual(self.entries(name), sorted(after), "the other one is not touched")

    def test_a_report_that_cannot_be_written_does_not_hide_what_was_done(self):
        name = self.table()
        before = self.entries(name)
        self.damage(name, self.place_of(name, "word 500"))
        failed = self.expect(NO_ROOM, "repair", name, "--json", "--report", "/dev/full")
        self.assertIn("/dev/full", failed.stderr)
        done = json.loads(failed.stdout)
        self.assertEqual((done["repaired"], done["damaged"]), (f"posix:/{name}", f"posix:/{name}.damaged"))
        self.assertEqual(self.entries(name), before)
        self.damage(name, self.place_of(name, "word 501"))
        self.assertIn(f"{name}.damaged.2", self.expect(NO_ROOM, "repair", name, "--report", "/dev/full").stdout)

    def test_a_header_is_put_right_by_its_checksum(self):
        name = self.table()
        before = self.entries(name)
        for at in (0, 13, 33, 60, 81, 300, 2820):
            self.damage(name, at)
            self.assertTrue(self.repair(OK, name)["header_rebuilt"], at)
            self.assertEqual(self.entries(name), before)
            self.expect(OK, "rm", name + ".damaged")
        self.damage(name, 8, bytes(range(1, 200)))
        error = self.expect(UNUSABLE, "repair", name).stderr
        self.assertIn("holdfast restore", error)

    def test_random_damage_ends_in_a_sound_segment_or_a_refusal(self):
        choice = random.Random(int(os.environ.get("HOLDFAST_TEST_SEED", "7")))
        name = self.table(entries=200)
        sound = self.path(name).read_bytes()
        before = set(self.entries(name))
        for _ in range(25):
            self.path(name).write_bytes(sound)
            for _ in range(choice.randrange(1, 6)):
                at = choice.choice((0, HEADER)) + choice.randrange(3000)
                self.damage(name, at, bytes(choice.randrange(256) for _ in range(choice.choice((1, 4, 40)))))
            done = self.run_program("repair", name)
            self.assertIn(done.returncode, (OK, NEGATIVE, UNUSABLE), done.stderr)
            if done.returncode == UNUSABLE:
                continue
            self.expect(OK, "verify", name)
            self.assertLessEqual(set(self.entries(name)), before)
            for left in pathlib.Path("/dev/shm").glob(name + ".damaged*"):
                left.unlink()

    def test_a_living_writer_is_named(self):
        name = self.name()
        owner = self.owner("array", name, 100)
        owner("put", 3, 33)
        error = self.expect(REFUSED, "repair", name).stderr
        self.assertIn(f"process {owner.process.pid} (segment_subjec", error)
        owner.kill()
        self.damage(name, self.path(name).read_bytes().rindex(b"\x21\0\0\0\0\0\0\0"))
        self.assertEqual((self.repair(OK, name)["mended"], self.repair(OK, name)["intact"]), (1, True))
        self.assertEqual(json.loads(self.expect(OK, "get", name, "3", "--json").stdout)["value"], 33)

    def test_a_living_consumer_is_refused(self):
        name = self.name()
        owner = self.owner("queue", name, 4096)
        owner("put", "one")
        owner("put", "two")
        taker = self.start("tail", name, "--consume", "--keep")
        self.eventually(lambda: '"alive": [0]' in self.run_program("who", name, "--json").stdout or
                        0 in json.loads(self.run_program("who", name, "--json").stdout)["readers"]["alive"], "the consumer never came")
        owner.kill()
        self.assertIn("consumer", self.expect(REFUSED, "repair", name).stderr)
        taker.kill()
        taker.wait()
        self.repair(OK, name)

    def test_readers_keep_the_old_memory_and_find_the_new(self):
        name = self.name()
        ring = self.owner("ring", name, 4096)
        for n in range(20):
            ring("put", f"message {n}")
        reader = self.start("tail", name, "--keep")
        self.eventually(lambda: self.run_program("who", name).stdout.count("holdfast") > 0, "the reader never came")
        ring.kill()
        self.damage(name, HEADER, b"\x01")  # the horizon
        done = self.repair(OK, name)
        self.assertEqual((done["kept"], done["lost"]), (20, 0))
        ring = self.owner("ring", name, 4096)
        ring("put", "message after")
        seen = []
        while "message after" not in seen:
            line = reader.stdout.readline()
            self.assertNotEqual(line, "", "the reader ended")
            seen.append(line.rstrip("\n"))
        self.assertIn("message 19", seen)
        self.interrupt(reader)

    def test_queue_blocks_counters_and_latencies(self):
        queue, blocks, counters, latencies = (self.name(hint) for hint in ("q", "b", "c", "l"))
        owners = [self.owner("queue", queue, 4096), self.owner("blocks", blocks, 8192), self.owner("counters", counters, 16),
                  self.owner("latencies", latencies, 2)]
        for n in range(10):
            owners[0]("put", f"message {n}")
        handle = owners[1]("put", "a value")
        owners[2]("put", "hits_total", 5)
        owners[3]("put", 1000)
        for owner in owners:
            owner.kill()
        self.damage(queue, HEADER, b"\x80")            # the producer's position
        self.damage(blocks, HEADER, b"\x02")           # which record is in force
        self.damage(counters, HEADER + 64 + 8)         # the name of the one counter
        self.damage(latencies, HEADER, b"\x08")        # an owner that is none
        self.assertEqual(self.repair(OK, queue)["kept"], 10)
        self.assertEqual(self.repair(OK, blocks)["kept"], 1)
        self.repair(NEGATIVE, counters)
        self.assertEqual(self.repair(OK, latencies)["kept"], 1)
        for name in (queue, blocks, counters, latencies):
            self.expect(OK, "verify", name)
        self.assertEqual(self.owner("blocks", blocks, 8192)("get", handle), "a value")
        self.assertEqual(self.lines("tail", queue, "--consume", "--now")[-1], "message 9")

    def test_what_a_file_that_was_cut_short_lacks_is_lost(self):
        name = self.name("q")
        owner = self.owner("typed", name, 1024)
        owner("many", 1000)
        owner.kill()
        ring = HEADER + 4096
        os.truncate(self.path(name), ring + 500 * 8)
        done = self.repair(NEGATIVE, name)
        self.assertEqual((done["kept"], done["lost"]), (500, 500))
        self.expect(OK, "verify", name)

    def test_a_block_store_of_many_writers_is_saved_and_repaired_as_one(self):
        name, copy, saved = self.name("b"), self.name("copy"), str(self.folder / "saved")
        first, second = (self.owner("shared_blocks", name, 8192) for _ in range(2))
        handles = {first("put", "one"): "one", second("put", "two"): "two", first("put", "three"): "three"}
        gone = second("put", "four")
        self.assertEqual(first("free", gone), "ok")
        self.assertEqual(second("claim", 500), "ok")
        second.kill()
        self.expect(OK, "verify", name)
        self.assertEqual(self.objects("save", name, saved)[0]["items"], 3)
        self.expect(REFUSED, "repair", name)
        first.kill()
        journals = HEADER + 8192
        self.damage(name, journals + 64 + 16)           # a count of the first writer's
        self.damage(name, journals + 256 + 8, b"\x01")  # the second one's claim
        self.expect(NEGATIVE, "verify", name)
        self.assertIn("damaged", self.expect(UNUSABLE, "save", name, str(self.folder / "none")).stderr)
        self.assertEqual(self.repair(OK, name)["kept"], 3)
        self.assertEqual(self.objects("restore", saved, copy)[0]["items"], 3)
        for each in (name, copy):
            self.expect(OK, "verify", each)
            owners = [self.owner("shared_blocks", each, 8192) for _ in range(2)]
            for handle, text in handles.items():
                self.assertEqual(owners[1]("get", handle), text)
            fresh = {owner("put", "new") for owner in owners for _ in range(3)}
            self.assertFalse(fresh & {*handles, gone})
            self.assertEqual(owners[0]("get", gone), "stale")

    def size_of(self, uri):
        return json.loads(self.expect(OK, "stat", uri, "--json").stdout)["bytes"]

    def damage_system_v(self, key):
        """Bytes of System V memory are reached through a mapping only; here lies the text of an entry."""
        code = ("import ctypes,sys; libc=ctypes.CDLL(None,use_errno=True); libc.shmat.restype=ctypes.c_void_p;"
                f"at=libc.shmat(libc.shmget({key},0,0),None,0);"
                f"text=ctypes.string_at(at,{self.size_of(f'sysv:{key}')}).index(b'word 500\\0');"
                "ctypes.c_uint8.from_address(at+text).value ^= 0x40")
        subprocess.run([sys.executable, "-c", code], check=True)
        self.expect(NEGATIVE, "verify", f"sysv:{key}")

    def test_system_v_memory_is_repaired_to_another_name(self):
        key = random.SystemRandom().randrange(1, 2**31 - 1)
        uri, saved = f"sysv:{key}", str(self.folder / "saved")
        try:
            self.expect(OK, "save", "-q", self.table(), saved)
            self.expect(OK, "restore", "-q", saved, uri)
            self.assertTrue(self.repair(OK, uri)["intact"])
            done = self.run_program("put", uri, "7", "changed")
            self.assertEqual(done.returncode, OK)
            self.damage_system_v(key)
            self.assertIn("--to", self.expect(FAILED, "repair", uri).stderr)
            to = self.name("to")
            self.assertEqual(self.repair(OK, uri, "--to", to)["kept"], 1000)
            self.expect(OK, "verify", to)
            self.expect(REFUSED, "repair", uri, "--to", to)
        finally:
            self.run_program("rm", uri)

    def test_another_users_system_v_memory_stays_theirs(self):
        if os.geteuid() != 0:
            self.skipTest("needs: root, to become another user")
        key = random.SystemRandom().randrange(1, 2**31 - 1)
        uri, saved, to = f"sysv:{key}", self.folder / "saved", self.name("to")
        lease = pathlib.Path(f"/dev/shm/holdfast.sysv.{key}.lease")
        self.expect(OK, "save", "-q", self.table(), str(saved))
        try:
            with open(saved, "rb") as file:
                subprocess.run([PROGRAM, "restore", "-q", "-", uri], stdin=file, check=True, preexec_fn=become_nobody)
            self.assertEqual(lease.stat().st_uid, NOBODY)
            self.damage_system_v(key)
            lease.unlink()
            self.assertEqual(self.repair(OK, uri, "--to", to, "--any-owner")["kept"], 1000)
            for made in (self.path(to), self.path(to + ".lease"), lease):
                status = made.stat()
                self.assertEqual((status.st_uid, status.st_gid, status.st_mode & 0o777), (NOBODY, NOBODY, 0o600), made)
            done = subprocess.run([PROGRAM, "put", to, "7", "changed"], capture_output=True, text=True, preexec_fn=become_nobody)
            self.assertEqual(done.returncode, OK, done.stderr)
        finally:
            self.run_program("rm", uri, "--any-owner")

    def test_what_a_killed_repair_left_is_settled(self):
        name = self.table()
        sound = self.path(name).read_bytes()
        self.damage(name, HEADER + 200, b"\x10" * 300)
        damaged = self.path(name).read_bytes()
        # Killed in front of the exchange: the sound one goes, and is made anew.
        self.path(name + ".repairing").write_bytes(sound)
        self.run_program("repair", name)
        self.assertFalse(self.path(name + ".repairing").exists())
        self.assertEqual(self.path(name + ".damaged").read_bytes(), damaged)
        # Killed behind it: the damaged one gets its name, though there is nothing to repair.
        os.rename(self.path(name + ".damaged"), self.path(name + ".repairing"))
        done = self.repair(OK, name)
        self.assertEqual((done["intact"], done["damaged"]), (True, f"posix:/{name}.damaged"))
        self.assertEqual(self.path(name + ".damaged").read_bytes(), damaged)

    def test_usage_and_what_is_not_there(self):
        self.expect(ABSENT, "repair", self.name("none"))
        self.expect(USAGE, "repair")
        self.expect(USAGE, "repair", self.table(), "--to", "heap:")
        stranger = self.folder / "text"
        stranger.write_text("no segment" * 1000)
        self.expect(UNUSABLE, "repair", f"file:{stranger}")
        self.assertFalse((self.folder / "text.lease").exists())

    def test_another_user_is_refused(self):
        if os.geteuid() != 0:
            self.skipTest("needs: root, to become another user")
        name = self.table()
        self.damage(name, self.place_of(name, "word 500"))
        damaged = self.path(name).read_bytes()

        done = subprocess.run([PROGRAM, "repair", name], capture_output=True, text=True, preexec_fn=become_nobody)
        self.assertEqual(done.returncode, REFUSED, done.stderr)
        os.chmod(self.path(name), 0o666)
        done = subprocess.run([PROGRAM, "repair", name], capture_output=True, text=True, preexec_fn=become_nobody)
        self.assertEqual(done.returncode, REFUSED, done.stderr)
        self.assertEqual(self.path(name).read_bytes(), damaged)
        # Root repairs it with the owner and mode that it has.
        os.chown(self.path(name), NOBODY, NOBODY)
        self.repair(OK, name, "--any-owner")
        status = self.path(name).stat()
        self.assertEqual((status.st_uid, status.st_gid, status.st_mode & 0o777), (NOBODY, NOBODY, 0o666))


if __name__ == "__main__":
    main()
