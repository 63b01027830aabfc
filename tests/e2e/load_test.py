# SPDX-License-Identifier: Apache-2.0
"""Tables and indexes loaded from files of every form and dumped again: what is refused, what is lost (nothing), what comes back."""
import json
import os
import pathlib
import resource
import signal
import subprocess
import tempfile

from cli_support import ABSENT, BAD_INPUT, GEO, GEO_SCHEMA, NEGATIVE, NO_ROOM, OK, REFUSED, TABLE, TABLE_SCHEMA, UNUSABLE, USAGE, WithTables, main


class Loading(WithTables):
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

    def test_a_table_of_many_writers(self):
        name = self.name("many")
        self.assertIn("--writer-slots", self.expect(USAGE, "load", name, self.file(TABLE), "--schema", TABLE_SCHEMA, "--writer-slots", "1025").stderr)
        self.expect(USAGE, "load", name, self.file(GEO), "--schema", GEO_SCHEMA, "--writer-slots", "2")
        self.expect(OK, "load", name, self.file(TABLE), "--schema", TABLE_SCHEMA, "--writer-slots", "2", "--capacity", "8")
        shape = self.json("stat", name)
        self.assertEqual((shape["writers"], shape["writer_slots"], shape["size"]), ("many", 2, 3))
        self.assertIn("2 at once", self.expect(OK, "stat", name).stdout)
        self.expect(USAGE, "load", name, self.file(TABLE), "--merge", "--writer-slots", "2")
        more = self.file("id,name,score,seen\n3,three,3,2026-01-01T00:00:00Z\n4,four,4,2026-01-01T00:00:00Z\n", "more.csv")
        with self.living_writer(name, slot=0):
            who = self.json("who", name)
            self.assertEqual((who["lease"]["state"], who["writers"]["slots"], [w["slot"] for w in who["writers"]["alive"]]), ("held", 2, [0]))
            self.assertRegex(self.expect(OK, "who", name).stdout, r"writers +1 of 2 slots: process \d+")
            self.assertEqual(self.json("put", name, "7", "new,1,2026-01-01T00:00:00Z"), {"uri": "posix:/" + name, "result": "inserted", "size": 4})
            self.assertEqual(self.json("put", name, "7", "score=9", "--change")["result"], "updated")
            self.assertEqual(json.loads(self.expect(OK, "get", name, "7").stdout)["score"], 9)
            self.expect(USAGE, "put", name, "7", "score=none", "--change")
            self.expect(NEGATIVE, "put", name, "99", "score=9", "--change")
            self.expect(NEGATIVE, "put", name, "7", "new,1,2026-01-01T00:00:00Z", "--new")
            self.assertEqual(self.json("del", name, "7")["size"], 3)
            self.expect(NEGATIVE, "del", name, "7")
            self.assertEqual(self.json("load", name, more, "--merge")["records"], 2)
            self.assertEqual(self.json("stat", name)["size"], 4)
            saved = str(self.folder / "saved")
            self.assertEqual(self.json("save", name, saved)["items"], 4)
            self.expect(REFUSED, "repair", name)
            with self.living_writer(name, slot=1):
                self.assertIn("2 writer slots", self.expect(REFUSED, "put", name, "7", "new,1,2026-01-01T00:00:00Z").stderr)
        self.assertEqual(self.json("who", name)["writers"], {"slots": 2, "alive": []})
        with self.living_writer(name, slot=1):
            self.assertEqual(self.json("grow", name, "--capacity", "100")["capacity"], 100)
        self.assertEqual(self.json("stat", name)["writer_slots"], 2)
        self.assertEqual(sorted(p.name for p in pathlib.Path("/dev/shm").glob(name + "*")), [name, name + ".lease"])
        self.assertEqual(self.json("restore", saved, self.name("copy"), "--capacity", "100")["items"], 4)
        shape = self.json("stat", self.name("copy"))
        self.assertEqual((shape["writer_slots"], shape["size"], shape["capacity"]), (2, 4, 100))
        many = self.file("".join(f"{i},a,1,2026-01-01T00:00:00Z\n" for i in range(100, 1000)), "many.csv")
        self.assertIn("restore --capacity", self.expect(NO_ROOM, "load", name, many, "--merge").stderr)
        self.expect(OK, "verify", name, self.name("copy"))
        self.expect(OK, "rm", name)

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


class RoundTrip(WithTables):
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


if __name__ == "__main__":
    main()
