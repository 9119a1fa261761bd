"""Redirect the standard streams of this process to files."""

import os

_MODE = 0o666


def redirect_streams(*, output: str = "", error: str = "", source: str = "", append: bool = False) -> None:
    """Open the named files as stdout, stderr and stdin. A stream with the name "" is not changed.

    output: the file for stdout and, unless `error` names another file, for stderr.
    source: the file for stdin.
    append: whether to append to existing files, rather than truncating them.

    Raises `OSError`.
    """
    writing = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    if source:
        _replace(source, os.O_RDONLY, 0)
    if output:
        _replace(output, writing, 1)
    if error and error != output:
        _replace(error, writing, 2)
    elif output:
        os.dup2(1, 2)


def _replace(name: str, flags: int, stream: int) -> None:
    opened = os.open(name, flags, _MODE)
    if opened == stream:
        os.set_inheritable(stream, True)
        return
    os.dup2(opened, stream)
    os.close(opened)
