# SPDX-License-Identifier: Apache-2.0
"""Tables whose living owner has an inbox: `put` and `del` reach it."""
import signal
import time

from cli_support import NEGATIVE, NO_ROOM, OK, REFUSED, TABLE, TABLE_SCHEMA, UNUSABLE, USAGE, WithTables, main

FAILED = 8


class PutAndDel(WithTables):
    def inbox(self):
        name = self.load_table()
        owner = self.owner("inbox", name, 0)
        return name, owner

    def result(self, *arguments, code=OK):
        return self.json(*arguments, code=code)["result"]

    def listed(self, name):
        """Of a table and its inbox; segments of other tests come and go meanwhile."""
        return [item for item in self.json("ls") if name in item["uri"]]

    def test_the_owner_makes_the_change(self):
        name, owner = self.inbox()
        owner.begin("run")
        self.assertEqual(self.result("put", name, "7", "name=eve,score=2,seen=1970-01-01T00:00:00Z"), "inserted")
        self.assertEqual(self.json("get", name, "7")["name"], "eve")
        self.assertEqual(self.result("put", name, "7", "name=mal,score=2,seen=1970-01-01T00:00:00Z"), "updated")
        self.assertEqual(self.result("put", name, "7", "x,1,1970-01-01T00:00:00Z", "--new", code=NEGATIVE), "exists")
        self.assertEqual(self.result("put", name, "7", "score=9", "--change"), "updated")
        self.assertEqual([self.json("get", name, "7")[field] for field in ("name", "score")], ["mal", 9])
        self.assertEqual(self.result("put", name, "8", "score=9", "--change", code=NEGATIVE), "not_found")
        self.assertEqual(self.result("del", name, "7"), "erased")
        self.assertEqual(self.result("del", name, "7", code=NEGATIVE), "not_found")
        self.assertIn("is not there", self.expect(NEGATIVE, "del", name, "7").stderr)
        self.assertIn("none of this table's", self.expect(USAGE, "put", name, "7", "score=x").stderr)
        self.assertIn("none of this table's", self.expect(USAGE, "del", name, "seven").stderr)
        self.assertEqual(self.json("put", name, "9", "ann,1,1970-01-01T00:00:00Z"), {"uri": f"posix:/{name}", "result": "inserted", "size": 4})

    def test_a_full_table_says_so(self):
        name = self.name("small")
        self.expect(OK, "load", name, self.file(TABLE), "--schema", TABLE_SCHEMA, "--capacity", 8)
        self.owner("inbox", name, 0).begin("run")
        codes = [self.run_program("put", name, key, "x,1,1970-01-01T00:00:00Z").returncode for key in range(10, 100)]
        self.assertEqual(set(codes), {OK, NO_ROOM})

    def test_changes_beside_each_other_lose_nothing(self):
        name, owner = self.inbox()
        writers = [self.start("put", name, "1", change, "--change") for change in ("name=zoe", "score=77")]
        self.eventually(lambda: self.json("stat", name + ".inbox")["size"] == 2, "not both are enqueued")
        self.assertEqual(owner("apply", 3), "2", "the later one was of a value that is no more, and is made anew")
        for writer in writers:
            self.ends(writer, OK)
        self.assertEqual([self.json("get", name, "1")[field] for field in ("name", "score")], ["zoe", 77])

    def test_damage_that_hides_an_entry_is_no_miss(self):
        name, _ = self.inbox()
        with open(f"/dev/shm/{name}", "r+b") as file:
            for bucket in range(4):  # behind the header, the journal and the digests; each begins with its version
                file.seek(at := 4096 + 128 + 64 + 64 * bucket)
                version = int.from_bytes(file.read(4), "little")
                file.seek(at)
                file.write((version | 1).to_bytes(4, "little"))  # odd, and nobody is amid a change
        told = self.expect(UNUSABLE, "put", name, "1", "score=9", "--change").stderr
        self.assertIn("holdfast verify", told)

    def test_an_owner_that_does_not_look_is_given_up_and_does_it_no_more(self):
        name, owner = self.inbox()
        begin = time.monotonic()
        told = self.expect(FAILED, "del", name, "1").stderr
        self.assertGreater(time.monotonic() - begin, 4)
        self.assertIn(f"process {owner.process.pid}", told)
        self.assertIn("made or not", told)
        self.assertEqual(owner("apply", 1), "0")
        self.assertEqual(self.json("get", name, "1")["name"], "ada")

    def test_an_owner_that_is_killed_is_noticed_at_once(self):
        name, owner = self.inbox()
        owner.process.send_signal(signal.SIGSTOP)
        asked = self.start("del", name, "1")
        inbox = self.name("table") + ".inbox"
        self.eventually(lambda: self.json("stat", inbox)["size"] == 1, "nothing is enqueued")
        begin = time.monotonic()
        owner.kill()
        self.assertIn("ended before it answered", self.ends(asked, FAILED)[1])
        self.assertLess(time.monotonic() - begin, 4)
        # Nobody owns it: the lease is free, and what waited is applied by nobody.
        self.assertEqual(self.result("put", name, "1", "score=4", "--change"), "updated")
        owner = self.owner("inbox", name, 0)
        owner.begin("run")
        self.assertEqual(self.result("del", name, "1"), "erased")

    def test_an_owner_without_an_inbox_refuses(self):
        name = self.load_table()
        owner = self.owner("any", name, 0)
        self.assertIn("lease", self.expect(REFUSED, "del", name, "1").stderr)
        self.assertEqual(self.json("get", name, "1")["name"], "ada")
        owner.kill()
        inbox = self.owner("inbox", name, 0)
        inbox.process.stdin.close()  # ends in order: the inbox is closed
        inbox.process.wait(timeout=60)
        self.assertEqual([item["uri"] for item in self.listed(name)], [f"posix:/{name}"])
        self.assertEqual(self.result("del", name, "1"), "erased")

    def test_the_segments_of_an_inbox_are_shown_as_what_they_are(self):
        name, owner = self.inbox()
        owner.begin("run")
        self.result("del", name, "1")
        kinds = {item["uri"]: item["kind"] for item in self.listed(name)}
        self.assertEqual((kinds[f"posix:/{name}.inbox"], kinds[f"posix:/{name}.answers"]), ("queue", "broadcast"))
        self.expect(OK, "stat", name + ".inbox")
        self.expect(OK, "stat", name + ".answers")
        self.expect(OK, "verify", name + ".inbox")
        self.expect(OK, "verify", name + ".answers")
        (answer,) = self.objects("tail", name + ".answers", "--now")
        self.assertEqual((answer["record"]["verdict"], answer["record"]["change"]), (1, 3))


if __name__ == "__main__":
    main()
