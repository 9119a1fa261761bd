"""Removing trees: whatever is in them, nothing of them stays, and nothing else is touched."""

import contextlib
import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.nodes.disk import removal
from muster.cluster.nodes.disk.removal import RemovalError, remove

NOBODY = 65534


def test_what_is_not_there_is_removed_already(tmp_path):
    remove(tmp_path / "none")
    remove(tmp_path / "none/none")


def test_a_file_and_a_link_go_and_what_the_link_names_stays(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "x").touch()
    (tmp_path / "link").symlink_to(kept)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/link").symlink_to(kept)
    (tmp_path / "tree/inner").mkdir()
    (tmp_path / "tree/inner/link").symlink_to(kept)
    (tmp_path / "file").touch()
    for name in ("link", "tree", "file"):
        remove(tmp_path / name)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["kept", "kept/x"]


def deep(root: Path, levels: int, width: int = 1) -> None:
    """Directories in directories, deeper than any path reaches."""
    root.mkdir()
    here = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        for number in range(width):
            os.mkdir(f"d{number}", dir_fd=here)
            os.close(os.open(f"f{number}", os.O_CREAT, dir_fd=here))
        inner = os.open("d0", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


@pytest.mark.parametrize(("levels", "width"), [(3000, 1), (40, 40)])
def test_depth_and_width_are_no_limit(tmp_path, levels, width):
    deep(tmp_path / "tree", levels, width)
    before = len(os.listdir("/proc/self/fd"))
    remove(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()
    assert len(os.listdir("/proc/self/fd")) == before


def test_names_that_are_the_ones_that_we_would_give(tmp_path):
    for path in ("0", "1/0/1/0", "1/1", "2/3/4/5", "2/0", "3"):
        (tmp_path / "tree" / path).mkdir(parents=True)
    (tmp_path / "tree/4").touch()
    (tmp_path / "tree/1/0/f").touch()
    remove(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0, 0o500, 0o555, 0o700])
def test_names_that_are_the_ones_that_we_would_give_to_directories_that_are_closed(tmp_path, mode):
    """Only once it is opened is it known that a name is taken."""
    tree = tmp_path / "tree"
    for path in ("0/0/x", "1/1/x", "2/0/0/x", "2/1/1/x", "a/0/x", "a/1/2/3/x"):
        (tree / path).mkdir(parents=True)
    (tree / "3").touch()
    for path in sorted(tree.rglob("*"), reverse=True):
        path.chmod(mode)
    remove(tree)
    assert not tree.exists()


def test_it_stops_where_it_is_told_to(tmp_path):
    deep(tmp_path / "tree", 100)
    answers = iter([False] * 50)
    remove(tmp_path / "tree", lambda: next(answers, True))
    assert (tmp_path / "tree").exists()
    remove(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def unlock(root: Path) -> None:
    subprocess.run(["chattr", "-R", "-i", str(root)], check=True, capture_output=True)


@pytest.mark.parametrize("which", ["a/b/stays", "a/b", "stays", "a"])
def test_what_cannot_be_removed_is_named_and_everything_else_goes(tmp_path, which):
    tree = tmp_path / "tree"
    (tree / "a/b").mkdir(parents=True)
    for name in ("x", "a/y", "a/b/stays", "stays"):
        (tree / name).touch()
    for number in range(5):
        (tree / f"other/{number}/deep").mkdir(parents=True)
    if subprocess.run(["chattr", "+i", str(tree / which)], capture_output=True, check=False).returncode != 0:
        pytest.skip("files cannot be made immutable here")
    try:
        with pytest.raises(RemovalError, match=rf"{tree} cannot be removed: '\w+' in it: Operation not permitted"):
            remove(tree)
        left = {path.name for path in tree.rglob("*")}
        assert left & {"x", "other", "deep"} == set()
    finally:
        unlock(tmp_path)
    remove(tree)
    assert not tree.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("where", ["mounted", "a/mounted", ""])
@pytest.mark.parametrize("bound", [True, False])
def test_nothing_is_entered_that_is_mounted_there(tmp_path, where, bound):
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o555)
    (kept / "inner").mkdir()
    (kept / "x").touch()
    tree = tmp_path / "tree"
    (tree / where).mkdir(parents=True)
    (tree / "goes").touch()
    arguments = ["--bind", str(kept)] if bound else ["-t", "tmpfs", "tmpfs"]
    if subprocess.run(["mount", *arguments, str(tree / where)], capture_output=True, check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        (tree / where / "mine").touch()
        with pytest.raises(RemovalError, match="Device or resource busy"):
            remove(tree)
        assert (tree / where / "mine").exists()
        assert stat.S_IMODE(kept.stat().st_mode) == 0o555
        assert (kept / "x").exists()
        assert not where or not (tree / "goes").exists()
    finally:
        subprocess.run(["umount", str(tree / where)], check=True)


def test_a_closed_directory_of_ours_can_be_moved(tmp_path):
    (tmp_path / "a").mkdir(mode=0)
    (tmp_path / "b").mkdir()
    removal.move(tmp_path / "a", tmp_path / "b/a")
    assert (tmp_path / "b/a").is_dir()
    with pytest.raises(OSError) as caught:
        removal.move(tmp_path / "b", tmp_path / "b/a/b")
    assert caught.value.errno == errno.EINVAL


NAMES = st.binary(min_size=1, max_size=6).filter(lambda n: b"/" not in n and b"\0" not in n and n not in (b".", b".."))
LEAVES = st.sampled_from(["file", "fifo", "socket", "link", "dangling", "hard", "big"])
MODES = st.sampled_from([0o700, 0o555, 0o000, 0o111, 0o333, 0o1777, 0o2755])
TREES = st.recursive(
    LEAVES,
    lambda inner: st.tuples(MODES, st.dictionaries(NAMES | st.sampled_from([b"0", b"1", b"\n"]), inner, max_size=4)),
    max_leaves=25,
)


def build(path: bytes, tree, kept: bytes) -> None:
    """Make what a pod has left. Modes come last: who is not root could not go on below."""
    if isinstance(tree, tuple):
        mode, entries = tree
        os.mkdir(path)
        for name, entry in entries.items():
            build(path + b"/" + name, entry, kept)
        os.chmod(path, mode)
    elif tree == "fifo":
        os.mkfifo(path)
    elif tree == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path) if len(path) < 100 else open(path, "wb").close()
    elif tree == "hard":
        os.link(kept + b"/x", path)
    elif tree in ("link", "dangling"):
        os.symlink(kept if tree == "link" else b"nowhere", path)
    else:
        with open(path, "wb") as file:
            file.truncate(1 << 40 if tree == "big" else 3)
        os.chmod(path, 0)


@given(TREES)
def test_whatever_a_pod_leaves_goes_and_nothing_else(tree):
    root = tempfile.mkdtemp(prefix="muster-tree-")
    try:
        kept = f"{root}/kept"
        os.mkdir(kept)
        Path(kept, "x").write_text("kept")
        build(os.fsencode(f"{root}/tree"), tree, os.fsencode(kept))
        remove(Path(root, "tree"))
        assert os.listdir(root) == ["kept"]
        assert Path(kept, "x").read_text() == "kept"
        assert os.listdir(kept) == ["x"]
    finally:
        shutil.rmtree(root)


def interpreter_for_anybody():
    """A Python that an unprivileged user can start, with what it needs to find our packages."""
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        script = "import hypothesis, pytest, msgspec, muster.cluster.nodes.disk.removal"
        with contextlib.suppress(OSError):
            done = subprocess.run([*AS_NOBODY, python, "-c", script], env=environment, capture_output=True, check=False)
            if done.returncode == 0:
                return python, environment
    pytest.skip("no Python that an unprivileged user can start")


AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]


@pytest.mark.skipif(os.geteuid() != 0, reason="tests run as a user already")
def test_all_of_this_as_somebody_whom_modes_bind():
    python, environment = interpreter_for_anybody()
    home = tempfile.mkdtemp(prefix="muster-nobody-")
    os.chown(home, NOBODY, NOBODY)
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={home}/tmp", __file__, "-k", "not depth"]
    try:
        done = subprocess.run(
            [*AS_NOBODY, python, *arguments],
            env=environment | {"HOME": home, "TMPDIR": home, "HYPOTHESIS_STORAGE_DIRECTORY": f"{home}/hypothesis"},
            cwd=Path(__file__).parents[5],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    finally:
        remove(Path(home))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
