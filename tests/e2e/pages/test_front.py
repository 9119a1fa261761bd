"""What the first pages show: the README's command, and the cluster of the site's front page, as they are written.

The README's lines that install are run by `.ci/run` and `.ci/packages`.
"""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run(muster, commands, timeout=200):
    command = ["bash", "-e", "-c", commands]
    return subprocess.run(
        command, env=muster.env(), cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
    )


def test_the_first_command_of_the_readme_is_the_one_that_is_tested():
    [line] = re.findall(r"^    pip install .*? && (muster .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    words = ", ".join(f'"{word}"' for word in line.split()[1:])
    assert f"muster({words}, " in (ROOT / "tests/e2e/jobs/test_run.py").read_text()


CLUSTER = re.findall(r"^```bash\n(.*?)^```$", (ROOT / "docs/index.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("commands", CLUSTER)
def test_the_cluster_of_the_front_page_says_why_a_job_waits(muster, commands):
    done = run(muster, commands.replace("up --detach", "up --detach --port 0"))
    assert done.returncode == 0, done.stderr
    assert "\nwide: queued; it can never start: no node ever has 1k cpu; the largest has " in done.stdout
