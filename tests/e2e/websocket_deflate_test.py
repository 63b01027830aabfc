# SPDX-License-Identifier: Apache-2.0
"""Deflated messages of WebSocket: the matrix of the Autobahn suite's cases 12 and 13, by a client of our own. Each of the 216 sends messages of one
size, whole or in fragments, of one kind of data, by one set of parameters, and each has to come back as it was sent, deflated where that is shorter.

The suite sends a thousand of each, as HOLDFAST_TEST_SCALE=100 does here. The data are of its kinds, but made, since its files come with it alone."""
import collections
import contextlib
import itertools
import json
import math
import os
import random
import socket
import struct
import unittest
import zlib

from serve_support import main
from websocket_test import Echo

SCALE = float(os.environ.get("HOLDFAST_TEST_SCALE", "1"))
SEED = int(os.environ.get("HOLDFAST_TEST_SEED", "7"))
PORTION = 50          # messages made at a time
BATCH_BYTES = 1 << 15  # sent before an answer is read: what two sockets hold, so that neither side waits for the other
LEAST_BYTES = 64      # websocket_options::deflate_bytes_min
SURE_BYTES = 256      # what is compressible gets shorter, from here on
TAIL = b"\0\0\xff\xff"  # RFC 7692 section 7.2.1
KEY = b"\x37\xfa\x21\x3d"
FINAL, DEFLATED, TEXT, BINARY, CLOSE = 0x80, 0x40, 1, 2, 8

# (bytes, or characters of text; at most so many bytes of what is deflated in a frame): the columns of both families
SIZES = [*((1 << bits, 0) for bits in (4, 6, 8, 10, 12, 13, 14, 15, 16, 17)), *((1 << bits, 256) for bits in (13, 14, 15, 16, 17)),
         (1 << 17, 1024), (1 << 17, 4096), (1 << 17, 32768)]


def messages_of(size):
    if SCALE >= 100:
        return 1000
    return 50 if size <= 1 << 14 else 10


# --- what is sent

def words(choice, count):
    parts = [a + b for a in "b d f g k l m n r s t w sch st ch pf".split() for b in "a e i o u ä ei au en er".split()]
    return ["".join(choice.choices(parts, k=choice.randint(1, 4))) for _ in range(count)]


def prose(choice):
    known = words(choice, 2000)
    return " ".join(choice.choices(known, [1 / rank for rank in range(1, 2001)], k=32000)).encode()


def json_text(choice):
    known = words(choice, 300)
    return json.dumps([{"id": number, "name": choice.choice(known), "tags": choice.sample(known, 3), "open": choice.random() < 0.5,
                        "at": [round(choice.uniform(-180, 180), 5), round(choice.uniform(-90, 90), 5)]} for number in range(1500)],
                      ensure_ascii=False, indent=1)


def html(choice):
    known = words(choice, 300)
    rows = (f'<tr class="{choice.choice(("odd", "even"))}"><td class="name">{one}</td><td><a href="/{other}/{number}.html">{other}</a></td></tr>\n'
            for number, (one, other) in enumerate(zip(choice.choices(known, k=2500), choice.choices(known, k=2500))))
    return "<!DOCTYPE html>\n<table>\n" + "".join(rows) + "</table>\n"


def picture(choice):
    """512 x 512 in some shades of grey, with a little noise."""
    return bytes(int(128 + 60 * math.sin(x / 37) + 50 * math.cos(y / 23) + choice.uniform(-6, 6)) & 0xF0 for y in range(512) for x in range(512))


def packed(choice):
    """Compressed already."""
    return choice.randbytes(250_000)


Kind = collections.namedtuple("Kind", "opcode shrinks data")
KINDS = {make.__name__: Kind(opcode, make is not packed, make(random.Random(SEED)))
         for make, opcode in ((json_text, TEXT), (picture, BINARY), (prose, BINARY), (html, TEXT), (packed, BINARY))}


def slices(data, size):
    """As the suite takes them: one behind the other, round and round."""
    at = 0
    while True:
        end = (at + size) % len(data)
        piece = data[at:end] if end > at else data[at:] + data[:end]
        yield piece.encode() if isinstance(piece, str) else piece
        at = end


# --- what is offered, and agreed on

def agreed(bits=None):
    told = f"; server_max_window_bits={bits}" if bits else ""
    return f"permessage-deflate; server_no_context_takeover; client_no_context_takeover{told}"


