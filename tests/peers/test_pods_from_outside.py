"""exec, attach, cp, port-forward and logs, as every kubectl and the official Python client ask for them.

From 1.31 on kubectl asks for WebSockets for commands and for ports.
"""

import fcntl
import http.client
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.peers.conftest import play_client

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(120)]

Kubectl: TypeAlias = Any  # the fixture's class, in conftest

SECONDS = 30.0
SERVE = (
    "import http.server as h, os; h.ThreadingHTTPServer((os.environ['IP'], 8099), "
    "h.SimpleHTTPRequestHandler).serve_forever()"
)
PODS = f"""
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: none
    command: [{sys.executable}, -u, -c, "{SERVE}"]
    workingDir: WORKING_DIRECTORY
    env:
    - {{name: GREETING, value: hello}}
    - {{name: IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}
    readinessProbe: {{tcpSocket: {{port: 8099}}, periodSeconds: 1}}
  - name: side
    image: none
    command: [sh, -c, 'i=0; while :; do echo line $((i=i+1)); sleep 0.2; done']
---
apiVersion: v1
kind: Pod
metadata: {{name: shell}}
spec:
  terminationGracePeriodSeconds: 1
  restartPolicy: Never
  containers:
  - {{name: main, image: none, command: [sh], stdin: true, stdinOnce: true, tty: true}}
---
apiVersion: v1
kind: Pod
metadata: {{name: cat}}
spec:
  terminationGracePeriodSeconds: 1
  restartPolicy: Never
  containers:
  - {{name: main, image: none, command: [cat], stdin: true, stdinOnce: true}}
"""


def pods(kubectl, directory):
    kubectl("apply", "-f", "-", input=PODS.replace("WORKING_DIRECTORY", str(directory)))
    kubectl("wait", "--for=condition=Ready", "pod/p", "pod/shell", "pod/cat", "--timeout=20s")


def remove(kubectl):
    kubectl("delete", "pods", "--all", "--wait=false")


@pytest.fixture
def everything(kubectl, tmp_path):
    pods(kubectl, tmp_path)
    yield kubectl
    remove(kubectl)


class Terminal:
    """A command at a terminal of this size."""

    def __init__(self, kubectl: Kubectl, *arguments: str, columns: int = 77, rows: int = 33) -> None:
        self.master, slave = pty.openpty()
        self.resize(columns, rows)
        self.said = b""
        self.process = subprocess.Popen(
            kubectl.command(*arguments),
            env=kubectl.env(),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, pattern: str) -> bytes:
        """What it says up to something, from where the last call ended."""
        end = time.monotonic() + SECONDS
        while not (found := re.search(pattern.encode(), self.said)):
            assert time.monotonic() < end, self.said
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.said += os.read(self.master, 4096)
                except OSError:
                    raise AssertionError(f"it ended without {pattern}: {self.said!r}") from None
        before, self.said = self.said[: found.end()], self.said[found.end() :]
        return before

    def end(self) -> int:
        """Its exit code."""
        try:
            while select.select([self.master], [], [], SECONDS)[0]:
                self.said += os.read(self.master, 4096)
        except OSError:
            pass
        code = self.process.wait(SECONDS)
        os.close(self.master)
        return code


def exec_works(kubectl):
    done = kubectl.run("exec", "p", "-c", "main", "--", "sh", "-c", "echo $GREETING; echo err >&2; exit 3")
    assert (done.stdout, done.returncode) == ("hello\n", 3)
    # kubectl may get the first message, which is empty, before it has made the stream, and then says so.
    lines = [line for line in done.stderr.splitlines() if "Unknown stream id 1, discarding message" not in line]
    assert sorted(lines) == ["command terminated with exit code 3", "err"]
    assert kubectl("exec", "-i", "p", "-c", "side", "--", "wc", "-c", input="x" * 200_000).strip() == "200000"


def copy_works(kubectl, directory):
    blob, there, back = directory / "blob", directory / "there", directory / "back"
    blob.write_bytes(os.urandom(1 << 20))
    there.mkdir()
    kubectl("cp", str(blob), f"p:{there}/copy", "-c", "main")
    assert (there / "copy").read_bytes() == blob.read_bytes()
    kubectl("cp", f"p:{there}", str(back), "-c", "main")
    assert (back / "copy").read_bytes() == blob.read_bytes()


@contextmanager
def forwarding(kubectl, target, *ports):
    """The local ports of a port-forward."""
    process = subprocess.Popen(
        kubectl.command("port-forward", target, *(f":{port}" for port in ports), "--address=127.0.0.1"),
        env=kubectl.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in ports]
        yield [int(found[1]) for line in lines if (found := re.search(r"127.0.0.1:(\d+) -> ", line))], process
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)


