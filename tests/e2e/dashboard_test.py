# SPDX-License-Identifier: Apache-2.0
"""GET / in a real Chromium: what it shows is what is there, it moves under load, asks nobody else, and fits wide and narrow windows.
Screenshots go to the build folder: dashboard.png, dashboard-dark.png, dashboard-narrow.png."""
import unittest

import browser_support
from serve_support import BUILD, Load, Segments, Server, main, skip_all, wait_until

if browser_support.MISSING:
    skip_all(browser_support.MISSING)

COUNTRIES = ["US", "DE", "FR", "GB", "JP", "BR", "IN", "CN", "NL", "SE", "PL", "ES", "KR", "ZA", "AU"]


class Dashboard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.segments = Segments()
        cls.addClassCleanup(cls.segments.close)
        ranges = [(f"{n}.0.0.0", f"{n}.255.255.255", country) for n, country in enumerate(COUNTRIES, 1)]
        cls.geo = cls.segments.load_index("geo4", ranges)
        cls.table = cls.segments.load_table("sessions", [(n, n, f"u{n}") for n in range(700)])
        cls.server = Server(cls.segments, "--count", f"{cls.geo}=country")
        cls.addClassCleanup(cls.server.close)
        cls.browser = browser_support.launch(cls)

    def setUp(self):
        self.complaints, self.foreign = [], []

    def open(self, **context):
        page = self.browser.new_context(**context).new_page()
        self.addCleanup(page.context.close)
        page.on("console", lambda message: message.type in ("error", "warning") and self.complaints.append(message.text))
        page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        base = f"http://{self.server.host}:{self.server.port}/"
        page.on("request", lambda request: request.url.startswith((base, "data:")) or self.foreign.append(request.url))
        answer = page.goto(base)
        self.assertEqual(answer.status, 200)
        self.assertIn("default-src 'none'", answer.headers["content-security-policy"])
        self.wait_state(page, "live")
        return page

    # The page's policy forbids eval, and with it Playwright's own way of waiting for a condition.
    def wait_state(self, page, text):
        wait_until(f"the page says {text!r}", lambda: page.text_content("#state") == text)

    def load(self):
        # Countries asked for with falling frequency, so that the bars have an order to show.
        paths = [f"/v1/indexes/{self.geo}/{n}.1.2.3" for n in range(1, len(COUNTRIES) + 1) for _ in range(2 * (len(COUNTRIES) - n) + 1)]
        paths += [f"/v1/tables/{self.table}/{n}" for n in range(5)] + ["/v1/tables/none/1"]
        load = Load(self.server, paths, clients=2)
        self.addCleanup(load.stop)
        return load

    def number(self, page, selector):
        text = page.text_content(selector).replace(",", "").replace("\u00a0", " ").split(" ")[0]
        return float(text) if text and text[0].isdigit() else 0.0

    def test_shows_what_is_served_and_moves_under_load(self):
        page = self.open(viewport={"width": 1280, "height": 900})
        rows = wait_until("segments are listed", lambda: page.locator("#segments tr").all_inner_texts())
        self.assertTrue(any(self.geo in row and "snapshot, sorted index" in row for row in rows), rows)
        self.assertTrue(any(self.table in row and "hash table" in row and "700 of" in row for row in rows), rows)
        self.assertEqual(self.number(page, "#rate"), 0.0)
        load = self.load()
        wait_until("requests a second", lambda: self.number(page, "#rate") > 0)
        first = self.number(page, "#total")
        wait_until("the total grows", lambda: self.number(page, "#total") > first + 100)
        wait_until("errors are counted", lambda: self.number(page, "#errors") > 0)
        for selector in ("#p50", "#p99"):
            self.assertGreater(self.number(page, selector), 0, selector)
        bars = page.locator("#values li").all_inner_texts()
        self.assertEqual(len(bars), 10)
        self.assertIn("United States", bars[0])
        workers = page.locator("#workers tr").all_inner_texts()
        self.assertEqual(sorted(int(row.split()[1]) for row in workers), self.server.workers())
        for chart in ("#rate-chart", "#latency-chart"):
            self.assertRegex(page.get_attribute(chart, "aria-label"), r"\d")
        wait_until("a line of some seconds", lambda: page.get_attribute("#rate-chart path.one", "d").count("L") > 8, 40)
        page.screenshot(path=BUILD / "dashboard.png", full_page=True)
        load.stop()
        self.assertEqual((self.complaints, self.foreign), ([], []))

    def test_is_readable_in_the_dark_and_in_a_narrow_window(self):
        self.load()
        for name, context in (("dark", {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"}),
                              ("narrow", {"viewport": {"width": 400, "height": 800}})):
            page = self.open(**context)
            wait_until("numbers", lambda: page.locator("#values li").count() > 5 and (page.get_attribute("#rate-chart path.one", "d") or "").count("L") > 3)
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), context["viewport"]["width"], "the page scrolls sideways")
            contrast = page.evaluate(CONTRAST)
            self.assertGreaterEqual(contrast["least"], 4.5, contrast)
            page.screenshot(path=BUILD / f"dashboard-{name}.png", full_page=True)
        self.assertEqual((self.complaints, self.foreign), ([], []))

    def test_says_so_when_the_server_is_gone_and_when_it_is_back(self):
        page = self.open()
        page.route("**/v1/**", lambda route: route.abort())
        self.wait_state(page, "no answer, trying again")
        page.unroute("**/v1/**")
        self.wait_state(page, "live")
        self.assertEqual(self.foreign, [])


# The least contrast (WCAG 2.2, 1.4.3) of any text to the colour behind it.
CONTRAST = """() => {
  const parse = color => (color.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  let least = 21, where = "";
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("script, style, caption")) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(parse(e.closest("svg") ? style.fill : style.color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < least) { least = ratio; where = e.id || e.className.baseVal || e.className || e.tagName; }
  }
  return {least, where};
}"""


if __name__ == "__main__":
    main()
