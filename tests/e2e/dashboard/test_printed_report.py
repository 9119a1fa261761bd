"""The report of `muster simulate` on paper, by a real browser."""

import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "simulate" / "ci.yaml"
# The width of a sheet of A4 between its margins, in pixels of CSS.
WIDTH = 720


def test_a_table_with_long_names_fits_on_paper(chromium: Browser, tmp_path: Path) -> None:
    sweep = "clusterQueues.prod.nominalQuota.cpu=96,64"
    options = ["--sweep", sweep, "--seeds", "2", "--report", str(tmp_path / "out")]
    subprocess.run(
        [sys.executable, "-m", "muster.cli", "simulate", str(EXAMPLE), *options], check=False, capture_output=True
    )
    page = chromium.new_page(viewport={"width": WIDTH, "height": 1100})
    page.emulate_media(media="print")
    page.goto((tmp_path / "out" / "report.html").as_uri())
    assert page.locator("table").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") == WIDTH
