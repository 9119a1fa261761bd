"""The reports of `muster simulate` in the folder `simulations` of the home.

A report is a page with its own script. It is therefore opened in a sandbox, where it can access neither this dashboard
nor the network.
"""

import asyncio
import os
import re
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from muster.dashboard.visits import Download, Page, PageError, Visit
from muster.runtime.transport import Response

_REPORT = "report.html"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_BYTES = 64 << 20
_MOST_LISTED = 200
_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; frame-ancestors 'none'"
)


class Made(Struct, frozen=True):
    """A stored report of a simulation.

    at: the time at which it was written.
    """

    name: str
    at: datetime


async def view_simulations(visit: Visit) -> Mapping[str, Any]:
    """Return the template values of the page of simulations: the stored reports, newest first."""
    folder = visit.viewer.simulations
    made = await asyncio.to_thread(list_reports, folder) if folder is not None else []
    return {"made": made, "folder": str(folder) if folder is not None else ""}


async def answer_report(visit: Visit) -> Response:
    """Return the stored HTML report that the address names. Raises `PageError` (404) if it does not exist."""
    folder, name = visit.viewer.simulations, visit.names["name"]
    body = await asyncio.to_thread(read_report, folder, name) if folder is not None else None
    if body is None:
        raise PageError("There is no such report", "The folder of simulations in the home has none of this name.")
    return Response(200, body, "text/html; charset=utf-8", {"content-security-policy": _POLICY})


def list_reports(folder: Path) -> list[Made]:
    """Return the newest reports in a folder, newest first, up to a limit; empty if the folder cannot be read."""
    try:
        entries = [entry for entry in os.scandir(folder) if _NAME.fullmatch(entry.name)]
    except OSError:
        return []
    found = [
        Made(entry.name, datetime.fromtimestamp(status.st_mtime, UTC))
        for entry in entries
        if (status := _find_file(folder / entry.name)) is not None
    ]
    return sorted(found, key=lambda one: one.at, reverse=True)[:_MOST_LISTED]


def read_report(folder: Path, name: str) -> bytes | None:
    """Return the content of a report; None if it does not exist, is a symbolic link, or is too large."""
    if not _NAME.fullmatch(name) or _find_file(folder / name) is None:
        return None
    try:
        descriptor = os.open(folder / name / _REPORT, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return None
        return file.read(_MOST_BYTES)


def _find_file(folder: Path) -> os.stat_result | None:
    """Return the file status of a folder's report; None if it does not exist, or if either is a symbolic link."""
    try:
        status = (folder / _REPORT).lstat()
        is_folder = stat.S_ISDIR(folder.lstat().st_mode)
    except OSError:
        return None
    return status if is_folder and stat.S_ISREG(status.st_mode) else None


ROUTES = (
    Page("/simulations", "simulations/list.html", view_simulations, "simulations", live=False),
    Download("/simulations/{name}", answer_report),
)
