"""The module that `python -m muster` runs."""

import subprocess
import sys


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "muster", "--version"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("muster, version ")
