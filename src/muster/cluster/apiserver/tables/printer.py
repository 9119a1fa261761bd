"""The types `Printer` and `Column`, and the words, ages and cells that many kinds share. Pure.

Words and rules follow upstream's printers (k8s.io/kubernetes, pkg/printers/internalversion) and
k8s.io/apimachinery/pkg/util/duration.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from muster.api.core import Container
from muster.api.meta import LabelSelector, Struct
from muster.api.values.selectors import SelectorError, label_matcher

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"

Cells = list[str | int | bool | None]


class Column(Struct):
    """A column of a table. A column with a priority above 0 is shown only in the wide form."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class RowCondition(msgspec.Struct, frozen=True):
    """The condition `Completed` of a row, which lets clients leave the row out."""

    reason: str
    message: str


class Printer(msgspec.Struct, frozen=True):
    """The columns of a kind's tables, with the function that makes the cells of a row.

    cells: returns one value for each column, from an object and the time.
    completed: returns the condition of a finished object; None for others.
    reads: the type to which objects are decoded; None for the kind's type.
    """

    columns: tuple[Column, ...]
    cells: Callable[[Any, datetime], Cells]
    completed: Callable[[Any], RowCondition | None] = lambda _: None
    reads: type | None = None


NAME = Column(name="Name", format="name", description="Name must be unique within a namespace.")
AGE = Column(name="Age", description="Time since the object was created.")


def make_wide_column(name: str, description: str = "") -> Column:
    """Return a column of the wide form."""
    return Column(name=name, description=description, priority=1)


def make_text_column(name: str, description: str) -> Column:
    """Return a column of text."""
    return Column(name=name, description=description)


def format_age(since: datetime | None, now: datetime) -> str:
    """Return the time since a moment in readable form; `<unknown>` without a moment."""
    return format_duration(now - since) if since else UNKNOWN


def format_duration(duration: timedelta) -> str:
    """Return a duration in one or two units: `45s`, `2m30s`, `3h`, `2d4h`, `1y30d`.

    A negative duration above -2 s counts as 0, because clocks differ. A smaller duration is `<invalid>`.
    """
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return _join_units(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _join_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _join_units(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _join_units(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def make_container_cells(containers: Iterable[Container]) -> tuple[str, str]:
    """Return the names and the images of containers, each joined by commas."""
    pairs = [(container.name, container.image) for container in containers]
    return ",".join(name for name, _ in pairs), ",".join(image for _, image in pairs)


def format_labels(labels: Mapping[str, str]) -> str:
    """Return labels as `a=b,c=d`; `<none>` without labels."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def format_selector(selector: LabelSelector | None) -> str:
    """Return a label selector in its text form; `<none>` without a selector."""
    if selector is None:
        return NONE
    try:
        return str(label_matcher(selector)) or NONE
    except SelectorError:
        return "<error>"


def _join_units(major: int, major_unit: str, minor: int, minor_unit: str) -> str:
    return f"{major}{major_unit}{minor}{minor_unit}" if minor else f"{major}{major_unit}"
