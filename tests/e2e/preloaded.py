"""What the process loads from which commands are forked: all commands, what they load to ask a server, and a server."""

import gc
from importlib import import_module

from muster.cli.main import COMMANDS

_LATE = (
    "muster.actions.following.excerpt",
    "muster.actions.following.printout",
    "muster.actions.jobs.cancelling",
    "muster.actions.jobs.lookup",
    "muster.actions.refusals",
    "muster.actions.server.relocating",
    "muster.actions.warnings",
    "muster.cluster.serving",
    "muster.insight.reader.engine",
    "muster.insight.reader.history.recorded",
    "muster.insight.reader.jobs.rows",
    "muster.insight.reader.visibility",
    "muster.runtime.eventloop",
    "muster.runtime.kube.http1",
    "muster.runtime.kube.local",
    "muster.runtime.realclock",
)

for name in (*(f"muster.cli.commands.{room}.{command}" for command, (room, _) in COMMANDS.items()), *_LATE):
    import_module(name)
gc.freeze()  # a collection would write to the pages that the commands share
