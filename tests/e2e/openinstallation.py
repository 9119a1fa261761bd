"""Makes an installation of Muster that every user of the machine can run, from one that only this user can read.

A Python below root's home is closed to others. The files are linked, not copied, where the file system is the same.
"""

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import muster

DISTRIBUTION = "muster-batch"
_ROOT_OF_OURS = Path(muster.__file__).parent
_UNUSED = ("test", "idlelib", "tkinter", "site-packages", "ensurepip", "lib2to3", "config-*")


def make_open_installation(place: Path) -> str:
    """Make `python` and `muster` below a directory that others can pass through; return the directory of both."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base, environment = Path(sys.base_prefix), place / "environment"
    python = place / "python"
    (python / "bin").mkdir(parents=True)
    program = python / "bin" / version
    program.write_bytes(_find_library_beside((base / "bin" / version).read_bytes(), base / "lib"))
    program.chmod(0o755)
    _link_tree(base / "lib" / version, python / "lib" / version, shutil.ignore_patterns(*_UNUSED))
    for library in (base / "lib").glob("libpython*"):
        _link(str(library), str(python / "lib" / library.name))

    programs, packages = environment / "bin", environment / "lib" / version / "site-packages"
    programs.mkdir(parents=True)
    packages.mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text(f"home = {python / 'bin'}\ninclude-system-site-packages = false\n")
    for name in ("python", "python3"):
        (programs / name).symlink_to(program)
    for distribution in _find_needed(DISTRIBUTION, {"server"}):
        for file in set(distribution.files or ()):  # a wheel's record may name a file twice
            source = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and source.is_file() and file.parts[0] != _ROOT_OF_OURS.name:
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                _link(str(source), str(packages / file))
    for left in packages.glob("*.pth"):
        left.unlink()  # of an editable installation
    _link_tree(_ROOT_OF_OURS, packages / _ROOT_OF_OURS.name)
    (programs / "muster").write_text(
        f"#!{programs / 'python'}\nimport sys\nfrom muster.cli.entry import main\nsys.exit(main())\n"
    )
    (programs / "muster").chmod(0o755)
    return str(programs)


def _find_library_beside(program: bytes, folder: Path) -> bytes:
    """Return a program that looks for its library beside itself, and no longer in a folder by its full name."""
    named = os.fsencode(folder)
    return program.replace(named + b"\0", b"$ORIGIN/../lib".ljust(len(named), b"\0") + b"\0")


def _find_needed(name: str, extras: set[str]) -> Iterator[importlib.metadata.Distribution]:
    """Yield a distribution and what it needs, each once."""
    pending, seen = [(name, extras)], set()
    while pending:
        name, extras = pending.pop()
        if (spelled := canonicalize_name(name)) in seen:
            continue
        seen.add(spelled)
        distribution = importlib.metadata.distribution(name)
        yield distribution
        for line in distribution.requires or ():
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
                pending.append((needed.name, needed.extras))


def _link_tree(source: Path, target: Path, ignore: object = None) -> None:
    shutil.copytree(source, target, symlinks=True, copy_function=_link, ignore=ignore)  # type: ignore[arg-type]


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # of another file system
        shutil.copy2(source, target, follow_symlinks=False)
