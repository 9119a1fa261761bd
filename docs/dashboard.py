"""Takes the pictures of the dashboard in `docs/`: a cluster of simulated nodes in a throw-away home, seen in Chromium.

    python docs/dashboard.py

`muster` and the extra `test` must be installed in the environment that runs this, and Chromium on the machine.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent
QUEUES = (("vision", "48"), ("speech", "64"), ("robots", "32"))
# Queue, name, workers and CPUs of each; the last ones wait.
JOBS = (
    ("vision", "resnet", 8, 4),
    ("vision", "segment", 8, 4),
    ("speech", "whisper", 12, 4),
    ("robots", "grasp", 6, 4),
    ("speech", "tune-large", 16, 4),
    ("vision", "detect", 8, 4),
)
# The name, the page and the look of each picture.
PICTURES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("light", "/ui/", {"viewport": {"width": 1280, "height": 800}}),
    ("dark", "/ui/queues/cluster/vision", {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"}),
    ("phone", "/ui/jobs", {"viewport": {"width": 390, "height": 844}}),
)


def run(home: str, *words: str) -> str:
    """Run a command of Muster, and return what it prints."""
    environment = os.environ | {"MUSTER_HOME": home}
    environment.pop("KUBECONFIG", None)
    command = [str(Path(sys.executable).parent / "muster"), *words]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def fill(home: str) -> None:
    """Start a cluster with queues and jobs."""
    run(home, "up", "--detach", "--port", "0", "--nodes", "simulated:20,cpu=8,memory=32Gi")
    for queue, quota in QUEUES:
        run(home, "queue", "create", queue, "--cpus", quota, "--cohort", "lab")
    for queue, name, workers, cpus in JOBS:
        size = ("--workers", str(workers), "--cpus", str(cpus))
        run(home, "run", "--detach", "--name", name, "--queue", queue, *size, "--", "python", "train.py")


def take_pictures(home: str) -> None:
    """Take all pictures."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, path, look in PICTURES:
            page = browser.new_context(**look).new_page()
            link = run(home, "dashboard", "--no-browser").strip()
            page.goto(link)
            page.goto(re.sub(r"/ui/.*", path, link))
            time.sleep(2)  # the newest state has come
            page.screenshot(path=DOCS / f"dashboard-{name}.png")
        browser.close()


def main() -> None:
    """Take the pictures anew."""
    with tempfile.TemporaryDirectory() as home:
        try:
            fill(home)
            time.sleep(5)
            take_pictures(home)
        finally:
            run(home, "down", "--yes")


if __name__ == "__main__":
    main()
