"""Directories of calls that nothing needs any more."""

import os

from muster.sdk.directories import unused_since


def test_those_that_nothing_was_written_to_since_are_found(tmp_path):
    for name, written in (("old", 100), ("new", 300)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (written, written))
    assert unused_since(tmp_path, 200) == [tmp_path / "old"]
