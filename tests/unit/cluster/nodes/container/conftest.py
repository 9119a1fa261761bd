"""Logs for the tests of containers."""

import os

import pytest


def line(number, text="x", tag="F", stream="stdout"):
    """Return a line of a log."""
    return f"2026-01-01T12:00:{number:02}.000000000Z {stream} {tag} {text}\n".encode()


@pytest.fixture
def place(tmp_path):
    """The descriptor and the path of a directory for a log."""
    descriptor = os.open(tmp_path, os.O_PATH)
    yield descriptor, tmp_path
    os.close(descriptor)


@pytest.fixture
def bytes_read(monkeypatch):
    """The sizes of the pieces of files that were read."""
    sizes: list[int] = []

    def count(read):
        def read_counted(*args):
            data = read(*args)
            sizes.append(len(data))
            return data

        return read_counted

    monkeypatch.setattr(os, "read", count(os.read))
    monkeypatch.setattr(os, "pread", count(os.pread))
    return sizes
