"""The installed command, in a home of its own."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.e2e import forked

from muster.actions.server.home import Home
from muster.cli.commands.server.down import stop
from muster.cluster.nodes.disk.leftovers import reap

ROOT = Path(__file__).parents[2]

# Variables that Python reads at its start begin with these.
INTERPRETED = ("PYTHON", "LANG", "LC_")


@dataclass
class Muster:
    """Runs `muster` as a user would, with `MUSTER_HOME` in a temporary directory."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        found = shutil.which("muster", path=str(Path(sys.executable).parent))
        assert found, "the package is not installed in this environment"
        return found

    def env(self) -> dict[str, str]:
        # The tests' own interpreter is what `python` means in the commands that they run.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        # So many jobs run at once as a test needs, on any machine; `test_default_cpus.py` tries the default.
        own = {"PATH": path, "MUSTER_HOME": str(self.home), "MUSTER_DEFAULT_CPUS": "0"}
        return kept | own | self.environment

    def __call__(
        self, *arguments: str, check: bool = True, timeout: float = 60, input: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        command, environment = [self.command, *arguments], self.env()
        if any(name.startswith(INTERPRETED) for name in self.environment):
            done = subprocess.run(
                command,
                env=environment,
                cwd=ROOT,
                input=input,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        else:
            done = forked.run(self.home, command, environment, ROOT, input, timeout)
        if check:
            assert done.returncode == 0, (
                f"muster {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [self.command, *arguments],
            env=self.env(),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def processes(self) -> dict[int, str]:
        """All living processes that have anything to do with this home, by their environment, arguments or name."""
        mark, name = str(self.home).encode(), forked.name_process(self.home).encode()
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                words = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                if state != "Z" and (mark in words or name == (entry / "comm").read_bytes().rstrip()):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    """The command, with no cluster running; whatever a test leaves behind is an error, and is ended."""
    with closing(tmp_path / "home") as command:
        yield command


@pytest.fixture(scope="module")
def shared_muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """The same, for all tests of a file that ask for it."""
    with closing(tmp_path_factory.mktemp("shared") / "home") as command:
        yield command


@contextmanager
def closing(home: Path) -> Iterator[Muster]:
    """The command, with a home; its cluster ends with the context."""
    command = Muster(home)
    yield command
    command.environment = {}
    if command.processes():
        end(Home(command.home))
    left = command.processes()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"processes left behind: {left}"


@pytest.fixture(scope="module")
def shared_up(shared_muster: Muster) -> Muster:
    """The same, with an embedded cluster running: for tests that need not be alone in it."""
    shared_muster("up", "--detach", "--port", "0")
    return shared_muster


def end(home: Home) -> None:
    """`muster down`, without the start of one more program.

    The loop that it runs needs a thread of its own: a browser may have one in this thread.
    """
    pid = home.server_pid()
    if pid is not None:
        stop(home, pid)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(reap, home.path).result()


@pytest.fixture
def up(muster: Muster) -> Muster:
    """The command, with an embedded cluster running."""
    muster("up", "--detach", "--port", "0")
    return muster
