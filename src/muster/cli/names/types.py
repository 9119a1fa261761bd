"""Types of click's arguments and options that refuse ambiguous words."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from muster.actions.parsing.quantities import Amount

T = TypeVar("T")

# The types that kubectl prints and accepts before the name of an object that Muster calls a job.
_JOB_TYPE = (
    r"(?ai)(jobs?|cj|cronjobs?)(\.(v1\.)?batch)?|(js|jobsets?)(\.(v1alpha2\.)?jobset\.x-k8s\.io)?"
    r"|(pg|podgroups?)(\.[-.a-z0-9]+)?"
)
_CRON_JOB_TYPE = r"(?ai)(cj|cronjobs?)(\.(v1\.)?batch)?"

_MOST_DIGITS = 6

# The maximum length of a label's value.
_LONGEST_USER = 63


def parse_name(text: str) -> str:
    """Return the text if it can be the name of an object. Raises `click.BadParameter`.

    An empty name is refused: it usually comes from an unset variable of the shell, and would select all objects.
    """
    if not _is_name(text):
        raise click.BadParameter(f"{text!r} is no name")
    return text


def parse_job_name(text: str) -> str:
    """Return the name of a job, a CronJob or a PodGroup: NAME, or kubectl's TYPE/NAME. Raises `click.BadParameter`."""
    kind, slash, rest = text.partition("/")
    if slash and _is_name(rest) and re.fullmatch(_JOB_TYPE, kind):
        return rest
    return parse_name(text)


def user_name(text: str) -> str:
    """Return the text if it can be the name of a user: at most 63 lower case letters, digits or `-`.

    Raises `click.BadParameter`.
    """
    if len(text) > _LONGEST_USER or not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", text, re.ASCII):
        raise click.BadParameter(
            f"{text!r} is no name of a user: use up to {_LONGEST_USER} lower case letters, digits and '-', "
            "and a letter or digit at both ends"
        )
    return text


def name_or_cron_job(text: str) -> str:
    """Return the name of a job, or `cronjob/NAME` if the text names the kind of a CronJob, in any spelling.

    Raises `click.BadParameter`.
    """
    kind, slash, _ = text.partition("/")
    name = parse_job_name(text)
    return f"cronjob/{name}" if slash and re.fullmatch(_CRON_JOB_TYPE, kind) else name


def name_or_queue(text: str) -> str:
    """Return the name of a job, `cronjob/NAME`, or `queue/NAME`. Raises `click.BadParameter`."""
    kind, slash, rest = text.partition("/")
    return f"queue/{parse_name(rest)}" if slash and kind == "queue" else name_or_cron_job(text)


def parse_quantity(text: str, resource: str = "cpu") -> str:
    """Return the text if it is a quantity of the resource in Kubernetes' notation. Raises `click.BadParameter`."""
    from muster.actions.parsing import quantities

    return _read(lambda quantity: quantities.check_quantity(quantity, resource), text)


def parse_gpu_quota(text: str) -> str:
    """Return a quota of GPUs. Raises `click.BadParameter`."""
    from muster.api.ours.gpus import NVIDIA_GPU

    return parse_quantity(text, NVIDIA_GPU)


def parse_weight(text: str) -> str:
    """Return the text if it is a weight for fair sharing, a number of at least 0, or empty.

    Raises `click.BadParameter`.
    """
    if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", text, re.ASCII) or not text:
        return text
    raise click.BadParameter(f"{text!r} is no weight such as 1, 2 or 0.5")


def parse_memory(text: str) -> str:
    """Return the text if it is an amount of memory, at least a megabyte or 0. Raises `click.BadParameter`."""
    from muster.actions.parsing import quantities

    return _read(quantities.check_memory, text)


def parse_worker_cpus(text: str) -> "Amount":
    """Return the request and the limit of a worker's CPUs from `REQUEST[:LIMIT]`. Raises `click.BadParameter`."""
    from muster.actions.parsing import quantities

    return _read(quantities.worker_cpus, text)


def parse_worker_memory(text: str) -> "Amount":
    """Return the request and the limit of a worker's memory from `REQUEST[:LIMIT]`. Raises `click.BadParameter`."""
    from muster.actions.parsing import quantities

    return _read(quantities.worker_memory, text)


def parse_gpus(text: str) -> int:
    """Return a whole number of GPUs. Raises `click.BadParameter`."""
    if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS:
        return int(text)
    if re.fullmatch(r"\d*\.\d+|\d+m", text):
        raise click.BadParameter(
            f"{text}: only whole GPUs can be requested; processes that share one run in one worker"
        )
    raise click.BadParameter(f"{text!r} is no number of GPUs")


def parse_duration(text: str) -> float:
    """Return a positive number of seconds from a text such as `90s`, `10m` or `2h`. Raises `click.BadParameter`."""
    from muster.api.values.durations import DurationError, parse_seconds

    try:
        number = parse_seconds(text)
    except DurationError:
        raise click.BadParameter(f"{text!r} is no time such as 90s, 10m or 2h") from None
    if number <= 0:
        raise click.BadParameter(f"{text} is not above 0")
    return number


def time_limit(text: str) -> int:
    """Return the time limit of a job in seconds. Raises `click.BadParameter`."""
    from muster.actions.parsing import limits

    return _read(limits.parse_time_limit, text)


def parse_schedule(text: str) -> str:
    """Return the text if it is a cron schedule that starts at least once, or empty. Raises `click.BadParameter`."""
    from muster.api.values.schedules import ScheduleError, parse
    from muster.runtime.realclock import RealClock

    try:
        never = bool(text) and parse(text).next(RealClock().now()) is None
    except ScheduleError as error:
        raise click.BadParameter(f"{text!r}: {error}; a schedule is such as '0 3 * * *' or @daily") from None
    if never:
        raise click.BadParameter(f"{text!r}: no date matches, so that the job would never start")
    return text


def _read(read: Callable[[str], T], text: str) -> T:
    """Parse a text with `read`. Raises `click.BadParameter` with the message of its error."""
    try:
        return read(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _is_name(text: str) -> bool:
    """Return whether the text can be one part of a path."""
    return text not in ("", ".", "..") and not set(text) & set("/%?# ")
