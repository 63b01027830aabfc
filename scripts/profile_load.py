#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Load for `./dev profile serve`: profile_load.py LOG TABLE SECONDS

Waits until LOG names the server's address, then asks for random entries of TABLE (keys 1 to 10000) over kept connections, checking each status.
"""
import http.client
import pathlib
import random
import re
import sys
import threading
import time


def address(log, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = re.search(r"http://([\d.]+):(\d+)", log.read_text(errors="replace") if log.exists() else "")
        if found:
            return found[1], int(found[2])
        time.sleep(0.05)
    raise SystemExit("profile_load: the server named no address")


def main():
    host, port = address(pathlib.Path(sys.argv[1]))
    table, end = sys.argv[2], time.monotonic() + float(sys.argv[3])
    answers, problems = [0] * 4, []

    def ask(client):
        draw = random.Random(client)
        connection = http.client.HTTPConnection(host, port, timeout=60)
        try:
            while time.monotonic() < end and not problems:
                connection.request("GET", f"/v1/tables/{table}/{draw.randint(1, 10000)}")
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    raise OSError(f"status {answer.status}")
                answers[client] += 1
        except (OSError, http.client.HTTPException) as problem:
            problems.append(problem)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(answers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems or not sum(answers):
        raise SystemExit(f"profile_load: {problems[0] if problems else 'no answer'}")
    print(f"profile: {sum(answers)} answers", file=sys.stderr)


if __name__ == "__main__":
    main()
