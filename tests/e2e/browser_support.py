# SPDX-License-Identifier: Apache-2.0
"""A real Chromium for tests, led by Playwright."""
import os
import shutil

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    sync_playwright = None

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = None  # or what a machine lacks for it
if sync_playwright is None:
    MISSING = "the Python package playwright; ./dev setup installs it"
elif not CHROMIUM:
    MISSING = "the browser chromium"


def launch(case):
    """A browser that ends with the class of tests `case`. Only where nothing is MISSING."""
    playwright = sync_playwright().start()
    case.addClassCleanup(playwright.stop)
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
    case.addClassCleanup(browser.close)
    return browser
