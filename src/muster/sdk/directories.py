"""Where calls and outcomes lie: a directory for each job that makes any, which only the user can look into.

Those of jobs of the embedded cluster are kept beside its data for as long as the cluster knows of the job.
"""

import asyncio
import shutil
import stat
from collections.abc import Container
from pathlib import Path

from muster.actions.errors import UserError
from muster.actions.manifests import WEEK_SECONDS
from muster.actions.session import Session
from muster.api.managed.jobs import DEFAULT_QUEUE
from muster.insight.reader.clusters import sends_away
from muster.insight.reader.queues import is_embedded, is_simulated
from muster.insight.reader.records import all_records
from muster.insight.record import JobRecord
from muster.runtime.clock import RealClock
from muster.runtime.ids import Ids
from muster.runtime.process.ownership import NotOursError, make_directory
from muster.sdk import worker
from muster.sdk.connections import Connections

# What nothing was written to for so long is no longer needed, unless its job is still there.
_KEPT_SECONDS = WEEK_SECONDS


async def new_directory(connections: Connections, session: Session, queue: str) -> Path:
    """One for calls. Raises `UserError` where workers would not see it, or nothing is run."""
    client, queue = session.client, queue or DEFAULT_QUEUE
    if not await is_embedded(client):
        raise UserError("functions go to workers by file, and this cluster is another machine's: run a command there")
    if not session.own and await is_simulated(client):
        raise UserError("the nodes of this cluster are simulated: nothing is run, and a function has no result")
    if not session.own and await sends_away(client, session.namespace, queue):
        raise UserError(f"functions go to workers by file, and jobs of queue {queue} run in other clusters")
    root, is_first = connections.files(session)
    path = root / Ids().hexadecimal()
    try:
        make_directory(root)
        make_directory(path)
    except NotOursError as error:
        raise UserError(str(error)) from None
    # Jobs of other clusters have theirs here, too, and only those of the home's own are known.
    mine = is_first and not session.where
    if mine and (old := await asyncio.to_thread(unused_since, root, RealClock().now().timestamp() - _KEPT_SECONDS)):
        needed = {call_directory(job) for job in await all_records(client, "")}
        await asyncio.to_thread(_remove, old, needed)
    return path


def unused_since(root: Path, moment: float) -> list[Path]:
    """The directories of calls that nothing was written to since."""
    return [path for path in root.iterdir() if _is_unused(path, moment)]


def _is_unused(path: Path, moment: float) -> bool:
    try:
        info = path.lstat()
    except FileNotFoundError:  # another program has just removed it
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_mtime < moment


def _remove(paths: list[Path], needed: Container[Path | None]) -> None:
    for path in paths:
        if path not in needed:
            shutil.rmtree(path, ignore_errors=True)  # another program removes it, too


def call_directory(job: JobRecord) -> Path | None:
    """Where the call and the outcomes of a job lie; None if it makes none."""
    for template in job.templates:
        for container in template.spec.containers:
            for variable in container.env:
                if variable.name == worker.DIRECTORY:
                    return Path(variable.value.replace("$$", "$"))  # as it was escaped
    return None
