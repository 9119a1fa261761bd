"""What a command of one question loads, and by which way it reaches the server of its user."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import ROOT, Muster

# Each of these takes longer to import than the server takes to answer.
SLOW = (
    "asyncio",
    "aiohttp",
    "ssl",
    "yaml",
    "http.client",
    "numpy",
    "random",
    "dataclasses",
    "subprocess",
    "re2",
    "muster.api.podgroups",
    "muster.api.validation.kueue",
)

PROBE = """
import sys
from muster.cli.main import main
try:
    main(sys.argv[2:])
finally:
    print(*(name for name in sys.argv[1].split(",") if name in sys.modules), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def cluster(shared_up: Muster) -> Muster:
    shared_up("run", "--name", "done", "--", "echo", "said")
    shared_up("run", "--name", "waits", "--detach", "--begin", "+9h", "--", "true")
    for _ in range(100):
        if "begins" in shared_up("ps").stdout:
            return shared_up
    raise AssertionError("the job does not wait")


QUESTIONS = (
    ("ps",),
    ("ps", "-A", "-o", "json"),
    ("ps", "no-such-job"),
    ("status",),
    ("why", "done"),
    ("logs", "done"),
    ("logs", "waits", "--tail", "3"),
    ("cancel", "no-such-job"),
    ("hold", "waits"),
    ("release", "waits"),
    ("history",),
    ("top",),
    ("alter", "waits", "--time", "1h"),
    ("scale", "no-such-job", "2"),
    ("queue", "list"),
    ("queue", "stop", "default"),
    ("queue", "resume", "default"),
)


@pytest.mark.parametrize("arguments", QUESTIONS, ids=" ".join)
def test_a_question_loads_no_slow_module(cluster: Muster, arguments: tuple[str, ...]) -> None:
    program = [sys.executable, "-c", PROBE, ",".join(SLOW), *arguments]
    done = subprocess.run(program, env=cluster.env(), capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == ""


# What a job without a cluster needs no part of.
UNUSED = (
    "aiohttp",
    "prometheus_client",
    "http.client",
    "email",
    "importlib.metadata",
    "yaml",
    "cryptography",
    "sqlite3",
    "muster.actions.jobs.cancelling",
    "muster.api.config.rules",
    "muster.cluster.apiserver.cel.library",
    "muster.cluster.apiserver.cel.rules",
    "muster.cluster.apiserver.openapi",
    "muster.cluster.apiserver.pods.tunnels.channels",
    "muster.cluster.apiserver.pods.tunnels.spdy",
    "muster.cluster.nodes.simulated",
    "muster.queueing.scheduling.estimate",
)


def test_a_cluster_of_one_command_loads_no_module_that_it_does_not_use(muster: Muster) -> None:
    program = [sys.executable, "-c", PROBE, ",".join(UNUSED), "run", "--workers", "1", "--", "true"]
    done = subprocess.run(program, env=muster.env(), capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.splitlines()[-1] == ""


def test_a_refused_restore_loads_no_server(muster: Muster) -> None:
    program = [sys.executable, "-c", PROBE, "muster.cluster.controlplane,cryptography", "restore", "nowhere"]
    done = subprocess.run(program, env=muster.env(), capture_output=True, text=True, timeout=60, check=False)
    assert "Error: cannot restore nowhere" in done.stderr
    assert done.stderr.splitlines()[-1] == ""


LATE = """
import ast, importlib, sys
from pathlib import Path
from muster.cluster.serving import LATE_MODULES

for name in LATE_MODULES:
    importlib.import_module(name)
loaded = [module.__file__ for name, module in sys.modules.items() if name.startswith("muster.cluster.")]
functions = [
    node
    for file in loaded
    for node in ast.walk(ast.parse(Path(file).read_text()))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
]
imports = {one for function in functions for one in ast.walk(function) if isinstance(one, ast.ImportFrom)}
modules = {one.module for one in imports} | {f"{one.module}.{alias.name}" for one in imports for alias in one.names}
files = {name: Path(*name.split(".")).with_suffix(".py") for name in modules - sys.modules.keys()}
print(*sorted(name for name, file in files.items() if name.startswith("muster.") and Path(sys.argv[1], file).exists()))
"""

# What a server imports only at its start, or brings a library of its own.
LEFT_OUT = {
    "muster.api.values.yaml_decode",
    "muster.cluster.apiserver.admission.webhooks.sending",
    "muster.cluster.apiserver.pods.tunnels.websocket",
    "muster.cluster.nodes.simulated.nodes",
    "muster.runtime.kube.kubeconfig_files",
}


def test_a_server_loads_in_time_what_its_requests_import() -> None:
    """An upgrade in place replaces files that a running server would import later."""
    program = [sys.executable, "-c", LATE, str(ROOT / "src")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) == LEFT_OUT


PATTERNS = """
import re, sys
from muster.cli.main import main
try:
    main(sys.argv[1:])
finally:
    found = (
        f"{name}.{key}"
        for name, module in list(sys.modules.items())
        if name.startswith("muster.")
        for key, value in vars(module).items()
        if isinstance(value, re.Pattern)
    )
    print(*sorted(found), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [("ps",), ("status",), ("why", "done"), ("cancel", "no-such-job")], ids=" ".join)
def test_a_question_compiles_no_pattern_on_import(cluster: Muster, arguments: tuple[str, ...]) -> None:
    """Python compiles a pattern at its first use, and most patterns of a command match nothing of its answer."""
    program = [sys.executable, "-c", PATTERNS, *arguments]
    done = subprocess.run(program, env=cluster.env(), capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == ""


VALUES = """
import dataclasses, sys
import muster.cli.commands.observation.ps, muster.cli.commands.submission.run, muster.cluster.serving

def could_be_struct(type_):
    return all(one.compare and one.init and one.hash is None for one in dataclasses.fields(type_))

found = {
    one
    for name, module in list(sys.modules.items())
    if name.startswith("muster.")
    for one in vars(module).values()
    if isinstance(one, type) and one.__module__ == name and dataclasses.is_dataclass(one) and could_be_struct(one)
}
print(*sorted(one.__qualname__ for one in found))
"""


def test_values_of_commands_and_of_the_server_are_structs() -> None:
    """To make a dataclass takes a class ten times as long, and a server loads over a hundred values."""
    done = subprocess.run([sys.executable, "-c", VALUES], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []


def test_completion_asks_over_the_socket_and_loads_no_slow_module(cluster: Muster) -> None:
    words = {"_MUSTER_COMPLETE": "bash_complete", "COMP_WORDS": "muster logs d", "COMP_CWORD": "2"}
    program = [sys.executable, "-c", PROBE, ",".join((*SLOW, "socket"))]
    done = subprocess.run(program, env=cluster.env() | words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("plain,done\n", "socket\n")


def test_the_socket_serves_its_owner_alone(cluster: Muster) -> None:
    path = cluster.home / "server.sock"
    assert path.is_socket()
    assert path.stat().st_mode & 0o777 == 0o600
    if os.geteuid() == 0:
        program = f"import os, socket; os.setuid(65534); socket.socket(socket.AF_UNIX).connect({str(path)!r})"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert "PermissionError" in done.stderr


@pytest.mark.parametrize("arguments", [("ps",), ("why", "waits"), ("logs", "done"), ("status",), ("top",)])
def test_both_ways_answer_the_same(cluster: Muster, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    copy = tmp_path / "kubeconfig"
    copy.write_bytes((cluster.home / "kubeconfig").read_bytes())
    by_socket, by_tls = cluster(*arguments), cluster(*arguments, "--kubeconfig", str(copy))
    assert what_stays(by_socket.stdout) == what_stays(by_tls.stdout)


def what_stays(text: str) -> list[list[str]]:
    """Return the words of an output without ages, and without the process and the data of one's own server."""
    return [re.sub(r"\d+[smh]", "", line).split() for line in re.sub(", process .*", "", text).splitlines()]


def test_a_changed_kubeconfig_counts(cluster: Muster) -> None:
    file = cluster.home / "kubeconfig"
    written = file.read_bytes()
    document = yaml.safe_load(written)
    document["contexts"][0]["context"]["namespace"] = "elsewhere"
    try:
        file.write_text(yaml.safe_dump(document))
        assert "no jobs" in cluster("ps").stderr
        document["current-context"] = "gone"
        file.write_text(yaml.safe_dump(document))
        assert "'gone' does not exist" in cluster("ps", check=False).stderr
    finally:
        file.write_bytes(written)
    assert "waits" in cluster("ps").stdout


def test_commands_work_without_the_socket(cluster: Muster) -> None:
    path = cluster.home / "server.sock"
    aside = path.rename(path.with_name("aside"))
    try:
        assert "waits" in cluster("ps").stdout
        assert cluster("logs", "done").stdout == "said\n"
    finally:
        aside.rename(path)


def test_a_home_whose_path_is_too_long_for_a_socket_works(muster: Muster) -> None:
    muster.home = muster.home / ("long" * 30)
    muster("up", "--detach", "--port", "0")
    try:
        assert not (muster.home / "server.sock").exists()
        muster("run", "--name", "done", "--", "true")
        assert "done" in muster("ps").stdout
    finally:
        muster("down")


def test_a_server_that_ends_takes_its_socket_with_it(muster: Muster) -> None:
    muster("up", "--detach", "--port", "0")
    assert (muster.home / "server.sock").is_socket()
    muster("down")
    assert not (muster.home / "server.sock").exists()
    assert "no cluster" in muster("ps", check=False).stderr


def test_commands_are_forked_from_a_process_with_all_modules() -> None:
    """A fork server passes over an import that fails: then each command would load its modules itself."""
    subprocess.run([sys.executable, "-c", "import tests.e2e.preloaded"], cwd=ROOT, timeout=60, check=True)
