"""The directories for calls and outcomes, one per job that makes calls, accessible only to the user.

Directories for jobs of the embedded cluster are next to its data, and are kept while the cluster has the job.
"""

import asyncio
import logging
import shutil
import stat
from collections.abc import Container
from pathlib import Path

from muster.actions.errors import UserError
from muster.actions.server.session import Session
from muster.actions.submission.manifests import WEEK_SECONDS
from muster.api.kueue.names import DEFAULT_QUEUE
from muster.insight.reader.clusters import sends_away
from muster.insight.reader.engine import is_embedded, is_simulated
from muster.insight.reader.jobs.records import all_records
from muster.insight.record import JobRecord
from muster.runtime.clock import RealClock
from muster.runtime.ids import Ids
from muster.runtime.process.ownership import NotOursError, make_directory
from muster.sdk import worker
from muster.sdk.connections import Connections

log = logging.getLogger("muster")

# A directory without a write for this number of seconds is deleted, unless its job still exists.
_KEPT_SECONDS = WEEK_SECONDS


async def new_directory(connections: Connections, session: Session, queue: str) -> Path:
    """Create a directory for calls and outcomes, and remove old directories that no job needs.

    Raises `UserError` if workers cannot read the directory, or if the nodes are simulated.
    """
    client, queue = session.client, queue or DEFAULT_QUEUE
    if not await is_embedded(client):
        raise UserError(
            "functions reach workers through files, and this cluster is on another machine: run a command there"
        )
    if not session.own and await is_simulated(client):
        raise UserError("the nodes of this cluster are simulated: they run no programs, and a function has no result")
    if not session.own and await sends_away(client, session.namespace, queue):
        raise UserError(f"functions reach workers through files, and jobs of queue {queue} run in other clusters")
    root, is_first = connections.files(session)
    path = root / Ids().hexadecimal()
    try:
        make_directory(root)
        make_directory(path)
    except NotOursError as error:
        raise UserError(str(error)) from None
    # Directories for jobs of other clusters are here, too, but only the jobs of the home's own cluster can be listed.
    mine = is_first and not session.where
    if mine and (old := await asyncio.to_thread(unused_since, root, RealClock().now().timestamp() - _KEPT_SECONDS)):
        needed = {call_directory(job) for job in await all_records(client, "")}
        await asyncio.to_thread(_remove, old, needed)
    return path


def unused_since(root: Path, moment: float) -> list[Path]:
    """Return the directories of calls in `root` that were last written before `moment`, a time in seconds."""
    return [path for path in root.iterdir() if _is_unused(path, moment)]


def _is_unused(path: Path, moment: float) -> bool:
    try:
        info = path.lstat()
    except FileNotFoundError:  # another program has deleted it in the meantime
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_mtime < moment


def _remove(paths: list[Path], needed: Container[Path | None]) -> None:
    for path in paths:
        if path not in needed:
            shutil.rmtree(path, ignore_errors=True)  # another program may delete it at the same time


def remove_directory(path: Path) -> None:
    """Remove the directory of a job's calls, to which workers of the job may still write.

    The directory is renamed first, so that no worker finds it while it is being emptied. A failure is only logged,
    because the caller has a job to end, or an error to raise.
    """
    try:
        shutil.rmtree(path.rename(path.with_name(f"{path.name}.removed")))
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("the directory of a job's calls, %s, cannot be removed: %s", path, error.strerror)


def call_directory(job: JobRecord) -> Path | None:
    """Return the directory with a job's call and its outcomes; None if the job runs a command."""
    for template in job.templates:
        for container in template.spec.containers:
            for variable in container.env:
                if variable.name == worker.DIRECTORY:
                    return Path(variable.value.replace("$$", "$"))  # reverts the escaping in the manifest
    return None
