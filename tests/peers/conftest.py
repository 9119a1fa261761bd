"""Other people's clients against the embedded cluster: one server for the whole session, a namespace for every test.

How the server is started is `start` and nothing else.
"""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

import pytest
import requests
import yaml

OLDEST_SUPPORTED = (1, 31)
START_SECONDS = 30
COMMAND_SECONDS = 30


@dataclass(frozen=True)
class Server:
    """A running embedded cluster, and what it complains of."""

    kubeconfig: Path
    log: Path


@contextmanager
def start(home: Path, *options: str) -> Iterator[Server]:
    """An embedded cluster with this machine as its node, as the installed command starts it."""
    command = shutil.which("muster", path=str(Path(sys.executable).parent))
    assert command, "the package is not installed in this environment"
    log = home.parent / "server.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [command, "up", "--port", "0", *options],
            env=os.environ | {"MUSTER_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "ready" in line, f"muster up: {line}{log.read_text()}"
        yield Server(home / "kubeconfig", log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start(tmp_path_factory.mktemp("peers") / "home") as server:
        yield server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """For a test that leaves nothing as it was."""
    with start(tmp_path / "home") as server:
        yield server


def open_session(kubeconfig: Path, home: Path) -> tuple[str, requests.Session]:
    """Return the server's URL, and a session that sends requests there as the admin. home: keeps a certificate."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = home / "ca.pem"
    authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    session = requests.Session()
    session.trust_env = False
    session.verify = str(authority)
    session.headers["authorization"] = f"Bearer {user['token']}"
    return cluster["server"], session


def play_client(command: list[str], namespace: str, server: Server, home: Path) -> None:
    """Run a program against the server, in a new namespace that is its last argument; it prints `done` at its end."""
    environment = os.environ | {"KUBECONFIG": str(server.kubeconfig), "HOME": str(home)}
    url, session = open_session(server.kubeconfig, home)
    with session:
        session.post(f"{url}/api/v1/namespaces", json={"metadata": {"name": namespace}}).raise_for_status()
    done = subprocess.run(
        [*command, namespace], env=environment, capture_output=True, text=True, timeout=55, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.endswith("done\n")


@dataclass(frozen=True)
class Release:
    """A kubectl on this machine."""

    path: str
    version: tuple[int, int]

    def __str__(self) -> str:
        return f"kubectl-{self.version[0]}.{self.version[1]}"


@cache
def releases() -> list[Release]:
    """One kubectl for every supported minor version that PATH, or the directory that PATH's kubectl is in, has."""
    directories = [Path(directory) for directory in os.environ.get("PATH", "").split(os.pathsep) if directory]
    if found := shutil.which("kubectl"):
        directories.append(Path(found).resolve().parent)
    paths = {path.resolve() for directory in directories for path in directory.glob("kubectl*")}
    by_version: dict[tuple[int, int], Release] = {}
    # A wrapper that picks a release by the server's version has the plain name: real releases go before it.
    for path in sorted(paths, key=lambda path: (path.name == "kubectl", path)):
        version = _version(path) if re.fullmatch(r"kubectl(\.\d+\.\d+)?", path.name) else None
        if version and version >= OLDEST_SUPPORTED:
            by_version.setdefault(version, Release(str(path), version))
    return [by_version[version] for version in sorted(by_version)]


def _version(path: Path) -> tuple[int, int] | None:
    done = subprocess.run(
        [path, "version", "--client", "-o", "json"],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    match = re.search(r'"gitVersion": *"v(\d+)\.(\d+)', done.stdout)
    return (int(match[1]), int(match[2])) if match else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`release` is the newest and the oldest kubectl, `other_release` each of the rest."""
    found = releases() if {"release", "other_release"} & set(metafunc.fixturenames) else []
    ends = list(dict.fromkeys([*found[:1], *found[-1:]]))
    for name, chosen in (("release", ends), ("other_release", [each for each in found if each not in ends])):
        if name in metafunc.fixturenames:
            none = pytest.param(None, marks=pytest.mark.skip(reason="no such kubectl on this machine"), id="none")
            metafunc.parametrize(name, chosen or [none], ids=str if chosen else None)


@dataclass(frozen=True)
class Kubectl:
    """Runs one kubectl in a namespace of its own, which its kubeconfig names."""

    release: Release
    home: Path
    namespace: str

    def env(self, **more: str) -> dict[str, str]:
        return os.environ | {"KUBECONFIG": str(self.home / "kubeconfig"), "HOME": str(self.home)} | more

    def command(self, *arguments: str) -> list[str]:
        return [self.release.path, *arguments]

    def run(self, *arguments: str, input: str = "", **env: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*arguments),
            env=self.env(**env),
            input=input,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    def __call__(self, *arguments: str, input: str = "", **env: str) -> str:
        """What it prints, when it succeeds without a complaint."""
        done = self.run(*arguments, input=input, **env)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "warning" not in done.stderr.lower(), done.stderr
        return done.stdout

    def json(self, *arguments: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(self(*arguments, "-o", "json"))
        return found

    def refused(self, *arguments: str, input: str = "") -> str:
        """What it complains of, when it fails."""
        done = self.run(*arguments, input=input)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)} succeeded:\n{done.stdout}"
        return done.stderr

    def eventually(self, *arguments: str, shows: str, seconds: float = 20) -> str:
        """What it prints, once that contains `shows`."""
        end = time.monotonic() + seconds
        while True:
            done = self.run(*arguments)
            if shows in done.stdout:
                return done.stdout
            assert time.monotonic() < end, f"kubectl {' '.join(arguments)} never showed {shows!r}:\n{done}"
            time.sleep(0.1)


_numbers = count(1)


def _kubectl(release: Release, server: Server, home: Path) -> Iterator[Kubectl]:
    namespace = f"{str(release).replace('.', '-')}-{next(_numbers)}"
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    (home / "kubeconfig").write_text(yaml.safe_dump(config))
    kubectl = Kubectl(release, home, namespace)
    kubectl("create", "namespace", namespace)
    yield kubectl
    kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def kubectl(release: Release, server: Server, tmp_path: Path) -> Iterator[Kubectl]:
    """The newest and the oldest kubectl: the whole script."""
    yield from _kubectl(release, server, tmp_path)


@pytest.fixture
def other_kubectl(other_release: Release, server: Server, tmp_path: Path) -> Iterator[Kubectl]:
    """The rest: the short script."""
    yield from _kubectl(other_release, server, tmp_path)
