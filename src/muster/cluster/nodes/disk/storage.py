"""Where a process node keeps what must outlive the server: a directory for each pod, by uid.

    pods/<uid>/pod.json                              who the pod is, its address, its GPUs
    pods/<uid>/hosts                                 its hosts file
    pods/<uid>/volumes/<volume>/                     volumes that are not in memory
    pods/<uid>/containers/<container>/<attempt>/     see `shims.py`; numbers count up from 0
    removed/                                         what is to go, emptied by the node as it finds time

Volumes in memory are in `/dev/shm/muster-<user>-<node>-<uid>/volumes/<volume>/`.

Everything is 0700 and ours alone. A crash can leave a pod's directory half made; `pod.json` is written first and in one
step, so a directory without it never held anything that runs. What goes is moved away in one step and removed at
leisure: however much it is, and whatever stands in the way, nothing waits for it. Methods that let go of something say
what is to be removed, for `remover.py`.

What does not belong here is not touched, and is served around.
"""

import errno
import itertools
import os
import re
import stat
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from muster.cluster.nodes.disk import plainfiles, removal
from muster.cluster.nodes.disk.plainfiles import OddFileError

# What is a name in the API is a name in a path; this is only the last line of defence.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Upstream keeps one dead container of each, whose log is what `logs --previous` shows; one more may just be beginning.
KEPT_ATTEMPTS = 3
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made there is private and checked
_OF_A_POD = frozenset(("pod.json", "pod.json.new", "hosts", "volumes", "containers"))
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_REMOVED = "removed"
# Beyond so many things of one name, one is removed where it is.
_MOST_OF_A_NAME = 100


class PodRecord(msgspec.Struct, frozen=True):
    """Who a pod is, and what the node has given it.

    job: the uid of the JobSet or else the Job that it is of, if any. role, job_index: which Job of the JobSet.
    rank: its index in its Job, or the last part of its name.
    created, gone: when its object was made, and when that went; RFC 3339. A pod that is gone has only logs.
    """

    namespace: str
    name: str
    uid: str
    address: str = ""
    gpus: Mapping[str, tuple[str, ...]] = {}  # by container
    job: str = ""
    rank: str = ""
    created: str = ""
    gone: str = ""
    role: str = ""
    job_index: str = ""


class Storage:
    """The directories of one node's pods. `memory` is a tmpfs; where it cannot be used, the disk is.

    notices: what was found in the place of our directories, and where it is now; sentences.
    """

    def __init__(self, root: Path, memory: Path = SHARED_MEMORY) -> None:
        self.notices: list[str] = []
        self._root = self._cleared(root)
        self._pods = self._cleared(root / "pods")
        self._removed = self._cleared(root / _REMOVED)
        self._memory = memory / f"muster-{os.getuid()}-{seed_of(root):08x}" if os.access(memory, os.W_OK) else None

    def pods(self) -> list[PodRecord]:
        """All pods that there is something of. Of one whose record is damaged only the uid is known."""
        records = (self.of(name).read() for name in plainfiles.names(self._pods) if _is_name(name))
        return [record for record in records if record is not None]

    def foreign(self) -> list[Path]:
        """What lies among the pods and is none."""
        return [self._pods / name for name in plainfiles.names(self._pods) if not self._is_pod(name)]

    def of(self, uid: str) -> "PodStorage":
        """The place of one pod, whether or not there is anything yet."""
        memory = self._memory.with_name(f"{self._memory.name}-{uid}") if self._memory else None
        return PodStorage(self._pods / _checked(uid), memory, self._removed)

    def left_over(self) -> list[Path]:
        """What a server before this one did not get round to removing: pods half made, and what is of no pod."""
        known = {record.uid for record in self.pods()}
        found = [self._removed / name for name in plainfiles.names(self._removed)]
        for name in plainfiles.names(self._pods):
            if self._is_pod(name) and name not in known:
                found += self.of(name).remove()
        if self._memory is not None:
            prefix = f"{self._memory.name}-"
            names = [name for name in plainfiles.names(self._memory.parent) if name.startswith(prefix)]
            paths = [self._memory.with_name(name) for name in names if name.removeprefix(prefix) not in known]
            found += [path for path in paths if _is_ours(path)]  # all users may put something there
        return list(dict.fromkeys(found))

    def scratch(self) -> Path:
        """An empty directory for trying things out, which an interrupted process need not remove. Raises OSError."""
        return Path(tempfile.mkdtemp(prefix="probe-", dir=self._removed))

    def _is_pod(self, name: str) -> bool:
        """Whether something among the pods is one, or was to become one."""
        if not _is_name(name) or not stat.S_ISDIR((self._pods / name).lstat().st_mode):
            return False
        return self.of(name).exists() or _OF_A_POD.issuperset(plainfiles.names(self._pods / name))

    def _cleared(self, directory: Path) -> Path:
        """A directory of ours; what was in its place and is none has another name then. Raises OSError."""
        try:
            return _private(directory)
        except (PermissionError, FileExistsError):
            aside = set_aside(directory)
            self.notices.append(f"{directory} was not a directory of ours; it is {aside.name} now")
            return _private(directory)


