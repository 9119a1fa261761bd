"""A cluster that is backed up, lost, and restored; and one that is damaged and salvaged."""

import json
import stat
import subprocess

import pytest
from tests.e2e.server.test_remains import until

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}}}\ndata: {{text: {}}}\n"


def get(muster, path):
    """What the server answers to the admin of its kubeconfig."""
    import asyncio

    from muster.runtime.clock import RealClock
    from muster.runtime.ids import Random
    from muster.runtime.kube.https import HttpsTransport
    from muster.runtime.kube.kubeconfig_files import load
    from muster.runtime.transport import Request

    async def ask():
        transport = HttpsTransport(load({}, path=muster.home / "kubeconfig"), RealClock(), Random())
        try:
            return await transport.request(Request("GET", path[0], path[1] if len(path) > 1 else {}))
        finally:
            await transport.close()

    answer = asyncio.run(ask())
    return answer.status, answer.body


def maps(muster):
    status, body = get(muster, ("/api/v1/namespaces/default/configmaps",))
    assert status == 200
    found = json.loads(body)
    names = {item["metadata"]["name"]: item["data"].get("text") for item in found["items"]}
    return {name: text for name, text in names.items() if name.startswith("m")}, found["metadata"]["resourceVersion"]


def watch_status(muster, since):
    query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": "1"}
    status, body = get(muster, ("/api/v1/configmaps", query))
    return json.loads(body.splitlines()[0])["object"].get("code", status) if status == 200 else status


@pytest.mark.timeout(400)
def test_a_backup_is_made_while_it_runs_and_restored(muster, tmp_path):
    backup = tmp_path / "backup"
    muster("up", "--detach", "--port", "0")
    muster("apply", "-f", "-", input=MAP.format("m1", "before"))
    _, seen = maps(muster)
    said = muster("backup", str(backup)).stdout
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert "objects, revision" in said
    again = muster("backup", str(backup), check=False)
    assert (again.returncode, "--force" in again.stderr) == (1, True)
    assert muster("restore", str(backup), check=False).returncode == 1, "a server runs"
    muster("apply", "-f", "-", input=MAP.format("m1", "after") + "---\n" + MAP.format("m2", "after"))
    _, later = maps(muster)
    muster("down")
    authority = (muster.home / "pki" / "ca.pem").read_bytes()
    kept = muster("restore", str(backup), check=False)
    assert (kept.returncode, "--force" in kept.stderr) == (1, True)
    muster("restore", "--force", str(backup))
    muster("up", "--detach", "--port", "0")
    there, now = maps(muster)
    assert there == {"m1": "before"}
    assert int(now) > int(later) + 1_000_000
    assert (watch_status(muster, seen), watch_status(muster, later)) == (410, 410)
    assert (muster.home / "pki" / "ca.pem").read_bytes() == authority


@pytest.mark.timeout(400)
def test_a_backup_of_one_that_is_stopped_goes_into_an_empty_home(muster, tmp_path):
    muster("up", "--detach", "--port", "0")
    muster("apply", "-f", "-", input=MAP.format("m1", "x"))
    muster("down")
    muster("backup", str(tmp_path / "backup"))
    authority = (muster.home / "pki" / "ca.pem").read_bytes()
    muster.home.rename(tmp_path / "old")
    muster("restore", str(tmp_path / "backup"))
    assert (muster.home / "pki" / "ca.pem").read_bytes() == authority
    muster("up", "--detach", "--port", "0")
    assert maps(muster)[0] == {"m1": "x"}


def phases(muster):
    """Return the phase of each pod."""
    _, body = get(muster, ("/api/v1/pods",))
    return [pod["status"].get("phase") for pod in json.loads(body)["items"]]


def count_running(muster):
    """Return how many pods run."""
    return phases(muster).count("Running")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("nodes", ["process", "process:3,pods=2"])
