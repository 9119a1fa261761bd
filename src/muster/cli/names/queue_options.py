"""The options that `muster queue create` and `muster queue edit` share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from muster.cli.names.types import parse_gpu_quota, parse_memory, parse_quantity, parse_weight

F = TypeVar("F", bound=Callable[..., Any])


def quota_options(command: F) -> F:
    """Add the options with the quota of a queue."""
    for option in reversed(
        (
            click.option("--cpus", "--cpu", "cpus", metavar="Q", type=parse_quantity, help="CPUs, as 8."),
            click.option("--memory", metavar="Q", type=parse_memory, help="Memory, as 32Gi."),
            click.option("--gpus", metavar="N", type=parse_gpu_quota, help="GPUs (nvidia.com/gpu)."),
            click.option("--quota", metavar="RES=Q", multiple=True, help="Any other resource; repeatable."),
        )
    ):
        command = option(command)
    return command


def sharing_options(command: F) -> F:
    """Add the options about the users of a queue, and about its share in relation to other queues."""
    for option in reversed(
        (
            click.option(
                "--share",
                metavar="W",
                type=parse_weight,
                default="",
                help="The team's share of what several teams want.",
            ),
            click.option(
                "--users", metavar="A,B", default=None, help="The only users. Their jobs land here by themselves."
            ),
            click.option(
                "--per-user",
                metavar="LIMIT=N",
                multiple=True,
                help="At most so much for each user: jobs and gpus at once, waiting-jobs and waiting-gpus in line.",
            ),
            click.option(
                "--by-usage/--no-by-usage",
                default=None,
                help="Whoever used less lately goes first: order LocalQueues by past use.",
            ),
            click.option("--weight", metavar="W", type=parse_weight, default="", help="For fair sharing."),
        )
    ):
        command = option(command)
    return command
