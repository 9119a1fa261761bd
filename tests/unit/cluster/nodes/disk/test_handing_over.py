"""What of a pod's directories an account reaches, and what root takes from a directory that an account owns."""

import asyncio
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.api.status import ApiError
from muster.cluster.nodes import shims
from muster.cluster.nodes.container import launching
from muster.cluster.nodes.container.attaching import join
from muster.cluster.nodes.container.logfiles import Reader
from muster.cluster.nodes.disk import plainfiles
from muster.cluster.nodes.disk.leftovers import end_pod
from muster.cluster.nodes.disk.states import States
from muster.cluster.nodes.disk.storage import PodRecord, Storage
from muster.cluster.nodes.shim.attachment import STDOUT, encode_frame
from muster.cluster.nodes.shim.supervisor import EXCESS, STATE
from muster.runtime.containerlogs import Missing
from muster.runtime.process.accounts import Account

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files to others")

ROOT = Path(__file__).parents[5]
NOBODY = Account("nobody", 65534, 65534, (65534,), "/", "/bin/sh")


def look(path: Path) -> tuple[int, int, int]:
    status = path.lstat()
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "node", tmp_path, shared=True)


def test_only_the_private_group_enters_a_pod_and_only_an_attempt_is_given_away(
    storage: Storage, tmp_path: Path
) -> None:
    place = storage.of("u")
    place.write(PodRecord("n", "p", "u"))
    place.volume("v", in_memory=True).mkdir()
    place.volume("w").mkdir()
    attempt = place.begin("c", 0)
    place.hand_over(NOBODY, "c", 0)
    group = NOBODY.private_group
    assert look(place.root) == (0, group, 0o710)
    assert look(attempt) == (NOBODY.uid, NOBODY.gid, 0o700)
    for path in (place.root / "volumes", attempt.parent, attempt.parent.parent):
        assert look(path) == (0, 0, 0o711)
    [memory] = tmp_path.glob("muster-0-*-u")
    assert look(memory) == (0, group, 0o710)
    for path in (tmp_path / "node", tmp_path / "node" / "pods", tmp_path / "node" / "removed"):
        assert look(path) == (0, 0, 0o711)
    place.volume("x", in_memory=True)
    assert look(memory) == (0, group, 0o710)


def test_a_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "attempt").mkdir()
    file = tmp_path / "attempt" / "state"
    file.write_text("{}")
    assert plainfiles.read(file) == b"{}"
    os.chown(tmp_path / "attempt", NOBODY.uid, NOBODY.gid)  # the file stays root's, as one behind a hard link would
    with pytest.raises(plainfiles.OddFileError, match="belongs to another user than its directory"):
        plainfiles.read(file)


def test_a_log_of_another_user_is_not_shown_and_holds_up_nobody(tmp_path: Path) -> None:
    line = b"2026-01-01T00:00:00.000000000Z stdout F %s\n"
    (tmp_path / "log.0.0").write_bytes(line % b"hidden")
    (tmp_path / "log.1.0").write_bytes(line % b"shown")
    os.chown(tmp_path, NOBODY.uid, NOBODY.gid)
    os.chown(tmp_path / "log.1.0", NOBODY.uid, NOBODY.gid)
    reader = Reader(tmp_path)
    assert list(reader.read()) == [Missing(0), line % b"shown"]
    reader.close()


def test_a_line_without_an_end_takes_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "log.0.0").open("wb") as file:
        file.truncate(1 << 30)
    reader = Reader(tmp_path)
    reader.seek(10)
    assert not any(reader.read())
    reader.close()


@pytest.fixture
def leased(tmp_path: Path) -> Iterator[Path]:
    """A file with a lease: whoever opens it without blocking gets EAGAIN."""
    file = tmp_path / "log.0.0"
    file.write_text("{}")
    ready, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        fcntl.fcntl(os.open(file, os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)
        os.write(writer, b"!")
        signal.pause()
    os.read(ready, 1)
    yield file
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_file_with_a_lease_of_its_user_fails_nothing(leased: Path) -> None:
    with pytest.raises(plainfiles.OddFileError, match="temporarily unavailable"):
        plainfiles.read(leased)
    reader = Reader(leased.parent)
    assert list(reader.read()) == []
    leased.rename(leased.with_name(STATE))
    assert shims.read_record(leased.parent) == shims.ShimRecord()
    assert shims.find(leased.parent) is None


def test_a_log_that_its_user_removes_while_it_is_measured_fails_nothing(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = storage.of("u").begin("c", 0)
    (attempt / "log.0.0").write_text("text")
    names = plainfiles.list_names
    monkeypatch.setattr(
        plainfiles, "list_names", lambda path: [*names(path), "removed"] if path == attempt else names(path)
    )
    assert storage.of("u").log_bytes() == 4


def test_an_endless_frame_in_the_place_of_a_shims_output_ends_it(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "attach"))
        listener.listen()

        async def attach() -> list[tuple[int, bytes]]:
            async with join(tmp_path, writes=False, listens=True) as joined:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(encode_frame(STDOUT, b"text") + bytes((STDOUT, 255, 255, 255, 255)))
                    async with asyncio.timeout(10):
                        return [piece async for piece in joined.output()]

        assert asyncio.run(attach()) == [(STDOUT, b"text")]


@pytest.mark.parametrize("kind", ["link", "foreign", "file"])
def test_only_the_users_own_socket_is_joined(tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "attempt"
    directory.mkdir()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "root.sock"))
        other.listen()
        other.setblocking(False)
        if kind == "link":
            (directory / "attach").symlink_to(tmp_path / "root.sock")
        elif kind == "foreign":
            (tmp_path / "root.sock").rename(directory / "attach")
        else:
            (directory / "attach").touch()
        os.chown(directory, NOBODY.uid, NOBODY.gid)

        async def attach() -> None:
            async with join(directory, writes=True, listens=True):
                pass

        with pytest.raises(ApiError, match="cannot attach to the container"):
            asyncio.run(attach())
        with pytest.raises(BlockingIOError):
            other.accept()


