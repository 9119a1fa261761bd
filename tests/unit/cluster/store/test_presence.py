"""Files that are removed while a process has them open."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.cluster.store.presence import Presence


def _remove(file: Path) -> None:
    file.unlink()


def _replace(file: Path) -> None:
    file.unlink()
    file.write_text("another")


def _move(file: Path) -> None:
    file.rename(file.with_name("moved"))


def _link_and_remove(file: Path) -> None:
    file.with_name("link").hardlink_to(file)
    file.unlink()


def _change(file: Path) -> None:
    file.write_text("longer than before")


@pytest.mark.parametrize(
    ("change", "is_removed"),
    [(_remove, True), (_replace, True), (_move, False), (_link_and_remove, False), (_change, False)],
)
def test_what_was_removed(tmp_path: Path, change: Callable[[Path], None], is_removed: bool) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("")
    second.write_text("")
    presence = Presence(first, second)
    assert presence.find_removed() is None
    change(second)
    assert presence.find_removed() == (second if is_removed else None)
    presence.close()


def test_a_file_that_is_missing_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "first").write_text("")
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        Presence(tmp_path / "first", tmp_path / "second")
    assert os.listdir("/proc/self/fd") == before


def test_its_end_leaves_the_locks_of_the_process(tmp_path: Path) -> None:
    """Those of `fcntl`, as SQLite takes them, end with any other descriptor of the file."""
    path = tmp_path / "file"
    with path.open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        Presence(path).close()
        again = f"import fcntl; fcntl.lockf(open({str(path)!r}, 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        done = subprocess.run([sys.executable, "-I", "-c", again], capture_output=True, text=True, check=False)
    assert "BlockingIOError" in done.stderr
