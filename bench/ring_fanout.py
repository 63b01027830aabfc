#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a message to N subscribers of a served ring costs the worker: server-sent events, one worker, this machine.

usage: ring_fanout.py [--build FOLDER] [--subscribers N] [--messages M] [--bytes B] [--gap-ms T] [--engine epoll|io_uring]

Opens N connections to GET /v1/rings/..., publishes M messages of B bytes, one each T ms (0: all at once), waits until every subscriber has
all of them, and checks that each number came once, as a message or as one of a loss. Prints one line: messages delivered a second, the
worker's CPU time for each, and how long the last message took to reach all. Ends with 1 if anything is missing.
"""
import argparse
import os
import pathlib
import re
import select
import socket
import subprocess
import sys
import tempfile
import time

SECONDS_MAX = 300  # for each phase


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Subscribers:
    """N connections that count what they are told."""

    def __init__(self, port, target, count):
        self.poll = select.epoll()
        self.sockets, self.messages, self.lost, self.rest = {}, {}, {}, {}
        request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode()
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", port), timeout=30)
            one.sendall(request)
            one.setblocking(False)
            number = one.fileno()
            self.sockets[number], self.messages[number], self.lost[number], self.rest[number] = one, 0, 0, b""
            self.poll.register(number, select.EPOLLIN)
            if len(self.sockets) % 256 == 0:  # the listener's queue is short
                self.read(0)
        self.until(lambda: all(self.messages.values()), "joining")
        self.messages = dict.fromkeys(self.messages, 0)  # the event that tells where they joined

    def read(self, wait_s):
        for number, _ in self.poll.poll(wait_s, 1024):
            try:
                data = self.sockets[number].recv(262144)
            except BlockingIOError:
                continue
            if not data:
                sys.exit("a connection was closed")
            text = self.rest[number] + data
            end = text.rfind(b"\n\n") + 2
            self.rest[number] = text[end if end > 1 else 0:]
            text = text[:end] if end > 1 else b""
            lost = text.count(b"event: lost")
            self.messages[number] += text.count(b"\ndata: ") - lost
            if lost:
                self.lost[number] += sum(int(count) for count in re.findall(rb'"event":"lost","count":(\d+)', text))

    def until(self, true, what):
        end = time.monotonic() + SECONDS_MAX
        while not true():
            self.read(0.2)
            if time.monotonic() > end:
                sys.exit(f"{what}: not within {SECONDS_MAX} s")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", default="build/release")
    options.add_argument("--subscribers", type=int, default=10000)
    options.add_argument("--messages", type=int, default=200)
    options.add_argument("--bytes", type=int, default=64)
    options.add_argument("--gap-ms", type=float, default=0)
    options.add_argument("--engine", default="epoll")
    chosen = options.parse_args()
    build, name = pathlib.Path(chosen.build), f"hf-fanout-{os.getpid()}"
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, HOLDFAST_REGISTRY=folder + "/registry")
        owner = subprocess.Popen([build / "tests/e2e/segment_subject", "ring", name, str(16 << 20)], env=environment,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        server = None
        try:
            owner.stdout.readline()
            server = subprocess.Popen([build / "bin/holdfast", "serve", name, "--listen", "127.0.0.1:0", "--workers", "1", "--counters", name + "-counts",
                                       "--engine", chosen.engine, "--limit", f"connections-max={chosen.subscribers + 100}"],
                                      env=environment, stdout=subprocess.PIPE, text=True)
            port = int(re.search(r"http://127.0.0.1:(\d+)", server.stdout.readline())[1])
            worker = int(pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()[0])
            followers = Subscribers(port, f"/v1/rings/{name}", chosen.subscribers)
            idle_begin, before_idle = time.monotonic(), cpu_s(worker)
            followers.until(lambda: time.monotonic() - idle_begin > 2, "resting")
            idle = (cpu_s(worker) - before_idle) / (time.monotonic() - idle_begin)
            text = "x" * (chosen.bytes - 4)
            before, begin = cpu_s(worker), time.monotonic()
            if chosen.gap_ms == 0:
                owner.stdin.write(f"batch {chosen.messages} {text}\n")
                owner.stdin.flush()
                last = time.monotonic()
            else:
                for i in range(chosen.messages):
                    last = time.monotonic()
                    owner.stdin.write(f"put {text}{i % 10000:04}\n")
                    owner.stdin.flush()
                    due = begin + (i + 1) * chosen.gap_ms / 1000
                    while (left := due - time.monotonic()) > 0:
                        followers.read(left)
            followers.until(lambda: all(followers.messages[n] + followers.lost[n] >= chosen.messages for n in followers.sockets), "delivering")
            took, cpu = time.monotonic() - begin, cpu_s(worker) - before
            reached = f"the last within {(time.monotonic() - last) * 1000:.0f} ms; " if chosen.gap_ms == 0 else ""
            delivered, lost = sum(followers.messages.values()), sum(followers.lost.values())
            right = all(followers.messages[n] + followers.lost[n] == chosen.messages for n in followers.sockets)
            memory = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{worker}/status").read_text())[1]) // 1024
            print(f"{chosen.subscribers} subscribers, {chosen.messages} messages of {chosen.bytes} bytes, {chosen.gap_ms:g} ms apart, {chosen.engine}: "
                  f"{delivered} delivered, {lost} lost, {delivered / took:,.0f}/s, {cpu / max(delivered, 1) * 1e6:.2f} us of the worker's CPU each "
                  f"({cpu:.2f} s); {reached}idle {idle * 100:.1f} % CPU; {memory} MiB at most")
            return 0 if right else 1
        finally:
            owner.kill()
            if server:
                server.kill()
                server.wait()
            for file in pathlib.Path("/dev/shm").glob(name + "*"):
                file.unlink()


if __name__ == "__main__":
    sys.exit(main())