Family = collections.namedtuple("Family", "name kind offer answer bits")
OFFER = "permessage-deflate; client_no_context_takeover; client_max_window_bits"
FORGETFUL = OFFER + "; server_no_context_takeover"
SUITE = [*(Family(f"12.{number}", kind, OFFER, agreed(), 15) for number, kind in enumerate(KINDS, 1)),
         Family("13.1", "json_text", OFFER, agreed(), 15),
         Family("13.2", "json_text", FORGETFUL, agreed(), 15),
         Family("13.3", "json_text", OFFER + "; server_max_window_bits=9", agreed(9), 9),
         Family("13.4", "json_text", OFFER + "; server_max_window_bits=15", agreed(15), 15),
         Family("13.5", "json_text", FORGETFUL + "; server_max_window_bits=9", agreed(9), 9),
         Family("13.6", "json_text", FORGETFUL + "; server_max_window_bits=15", agreed(15), 15),
         Family("13.7", "json_text", f"{FORGETFUL}; server_max_window_bits=9, {FORGETFUL}, {OFFER}", agreed(9), 9)]
# What the suite leaves out. zlib has no window of 8 bits, so that one is declined.
BESIDE_IT = [Family("nothing offered", "json_text", "", "", 15),
             Family("no parameters", "json_text", "permessage-deflate", agreed(), 15),
             Family("another extension", "json_text", "x-webkit-deflate-frame", "", 15),
             Family("another extension first", "json_text", "x-webkit-deflate-frame, permessage-deflate", agreed(), 15),
             Family("client forgets", "json_text", "permessage-deflate; client_no_context_takeover", agreed(), 15),
             Family("server forgets", "json_text", "permessage-deflate; server_no_context_takeover", agreed(), 15),
             Family("window 8", "json_text", "permessage-deflate; server_max_window_bits=8", "", 15),
             Family("window 8, or any", "json_text", "permessage-deflate; server_max_window_bits=8, permessage-deflate", agreed(), 15),
             *(Family(f"window {bits}", "json_text", f"permessage-deflate; server_max_window_bits={bits}", agreed(bits), bits) for bits in range(9, 16)),
             *(Family(f"client's window {bits}", "json_text", f"permessage-deflate; client_max_window_bits={bits}", agreed(), 15) for bits in range(8, 16))]


# --- a client

def deflated(message):
    stream = zlib.compressobj(1, zlib.DEFLATED, -15)
    return (stream.compress(message) + stream.flush(zlib.Z_SYNC_FLUSH)).removesuffix(TAIL)


def inflated(wire, bits):
    """By a window of so many bits, and with no more of what was said at hand: whoever looks back further is found out."""
    stream, said = zlib.decompressobj(-bits), []
    piece = stream.decompress(wire + TAIL, 1 << bits)
    while piece:
        said.append(piece)
        piece = stream.decompress(stream.unconsumed_tail, 1 << bits)
    return b"".join(said)