def fetch(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


def forward_works(kubectl, directory):
    (directory / "big").write_bytes(os.urandom(2 << 20))
    (directory / "small").write_bytes(b"small")
    with forwarding(kubectl, "pod/p", 8099) as ([port], _), ThreadPoolExecutor(8) as pool:
        bodies = list(pool.map(lambda turn: fetch(port, "/big" if turn % 4 == 0 else "/small"), range(24)))
    assert all(body == (directory / ("small" if turn % 4 else "big")).read_bytes() for turn, body in enumerate(bodies))


def test_exec(everything):
    exec_works(everything)
    refused = everything.refused("exec", "p", "-c", "main", "--", "no-such-program")
    assert 'exec: "no-such-program": executable file not found in $PATH' in refused
    assert "container none is not valid for pod p" in everything.refused("exec", "p", "-c", "none", "--", "true")
    assert 'pods "none" not found' in everything.refused("exec", "none", "--", "true")


def test_exec_at_a_terminal(everything):
    script = "trap 'stty size' WINCH; tty; stty size; echo ready; while :; do sleep 0.05; done"
    terminal = Terminal(everything, "exec", "-it", "p", "-c", "main", "--", "sh", "-c", script)
    assert b"/dev/" in terminal.until("ready")
    # The size is sent when the command has begun: by the time of the first line it need not have come.
    terminal.resize(100, 40)
    terminal.process.send_signal(signal.SIGWINCH)
    terminal.until("40 100")
    terminal.type("\x03")
    assert terminal.end() == 130, terminal.said


def test_a_shell_at_a_terminal(everything):
    terminal = Terminal(everything, "exec", "-it", "p", "-c", "main", "--", "sh")
    terminal.type("echo $GREETING $((6*7)); exit 4\n")
    terminal.until("hello 42")
    assert terminal.end() == 4


def test_attach(everything):
    done = everything.run("attach", "-i", "cat", input="through and back\n")
    assert (done.returncode, done.stdout) == (0, "through and back\n")
    everything.eventually("get", "pod", "cat", shows="Completed")
    terminal = Terminal(everything, "attach", "-it", "shell")
    terminal.type("echo $((6*7))\n")
    terminal.until("42")
    terminal.type("exit\n")
    assert terminal.end() == 0
    everything.eventually("get", "pod", "shell", shows="Completed")
    watching = subprocess.Popen(
        everything.command("attach", "p", "-c", "side"), env=everything.env(), stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout.readline().startswith("line ")
    watching.kill()
    watching.communicate()


def test_run_at_a_terminal(kubectl):
    terminal = Terminal(
        kubectl, "run", "-it", "--rm", "--restart=Never", "--image=none", "r", "--command", "--", "sh", "-c",
        "read x; echo got $x; exit 7",
    )  # fmt: skip
    terminal.until("try pressing enter")
    terminal.type("hi\n")
    terminal.until("got hi")
    assert terminal.end() == 7
    assert "deleted" in terminal.said.decode()


def test_copy(everything, tmp_path):
    copy_works(everything, tmp_path)


def test_port_forward(everything, tmp_path):
    forward_works(everything, tmp_path)
    with forwarding(everything, "pod/p", 8099, 9) as ([_, closed], process):
        with socket.create_connection(("127.0.0.1", closed), SECONDS) as connection:
            assert connection.recv(1) == b""
        assert process.stderr is not None
        assert "connect: connection refused" in process.stderr.readline()


def test_the_other_releases(other_kubectl, tmp_path):
    pods(other_kubectl, tmp_path)
    exec_works(other_kubectl)
    copy_works(other_kubectl, tmp_path)
    forward_works(other_kubectl, tmp_path)
    terminal = Terminal(
        other_kubectl, "exec", "-it", "p", "-c", "main", "--", "sh", "-c", "echo ready; read x; exit $x"
    )
    terminal.until("ready")
    terminal.type("6\n")
    assert terminal.end() == 6
    remove(other_kubectl)


RESTARTING = """
apiVersion: v1
kind: Pod
metadata: {name: again}
spec:
  terminationGracePeriodSeconds: 1
  restartPolicy: OnFailure
  containers:
  - name: main
    image: none
    command: [sh, -c, 'if [ -e MARK ]; then echo second; exec sleep 1000; else touch MARK; echo first; exit 1; fi']
"""


def test_logs(kubectl, tmp_path):
    script = "for i in 1 2 3 4 5; do echo line $i; done; echo last; exec sleep 1000"
    pod = (
        PODS.split("---")[1]
        .replace("stdin: true, stdinOnce: true, tty: true", "")
        .replace("[sh]", f"[sh, -c, '{script}']")
    )
    kubectl("apply", "-f", "-", input=pod)
    kubectl("apply", "-f", "-", input=RESTARTING.replace("MARK", str(tmp_path / "mark")))
    everything = kubectl.eventually("logs", "shell", shows="last\n")
    assert everything.splitlines() == [*(f"line {i}" for i in range(1, 6)), "last"]
    lines = everything.splitlines(keepends=True)
    assert kubectl("logs", "shell", "--tail=2") == "".join(lines[-2:])
    assert kubectl("logs", "shell", "--tail=0") == ""
    assert kubectl("logs", "shell", "--limit-bytes=9") == everything[:9]
    assert kubectl("logs", "shell", "--since=1h") == everything
    assert kubectl("logs", "shell", "--since-time=2999-01-01T00:00:00Z") == ""
    stamped = kubectl("logs", "shell", "--timestamps").splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z (line|last)", line) for line in stamped)
    assert kubectl("logs", "shell", "--prefix").startswith("[pod/shell/main] line 1\n")
    assert "previous terminated container" in kubectl.refused("logs", "shell", "--previous")
    assert "container x is not valid for pod shell" in kubectl.refused("logs", "shell", "-c", "x")
    kubectl.eventually("logs", "again", shows="second\n")
    assert kubectl("logs", "again", "--previous") == "first\n"
    remove(kubectl)


def test_the_python_client(server: Any, tmp_path: Path) -> None:
    script = Path(__file__).parent / "scripts" / "official_streams.py"
    play_client([sys.executable, str(script)], "official-streams", server, tmp_path)
