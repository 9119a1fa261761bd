"""Raise the limit of open files of the process, and report that it is reached."""

import asyncio
import errno
import logging
import resource
from math import inf
from typing import Any

DESCRIPTORS = 16 * 1024  # enough for a server's admitted connections, or a node's containers, and everything else
_REPORT_SECONDS = 1.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

log = logging.getLogger(__name__)


def allow_descriptors(limit: int = DESCRIPTORS) -> None:
    """Raise this process's limit of open files to `limit`, or to its hard limit. Shells set it to 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def shorten_reports_of_exhaustion(loop: asyncio.AbstractEventLoop) -> None:
    """Let a loop report at most once a second, in one line, that its servers cannot accept connections.

    asyncio reports each failed attempt with a traceback, and makes thousands of attempts in a second.
    """
    last = -inf

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal last
        error = context.get("exception")
        if "socket" not in context or not isinstance(error, OSError) or error.errno not in _EXHAUSTED:
            loop.default_exception_handler(context)
        elif loop.time() - last >= _REPORT_SECONDS:
            last = loop.time()
            log.error("no connections are accepted for a moment: %s", error.strerror)

    loop.set_exception_handler(report)
