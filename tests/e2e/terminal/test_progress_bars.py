"""A progress bar is seen while it moves: each state before the program goes on to the next."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import Muster
from tests.e2e.terminals import terminal
from tests.screens import picture

pytestmark = pytest.mark.timeout(120)

# As tqdm draws. It waits for the reader, who creates a file, before it draws the end.
BAR = """
import os, pathlib, sys, time
rank, seen = os.environ["RANK"], pathlib.Path(sys.argv[1])
for state in ("  0%|          |", " 50%|#####     |"):
    sys.stderr.write(f"\\r{state} of {rank}")
    sys.stderr.flush()
    time.sleep(0.05)
while not seen.exists():
    time.sleep(0.01)
sys.stderr.write(f"\\r100%|##########| of {rank}\\n")
"""
STATES = [f"\r{state} of 0".encode() for state in ("  0%|          |", " 50%|#####     |", "100%|##########|")]


@pytest.fixture
def bar(tmp_path: Path) -> list[str]:
    """The program."""
    path = tmp_path / "bar.py"
    path.write_text(BAR)
    return [sys.executable, str(path), str(tmp_path / "seen")]


@pytest.mark.parametrize("follows", [False, True])
def test_one_worker_s_bytes_come_as_they_are_written(shared_up: Muster, bar: list[str], follows: bool) -> None:
    command = ["run", "--", *bar]
    if follows:
        command = ["logs", "-f", shared_up("run", "--detach", "--", *bar).stdout.strip()]
    with terminal() as tty:
        watching = tty.start(shared_up.command, *command, env=shared_up.env())
        for state in STATES[:2]:
            tty.reads(state)
        Path(bar[-1]).touch()
        tty.reads(STATES[2] + b"\r\n")
        assert watching.wait(timeout=60) == 0


def test_a_pipe_gets_them_as_soon(muster: Muster, bar: list[str]) -> None:
    command = [muster.command, "run", "--", "sh", "-c", 'exec "$@" 2>&1', "sh", *bar]
    running = subprocess.Popen(command, env=muster.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0)
    assert running.stdout is not None
    written = b""
    while STATES[1] not in written:
        written += running.stdout.read(1000)
    Path(bar[-1]).touch()
    assert written + running.communicate(timeout=60)[0] == b"".join(STATES) + b"\n"
    assert running.returncode == 0


@pytest.mark.parametrize("follows", [False, True])
def test_the_bar_of_each_of_several_workers_moves_in_its_row(shared_up: Muster, bar: list[str], follows: bool) -> None:
    line = f"{shared_up.command} run --workers 2 -- {' '.join(bar)}"
    if follows:
        name = shared_up("run", "--detach", "--workers", "2", "--", *bar).stdout.strip()
        line = f"{shared_up.command} logs -f {name}"
    with terminal() as tty:
        watching = tty.start("sh", "-c", f"{line}; echo ended with $?", env=shared_up.env() | {"NO_COLOR": "1"})
        written = b""
        half = [f"[{rank}]  50%|#####     | of {rank}" for rank in (0, 1)]
        while [row for row in picture(written) if row.startswith("[")] != half:
            written += tty.reads(b"\x1b[?7h")
        Path(bar[-1]).touch()
        written += tty.reads(b"ended with 0")
        assert watching.wait(timeout=60) == 0
        whole = [f"[{rank}] 100%|##########| of {rank}" for rank in (0, 1)]
        assert sorted(row for row in picture(written) if "%" in row) == whole


def test_a_file_keeps_the_last_state_of_each_of_several_workers(shared_up: Muster, bar: list[str]) -> None:
    Path(bar[-1]).touch()
    run = shared_up("run", "--name", "bar", "--workers", "2", "--", *bar)
    logs = shared_up("logs", "bar")
    for done in (run, logs):
        lines = [line for line in done.stderr.splitlines() if line.startswith("[")]
        assert sorted(lines) == [f"[{rank}] 100%|##########| of {rank}" for rank in (0, 1)]
