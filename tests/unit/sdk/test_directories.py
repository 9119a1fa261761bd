"""Directories of calls that nothing needs any more."""

import logging
import os

from muster.sdk.directories import remove_directory, unused_since


def test_those_that_nothing_was_written_to_since_are_found(tmp_path):
    for name, written in (("old", 100), ("new", 300)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (written, written))
    assert unused_since(tmp_path, 200) == [tmp_path / "old"]


def test_a_directory_that_cannot_be_removed_hides_no_other_error(tmp_path, caplog):
    """With its suffix, the name is longer than a file system takes."""
    directory = tmp_path / ("x" * 250)
    directory.mkdir()
    with caplog.at_level(logging.WARNING, "muster"):
        remove_directory(directory)
        remove_directory(tmp_path / "gone")
    [warning] = caplog.messages
    assert warning == f"the directory of a job's calls, {directory}, cannot be removed: File name too long"