class PodStorage:
    """The place of one pod."""

    def __init__(self, root: Path, memory: Path | None, removed: Path) -> None:
        self.root = root
        self._memory = memory
        self._removed = removed

    @property
    def hosts(self) -> Path:
        """Its hosts file."""
        return self.root / "hosts"

    def exists(self) -> bool:
        """Whether the pod has been here."""
        return self.read() is not None

    def read(self) -> PodRecord | None:
        """What was written down about the pod; only its uid if that cannot be read any more."""
        if self.root.is_symlink():
            return None  # where it leads is nothing of ours
        try:
            record = msgspec.json.decode(plainfiles.read(self.root / "pod.json"), type=PodRecord)
        except FileNotFoundError:
            return None
        except (OddFileError, msgspec.DecodeError, UnicodeDecodeError):
            return PodRecord("", "", self.root.name)
        return record if record.uid == self.root.name else PodRecord("", "", self.root.name)

    def write(self, record: PodRecord) -> None:
        """Write down who the pod is. Raises OSError."""
        if self.read() == record:
            return  # even a full disk lets a pod go on
        _directory(self.root)
        new, file = self.root / "pod.json.new", self.root / "pod.json"
        for path in (new, file):
            if path.is_dir() or path.is_symlink():
                self._away(path)
        new.write_bytes(msgspec.json.encode(record))
        new.rename(file)

    def volume(self, name: str, *, in_memory: bool = False) -> Path:
        """Where a volume is, or is to be made. Raises OSError."""
        base, within = self.root, Path("volumes", _checked(name))
        # Releases before had secrets on the disk: what runs since then sees them there, and nowhere else.
        if in_memory and self._memory and not _is_directory(base / within):
            base = _private(self._memory)
        place = _directory(base / within.parent) / name
        if os.path.lexists(place) and not _is_directory(place):
            set_aside(place)
        return place

    def containers(self) -> list[str]:
        """The containers of which an attempt was begun."""
        return [name for name in plainfiles.names(self.root / "containers") if _is_name(name)]

    def attempts(self, container: str) -> list[int]:
        """The numbers of the attempts that there is something of, in order."""
        names = plainfiles.names(self.root / "containers" / _checked(container))
        return sorted(int(name) for name in names if _NUMBER.fullmatch(name))

    def attempt(self, container: str, number: int) -> Path:
        """The directory of an attempt."""
        return self.root / "containers" / _checked(container) / str(number)

    def begin(self, container: str, number: int) -> Path:
        """Make the directory of an attempt. Raises OSError."""
        directory = self.attempt(container, number)
        for path in (self.root, directory.parent.parent, directory.parent):
            _directory(path)
        return _directory(directory)

    def remove_old(self, container: str, number: int) -> list[Path]:
        """An attempt begins: those that are too old by now."""
        old = [other for other in self.attempts(container) if other <= number - KEPT_ATTEMPTS]
        return [self._away(self.attempt(container, other)) for other in old]

    def log_bytes(self) -> int:
        """How much there is of logs, and of records beside them."""
        attempts = [self.attempt(name, number) for name in self.containers() for number in self.attempts(name)]
        return sum((path / name).lstat().st_size for path in attempts for name in plainfiles.names(path))

    def remove_volumes(self) -> list[Path]:
        """The pod has ended: what lived as long as it goes; logs and records stay."""
        there = _is_directory(self.root) and os.path.lexists(self.root / "volumes")
        gone = [self._away(self.root / "volumes")] if there else []
        if self._memory is not None and os.path.lexists(self._memory):
            gone.append(self._memory)
        return gone

    def remove(self) -> list[Path]:
        """Forget the pod."""
        gone = self.remove_volumes()
        return [*gone, self._away(self.root)] if os.path.lexists(self.root) else gone

    def _away(self, path: Path) -> Path:
        """Where something is from now on that is to be removed: out of the way, if it can be moved."""
        name = "-".join(path.relative_to(self.root.parent).parts)
        for number in range(_MOST_OF_A_NAME):
            target = self._removed / (f"{name}-{number}" if number else name)
            try:
                removal.move(path, target)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    continue
                return path
            return target
        return path


def seed_of(directory: Path) -> int:
    """A number that is always the same for a directory, and seldom for two."""
    return zlib.crc32(str(directory.resolve()).encode())


def set_aside(path: Path) -> Path:
    """Give something another name, beside it, with a dot in front: no node and no pod is called so. Raises OSError."""
    names = (path.with_name(f".{path.name}-set-aside-{number}") for number in itertools.count(1))
    free = next(name for name in names if not os.path.lexists(name))
    path.rename(free)
    return free


def _private(directory: Path) -> Path:
    """The directory, made if need be, which must be ours and closed to others. Raises PermissionError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(f"{directory} is not a directory of ours: remove it")
    if stat.S_IMODE(status.st_mode) != 0o700:
        directory.chmod(0o700)
    return directory


def _is_ours(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.getuid()
    except FileNotFoundError:
        return False


def _directory(path: Path) -> Path:
    """A directory below one of ours, made if need be; a link in its place is not followed. Raises OSError."""
    if not _is_directory(path):
        if os.path.lexists(path):
            set_aside(path)
        path.mkdir(mode=0o700)
    return path


def _is_directory(path: Path) -> bool:
    """Whether there is a directory, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _checked(name: str) -> str:
    assert _is_name(name), f"{name!r} cannot be part of a path"
    return name
