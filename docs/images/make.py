"""``python docs/images/make.py``: the pictures of the documentation that are not an experiment's.

The page of the study ``quick`` as Chromium shows it, and the figure of ``python -m experiments speed growth``, which
measures times and so gives other ones each time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import jaxvar as jv
from jaxvar.report import write_page

IMAGES = Path(__file__).parent
WINDOW = (1100, 1500)
GROWTH = ("--folder", str(IMAGES / "growth"))


def report() -> Path:
    """Play the study, write its page, and take a picture of it."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("a picture of the page needs Chromium on PATH")
    with tempfile.TemporaryDirectory() as folder:
        result = jv.run_study(jv.read_study("quick"), Path(folder) / "quick", progress=False)
        assert result is not None  # one process, which writes
        page = write_page(result, Path(folder) / "report.html")
        picture = IMAGES / "report.png"
        size = ",".join(map(str, WINDOW))
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size}"]
        subprocess.run([browser, *options, f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True)
    return picture


def main() -> None:
    """Both; the second takes a while."""
    jv.tune_cpu()
    print(report())
    subprocess.run([sys.executable, "-m", "experiments", "speed", "growth", *GROWTH], check=True, cwd=IMAGES.parents[1])


if __name__ == "__main__":
    main()
