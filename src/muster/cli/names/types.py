"""Words of the command line that could be taken for something else, as types of click's arguments and options."""

import click

# What kubectl puts in front of the name of a job.
_JOB = (
    "job", "jobs", "job.batch", "jobs.batch", "jobset", "jobsets", "jobset.jobset.x-k8s.io", "jobsets.jobset.x-k8s.io"
)  # fmt: skip

_LEAST_MEMORY = 1_000_000


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
    from muster.api.quantity import QuantityError, parse

    try:
        below = parse(text) < 0
    except QuantityError:
        raise click.BadParameter(f"{text!r} is no quantity, as 8, 500m or 32Gi") from None
    if below:
        raise click.BadParameter(f"{text} is below 0")
    return text


def memory(text: str) -> str:
    """An amount of memory. Without a unit it is bytes: so few as no program has are a unit that was forgotten.

    Raises `click.BadParameter`.
    """
    from muster.api.quantity import parse

    if 0 < parse(quantity(text)) < _LEAST_MEMORY:
        raise click.BadParameter(f"{text} is less than a megabyte; say it with a unit, as 512Mi or 4Gi")
    return text


def _is_name(text: str) -> bool:
    """Whether it can be one part of a path."""
    return text not in ("", ".", "..") and not set(text) & set("/%?# ")
