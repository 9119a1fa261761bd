"""One queue in front of two machines, by the commands that a user types: three `muster up`, each with its own home."""

import json
import stat
import subprocess
import time
from pathlib import Path

import pytest
from tests.e2e.conftest import Muster, closing

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def three(tmp_path):
    """A manager and two workers, which are reached at addresses of their own."""
    with closing(tmp_path / "m") as manager, closing(tmp_path / "a") as a, closing(tmp_path / "b") as b:
        manager("up", "--detach", "--port", "0")
        for number, worker in enumerate((a, b), start=1):
            worker("up", "--detach", "--port", "0", "--listen", f"127.78.0.{number}")
            worker("queue", "create", "shared", "--cpu", "2")
        manager("queue", "create", "shared", "--cpu", "4")
        yield manager, {"a": a, "b": b}


def invited(worker: Muster, directory: Path) -> str:
    file = directory / f"{worker.home.name}.kubeconfig"
    with file.open("w") as out:
        command = [worker.command, "cluster", "invite"]
        done = subprocess.run(command, env=worker.env(), stdout=out, stderr=subprocess.PIPE, text=True, check=True)
    assert "keep it as you would keep a key" in done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return str(file)


def clusters(manager):
    return {one["name"]: one for one in json.loads(manager("cluster", "list", "-o", "json").stdout)}


def test_a_job_runs_in_one_of_two_workers_and_they_come_and_go(three, tmp_path):
    manager, workers = three
    first = manager("cluster", "join", "a", "--kubeconfig", invited(workers["a"], tmp_path), "--queue", "shared")
    assert first.stdout.splitlines() == [
        "secret/a-kubeconfig (namespace kueue-system) created",
        "multikueuecluster/a created",
        "multikueueconfig/multikueue created",
        "admissioncheck/multikueue created",
        "clusterqueue/shared sends its jobs to one of the clusters",
    ]
    assert "cluster a is connected" in first.stderr
    kubeconfig = workers["b"]("cluster", "invite").stdout
    manager("cluster", "join", "b", "--kubeconfig", "-", input=kubeconfig)
    again = manager("cluster", "join", "b", "--kubeconfig", "-", "--queue", "shared", input=kubeconfig)
    assert again.stdout == ""
    found = clusters(manager)
    assert {name: (one["state"], one["jobs"]) for name, one in found.items()} == {
        "a": ("Connected", []),
        "b": ("Connected", []),
    }
    assert found["a"]["server"].startswith("https://127.78.0.1:")

    script = "echo I am $RANK; while ! test -e $0; do sleep 0.1; done"
    gate = tmp_path / "gate"
    options = ["--name", "train", "--queue", "shared", "--workers", "2", "--cpus", "1"]
    manager("run", "--detach", *options, "--", "sh", "-c", script, str(gate))
    while not (running := [one for one in clusters(manager).values() if one["jobs"]]):
        time.sleep(0.5)
    [home] = running
    assert home["jobs"] == ["default/train"]
    [row] = json.loads(workers[home["name"]]("ps", "-o", "json").stdout)
    assert row["name"] == "train"
    other = "b" if home["name"] == "a" else "a"
    assert json.loads(workers[other]("ps", "-o", "json").stdout) == []
    while sorted(manager("logs", "train").stdout.splitlines()) != ["[0] I am 0", "[1] I am 1"]:
        time.sleep(0.5)
    assert manager("logs", "train", "--rank", "1").stdout == "I am 1\n"
    said = manager(
        "exec", "train", "--rank", "1", "--", "sh", "-c", "cat; echo $RANK; exit 7", input="beside ", check=False
    )
    assert (said.returncode, said.stdout) == (7, "beside 1\n")

    options = ["--name", "grow", "--queue", "shared", "--workers", "1", "--elastic", "1:2", "--cpus", "1"]
    starts = tmp_path / "starts"
    manager("run", "--detach", *options, "--", "sh", "-c", "echo $RANK >> $0; sleep 1000", str(starts))
    while not starts.exists():
        time.sleep(0.5)
    manager("scale", "grow", "2")
    while "1\n" not in starts.read_text():
        time.sleep(0.5)
    assert starts.read_text() == "0\n1\n", "the one that ran runs on"
    assert clusters(manager)[other]["jobs"] == ["default/grow"]
    manager("cancel", "grow")

    refused = manager("cluster", "leave", home["name"], check=False)
    assert (refused.returncode, "default/train" in refused.stderr) == (1, True)
    forced = manager("cluster", "leave", home["name"], "--force")
    assert f"stopping in cluster {home['name']}: default/train" in forced.stderr
    while clusters(manager)[other]["jobs"] != ["default/train"]:
        time.sleep(0.5)
    assert set(clusters(manager)) == {other}
    gate.touch()
    assert manager("wait", "train").returncode == 0

    # Each waits for the other's last words: the first failure ends the job, and the other worker with it.
    script = "echo I am $RANK; echo bye; touch $0.$RANK; until test -e $0.0 -a -e $0.1; do sleep 0.1; done; exit 3"
    command = ["--", "sh", "-c", script, str(tmp_path / "said")]
    done = manager("run", "--queue", "shared", "--workers", "2", *command, check=False)
    assert done.returncode == 3
    assert sorted(done.stdout.splitlines()) == ["[0] I am 0", "[0] bye", "[1] I am 1", "[1] bye"]
    [ended] = [
        one["name"] for one in json.loads(manager("ps", "-o", "json").stdout) if one["name"] not in ("train", "grow")
    ]
    assert manager("wait", ended, check=False).returncode == 3
    assert sorted(manager("logs", ended).stdout.splitlines()) == sorted(done.stdout.splitlines())

    assert (
        "nothing reads the standard input"
        in manager("run", "--queue", "shared", "--stdin", "--", "cat", check=False).stderr
    )
    done = manager("run", "--queue", "shared", "--", "cat", input="here\n")
    assert (done.stdout, "the standard input is not passed on" in done.stderr) == ("", True)

    last = manager("cluster", "leave", other)
    assert "admissioncheck/multikueue" not in last.stdout, "the queue names it: it would be going for ever"
    assert "nothing starts from these ClusterQueues until a cluster joins: shared" in last.stderr
    assert "no clusters" in manager("cluster", "list").stderr
    missing = manager("cluster", "leave", other, check=False)
    assert f"there is no cluster {other}; there is none" in missing.stderr


