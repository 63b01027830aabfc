# SPDX-License-Identifier: Apache-2.0
"""GET /metrics as its readers see it: promtool for the text format, prometheus-client for OpenMetrics, and a Prometheus server that
scrapes it. None of them is ours, so none shares a misunderstanding with the writer."""
import json
import pathlib
import shutil
import socket
import subprocess
import unittest
import urllib.parse
import urllib.request

from serve_support import Load, Segments, Server, main, skip_all, wait_until

try:
    from prometheus_client import parser as text_parser
    from prometheus_client.openmetrics import parser as openmetrics_parser
except ImportError:
    skip_all("the Python package prometheus-client; ./dev setup installs it")

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.segments = Segments()
        cls.addClassCleanup(cls.segments.close)
        cls.geo = cls.segments.load_index("geo4", [("6.0.0.0", "6.255.255.255", "US"), ("8.0.0.0", "8.255.255.255", "DE")])
        cls.server = Server(cls.segments, "--count", f"{cls.geo}=country")
        cls.addClassCleanup(cls.server.close)
        paths = [f"/v1/indexes/{cls.geo}/6.1.1.1", f"/v1/indexes/{cls.geo}/8.1.1.1", f"/v1/indexes/{cls.geo}/6.2.2.2"]
        load = Load(cls.server, paths, clients=2)
        wait_until("some load", lambda: load.answers > 300)
        cls.answers = load.stop().answers
        for _ in range(5):
            cls.server.ask(f"/v1/indexes/{cls.geo}/1.1.1.1")

    def metrics(self, accept=None):
        status, headers, body = self.server.ask("/metrics", **({"Accept": accept} if accept else {}))
        self.assertEqual(status, 200)
        return headers["Content-Type"], body

    def check_samples(self, families):
        """What was asked is what is told, in whichever format it was parsed from."""
        samples = [sample for family in families for sample in family.samples]
        self.assertEqual(len({(s.name, tuple(sorted(s.labels.items()))) for s in samples}), len(samples), "a series comes twice")

        def total(name, **labels):
            return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())
        route = "/v1/indexes/{segment}/{key}"
        self.assertEqual(total("holdfast_http_requests_total", route=route, status="2xx"), self.answers)
        self.assertEqual(total("holdfast_http_requests_total", route=route, status="4xx"), 5)
        self.assertEqual(total("holdfast_index_lookups_total", segment=self.geo, result="hit"), self.answers)
        self.assertEqual(total("holdfast_index_lookups_total", segment=self.geo, result="miss"), 5)
        us, de = (total("holdfast_index_lookups_by_value_total", segment=self.geo, field="country", value=v) for v in ("US", "DE"))
        self.assertEqual(us + de, self.answers)
        self.assertGreater(us, de)
        self.assertEqual(total("holdfast_http_request_duration_seconds_count"), self.answers + 5)
        self.assertEqual(total("holdfast_http_request_duration_seconds_bucket", le="+Inf"), self.answers + 5)
        self.assertGreater(total("holdfast_http_request_duration_seconds_sum"), 0)
        self.assertEqual(total("holdfast_segment_up", segment=self.geo), 1)
        self.assertEqual(total("holdfast_segment_entries", segment=self.geo), 2)
        self.assertEqual(total("holdfast_segment_version", segment=self.geo), 1)
        self.assertEqual(total("holdfast_build_info"), 1)
        buckets = [(float(s.labels["le"]), s.value) for s in samples if s.name == "holdfast_http_request_duration_seconds_bucket"]
        self.assertEqual(buckets, sorted(buckets), "buckets ascend in bound and in count")
        self.assertGreater(len(buckets), 20)

    def test_text_format_is_read_by_prometheus_client(self):
        kind, body = self.metrics()
        self.assertEqual(kind, TEXT)
        families = list(text_parser.text_string_to_metric_families(body))
        self.check_samples(families)
        self.assertTrue(all(family.documentation for family in families))

    def test_text_format_passes_promtool(self):
        if not shutil.which("promtool"):
            self.skipTest("needs promtool; ./dev setup fetches it")
        _, body = self.metrics()
        self.assertGreater(len(body), 2000)  # promtool takes an empty text for a good one
        checked = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, text=True, timeout=60)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))

    def test_openmetrics_is_read_by_the_strict_parser(self):
        kind, body = self.metrics("application/openmetrics-text; version=1.0.0")
        self.assertEqual(kind, OPENMETRICS)
        self.assertTrue(body.endswith("# EOF\n"))
        families = list(openmetrics_parser.text_string_to_metric_families(body))
        self.check_samples(families)
        kinds = {family.name: family.type for family in families}
        self.assertEqual(kinds["holdfast_http_requests"], "counter")
        self.assertEqual(kinds["holdfast_http_request_duration_seconds"], "histogram")
        self.assertEqual(kinds["holdfast_build"], "info")
        self.assertEqual(kinds["holdfast_segment_bytes"], "gauge")

    def test_accept_chooses_the_format(self):
        prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        cases = [(prometheus, OPENMETRICS), ("*/*", TEXT), ("text/html", TEXT), ("text/plain", TEXT), ("application/openmetrics-text", OPENMETRICS),
                 ("application/openmetrics-text;q=0.4, text/plain;q=0.5", TEXT), ("application/openmetrics-text;q=0, */*", TEXT),
                 ("Application/OpenMetrics-Text ; Version=\"1.0.0\" ; Q=0.9 , text/plain;q=0.2", OPENMETRICS),
                 ("application/openmetrics-text;version=0.0.1", TEXT), ("application/openmetrics-text;q=2", TEXT), (",,;;q=,\"", TEXT)]
        for accept, expected in cases:
            self.assertEqual(self.metrics(accept)[0], expected, accept)

    def test_a_prometheus_server_scrapes_it(self):
        if not shutil.which("prometheus"):
            self.skipTest("needs prometheus; ./dev setup fetches it")
        folder = self.segments.directory / "prometheus"
        folder.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 250ms, scrape_timeout: 250ms}\nscrape_configs:\n- job_name: holdfast\n"
            f"  static_configs: [{{targets: ['127.0.0.1:{self.server.port}']}}]\n")
        with open(folder / "log", "w") as log:
            process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                        f"--web.listen-address=127.0.0.1:{port}", "--web.console.templates=", "--web.console.libraries="],
                                       stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def query(expression):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(expression)}", timeout=5) as answer:
                    result = json.load(answer)["data"]["result"]
            except OSError:
                return None  # not up yet
            return float(result[0]["value"][1]) if result else None
        wait_until("the scrape succeeds", lambda: query('up{job="holdfast"}') == 1.0, 60)
        self.assertEqual(query("sum(holdfast_index_lookups_total)"), self.answers + 5)
        self.assertEqual(query("sum(holdfast_http_request_duration_seconds_count)"), self.answers + 5)
        median = query("histogram_quantile(0.5, sum by (le) (holdfast_http_request_duration_seconds_bucket))")
        self.assertTrue(0 < median < 1, median)
        log = pathlib.Path(folder / "log").read_text()
        self.assertNotIn("Error on ingesting", log)


if __name__ == "__main__":
    main()
