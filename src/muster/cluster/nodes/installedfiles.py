"""Detect whether the files of shims have changed since this server started, as they do when Muster is upgraded.

A server starts each shim from the installed files. A shim of another release may not understand this server.
"""

from collections.abc import Mapping
from pathlib import Path

Stamps = Mapping[str, tuple[int, int]]


def stamp_files(folder: Path) -> Stamps:
    """Return the inode number and the modification time (ns) of each Python file below a folder, by relative path."""
    stamps = {}
    for path in sorted(folder.rglob("*.py")):
        entry = path.stat()
        stamps[str(path.relative_to(folder))] = (entry.st_ino, entry.st_mtime_ns)
    return stamps


def explain_changed_files(before: Stamps, folder: Path) -> str:
    """Return a sentence for the user if a Python file has changed since `before`; "" otherwise."""
    try:
        is_same = stamp_files(folder) == before
    except OSError:  # an upgrade is replacing them
        is_same = False
    return "" if is_same else "Muster was upgraded under this server; let a new server take over: muster restart"