def test_what_waits_in_a_cluster_that_leaves_waits_there_no_more(up, tmp_path):
    with closing(tmp_path / "a") as worker:
        worker("up", "--detach", "--port", "0", "--listen", "127.78.0.3")
        for machine, cpus in ((worker, "1"), (up, "4")):
            machine("queue", "create", "shared", "--cpu", cpus)
        kubeconfig = worker("cluster", "invite", "--namespace", "default").stdout
        up("cluster", "join", "a", "--kubeconfig", "-", "--queue", "shared", input=kubeconfig)
        up("run", "--detach", "--name", "wide", "--queue", "shared", "--workers", "2", "--cpus", "1", "--", "true")
        while clusters(up)["a"]["tried"] != 1 or not json.loads(worker("ps", "-o", "json").stdout):
            time.sleep(0.5)
        why = up("why", "wide").stdout
        assert ">> cluster    it is tried in a" in why
        assert "can never start" not in why, "the manager's own nodes say nothing of it"
        up("cluster", "leave", "a")
        assert json.loads(worker("ps", "-o", "json").stdout) == []
        up("cluster", "join", "a", "--kubeconfig", "-", input=kubeconfig)
        while clusters(up)["a"]["tried"] != 1 or not json.loads(worker("ps", "-o", "json").stdout):
            time.sleep(0.5)
        up("cancel", "wide")
        while json.loads(worker("ps", "-o", "json").stdout):
            time.sleep(0.5)


def test_what_cannot_be_used_is_refused_before_anything_is_written(up, tmp_path):
    def join(text):
        done = up("cluster", "join", "x", "--kubeconfig", "-", "--timeout", "1", input=text, check=False)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        return done.stderr

    own = (up.home / "kubeconfig").read_text()
    assert "is the manager itself" in join(own)
    assert "insecure-skip-tls-verify is not allowed" in join(
        own.replace("certificate-authority-data", "insecure-skip-tls-verify: true\n    x")
    )
    assert "tokenFile is not allowed" in join(own.replace("    token: ", "    tokenFile: /"))
    assert "no clusters" in up("cluster", "list").stderr

    invitation = up("cluster", "invite", "--server", "https://127.78.0.9:1")
    assert "is reached from this machine only" in invitation.stderr
