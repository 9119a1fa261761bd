"""`muster release`: release held jobs and queues."""

from muster.cli.commands.changes.hold import make_command

command = make_command(
    "release",
    "Let every JOB queue again; queue/NAME lets jobs start from that LocalQueue again.",
    hold=False,
)
