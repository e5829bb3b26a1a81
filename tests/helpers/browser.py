"""A real Chromium for tests of pages: Debian's, driven by its own chromedriver, with nothing downloaded."""

import base64
import json
import os
import shutil
import time

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def programs():
    """Paths of browser and driver; without them the test is skipped, or fails where CI=true promised them."""
    browser, driver = next(filter(None, map(shutil.which, NAMES)), None), shutil.which("chromedriver")
    if browser and driver:
        return browser, driver
    reason = "needs chromium and chromedriver on PATH (Debian: apt-get install chromium chromium-driver)"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class Browser:
    """One window, with what the tests ask of it."""

    def __init__(self, profile):
        browser, driver = programs()
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(driver))

    def open(self, path, *, width=1200, height=900, dark=False, script=True):
        """Show a file afresh."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.command("Emulation.setEmulatedMedia", media="", features=features)
        self.command("Emulation.setDeviceMetricsOverride", **size)
        self.command("Emulation.setScriptExecutionDisabled", value=not script)
        self.driver.get("about:blank")
        self.complaints(), self.requests()  # of earlier pages
        self.driver.get(path.as_uri())

    def command(self, name, **arguments):
        """A command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def ask(self, script, *arguments):
        """What a script returns."""
        return self.driver.execute_script(f"return {script}", *arguments)

    def one(self, selector):
        """The first element."""
        return self.driver.find_element("css selector", selector)

    def all(self, selector):
        """Every element."""
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector):
        """The whole text of every element, as the page holds it."""
        return self.ask("[...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def complaints(self):
        """What the console said since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Addresses that were asked for since this was last asked."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def picture(self, path):
        """The whole page as a PNG."""
        found = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def saved(self, folder, selector):
        """Press a button, and return the file that the page saves."""
        self.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        before = set(folder.iterdir())
        self.ask("document.querySelector(arguments[0]).click()", selector)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            found = {path for path in set(folder.iterdir()) - before if path.suffix in (".svg", ".csv")}
            if found:
                return found.pop()
            time.sleep(0.02)
        raise TimeoutError(f"{selector} saved no file")

    def pdf(self):
        """The page as it is printed on A4."""
        return base64.b64decode(self.command("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"])
