"""Takes the pictures of the dashboard in these pages: `python docs/pictures.py`, with Chromium and Playwright."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parent
WIDE: dict[str, Any] = {"viewport": {"width": 1180, "height": 760}}
# By the name of the file: the page, and how it is looked at.
PICTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "dashboard": ("/ui/", WIDE),
    "dashboard-job": ("/ui/jobs/default/train-1", WIDE | {"color_scheme": "dark"}),
    "dashboard-phone": ("/ui/queues/cluster/vision", {"viewport": {"width": 390, "height": 1180}}),
}
QUEUES = (
    ("vision", "--share", "2", "--gpus", "40", "--cpus", "80", "--memory", "300Gi"),
    ("speech", "--share", "1", "--gpus", "16", "--cpus", "40", "--memory", "100Gi"),
)


def main() -> None:
    """Start a cluster of simulated nodes, fill it, and take the pictures."""
    with tempfile.TemporaryDirectory() as home:
        environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | {
            "MUSTER_HOME": home
        }

        def muster(*arguments: str) -> str:
            command = [sys.executable, "-m", "muster.cli", *arguments]
            return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

        muster("up", "--detach", "--port", "0", "--nodes", "simulated:12,cpu=16,memory=64Gi,nvidia.com/gpu=8")
        try:
            fill(muster)
            with sync_playwright() as playwright:
                chromium = shutil.which("chromium")
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                for name in PICTURES:
                    take(browser, name, muster("dashboard", "--no-browser").strip())
        finally:
            muster("down", "--yes")


def fill(muster: Any) -> None:
    """Make two teams, and jobs that run, wait, and can never start."""
    user = os.environ.get("USER") or "root"
    for name, *options in QUEUES:
        muster("queue", "create", name, *options, "--users", user)
    for number in range(1, 5):
        submit(muster, f"train-{number}", "vision", "--workers", "4", "--gpus", "2", "--cpus", "4", "--memory", "16Gi")
    for number in range(1, 4):
        submit(muster, f"asr-{number}", "speech", "--workers", "8", "--gpus", "1", "--cpus", "2", "--time", "2h")
    submit(muster, "huge", "vision", "--workers", "30", "--gpus", "8")
    submit(muster, "tune", "vision", "--array", "0-9")
    muster("cancel", "asr-2")


def submit(muster: Any, name: str, queue: str, *options: str) -> None:
    """Submit a job without waiting for it."""
    muster("run", "--detach", "--name", name, "--queue", queue, *options, "--", "python", "train.py")


def take(browser: Browser, name: str, link: str) -> None:
    """Sign in by a link, and keep a picture of a page."""
    path, look = PICTURES[name]
    context = browser.new_context(timezone_id="UTC", **look)
    page = context.new_page()
    page.goto(link)
    page.goto(link.partition("/ui/")[0] + path)
    page.wait_for_timeout(1500)
    page.screenshot(path=HERE / f"{name}.png")
    context.close()


if __name__ == "__main__":
    main()
