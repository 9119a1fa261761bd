"""`muster release`: release held jobs and queues."""

from muster.cli.commands.changes.hold import make_command

command = make_command(
    "release",
    "Release every held JOB, which then waits in its queue again. queue/NAME means a LocalQueue, "
    "whose jobs may start again.",
    hold=False,
)
