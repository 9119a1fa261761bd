"""Store what must outlive the server: a directory for each pod of a process node, by UID.

    pods/<uid>/pod.json                              the pod's record: its names, its address, its GPUs
    pods/<uid>/hosts                                 its hosts file
    pods/<uid>/volumes/<volume>/                     volumes that are not in memory
    pods/<uid>/containers/<container>/<attempt>/     see `shims.py`; attempts count up from 0
    removed/                                         paths that wait for their removal

Volumes in memory are in `/dev/shm/muster-<user>-<node>-<uid>/volumes/<volume>/`.

Everything has mode 0700 and belongs to the node's user. A crash can leave a pod's directory incomplete. `pod.json` is
written first and atomically, so a directory without it never contained anything that runs. A path to remove is first
renamed atomically, so nothing waits for its removal, however large it is and whatever fails. Methods that release
something return the paths to remove, for `remover.py`.

Under a system server the directories above the pods' directories can be traversed by others, but not listed (0711). The
directory of a pod is open to the private group of the account that runs the pod (0710), and an attempt belongs to that
account. Everything else stays the superuser's: the account can replace nothing that the node opens by its path.

Foreign files do not disturb the node. It renames those at a path that it needs, and touches no others.
"""

import contextlib
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
from muster.cluster.nodes.disk.complaints import naming_path
from muster.cluster.nodes.disk.plainfiles import OddFileError
from muster.runtime.process.accounts import FIRST_PRIVATE_GROUP, Account

# Names from the API are safe in a path; this check is only an additional safeguard.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Like upstream, keep one exited attempt of each container for `logs --previous`; another may just be starting.
KEPT_ATTEMPTS = 3
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - directories made there are private and checked
_POD_ENTRIES = frozenset(("pod.json", "pod.json.new", "hosts", "volumes", "containers"))
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_REMOVED = "removed"
# The mode of a directory that an account may pass through by its private group.
_OPEN_TO_GROUP = 0o710
# After this many taken names, a path is removed without a rename.
_MOST_OF_A_NAME = 100


