# SPDX-License-Identifier: Apache-2.0
"""The rings suite from outside: each way of following a ring is measured in the fixed shape, and nothing stays behind."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from serve_support import BUILD, left_behind, main, skip_all, wait_until  # noqa: E402

BENCH = BUILD / "bin" / "rings_bench"
ENGINES = ["holdfast serve, epoll", "holdfast serve, io_uring"]
FIGURES = ["deliveries", "server time a delivery", *(f"{level} from the publication" for level in ("p50", "p99", "p99.9"))]
LINES = ["server-sent events to 200 subscribers", "server-sent events to 200 subscribers, 16 messages under way", "WebSocket to 200 subscribers",
         "WebSocket to 200 subscribers, 16 messages under way", "long poll to 200 subscribers"]


class BenchRings(unittest.TestCase):
    def test_each_way_is_measured_in_the_fixed_shape(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-e2e-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        before = left_behind()
        file = folder / "out.json"
        done = subprocess.run([BENCH, "rings", "--quick", "--json", str(file)], capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads(file.read_text())
        self.assertEqual({result["name"] for result in found["results"]}, {f"rings: {line}: {what}" for line in LINES for what in FIGURES})
        for result in found["results"]:
            self.assertTrue(0 < result["p05"] <= result["median"] <= result["p95"], result)
        medians = {(result["name"], result["subject"]): result["median"] for result in found["results"]}
        for (name, subject), median in medians.items():
            if name.endswith(": p99 from the publication"):
                self.assertLessEqual(median, medians[name.replace("p99", "p99.9"), subject], name)
        measured = {result["subject"] for result in found["results"]}
        self.assertIn(ENGINES[0], measured)
        self.assertEqual(measured | {entry["subject"] for entry in found["skipped"]}, set(ENGINES))
        wait_until("nothing is left behind", lambda: left_behind() <= before)


if __name__ == "__main__":
    if not all(os.access(BENCH.parent / name, os.X_OK) for name in ("rings_bench", "holdfast")):
        skip_all("the rings suite, which a build with the benchmarks has")
    main()
