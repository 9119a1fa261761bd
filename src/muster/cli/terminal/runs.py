"""What ran, as a table and as CSV. Names, commands and reasons are others' texts: none of it can steer a terminal."""

import csv
import io
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from muster.insight.runs import Run, row
from muster.insight.text import GAP, plain, quantity, rough, table

# Heading, and what stands below it.
_COLUMNS = {
    "SUBMITTED": "submitted", "NAME": "name", "STATE": "state", "EXIT": "exitCode", "OWNER": "owner", "QUEUE": "queue",
    "WAITED": "waitedSeconds", "TIME": "runSeconds",
}  # fmt: skip
_WIDE = {
    "STARTED": "started", "ENDED": "ended", "PODS": "workers", "RESTARTS": "restarts", "CPU": "cpuSeconds",
    "MEMORY": "memoryBytes", "NODES": "nodes",
}  # fmt: skip

# What is left off where a terminal has no room for it, the first first.
_SPARE = ("WAITED", "QUEUE", "OWNER", "EXIT")

# Of a command, no more and no less is shown where others stand beside it, as the terminal has room.
_MOST_COMMAND, _LEAST_COMMAND = 40, 12

# What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@")

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def as_table(rows: Sequence[dict[str, Any]], *, everywhere: bool, wide: bool, width: int = 0) -> str:
    """Lines for people, times in their zone. width: of the terminal; 0 where there is none, and all columns are shown.

    A terminal shows times of the day without seconds, unless it is to be wide.
    """
    columns = ({"NAMESPACE": "namespace"} if everywhere else {}) | _COLUMNS | (_WIDE if wide else {})
    short = bool(width) and not wide
    cells = {name: [_cell(field, one[field], short=short) for one in rows] for name, field in columns.items()}
    taken = {name: max(map(len, (name, *column))) + GAP for name, column in cells.items()}
    for name in _SPARE:
        if short and sum(taken.values()) + _LEAST_COMMAND > width:
            del cells[name], taken[name]
    room = width - sum(taken.values()) if short else _MOST_COMMAND
    most = None if wide else max(min(room, _MOST_COMMAND), _LEAST_COMMAND)
    commands = [_cut(_cell("command", one["command"]), most) for one in rows]
    whole = cells | {"COMMAND": commands, "REASON": [_cell("reason", one["reason"]) for one in rows]}
    return table(list(whole), list(zip(*whole.values(), strict=True)), width=width)


def _cut(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """A line of names, and one for each run: times in UTC, text without what a spreadsheet would take for a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(row(Run("", "", "", "", "Completed", _EPOCH, _EPOCH)))
    writer.writerows([_value(value) for value in one.values()] for one in rows)
    return out.getvalue()


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    if value is None or isinstance(value, int | float):
        return "" if value is None else str(value)
    text = plain(" ".join(value) if isinstance(value, list) else value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _cell(field: str, value: Any, *, short: bool = False) -> str:
    if value in (None, "", []):
        return "" if field == "reason" else "-"
    if isinstance(value, datetime):
        return f"{value.astimezone():%Y-%m-%d %H:%M{'' if short else ':%S'}}"
    match field:
        case "waitedSeconds" | "runSeconds":
            return rough(value)
        case "cpuSeconds":
            return f"{value:.1f}s" if value < 100 else rough(int(value))
        case "memoryBytes":
            return quantity("memory", value)
        case "nodes":
            return ",".join(value)
    return plain(str(value))