def test_a_process_of_another_user_passes_for_no_shim(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.touch()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        fcntl.lockf(os.open(state, os.O_RDWR), fcntl.LOCK_EX)
        os.write(writer, b"!")
        signal.pause()
    os.read(reader, 1)
    try:
        shim = shims.find(tmp_path)
        assert shim is not None
        assert shim.pid == child
        shim.close()
        for path in (tmp_path, state):
            os.chown(path, NOBODY.uid, NOBODY.gid)
        assert shims.find(tmp_path) is None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_no_process_ends_because_a_user_says_that_it_is_part_of_a_container(storage: Storage) -> None:
    """The search for such processes also reads the memory of all users' processes, who can keep the reader waiting."""
    storage.of("u").write(PodRecord("n", "p", "u"))
    attempt = storage.of("u").begin("c", 0)
    (attempt / STATE).write_text('{"claimed":1,"started":1}')
    with subprocess.Popen(["sleep", "60"], env={shims.MARK.decode(): launching.make_mark("u", "c")}) as marked:
        try:
            for path in (attempt / STATE, attempt):
                os.chown(path, NOBODY.uid, NOBODY.gid)
            asyncio.run(end_pod(storage, "u"))
            assert marked.poll() is None
        finally:
            marked.kill()


@pytest.mark.parametrize("kind", ["directory", "file", "missing"])
def test_programs_that_others_can_change_are_not_run_as_root(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "file":
        place.touch()
        os.chown(place, NOBODY.uid, NOBODY.gid)
    else:
        place.mkdir(mode=0o755)
        os.chown(place, NOBODY.uid, NOBODY.gid)
        place = place / "modules" if kind == "missing" else place
    code = f"""import sys
from pathlib import Path
from muster.cluster.nodes.disk.leftovers import prepare_for_accounts
sys.path.append({str(place)!r})
prepare_for_accounts(Path({str(tmp_path)!r}) / "muster" / "0" / "nodes")"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "NotOursError" in done.stderr
    assert str(place.parent if kind == "missing" else place) in done.stderr


def test_the_reason_of_an_end_is_written_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "attempt").mkdir()
    reason, precious = tmp_path / "attempt" / EXCESS, tmp_path / "precious"
    precious.write_text("precious")
    reason.symlink_to(precious)
    shim = shims.Shim(tmp_path / "attempt", 0, -1)
    with pytest.raises(FileExistsError):
        shim.note_excess(7)
    assert precious.read_text() == "precious"
    reason.unlink()
    shim.note_excess(7)
    assert (reason.read_text(), look(reason)[2]) == ("7", 0o644)  # an account's shim reads it


def test_each_account_has_a_directory_of_its_own_for_a_job(tmp_path: Path) -> None:
    """Whose pod comes first, must not matter: preempted users learn the UIDs of jobs that have no pods yet."""
    states, daemon = States(tmp_path / "state", shared=True), Account("daemon", 1, 1, (1,), "/", "/bin/sh")
    for account in (daemon, NOBODY):
        states.make("j", account)
    assert look(states.of("j", NOBODY)) == (NOBODY.uid, NOBODY.gid, 0o700)
    assert look(states.of("j", daemon)) == (1, 1, 0o700)
    assert look(states.of("j")) == look(tmp_path / "state") == (0, 0, 0o711)
    states.of("k", NOBODY).mkdir(parents=True)  # a server that was killed in between has made it
    states.make("k", NOBODY)
    assert look(states.of("k", NOBODY))[0] == NOBODY.uid
    assert [path.name for path in states.forget("j")] == [".j"]
    assert not states.of("j").exists()
