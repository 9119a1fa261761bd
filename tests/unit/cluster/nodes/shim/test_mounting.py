"""Mounts of a container, made in a mount namespace of a child process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster.cluster.nodes.shim.mounting import Mounts, detach_mounts
from muster.cluster.nodes.shim.system import CLONE_NEWNS, CLONE_NEWUSER, RefusedError, call_libc


def can_mount():
    """Return whether this user may make namespaces."""
    unshare = f"from {call_libc.__module__} import call_libc; call_libc('unshare', {CLONE_NEWNS | CLONE_NEWUSER})"
    return subprocess.run([sys.executable, "-c", unshare], check=False, capture_output=True).returncode == 0


def enter_namespaces():
    """Enter a mount namespace that this user may change."""
    user, group = os.getuid(), os.getgid()
    call_libc("unshare", CLONE_NEWNS | CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    detach_mounts()


def see_in_namespace(look):
    """Return what a function returns in a child process, in a mount namespace of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            enter_namespaces()
            seen = look()
        except (OSError, RefusedError) as error:
            seen = f"{type(error).__name__}: {error}"
        os.write(writer, seen.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader, "rb") as pipe:
        return pipe.read().decode()


@pytest.mark.skipif(not can_mount(), reason="needs user namespaces")
def test_entries_that_disappear_before_a_mirror_is_mounted_are_left_out(tmp_path):
    """In a directory such as /tmp, other users make and delete files all the time."""
    for name in ("file", "other-file"):
        (tmp_path / name).write_text("")
    for name in ("directory", "other-directory"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("file")

    def look():
        mounts = Mounts([("mirror", str(tmp_path), str(tmp_path)), ("directory", str(tmp_path / "mount-point"))])
        (tmp_path / "other-file").unlink()
        (tmp_path / "other-directory").rmdir()
        mounts.apply()
        return " ".join(sorted(path.name for path in tmp_path.iterdir()))

    assert see_in_namespace(look) == "directory file link mount-point"
