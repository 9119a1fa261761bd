"""The umask that a pod's annotation names."""

import pytest

from muster.api.ours.umask import parse_umask, render_umask


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
def test_what_is_written_is_read(umask: int) -> None:
    assert parse_umask(render_umask(umask)) == umask


@pytest.mark.parametrize("text", ["", "22", "0x22", "089", "7777", "-022", "022\n", "٠٢٢"])
def test_another_text_is_no_umask(text: str) -> None:
    with pytest.raises(ValueError, match=r"muster\.dev/umask: .* is no umask: write three octal digits"):
        parse_umask(text)
