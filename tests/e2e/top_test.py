# SPDX-License-Identifier: Apache-2.0
"""`holdfast top` from outside: rates, lags, owners alive and dead, and that it disturbs nobody."""
import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios

from cli_support import OK, PROGRAM, USAGE, CommandLine, main

KEYS = ["allocated_bytes", "bytes", "capacity", "kind", "lease", "memory", "operations", "per_second", "problem", "readers", "room_bytes",
        "size", "uri", "used_bytes"]


class Top(CommandLine):
    def mine(self, look):
        """Of a look, the segments of this test, by hint."""
        prefix = "posix:/" + self.token + "-"
        return {one["uri"][len(prefix):]: one for one in look["segments"] if one["uri"].startswith(prefix)}

    def looks(self, *words):
        return [json.loads(line) for line in self.lines("top", "--json", *words)]

    def next_look(self, process):
        return self.mine(json.loads(process.stdout.readline()))

    def test_every_kind_has_a_line(self):
        owners = [self.owner(kind, self.name(kind), size) for kind, size in
                  (("ring", 65536), ("queue", 65536), ("typed", 64), ("blocks", 65536), ("latencies", 3), ("counters", 8), ("array", 10), ("map", 10), ("raw", 64))]
        seen = self.looks("--once", "--interval", "0.05")
        self.assertEqual(len(seen), 1)
        self.assertEqual(sorted(seen[0]), ["interval_s", "segments", "time"])
        self.assertGreaterEqual(seen[0]["interval_s"], 0.05)
        mine = self.mine(seen[0])
        self.assertEqual(sorted(mine), sorted(["ring", "queue", "typed", "blocks", "latencies", "counters", "array", "map", "raw"]))
        for hint, one in mine.items():
            self.assertEqual(sorted(one), KEYS, hint)
            self.assertEqual((one["memory"], one["problem"], one["lease"]["state"]), ("posix", None, "held"), hint)
            self.assertEqual(one["per_second"], None if hint == "raw" else 0, hint)
        text = self.lines("top", "--once", "--interval", "0.05")
        self.assertRegex(text[1], r"SEGMENT +KIND +MEMORY +BYTES +SIZE +FULL +OPS/S +LAG +WRITER")
        self.assertRegex("\n".join(text), self.name("ring") + rf" +broadcast +posix .* held by {owners[0].process.pid}\n")

    def test_of_many_writers_it_is_told_whether_one_lives(self):
        name = self.name("blocks")
        owners = [self.owner("shared_blocks", name, 8192) for _ in range(2)]

        def told():
            rows = [line for words in (("top", "--once", "--interval", "0.05"), ("ls",)) for line in self.lines(*words) if line.startswith(name)]
            return [row.rpartition("  ")[2] for row in rows]
        for left in (2, 1):
            self.assertEqual(told(), ["many, held"] * 2, f"{left} live")
            owners.pop().kill()
        self.assertEqual(told(), ["many, free"] * 2)

    def test_rates_are_those_of_the_writers(self):
        ring, queue = self.owner("ring", self.name("r"), 1 << 20), self.owner("queue", self.name("q"), 1 << 20)
        blocks, counters = self.owner("blocks", self.name("b"), 1 << 20), self.owner("counters", self.name("c"), 8)
        latencies, numbers = self.owner("latencies", self.name("l"), 3), self.owner("array", self.name("a"), 8)
        maps = self.owner("map", self.name("m"), 100), self.owner("shared_map", self.name("s"), 100)
        top = self.start("top", "--json", "--interval", "0.3")
        expected = {"r": 300, "q": 30, "b": 30, "c": 1000, "l": 30, "a": 30, "m": 30, "s": 30}

        def rates_seen(turn):
            """Operations as the rates of all looks tell them, from before some are done until all are counted."""
            before, seen = self.next_look(top), dict.fromkeys(expected, 0.0)
            ring("batch", 300, "x")
            for i in range(30):
                queue("put", f"m{turn}{i}")
                blocks("put", f"m{turn}{i}")
                latencies("put", i)
                numbers("put", i % 8, i)
                for each in maps:
                    each("put", f"k{i}", f"v{turn}")
            counters("put", "family", 1000)

            def all_seen():
                look = json.loads(top.stdout.readline())
                mine = self.mine(look)
                for hint in seen:
                    seen[hint] += mine[hint]["per_second"] * look["interval_s"]
                return all(mine[hint]["operations"] == before[hint]["operations"] + count for hint, count in expected.items())
            self.eventually(all_seen, "the operations were not counted")
            return seen

        # Rates are by each segment's own time between two looks: a program that is held up between two segments has several of these.
        for turn in range(5):
            seen = rates_seen(turn)
            if all(abs(seen[hint] - count) <= count * 0.3 for hint, count in expected.items()):
                break
        else:
            self.fail(f"in five turns the rates never told what was done: {seen} instead of {expected}")
        self.interrupt(top)

    def test_a_table_counts_what_put_does(self):
        name = self.name("t")
        path = self.folder / "t.csv"
        path.write_text("1,2\n")
        self.expect(OK, "load", name, path, "--schema", "k:u32:key,v:u32", "--capacity", "1000")
        top = self.start("top", "--json", "--interval", "0.1")
        before = self.next_look(top)["t"]
        for key in range(5):
            self.expect(OK, "put", name, key, 7)
        self.eventually(lambda: self.next_look(top)["t"]["operations"] == before["operations"] + 5, "not counted")
        after = self.next_look(top)["t"]
        self.assertEqual((after["size"], after["lease"]["state"]), (5, "free"))
        self.interrupt(top)

    def test_lags_of_readers(self):
        ring = self.owner("ring", self.name("r"), 65536, 4)
        queue = self.owner("queue", self.name("q"), 65536)
        self.assertEqual(ring("hold"), "1")
        self.assertEqual(ring("batch", 20, "x"), "20")
        for i in range(7):
            queue("put", "m")
        queue("take", 2)
        mine = self.mine(self.looks("--once", "--interval", "0.05")[0])
        (reader,) = mine["r"]["readers"]
        self.assertEqual((reader["alive"], reader["lag"], reader["lost"], reader["policy"]), (True, 20, 0, "block"))
        self.assertGreater(reader["bytes"], 20 * 8)
        self.assertEqual(mine["q"]["readers"], [{"slot": 0, "alive": True, "lag": 5}])
        queue("leave")
        self.assertEqual(self.mine(self.looks("--once", "--interval", "0.05")[0])["q"]["readers"], [{"slot": 0, "alive": False, "lag": 5}])

    def test_each_reader_has_a_line(self):
        ring = self.owner("ring", self.name("r"), 65536, 4)
        queue = self.owner("queue", self.name("q"), 65536)
        ring("hold")
        ring("batch", 20, "x")
        ring("hold")  # reads from the oldest on, too
        for _ in range(5):
            queue("put", "m")
        queue("take", 2)
        queue("leave")
        without = "\n".join(self.lines("top", "--once", "--interval", "0.05"))
        self.assertNotIn("HELD UP", without)
        lines = self.lines("top", "--once", "--interval", "0.05", "--readers")
        below = lines[next(i for i, line in enumerate(lines) if line.startswith("SEGMENT") and "HELD UP" in line):]
        self.assertRegex(below[0], r"SEGMENT +READER +LAG +KEEPS +LOST +HELD UP +POLICY +STATE")
        mine = [line for line in below if line.startswith(self.token + "-")]
        self.assertEqual(len(mine), 3)
        self.assertRegex(mine[0], self.name("q") + r" +0 +3 +- +- +- +- +dead")
        for slot in (0, 1):
            self.assertRegex(mine[1 + slot], self.name("r") + rf" +{slot} +20 +[0-9. ]+(B|KiB) +0 +0\.000 s +block +alive")
        ring.kill()
        self.eventually(lambda: not any(line.endswith("alive") for line in self.lines("top", "--once", "--interval", "0.05", "--readers")
                                        if line.startswith(self.token + "-r")), "the readers' death is not seen")

    def test_readers_share_a_small_terminal_with_the_segments(self):
        for i in range(6):
            ring = self.owner("ring", self.name(f"r{i}"), 65536, 4)
            for _ in range(2):
                ring("hold")
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 200, 0, 0))
        process = subprocess.Popen([PROGRAM, "top", "--readers", "-n", "1000", "--interval", "0.05"], stdout=follower, stdin=subprocess.DEVNULL,
                                   env={**self.environment, "TERM": "xterm", "NO_COLOR": "1"})
        self.processes.append(process)
        os.close(follower)
        text = b""
        while text.count(b"\x1b[?7h") < 2:
            text += os.read(leader, 65536)
        process.terminate()
        os.close(leader)
        screen = text.split(b"\x1b[?7l\x1b[2J\x1b[H")[1].split(b"\x1b[?7h")[0].split(b"\r\n")
        self.assertEqual(len(screen), 12, "the last line is the cursor's")
        self.assertEqual(len([line for line in screen if b" more" in line]), 2)
        self.assertIn(b"HELD UP", b"".join(screen))
        self.assertEqual(process.wait(timeout=10), OK)

    def test_owners_come_and_go_and_nothing_is_in_their_way(self):
        top = self.start("top", "--json", "--interval", "0.05")
        self.assertEqual(self.next_look(top), {})
        ring = self.owner("ring", self.name("r"), 65536)
        self.eventually(lambda: self.next_look(top).get("r", {}).get("lease", {}).get("running"), "the owner is not seen")
        ring.kill()
        self.eventually(lambda: self.next_look(top)["r"]["lease"]["state"] == "free", "its death is not seen")
        self.assertFalse(self.next_look(top)["r"]["lease"]["running"])
        for _ in range(5):  # the lease is never held by a look
            again = self.owner("ring", self.name("r"), 65536)
            self.assertEqual(again("put", "x"), "ok")
            again.kill()
            self.expect(OK, "rm", self.name("r"))
        self.eventually(lambda: "r" not in self.next_look(top), "a removed segment stays")
        self.interrupt(top)

    def test_damage_is_a_line_and_no_end(self):
        self.owner("ring", self.name("good"), 65536)
        for hint, change in (("cut", lambda p: os.truncate(p, 100)), ("bad", lambda p: p.write_bytes(p.read_bytes()[:64] + b"\xff" * 64 + p.read_bytes()[128:]))):
            self.owner("queue", self.name(hint), 65536).kill()
            change(pathlib.Path("/dev/shm") / self.name(hint))
        mine = self.mine(self.looks("--once", "--interval", "0.05")[0])
        self.assertIsNone(mine["good"]["problem"])
        for hint in ("cut", "bad"):
            self.assertIsNotNone(mine[hint]["problem"], hint)
            self.assertIsNone(mine[hint]["per_second"])

    def test_segments_that_are_cut_under_it(self):
        self.owner("ring", self.name("r"), 1 << 20)("batch", 100, "x")
        top = self.start("top", "--json", "--interval", "0.05")
        self.assertIn("r", self.next_look(top))
        os.truncate(pathlib.Path("/dev/shm") / self.name("r"), 4096)
        self.eventually(lambda: self.next_look(top)["r"]["problem"] is not None, "the cut is not seen")
        self.interrupt(top)

    def test_a_terminal_is_drawn_anew(self):
        self.owner("ring", self.name("r"), 65536)
        leader, follower = pty.openpty()
        process = subprocess.Popen([PROGRAM, "top", "-n", "2", "--interval", "0.05"], stdout=follower, stdin=subprocess.DEVNULL,
                                   env={**self.environment, "TERM": "xterm", "NO_COLOR": "1"})
        self.processes.append(process)
        os.close(follower)
        text = b""
        try:
            while part := os.read(leader, 65536):
                text += part
        except OSError:  # the other end is closed
            pass
        os.close(leader)
        self.assertEqual(process.wait(timeout=60), OK)
        self.assertEqual(len(re.findall(rb"\x1b\[2J\x1b\[H", text)), 3)
        self.assertIn(self.name("r").encode(), text)

    def test_a_small_terminal_shows_what_it_has_lines_for(self):
        for i in range(6):
            self.owner("ring", self.name(f"r{i}"), 65536)
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 20, 0, 0))
        process = subprocess.Popen([PROGRAM, "top", "-n", "1000", "--interval", "0.05"], stdout=follower, stdin=subprocess.DEVNULL,
                                   env={**self.environment, "TERM": "xterm", "NO_COLOR": "1"})
        self.processes.append(process)
        os.close(follower)
        text = b""
        while text.count(b"\x1b[?7h") < 2:
            text += os.read(leader, 65536)
        process.terminate()
        os.close(leader)
        screen = text.split(b"\x1b[?7l\x1b[2J\x1b[H")[1].split(b"\x1b[?7h")[0].split(b"\r\n")
        self.assertEqual(len(screen), 5, "the last line is the cursor's")
        self.assertIn(b"SEGMENT", screen[1])
        self.assertRegex(screen[3], rb"and \d+ more")
        self.assertEqual(process.wait(timeout=10), OK)

    def test_it_is_stopped_while_nobody_reads_its_output(self):
        self.owner("ring", self.name("r"), 65536)
        for words in ([], ["--json"]):
            top, _ = self.fill_pipe("top", "--interval", "0.05", *words)
            top.terminate()
            self.assertEqual((top.wait(timeout=10), top.stderr.read()), (OK, ""))

    def test_ends(self):
        top = self.start("top", "--interval", "0.05")
        top.stdout.readline()
        top.stdout.close()
        self.assertEqual(top.wait(timeout=60), OK)
        self.assertEqual(top.stderr.read(), "")
        self.assertEqual(len(self.looks("-n", "3", "--interval", "0.05")), 3)
        for words in (["--interval", "0"], ["--interval", "x"], ["--interval", "1e9"], ["--interval", "nan"], ["-n", "-1"], ["name"]):
            self.expect(USAGE, "top", *words)


if __name__ == "__main__":
    main()
