"""A private file is written whole, or not at all."""

import os
import stat
from pathlib import Path

import pytest

from muster.runtime.process.privatefiles import write_private


def test_a_file_is_replaced_and_its_owners_alone_whatever_it_was(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o644)
    write_private(file, b"new")
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_that_lies_in_the_way_is_not_followed(tmp_path: Path) -> None:
    aim = tmp_path / "aim"
    aim.write_text("stays")
    (tmp_path / "file.new").symlink_to(aim)
    write_private(tmp_path / "file", b"new")
    assert aim.read_text() == "stays"


def test_the_old_file_stays_if_the_new_one_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "file.new").mkdir()
    with pytest.raises(OSError, match=r"file\.new"):
        write_private(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_text() == "old"
