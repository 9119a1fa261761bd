"""Mark the kubeconfig that a server writes, so that a client sees without parsing it that nobody has changed it.

An unchanged kubeconfig names the server of its home, the administrator, and the namespace `default`. The mark is a
comment in the first line, with a checksum of all other lines. The checksum finds changes; it proves nothing to others.
"""

import zlib

_MARK = b"# As muster up wrote it, checksum %08x: after a change, commands follow what the file says.\n"


def add_mark(text: bytes) -> bytes:
    """Return the text of a kubeconfig with the mark before it."""
    return _MARK % zlib.crc32(text) + text


def is_unchanged(content: bytes) -> bool:
    """Return whether the content of a file is what `add_mark` returned."""
    first, newline, text = content.partition(b"\n")
    return first + newline == _MARK % zlib.crc32(text)
