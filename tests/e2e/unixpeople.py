"""Unix users made for a test, and what they do on the local socket of a system server: each in a process of its own."""

import http.client
import json
import os
import pickle
import pwd
import shutil
import socket
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.e2e.typed_lines import run_line

T = TypeVar("T")

_PASSWD_IS_LOCKED = 1  # by another process that adds or removes a user

CAN_MAKE_USERS = os.geteuid() == 0 and shutil.which("useradd") is not None
WHY_NOT = "needs root, and useradd to make users"


class _Local(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(str(self._path))


def until(look: Callable[[], T]) -> T:
    """Return the first result that is true."""
    for _ in range(600):
        if result := look():
            return result
        time.sleep(0.05)
    raise AssertionError(f"{look} never returned anything true")


@dataclass(frozen=True)
class Person:
    """A user of this machine, who knows one server."""

    name: str
    socket: Path

    @property
    def entry(self) -> pwd.struct_passwd:
        return pwd.getpwnam(self.name)

    @property
    def uid(self) -> int:
        return self.entry.pw_uid

    @property
    def home(self) -> Path:
        return Path(self.entry.pw_dir)

    @property
    def namespace(self) -> str:
        return f"user-{self.name}" if self.uid else "default"

    def do(self, action: Callable[[], T]) -> T:
        """Return the result of an action in a process of this user."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups(os.getgrouplist(self.name, self.entry.pw_gid))
                os.setresgid(*[self.entry.pw_gid] * 3)
                os.setresuid(*[self.uid] * 3)
                result: Any = (True, action())
            except BaseException as error:  # noqa: BLE001 - the parent hears of it
                result = (False, f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
            with open(writer, "wb") as pipe:
                pipe.write(pickle.dumps(result))
            os._exit(0)
        os.close(writer)
        with open(reader, "rb") as pipe:
            ok, result = pickle.loads(pipe.read())
        os.waitpid(child, 0)
        assert ok, result
        value: T = result
        return value

    def type(self, line: str, path: str) -> "subprocess.CompletedProcess[str]":
        """Run a line of the shell as this user does after a login; path: where the user's programs are."""
        env = {"HOME": str(self.home), "USER": self.name, "LANG": "C.UTF-8", "PATH": path}
        return run_line(
            ["bash", "-c", line],
            env=env | {"MUSTER_SOCKET": str(self.socket)},
            cwd=self.home,
            user=self.uid,
            group=self.entry.pw_gid,
            extra_groups=os.getgrouplist(self.name, self.entry.pw_gid),
        )

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        """Return the status and the body of the server's answer."""

        def request() -> tuple[int, str]:
            connection = _Local(self.socket)
            kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": kind, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        return self.do(request)

    def create(self, path: str, body: Any) -> Any:
        status, text = self.ask("POST", path, body)
        assert status == 201, text
        return json.loads(text)

    def run_pod(self, name: str, command: str, *, wait: bool = True, **spec: Any) -> Any:
        """Create a pod of one container that runs a shell command; return it once it has ended."""
        self.create(f"/api/v1/namespaces/{self.namespace}/pods", pod(name, command, **spec))
        return self.wait_for_pod(name, "Succeeded", "Failed") if wait else self.wait_for_pod(name, "Running")

    def wait_for_pod(self, name: str, *phases: str) -> Any:

        def look() -> Any:
            found = self.look_at(name)
            return found if found["status"].get("phase") in phases else None

        return until(look)

    def look_at(self, name: str, namespace: str = "") -> Any:
        status, text = self.ask("GET", f"/api/v1/namespaces/{namespace or self.namespace}/pods/{name}")
        assert status == 200, text
        return json.loads(text)

    def output_of(self, name: str) -> str:
        status, text = self.ask("GET", f"/api/v1/namespaces/{self.namespace}/pods/{name}/log")
        assert status == 200, text
        return text


def pod(name: str, command: str, *, container: Any = None, **spec: Any) -> Any:
    """A pod of one container that runs a shell command."""
    main = {"name": "c", "image": "none", "command": ["/bin/sh", "-c", command], **(container or {})}
    return {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [main], **spec}}


def _add_user(name: str) -> None:
    def is_added() -> bool:
        done = subprocess.run(["useradd", "--create-home", "--user-group", name], check=False, capture_output=True)
        if done.returncode != _PASSWD_IS_LOCKED:
            done.check_returncode()
        return done.returncode == 0

    until(is_added)


@contextmanager
def new_people(socket_path: Path, *names: str) -> Iterator[list[Person]]:
    """Users with homes that only they can read; they are gone afterwards."""
    try:
        for name in names:
            _add_user(name)
            Path(pwd.getpwnam(name).pw_dir).chmod(0o700)
        yield [Person(name, socket_path) for name in names]
    finally:
        for name in names:
            subprocess.run(["userdel", "--force", "--remove", name], check=False, capture_output=True)
