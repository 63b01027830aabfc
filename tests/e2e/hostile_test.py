# SPDX-License-Identifier: Apache-2.0
"""Damaged segments under every command that reads them: a known exit code, in time, without a signal."""
import json
import os
import pathlib
import random
import sys
import uuid

from cli_support import NEGATIVE, OK, WithTables, main


class Hostile(WithTables):
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


if __name__ == "__main__":
    main()
