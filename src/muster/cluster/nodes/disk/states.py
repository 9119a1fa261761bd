"""What jobs keep for themselves between the runs of their workers: a directory for each, by uid, on this machine.

    <uid>/      what `MUSTER_STATE` names to each pod of a Job or JobSet, on all nodes of the machine
    .<uid>      one whose job is gone, until it is removed

It is there before the first pod of the job starts, and goes when the Job or JobSet itself is deleted. What is in it is
the user's: the node does not look at it.
"""

import errno
import re
from collections.abc import Collection
from pathlib import Path

from muster.cluster.nodes.disk import plainfiles, removal

VARIABLE = "MUSTER_STATE"

_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class States:
    """Those of one machine. They are listed before any node runs, so that what is new is never taken for a leftover."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._found = plainfiles.names(root)

    def of(self, job: str) -> Path:
        """The directory of a Job or JobSet, by its uid. Raises OSError: users may say of a pod whose it is."""
        if not _UID.fullmatch(job):
            raise OSError(errno.EINVAL, "a job with this uid cannot have a directory", job)
        return self._root / job

    def make(self, job: str) -> None:
        """See to it that it is there. Raises OSError."""
        self._root.mkdir(mode=0o700, exist_ok=True)
        self.of(job).mkdir(mode=0o700, exist_ok=True)

    def forget(self, job: str) -> list[Path]:
        """The job is gone; what is to be removed."""
        gone = self._root / f".{job}"
        try:
            removal.move(self.of(job), gone)
        except FileNotFoundError:
            return []
        except OSError:
            return [self.of(job)]  # it cannot be moved out of the way first
        return [gone]

    def left_over(self, jobs: Collection[str]) -> list[Path]:
        """What was here when the server started, and is of none of the jobs that there are; to be removed."""
        half = [self._root / name for name in self._found if name.startswith(".") and _UID.fullmatch(name[1:])]
        strays = [name for name in self._found if _UID.fullmatch(name) and name not in jobs]
        return [*half, *(path for name in strays for path in self.forget(name))]
