"""The options that `muster queue create` and `muster queue edit` share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from muster.cli.names.types import parse_gpu_quota, parse_memory, parse_quantity, parse_weight

F = TypeVar("F", bound=Callable[..., Any])


def quota_options(command: F) -> F:
    """Return the command with the options that set the quota of a queue."""
    for option in reversed(
        (
            click.option("--cpus", "--cpu", "cpus", metavar="Q", type=parse_quantity, help="Quota of CPUs, such as 8."),
            click.option("--memory", metavar="Q", type=parse_memory, help="Quota of memory, such as 32Gi."),
            click.option("--gpus", metavar="N", type=parse_gpu_quota, help="Quota of GPUs (nvidia.com/gpu)."),
            click.option(
                "--quota", metavar="RES=Q", multiple=True, help="Quota of any other resource. Can be repeated."
            ),
        )
    ):
        command = option(command)
    return command


def sharing_options(command: F) -> F:
    """Return the command with the options about a queue's users, and about its share in relation to other queues."""
    for option in reversed(
        (
            click.option(
                "--share",
                metavar="W",
                type=parse_weight,
                default="",
                help="The team's weight if several teams want to borrow the same quota.",
            ),
            click.option(
                "--users",
                metavar="A,B",
                default=None,
                help="Users of the queue. Only they may use it, and their jobs go to it by default.",
            ),
            click.option(
                "--per-user",
                metavar="LIMIT=N",
                multiple=True,
                help="Limit for each user: jobs or gpus that hold quota, waiting-jobs or waiting-gpus that wait in the"
                " queue. Can be repeated.",
            ),
            click.option(
                "--by-usage/--no-by-usage",
                default=None,
                help="Whether jobs of users who used fewer resources in the past start first.",
            ),
            click.option(
                "--weight", metavar="W", type=parse_weight, default="", help="Weight of the queue in fair sharing."
            ),
        )
    ):
        command = option(command)
    return command
