"""Keep a directory for each job between the runs of its workers, by UID, on this machine.

    <uid>/      the directory in `MUSTER_STATE` of each pod of a Job or JobSet, on all nodes of the machine
    .<uid>      the directory of a deleted job, until it is removed

Under a system server `MUSTER_STATE` names a subdirectory that belongs to the Unix account of the pod, by the account's
id. A pod of another account may name the same job as its owner, even before the job has pods. That pod gets a directory
of its own.

The directory exists before the first pod of the job starts, and is removed when the Job or JobSet is deleted. Its
contents are the user's, and the node does not read them.
"""

import errno
import os
import re
from collections.abc import Collection
from pathlib import Path

from muster.cluster.nodes.disk import plainfiles, removal
from muster.runtime.process.accounts import Account

VARIABLE = "MUSTER_STATE"

_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class States:
    """The directories of jobs on one machine, whose content outlives the pods of a job.

    The names of existing directories are read before any node runs. So no new directory is mistaken for a leftover of
    an earlier server.

    shared: whether the directories belong to several accounts, which must traverse the root.
    """

    def __init__(self, root: Path, *, shared: bool = False) -> None:
        self._root = root
        self._mode = 0o711 if shared else 0o700
        self._earlier_names = plainfiles.list_names(root)

    def of(self, job: str, owner: Account | None = None) -> Path:
        """Return the path of a job's directory.

        job: the UID of the Job or JobSet.
        owner: the account whose pods use it; None for the node's own user.

        Raises OSError for an invalid UID, because a user may put any UID into a pod's owner reference.
        """
        if not _UID.fullmatch(job):
            raise OSError(errno.EINVAL, "a job with this uid cannot have a directory", job)
        return self._root / job if owner is None else self._root / job / str(owner.uid)

    def make(self, job: str, owner: Account | None = None) -> None:
        """Make the directory of a job if it is missing. Raises OSError.

        owner: the account that owns the directory; None for the node's own user.
        """
        for directory in (self._root, self.of(job)):
            directory.mkdir(mode=0o700, exist_ok=True)
            directory.chmod(self._mode)
        if owner is not None:
            own = self.of(job, owner)
            own.mkdir(mode=0o700, exist_ok=True)
            os.chown(own, owner.uid, owner.gid)

    def forget(self, job: str) -> list[Path]:
        """Rename the directory of a deleted job; return the paths to remove. job: the UID of the Job or JobSet."""
        moved = self._root / f".{job}"
        try:
            removal.move(self.of(job), moved)
        except FileNotFoundError:
            return []
        except OSError:
            return [self.of(job)]  # the directory could not be renamed
        return [moved]

    def left_over(self, jobs: Collection[str]) -> list[Path]:
        """Rename the directories of jobs that no longer exist, if they are older than the server's start.

        Return the paths to remove.

        jobs: the UIDs of the existing jobs.
        """
        half = [self._root / name for name in self._earlier_names if name.startswith(".") and _UID.fullmatch(name[1:])]
        strays = [name for name in self._earlier_names if _UID.fullmatch(name) and name not in jobs]
        return [*half, *(path for name in strays for path in self.forget(name))]
