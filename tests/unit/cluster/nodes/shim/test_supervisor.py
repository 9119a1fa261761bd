"""When the directory of an attempt counts as removed."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.cluster.nodes.shim.supervisor import has_links, is_removed


@contextmanager
def opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def test_a_directory_is_removed_once_nothing_links_to_it(tmp_path: Path) -> None:
    here = tmp_path / "a" / "attempt"
    here.mkdir(parents=True)
    with opened(here) as directory:
        assert has_links(directory)
        assert not is_removed(directory)
        here.parent.rename(tmp_path / "moved")
        assert not is_removed(directory), "it has another path"
        (tmp_path / "moved").chmod(0)
        assert not is_removed(directory), "nobody may look"
        (tmp_path / "moved").chmod(0o700)
        (tmp_path / "moved" / "attempt").rmdir()
        assert is_removed(directory)
        assert not has_links(directory)


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EIO, errno.EACCES, errno.ENOTCONN])
def test_a_file_system_that_does_not_answer_has_removed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(_: int) -> os.stat_result:
        raise OSError(code, os.strerror(code))

    with opened(tmp_path) as directory:
        monkeypatch.setattr(os, "fstat", fail)
        assert not is_removed(directory)
        assert not has_links(directory), "a removal could not be told later"
        monkeypatch.undo()
