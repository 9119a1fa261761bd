"""Where a process node keeps what must outlive the server: a directory for each pod, by uid.

    pods/<uid>/pod.json                              who the pod is, its address, its GPUs
    pods/<uid>/hosts                                 its hosts file
    pods/<uid>/volumes/<volume>/                     volumes that are not in memory
    pods/<uid>/containers/<container>/<attempt>/     see `shims.py`; numbers count up from 0

Volumes in memory are in `/dev/shm/muster-<user>-<node>-<uid>/volumes/<volume>/`.

Everything is 0700 and ours alone. A crash can leave a pod's directory half made; `pod.json` is written first and in one
step, so a directory without it never held anything that runs.
"""

import os
import re
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

# What is a name in the API is a name in a path; this is only the last line of defence.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Upstream keeps one dead container of each, whose log is what `logs --previous` shows; one more may just be beginning.
KEPT_ATTEMPTS = 3
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made there is private and checked


class PodRecord(msgspec.Struct, frozen=True):
    """Who a pod is, and what the node has given it."""

    namespace: str
    name: str
    uid: str
    address: str = ""
    gpus: Mapping[str, tuple[str, ...]] = {}  # by container


class Storage:
    """The directories of one node's pods. `memory` is a tmpfs; where it cannot be used, the disk is."""

    def __init__(self, root: Path, memory: Path = SHARED_MEMORY) -> None:
        _private(root)
        self._pods = _private(root / "pods")
        self._memory = str(memory / f"muster-{os.getuid()}-{seed_of(root):08x}") if os.access(memory, os.W_OK) else ""

    def pods(self) -> list[PodRecord]:
        """All pods that there is something of."""
        found = []
        for directory in sorted(self._pods.iterdir()):
            try:
                found.append(msgspec.json.decode((directory / "pod.json").read_bytes(), type=PodRecord))
            except (FileNotFoundError, msgspec.DecodeError):
                shutil.rmtree(directory)
        return found

    def of(self, uid: str) -> "PodStorage":
        """The place of one pod, whether or not there is anything yet."""
        return PodStorage(self._pods / _checked(uid), Path(f"{self._memory}-{uid}") if self._memory else None)


class PodStorage:
    """The place of one pod."""

    def __init__(self, root: Path, memory: Path | None) -> None:
        self.root = root
        self._memory = memory

    @property
    def hosts(self) -> Path:
        """Its hosts file."""
        return self.root / "hosts"

    def exists(self) -> bool:
        """Whether the pod has been here."""
        return (self.root / "pod.json").exists()

    def read(self) -> PodRecord | None:
        """What was written down about the pod."""
        try:
            return msgspec.json.decode((self.root / "pod.json").read_bytes(), type=PodRecord)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def write(self, record: PodRecord) -> None:
        """Write down who the pod is."""
        self.root.mkdir(mode=0o700, exist_ok=True)
        new = self.root / "pod.json.new"
        new.write_bytes(msgspec.json.encode(record))
        new.rename(self.root / "pod.json")

    def volume(self, name: str, *, in_memory: bool = False) -> Path:
        """Where a volume is."""
        base = _private(self._memory) if in_memory and self._memory else self.root
        place = base / "volumes" / _checked(name)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        return place

    def containers(self) -> list[str]:
        """The containers of which an attempt was begun."""
        directory = self.root / "containers"
        return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []

    def attempts(self, container: str) -> list[int]:
        """The numbers of the attempts that there is something of, in order."""
        directory = self.root / "containers" / _checked(container)
        return sorted(int(path.name) for path in directory.iterdir()) if directory.is_dir() else []

    def attempt(self, container: str, number: int) -> Path:
        """The directory of an attempt."""
        return self.root / "containers" / _checked(container) / str(number)

    def begin(self, container: str, number: int) -> Path:
        """Make the directory of an attempt, and forget those that are too old."""
        directory = self.attempt(container, number)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in self.attempts(container):
            if old <= number - KEPT_ATTEMPTS:
                shutil.rmtree(self.attempt(container, old))
        return directory

    def remove_volumes(self) -> None:
        """The pod has ended: what lived as long as it goes; logs and records stay."""
        if (self.root / "volumes").exists():
            shutil.rmtree(self.root / "volumes")
        if self._memory is not None and self._memory.exists():
            shutil.rmtree(self._memory)

    def remove(self) -> None:
        """Forget the pod. `pod.json` goes last, so that whoever is interrupted here can go on later."""
        self.remove_volumes()
        if self.root.exists():
            for path in self.root.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
            shutil.rmtree(self.root)


def seed_of(directory: Path) -> int:
    """A number that is always the same for a directory, and seldom for two."""
    return zlib.crc32(str(directory.resolve()).encode())


def _private(directory: Path) -> Path:
    """The directory, made if need be, which must be ours and closed to others. Raises PermissionError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.lstat()
    if directory.is_symlink() or status.st_uid != os.getuid():
        raise PermissionError(f"{directory} is not a directory of ours: remove it")
    if status.st_mode & 0o077:
        directory.chmod(0o700)
    return directory


def _checked(name: str) -> str:
    assert _NAME.fullmatch(name), f"{name!r} cannot be part of a path"
    return name
