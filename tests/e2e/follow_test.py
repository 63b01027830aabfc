# SPDX-License-Identifier: Apache-2.0
"""`holdfast tail` from outside: rings followed, queues watched and consumed, ends of all sorts."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from cli_support import ABSENT, NEGATIVE, OK, PROGRAM, REFUSED, UNUSABLE, USAGE, CommandLine, main


class Rings(CommandLine):
    def test_the_last_ten_then_what_comes(self):
        ring = self.owner("ring", self.name(), 65536)
        ring("batch", 20, "m")
        tail = self.start("tail", self.name())
        for i in range(10, 20):
            self.assertEqual(tail.stdout.readline(), f"m{i}\n")
        ring("put", "fresh")
        self.assertEqual(tail.stdout.readline(), "fresh\n")
        out, err = self.interrupt(tail)
        self.assertEqual((out, err), ("", ""))
        self.assertIn("held", self.run_program("stat", self.name()).stdout)

    def test_every_start(self):
        ring = self.owner("ring", self.name(), 65536)
        ring("batch", 20, "m")
        for words, first, count in ((["--from", "oldest"], "m0", 20), (["--from", "19"], "m18", 2), (["--last", "3"], "m17", 3),
                                    (["--since", "1h"], "m0", 20), (["--since", "1971-01-01T00:00:00Z"], "m0", 20), (["--from", "7", "-n", "2"], "m6", 2)):
            seen = self.lines("tail", self.name(), "--now", *words)
            self.assertEqual((seen[0], len(seen)), (first, count), words)
        self.assertEqual(self.lines("tail", self.name(), "--now", "--from", "latest", code=NEGATIVE), [])
        self.assertEqual(self.lines("tail", self.name(), "--now", "--last", "0", code=NEGATIVE), [])
        self.assertEqual(self.lines("tail", self.name(), "--now", "--last", "2", "--numbers"), ["19\tm18", "20\tm19"])

    def test_a_number_that_is_still_to_come_is_waited_for(self):
        ring = self.owner("ring", self.name(), 65536)
        ring("batch", 3, "m")
        tail = self.start("tail", self.name(), "--from", "6", "-n", "1")
        ring("batch", 4, "n")
        self.assertEqual(self.ends(tail, OK)[0], "n2\n")

    def test_losses_are_told_exactly(self):
        ring = self.owner("ring", self.name(), 2048)
        ring("batch", 500, "message ")
        done = self.expect(OK, "tail", self.name(), "--now", "--from", "1")
        shown = done.stdout.splitlines()
        lost = int(done.stderr.split(": ")[2].split(" messages lost")[0].replace(" ", ""))
        self.assertEqual(lost + len(shown), 500)
        self.assertEqual(shown[-1], "message 499")
        events = self.objects("tail", self.name(), "--now", "--from", "1")
        self.assertEqual(events[0], {"event": "lost", "count": lost, "sequence": lost + 1})
        self.assertEqual(events[1], {"sequence": lost + 1, "type": 0, "bytes": 11, "text": f"message {lost}"})

    def test_a_stopped_reader_counts_what_passed(self):
        ring = self.owner("ring", self.name(), 4096)
        ring("put", "first")
        tail = self.start("tail", self.name(), "--json")
        self.assertEqual(json.loads(tail.stdout.readline())["text"], "first")
        tail.send_signal(signal.SIGSTOP)
        ring("batch", 2000, "x")
        tail.send_signal(signal.SIGCONT)
        ring("put", "last")
        expected, lost = 2, 0
        while True:
            shape = json.loads(tail.stdout.readline())
            if shape.get("event") == "lost":
                lost += shape["count"]
                expected += shape["count"]
                self.assertEqual(shape["sequence"], expected)
                continue
            self.assertEqual(shape["sequence"], expected)
            expected += 1
            if shape["text"] == "last":
                break
        self.assertEqual(expected, 2003)
        self.assertGreater(lost, 0)
        self.interrupt(tail)

    def test_records_are_shown_by_their_schema(self):
        ring = self.owner("trades", self.name(), 65536)
        for i, venue in enumerate(("XETR", "XNYS", "XETR")):
            ring("put", i, i + 0.5, venue)
        self.assertEqual(self.lines("tail", self.name(), "--now"), ["id\tprice\tvenue", "0\t0.5\tXETR", "1\t1.5\tXNYS", "2\t2.5\tXETR"])
        self.assertEqual(self.objects("tail", self.name(), "--now", "--filter", "venue=XNYS"),
                         [{"sequence": 2, "type": 0, "record": {"id": 1, "price": 1.5, "venue": "XNYS"}}])
        self.assertIn("id, price, venue", self.expect(USAGE, "tail", self.name(), "--filter", "nosuch=1").stderr)

    def test_bytes_are_text_or_hexadecimal(self):
        ring = self.owner("ring", self.name(), 65536)
        ring("put", "gr\u00fc\u00df")
        self.assertEqual(self.lines("tail", self.name(), "--now"), ["gr\u00fc\u00df"])
        self.assertEqual(self.lines("tail", self.name(), "--now", "--bytes", "hex"), ["6772c3bcc39f"])
        self.assertEqual(self.objects("tail", self.name(), "--now", "--bytes", "hex"), [{"sequence": 1, "type": 0, "bytes": 6, "hex": "6772c3bcc39f"}])
        ring("put", "\x1b]0;title\x07")
        self.assertEqual(self.lines("tail", self.name(), "--now", "--last", "1"), ["1b5d303b7469746c6507"])
        self.assertEqual(self.lines("tail", self.name(), "--now", "--filter", "gr\u00fc"), ["gr\u00fc\u00df"])
        self.assertEqual(self.lines("tail", self.name(), "--now", "--type", "1", code=NEGATIVE), [])

    def test_the_writer_is_killed(self):
        ring = self.owner("ring", self.name(), 65536)
        ring("batch", 3, "m")
        tail = self.start("tail", self.name())
        self.assertEqual(tail.stdout.readline(), "m0\n")
        ring("put", "its last")
        ring.kill()
        out, err = self.ends(tail, OK)
        self.assertEqual(out.splitlines()[-1], "its last")
        self.assertIn("its writer is gone", err)

    def test_keep_waits_for_the_next_writer_and_tells_the_restart(self):
        ring = self.owner("ring", self.name(), 65536)
        ring("put", "before")
        tail = self.start("tail", self.name(), "--keep", "--json")
        self.assertEqual(json.loads(tail.stdout.readline())["text"], "before")
        ring.kill()
        self.assertIn("waiting for the next", tail.stderr.readline())
        ring = self.owner("ring", self.name(), 65536)
        ring("put", "after")
        self.assertEqual(json.loads(tail.stdout.readline()), {"event": "restarted", "sequence": 2})
        self.assertEqual(json.loads(tail.stdout.readline())["text"], "after")
        ring.kill()
        self.expect(OK, "rm", self.name())
        ring = self.owner("ring", self.name(), 65536)
        ring("put", "another ring")
        self.assertEqual(json.loads(tail.stdout.readline()), {"sequence": 1, "type": 0, "bytes": 12, "text": "another ring"})
        self.interrupt(tail)

    def test_a_removed_segment_ends_it(self):
        self.owner("ring", self.name(), 65536)("put", "x")
        tail = self.start("tail", self.name())
        self.assertEqual(tail.stdout.readline(), "x\n")
        for path in pathlib.Path("/dev/shm").glob(self.name() + "*"):
            path.unlink()
        self.assertIn("removed", self.ends(tail, OK)[1])

    def test_the_reader_of_the_output_goes(self):
        ring = self.owner("ring", self.name(), 65536)
        ring("batch", 20, "m")
        for quiet in (True, False):
            tail = self.start("tail", self.name())
            self.assertEqual(tail.stdout.readline(), "m10\n")
            tail.stdout.close()
            if not quiet:
                ring("batch", 100, "more")
            self.assertEqual(tail.wait(timeout=60), OK)
            self.assertEqual(tail.stderr.read(), "")
            ring("batch", 20, "m")

    def test_it_is_stopped_while_nobody_reads_its_output(self):
        ring = self.owner("ring", self.name(), 1 << 20)
        ring("batch", 10000, "message ")
        for sign in (signal.SIGTERM, signal.SIGINT):
            for words in ([], ["--json"], ["-n", "9000"]):
                tail, _ = self.fill_pipe("tail", self.name(), "--from", "oldest", *words)
                tail.send_signal(sign)
                self.assertEqual((tail.wait(timeout=10), tail.stderr.read()), (OK, ""), (sign, words))

    def test_now_ends_beside_a_writer_that_never_rests(self):
        ring = self.owner("ring", self.name(), 1 << 16)
        ring("batch", 10, "m")
        ring.begin("flood", "on")
        for words in ([], ["--from", "oldest"], ["--from", "1"], ["--since", "1h"], ["--from", "latest"], ["--from", str(10**15)], ["--type", "7"]):
            for style in ([], ["--json"]):
                begin = time.monotonic()
                done = self.run_program("tail", self.name(), "--now", *words, *style)
                self.assertIn(done.returncode, (OK, NEGATIVE), done.stderr)
                self.assertLess(time.monotonic() - begin, 20)
                self.assertLess(len(done.stdout.splitlines()), 1 << 16, "a ring of that size holds no more")

    def test_what_is_lost_below_the_number_asked_for_is_no_loss(self):
        ring = self.owner("ring", self.name(), 4096)
        ring("batch", 50, "m")
        tail = self.start("tail", self.name(), "--json", "--from", "100")
        self.eventually(lambda: self.sleeps(tail), "it does not wait")
        tail.send_signal(signal.SIGSTOP)
        ring("batch", 2000, "n")
        tail.send_signal(signal.SIGCONT)
        first = json.loads(tail.stdout.readline())
        self.assertEqual(first["event"], "lost")
        self.assertEqual(first["count"], first["sequence"] - 100)
        self.assertEqual(json.loads(tail.stdout.readline())["sequence"], first["sequence"])
        self.interrupt(tail)

    def test_another_user_notices_the_end_of_the_writer(self):
        if os.geteuid() != 0:
            self.skipTest("needs: the right to become another user")
        ring = self.owner("ring", self.name(), 65536)
        ring("put", "x")
        path = pathlib.Path("/dev/shm") / self.name()
        path.chmod(0o644)
        as_nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        tail = self.start("tail", self.name(), **as_nobody)
        self.assertEqual(tail.stdout.readline(), "x\n")
        ring("put", "y")
        self.assertEqual(tail.stdout.readline(), "y\n")
        ring.kill()
        self.assertEqual(tail.wait(timeout=60), OK)
        self.assertIn("its writer is gone", tail.stderr.read())

    def test_without_a_lease_the_end_of_the_writer_is_not_noticed(self):
        ring = self.owner("ring", self.name(), 65536)
        ring("put", "x")
        (pathlib.Path("/dev/shm") / (self.name() + ".lease")).unlink()
        tail = self.start("tail", self.name())
        self.assertEqual(tail.stdout.readline(), "x\n")
        self.assertIn("whether its writer lives cannot be told", tail.stderr.readline())
        ring("put", "y")
        self.assertEqual(tail.stdout.readline(), "y\n")
        self.interrupt(tail)

    def test_a_full_disk_is_an_error(self):
        self.owner("ring", self.name(), 65536)("put", "x")
        with open("/dev/full", "w") as full:
            tail = self.start("tail", self.name(), "--now", stdout=full)
            self.assertEqual(tail.wait(timeout=60), 8)
            self.assertIn("standard output", tail.stderr.read())

    def test_damage_is_met_with_code_4(self):
        ring = self.owner("ring", self.name(), 4096)
        ring("batch", 5, "m")
        path = pathlib.Path("/dev/shm") / self.name()
        with open(path, "r+b") as file:
            data = file.read()
            at = data.index(b"m2") - 8  # the message's word
            file.seek(at)
            file.write(b"\xff" * 8)
        self.assertIn("holdfast verify", self.expect(UNUSABLE, "tail", self.name(), "--from", "oldest").stderr)
        os.truncate(path, 4096)
        self.expect(UNUSABLE, "tail", self.name())


class Queues(CommandLine):
    def test_a_watch_changes_nothing(self):
        queue = self.owner("queue", self.name(), 65536)
        for i in range(5):
            queue("put", f"m{i}")
        before = {path.name: path.read_bytes() for path in pathlib.Path("/dev/shm").glob(self.name() + "*")}
        self.assertEqual(self.lines("tail", self.name(), "--now"), [f"m{i}" for i in range(5)])
        after = {path.name: path.read_bytes() for path in pathlib.Path("/dev/shm").glob(self.name() + "*")}
        self.assertEqual(before, after)
        tail = self.start("tail", self.name(), "--json")
        for i in range(5):
            self.assertEqual(json.loads(tail.stdout.readline()), {"sequence": i + 1, "type": 0, "bytes": 2, "text": f"m{i}"})
        self.assertEqual(queue("take", 5), "5")  # the watch is not in the way
        queue("put", "m5")
        self.assertEqual(json.loads(tail.stdout.readline())["text"], "m5")
        tail.send_signal(signal.SIGSTOP)
        for i in range(6, 9):
            queue("put", f"m{i}")
        self.assertEqual(queue("take", 4), "4")
        queue("put", "m9")
        tail.send_signal(signal.SIGCONT)
        self.assertEqual(json.loads(tail.stdout.readline()), {"event": "lost", "count": 3, "sequence": 10})
        self.assertEqual(json.loads(tail.stdout.readline())["text"], "m9")
        queue.kill()
        self.assertIn("its writer is gone", self.ends(tail, OK)[1])

    def test_consuming_takes_what_was_written_out_and_no_more(self):
        queue = self.owner("queue", self.name(), 65536)
        for i in range(6):
            queue("put", f"m{i}")
        self.assertEqual(self.lines("tail", self.name(), "--consume", "-n", "2"), ["m0", "m1"])
        self.assertEqual(self.lines("tail", self.name(), "--now"), [f"m{i}" for i in range(2, 6)])
        with open("/dev/full", "w") as full:
            tail = self.start("tail", self.name(), "--consume", "--now", stdout=full)
            self.assertEqual(tail.wait(timeout=60), 8)
        self.assertEqual(self.lines("tail", self.name(), "--consume", "--now"), [f"m{i}" for i in range(2, 6)])
        self.assertEqual(self.lines("tail", self.name(), "--consume", "--now", code=NEGATIVE), [])
        self.assertEqual(self.expect(OK, "verify", self.name()).returncode, OK)

    def test_a_consumer_that_is_stopped_in_a_write_loses_nothing(self):
        count = 10_000
        self.assertEqual(self.owner("typed", self.name(), count)("many", count), str(count))
        tail, reader = self.fill_pipe("tail", self.name(), "--consume")
        tail.send_signal(signal.SIGTERM)
        self.assertEqual(tail.wait(timeout=10), OK)
        with os.fdopen(os.dup(reader)) as pipe:
            taken = [int(line) for line in pipe.read().split("\n")[1:-1]]
        left = [int(line) for line in self.lines("tail", self.name(), "--consume", "--now")[1:]]
        self.assertEqual(taken, list(range(len(taken))))
        self.assertEqual(left, list(range(left[0], count)))
        self.assertIn(left[0], (len(taken) - 1, len(taken)), "one may come once more, none is left out")

    def test_now_ends_beside_a_producer_that_never_rests(self):
        queue = self.owner("queue", self.name(), 1 << 16)
        queue.begin("flood", "on")
        for words in ([], ["--from", "latest"], ["--consume"]):
            done = self.run_program("tail", self.name(), "--now", *words)
            self.assertIn(done.returncode, (OK, NEGATIVE), done.stderr)
            self.assertLess(len(done.stdout.splitlines()), 1 << 13, "a queue of that size holds no more")

    def test_what_was_taken_below_the_number_asked_for_is_no_loss(self):
        queue = self.owner("queue", self.name(), 65536)
        for i in range(8):
            queue("put", f"m{i}")
        self.assertEqual(queue("take", 4), "4")
        self.assertEqual(self.objects("tail", self.name(), "--now", "--from", "2")[0], {"event": "lost", "count": 3, "sequence": 5})
        self.assertEqual([one["sequence"] for one in self.objects("tail", self.name(), "--now", "--from", "7")], [7, 8])
        tail = self.start("tail", self.name(), "--json", "--from", "10")
        self.eventually(lambda: self.sleeps(tail), "it does not wait")
        tail.send_signal(signal.SIGSTOP)
        for i in range(8, 12):
            queue("put", f"m{i}")
        self.assertEqual(queue("take", 7), "7")  # up to number 11
        tail.send_signal(signal.SIGCONT)
        self.assertEqual(json.loads(tail.stdout.readline()), {"event": "lost", "count": 2, "sequence": 12})
        self.assertEqual(json.loads(tail.stdout.readline())["sequence"], 12)
        self.interrupt(tail)

    def test_a_killed_consumer_loses_nothing(self):
        count = 100_000  # more than three pipes hold, so that each kill meets it at work
        self.assertEqual(self.owner("typed", self.name(), count)("many", count), str(count))
        parts = []
        for _ in range(3):
            tail = self.start("tail", self.name(), "--consume")
            self.assertEqual(tail.stdout.readline(), "value\n")
            part = [int(tail.stdout.readline()) for _ in range(200)]
            tail.kill()
            parts.append(part + [int(line) for line in tail.stdout.read().split("\n")[:-1]])
        parts.append([int(line) for line in self.lines("tail", self.name(), "--consume", "--now")[1:]])
        self.assertEqual((parts[0][0], parts[-1][-1]), (0, count - 1))
        for part in parts:
            self.assertEqual(part, list(range(part[0], part[-1] + 1)))
        for part, following in zip(parts, parts[1:]):
            self.assertIn(following[0], (part[-1], part[-1] + 1), "one may come once more, none is left out")

    def test_one_consumer_at_a_time(self):
        queue = self.owner("queue", self.name(), 65536)
        queue("put", "x")
        self.assertEqual(queue("take", 1), "1")  # holds the consumer's place from now on
        self.assertIn("another living consumer", self.expect(REFUSED, "tail", self.name(), "--consume").stderr)
        queue("leave")
        queue("put", "y")
        self.assertEqual(self.lines("tail", self.name(), "--consume", "-n", "1"), ["y"])

    def test_what_cannot_be_asked(self):
        self.owner("queue", self.name(), 65536)
        self.owner("ring", self.name("r"), 65536)
        self.owner("counters", self.name("c"), 16)
        for words in (["--consume", "--filter", "x"], ["--consume", "--type", "1"], ["--consume", "--from", "oldest"], ["--since", "5m"],
                      ["--from", "0"], ["--from", "nonsense"], ["--since", "yesterday"], ["--since", "5"], ["--from", "oldest", "--since", "5m"],
                      ["--type", "65536"], ["--bytes", "binary"], ["-n", "-1"]):
            self.expect(USAGE, "tail", self.name(), *words)
        self.expect(USAGE, "tail", self.name("r"), "--consume")
        self.assertIn("counter_set", self.expect(UNUSABLE, "tail", self.name("c")).stderr)
        self.expect(ABSENT, "tail", self.name("none"))

    def test_a_queue_whose_consumer_side_may_not_be_seen(self):
        if os.getuid() != 0:
            self.skipTest("another user takes root")
        self.owner("queue", self.name(), 65536)("put", "x")
        os.chmod(f"/dev/shm/{self.name()}", 0o644)
        os.chmod(self.folder, 0o755)
        program = shutil.copy(PROGRAM, self.folder / "holdfast")  # where the other user may run it
        os.chmod(program, 0o755)
        done = subprocess.run([program, "tail", self.name(), "--now"], capture_output=True, text=True,
                              env=self.environment, user=65534, group=65534, extra_groups=[])
        self.assertEqual(done.returncode, REFUSED, done.stderr)
        self.assertIn("holdfast: ", done.stderr)


if __name__ == "__main__":
    main()
