"""Words of the command line that could be taken for something else, as types of click's arguments and options."""

import re

import click

# What kubectl puts in front of the name of a job.
_JOB = (
    "job", "jobs", "job.batch", "jobs.batch", "jobset", "jobsets", "jobset.jobset.x-k8s.io", "jobsets.jobset.x-k8s.io"
)  # fmt: skip

_MOST_DIGITS = 6


def name(text: str) -> str:
    """The name of an object. An empty one, as a variable that is not set gives it, would mean all of them.

    Raises `click.BadParameter`.
    """
    kind, slash, rest = text.partition("/")
    if slash and kind in _JOB and _is_name(rest):
        raise click.BadParameter(f"{text!r} is no name; did you mean {rest}?")
    if not _is_name(text):
        raise click.BadParameter(f"{text!r} is no name")
    return text


def name_or_queue(text: str) -> str:
    """The same, or `queue/NAME`."""
    kind, slash, rest = text.partition("/")
    return f"queue/{name(rest)}" if slash and kind == "queue" else name(text)


def quantity(text: str) -> str:
    """An amount of something, as Kubernetes writes it. Raises `click.BadParameter`."""
    from muster.actions.quantities import quantity as read

    try:
        return read(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def memory(text: str) -> str:
    """An amount of memory. Raises `click.BadParameter`."""
    from muster.actions.quantities import memory as read

    try:
        return read(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def gpus(text: str) -> int:
    """How many GPUs, whole ones. Raises `click.BadParameter`."""
    if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS:
        return int(text)
    if re.fullmatch(r"\d*\.\d+|\d+m", text):
        raise click.BadParameter(f"{text}: a GPU is given whole; processes that share one run within one worker")
    raise click.BadParameter(f"{text!r} is no number of GPUs")


def duration(text: str) -> float:
    """Seconds that are more than none, as `90s`, `10m` or `2h`. Raises `click.BadParameter`."""
    from muster.api.values.durations import DurationError, seconds

    try:
        found = seconds(text)
    except DurationError:
        raise click.BadParameter(f"{text!r} is no time, as 90s, 10m or 2h") from None
    if found <= 0:
        raise click.BadParameter(f"{text} is no time to come")
    return found


def time_limit(text: str) -> int:
    """How long a job may run, in seconds. Raises `click.BadParameter`."""
    from muster.actions.limits import time_limit as read

    try:
        return read(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _is_name(text: str) -> bool:
    """Whether it can be one part of a path."""
    return text not in ("", ".", "..") and not set(text) & set("/%?# ")
