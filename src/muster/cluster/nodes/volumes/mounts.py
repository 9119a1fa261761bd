"""Plan how a container sees its volumes: which mounts to make, in which order. The module only reads paths.

A mount point that does not exist on this machine is never created on it. Its nearest existing parent is *mirrored*
instead: a private, empty file system replaces the parent. Every entry of the parent appears in it again, and more can
be made there. Entries that existed before are the machine's own. Entries that the container creates directly in the
mirrored directory are private to the container and are removed with it. The root cannot be covered: if a mount point is
missing directly below it, the mirror of the root becomes the root.

The plan is a list of operations, all of strings, that `shim/mounting.py` carries out:

    ("mirror", target, source)       ("directory", target)       ("bind", target, source, path within it)
    ("root", target)                 ("file", target)            ("read-only", target)
"""

import os
import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

Operation = tuple[str, ...]

# Every entry of a mirrored directory is a mount, at some ten microseconds and a kilobyte of kernel memory each.
MIRROR_LIMIT = 4096


class MountError(Exception):
    """A set of mounts that cannot be made. The message is for the user."""


class Mount(Struct, frozen=True):
    """A file or directory that a container sees at a path.

    source: its path on the machine.
    within: the path inside the source to mount; "" for the source itself.
    """

    path: str  # in the container, as the user wrote it; `..` cannot leave the root
    source: str  # on this machine
    within: str = ""  # path below the source, all links resolved
    is_directory: bool = True
    read_only: bool = False


class Tree(Protocol):
    """The access to a file system that the planning of mounts needs."""

    def real(self, path: str) -> str:
        """Return the path with all links resolved. The part of the path that does not exist is kept."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether anything exists at the path."""
        ...

    def entries(self, path: str) -> Sequence[str] | None:
        """Return the names in a directory; None if the path is no directory."""
        ...


class Machine:
    """The file system of this machine, in which mounts are planned."""

    def real(self, path: str) -> str:
        """Return the path with all links resolved. The part of the path that does not exist is kept."""
        return os.path.realpath(path)

    def exists(self, path: str) -> bool:
        """Return whether anything exists at the path."""
        return os.path.lexists(path)

    def entries(self, path: str) -> Sequence[str] | None:
        """Return the names in a directory; None if the path is no directory."""
        return [entry.name for entry in Path(path).iterdir()] if Path(path).is_dir() else None


def plan(mounts: Sequence[Mount], staging: str, tree: Tree | None = None) -> list[Operation]:
    """Return the operations that make these mounts, in order.

    staging: an existing directory where a new root may be assembled.
    tree: the file system; None for this machine's.

    Raises `MountError`.
    """
    tree = tree or Machine()
    targets = sorted(((place(mount.path, tree), mount) for mount in mounts), key=lambda pair: pair[0].count("/"))
    points = frozenset(target for target, _ in targets)
    anchors = {
        _find_anchor(target, tree) for target in points if not _is_covered(points, target) and not tree.exists(target)
    }
    base = staging if "/" in anchors else ""
    operations: list[Operation] = []
    for anchor in sorted(anchors, key=lambda path: (path.count("/"), path)):
        _check_mirror(anchor, tree)
        operations.append(("mirror", base if anchor == "/" else base + anchor, anchor))
    for target, mount in targets:
        if _is_covered(points, target) or not tree.exists(target):
            operations.append(("directory" if mount.is_directory else "file", base + target))
        operations.append(("bind", base + target, mount.source, mount.within))
    operations += [("read-only", base + target) for target, mount in targets if mount.read_only]
    if base:
        operations.append(("root", base))
    return operations


def list_bubblewrap_arguments(operations: Sequence[Operation], tree: Tree | None = None) -> list[str]:
    """Return the operations as arguments of bubblewrap, which binds each entry of a mirrored directory separately."""
    tree = tree or Machine()
    base = next((target for kind, target, *_ in operations if kind == "root"), "")
    arguments = [] if base else ["--dev-bind", "/", "/"]
    for kind, full, *rest in operations:
        target = full.removeprefix(base) or "/"
        if kind == "mirror":
            if target != "/":
                arguments += ["--tmpfs", target]
            for name in tree.entries(rest[0]) or ():
                arguments += _make_entry_arguments(posixpath.join(rest[0], name), posixpath.join(target, name), tree)
        elif kind == "directory":
            arguments += ["--dir", target]
        elif kind == "bind":
            arguments += ["--dev-bind", posixpath.join(*filter(None, rest)), target]
        elif kind == "read-only":
            arguments += ["--remount-ro", target]
    return arguments


def _make_entry_arguments(source: str, target: str, tree: Tree) -> list[str]:
    real = tree.real(source)
    if real != source:  # the directory itself is a real path, so the entry is a link
        return ["--symlink", real, target]
    return ["--dev-bind-try", source, target]


def place(path: str, tree: Tree | None = None) -> str:
    """Return the mount path with all symbolic links resolved. Raises `MountError` if that is the root directory."""
    target = (tree or Machine()).real(posixpath.normpath("/" + path.lstrip("/")))
    if target == "/":
        raise MountError(f"mount path {path!r}: the root directory cannot be a mount point")
    return target


def _is_covered(points: frozenset[str], target: str) -> bool:
    """Return whether the target lies within another mount. points: the paths of all mounts, up to ten thousand."""
    end = target.rfind("/")
    while end > 0:
        if target[:end] in points:
            return True
        end = target.rfind("/", 0, end)
    return False


def _find_anchor(target: str, tree: Tree) -> str:
    """Return the nearest existing parent directory of a missing path."""
    while not tree.exists(target):
        target = posixpath.dirname(target)
    return target


def _check_mirror(anchor: str, tree: Tree) -> None:
    entries = tree.entries(anchor)
    if entries is None:
        raise MountError(f"a mount path lies below {anchor}, which is not a directory on this machine")
    if len(entries) > MIRROR_LIMIT:
        raise MountError(
            f"a mount path below {anchor} does not exist on this machine, and {anchor} has {len(entries)} entries, "
            f"more than the {MIRROR_LIMIT} that can be shown again around it; create the directory, or use another path"
        )