def test_gangs_that_ran_start_again_in_a_new_home_and_so_do_others(muster, tmp_path, nodes):
    """Their processes are not there: that is said of each pod, whatever nodes its peers are on."""
    start = ("up", "--detach", "--port", "0", "--nodes", nodes)
    muster(*start)
    for name in ("g1", "g2"):
        muster("run", "--detach", "--name", name, "--workers", "3", "--cpus", "1m", "--", "sleep", "1000")
    until(lambda: count_running(muster) == 6)
    until(lambda: muster("ps").stdout.count("3/3") == 2)
    assert len({path.parent for path in muster.home.glob("nodes/*/pods/*")}) == (3 if "3" in nodes else 1)
    muster("backup", str(tmp_path / "backup"))
    muster("down")
    muster.home.rename(tmp_path / "old")
    muster("restore", str(tmp_path / "backup"))
    muster(*start)
    until(lambda: count_running(muster) == 6)
    until(lambda: muster("ps").stdout.count("3/3") == 2)
    muster("cancel", "g1", "g2")
    until(lambda: set(phases(muster)) <= {"Succeeded", "Failed"})
    assert muster("run", "--workers", "3", "--cpus", "1m", "--", "echo", "served").stdout.count("served") == 3
    assert "may specify no more than one IP" not in (muster.home / "server.log").read_text()


@pytest.mark.timeout(400)
def test_a_damaged_store_is_salvaged(muster):
    muster("up", "--detach", "--port", "0")
    muster("apply", "-f", "-", input="---\n".join(MAP.format(f"m{number}", "here") for number in range(3)))
    _, seen = maps(muster)
    muster("down")
    content = bytearray((muster.home / "store.db").read_bytes())
    content[content.index(b'"name":"m1"')] ^= 1
    (muster.home / "store.db").write_bytes(content)
    refused = muster("up", "--detach", "--port", "0", check=False)
    assert (refused.returncode, "muster up --salvage" in refused.stderr) == (1, True)
    said = muster("up", "--salvage", "--detach", "--port", "0").stderr
    assert "configmaps default/m1" in said
    assert "1 object is lost" in said
    there, now = maps(muster)
    assert there == {"m0": "here", "m2": "here"}
    assert int(now) > int(seen) + 1_000_000
    [aside] = muster.home.glob("damaged-*")
    assert (aside / "store.db").read_bytes() == bytes(content)
    assert "m1" in (aside / "lost-or-old").read_text()
    muster("down")
    assert "nothing to salvage" in muster("up", "--salvage", "--detach", "--port", "0").stderr


@pytest.fixture(scope="module")
def backup(shared_muster):
    """Return a backup of a cluster that is stopped."""
    shared_muster("up", "--detach", "--port", "0")
    backup = shared_muster.home.parent / "backup"
    shared_muster("backup", str(backup))
    shared_muster("down")
    return backup.read_bytes()


@pytest.mark.parametrize("damage", ["nothing", "a bit", "the end", "something else", "a store"])
def test_what_is_no_whole_backup_is_refused(shared_muster, backup, tmp_path, damage):
    content = bytearray(backup)
    content[content.index(b"kube-system") + 3] ^= 4
    replaced = {
        "nothing": b"",
        "a bit": bytes(content),
        "the end": backup[:-9000],
        "something else": b"x" * 9000,
        "a store": (shared_muster.home / "store.db").read_bytes(),
    }
    (tmp_path / "backup").write_bytes(replaced[damage])
    before = {path.name: path.read_bytes() for path in shared_muster.home.iterdir() if path.is_file()}
    done = shared_muster("restore", "--force", str(tmp_path / "backup"), check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert {path.name: path.read_bytes() for path in shared_muster.home.iterdir() if path.is_file()} == before


def test_commands_say_what_is_wrong(muster, tmp_path):
    for words in (["backup", "x"], ["restore", "nowhere"], ["restore", "/"], ["backup", "/nowhere/x"]):
        done = subprocess.run(
            [muster.command, *words], env=muster.env(), cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, words
        assert done.stderr.count("\n") == 1, done.stderr
