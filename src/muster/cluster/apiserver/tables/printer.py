"""What a table's column is, and the words and ages that many cells share.

Words and rules are those of upstream's printers (k8s.io/kubernetes, pkg/printers/internalversion) and of
k8s.io/apimachinery/pkg/util/duration.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from muster.api.core import Container
from muster.api.meta import LabelSelector, ObjectMeta, Struct
from muster.api.values.selectors import SelectorError, label_matcher

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"

Cells = list[str | int | bool | None]


class Column(Struct):
    """A column. Those with priority 0 are always shown, others only in the wide form."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class RowCondition:
    """Something that sets a row apart: clients may leave out rows that are `Completed`."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Printer:
    """How the objects of a kind are printed.

    columns: what is printed.
    cells: one value for each column, of an object at a time.
    completed: says that, and how, an object has run its course.
    reads: the type as which objects are decoded, if not their kind's.
    """

    columns: tuple[Column, ...]
    cells: Callable[[Any, datetime], Cells]
    completed: Callable[[Any], RowCondition | None] = lambda _: None
    reads: type | None = None


NAME = Column(name="Name", format="name", description="Name must be unique within a namespace.")
AGE = Column(name="Age", description="Time since the object was created.")


def wide(name: str, description: str = "", type: str = "string") -> Column:
    """A column of the wide form."""
    return Column(name=name, type=type, description=description, priority=1)


def text(name: str, description: str) -> Column:
    """A column of texts."""
    return Column(name=name, description=description)


def created(meta: ObjectMeta, now: datetime) -> str:
    """How old an object is, for people."""
    return age(meta.creation_timestamp, now)


def age(since: datetime | None, now: datetime) -> str:
    """How long ago, for people."""
    return human_duration(now - since) if since else UNKNOWN


def human_duration(duration: timedelta) -> str:
    """Two or three significant figures of a duration: `45s`, `2m30s`, `3h`, `2d4h`, `1y30d`.

    A little less than nothing is nothing (clocks differ); more than that is `<invalid>`.
    """
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return _joined(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _joined(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _joined(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _joined(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def container_cells(containers: Iterable[Container]) -> tuple[str, str]:
    """Names and images."""
    pairs = [(container.name, container.image) for container in containers]
    return ",".join(name for name, _ in pairs), ",".join(image for _, image in pairs)


def labels_cell(labels: Mapping[str, str]) -> str:
    """Labels as `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def selector_cell(selector: LabelSelector | None) -> str:
    """A selector in its text form."""
    if selector is None:
        return NONE
    try:
        return str(label_matcher(selector)) or NONE
    except SelectorError:
        return "<error>"


def _joined(major: int, major_unit: str, minor: int, minor_unit: str) -> str:
    return f"{major}{major_unit}{minor}{minor_unit}" if minor else f"{major}{major_unit}"