class PodRecord(msgspec.Struct, frozen=True):
    """The record of a pod: its identity, and the resources that the node assigned.

    job: the UID of the pod's JobSet, or else of its Job; "" without either.
    role, job_index: the Job's role and index in the JobSet.
    rank: the pod's index in its Job, or the last part of its name.
    cpus: for each container that may not use all CPUs, its CPUs and how many thousandths of each it reserves.
    ended: whether the node or a deletion terminated the pod, so that its exit codes are not the program's own.
    created, gone: when its object was created and deleted, in RFC 3339. Only the logs of a deleted pod remain.
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
    ended: bool = False
    cpus: Mapping[str, Mapping[int, int]] = {}


class Storage:
    """The directories of one node's pods. `memory` is a tmpfs; if it cannot be used, the disk replaces it.

    shared: whether other accounts run the pods, and must access their directories.
    notices: sentences about foreign files that were renamed because they were in the way of the node's directories.
    """

    def __init__(self, root: Path, memory: Path = SHARED_MEMORY, *, shared: bool = False) -> None:
        self.notices: list[str] = []
        self._mode = 0o711 if shared else 0o700
        self._root = self._make_own_directory(root)
        self._pods = self._make_own_directory(root / "pods")
        self._removed = self._make_own_directory(root / _REMOVED)
        # The path without `-UID`, which the directory of each pod appends; None without a tmpfs.
        self._memory_prefix = (
            memory / f"muster-{os.getuid()}-{seed_of(root):08x}" if os.access(memory, os.W_OK) else None
        )

    def pods(self) -> list[PodRecord]:
        """Return the records of all pods on disk. The record of a pod with a damaged file has only the UID."""
        records = (self.of(name).read() for name in plainfiles.list_names(self._pods) if _is_name(name))
        return [record for record in records if record is not None]

    def foreign(self) -> list[Path]:
        """Return the paths in the directory of pods that belong to no pod."""
        return [self._pods / name for name in plainfiles.list_names(self._pods) if not self._is_pod(name)]

    def of(self, uid: str) -> "PodStorage":
        """Return the storage of one pod, even if the pod has no directory yet."""
        prefix = self._memory_prefix
        memory = prefix.with_name(f"{prefix.name}-{uid}") if prefix else None
        return PodStorage(self._pods / _check_name(uid), memory, self._removed, self._mode)

    def left_over(self) -> list[Path]:
        """Return the paths that an earlier server did not remove.

        These are paths in `removed/`, incomplete pods, and volumes in memory of pods without a record or with only
        logs. Incomplete pods are renamed for their removal.
        """
        records = self.pods()
        recorded_uids = {record.uid for record in records}
        paths = [self._removed / name for name in plainfiles.list_names(self._removed)]
        for name in plainfiles.list_names(self._pods):
            if self._is_pod(name) and name not in recorded_uids:
                paths += self.of(name).remove()
        if self._memory_prefix is not None:
            prefix = f"{self._memory_prefix.name}-"
            live = {record.uid for record in records if not record.gone}
            names = [name for name in plainfiles.list_names(self._memory_prefix.parent) if name.startswith(prefix)]
            memory_paths = [
                self._memory_prefix.with_name(name) for name in names if name.removeprefix(prefix) not in live
            ]
            paths += [path for path in memory_paths if _is_ours(path)]  # any user may put something there
        return list(dict.fromkeys(paths))

    def scratch(self) -> Path:
        """Make an empty directory for experiments.

        A later start removes it if this process is interrupted. Raises OSError.
        """
        directory = Path(tempfile.mkdtemp(prefix="probe-", dir=self._removed))
        directory.chmod(self._mode)
        return directory

    def _is_pod(self, name: str) -> bool:
        """Return whether an entry in the directory of pods is a pod, complete or not."""
        if not _is_name(name) or not stat.S_ISDIR((self._pods / name).lstat().st_mode):
            return False
        return self.of(name).exists() or _POD_ENTRIES.issuperset(plainfiles.list_names(self._pods / name))

    def _make_own_directory(self, directory: Path) -> Path:
        """Make a directory owned by this user, if it is missing, and return it. Raises OSError.

        Anything else at the path is renamed, with a notice.
        """
        try:
            return _make_private(directory, self._mode)
        except (PermissionError, FileExistsError):
            aside = set_aside(directory)
            self.notices.append(f"{directory} was not a directory of ours; it is {aside.name} now")
            return _make_private(directory, self._mode)


class PodStorage:
    """The directory of one pod.

    mode: the mode with which the node's directories are made again if they were removed.
    """

    def __init__(self, root: Path, memory: Path | None, removed: Path, mode: int = 0o700) -> None:
        self.root = root
        self._memory = memory
        self._removed = removed
        self._mode = mode

    @property
    def hosts(self) -> Path:
        """The pod's hosts file."""
        return self.root / "hosts"

    def exists(self) -> bool:
        """Return whether the pod has a record on this node."""
        return self.read() is not None

    def read(self) -> PodRecord | None:
        """Return the pod's record; None if there is no record. A record that cannot be read has only the UID."""
        if self.root.is_symlink():
            return None  # a link does not lead to a file of this program
        try:
            record = msgspec.json.decode(plainfiles.read(self.root / "pod.json"), type=PodRecord)
        except FileNotFoundError:
            return None
        except (OddFileError, msgspec.DecodeError, UnicodeDecodeError):
            return PodRecord("", "", self.root.name)
        return record if record.uid == self.root.name else PodRecord("", "", self.root.name)

    def write(self, record: PodRecord) -> None:
        """Write the pod's record. Raises OSError."""
        if self.read() == record:
            return  # the record is the same; without a write, a full disk does not stop the pod
        self._remake_parents()
        _make_directory(self.root)
        new, file = self.root / "pod.json.new", self.root / "pod.json"
        for path in (new, file):
            if path.is_dir() or path.is_symlink():
                self._move_away(path)
        with naming_path(new):
            new.write_bytes(msgspec.json.encode(record))
        new.rename(file)

    def mark_ended(self) -> None:
        """Record that the node terminates the pod. Call it before the termination. Raises OSError."""
        record = self.read()
        if record is not None and record.name:
            self.write(msgspec.structs.replace(record, ended=True))

    def volume(self, name: str, *, in_memory: bool = False) -> Path:
        """Return the path of a volume's directory, which may not exist yet. Raises OSError.

        in_memory: whether the volume belongs in the tmpfs.
        """
        base, within = self.root, Path("volumes", _check_name(name))
        # Earlier releases stored secrets on the disk, where containers that still run see them.
        if in_memory and self._memory and not _is_directory(base / within):
            base = _make_private(self._memory)
        place = _make_directory(base / within.parent) / name
        if os.path.lexists(place) and not _is_directory(place):
            set_aside(place)
        return place

    def containers(self) -> list[str]:
        """Return the names of the containers that have at least one attempt on disk."""
        return [name for name in plainfiles.list_names(self.root / "containers") if _is_name(name)]

    def attempts(self, container: str) -> list[int]:
        """Return the numbers of a container's attempts on disk, in order."""
        names = plainfiles.list_names(self.root / "containers" / _check_name(container))
        return sorted(int(name) for name in names if _NUMBER.fullmatch(name))

    def attempt(self, container: str, number: int) -> Path:
        """Return the path of the directory of an attempt."""
        return self.root / "containers" / _check_name(container) / str(number)

    def begin(self, container: str, number: int) -> Path:
        """Make the directory of an attempt. Raises OSError."""
        directory = self.attempt(container, number)
        for path in (self.root, directory.parent.parent, directory.parent):
            _make_directory(path)
        return _make_directory(directory)

    def hand_over(self, account: Account, container: str, number: int) -> None:
        """Give an account access to the pod's directories, and make it the owner of the directory of an attempt.

        Raises OSError.
        """
        for root in (self.root, self._memory):
            if root is not None and _is_directory(root):
                os.chown(root, -1, account.private_group)
                root.chmod(_OPEN_TO_GROUP)
                for path in (root / "volumes", root / "containers", root / "containers" / _check_name(container)):
                    if _is_directory(path):
                        path.chmod(0o711)
        attempt = self.attempt(container, number)
        os.chown(attempt, account.uid, account.gid, follow_symlinks=False)

    def remove_old(self, container: str, number: int) -> list[Path]:
        """Rename the attempts that are no longer kept when attempt `number` starts; return the paths to remove."""
        old = [other for other in self.attempts(container) if other <= number - KEPT_ATTEMPTS]
        return [self._move_away(self.attempt(container, other)) for other in old]

    def log_bytes(self) -> int:
        """Return the size in bytes of the pod's logs and shim records."""
        attempts = [self.attempt(name, number) for name in self.containers() for number in self.attempts(name)]
        total = 0
        for file in (path / name for path in attempts for name in plainfiles.list_names(path)):
            with contextlib.suppress(FileNotFoundError):  # the pod's user may remove it meanwhile
                total += file.lstat().st_size
        return total

    def remove_volumes(self) -> list[Path]:
        """Rename the pod's volumes on disk; return the paths of all its volumes to remove. Logs and records stay."""
        has_volumes = _is_directory(self.root) and os.path.lexists(self.root / "volumes")
        moved = [self._move_away(self.root / "volumes")] if has_volumes else []
        if self._memory is not None and os.path.lexists(self._memory):
            moved.append(self._memory)
        return moved

    def remove(self) -> list[Path]:
        """Rename all files of the pod; return the paths to remove."""
        moved = self.remove_volumes()
        return [*moved, self._move_away(self.root)] if os.path.lexists(self.root) else moved

    def _remake_parents(self) -> None:
        """Make the node's directories again if something removed them while the node runs. Raises OSError."""
        for directory in (self.root.parent.parent, self.root.parent, self._removed):
            if not os.path.lexists(directory):
                _make_private(directory, self._mode)

    def _move_away(self, path: Path) -> Path:
        """Rename a path for its removal, if possible; return the path to remove."""
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
    """Return a number that depends only on the path of the directory. Two directories rarely have the same number."""
    return zlib.crc32(str(directory.resolve()).encode())