def frame(first, payload):
    size = len(payload)
    head = struct.pack("!BB", first, 0x80 | size) if size < 126 else struct.pack("!BBH", first, 0x80 | 126, size) if size < 1 << 16 else \
        struct.pack("!BBQ", first, 0x80 | 127, size)
    key = (KEY * (size // 4 + 1))[:size]
    return head + KEY + (int.from_bytes(payload, "little") ^ int.from_bytes(key, "little")).to_bytes(size, "little")


def frames(message, opcode, deflates, fragment):
    wire = deflated(message) if deflates else message
    step = fragment or max(len(wire), 1)
    for at in range(0, max(len(wire), 1), step):
        first = 0 if at else opcode | (DEFLATED if deflates else 0)
        yield frame(first | (FINAL if at + step >= len(wire) else 0), wire[at:at + step])


def batches(messages, opcode, deflates, fragment):
    """[(frames, messages in them)]"""
    made, wire, some = [], bytearray(), []
    for message in messages:
        more = b"".join(frames(message, opcode, deflates, fragment))
        if some and len(wire) + len(more) > BATCH_BYTES:
            made.append((bytes(wire), some))
            wire, some = bytearray(), []
        wire += more
        some.append(message)
    return [*made, (bytes(wire), some)]


class Link:
    """A WebSocket to a server that echoes, by the offers of a family; its frames are read apart from any library."""

    def __init__(self, case, port, family):
        self.case, self.family, self.kind, self.deflates = case, family, KINDS[family.kind], bool(family.answer)
        self.messages = self.said_bytes = self.wire_bytes = 0
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.input = self.socket.makefile("rb", 1 << 18)
        offer = f"Sec-WebSocket-Extensions: {family.offer}\r\n" if family.offer else ""
        self.socket.sendall(f"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                            f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{offer}\r\n".encode())
        head = list(iter(lambda: self.input.readline().strip().decode(), ""))
        case.assertEqual(head[:1], ["HTTP/1.1 101 Switching Protocols"])
        case.assertEqual([line.partition(": ")[2] for line in head if line.startswith("Sec-WebSocket-Extensions:")],
                         [family.answer] if family.answer else [])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.input.close()
        self.socket.close()

    def exactly(self, size):
        got = self.input.read(size)
        if len(got) != size:
            raise EOFError("the server ended the connection")
        return got

    def next(self):
        """(first byte, payload as it came) of a frame."""
        first, size = self.exactly(2)
        self.case.assertLess(size, 128, "a server masked a frame")
        if size >= 126:
            size = int.from_bytes(self.exactly(2 if size == 126 else 8), "big")
        return first, self.exactly(size)

    def exchange(self, some):
        for wire, messages in some:
            self.socket.sendall(wire)
            for message in messages:
                self.take(message)

    def take(self, message):
        first, wire = self.next()
        is_deflated, size = bool(first & DEFLATED), len(message)
        self.case.assertEqual(first & ~DEFLATED, FINAL | self.kind.opcode)
        said = inflated(wire, self.family.bits) if is_deflated else wire
        self.case.assertTrue(said == message, f"{size} bytes were sent, and other {len(said)} came back")
        if not self.deflates or not self.kind.shrinks or size < LEAST_BYTES:
            self.case.assertFalse(is_deflated)
        elif size >= SURE_BYTES:
            self.case.assertTrue(is_deflated)
        if is_deflated:
            self.case.assertLess(len(wire), size)
        self.messages += 1
        self.said_bytes += size
        self.wire_bytes += len(wire)

    def finish(self, count):
        self.case.assertEqual(self.messages, count)
        if self.deflates and self.kind.shrinks and self.said_bytes >= SURE_BYTES * count:
            self.case.assertLess(self.wire_bytes, 0.9 * self.said_bytes)
        self.socket.sendall(frame(FINAL | CLOSE, b"\x03\xe8"))
        self.case.assertEqual(self.next(), (FINAL | CLOSE, b"\x03\xe8"))
        self.case.assertEqual(self.input.read(), b"")


# --- the matrix

class Engines:
    """The tests of one engine; each class below names it."""

    def each_comes_back(self, what, families, sizes):
        done, wrong = [], {}
        with Echo(self.engine, "deflate") as server:
            port = int(server.uri.rstrip("/").rpartition(":")[2])
            for (number, (size, fragment)), (name, kind) in itertools.product(enumerate(sizes, 1), KINDS.items()):
                users = [family for family in families if family.kind == name]
                with contextlib.ExitStack() as open_links:
                    links = [open_links.enter_context(Link(self, port, family)) for family in users]
                    found = self.converse(links, slices(kind.data, size), messages_of(size), fragment)
                    wrong |= {f"{family.name}.{number}, {size} in {fragment or 'one'}": error for family, error in found.items()}
                    done += links
        self.assertEqual(wrong, {}, f"HOLDFAST_TEST_SEED={SEED}")
        total = [sum(getattr(link, of) for link in done) for of in ("messages", "said_bytes", "wire_bytes")]
        print(f"{what} on {self.engine}: {len(done)} cases, {total[0]} messages, {total[1] >> 20} MiB, of which came {total[2] >> 20}", flush=True)
        return len(done)

    def converse(self, links, source, count, fragment):
        """The same messages over each of them, deflated once. Returns: {family: what went wrong}"""
        wrong = {}
        for begin in range(0, count, PORTION) if links else ():
            messages = list(itertools.islice(source, min(PORTION, count - begin)))
            opcode = links[0].kind.opcode
            made = {deflates: batches(messages, opcode, deflates, fragment) for deflates in {link.deflates for link in links}}
            for link in links:
                if link.family in wrong:
                    continue
                try:
                    link.exchange(made[link.deflates])
                    if begin + len(messages) == count:
                        link.finish(count)
                except (AssertionError, EOFError, OSError, zlib.error) as error:
                    wrong[link.family] = repr(error)
        return wrong

    def test_each_case_of_the_suite(self):
        self.assertEqual(self.each_comes_back("Autobahn's 12 and 13", SUITE, SIZES), 216)

    def test_other_offers(self):
        self.each_comes_back("other offers", BESIDE_IT, [(1024, 0), (1 << 16, 0), (1 << 16, 1024)])


class Epoll(Engines, unittest.TestCase):
    engine = "epoll"


class IoUring(Engines, unittest.TestCase):
    engine = "io_uring"


if __name__ == "__main__":
    main()