def set_aside(path: Path) -> Path:
    """Rename a path, in the same directory, to a hidden name that no node and no pod can have. Raises OSError."""
    names = (path.with_name(f".{path.name}-set-aside-{number}") for number in itertools.count(1))
    free = next(name for name in names if not os.path.lexists(name))
    path.rename(free)
    return free


def _make_private(directory: Path, mode: int = 0o700) -> Path:
    """Make the directory if it is missing, give it the mode, and return it.

    If the directory was handed over to the account of a pod, its mode stays. Raises PermissionError if the path is no
    directory of this user.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(f"{directory} does not belong to the node's user, or is no directory: remove it")
    is_handed_over = stat.S_IMODE(status.st_mode) == _OPEN_TO_GROUP and status.st_gid >= FIRST_PRIVATE_GROUP
    if stat.S_IMODE(status.st_mode) != mode and not is_handed_over:
        directory.chmod(mode)
    return directory


def _is_ours(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.getuid()
    except FileNotFoundError:
        return False


def _make_directory(path: Path) -> Path:
    """Return a directory inside one of this program's directories; make it if it is missing. Raises OSError.

    A link at the path is renamed.
    """
    if not _is_directory(path):
        if os.path.lexists(path):
            set_aside(path)
        path.mkdir(mode=0o700)
    return path


def _is_directory(path: Path) -> bool:
    """Return whether the path is a directory, and not a link to one."""
    return path.is_dir() and not path.is_symlink()


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _check_name(name: str) -> str:
    assert _is_name(name), f"{name!r} cannot be part of a path"
    return name
